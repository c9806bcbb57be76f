"""Putting an aggregation into a message-passing layer that exists."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import DegreeScalerAggregation, GPSConv, MessagePassing
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.utils import is_sparse, to_edge_index

from ssma.aggr.ssma import SSMAAggregation

SOURCES = ("x", "key", "k")
TARGETS = ("x", "query", "q")


def use_aggregation(layer: Module, aggr: Aggregation) -> Module:
    """Makes a message-passing layer aggregate with ``aggr``, and lets attention slots see the layer's node features.

    .. code-block:: python

        conv = use_aggregation(GATConv(64, 8, heads=8), SSMAAggregation(in_channels=8, heads=8))

    Args:
        layer: Any PyG `MessagePassing` layer, or a `GPSConv`, whose inner layer is meant. A `PNAConv` mixes several
            aggregations and its weights count them: build it with ``aggregators=[..., aggr]``, then call this.
        aggr: The aggregation; its ``in_channels`` and ``heads`` are those of the layer's messages.

    Returns:
        The layer, changed in place.

    Raises:
        TypeError: If the layer passes no messages, or the aggregation is none.
        ValueError: If the layer mixes aggregations and ``aggr`` is not one of them.
    """
    if not isinstance(aggr, Aggregation):
        raise TypeError(
            f"use_aggregation got an aggregation of type {type(aggr).__name__} but expected a PyG Aggregation"
        )
    inner = layer.conv if isinstance(layer, GPSConv) else layer
    if not isinstance(inner, MessagePassing):
        raise TypeError(f"use_aggregation got {type(inner).__name__} but expected a PyG MessagePassing layer")
    if isinstance(inner.aggr_module, DegreeScalerAggregation):
        if all(module is not aggr for module in inner.aggr_module.modules()):
            raise ValueError(f"{type(inner).__name__} mixes aggregations: build it with aggregators=[..., aggr]")
    else:
        inner.aggr = None
        inner.aggr_module = aggr
        inner.fuse = False
    if not isinstance(inner.__dict__.get("propagate"), _Propagate):
        inner.propagate = _Propagate(inner)
    return layer


class _Propagate:
    """A layer's ``propagate`` that first hands what is propagated to the layer's SSMA aggregations, for one call.

    Not a hook: PyG leaves hooks out under `torch.compile`. An object that knows its layer, so that it is copied and
    pickled with it.
    """

    def __init__(self, layer: MessagePassing) -> None:
        self.layer = layer

    def __call__(self, edge_index: Any, size: Any = None, **propagated: Any) -> Tensor:
        for module in self.layer.aggr_module.modules():
            if isinstance(module, SSMAAggregation) and module.sees_features:
                module.node_features = _node_features(self.layer.flow, edge_index, propagated)
        return type(self.layer).propagate(self.layer, edge_index, size=size, **propagated)


def _node_features(flow: str, edge_index: Any, propagated: dict[str, Any]) -> tuple[Tensor, Any, Tensor] | None:
    """Returns features of sources and targets (or None), and the source of each message."""
    if is_sparse(edge_index):  # a transposed adjacency: rows are targets
        row, column = to_edge_index(edge_index)[0]
        edge_index = torch.stack([column, row])
    source, target = _first(propagated, SOURCES), _first(propagated, TARGETS)
    source = source[0] if isinstance(source, tuple | list) else source
    target = target[1] if isinstance(target, tuple | list) else target
    return None if source is None else (source, target, edge_index[0 if flow == "source_to_target" else 1])


def _first(propagated: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((propagated[name] for name in names if propagated.get(name) is not None), None)
