r"""Molecules of the `"Open Graph Benchmark" <https://arxiv.org/abs/2005.00687>`_, by its own loader."""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ssma.data.loaded import Loaded
from ssma.data.official import join_parts
from ssma.data.raw import Origin, allow_graphs, provide, reading
from ssma.errors import StudyError
from ssma.study.cost import counted
from ssma.study.ids import file_fingerprint

FEATURES = "atom features of OGB"
SIZES = {"ogbg-molhiv": (32_901, 4_113, 4_113), "ogbg-molpcba": (350_343, 43_793, 43_793)}
METRICS = {"ogbg-molhiv": "auroc", "ogbg-molpcba": "ap"}
ROWS = {"num-node-list": ("node-feat",), "num-edge-list": ("edge", "edge-feat")}
"""Table of sizes of graphs -> the tables that have as many rows as these sizes say together."""
PARTS_OF_OGB = {"train": "train", "validation": "valid", "test": "test"}
SPLIT = "split/scaffold"
FILES = (
    "RELEASE_v1.txt",  # without it the loader asks a question at the terminal
    *(f"raw/{table}.csv.gz" for sizes, tables in ROWS.items() for table in (sizes, *tables)),
    "raw/graph-label.csv.gz",
    *(f"{SPLIT}/{part}.csv.gz" for part in PARTS_OF_OGB.values()),
)
URL = "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/{}.zip"


def load(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Reads ``<mirror>/OGB/<name with _ for ->``, or downloads it when there is no mirror.

    ``spec``: ``name``. Missing labels are NaN.

    Raises:
        StudyError: If files are missing or cannot be read, or are not those of the data set.
    """
    name = spec["name"]
    folder = work / name.replace("-", "_")
    downloads = {URL.format(name.removeprefix("ogbg-mol")): without_top_folder}
    provide(Origin(name, f"OGB/{folder.name}", FILES, downloads), folder, mirror)
    hashes = {file: file_fingerprint(folder / file) for file in FILES}
    with reading(name, folder, folder / "processed"):
        import_ogb()
        from ogb.graphproppred import PygGraphPropPredDataset

        allow_graphs()
        check_rows(name, folder, ROWS)
        dataset = PygGraphPropPredDataset(name, str(work))
        data_list = [data for data in dataset]
        for data in data_list:
            data.y = data.y.float()
        numbers = list(read_split(folder / SPLIT).values())
        parts = [[data_list[number] for number in part] for part in numbers]
    if len(set().union(*numbers)) != sum(map(len, numbers)):
        raise StudyError(
            f"data set {name}: the split in {(folder / 'split').resolve()} names a graph twice; fetch it again"
        )
    return Loaded(
        **join_parts(name, parts, SIZES[name]),
        level="graph",
        task="multilabel",
        metric=METRICS[name],
        num_outputs=data_list[0].y.size(1),
        features=FEATURES,
        vocabulary=molecule_vocabulary(),
        raw_files=hashes,
    )


def check_rows(name: str, folder: Path, tables: dict[str, tuple[str, ...]]) -> None:
    """Refuses raw tables that are longer or shorter than the sizes of the graphs say: OGB's loader takes as many rows
    as it finds, and no more than these.

    Args:
        tables: As ``ROWS``.

    Raises:
        StudyError: If there is one.
    """
    for sizes, others in tables.items():
        expected = sum(map(int, _lines(folder / f"raw/{sizes}.csv.gz")))
        for other in others:
            table = folder / f"raw/{other}.csv.gz"
            if _ends_of_lines(table) == expected:
                continue
            if (found := sum(1 for _ in _lines(table))) != expected:
                raise StudyError(
                    f"data set {name}: {other}.csv.gz has {counted(found, 'row')} but {sizes}.csv.gz says {expected}; "
                    f"the files in {(folder / 'raw').resolve()} are incomplete or of different variants, fetch "
                    "them again"
                )


def read_split(folder: Path) -> dict[str, list[int]]:
    """Returns the numbers of each part of a split, from its tables: OGB's loader would take those of a file
    ``split_dict.pt`` beside them, if there is one.
    """
    return {part: list(map(int, _lines(folder / f"{theirs}.csv.gz"))) for part, theirs in PARTS_OF_OGB.items()}


def _ends_of_lines(path: Path) -> int:
    """Returns the number of lines, empty ones too, but for a last one without an end; tables have up to 10**8."""
    with gzip.open(path) as table:
        return sum(block.count(b"\n") for block in iter(lambda: table.read(2**20), b""))


def _lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of a table, without empty ones."""
    with gzip.open(path) as table:
        yield from (line for line in table if not line.isspace())


def molecule_vocabulary() -> dict[str, list[int]]:
    """Returns how many codes each column of OGB's atom and bond features has."""
    import_ogb()
    from ogb.utils.features import get_atom_feature_dims, get_bond_feature_dims

    return {"x": get_atom_feature_dims(), "edge_attr": get_bond_feature_dims()}


def import_ogb() -> None:
    """Imports ogb without its look for a newer version: a network access, in a thread that outlives the job."""
    if "ogb" not in sys.modules:
        known = sys.modules.get("outdated")
        sys.modules["outdated"] = None
        import ogb  # noqa: F401

        del sys.modules["outdated"]
        if known is not None:
            sys.modules["outdated"] = known


def without_top_folder(member: str) -> str | None:
    """Returns the path of an archive's member below its top folder; None for a folder or a path that leads out."""
    path = Path(*Path(member).parts[1:])
    return None if member.endswith("/") or ".." in path.parts else str(path)
