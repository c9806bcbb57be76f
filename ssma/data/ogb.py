r"""Molecules of the `"Open Graph Benchmark" <https://arxiv.org/abs/2005.00687>`_, by its own loader."""

import sys
from pathlib import Path
from typing import Any

from ssma.data.loaded import Loaded
from ssma.data.official import join_parts
from ssma.data.raw import Origin, allow_graphs, provide, reading
from ssma.errors import StudyError
from ssma.study.ids import file_fingerprint

FEATURES = "atom features of OGB"
SIZES = {"ogbg-molhiv": (32_901, 4_113, 4_113), "ogbg-molpcba": (350_343, 43_793, 43_793)}
METRICS = {"ogbg-molhiv": "auroc", "ogbg-molpcba": "ap"}
RAW = ("edge", "edge-feat", "graph-label", "node-feat", "num-edge-list", "num-node-list")
FILES = (
    "RELEASE_v1.txt",  # without it the loader asks a question at the terminal
    *(f"raw/{file}.csv.gz" for file in RAW),
    *(f"split/scaffold/{part}.csv.gz" for part in ("train", "valid", "test")),
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
        dataset = PygGraphPropPredDataset(name, str(work))
        data_list = [data for data in dataset]
        for data in data_list:
            data.y = data.y.float()
        numbers = [dataset.get_idx_split()[part].tolist() for part in ("train", "valid", "test")]
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
