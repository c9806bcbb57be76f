"""The heart of SSMA: the normalised product of spectra and the compressor, without storing either's activations."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ssma.aggr.compiled import CompiledSteps
from ssma.aggr.opaque import opaque, recorded, transparent
from ssma.aggr.steps import Buffers, Steps

LANES = 16  # matrix products are twice as fast if the width of the thin matrix is a multiple of this
CHUNK_BYTES = {"cpu": 2**19, "cuda": 2**26}  # of a factor: what caches hold, for each thread; what keeps a GPU busy
CHUNK_ROWS = 160  # at least: of fewer, reading the weights takes longer than what caches save
WORTH = 0.9  # of the slots: if more are filled, to sort rows takes longer than to multiply empty ones


def compressed_product(
    slots: Tensor,
    filled: Tensor,
    scale: Tensor,
    near: Tensor | None,
    matrix: Tensor,
    root: Tensor,
    gain: Tensor,
    weight: Tensor,
    real: bool,
    logarithmic: bool,
    compiled: bool,
    inline: bool = False,
) -> Tensor:
    r"""Multiplies linear images of slots, normalises the magnitude of the product, and applies a linear map.

    With :math:`F_k = \mathrm{near}_k + (\mathrm{scale}_k\, \mathrm{slot}_k)\, \mathrm{matrix}` and
    :math:`P = \prod_k F_k`, the result is :math:`Q W` for :math:`Q = g\, P |P|^{1/n - 1}`, with the real and
    imaginary parts of Q side by side. The gradient of the normalisation is

    .. math::
        G_P = g |P|^{\alpha} \left( G_Q + \alpha P \, \mathrm{Re}(\bar{P} G_Q) / |P|^2 \right), \quad \alpha = 1/n - 1

    Rows are processed in chunks that fit the cache (of ``CHUNK_ROWS`` at least), on a CPU those with as many filled
    slots together if many are empty, so that these are not multiplied; compiled kernels take all slots. Backward
    multiplies again instead of storing, so memory does not grow with the size of the spectra. One opaque operator for
    `torch.compile`; no second derivatives but under transforms of `torch.func`, which hold all of it.

    Args:
        slots: ``[kappa, rows, channels]`` real.
        filled: How many slots of each row, its first, are filled, ``[rows]``; factors of the others must be 1.
        scale: ``[kappa, rows, 1]`` real, without gradient.
        near: ``[kappa, rows, m1, 2]``, real and imaginary parts, without gradient, or None. With it, ``matrix`` leads
            to the second frequency axis alone and a factor is ``near[..., :, None] + far[..., None, :]``.
        matrix: ``[channels, columns]`` real, real and imaginary parts of the image interleaved.
        root: ``1/n``, ``[rows, 1]`` real, without gradient.
        gain: g, ``[rows, 1]`` real, without gradient.
        weight: W, ``[columns of the factors, outputs]`` real.
        real: The image is real: the columns of ``matrix`` are its values.
        logarithmic: Replace the magnitude :math:`|Q|` by :math:`\log(1 + |Q|^n)`.
        compiled: Take the steps between matrix products as compiled kernels (:mod:`ssma.aggr.compiled`).
        inline: Let `torch.compile` look inside, where all rows are one chunk.

    Returns:
        ``[rows, outputs]``.
    """
    outputs, compiled = weight.size(1), compiled or transparent()
    if compiled and not real:  # these kernels want real and imaginary parts apart
        matrix, weight = _parts_apart(matrix), _parts_apart(weight.t()).t()
    arguments = (slots, filled, scale, near, matrix, root, gain, in_lanes(weight), real, logarithmic, compiled)
    return _product(*arguments, inline=inline)[:, :outputs]


def in_lanes(weight: Tensor) -> Tensor:
    """Returns a matrix with columns of zeros added up to a multiple of ``LANES``."""
    return pad(weight, (0, -weight.size(1) % LANES)).contiguous()


def _parts_apart(matrix: Tensor) -> Tensor:
    """Puts the imaginary parts of a matrix, whose columns are real and imaginary parts in turn, behind the real."""
    return matrix.unflatten(1, (-1, 2)).transpose(1, 2).flatten(1).contiguous()


def _forward(
    slots: Tensor,
    filled: Tensor,
    scale: Tensor,
    near: Tensor | None,
    matrix: Tensor,
    root: Tensor,
    gain: Tensor,
    weight: Tensor,
    real: bool,
    logarithmic: bool,
    compiled: bool,
) -> Tensor:
    out, buffers = weight.new_empty(slots.size(1), weight.size(1)), Buffers(slots)
    steps = (CompiledSteps if compiled else Steps)(buffers, real, logarithmic)
    for rows, most in chunks(slots, filled, weight, compiled):
        _, far = _images(slots[:most], scale[:most], matrix, rows, buffers)
        signal = steps.signal(far, None if near is None else near[:most, rows], root[rows], gain[rows])
        out[rows] = signal @ weight
    return out if logarithmic else out.mul_(gain)


def _backward(
    grad: Tensor,
    slots: Tensor,
    filled: Tensor,
    scale: Tensor,
    near: Tensor | None,
    matrix: Tensor,
    root: Tensor,
    gain: Tensor,
    weight: Tensor,
    real: bool,
    logarithmic: bool,
    compiled: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of slots, matrix and weight. What runs backwards is the conjugate gradient, which needs no
    conjugated factors; the conjugation is done once, in the small matrices."""
    grad, buffers = grad if logarithmic else grad * gain, Buffers(slots)
    slots_grad, matrix_grad, weight_grad = torch.empty_like(slots), torch.zeros_like(matrix), torch.zeros_like(weight)
    steps = (CompiledSteps if compiled else Steps)(buffers, real, logarithmic)
    from_output = _conjugated(weight.t(), real, compiled).contiguous()
    to_slots = _conjugated(matrix, real, compiled).t().contiguous()
    for rows, most in chunks(slots, filled, weight, compiled):
        scaled, far = _images(slots[:most], scale[:most], matrix, rows, buffers)
        grads = grad[rows]
        upper = buffers.product("upper", grads, from_output)
        near_rows = None if near is None else near[:most, rows]
        signal, far_grad = steps.gradients(far, near_rows, root[rows], gain[rows], upper)
        weight_grad.addmm_(signal.t(), grads)
        slots_grad[:most, rows] = (far_grad @ to_slots).mul_(scale[:most, rows])
        slots_grad[most:, rows] = 0
        if near is None:
            matrix_grad.addmm_(scaled.flatten(0, 1).t(), far_grad.flatten(0, 1))
    return slots_grad, _conjugated(matrix_grad, real, compiled), weight_grad


def _save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    *tensors, ctx.real, ctx.logarithmic, ctx.compiled = inputs
    ctx.save_for_backward(*tensors)


def _gradients(ctx: Any, grad: Tensor, backward: Callable) -> tuple:
    slots, matrix, weight = backward(grad, *ctx.saved_tensors, ctx.real, ctx.logarithmic, ctx.compiled)
    return slots, None, None, None, matrix if ctx.needs_input_grad[4] else None, None, None, weight, None, None, None


def _shape(slots, filled, scale, near, matrix, root, gain, weight, real, logarithmic, compiled):
    return weight.new_empty(slots.size(1), weight.size(1))


def _shapes(grad, slots, filled, scale, near, matrix, root, gain, weight, real, logarithmic, compiled):
    return torch.empty_like(slots), torch.empty_like(matrix), torch.empty_like(weight)


def _plain(slots, filled, scale, near, matrix, root, gain, weight, real, logarithmic, compiled):
    signal = CompiledSteps(Buffers(slots), real, logarithmic).signal(slots * scale @ matrix, near, root, gain)
    return signal @ weight if logarithmic else signal @ weight * gain


_product = opaque("ssma::compressed_product", _forward, _backward, _save, _gradients, _shape, _shapes, _plain)


def chunks(slots: Tensor, filled: Tensor, weight: Tensor, compiled: bool) -> list[tuple[slice | Tensor, int]]:
    """Returns the rows of each chunk, and how many slots of any of them are filled; all rows where a compiler looks on.

    The arguments are those of :func:`compressed_product`.
    """
    kappa, rows = slots.shape[:2]
    if torch.compiler.is_compiling():
        return [(slice(None), kappa)]
    on_host = slots.device.type == "cpu"
    threads = torch.get_num_threads() if on_host else 1
    budget = CHUNK_BYTES.get(slots.device.type, CHUNK_BYTES["cuda"]) * threads
    budget = min(budget, 4 * budget // kappa)  # four of a chunk's factors, or more smaller ones
    size = max(CHUNK_ROWS, budget // (weight.size(0) * weight.element_size()))
    # A kernel is made for one number of slots, in seconds: in compiled ones all are multiplied
    if on_host and not (compiled or recorded()) and int(filled.sum()) < WORTH * kappa * rows:
        order = filled.argsort(descending=True, stable=True)
        return list(zip(order.split(size), filled[order[::size]].clamp(min=1).tolist(), strict=True))
    return [(slice(start, min(start + size, rows)), kappa) for start in range(0, rows, size)]


def _images(slots: Tensor, scale: Tensor, matrix: Tensor, rows: slice | Tensor, buffers: Buffers) -> tuple:
    """Returns the scaled slots of some rows, and their images, ``[kappa, rows, columns]``."""
    scaled = slots[:, rows] * scale[:, rows]
    return scaled, buffers.product("far", scaled.flatten(0, 1), matrix).view(*scaled.shape[:2], -1)


def _conjugated(matrix: Tensor, real: bool, apart: bool) -> Tensor:
    """Conjugates a matrix whose columns are real and imaginary parts in turn, or ``apart``, all real parts first."""
    if real:
        return matrix
    pairs, part = matrix.unflatten(1, (2, -1) if apart else (-1, 2)), 1 if apart else 2
    real_part, imaginary = pairs.unbind(part)
    return torch.stack([real_part, -imaginary], part).flatten(1)
