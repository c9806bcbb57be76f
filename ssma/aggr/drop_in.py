"""Putting an aggregation into a message-passing layer that exists."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.hooks import RemovableHandle
from torch_geometric.nn import DegreeScalerAggregation, FusedGATConv, GPSConv, MessagePassing, PNAConv
from torch_geometric.nn.aggr import Aggregation, MultiAggregation
from torch_geometric.utils import is_sparse, to_edge_index

from ssma.aggr.ssma import NodeFeatures, SSMAAggregation


def use_aggregation(layer: Module, aggr: Aggregation) -> Module:
    """Makes a message-passing layer aggregate with ``aggr``, and lets attention slots see the layer's node features.

    .. code-block:: python

        conv = use_aggregation(GATConv(64, 8, heads=8), SSMAAggregation(in_channels=8, heads=8))

    The features are what the layer propagates and its ``message`` takes: the first argument ``*_j`` for the source, the
    first ``*_i`` for the target (or, without one, the target's part of the former, where there is one: a layer from
    some nodes to others may propagate a tensor of the sources alone). They stand in the aggregation during the call,
    for the thread that calls alone: several may use a layer at once.

    Args:
        layer: A PyG `MessagePassing` layer, or a `GPSConv`, whose inner layer is meant. A `PNAConv` mixes several
            aggregations and its weights count them: build it with ``aggregators=[..., aggr]``, then call this.
        aggr: The aggregation; its ``in_channels`` and ``heads`` are those of the layer's messages.

    Returns:
        The layer, changed in place.

    Raises:
        TypeError: If the layer passes no messages or aggregates them in its own way, or the aggregation is none.
        ValueError: If the layer mixes aggregations and ``aggr`` is not one of them.
    """
    if not isinstance(aggr, Aggregation):
        raise TypeError(
            f"use_aggregation got an aggregation of type {type(aggr).__name__} but expected a PyG Aggregation"
        )
    inner = layer.conv if isinstance(layer, GPSConv) else layer
    if not isinstance(inner, MessagePassing):
        raise TypeError(
            f"use_aggregation got {type(inner).__name__} but expected a PyG MessagePassing layer; of a module that "
            f"holds layers, give each layer"
        )
    if type(inner).aggregate is not MessagePassing.aggregate or isinstance(inner, FusedGATConv):
        raise TypeError(
            f"use_aggregation got {type(inner).__name__}, which aggregates in its own way and ignores aggr; use a "
            f"layer whose messages PyG aggregates, which has no aggregate() of its own"
        )
    if isinstance(inner.aggr_module, DegreeScalerAggregation | MultiAggregation):
        if all(module is not aggr for module in inner.aggr_module.modules()):
            mixes = "aggregators" if isinstance(inner, PNAConv) else "aggr"
            raise ValueError(f"{type(inner).__name__} mixes aggregations: build it with {mixes}=[..., aggr]")
    else:
        inner.aggr = None
        inner.aggr_module = aggr
        inner.fuse = False
    if not hasattr(inner, "shown_names"):
        names = [name for name in inspect.signature(inner.message).parameters if name.endswith(("_i", "_j"))]
        inner.shown_names = {side: [name[:-2] for name in names if name.endswith(side)] for side in ("_i", "_j")}
        inner.__class__ = _showing(type(inner))
        inner.register_propagate_forward_pre_hook(_before)
    return layer


@cache
def _showing(base: type[MessagePassing]) -> type[MessagePassing]:
    """Returns a class of layers that show their features, also under `torch.compile`, where PyG leaves out hooks.

    It takes them back where a call ends, also by an exception, so that no later call can meet them. Its
    ``reset_parameters`` always draws the aggregation's weights too.
    """

    def propagate(self: MessagePassing, edge_index: Any, size: Any = None, **propagated: Any) -> Tensor:
        _show(self, edge_index, size, propagated)
        plain = getattr(base, "_orig_propagate", base.propagate)
        passing = plain if self.explain or self.decomposed_layers > 1 else base.propagate
        try:
            return passing(self, edge_index, size=size, **propagated)
        finally:
            for aggr in _seeing(self):
                aggr.show(None)

    def register_propagate_forward_pre_hook(self: MessagePassing, hook: Callable) -> RemovableHandle:
        handle, hooks = base.register_propagate_forward_pre_hook(self, hook), self._propagate_forward_pre_hooks
        hooks.move_to_end(next(key for key, own in hooks.items() if own is _before))  # it sees what others change
        return handle

    def reset_parameters(self: MessagePassing) -> None:
        base.reset_parameters(self)
        self.aggr_module.reset_parameters()  # some layers of PyG (GINEConv) leave out their aggregation

    def reduce(self: MessagePassing, protocol: int) -> tuple:
        return _blank, (base,), self.__getstate__()

    own = {method.__name__: method for method in (propagate, register_propagate_forward_pre_hook, reset_parameters)}
    own |= {"_orig_propagate": propagate, "_jinja_propagate": propagate}  # PyG puts one into a layer that was explained
    return type(base.__name__, (base,), own | {"__reduce_ex__": reduce, "__module__": base.__module__})


def _blank(base: type[MessagePassing]) -> MessagePassing:
    kind = _showing(base)
    return kind.__new__(kind)


def _seeing(layer: MessagePassing) -> list[SSMAAggregation]:
    return [
        module
        for module in layer.aggr_module.modules()
        if isinstance(module, SSMAAggregation) and (module.selection == "attention" or module.slots_from == "features")
    ]


def _before(layer: MessagePassing, inputs: tuple[Any, Any, dict[str, Any]]) -> None:
    """A hook, since explainers replace a layer's ``propagate`` and with it the class's own."""
    _show(layer, *inputs)


def _show(layer: MessagePassing, edge_index: Any, size: Any, propagated: dict[str, Any]) -> None:
    """Hands what a layer propagates to its SSMA aggregations, for one call."""
    if not _seeing(layer):
        return
    if layer.decomposed_layers > 1:
        raise ValueError(
            f"{type(layer).__name__} got decomposed_layers={layer.decomposed_layers} but its aggregation sees all "
            f"features of a node at once; leave it at 1, or use selection='random' with slots_from='messages'"
        )
    sizes = layer._check_input(edge_index, size)  # of sources and of targets, where they are known
    if is_sparse(edge_index):  # a transposed adjacency: rows are targets
        coo = isinstance(edge_index, Tensor) and edge_index.is_sparse  # PyG's function would write a flag into it
        row, column = edge_index._indices() if coo else to_edge_index(edge_index)[0]
        edge_index = torch.stack([column, row])
    sources = [name for name in layer.shown_names["_j"] if _side(propagated.get(name), 0) is not None]
    targets = [name for name in layer.shown_names["_i"] if propagated.get(name) is not None] or sources
    if not sources:
        raise ValueError(
            f"{type(layer).__name__} propagates {', '.join(propagated) or 'nothing'} but no features of source nodes "
            f"that its message takes; attention slots need them, so use selection='random' in this layer"
        )
    forward, target = layer.flow == "source_to_target", propagated[targets[0]]
    if isinstance(target, Tensor) and sizes[forward] not in (None, target.size(layer.node_dim)):
        target = None  # it is of the sources alone
    features = NodeFeatures(
        source=_side(propagated[sources[0]], 0),
        target=_side(target, 1),
        content=_side(propagated[sources[-1]], 0),
        source_index=edge_index[0 if forward else 1],
    )
    for aggr in _seeing(layer):
        aggr.show(features)


def _side(value: Any, side: int) -> Tensor | None:
    return value[side] if isinstance(value, tuple | list) else value
