r"""ZINC, the subset of 12,000 molecules, by PyG's ``ZINC(subset=True)``.

The task is the constrained solubility of a molecule, as `"Benchmarking Graph Neural Networks"
<https://arxiv.org/abs/2003.00982>`_ set it up.
"""

from pathlib import Path
from typing import Any

from ssma.data.loaded import Loaded
from ssma.data.official import join_parts, refuse_one_for_two
from ssma.data.raw import Origin, provide, reading
from ssma.study.ids import file_fingerprint

SIZES = (10_000, 1_000, 1_000)
ATOM_TYPES, BOND_TYPES = 28, 4  # of the data set's own dictionaries; the subset has 21 and 3 of them
RECOMPUTED = "e66b7e15be87b017c18dbf9501f1f08da03d9c0247051910730262520f7008c4"
FILES = tuple(f"raw/{part}.{kind}" for kind in ("pickle", "index") for part in ("train", "val", "test"))
DOWNLOADS = {
    "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1": lambda member: (
        f"raw/{Path(member).name}" if member.endswith(".pickle") else None
    ),
} | {
    f"https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/molecules/{part}.index": (
        f"raw/{part}.index"
    )
    for part in ("train", "val", "test")
}
ORIGIN = Origin("ZINC", "ZINC", FILES, DOWNLOADS)


def load(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Reads ``<mirror>/ZINC/raw``, or downloads it when there is no mirror. There is nothing to choose in ``spec``.

    Atom and bond types are categorical; the target stays as it is.

    Raises:
        StudyError: If files are missing or cannot be read, or are not those of the subset.
    """
    folder = work / "ZINC"
    provide(ORIGIN, folder, mirror)
    hashes = {file: file_fingerprint(folder / file) for file in FILES}
    refuse_one_for_two("ZINC", hashes)
    with reading("ZINC", folder, folder / "subset"):
        from torch_geometric.datasets.zinc import ZINC

        parts = [list(ZINC(str(folder), subset=True, split=part)) for part in ("train", "val", "test")]
    notes = ["variant: the 12k subset with its official split"]
    if hashes["raw/train.pickle"] == RECOMPUTED:
        notes.append("bond types and targets of the training part were recomputed from the molecules")
    return Loaded(
        **join_parts("ZINC", parts, SIZES),
        level="graph",
        task="regression",
        metric="mae",
        num_outputs=1,
        features="atom type",
        vocabulary={"x": [ATOM_TYPES], "edge_attr": [BOND_TYPES]},
        raw_files=hashes,
        notes=notes,
    )
