"""Mini-batches cut out of pre-collated tensors, without a loader and without per-graph objects."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ssma.data.graphs import Graphs, pointer


@dataclass(frozen=True, eq=False)
class Batch:
    """Some graphs as one disconnected graph.

    ``edge_index`` numbers the batch's nodes, ``batch`` [n] gives each node's graph, ``target`` the nodes that are
    asked (node level) or None (graph level); ``y`` holds the targets only: int64 [B] or float32 [B, T].
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    num_graphs: int
    y: Tensor
    target: Tensor | None

    def to(self, device: torch.device | str) -> "Batch":
        """Returns the batch on ``device``."""
        values = [getattr(self, field.name) for field in fields(self)]
        return Batch(*[value.to(device) if isinstance(value, Tensor) else value for value in values])


class Batches:
    """The batches of one part of a split.

    A shuffled epoch is a training epoch: a batch of a single node joins the one before (the first one, the next),
    because batch norm cannot train on one row. At the node level every epoch is one batch, the whole graph.

    Example:
        >>> for batch in Batches(graphs, split["train"], 32, "graph").epoch(torch.Generator().manual_seed(0)):
        ...     loss = criterion(model(batch), batch.y)

    Args:
        graphs: All graphs of the data set.
        items: Graph numbers (level ``graph``) or node numbers (level ``node``) of the part.
        batch_size: Graphs per batch; without meaning at the node level.
        level: ``graph`` or ``node``.
    """

    def __init__(self, graphs: Graphs, items: list[int], batch_size: int, level: str) -> None:
        self.graphs, self.items, self.batch_size = graphs, torch.tensor(items, dtype=torch.int64), batch_size
        self.whole = None
        if level == "node":
            self.whole = collate(graphs, torch.arange(graphs.num_graphs), graphs.y[self.items], self.items)

    def epoch(self, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """Yields every item once: shuffled by ``generator``, or in order without one."""
        if self.whole is not None:
            yield self.whole
            return
        items = self.items
        if generator is not None:
            items = items[torch.randperm(items.numel(), generator=generator)]
        parts = list(items.split(self.batch_size))
        if generator is not None:
            parts = self._without_single_nodes(parts)
        for part in parts:
            yield collate(self.graphs, part, self.graphs.y[part])

    def _without_single_nodes(self, parts: list[Tensor]) -> list[Tensor]:
        merged: list[Tensor] = []
        for part in parts:
            if merged and (self._is_one_node(part) or self._is_one_node(merged[-1])):
                merged[-1] = torch.cat([merged[-1], part])
            else:
                merged.append(part)
        return merged

    def _is_one_node(self, part: Tensor) -> bool:
        return part.numel() == 1 and int(self.graphs.node_ptr[part + 1] - self.graphs.node_ptr[part]) == 1


def collate(graphs: Graphs, items: Tensor, y: Tensor, target: Tensor | None = None) -> Batch:
    """Returns the graphs ``items`` as one batch, in that order, nodes and edges in their stored order."""
    nodes, node_ptr, batch = _ranges(graphs.node_ptr, items)
    edges, _, edge_batch = _ranges(graphs.edge_ptr, items)
    edge_index = graphs.edge_index[:, edges] + node_ptr[edge_batch]
    edge_attr = None if graphs.edge_attr is None else graphs.edge_attr[edges]
    return Batch(graphs.x[nodes], edge_index, edge_attr, batch, items.numel(), y, target)


def _ranges(ptr: Tensor, items: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the rows that ``items`` own, the pointer into these rows, and each row's place in ``items``."""
    start = ptr[items]
    counts = ptr[items + 1] - start
    own = pointer(counts)
    place = torch.repeat_interleave(torch.arange(items.numel()), counts)
    return torch.arange(place.numel()) + (start - own[:-1])[place], own, place
