"""Neighbourhood aggregations for PyTorch Geometric. Needs torch and torch_geometric, nothing else."""

from ssma.aggr.basic import (
    MaxAggregation,
    MeanAggregation,
    MedianAggregation,
    MinAggregation,
    MulAggregation,
    SoftmaxAggregation,
    SumAggregation,
    VPAAggregation,
)
from ssma.aggr.deep_sets import DeepSetsAggregation
from ssma.aggr.drop_in import use_aggregation
from ssma.aggr.f_mean import FMeanAggregation
from ssma.aggr.pna import PNAAggregation
from ssma.aggr.power_mean import PowerMeanAggregation
from ssma.aggr.recurrent import GRUAggregation, LSTMAggregation
from ssma.aggr.registry import AGGREGATORS, AggregatorKind, make_aggregation
from ssma.aggr.ssma import SSMAAggregation
from ssma.aggr.std import StdAggregation

__all__ = [
    "AGGREGATORS",
    "AggregatorKind",
    "DeepSetsAggregation",
    "FMeanAggregation",
    "GRUAggregation",
    "LSTMAggregation",
    "MaxAggregation",
    "MeanAggregation",
    "MedianAggregation",
    "MinAggregation",
    "MulAggregation",
    "PNAAggregation",
    "PowerMeanAggregation",
    "SSMAAggregation",
    "SoftmaxAggregation",
    "StdAggregation",
    "SumAggregation",
    "VPAAggregation",
    "make_aggregation",
    "use_aggregation",
]
