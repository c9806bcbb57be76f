"""A network on a graph that is too large for one forward pass: layer by layer, and a layer target by target."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ssma.layers.convs import Neighbourhoods
from ssma.layers.network import Network

EDGES = 2**16
"""Edges that a layer is given at once. A node with more is given alone."""
TARGETS = 2**13
"""Nodes whose new states a layer computes at once."""


def whole_outputs(network: Network, graph: Any, edges: int = EDGES, targets: int = TARGETS) -> Tensor:
    """Returns what ``network(graph)`` would, but for rounding, with memory that does not grow with the graph.

    A layer computes all nodes' states before the next one starts, for at most ``targets`` nodes and ``edges`` edges at
    a time, and sees all edges into these nodes in their order. Beside the graph, and the states of all nodes before and
    after a layer, there is only what a layer makes of so many edges, their sources and targets.

    Args:
        network: A network in evaluation mode, where a node's state depends on its neighbours' only.
        graph: The graph, as :class:`ssma.data.parts.WholeGraph` has it.

    Returns:
        The outputs of the graph's target nodes, ``[G, num_outputs]``.

    Raises:
        ValueError: If the network is in training mode, where batch norm needs all nodes at once, or if its layer sees
            more of a graph than a node's neighbours.
    """
    if network.training:
        raise ValueError("whole_outputs got a network in training mode but expected evaluation mode; call eval() first")
    if network.on_targets is None:
        raise ValueError("whole_outputs got a layer that attends among all nodes; evaluate it per part")
    x = network.encode(graph)
    in_degree = graph.edge_start.diff().to(x.device)
    source, target = graph.edge_index
    loops = target[source == target].bincount(minlength=x.size(0))
    number = torch.empty_like(in_degree)  # of a node among those of the present chunk
    for block in network.blocks:
        out = torch.empty_like(x)
        for first, end, start, stop in _chunks(graph.edge_start, edges, targets):
            nodes = _targets_and_sources(first, end, source[start:stop])
            number[nodes] = torch.arange(nodes.numel(), device=x.device)
            part = Neighbourhoods(
                x=x[nodes],
                targets=end - first,
                edge_index=number[graph.edge_index[:, start:stop]],
                edge_attr=network.encode_edges(None if graph.edge_attr is None else graph.edge_attr[start:stop]),
                in_degree=in_degree[nodes],
                loops=loops[nodes],
            )
            out[first:end] = block.finish(network.on_targets(block.conv, part), x[first:end])
        x = out
    return torch.cat([network.head(x[rows]) for rows in graph.target.split(targets)])


def _chunks(edge_start: Tensor, edges: int, targets: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields the first target, the one after the last, and the same of their edges, until all nodes are done."""
    first, nodes = 0, edge_start.numel() - 1
    while first < nodes:
        start = int(edge_start[first])
        most = int(torch.searchsorted(edge_start, start + edges, right=True)) - 1
        end = min(max(most, first + 1), first + targets, nodes)
        yield first, end, start, int(edge_start[end])
        first = end


def _targets_and_sources(first: int, end: int, source: Tensor) -> Tensor:
    """Returns the nodes ``first`` to ``end``, and then the other sources, each once."""
    outside = source[(source < first) | (source >= end)].unique()
    return torch.cat([torch.arange(first, end, device=source.device), outside])
