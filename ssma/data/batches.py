"""Mini-batches cut out of pre-collated tensors, on their device, without a loader and without per-graph objects."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby, pairwise
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ssma.data.graphs import Graphs
from ssma.data.walks import return_probabilities

SEGMENT_BYTES = 2**21  # of the batches that are gathered at once: larger arrays fall out of the caches


@dataclass(frozen=True, eq=False)
class Batch:
    """Some graphs as one disconnected graph.

    ``edge_index`` numbers the batch's nodes and is sorted by target, ``batch`` [n] gives each node's graph, ``target``
    the nodes that are asked (node level) or None (graph level); ``y`` holds the targets only: int64 [B] or float32
    [B, T]; ``pe`` [n, steps] holds the nodes' positional encodings, or is None.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    num_graphs: int
    y: Tensor
    target: Tensor | None = None
    pe: Tensor | None = None


class Batches:
    """The batches of one part of a split.

    A shuffled epoch is a training epoch: a batch of a single node joins the one before (the first one, the next),
    because batch norm cannot train on one row. At the node level every epoch is one batch, the whole graph.

    The graphs lie on the device once per process, however many parts and fits use them. Batches are views of a few
    megabytes that are gathered together.

    Example:
        >>> for batch in Batches(graphs, split["train"], 32, "graph").epoch(torch.Generator().manual_seed(0)):
        ...     loss = criterion(model(batch), batch.y)

    Args:
        graphs: All graphs of the data set.
        items: Graph numbers (level ``graph``) or node numbers (level ``node``) of the part.
        batch_size: Graphs per batch; without meaning at the node level.
        level: ``graph`` or ``node``.
        device: Where the batches are.
        walk_steps: Steps of the random walks of :func:`ssma.data.walks.return_probabilities` that become ``pe``; with
            0 there is none.
    """

    def __init__(
        self, graphs: Graphs, items: list[int], batch_size: int, level: str, device: torch.device | str = "cpu",
        walk_steps: int = 0,
    ) -> None:  # fmt: skip
        self.items, self.batch_size = torch.tensor(items, dtype=torch.int64), batch_size
        self.table = _table(graphs, torch.device(device), walk_steps)
        self.whole = None
        if level == "node":
            target = self.items.to(device)
            self.whole = replace(self.table.whole, y=self.table.y[target], target=target)

    def epoch(self, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """Yields every item once: shuffled by ``generator``, or in order without one."""
        if self.whole is not None:
            yield self.whole
            return
        items = self.items
        if generator is not None:
            items = items[torch.randperm(items.numel(), generator=generator)]
        count, largest = items.numel(), self.batch_size
        sizes = [min(largest, count - begin) for begin in range(0, count, largest)]
        if generator is not None and 1 in sizes:
            sizes = self._without_single_nodes(items, sizes)
        yield from self.table.batches(items, sizes)

    def _without_single_nodes(self, items: Tensor, sizes: list[int]) -> list[int]:
        merged: list[int] = []
        last_is_single = False
        nodes_of_first = self.table.lengths[0][items[:: self.batch_size]].tolist()
        for size, nodes in zip(sizes, nodes_of_first, strict=True):
            single = size == nodes == 1
            if merged and (single or last_is_single):
                merged[-1] += size
                last_is_single = False
            else:
                merged.append(size)
                last_is_single = single
        return merged


@dataclass(frozen=True, eq=False)
class _Table:
    """The graphs' tensors on a device, and where those of each graph are, on the host."""

    x: Tensor
    pe: Tensor | None
    edge_index: Tensor
    edge_attr: Tensor | None
    y: Tensor
    lengths: Tensor
    """Nodes and edges of each graph, ``[2, G]``."""
    places: Tensor
    """First node and first edge of each graph, ``[2, G]``."""

    @cached_property
    def whole(self) -> Batch:
        """All graphs as one batch, the same for all parts and fits."""
        graphs = self.lengths.size(1)
        (whole,) = self.batches(torch.arange(graphs), [graphs])
        return whole

    def batches(self, items: Tensor, sizes: list[int]) -> Iterator[Batch]:
        """Yields the graphs ``items``, cut into batches of ``sizes`` graphs."""
        lengths, graph_at = self.lengths[:, items], list(accumulate(sizes, initial=0))
        ends = lengths.cumsum(1)
        starts = ends - lengths
        of_batch = torch.tensor([graph_at[:-1], sizes], dtype=torch.int64)
        first = of_batch[0].repeat_interleave(of_batch[1])  # first graph of each graph's batch
        offset = starts[0] - starts[0][first]
        number = torch.arange(items.numel()) - first
        columns = torch.cat([lengths, self.places[:, items] - starts, torch.stack([number, offset, items])])
        columns = columns.to(self.x.device)
        node_at, edge_at = ([0, *at] for at in ends[:, of_batch.sum(0) - 1].tolist())
        for begin, end in self._segments(node_at, edge_at):
            part = columns[:, graph_at[begin] : graph_at[end]]
            yield from self._gather(part, sizes[begin:end], node_at[begin : end + 1], edge_at[begin : end + 1])

    def _segments(self, node_at: list[int], edge_at: list[int]) -> Iterator[tuple[int, int]]:
        """Yields runs of batches that end within the same ``SEGMENT_BYTES`` of the epoch."""
        of_node, of_edge = (
            sum(map(_row_bytes, values)) for values in ((self.x, self.pe), (self.edge_index.t(), self.edge_attr))
        )
        ends = zip(node_at[1:], edge_at[1:], strict=True)
        segments = [(nodes * of_node + edges * of_edge - 1) // SEGMENT_BYTES for nodes, edges in ends]
        yield from pairwise(accumulate((len(list(run)) for _, run in groupby(segments)), initial=0))

    def _gather(self, columns: Tensor, sizes: list[int], node_at: list[int], edge_at: list[int]) -> Iterator[Batch]:
        """Yields batches that are gathered at once.

        Args:
            columns: For each graph: nodes, edges; the way from their places in the epoch to those in the table; its
                number in its batch, the number of its first node there; its number.
            sizes: Graphs of each batch.
            node_at: Place in the epoch of each batch's first node, and of the end.
            edge_at: The same of the edges.
        """
        nodes, edges, node_shift, edge_shift, number, offset, items = columns
        owner, rows = _owners_and_rows(nodes, node_shift, node_at)
        x, pe, batch = self.x.index_select(0, rows), _rows(self.pe, rows), number.index_select(0, owner)
        owner, rows = _owners_and_rows(edges, edge_shift, edge_at)
        edge_index = self.edge_index.gather(1, rows.expand(2, -1)).add_(offset.index_select(0, owner))
        edge_attr, y = _rows(self.edge_attr, rows), self.y[items]

        node_sizes, edge_sizes = ([end - start for start, end in pairwise(at)] for at in (node_at, edge_at))
        parts = zip(
            x.split(node_sizes),
            edge_index.split(edge_sizes, dim=1),
            _split(edge_attr, edge_sizes),
            batch.split(node_sizes),
            sizes,
            y.split(sizes),
            strict=True,
        )
        for part, pe_part in zip(parts, _split(pe, node_sizes), strict=True):
            yield Batch(*part, pe=pe_part)


def _owners_and_rows(lengths: Tensor, shift: Tensor, at: list[int]) -> tuple[Tensor, Tensor]:
    """Returns for each node (or edge) of some graphs the place of its graph among them, and its row in the table."""
    count = at[-1] - at[0]
    narrow = lengths.int() if count < 2**31 else lengths  # half as much to move
    owner = torch.repeat_interleave(narrow, output_size=count)
    rows = torch.arange(at[0], at[-1], device=owner.device)
    return owner, rows.add_(shift.index_select(0, owner))


def _rows(values: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if values is None else values.index_select(0, rows)


def _split(values: Tensor | None, sizes: list[int]) -> Sequence[Tensor | None]:
    return [None] * len(sizes) if values is None else values.split(sizes)


_TABLES: WeakKeyDictionary[Graphs, dict[tuple[torch.device, int], _Table]] = WeakKeyDictionary()


def _table(graphs: Graphs, device: torch.device, walk_steps: int) -> _Table:
    """Returns the graphs on the device, the same for the same arguments; encodings come beside the same tensors."""
    known = _TABLES.setdefault(graphs, {})
    if (device, walk_steps) not in known:
        if walk_steps:
            pe = return_probabilities(graphs, walk_steps).to(device)
            made = replace(_table(graphs, device, 0), pe=pe)
        else:
            x, edge_index, edge_attr, y = (
                None if value is None else value.to(device)
                for value in (graphs.x, graphs.edge_index, graphs.edge_attr, graphs.y)
            )
            ptrs = torch.stack([graphs.node_ptr, graphs.edge_ptr])
            made = _Table(x, None, edge_index, edge_attr, y, ptrs.diff(), ptrs[:, :-1])
        known[device, walk_steps] = made
    return known[device, walk_steps]


def _row_bytes(value: Tensor | None) -> int:
    return 0 if value is None else value.size(1) * value.element_size()
