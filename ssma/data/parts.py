"""Batches of a large graph that is cut into parts, and the graph as a whole, on their device."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ssma.data.batches import Batch
from ssma.data.graphs import Graphs, pointer
from ssma.data.walks import return_probabilities


@dataclass(frozen=True, eq=False)
class WholeGraph:
    """One graph that is too large for one forward pass, and the nodes ``target`` that are asked, with their ``y``.

    ``edge_index`` is sorted by target; the edges into node ``v`` are ``edge_start[v]:edge_start[v + 1]``, and
    ``edge_start`` [num_nodes + 1] is on the host.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    edge_start: Tensor
    y: Tensor
    target: Tensor
    pe: Tensor | None = None


class PartBatches:
    """The batches of one part of a split of a graph that is cut into parts: some of its parts, as one graph.

    An epoch draws the parts in random order. A batch without any node that is asked has no loss and is left out. Each
    part counts as a graph of its own for a layer that attends among the nodes of a graph.

    Args:
        graphs: One graph, with ``part``.
        items: Numbers of the nodes that are asked.
        batch_size: Parts in a batch.
        keep_cut_edges: Keep the edges between the parts of a batch.
        device: Where the batches are.
        walk_steps: Steps of the random walks that become ``pe``, which do not leave a part; with 0 there is none.
    """

    def __init__(
        self, graphs: Graphs, items: list[int], batch_size: int, keep_cut_edges: bool,
        device: torch.device | str = "cpu", walk_steps: int = 0,
    ) -> None:  # fmt: skip
        self.table = _table(graphs, torch.device(device), walk_steps)
        self.asked = torch.zeros(graphs.num_nodes, dtype=torch.bool, device=device)
        self.asked[self.table.place[torch.tensor(items, dtype=torch.int64)].to(device)] = True
        self.counts = self.table.part[self.asked].bincount(minlength=self.table.count).cpu()
        self.batch_size, self.keep_cut_edges = batch_size, keep_cut_edges

    def epoch(self, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """Yields the parts in batches: shuffled by ``generator``, or in order without one."""
        count = self.table.count
        order = torch.arange(count) if generator is None else torch.randperm(count, generator=generator)
        for group in order.split(self.batch_size):
            if int(self.counts[group].sum()):
                yield self._join(group.sort().values)

    def _join(self, group: Tensor) -> Batch:
        """Returns some parts, in ascending order, as one graph."""
        table, device = self.table, self.asked.device
        rows = torch.cat([torch.arange(*table.nodes_of(part), device=device) for part in group.tolist()])
        edges = torch.cat([torch.arange(*table.edges_of(part), device=device) for part in group.tolist()])
        shift = torch.full((table.count,), -1)  # from a node's row to its number in the batch
        sizes = table.node_ptr.diff()[group]
        shift[group] = pointer(sizes)[:-1] - table.node_ptr[group]
        chosen = torch.zeros(table.count, dtype=torch.bool)
        chosen[group] = True
        ends = table.edge_index[:, edges]
        of_source, of_target = table.part[ends]
        kept = chosen.to(device)[of_source] if self.keep_cut_edges else of_source == of_target
        edges, ends = edges[kept], ends[:, kept]
        target = self.asked[rows].nonzero().flatten()
        return Batch(
            x=table.x[rows],
            edge_index=ends + shift.to(device)[table.part[ends]],
            edge_attr=None if table.edge_attr is None else table.edge_attr[edges],
            batch=torch.arange(group.numel()).repeat_interleave(sizes).to(device),
            num_graphs=group.numel(),
            y=table.y[rows[target]],
            target=target,
            pe=None if table.pe is None else table.pe[rows],
        )


class WholeBatch:
    """One part of a split of a graph that is cut into parts: the whole graph, as the only batch.

    Args:
        graphs: One graph, with ``part``; parts only make neighbours lie close together.
        items: Numbers of the nodes that are asked.
        device: Where the graph is.
        walk_steps: As in :class:`PartBatches`.
    """

    def __init__(
        self, graphs: Graphs, items: list[int], device: torch.device | str = "cpu", walk_steps: int = 0
    ) -> None:
        table = _table(graphs, torch.device(device), walk_steps)
        target = table.place[torch.tensor(items, dtype=torch.int64)].to(device)
        y = table.y[target]
        self.whole = WholeGraph(table.x, table.edge_index, table.edge_attr, table.edge_start, y, target, table.pe)

    def epoch(self) -> Iterator[WholeGraph]:
        """Yields the graph."""
        yield self.whole


@dataclass(frozen=True, eq=False)
class _Table:
    """A graph on a device, its nodes in the order of their parts, its edges in that of their targets.

    On the host: ``place``, from a node's number to its row; ``node_ptr``, the first row of each part; ``edge_start``,
    the first edge of each row.
    """

    x: Tensor
    pe: Tensor | None
    edge_index: Tensor
    edge_attr: Tensor | None
    y: Tensor
    part: Tensor
    place: Tensor
    node_ptr: Tensor
    edge_start: Tensor

    @property
    def count(self) -> int:
        return self.node_ptr.numel() - 1

    def nodes_of(self, part: int) -> list[int]:
        return self.node_ptr[part : part + 2].tolist()

    def edges_of(self, part: int) -> list[int]:
        return self.edge_start[self.node_ptr[part : part + 2]].tolist()


_TABLES: WeakKeyDictionary[Graphs, dict[tuple[torch.device, int], _Table]] = WeakKeyDictionary()


def _table(graphs: Graphs, device: torch.device, walk_steps: int) -> _Table:
    """Returns the graph on the device, the same for the same arguments; encodings come beside the same tensors."""
    known = _TABLES.setdefault(graphs, {})
    if (device, walk_steps) not in known:
        if walk_steps:
            base = _table(graphs, device, 0)
            made = replace(base, pe=return_probabilities(_apart(base), walk_steps).to(device))
        else:
            made = _make_table(graphs, device)
        known[device, walk_steps] = made
    return known[device, walk_steps]


def _make_table(graphs: Graphs, device: torch.device) -> _Table:
    order = graphs.part.argsort(stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel())
    ends = place[graphs.edge_index]
    by_target = ends[1].argsort(stable=True)  # the edges of one target keep their order
    ends = ends[:, by_target]
    edge_attr = None if graphs.edge_attr is None else graphs.edge_attr[by_target]
    tensors = (graphs.x[order], None, ends, edge_attr, graphs.y[order], graphs.part[order])
    on_device = (None if value is None else value.to(device) for value in tensors)
    edge_start = pointer(ends[1].bincount(minlength=order.numel()))
    return _Table(*on_device, place, pointer(graphs.part.bincount()), edge_start)


def _apart(table: _Table) -> Graphs:
    """Returns the parts as graphs of their own, without the edges between them, on the host."""
    x, y, ends, part = (value.cpu() for value in (table.x, table.y, table.edge_index, table.part))
    of_source, of_target = part[ends]
    inner = of_source == of_target
    local = ends[:, inner] - table.node_ptr[of_target[inner]]
    edge_ptr = pointer(of_target[inner].bincount(minlength=table.count))
    return Graphs(x, local, None, y, table.node_ptr, edge_ptr)
