"""Layers of PyG that do the same with less work."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import leaky_relu, linear
from torch.utils.weak import WeakTensorKeyDictionary
from torch_geometric.nn import GATConv, GCNConv, GINConv, MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import softmax

from ssma.aggr import SumAggregation


class LeanGCNConv(GCNConv):
    """PyG's `GCNConv`; a sum makes no message for each edge."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Returns the nodes' new states, ``[n, out_channels]``."""
        if not _only_sums(self):
            return super().forward(x, edge_index)
        edge_index, weight = gcn_norm(edge_index, None, x.size(0), False, self.add_self_loops, self.flow, x.dtype)
        return neighbour_sum(self.lin(x), edge_index, x.size(0), weight) + self.bias


class LeanGINConv(GINConv):
    """PyG's `GINConv`; a sum makes no message for each edge."""

    def forward(self, x: Tensor | tuple[Tensor, Tensor], edge_index: Tensor) -> Tensor:
        """Returns the nodes' new states; of a pair of states, of sources and of targets, those of the targets."""
        if not _only_sums(self):
            return super().forward(x, edge_index)
        sources, x = x if isinstance(x, tuple) else (x, x)
        return self.nn(neighbour_sum(sources, edge_index, x.size(0)) + (1 + self.eps) * x)


class LeanGATConv(GATConv):
    r"""PyG's `GATConv`, whose edges get no states of their own where only their score is asked:
    :math:`a^\top (W e) = (W^\top a)^\top e`."""

    def edge_update(
        self,
        alpha_j: Tensor,
        alpha_i: Tensor,
        edge_attr: Tensor | None,
        index: Tensor,
        ptr: Tensor | None,
        dim_size: int,
    ) -> Tensor:
        """Returns the attention of each edge, ``[E, heads]``."""
        alpha = alpha_j + alpha_i
        if edge_attr is not None:
            by_head = self.lin_edge.weight.view(self.heads, self.out_channels, -1)
            alpha = alpha + linear(edge_attr, torch.einsum("hcd,hc->hd", by_head, self.att_edge[0]))
        return softmax(leaky_relu(alpha, self.negative_slope), index, ptr, dim_size)


LEAN = {GCNConv: LeanGCNConv, GINConv: LeanGINConv, GATConv: LeanGATConv}


def lean(layer: MessagePassing) -> MessagePassing:
    """Makes a layer of PyG a lean one, in place; one that there is no lean one of stays as it is.

    (PyG prepares a class when it makes a layer of it; made of a subclass, layers would show explainers nothing.)
    """
    layer.__class__ = LEAN.get(type(layer), type(layer))
    return layer


def _only_sums(layer: MessagePassing) -> bool:
    """Says whether a layer sums its messages, and nobody wants to see them."""
    aggr = layer.aggr_module
    watched = layer.explain or "forward" in vars(aggr) or aggr._forward_pre_hooks or aggr._forward_hooks
    return type(aggr) is SumAggregation and not watched


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums of rows over the edges of each key.

    Args:
        rows: The row that each edge adds, sorted by key and otherwise in the edges' order, ``[E]``.
        order: That order of the edges, ``[E]``.
        start: Where each key's edges begin in it, and the end, ``[keys + 1]``.
    """

    rows: Tensor
    order: Tensor
    start: Tensor

    @classmethod
    def over(cls, key: Tensor, rows: Tensor, keys: int) -> "_Sums":
        order = key.argsort(stable=True)
        sizes = key.bincount(minlength=keys)
        return cls(rows[order], order, torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))

    def __call__(self, x: Tensor, weight: Tensor | None) -> Tensor:
        weight = None if weight is None else weight.index_select(0, self.order)
        return torch.ops.aten._embedding_bag_forward_only(
            x, self.rows, self.start, mode=0, per_sample_weights=weight, include_last_offset=True
        )[0]


class _NeighbourSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, forth: _Sums, back: _Sums) -> Tensor:
        ctx.back = back
        ctx.save_for_backward(weight)
        return forth(x.contiguous(), weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (weight,) = ctx.saved_tensors
        return ctx.back(grad.contiguous(), weight), None, None, None


_KNOWN: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""How :func:`neighbour_sum` adds up the edges that it has seen, for the layers to come."""


def neighbour_sum(x: Tensor, edge_index: Tensor, targets: int, weight: Tensor | None = None) -> Tensor:
    """Returns for each target the sum of the states of its sources, ``[targets, C]``, in the order of the edges.

    Forward and backward, neither a state nor a gradient is copied for each edge, and on every device the result is the
    same on every call.

    Args:
        x: States of the sources, ``[n, C]``.
        edge_index: Sources and targets, ``[2, E]``.
        targets: Number of targets.
        weight: What the states are multiplied by, ``[E]``, without a gradient; None for 1.
    """
    tells = not edge_index.is_inference()  # whether it has changed; that of inference mode has no version
    made_for = x.size(0), targets, edge_index._version if tells else None
    known = _KNOWN.get(edge_index) if tells else None
    if known is None or known[0] != made_for:
        source, target = edge_index
        known = made_for, _Sums.over(target, source, targets), _Sums.over(source, target, x.size(0))
        if tells:
            _KNOWN[edge_index] = known
    return _NeighbourSum.apply(x, None if weight is None else weight.to(x.dtype), *known[1:])
