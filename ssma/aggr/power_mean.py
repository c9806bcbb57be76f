"""The power mean with a learnable exponent."""

import math

import torch
from torch import Tensor
from torch.nn import Parameter

from ssma.aggr.grouped import GroupedAggregation, check_switch, group_extremum, group_mean, is_number

EPS = 1e-3  # below this magnitude the power is linear, which bounds its slope and that of its inverse
SMALLEST = 1e-30  # of a mean of powers, relative to the largest; keeps the inverse's slope inside float32


class PowerMeanAggregation(GroupedAggregation):
    r"""The power mean of `"DeeperGCN: All You Need to Train Deeper GCNs" <https://arxiv.org/abs/2006.07739>`_,
    extended to negative numbers: powers keep their sign. 0 without neighbours.

    .. math::
        f^{-1}\left( \frac{1}{n} \sum_i f(x_i) \right), \qquad f(x) = x \cdot \max(|x|, \epsilon)^{p - 1}

    with :math:`\epsilon = 10^{-3}`: f is odd, increasing, and linear below :math:`\epsilon`, so that f and its inverse
    have bounded slopes. On positive numbers above :math:`\epsilon` this is the power mean; the plain mean for p = 1, in
    every bit, and it tends to the largest magnitude for large p. PyG's `PowerMeanAggregation` clamps negative
    numbers to a small positive one instead.

    The exponent is learned as :math:`\log p`, so it stays above 0. An exponent of 0 or below is refused: f would not be
    increasing through 0, and a neighbour at 0 would rule over all others.

    Args:
        p: Exponent at the start, above 0.
        learn: Train the exponent, one number for all features.
    """

    def __init__(self, p: float = 1.0, learn: bool = True) -> None:
        super().__init__()
        if not is_number(p) or not 0 < p < math.inf:
            raise ValueError(f"PowerMeanAggregation got p={p!r} but expected a finite exponent above 0")
        check_switch(self, "learn", learn)
        self.p = p
        self.learn = learn
        self.log_p = Parameter(torch.empty(()), requires_grad=learn)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Puts the exponent back to its start value."""
        torch.nn.init.constant_(self.log_p, math.log(self.p))

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        p = self.log_p.to(x.dtype).exp()
        # Powers are taken relative to a group's largest magnitude, so that none overflows. The result does not depend
        # on that unit, hence no gradient; the plain mean needs none.
        with torch.no_grad():
            largest = group_extremum(x.abs(), index, dim_size, "amax").clamp(min=EPS)
            unit = torch.where(p == 1, 1, largest)
        z = x / unit[index]
        powers = z * torch.maximum(z.abs(), (EPS / unit)[index]).pow(p - 1)
        mean = group_mean(powers, index, dim_size)
        least = (EPS / unit).pow(p).clamp(min=SMALLEST)
        return unit * mean * torch.maximum(mean.abs(), least).pow(1 / p - 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p}, learn={self.learn})"
