"""Aggregations of one formula: sum, mean, max, min, product, median, variance-preserving sum, softmax."""

import math

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.utils import degree, scatter, softmax

from ssma.aggr.grouped import (
    GroupedAggregation,
    check_switch,
    group_extremum,
    group_mean,
    group_product,
    group_sizes,
    is_number,
)


class SumAggregation(GroupedAggregation):
    r"""The sum of the neighbours, :math:`\sum_i x_i`; 0 without neighbours.

    In float32 and float64 it is PyG's `SumAggregation`, number for number; half precision runs in float32.
    """

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        return scatter(x, index, 0, dim_size, "sum")


class MeanAggregation(GroupedAggregation):
    r"""The mean of the neighbours, :math:`\frac{1}{n} \sum_i x_i`; 0 without neighbours.

    In float32 and float64 it is PyG's `MeanAggregation`, number for number. Half precision runs in float32, where
    neither the sum overflows nor the count saturates.
    """

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        return group_mean(x, index, dim_size)


class MaxAggregation(GroupedAggregation):
    r"""The maximum of the neighbours, feature by feature; 0 without neighbours. Equal maxima share the gradient.

    In float32 and float64 it is PyG's `MaxAggregation`, number for number, but for gradients: PyG's are wrong for
    indices of int32, and too small where the maximum is exactly 0.
    """

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        return group_extremum(x, index, dim_size, "amax")


class MinAggregation(GroupedAggregation):
    r"""The minimum of the neighbours, feature by feature; 0 without neighbours. Gradients are as of
    :class:`MaxAggregation`."""

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        return group_extremum(x, index, dim_size, "amin")


class MulAggregation(GroupedAggregation):
    r"""The product of the neighbours, :math:`\prod_i x_i`; 1 without neighbours.

    .. note::
        A product of many neighbours leaves float32 soon: 39 neighbours of magnitude 10 are infinite, and an infinite
        product that then meets a 0 is NaN, so that the result may depend on the order of the edges. A fit in which
        that happens is recorded as diverged. Nothing is clamped here, since that would be another aggregation.
    """

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        return group_product(x, index, dim_size)


class MedianAggregation(GroupedAggregation):
    r"""The median of the neighbours, feature by feature; of an even number the lower one; 0 without neighbours, NaN if
    one of them is."""

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        by_value, order = x.sort(dim=0, stable=True)
        by_group = by_value.gather(0, index[order].argsort(dim=0, stable=True))
        sizes = degree(index, dim_size, torch.long)
        ends = sizes.cumsum(0)
        padded = torch.cat([by_group, x.new_zeros(1, *x.shape[1:])])  # its last row is for empty groups
        middle, last = (
            padded[torch.where(sizes > 0, row, index.numel())] for row in (ends - sizes + (sizes - 1) // 2, ends - 1)
        )
        return torch.where(last.isnan(), last, middle)  # NaN sorts last


class VPAAggregation(GroupedAggregation):
    r"""The variance-preserving aggregation of `"GNN-VPA: A Variance-Preserving Aggregation Strategy for Graph Neural
    Networks" <https://arxiv.org/abs/2403.04747>`_: between sum and mean. 0 without neighbours.

    .. math::
        \mathrm{vpa}(x_1, \ldots, x_n) = \frac{1}{\sqrt{n}} \sum_i x_i
    """

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        return scatter(x, index, 0, dim_size, "sum") / group_sizes(index, dim_size, x).sqrt()


class SoftmaxAggregation(GroupedAggregation):
    r"""The softmax aggregation of `"DeeperGCN: All You Need to Train Deeper GCNs"
    <https://arxiv.org/abs/2006.07739>`_: from the mean (t = 0) to the maximum (large t), feature by feature. 0 without
    neighbours.

    .. math::
        \mathrm{softmax}_t(x_1, \ldots, x_n) = \sum_i \frac{e^{t x_i}}{\sum_j e^{t x_j}} x_i

    Args:
        t: Inverse temperature, any real number.
        learn: Train t, one number for all features, starting from the given one.
    """

    def __init__(self, t: float = 1.0, learn: bool = True) -> None:
        super().__init__()
        if not is_number(t) or not math.isfinite(t):
            raise ValueError(f"SoftmaxAggregation got t={t!r} but expected a finite number")
        check_switch(self, "learn", learn)
        self.initial_t = t
        self.learn = learn
        self.t = Parameter(torch.empty(()), requires_grad=learn)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Puts t back to its start value."""
        torch.nn.init.constant_(self.t, self.initial_t)

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        weight = softmax(x * self.t.to(x.dtype), index, num_nodes=dim_size, dim=0)
        return scatter(x * weight, index, 0, dim_size, "sum")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(t={self.initial_t}, learn={self.learn})"
