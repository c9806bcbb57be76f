"""Many graphs as a few long tensors, checked once."""

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from ssma.errors import StudyError
from ssma.study.records import write_atomic


@dataclass(frozen=True, eq=False)
class Graphs:
    """Pre-collated graphs; graph ``g`` owns the nodes ``node_ptr[g]:node_ptr[g + 1]``, and its edges likewise.

    The edges of a graph are put in the order of their targets; edges of one target keep their order.

    Shapes: ``x`` [num_nodes, F] float32, or [num_nodes, C] int64 when the columns are categorical codes;
    ``edge_index`` [2, E] int64 with node numbers local to their graph; ``edge_attr`` [E, D] float32 or int64, or None;
    ``y`` int64 [G] or [num_nodes] for classes, float32 [G, T] or [num_nodes, T] for real targets and multiple labels
    (NaN: missing);
    ``part`` int64 [num_nodes], the part of each node of one graph that is cut into parts, or None. ``numbers`` are
    those of the graphs in messages, from 0 by default.

    Raises:
        StudyError: If shapes, types or ranges are wrong; the message names the graph.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    y: Tensor
    node_ptr: Tensor
    edge_ptr: Tensor
    part: Tensor | None = None
    numbers: InitVar[Sequence[int] | None] = None

    def __post_init__(self, numbers: Sequence[int] | None) -> None:
        graphs, nodes, edges = self.num_graphs, self.x.size(0), self.edge_index.size(1)
        _require(graphs > 0, "there is no graph")
        numbers = numbers or range(graphs)
        _require(int(self.node_ptr[-1]) == nodes, f"node_ptr ends at {int(self.node_ptr[-1])} but x has {nodes} rows")
        _require(int(self.edge_ptr[-1]) == edges, f"edge_ptr ends at {int(self.edge_ptr[-1])}, not at {edges} edges")
        _require(self.edge_index.dtype == torch.int64, f"edge_index is {self.edge_index.dtype}, expected int64")
        _check_features("x", self.x, nodes, self.node_ptr, numbers)
        if self.edge_attr is not None:
            _check_features("edge_attr", self.edge_attr, edges, self.edge_ptr, numbers)
        of_items = self.y.dim() > 0 and self.y.size(0) in (graphs, nodes)
        classes = self.y.dtype == torch.int64 and self.y.dim() == 1 and of_items
        targets = self.y.dtype == torch.float32 and self.y.dim() == 2 and of_items
        _require(
            classes or targets,
            f"y is {self.y.dtype} of shape {list(self.y.shape)}, expected int64 [{graphs}] or [{nodes}] (classes) or "
            f"float32 [{graphs}, T] or [{nodes}, T] (real targets, multiple labels)",
        )
        _require(not classes or int(self.y.min()) >= 0, "a class number in y is negative")
        infinite = self.y.isinf().any(dim=-1).nonzero().flatten().tolist() if targets else []
        if infinite:
            item = f"graph {numbers[infinite[0]]}" if self.y.size(0) == graphs else f"node {infinite[0]}"
            raise StudyError(
                f"{item}: y holds {self.y[infinite[0]].tolist()}; allowed are numbers that are "
                "finite as float32, and NaN where they are missing; mend the data set"
            )
        unknown = self.y.isnan().all(dim=0).nonzero().flatten().tolist() if targets else []
        _require(not unknown, f"y has no known value in column {', '.join(map(str, unknown))}")
        if self.part is not None:
            self._check_parts()
        size = torch.repeat_interleave(self.node_ptr.diff(), self.edge_ptr.diff())
        wrong = ((self.edge_index < 0) | (self.edge_index >= size)).any(dim=0)
        if bool(wrong.any()):
            edge = int(wrong.nonzero()[0])
            raise StudyError(
                f"graph {_owner(self.edge_ptr, edge)}: edge_index holds "
                f"{self.edge_index[:, edge].tolist()}, but its nodes "
                f"are 0..{int(size[edge]) - 1}; mend the data set's edges"
            )
        self._sort_edges()

    def _check_parts(self) -> None:
        shape, graphs, nodes = list(self.part.shape), self.num_graphs, self.num_nodes
        _require(
            self.part.dtype == torch.int64 and shape == [nodes] and graphs == 1,
            f"part is {self.part.dtype} of shape {shape} for {graphs} graphs of {nodes} nodes together, expected int64 "
            f"[nodes] for one graph",
        )
        empty = (self.part.bincount() == 0).nonzero().flatten().tolist() if int(self.part.min()) >= 0 else [-1]
        _require(not empty, f"part numbers the parts from 0 and each has a node, but {empty} has none")

    def _sort_edges(self) -> None:
        target = self.ends(1)
        if bool((target.diff() >= 0).all()):
            return
        order = target.argsort(stable=True)
        object.__setattr__(self, "edge_index", self.edge_index[:, order])
        if self.edge_attr is not None:
            object.__setattr__(self, "edge_attr", self.edge_attr[order])

    def ends(self, side: int) -> Tensor:
        """Returns the source (0) or target (1) of every edge, numbered over all graphs, int64 [E]."""
        return self.edge_index[side] + torch.repeat_interleave(self.node_ptr[:-1], self.edge_ptr.diff())

    @property
    def num_graphs(self) -> int:
        return self.node_ptr.numel() - 1

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)

    @property
    def num_edges(self) -> int:
        return self.edge_index.size(1)

    def in_degrees(self) -> Tensor:
        """Returns the number of incoming edges of every node, int64 [num_nodes]."""
        return torch.bincount(self.ends(1), minlength=self.num_nodes)

    def out_degrees(self) -> Tensor:
        """Returns the number of outgoing edges of every node, int64 [num_nodes]."""
        return torch.bincount(self.ends(0), minlength=self.num_nodes)

    def save(self, path: Path) -> None:
        """Writes the tensors as a plain dict, whole or not at all."""
        buffer = io.BytesIO()
        torch.save({field.name: getattr(self, field.name) for field in fields(self)}, buffer)
        write_atomic(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Graphs":
        """Reads what ``save`` wrote; never unpickles code.

        Raises:
            StudyError: If the file is damaged.
        """
        try:
            tensors = torch.load(path, weights_only=True)
        except Exception as error:  # a damaged file makes torch.load raise nearly anything, and advise anything
            raise StudyError(
                f"{path}: damaged ({type(error).__name__}); delete {path.parent} to have it made again"
            ) from error
        return cls(**tensors)

    def content_hash(self) -> str:
        """Returns the SHA-256 over names, types, shapes and bytes of the tensors."""
        sha = hashlib.sha256()
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                sha.update(f"{field.name} {value.dtype} {list(value.shape)}\n".encode())
                sha.update(value.contiguous().numpy().tobytes())
        return sha.hexdigest()

    @classmethod
    def from_data_list(cls, data_list: list[Data], level: str = "graph") -> tuple["Graphs", int]:
        """Collates PyG graphs; returns them and the number of graphs without nodes, which are dropped.

        An edge list without edges may be ``[]`` or of any type: it becomes int64 [2, 0]. An ``edge_attr`` without
        columns is none. The tensors of the graphs may lie on any device and belong to a gradient's graph; what is made
        of them does not.

        Raises:
            StudyError: If a graph lacks ``x`` or ``y``, has an edge out of range, or other widths or types than the
                first graph; the message names its number in ``data_list``.
        """
        kept = [(number, data) for number, data in enumerate(data_list) if data.num_nodes]
        _require(bool(kept), "no graph has a node")
        sizes = [data.num_nodes for _, data in kept]
        edges = [edges_of(data, number) for number, data in kept]
        counts = [edge_index.size(1) for edge_index in edges]
        attributes = [(number, _with_columns(data.edge_attr)) for number, data in kept]
        attributed = any(value is not None and count for (_, value), count in zip(attributes, counts, strict=True))
        for (number, value), count in zip(attributes, counts, strict=True):
            if value is not None and not count and torch.as_tensor(value).numel():
                raise StudyError(f"graph {number}: it has edge_attr but no edge; mend the data set's edges")
        x = _stack("x", [(number, data.x) for number, data in kept], sizes, _matrix)
        edge_attr = _stack("edge_attr", attributes, counts, _matrix) if attributed else None
        labels, target = (sizes, _targets_of_nodes) if level == "node" else ([1] * len(kept), _target)
        y = _stack("y", [(number, data.y) for number, data in kept], labels, target)
        ptrs = [pointer(torch.tensor(lengths)) for lengths in (sizes, counts)]
        numbers = [number for number, _ in kept]
        return cls(x, torch.cat(edges, dim=1), edge_attr, y, *ptrs, numbers=numbers), len(data_list) - len(kept)


def pointer(counts: Tensor) -> Tensor:
    """Returns the int64 [len + 1] running start of consecutive blocks of the given sizes."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def owners(ptr: Tensor) -> Tensor:
    """Returns the number of the block that each row is in, int64 [ptr[-1]]; ``ptr`` is a :func:`pointer`."""
    return torch.arange(ptr.numel() - 1).repeat_interleave(ptr.diff())


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise StudyError(f"graphs: {message}; mend the data set")


def _owner(ptr: Tensor, row: int) -> int:
    return int(torch.searchsorted(ptr, row, right=True)) - 1


def _check_features(name: str, value: Tensor, rows: int, ptr: Tensor, numbers: Sequence[int]) -> None:
    allowed = value.dtype in (torch.float32, torch.int64) and value.dim() == 2
    _require(
        allowed and value.size(0) == rows and value.size(1) > 0,
        f"{name} is {value.dtype} of shape "
        f"{list(value.shape)}, expected float32 or int64 of shape [{rows}, at least 1]",
    )
    bad = ~value.isfinite() if value.is_floating_point() else value < 0
    if bool(bad.any()):
        row, column = bad.nonzero()[0].tolist()
        raise StudyError(
            f"graph {numbers[_owner(ptr, row)]}: {name} holds {value[row, column].item()} in column {column}; allowed "
            "are finite numbers (float32) or codes from 0 (int64); mend the data set"
        )


def edges_of(data: Data, number: int) -> Tensor:
    """Returns the edges of a graph, int64 [2, E] on the host.

    Raises:
        StudyError: If they are no edges between its nodes; the message names the graph by ``number``.
    """
    value, nodes = data.edge_index, data.num_nodes
    try:
        edges = torch.empty(2, 0) if value is None else torch.as_tensor(value).cpu()
        edges = edges.as_tensor() if isinstance(edges, EdgeIndex) else edges  # would stay one in files and batches
    except (TypeError, ValueError, RuntimeError) as error:  # such as a list of two tensors
        raise StudyError(
            f"graph {number}: edge_index is {type(value).__name__} but expected a tensor, int64 [2, E]; convert it, "
            "e.g. with torch.stack"
        ) from error
    if edges.numel() == 0:
        return torch.empty(2, 0, dtype=torch.int64)
    matrix = edges.layout != torch.strided or edges.dtype == torch.bool  # an adjacency: of two nodes it is [2, 2] too
    if matrix or edges.dim() != 2 or edges.size(0) != 2 or edges.is_floating_point():
        layout = "" if edges.layout == torch.strided else f"{edges.layout} "
        raise StudyError(
            f"graph {number}: edge_index is {layout}{edges.dtype} of shape {list(edges.shape)}, "
            "expected int64 [2, E]; mend the data set's edges"
        )
    edges = edges.to(torch.int64)  # first: torch has no minimum of uint64
    if int(edges.min()) < 0 or int(edges.max()) >= nodes:
        raise StudyError(
            f"graph {number}: edge_index spans {int(edges.min())}..{int(edges.max())}, but the graph's "
            f"nodes are 0..{nodes - 1}; mend the data set's edges"
        )
    return edges


def _with_columns(value: Any) -> Any:
    """Returns features, or None where they have no column, as PyG's TU sets without labels have them."""
    return None if isinstance(value, Tensor) and value.dim() == 2 and value.size(1) == 0 else value


def _matrix(value: Tensor) -> Tensor:
    value = value.to(torch.float32 if value.is_floating_point() else torch.int64)
    return value.unsqueeze(1) if value.dim() == 1 else value


def _target(value: Tensor) -> Tensor:
    return value.to(torch.float32).reshape(1, -1) if value.is_floating_point() else _classes(value)


def _targets_of_nodes(value: Tensor) -> Tensor:
    return value.to(torch.float32) if value.is_floating_point() and value.dim() == 2 else _classes(value)


def _classes(value: Tensor) -> Tensor:
    return value.to(torch.int64).reshape(-1)


def _stack(
    name: str, values: list[tuple[int, Tensor | None]], rows: list[int], form: Callable[[Tensor], Tensor]
) -> Tensor:
    """Concatenates one tensor per graph; a graph that owns no row (no edge) may hold anything."""
    made: list[Tensor] = []
    for (number, value), count in zip(values, rows, strict=True):
        if count == 0:
            continue
        if value is None:
            raise StudyError(f"graph {number}: {name} is missing; every graph must have it")
        item = form(torch.as_tensor(value).detach().cpu())
        first = made[0] if made else item
        if item.size(0) != count or item.dtype != first.dtype or item.shape[1:] != first.shape[1:]:
            raise StudyError(
                f"graph {number}: {name} is {item.dtype} of shape {list(item.shape)}, expected "
                f"{first.dtype} of shape {[count, *first.shape[1:]]} as in the first "
                "graph; use the same features everywhere"
            )
        made.append(item)
    return torch.cat(made)
