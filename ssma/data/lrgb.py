r"""Peptides of the `"Long Range Graph Benchmark" <https://arxiv.org/abs/2206.08164>`_, by PyG's ``LRGBDataset``."""

from pathlib import Path
from typing import Any

from ssma.data.loaded import Loaded
from ssma.data.official import join_parts, refuse_one_for_two
from ssma.data.ogb import FEATURES, molecule_vocabulary
from ssma.data.raw import Origin, check_sums, provide, reading
from ssma.errors import StudyError
from ssma.study.ids import file_fingerprint

SIZES = (10_873, 2_331, 2_331)
FILES = ("raw/train.pt", "raw/val.pt", "raw/test.pt")
URLS = {
    "Peptides-func": "https://www.dropbox.com/s/ycsq37q8sxs1ou8/peptidesfunc.zip?dl=1",
    "Peptides-struct": "https://www.dropbox.com/s/zgv4z8fcpmknhs8/peptidesstruct.zip?dl=1",
}
TASKS = {"Peptides-func": ("multilabel", "ap", 10), "Peptides-struct": ("regression", "mae", 11)}


def load(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Reads ``<mirror>/LRGB/<name in small letters>/raw``, or downloads it when there is no mirror.

    ``spec``: ``name``; ``loss`` of Peptides-struct, ``l1`` or ``mse``, else None.

    Raises:
        StudyError: If files are missing or cannot be read, or are not those of the data set.
    """
    name = spec["name"]
    task, metric, outputs = TASKS[name]
    folder = work / name.lower()
    downloads = {URLS[name]: lambda member: f"raw/{Path(member).name}" if member.endswith(".pt") else None}
    provide(Origin(name, f"LRGB/{name.lower()}", FILES, downloads), folder, mirror)
    hashes = {file: file_fingerprint(folder / file) for file in FILES}
    refuse_one_for_two(name, hashes)
    with reading(name, folder, folder / "processed"):
        from torch_geometric.datasets.lrgb import LRGBDataset

        for file in FILES:
            check_sums(folder / file)
        parts = [list(LRGBDataset(str(work), name, split=part)) for part in ("train", "val", "test")]
    loaded = Loaded(
        **join_parts(name, parts, SIZES),
        level="graph",
        task=task,
        metric=metric,
        num_outputs=outputs,
        features=FEATURES,
        loss=spec["loss"],
        vocabulary=molecule_vocabulary(),
        raw_files=hashes,
    )
    if list(loaded.graphs.y.shape[1:]) != [outputs]:
        raise StudyError(
            f"data set {name}: got targets of shape {list(loaded.graphs.y.shape)} but expected {outputs} columns; the "
            f"files in {(folder / 'raw').resolve()} are those of another data set"
        )
    return loaded
