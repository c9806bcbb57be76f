"""The operator's stages, one by one."""

from collections.abc import Callable

import torch
from torch import Tensor

from ssma.aggr import SSMAAggregation
from ssma.aggr.product import chunks, compressed_product
from ssma.aggr.selection import attention_slots
from ssma.aggr.spectrum import roots_of_unity, transform_matrix, transformed_weight
from ssma.bench.measure import Work

FUSED = "spectra of the slots, product, squeezing layer: one call"
SPECTRA = "of it: spectra of the slots"
SQUEEZE = "of it: squeezing layer of the compressor"
PRODUCT = "of it: product and normalisation (the rest)"


def stages(aggr: SSMAAggregation, x: Tensor, index: Tensor, dim_size: int) -> list[tuple[str, Callable[[], Tensor]]]:
    """Returns name and call of every stage of an SSMA with attention slots, one head and the constant affine map.

    A call computes its stage from what the stages before it left, as leaves of a graph of its own, so that its result
    can be differentiated alone. A node without messages costs what the others cost.

    Args:
        aggr: The aggregation.
        x: Messages, ``[E, d]``.
        index: Target node of each message, ``[E]``.
        dim_size: Number of nodes.
    """

    def selection() -> Tensor:
        message = _leaf(x.unsqueeze(1))
        return attention_slots(message, aggr._scores(message, index, None), index, dim_size)[0]

    def spectrum_of_weights() -> Tensor:
        return transformed_weight(aggr.weight).contiguous()

    slots = selection().detach().flatten(1, 2)  # [kappa, N, d]
    scale = 1 / slots.abs().amax(-1, keepdim=True).clamp(min=1)
    near = scale * roots_of_unity(aggr.m1, aggr.m1, slots)
    matrix = -transform_matrix(aggr.in_channels, aggr.m2, slots)
    root = slots.new_full((dim_size, 1), 1 / aggr.kappa)
    gain = scale.log().mean(0).neg().exp()
    weight = spectrum_of_weights().detach()

    def product() -> Tensor:
        return compressed_product(_leaf(slots), scale, near, matrix, root, gain, _leaf(weight))

    mixed = product().detach()

    def expanding() -> Tensor:
        out = _leaf(mixed)
        return (out if aggr.expand is None else out @ aggr.expand.t()) + aggr.bias

    return [
        ("selection: scores and slots", selection),
        ("spectrum of the compressor's weights", spectrum_of_weights),
        (FUSED, product),
        ("expanding layer", expanding),
    ]


def shares(aggr: SSMAAggregation, dim_size: int, like: Tensor) -> dict[tuple[str, str], Work]:
    """Returns the matrix products inside the fused stage, alone and in chunks of its sizes, forward and backward.

    What the fused stage takes beyond them is the product with its normalisation.
    """
    slots = like.new_ones(aggr.kappa, dim_size, aggr.in_channels)
    matrix, weight = transform_matrix(aggr.in_channels, aggr.m2, like), transformed_weight(aggr.weight.detach())
    spectra = like.new_ones(aggr.kappa, dim_size, matrix.size(1))
    signal, grad = like.new_ones(dim_size, weight.size(0)), like.new_ones(dim_size, weight.size(1))

    def spectrum(back: bool) -> None:
        for rows in chunks(slots, weight):
            torch.mm(slots[:, rows].flatten(0, 1), matrix)
            if back:
                torch.mm(spectra[:, rows].flatten(0, 1), matrix.t())

    def squeeze() -> None:
        for rows in chunks(slots, weight):
            torch.mm(signal[rows], weight)

    def squeeze_back() -> None:
        for rows in chunks(slots, weight):
            torch.mm(grad[rows], weight.t())
            torch.mm(signal[rows].t(), grad[rows])

    return {
        (SPECTRA, "forward"): Work(lambda: spectrum(back=False)),
        (SPECTRA, "backward"): Work(lambda: spectrum(back=True)),
        (SQUEEZE, "forward"): Work(squeeze),
        (SQUEEZE, "backward"): Work(squeeze_back),
    }


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
