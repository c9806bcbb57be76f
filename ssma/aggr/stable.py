"""Steps with gradients of their own, which a compiler makes once for any number of rows, and which on a CPU come out
the same on every call.

A compiler left to itself adds to rows in whatever order its threads come, and makes sums over rows for up to 4096 of
them, or for more. Second derivatives do not get here: the sums of :mod:`ssma.aggr.selection` refuse them. Transforms of
`torch.func`, and a trace, are given torch's own steps.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import softmax

from ssma.aggr.opaque import full_precision, transparent


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.rows = x.size(0)
        ctx.save_for_backward(index)
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        rows = grad.new_zeros(ctx.rows, grad.size(1))
        return rows.scatter_add_(0, index.unsqueeze(1).expand_as(grad), grad), None


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        with full_precision(grad.device):
            return (
                grad @ weight if ctx.needs_input_grad[0] else None,
                grad.t() @ x if ctx.needs_input_grad[1] else None,
                _sum_of_rows(grad) if ctx.needs_input_grad[2] else None,
            )


class _Shifted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        return x + bias

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with full_precision(grad.device):
            return grad, _sum_of_rows(grad) if ctx.needs_input_grad[1] else None


class _GroupSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, score: Tensor, group: Tensor, sizes: Tensor) -> Tensor:
        largest = score.new_full((score.size(0), sizes.size(0)), -math.inf)
        largest = largest.scatter_reduce_(1, group.expand_as(score), score, "amax")
        power = (score - largest.index_select(1, group)).exp_()
        weight = power / _group_sums(power, group, sizes)  # not in place: torch.export goes backward by these steps
        ctx.save_for_backward(weight, group, sizes)
        return weight

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        weight, group, sizes = ctx.saved_tensors
        # a gradient may overflow where the weight is 0, as of a large message beside slots of tiny ones
        share = torch.where(weight == 0, 0, grad * weight)
        return share.sub_(_group_sums(share, group, sizes).mul_(weight)), None, None


def rows_of(x: Tensor, index: Tensor) -> Tensor:
    """Returns rows of ``[S, C]`` by an index ``[M]``, ``[M, C]``."""
    return x.index_select(0, index) if transparent() else _Rows.apply(x, index)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Returns `torch.nn.functional.linear` of rows ``[M, C]``."""
    return (torch.nn.functional.linear if transparent() else _Linear.apply)(x, weight, bias)


def shifted(x: Tensor, bias: Tensor) -> Tensor:
    """Returns rows ``[M, C]`` plus a bias ``[C]``."""
    return x + bias if transparent() else _Shifted.apply(x, bias)


def group_softmax(score: Tensor, group: Tensor, sizes: Tensor) -> Tensor:
    """Returns the softmax of each row of scores ``[kappa, M]`` over the messages of a group.

    Args:
        score: Scores.
        group: Group of each message, ``[M]``.
        sizes: Number of messages of each group, ``[G]``.
    """
    if transparent():
        return softmax(score, group, num_nodes=sizes.size(0), dim=1)
    return _GroupSoftmax.apply(score, group, sizes)


def _sum_of_rows(grad: Tensor) -> Tensor:
    """Returns the sum over rows as a matrix product, by two columns: of one a compiler makes a sum again."""
    return (grad.t() @ grad.new_ones(grad.size(0), 2))[:, 0]


def _group_sums(value: Tensor, group: Tensor, sizes: Tensor) -> Tensor:
    """Returns for each message the sum over its group, ``[kappa, M]``."""
    sums = value.new_zeros(value.size(0), sizes.size(0)).scatter_add_(1, group.expand_as(value), value)
    return sums.index_select(1, group)
