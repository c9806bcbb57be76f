"""Principal Neighbourhood Aggregation as a layer: towers, and a mix of aggregations under scalers of the degree."""

import torch
from torch import Tensor
from torch.nn import Linear, ModuleList
from torch.nn.functional import linear
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.typing import OptTensor
from torch_geometric.utils import degree

from ssma.aggr import MaxAggregation, MeanAggregation, MinAggregation, StdAggregation
from ssma.aggr.grouped import prepared, targets_of
from ssma.aggr.pna import mean_log_degree, scaled_by_degree


def plain_mix() -> list[Aggregation]:
    """Returns the four aggregations of PNA."""
    return [MeanAggregation(), MaxAggregation(), MinAggregation(), StdAggregation()]


class DegreeScaledMix(Aggregation):
    r"""Several aggregations, side by side, under the three scalers of `"Principal Neighbourhood Aggregation for Graph
    Nets" <https://arxiv.org/abs/2004.05718>`_ (eq. 8)

    .. math::
        \begin{bmatrix} 1 \\ \log(n + 1) / \delta \\ \delta / \log(n + 1) \end{bmatrix} \otimes
        \begin{bmatrix} \bigoplus_1 \\ \vdots \\ \bigoplus_k \end{bmatrix}, \qquad
        \delta = \frac{1}{N} \sum_{v=1}^{N} \log(n_v + 1)

    where n is a node's number of messages and :math:`\delta` a mean over the N training nodes, kept in the state as a
    buffer. Degrees that the training nodes do not have are no problem; a node without messages is divided as if it
    had one.

    Args:
        aggrs: The aggregations.
        degrees: Histogram of the in-degrees of the training nodes: how many have 0, 1, 2, ... incoming edges.

    Shapes:
        - **input:** messages :math:`(E, \ldots, F)`
        - **output:** :math:`(N, \ldots, 3 k F)`: all aggregations under the first scaler, then under the second, ...

    Raises:
        ValueError: If there is no histogram, or no node with an edge in it.
    """

    def __init__(self, aggrs: list[Aggregation], degrees: Tensor | None) -> None:
        super().__init__()
        self.aggrs = ModuleList(aggrs)
        self.register_buffer("delta", mean_log_degree(degrees))
        self.initial_delta = self.delta.item()

    @property
    def factor(self) -> int:
        """Width of the output in widths of a message."""
        return 3 * len(self.aggrs)

    def reset_parameters(self) -> None:
        """Draws the aggregations' weights anew, and puts the mean degree back to that of the given degrees."""
        self.delta.fill_(self.initial_delta)
        for aggr in self.aggrs:
            aggr.reset_parameters()

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        """Aggregates messages with target nodes ``index``, ``[E]``, or between borders ``ptr``, ``[dim_size + 1]``."""
        index = targets_of(self, x, index, ptr, dim)
        mix = torch.cat([aggr(x, index, dim_size=dim_size, dim=dim) for aggr in self.aggrs], dim=-1)
        # in half precision a count would be rounded, or saturate
        count = degree(index, mix.size(dim), torch.promote_types(self.delta.dtype, torch.float32))
        count = count.view([-1 if axis == dim % mix.dim() else 1 for axis in range(mix.dim())])
        return scaled_by_degree(mix, count, self.delta)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.aggrs))})"


class PNATowersConv(MessagePassing):
    r"""The layer of `"Principal Neighbourhood Aggregation for Graph Nets" <https://arxiv.org/abs/2004.05718>`_ with T
    towers that all see the whole state of a node

    .. math::
        x_i' = W \, \Big\Vert_{t=1}^{T} U_t \Big( x_i \, \Big\Vert \, \bigoplus_{j \in \mathcal{N}(i)}
        M_t (x_i \, \Vert \, x_j \, \Vert \, e_{ji}) \Big)

    with affine maps :math:`M_t` to the width of the layer, :math:`U_t` to its T-th part, and W. It computes what PyG's
    `PNAConv` (``divide_input=False``) does; but here the maps :math:`M_t` are applied to nodes, not to edges, since
    they are sums of a map of each part, and edge features have no further map before them.

    Args:
        channels: Width of the nodes' states; a multiple of ``towers``.
        factor: Width of the aggregation's output in widths of a message.
        towers: Number of towers; a message is :math:`(T, F)` and an aggregation shares its weights over towers.
        edge_channels: Width of the edges' states, None without.

    Shapes:
        - **input:** states :math:`(N, F)`, edges :math:`(2, E)`, edge states :math:`(E, D)` *(optional)*
        - **output:** states :math:`(N, F)`
    """

    def __init__(self, channels: int, factor: int, towers: int, edge_channels: int | None = None) -> None:
        super().__init__(node_dim=0)
        self.channels, self.towers, self.edge_channels = channels, towers, edge_channels
        self.pre = Linear(2 * channels + (edge_channels or 0), towers * channels)
        self.post = ModuleList(Linear((1 + factor) * channels, channels // towers) for _ in range(towers))
        self.lin = Linear(channels, channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        super().reset_parameters()
        for module in (self.pre, *self.post, self.lin):
            module.reset_parameters()

    def forward(self, x: Tensor | tuple[Tensor, Tensor], edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        """Returns the nodes' new states; of a pair of states, of sources and of targets, those of the targets.

        Raises:
            ValueError: If edge states are missing, or there are some that the layer was not built for.
        """
        if (edge_attr is None) != (self.edge_channels is None):
            given = "no edge_attr" if edge_attr is None else f"edge_attr of shape {tuple(edge_attr.shape)}"
            raise ValueError(f"PNATowersConv got {given} but expected edge_channels={self.edge_channels}")
        parts = [self.channels, self.channels, self.edge_channels or 0]
        of_target, of_source, of_edge = prepared(self.pre).weight.split(parts, dim=1)
        of_sources, x = x if isinstance(x, tuple) else (x, x)
        target = linear(x, of_target, self.pre.bias).view(-1, self.towers, self.channels)
        source = linear(of_sources, of_source).view(-1, self.towers, self.channels)
        edge = None if edge_attr is None else linear(edge_attr, of_edge).view(-1, self.towers, self.channels)
        out = self.propagate(edge_index, x=(source, target), edge_attr=edge)  # [N, towers, factor * F]
        towers = [post(torch.cat([x, out[:, t]], dim=-1)) for t, post in enumerate(self.post)]
        return self.lin(torch.cat(towers, dim=-1))

    def message(self, x_i: Tensor, x_j: Tensor, edge_attr: OptTensor) -> Tensor:
        message = x_i + x_j
        return message if edge_attr is None else message + edge_attr

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, towers={self.towers}, edge_channels={self.edge_channels})"
