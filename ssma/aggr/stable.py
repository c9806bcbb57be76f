"""Steps whose gradients come out the same, compiled or not, on every call and for any number of rows.

A compiler left to itself adds to rows in whatever order its threads come, and makes sums over rows for some numbers of
rows only. Second derivatives do not get here: the sums of :mod:`ssma.aggr.selection` refuse them.
"""

import math
from typing import Any

import torch
from torch import Tensor


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(x, index)
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, index = ctx.saved_tensors
        return torch.zeros_like(x).scatter_add_(0, index.unsqueeze(1).expand_as(grad), grad), None


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        ones = grad.new_ones(grad.size(0), 2)  # of one column a compiler makes the sum again
        return grad @ weight if ctx.needs_input_grad[0] else None, grad.t() @ x, (grad.t() @ ones)[:, 0]


class _GroupSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, score: Tensor, group: Tensor, sizes: Tensor) -> Tensor:
        largest = score.new_full((score.size(0), sizes.size(0)), -math.inf)
        largest = largest.scatter_reduce_(1, group.expand_as(score), score, "amax")
        power = (score - largest.index_select(1, group)).exp_()
        weight = power.div_(_sums(power, group, sizes))
        ctx.save_for_backward(weight, group, sizes)
        return weight

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        weight, group, sizes = ctx.saved_tensors
        share = grad * weight
        return share.sub_(_sums(share, group, sizes).mul_(weight)), None, None


def rows_of(x: Tensor, index: Tensor) -> Tensor:
    """Returns rows of ``[S, C]`` by an index ``[M]``, ``[M, C]``."""
    return _Rows.apply(x, index)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Returns `torch.nn.functional.linear` of rows ``[M, C]``."""
    return _Linear.apply(x, weight, bias)


def group_softmax(score: Tensor, group: Tensor, sizes: Tensor) -> Tensor:
    """Returns the softmax of each row of scores ``[kappa, M]`` over the messages of a group.

    Args:
        score: Scores.
        group: Group of each message, ``[M]``.
        sizes: Number of messages of each group, ``[G]``.
    """
    return _GroupSoftmax.apply(score, group, sizes)


def _sums(value: Tensor, group: Tensor, sizes: Tensor) -> Tensor:
    """Returns for each message the sum over its group, ``[kappa, M]``."""
    sums = value.new_zeros(value.size(0), sizes.size(0)).scatter_add_(1, group.expand_as(value), value)
    return sums.index_select(1, group)
