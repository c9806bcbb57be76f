"""The operator's stages, one by one."""

from collections.abc import Callable

import torch
from torch import Tensor

from ssma.aggr import SSMAAggregation
from ssma.aggr.combine import Recipe, factors, scores
from ssma.aggr.product import chunks, compressed_product, in_lanes
from ssma.aggr.selection import attention_slots, groups_of
from ssma.bench.measure import Work

WHOLE = "whole call"
FUSED = "spectra of the slots, product, squeezing layer: one call"
SPECTRA = "of it: spectra of the slots"
SQUEEZE = "of it: squeezing layer of the compressor"
PRODUCT = "of it: product and normalisation (the rest)"


def stages(aggr: SSMAAggregation, x: Tensor, index: Tensor, dim_size: int) -> list[tuple[str, Callable[[], Tensor]]]:
    """Returns name and call of every stage of an SSMA with attention slots and one head.

    A call computes its stage from what the stages before it left, as leaves of a graph of its own, so that its result
    can be differentiated alone.

    Args:
        x: Messages, ``[E, d]``.
        index: Target node of each message, ``[E]``.
        dim_size: Number of nodes.
    """
    way, recipe = aggr.way(), aggr.recipe(x)

    def selection() -> Tensor:
        return _slots(aggr, recipe, _leaf(x), index, dim_size)[0]

    slots, filled = _slots(aggr, recipe, x, index, dim_size)
    slots = slots.detach()
    before, weight, flags = _split(factors(way, recipe, filled, slots))

    def preparation() -> Tensor:
        return _split(factors(way, aggr.recipe(x), filled, slots))[1]

    def product() -> Tensor:
        return compressed_product(_leaf(slots), *before[1:], _leaf(weight), *flags)

    mixed = product().detach()

    def expanding() -> Tensor:
        out = _leaf(mixed)
        return (out if aggr.expand is None else out @ aggr.expand.t()) + aggr.bias

    return [
        ("selection: scores and slots", selection),
        ("scales of the slots, spectrum of the compressor's weights", preparation),
        (FUSED, product),
        ("expanding layer", expanding),
    ]


def shares(aggr: SSMAAggregation, x: Tensor, index: Tensor, dim_size: int) -> dict[tuple[str, str], Work]:
    """Returns the matrix products inside the fused stage, alone and in its chunks, forward and backward.

    What the fused stage takes beyond them is the product with its normalisation. The arguments are those of
    :func:`stages`.
    """
    recipe = aggr.recipe(x)
    slots, filled = _slots(aggr, recipe, x, index, dim_size)
    before, weight, _ = _split(factors(aggr.way(), recipe, filled, slots.detach()))
    slots, matrix, weight = before[0], before[4], in_lanes(weight.detach())
    spectra = x.new_ones(aggr.kappa, dim_size, matrix.size(1))
    signal, grad = x.new_ones(dim_size, weight.size(0)), x.new_ones(dim_size, weight.size(1))

    def spectrum(back: bool) -> None:
        for rows, most in chunks(slots, filled, weight, aggr.compiled):
            torch.mm(slots[:most, rows].flatten(0, 1), matrix)
            if back:
                torch.mm(spectra[:most, rows].flatten(0, 1), matrix.t())

    def squeeze() -> None:
        for rows, _ in chunks(slots, filled, weight, aggr.compiled):
            torch.mm(signal[rows], weight)

    def squeeze_back() -> None:
        for rows, _ in chunks(slots, filled, weight, aggr.compiled):
            torch.mm(grad[rows], weight.t())
            torch.mm(signal[rows].t(), grad[rows])

    return {
        (SPECTRA, "forward"): Work(lambda: spectrum(back=False)),
        (SPECTRA, "backward"): Work(lambda: spectrum(back=True)),
        (SQUEEZE, "forward"): Work(squeeze),
        (SQUEEZE, "backward"): Work(squeeze_back),
    }


def _slots(aggr: SSMAAggregation, recipe: Recipe, x: Tensor, index: Tensor, dim_size: int) -> tuple[Tensor, Tensor]:
    """Returns the slots, ``[kappa, dim_size, d]``, and how many are filled."""
    score = scores(aggr.way(), recipe, x, *aggr.scored(x, index))
    return attention_slots(x, score, groups_of(index, dim_size, 1))


def _split(arguments: tuple) -> tuple[tuple, Tensor, tuple]:
    """Parts the arguments of the product: those before the compressor's weight, the weight, those after it."""
    *before, weight, real, logarithmic, compiled, _ = arguments
    return tuple(before), weight, (real, logarithmic, compiled)


def stage_work(stage: Callable[[], Tensor], aggr: SSMAAggregation) -> dict[str, Work]:
    """Returns the forward and the backward pass of a stage."""
    held: list[Tensor] = []

    def reset() -> None:
        aggr.zero_grad(set_to_none=True)

    def forward_first() -> None:
        reset()
        held[:] = [stage()]

    upper = torch.ones_like(stage())
    return {"forward": Work(stage, reset), "backward": Work(lambda: held.pop().backward(upper), forward_first)}


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_()
