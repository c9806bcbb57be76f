"""Aggregations by name."""

import importlib
from typing import Any

from torch_geometric.nn.aggr import Aggregation, MaxAggregation, MeanAggregation, SumAggregation

from ssma.aggr.ssma import SSMAAggregation

PLAIN = {"sum": SumAggregation, "mean": MeanAggregation, "max": MaxAggregation}


def make_aggregation(
    name: str, in_channels: int, heads: int = 1, path: str | None = None, **options: Any
) -> Aggregation:
    """Returns an aggregation for messages of a given width.

    Args:
        name: ``sum``, ``mean``, ``max``, ``ssma``, or the user's name for ``path``.
        in_channels: Width of a message (of one head).
        heads: Heads of a message.
        path: Dotted path of a user's class; it is called with ``in_channels``, ``heads`` and the options.
        **options: Options of the aggregation.

    Raises:
        ValueError: If there is no such aggregation.
        TypeError: If the class does not take these arguments or is no PyG `Aggregation`.
    """
    if path is not None:
        module, _, attribute = path.rpartition(".")
        aggr = getattr(importlib.import_module(module), attribute)(in_channels=in_channels, heads=heads, **options)
        if not isinstance(aggr, Aggregation):
            raise TypeError(f"{path} made a {type(aggr).__name__} but expected a torch_geometric.nn.aggr.Aggregation")
        return aggr
    if name == "ssma":
        return SSMAAggregation(in_channels, heads=heads, **options)
    if name not in PLAIN:
        raise ValueError(f"unknown aggregation {name!r}; expected one of {', '.join([*PLAIN, 'ssma'])}")
    return PLAIN[name](**options)
