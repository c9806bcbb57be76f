"""The text files of a set in the format of the TU collection, read as they are written.

PyG's reader adds up the one-hot labels of an edge that is listed twice, and is silent on files of unequal length.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, remove_self_loops

from ssma.data.checks import lost_digits
from ssma.data.graphs import pointer
from ssma.errors import StudyError
from ssma.study.cost import counted

EXACT = 2**53  # below it every whole number is a float64 of its own
ONE_HOT_NUMBERS = 2**31  # 8 GB of float32


@dataclass(frozen=True, eq=False)
class TextSet:
    """What the files say.

    Args:
        data_list: The graphs; ``x`` holds the attributes of the nodes, then their one-hot labels; ``edge_attr`` the
            one-hot labels of the edges, or None.
        attributes: Columns of ``x`` that are attributes.
        labels: The classes of the graphs in rising order; empty where they have real targets.
        notes: What was left out or lost.
        read: Names of the files.
    """

    data_list: list[Data]
    attributes: int
    labels: list[int]
    notes: list[str]
    read: set[str]


def read_text_set(raw: Path, name: str, use_attributes: bool, use_labels: bool) -> TextSet:
    """Reads ``<NAME>_*.txt`` in ``raw``. Self-loops are left out; of an edge that is listed again one is kept, which
    has all labels of the listed ones. Continuous edge attributes are not read, nor labels of nodes unless
    ``use_labels``; attributes of nodes may be any numbers unless ``use_attributes``.

    Raises:
        StudyError: If the files cannot be read or do not belong together; the message names the file.
    """
    files = _Files(raw, name)
    owner = files.whole("graph_indicator", columns=1).flatten() - 1
    if owner.numel() == 0 or int(owner.min()) < 0:
        raise StudyError(f"{files.path('graph_indicator')}: it must number the graphs of the nodes from 1")
    if bool((owner.diff() < 0).any()):
        raise StudyError(f"{files.path('graph_indicator')}: it is not sorted; sort the nodes by graph")
    y, labels = _targets(files, owner)
    sizes = torch.bincount(owner)
    edge_index, edge_labels, notes = _edges(files, owner)
    attributes = files.real("node_attributes", owner.numel(), "nodes", "finite" if use_attributes else "any")
    node_labels = files.one_hot("node_labels", owner.numel(), "nodes") if use_labels else None
    columns = [table for table in (attributes, node_labels) if table is not None]
    x = torch.cat([torch.empty(owner.numel(), 0), *columns], dim=1)
    edge_owner = owner[edge_index[0]]
    local = edge_index - pointer(sizes)[edge_owner]
    node_counts, edge_counts = sizes.tolist(), torch.bincount(edge_owner, minlength=sizes.numel()).tolist()
    parts = zip(
        x.split(node_counts),
        local.split(edge_counts, dim=1),
        [None] * len(node_counts) if edge_labels is None else edge_labels.split(edge_counts),
        y,
        strict=True,
    )
    data_list = [Data(own_x, own_edges, own_labels, own_y) for own_x, own_edges, own_labels, own_y in parts]
    return TextSet(data_list, 0 if attributes is None else attributes.size(1), labels, notes + files.notes, files.read)


class _Files:
    """The files of one set, each read as a table of numbers."""

    def __init__(self, raw: Path, name: str) -> None:
        self.raw, self.name = raw, name
        self.read: set[str] = set()
        self.notes: list[str] = []

    def path(self, part: str) -> Path:
        return self.raw / f"{self.name}_{part}.txt"

    def line(self, part: str, row: int) -> str:
        """Returns the file and the number of the line that a row of its table was read from."""
        return f"{self.path(part)}: line {_filled_lines(self.path(part))[row][0]}"

    def whole(self, part: str, columns: int | None = None, rows: int | None = None, of: str = "") -> Tensor:
        """Returns whole numbers, int64 [rows, columns]; 1.0 is one too, as NumPy writes it."""
        table = self._table(part, "whole numbers", columns, rows, of)
        wrong = ~((table == table.round()) & (table.abs() < EXACT)).all(dim=1)
        if bool(wrong.any()):
            row = int(wrong.nonzero()[0])
            raise StudyError(f"{self.line(part, row)} is {table[row].tolist()}, not whole numbers below 2**53")
        return table.long()

    def real(self, part: str, rows: int, of: str, allowed: str) -> Tensor | None:
        """Returns real numbers, float32 [rows, columns], or None without the file; ``allowed`` are ``any``, those that
        are ``finite`` as float32, or these and ``nan``.
        """
        if not self.path(part).is_file():
            return None
        table = self._table(part, "numbers", None, rows, of)
        wrong = ~table.float().isfinite() & ~(table.isnan() & (allowed == "nan"))
        if allowed != "any" and bool(wrong.any()):
            row, column = wrong.nonzero()[0].tolist()
            raise StudyError(
                f"{self.line(part, row)} holds {table[row, column].item()}, which is not finite as float32; mend the "
                "data set"
            )
        self.notes += lost_digits(self.path(part).name, table)
        return table.float()

    def one_hot(self, part: str, rows: int, of: str) -> Tensor | None:
        """Returns labels, each column one-hot from its smallest to its largest, float32, or None without the file."""
        if not self.path(part).is_file():
            return None
        labels = self.whole(part, None, rows, of)
        if rows == 0:
            return None
        low, high = labels.amin(0).tolist(), labels.amax(0).tolist()
        if rows * sum(end - start + 1 for start, end in zip(low, high, strict=True)) > ONE_HOT_NUMBERS:
            raise StudyError(
                f"{self.path(part)}: got labels from {min(low)} to {max(high)}; one-hot they are too many columns for "
                f"{rows} {of}; number the labels from 0 without gaps"
            )
        return torch.cat([one_hot(column - column.min()) for column in labels.unbind(1)], 1).float()

    def _table(self, part: str, what: str, columns: int | None, rows: int | None, of: str) -> Tensor:
        path = self.path(part)
        self.read.add(path.name)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "loadtxt: input contained no data")
                table = np.loadtxt(path, comments=None, delimiter=",", ndmin=2, encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            reason = _wrong_line(path) or error if type(error) is ValueError else error  # not one of Unicode
            raise StudyError(
                f"{path}: cannot be read ({reason}); it must hold {what} with commas between them, as many in every "
                f"line"
            ) from error
        if table.size and columns is not None and table.shape[1] != columns:
            raise StudyError(f"{path}: got {counted(table.shape[1], 'number')} in a line but expected {columns}")
        if rows is not None and len(table) != rows:
            raise StudyError(f"{path}: got {counted(len(table), 'line')} but expected {rows}, one for each of the {of}")
        return torch.from_numpy(table)


def _filled_lines(path: Path) -> list[tuple[int, str]]:
    """Returns the lines of a file with their numbers, but for empty ones, which NumPy leaves out."""
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    return [(number, line) for number, line in enumerate(lines, 1) if line]


def _wrong_line(path: Path) -> str:
    """Returns in words the first line that is not as many numbers as the first one, or nothing."""
    lines = _filled_lines(path)
    for number, line in lines:
        try:
            values = [float(entry.replace("_", "?")) for entry in line.split(",")]  # NumPy reads no 1_000
        except ValueError:
            values = []
        if len(values) != lines[0][1].count(",") + 1:
            return f"line {number} is {line[:80]!r}"
    return ""


def _edges(files: _Files, owner: Tensor) -> tuple[Tensor, Tensor | None, list[str]]:
    """Returns the edges between nodes numbered over all graphs, sorted by source, their labels, and notes."""
    listed = files.whole("A", columns=2).reshape(-1, 2).t() - 1
    labels = files.one_hot("edge_labels", listed.size(1), "edges")
    wrong = ((listed < 0) | (listed >= owner.numel())).any(dim=0)
    if not bool(wrong.any()):
        wrong = owner[listed[0]] != owner[listed[1]]
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise StudyError(
            f"{files.line('A', row)} is the edge {', '.join(map(str, (listed[:, row] + 1).tolist()))}; an "
            f"edge joins two nodes of one graph, and the nodes are 1 to {owner.numel()}"
        )
    edges, labels = remove_self_loops(listed, labels)
    loops, before = listed.size(1) - edges.size(1), edges.size(1)
    edges, labels = coalesce(edges, labels, owner.numel(), reduce="max")
    if edges.size(1) < before and bool((owner[edges[0]] == 0).all()) and int(owner[-1]) > 0:
        raise StudyError(
            f"{files.path('A')}: all edges are of the first graph, and some are repeated; number the nodes over all "
            f"graphs, not from 1 in each"
        )
    counts = {"self-loops": loops, "repeated edges": before - edges.size(1)}
    left_out = [f"{count} {what}" for what, count in counts.items() if count]
    return edges, labels, [f"edges: {' and '.join(left_out)} were left out"] if left_out else []


def _targets(files: _Files, owner: Tensor) -> tuple[Tensor, list[int]]:
    """Returns a row of real targets, or a class from 0, for each graph; and the labels of the classes, which are those
    of graphs with nodes: the others are dropped."""
    graphs = int(owner[-1]) + 1
    targets = files.real("graph_attributes", graphs, "graphs", "nan")
    if targets is not None:
        return targets, []
    if not files.path("graph_labels").is_file():
        raise StudyError(f"{files.path('graph_labels')}: missing; it holds the class of each graph")
    labels = files.whole("graph_labels", 1, graphs, "graphs").flatten()
    classes = labels[owner.unique()].unique()
    return torch.searchsorted(classes, labels), classes.tolist()
