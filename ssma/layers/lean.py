"""Layers of PyG that do the same with less work."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils.weak import WeakTensorKeyDictionary
from torch_geometric.nn import GATConv, GCNConv, GINConv, MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import is_sparse

from ssma.aggr import SumAggregation
from ssma.aggr.grouped import prepared
from ssma.aggr.opaque import recorded, transformed


class LeanGCNConv(GCNConv):
    """PyG's `GCNConv`; a sum makes no message for each edge."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Returns the nodes' new states, ``[n, out_channels]``."""
        usual = self.normalize and not self.cached and self.bias is not None and edge_weight is None
        if not usual or not _only_sums(self, x, edge_index):
            return super().forward(x, edge_index, edge_weight)
        edge_index, weight = _normalised(edge_index, x.size(0), self.improved, self.add_self_loops, x.dtype)
        return neighbour_sum(self.lin(x), edge_index, x.size(0), weight) + self.bias


class LeanGINConv(GINConv):
    """PyG's `GINConv`; a sum makes no message for each edge."""

    def forward(
        self, x: Tensor | tuple[Tensor, Tensor | None], edge_index: Tensor, size: tuple[int, int] | None = None
    ) -> Tensor:
        """Returns the nodes' new states; of a pair of states, of sources and of targets, those of the targets."""
        sources, targets = (x, x) if isinstance(x, Tensor) else x
        if targets is None or size is not None or not _only_sums(self, sources, edge_index):
            return super().forward(x, edge_index, size)
        return self.nn(neighbour_sum(sources, edge_index, targets.size(0)) + (1 + self.eps) * targets)


class LeanGATConv(GATConv):
    r"""PyG's `GATConv`, whose edges get no states of their own where only their score is asked:
    :math:`a^\top (W e) = (W^\top a)^\top e`."""

    def edge_update(
        self,
        alpha_j: Tensor,
        alpha_i: Tensor | None,
        edge_attr: Tensor | None,
        index: Tensor,
        ptr: Tensor | None,
        dim_size: int | None,
    ) -> Tensor:
        """Returns the attention of each edge, ``[E, heads]``."""
        if edge_attr is not None and edge_attr.dim() == 2 and self.lin_edge is not None:
            by_head = prepared(self.lin_edge).weight.view(self.heads, self.out_channels, -1)
            alpha_j = alpha_j if alpha_i is None else alpha_j + alpha_i
            alpha_i = linear(edge_attr, torch.einsum("hcd,hc->hd", by_head, self.att_edge[0]))
            edge_attr = None
        return super().edge_update(alpha_j, alpha_i, edge_attr, index, ptr, dim_size)


HOOKS = ("propagate_forward", "message_forward_pre", "message_forward", "aggregate_forward_pre", "aggregate_forward")
LEAN = {GCNConv: LeanGCNConv, GINConv: LeanGINConv, GATConv: LeanGATConv}


def lean(layer: MessagePassing) -> MessagePassing:
    """Makes a layer of PyG a lean one, in place; one that there is no lean one of stays as it is.

    (PyG prepares a class when it makes a layer of it; made of a subclass, layers would show explainers nothing.)
    """
    layer.__class__ = LEAN.get(type(layer), type(layer))
    return layer


def _only_sums(layer: MessagePassing, x: Any, edge_index: Any) -> bool:
    """Says whether a layer sums its messages, the usual way round, and nobody wants to see them, or to take other steps
    for its steps."""
    if recorded():
        return False
    aggr = layer.aggr_module
    watched = (
        layer.explain
        or "forward" in vars(aggr)
        or {"propagate", "message", "aggregate", "update"} & vars(layer).keys()
        or any(getattr(layer, f"_{name}_hooks") for name in HOOKS)
        or len(layer._propagate_forward_pre_hooks) > hasattr(layer, "shown_names")  # one is of `use_aggregation`
        or any((aggr._forward_pre_hooks, aggr._forward_hooks, aggr._backward_pre_hooks, aggr._backward_hooks))
    )
    usual = isinstance(x, Tensor) and x.dim() == 2 and not is_sparse(edge_index) and layer.flow == "source_to_target"
    return type(aggr) is SumAggregation and usual and not watched


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
        if sizes.numel() > keys:
            raise IndexError(f"edge_index got node {sizes.numel() - 1} but expected one below {keys}")
        return cls(rows[order], order, torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))

    def __call__(self, x: Tensor, weight: Tensor | None) -> Tensor:
        weight = None if weight is None else weight.index_select(0, self.order)
        return torch.ops.aten._embedding_bag_forward_only(
            x, self.rows, self.start, mode=0, per_sample_weights=weight, include_last_offset=True
        )[0]

    def in_steps(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Returns the same in steps that transforms of `torch.func` see through."""
        sizes = self.start.diff()
        keys = torch.arange(sizes.numel(), device=sizes.device).repeat_interleave(sizes)
        added = x.index_select(0, self.rows)
        added = added if weight is None else added * weight.index_select(0, self.order).unsqueeze(1)
        return x.new_zeros(sizes.numel(), x.size(1)).index_add(0, keys, added)


class _NeighbourSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, forth: _Sums, back: _Sums) -> Tensor:
        ctx.forth, ctx.back = forth, back
        ctx.save_for_backward(weight)
        return forth(x.contiguous(), weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (weight,) = ctx.saved_tensors
        if transformed():
            return ctx.back.in_steps(grad, weight), None, None, None
        return _NeighbourSum.apply(grad, weight, ctx.back, ctx.forth), None, None, None


_KNOWN: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""How :func:`neighbour_sum` adds up the edges that it has seen, for the layers to come."""

_NORMALISED: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""The edges that a GCN sums over instead, None for the same, and their weights."""


def _kept(
    store: WeakTensorKeyDictionary, edge_index: Tensor, made_for: tuple[Any, ...], make: Callable[[], Any]
) -> Any:
    """Returns what was made of edges for the same arguments, if it is there and they have not changed since."""
    if edge_index.is_inference():  # changes are not counted
        return make()
    made_for = (*made_for, edge_index._version)
    known = store.get(edge_index)
    if known is None or known[0] != made_for:
        with torch.inference_mode(False):  # what is made there could not be used in training
            store[edge_index] = known = made_for, make()
    return known[1]


def _normalised(
    edge_index: Tensor, nodes: int, improved: bool, self_loops: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    def make() -> tuple[Tensor | None, Tensor]:
        edges, weight = gcn_norm(edge_index, None, nodes, improved, self_loops, "source_to_target", dtype)
        return None if edges is edge_index else edges, weight

    edges, weight = _kept(_NORMALISED, edge_index, (nodes, improved, self_loops, dtype), make)
    return edge_index if edges is None else edges, weight


def neighbour_sum(x: Tensor, edge_index: Tensor, targets: int, weight: Tensor | None = None) -> Tensor:
    """Returns for each target the sum of the states of its sources, ``[targets, C]``, in the order of the edges.

    Forward and backward, neither a state nor a gradient is copied for each edge, and on every device the result is the
    same on every call.

    Args:
        x: States of the sources, ``[n, C]``.
        edge_index: Sources and targets, ``[2, E]``.
        targets: Number of targets.
        weight: What the states are multiplied by, ``[E]``, without a gradient; None for 1.

    Raises:
        IndexError: If an edge comes from, or goes to, a node beyond them.
    """
    source, target = edge_index
    forth, back = _kept(
        _KNOWN, edge_index, (x.size(0), targets),
        lambda: (_Sums.over(target, source, targets), _Sums.over(source, target, x.size(0))),
    )  # fmt: skip
    return _NeighbourSum.apply(x, None if weight is None else weight.to(x.dtype), forth, back)
