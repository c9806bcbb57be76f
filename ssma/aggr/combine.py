"""From messages, or the slots of every group, to its result: scales, product, compressor. Functions of tensors, so that
they can be compiled as a whole."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from ssma.aggr.compiled import run
from ssma.aggr.opaque import recorded
from ssma.aggr.product import compressed_product
from ssma.aggr.selection import Groups, attention_slots
from ssma.aggr.spectrum import kept
from ssma.aggr.stable import linear, rows_of, shifted
from ssma.aggr.steps import BLOCK, CEILING

WHOLE_BYTES = {"cpu": 2**23, "cuda": 2**28}  # of all factors: beyond, what a whole call holds costs more than it saves


class Way(NamedTuple):
    """How slots are made and combined: options of the operator, which a compiler takes for constants."""

    kappa: int
    temperature: float
    mixing: str
    normalisation: str
    compiled: bool
    inline: bool = False
    """Let a compiler look inside."""


class Recipe(NamedTuple):
    """What the operator's parameters and constants come to."""

    boost: Tensor | None
    """Factor of each slot, ``[kappa, 1, 1]``; 1 in place of None."""
    roots: Tensor | None
    """Transform of the constant 1 at (1, 0) along the first frequency axis, ``[m1, 2]``, if the affine map is the
    constant one."""
    matrix: Tensor
    """Linear map of a slot to its image; without ``roots``, after the channels, of the constants of a filled and of an
    empty slot."""
    weight: Tensor | None
    """First part of the compressor, ``[columns of the factors, rows]``, unless the matrix is followed by it already."""
    expand: Tensor | None
    """Second part of the compressor, ``[channels, rows]``."""
    bias: Tensor
    """Bias of the compressor, ``[channels]``."""
    scores: tuple[Tensor, ...] = ()
    """Weight and bias of what sources add to attention scores, then of what targets do, if slots are attended."""


def boosts(bound: float | Tensor, kappa: int, like: Tensor) -> Tensor:
    """Returns what the slots are scaled by, ``[kappa, 1, 1]``: the first of each block, so that of its products the
    smallest are above the floor and the largest below the ceiling.

    Args:
        bound: What the magnitude of a factor of slots with entries up to 1 cannot exceed.
        kappa: Number of slots.
        like: A tensor of the dtype and device.
    """
    return (CEILING / bound**BLOCK) ** _starts_of_blocks(kappa, like.dtype, like.device)


def attended(
    way: Way, recipe: Recipe, sizes: Tensor, group: Tensor, order: Tensor | None, message: Tensor, *seen: Tensor | None
) -> Tensor:
    """Returns what :func:`combined` makes of the attention slots of messages.

    Args:
        way: How they are made and combined.
        recipe: With what.
        sizes: As in :class:`ssma.aggr.selection.Groups`, as are ``group`` and ``order``.
        message: Messages, ``[M, channels]``.
        *seen: What else :func:`scores` takes.
    """
    slots, filled = attention_slots(
        message, scores(way, recipe, message, *seen), Groups(sizes, group, order), way.inline
    )
    return combined(way, recipe, filled, slots)


def scores(
    way: Way,
    recipe: Recipe,
    message: Tensor,
    source: Tensor | None,
    source_index: Tensor | None,
    target: Tensor | None,
    target_index: Tensor | None,
) -> Tensor:
    """Returns the attention scores of messages, ``[kappa, M]``.

    Args:
        way: How slots are made.
        recipe: With what.
        message: Messages, ``[M, channels]``.
        source: What the scores see of sources, ``[S, width]``, or None if that is the messages of all heads.
        source_index: The row of ``source`` of each message of all heads.
        target: What the scores see of targets, ``[N, width]``, or None.
        target_index: The row of ``target`` of each message of all heads.
    """
    weight, bias, *of_targets = recipe.scores
    if target is None:  # gradients of zeros, since DistributedDataParallel stops at parameters without one
        bias = bias + sum(unused[:0].sum() for unused in of_targets)
    if source is None:
        score = linear(message.reshape(-1, weight.size(1)), weight, bias)
    else:
        score = rows_of(linear(source, weight, bias), source_index)
    if target is not None:
        score = score + rows_of(linear(target, *of_targets), target_index)
    score = leaky_relu(score).div(way.temperature).reshape(-1, way.kappa)
    return torch.stack(score.unbind(1))


def combined(way: Way, recipe: Recipe, filled: Tensor, slots: Tensor) -> Tensor:
    """Returns the compressed combination of slots, ``[G, channels]``.

    Args:
        way: How they are combined.
        recipe: With what.
        filled: Number of filled slots of each group, ``[G]``.
        slots: ``[kappa, G, channels]``.
    """
    if way.mixing == "sum":
        out = torch.cat([slots.sum(0), filled.to(slots.dtype).unsqueeze(-1)], -1) @ recipe.matrix
    else:
        out = compressed_product(*factors(way, recipe, filled, slots))
    if recipe.expand is None:
        return shifted(out, recipe.bias)
    return linear(out, recipe.expand, recipe.bias)


VARYING = {attended: (0,) * 8, combined: (0, 1)}  # dimension of each input that has another size in each call


def call(function: Callable, way: Way, recipe: Recipe, *inputs: Tensor | None) -> Tensor:
    """Calls :func:`attended` or :func:`combined`, compiled as a whole where that is asked for and the call so small
    that calling its steps takes longer than they do."""
    if not way.compiled or way.mixing == "sum" or recorded():
        return function(way, recipe, *inputs)
    dims, weight, device = VARYING[function], recipe.weight, recipe.weight.device.type
    size = way.kappa * inputs[0].size(0) * weight.size(0) * weight.element_size()
    several = all(tensor is None or tensor.size(dim) > 1 for tensor, dim in zip(inputs, dims, strict=True))
    if size > WHOLE_BYTES.get(device, WHOLE_BYTES["cuda"]) or not several:
        return function(way, recipe, *inputs)
    inputs = [None if tensor is None else tensor.contiguous() for tensor in inputs]
    options = (function, way._replace(inline=True))
    values = (*recipe[:-1], *recipe.scores)
    return run(_from_flat, options, (*dims, *[None] * len(values)), *inputs, *values)


def _from_flat(function: Callable, way: Way, *tensors: Tensor | None) -> Tensor:
    inputs, values = tensors[: len(VARYING[function])], tensors[len(VARYING[function]) :]
    own = len(Recipe._fields) - 1
    return function(way, Recipe(*values[:own], values[own:]), *inputs)


def factors(way: Way, recipe: Recipe, filled: Tensor, slots: Tensor) -> tuple:
    """Returns the arguments of :func:`ssma.aggr.product.compressed_product`, which multiplies the slots' spectra (or
    arrays) and applies the first part of the compressor.

    Each slot is scaled such that products use the range of floating point numbers well; the geometric mean makes
    that a factor of the result (``gain``). An empty slot has the neutral element of the product. The arguments are
    those of :func:`combined`.
    """
    largest = slots.detach().abs().amax(-1, keepdim=True).clamp(min=1)
    present = filled.unsqueeze(-1) > _slot_numbers(slots.size(0), slots.device)  # [kappa, G, 1]
    if recipe.boost is None:
        scale, root = largest.reciprocal(), torch.ones_like(largest[0])
    else:
        scale, root = recipe.boost / largest, filled.clamp(min=1).to(slots.dtype).reciprocal_().unsqueeze(-1)
    scale = torch.where(present, scale, 1)
    gain = (scale.log().sum(0) * root).neg_().exp_()
    near = None
    if recipe.roots is not None:
        near = torch.where(present.unsqueeze(-1), recipe.roots * scale.unsqueeze(-1), recipe.roots[:1])  # 1 if empty
    else:
        present = present.to(slots.dtype)
        slots = torch.cat([slots, present, 1 - present], -1)
    arguments = (slots, filled, scale, near, recipe.matrix, root, gain, recipe.weight)
    return *arguments, way.mixing == "product", way.normalisation == "log", way.compiled, way.inline


@kept
def _slot_numbers(kappa: int, device: torch.device) -> Tensor:
    """Returns 0..kappa-1, ``[kappa, 1, 1]``."""
    return torch.arange(kappa, device=device).view(-1, 1, 1)


@kept
def _starts_of_blocks(kappa: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns 1 for the first slot of each block of factors, 0 for the others, ``[kappa, 1, 1]``."""
    return (_slot_numbers(kappa, device) % BLOCK == 0).to(dtype)
