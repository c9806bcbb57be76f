"""Data sets whose authors give one split into training, validation and test part."""

from collections.abc import Sequence
from typing import Any

from torch_geometric.data import Data

from ssma.data.graphs import Graphs
from ssma.errors import StudyError
from ssma.study.records import PARTS


def join_parts(name: str, parts: Sequence[Sequence[Data]], sizes: tuple[int, int, int]) -> dict[str, Any]:
    """Returns ``graphs``, ``split`` and ``dropped_graphs`` of a ``Loaded``: the parts one after another.

    Graphs without nodes are left out here, since the split counts the graphs that remain.

    Args:
        parts: Training, validation and test graphs.
        sizes: How many of each the data set has.

    Raises:
        StudyError: If there are other numbers of graphs, or if they are not in order.
    """
    found = tuple(map(len, parts))
    if found != sizes:
        raise StudyError(
            f"data set {name}: got {'/'.join(map(str, found))} graphs for training/validation/test but expected "
            f"{'/'.join(map(str, sizes))}; the raw files are those of another variant or incomplete, fetch them again"
        )
    kept = [[data for data in part if data.num_nodes] for part in parts]
    graphs, _ = Graphs.from_data_list([data for part in kept for data in part])
    split, start = {}, 0
    for part, items in zip(PARTS, kept, strict=True):
        split[part] = list(range(start, start + len(items)))
        start += len(items)
    return {"graphs": graphs, "split": split, "dropped_graphs": sum(found) - start}


def refuse_one_for_two(name: str, hashes: dict[str, str]) -> None:
    """Refuses raw files of which two are the same: one part would stand for another, such as validation for test.

    Args:
        hashes: Name -> hash of every raw file.

    Raises:
        StudyError: If two files are the same; the message names them.
    """
    seen: dict[str, str] = {}
    for file, found in hashes.items():
        if found in seen:
            raise StudyError(
                f"data set {name}: {seen[found]} and {file} are the same, so that one part of the split would be the "
                "other one; fetch them again"
            )
        seen[found] = file
