"""Neighbourhood aggregations for PyTorch Geometric. Needs torch and torch_geometric, nothing else."""

from ssma.aggr.drop_in import use_aggregation
from ssma.aggr.registry import make_aggregation
from ssma.aggr.ssma import SSMAAggregation

__all__ = ["SSMAAggregation", "make_aggregation", "use_aggregation"]
