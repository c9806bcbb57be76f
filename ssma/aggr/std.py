"""The standard deviation of a neighbourhood, without cancellation."""

import torch
from torch import Tensor

from ssma.aggr.grouped import GroupedAggregation, group_extremum, group_mean


class StdAggregation(GroupedAggregation):
    r"""The population standard deviation of the neighbours, feature by feature.

    .. math::
        \mathrm{std}(x_1, \ldots, x_n) = \sqrt{\frac{1}{n} \sum_i (x_i - \bar x)^2}

    It is 0 for an empty neighbourhood, for one neighbour and for equal ones, and so is its gradient there. The mean is
    subtracted before squaring: PyG's `StdAggregation` takes the mean of squares minus the squared mean, which
    loses all digits where the offset is large against the spread.
    """

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        return group_std(x, index, dim_size)


def group_std(x: Tensor, index: Tensor, dim_size: int) -> Tensor:
    """Returns the population standard deviation of each group of rows.

    A group is first shifted by its largest value and divided by its range, so that equal values become exactly 0 and
    no square under- or overflows. Both are constants to the gradient, which is exact all the same, since the result
    does not depend on them.
    """
    with torch.no_grad():
        high = group_extremum(x, index, dim_size, "amax")
        spread = high - group_extremum(x, index, dim_size, "amin")
        unit = torch.where(spread > 0, spread, 1)
    z = (x - high[index]) / unit[index]
    variance = group_mean((z - group_mean(z, index, dim_size).index_select(0, index)).square(), index, dim_size)
    return spread * torch.where(spread > 0, variance, 1).sqrt()
