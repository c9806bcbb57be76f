"""The heart of SSMA: the normalised product of spectra and the compressor, without storing either's activations."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ssma.aggr.compiled import CompiledSteps
from ssma.aggr.opaque import opaque, recorded, transparent
from ssma.aggr.steps import Buffers, Steps

LANES = 16  # matrix products are twice as fast if the width of the thin matrix is a multiple of this
CHUNK_BYTES = {"cpu": 2**19, "cuda": 2**26}  # of a factor: what caches hold, for each thread; what keeps a GPU busy
CHUNK_ROWS = 160  # fit into a chunk at least: of fewer, reading the weights takes longer than what caches save
CHUNK_SLOTS = 40  # empty ones that take as long to multiply as one more chunk
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

    Rows are processed in chunks that fit the cache (or of ``CHUNK_ROWS``, where fewer would), on a CPU those with as
    many filled slots together if many are empty, so that these are not multiplied; compiled kernels take all slots.
    Rows of one factor, which its normalisation leaves as it is, get their linear map without an image. Backward
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
    single = None if compiled or logarithmic else _Single(slots, scale, near, matrix, weight)
    for rows, most in chunks(slots, filled, weight, compiled):
        if single is not None and most == 1:
            out[rows] = single.forward(rows)
            continue
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
    single = None if compiled or logarithmic else _Single(slots, scale, near, matrix, weight)
    for rows, most in chunks(slots, filled, weight, compiled):
        grads = grad[rows]
        slots_grad[most:, rows] = 0
        if single is not None and most == 1:
            slots_grad[0, rows], of_matrix, of_weight = single.backward(rows, grads)
            weight_grad += of_weight
            if of_matrix is not None:
                matrix_grad += _conjugated(of_matrix, real, compiled)
            continue
        scaled, far = _images(slots[:most], scale[:most], matrix, rows, buffers)
        upper = buffers.product("upper", grads, from_output)
        near_rows = None if near is None else near[:most, rows]
        signal, far_grad = steps.gradients(far, near_rows, root[rows], gain[rows], upper)
        weight_grad.addmm_(signal.t(), grads)
        slots_grad[:most, rows] = (far_grad @ to_slots).mul_(scale[:most, rows])
        if near is None:
            matrix_grad.addmm_(scaled.flatten(0, 1).t(), far_grad.flatten(0, 1))
    return slots_grad, _conjugated(matrix_grad, real, compiled), weight_grad


class _Single:
    """Rows of one factor F: their result is the linear map F W, whose sums over either frequency axis are taken in W.

    The arguments are those of :func:`compressed_product`.
    """

    def __init__(self, slots: Tensor, scale: Tensor, near: Tensor | None, matrix: Tensor, weight: Tensor) -> None:
        self.slots, self.scale, self.near, self.matrix, self.weight = slots[0], scale[0], near, matrix, weight

    @cached_property
    def by_axis(self) -> Tensor:
        """W by both frequency axes, ``[m1, b, 2, outputs]``."""
        return self.weight.view(self.near.size(2), -1, 2, self.weight.size(1))

    @cached_property
    def far_weight(self) -> Tensor:
        """What the image of a slot is multiplied by, ``[columns, outputs]``."""
        return self.weight if self.near is None else self.by_axis.sum(0).flatten(0, 1)

    @cached_property
    def near_weight(self) -> Tensor:
        """What is added to images is multiplied by, ``[m1 * 2, outputs]``."""
        return self.by_axis.sum(1).flatten(0, 1)

    @cached_property
    def whole(self) -> Tensor:
        """The map of a slot to its result, ``[channels, outputs]``."""
        return self.matrix @ self.far_weight

    def forward(self, rows: slice | Tensor) -> Tensor:
        """Returns the results of some rows, ``[rows, outputs]``."""
        out = (self.slots[rows] * self.scale[rows]) @ self.whole
        return out if self.near is None else out.addmm_(self.near[0, rows].flatten(1), self.near_weight)

    def backward(self, rows: slice | Tensor, grad: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Returns the gradients of the slots of some rows, of the matrix (with ``near`` it has none) and of the weight,
        by that of their results."""
        moment = (self.slots[rows] * self.scale[rows]).t() @ grad
        slots_grad, far_grad = (grad @ self.whole.t()).mul_(self.scale[rows]), self.matrix.t() @ moment
        if self.near is None:
            return slots_grad, moment @ self.weight.t(), far_grad
        near_grad = self.near[0, rows].flatten(1).t() @ grad
        m1, bins, _, outputs = self.by_axis.shape
        weight_grad = far_grad.view(1, bins, 2, outputs) + near_grad.view(m1, 1, 2, outputs)
        return slots_grad, None, weight_grad.flatten(0, 2)


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
        return _by_filled(filled.clamp(min=1), kappa, size)
    return [(slice(start, min(start + size, rows)), kappa) for start in range(0, rows, size)]


def _by_filled(filled: Tensor, kappa: int, size: int) -> list[tuple[Tensor, int]]:
    """Returns the rows of each chunk, ``size`` at most, and the most filled slots of any of them.

    Rows with as many filled slots are together, and with those that have more where multiplying empty slots costs less
    than a chunk.
    """
    runs: list[list[int]] = []  # most filled slots, rows
    for number, count in reversed(list(enumerate(filled.bincount(minlength=kappa + 1).tolist()))):
        if runs and count * (runs[-1][0] - number) <= CHUNK_SLOTS:
            runs[-1][1] += count
        elif count:
            runs.append([number, count])
    order = filled.argsort(descending=True, stable=True).split([rows for _, rows in runs])
    return [
        (chunk, most)
        for (most, _), rows in zip(runs, order, strict=True)
        for chunk in rows.tensor_split(-(-rows.numel() // size))
    ]


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
