"""Positional encodings of nodes by random walks."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ssma.data.graphs import Graphs

BLOCK = 2**20  # probabilities that are held at once, 8 MB


def return_probabilities(graphs: Graphs, steps: int) -> Tensor:
    r"""Returns the random-walk encoding of `"Graph Neural Networks with Learnable Structural and Positional
    Representations" <https://arxiv.org/abs/2110.07875>`_ (equation 12): how likely a walk of 1, 2, ..., ``steps``
    steps that starts in a node ends there,

    .. math::
        p_v = \left( W_{vv}, W^2_{vv}, \ldots, W^K_{vv} \right), \qquad W = D^{-1} A

    with :math:`A_{uv}` the number of edges from :math:`u` to :math:`v` and :math:`D` the out-degrees. A walk ends for
    ever in a node without outgoing edges.

    Computed in float64, with no more than ``BLOCK`` probabilities in memory; a graph of :math:`n` nodes and
    :math:`e` edges takes :math:`K n e` multiplications.

    Args:
        steps: Number of steps :math:`K`, at least 1.

    Shapes:
        - **output:** :math:`(num\_nodes, K)`, float32

    Raises:
        ValueError: If ``steps`` is below 1.
    """
    if steps < 1:
        raise ValueError(f"return_probabilities got steps={steps} but expected at least 1")
    out = torch.zeros(graphs.num_nodes, steps, dtype=torch.float64)
    for first, end in _blocks(graphs.node_ptr.diff().tolist()):
        ptr = graphs.node_ptr[first : end + 1] - graphs.node_ptr[first]
        edges = slice(int(graphs.edge_ptr[first]), int(graphs.edge_ptr[end]))
        shift = ptr[:-1].repeat_interleave(graphs.edge_ptr[first : end + 1].diff())
        rows = slice(int(graphs.node_ptr[first]), int(graphs.node_ptr[end]))
        _fill(out[rows], graphs.edge_index[:, edges] + shift, ptr)
    return out.float()


def _blocks(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Yields ranges of graphs whose nodes, times the nodes of the largest, stay within ``BLOCK`` (or one graph)."""
    first = nodes = largest = 0
    for graph, size in enumerate(sizes):
        if graph > first and (nodes + size) * max(largest, size) > BLOCK:
            yield first, graph
            first, nodes, largest = graph, 0, 0
        nodes, largest = nodes + size, max(largest, size)
    yield first, len(sizes)


def _fill(out: Tensor, edge_index: Tensor, ptr: Tensor) -> None:
    """Fills ``out`` [N, steps] for consecutive graphs, with edges numbered over all of them and sorted by target.

    Column c of ``state`` holds, for every graph, where the walks are that started in the graph's node c: graphs do
    not meet, so they share the columns.
    """
    source, target = edge_index
    nodes = out.size(0)
    weight = 1 / source.bincount(minlength=nodes)[source].double()
    starts = torch.searchsorted(target, torch.arange(nodes))
    local = torch.arange(nodes) - ptr[:-1].repeat_interleave(ptr.diff())
    width = min(int(local.max()) + 1, max(1, BLOCK // nodes))
    for column in range(0, int(local.max()) + 1, width):
        start = ((local >= column) & (local < column + width)).nonzero().flatten()
        state = torch.zeros(nodes, width, dtype=torch.float64)
        state[start, local[start] - column] = 1
        for step in range(out.size(1)):
            state = embedding_bag(source, state, starts, mode="sum", per_sample_weights=weight)
            out[start, step] = state[start, local[start] - column]
