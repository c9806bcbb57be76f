"""The heart of SSMA: the normalised product of spectra and the compressor, without storing either's activations."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ssma.aggr.opaque import opaque

BLOCK = 4  # factors that are multiplied before they are normalised
FLOOR = {torch.float32: 2e-19, torch.float64: 1e-140}  # below it a product counts as zero; its square is normal
CEILING = 1e16  # of the product of a block whose factors are as large as can be
LANES = 16  # matrix products are twice as fast if the width of the thin matrix is a multiple of this
CHUNK_BYTES = {"cpu": 2**19, "cuda": 2**26}  # of a factor: what caches hold, for each thread; what keeps a GPU busy


def compressed_product(
    slots: Tensor,
    scale: Tensor,
    near: Tensor | None,
    matrix: Tensor,
    root: Tensor,
    gain: Tensor,
    weight: Tensor,
    real: bool = False,
    logarithmic: bool = False,
) -> Tensor:
    r"""Multiplies linear images of slots, normalises the magnitude of the product, and applies a linear map.

    With :math:`F_k = \mathrm{near}_k + (\mathrm{scale}_k\, \mathrm{slot}_k)\, \mathrm{matrix}` and
    :math:`P = \prod_k F_k`, the result is :math:`Q W` for :math:`Q = g\, P |P|^{1/n - 1}`, with the real and
    imaginary parts of Q side by side. The gradient of the normalisation is

    .. math::
        G_P = g |P|^{\alpha} \left( G_Q + \alpha P \, \mathrm{Re}(\bar{P} G_Q) / |P|^2 \right), \quad \alpha = 1/n - 1

    Rows are processed in chunks that fit the cache, and backward multiplies again instead of storing, so memory does
    not grow with the size of the spectra. One opaque operator for `torch.compile`; no second derivatives.

    Args:
        slots: ``[kappa, rows, channels]`` real.
        scale: ``[kappa, rows, 1]`` real, without gradient.
        near: ``[kappa, rows, m1]`` complex, without gradient, or None. With it, ``matrix`` leads to the second
            frequency axis alone and a factor is ``near[..., :, None] + far[..., None, :]``.
        matrix: ``[channels, columns]`` real, real and imaginary parts of the image interleaved.
        root: ``1/n``, ``[rows, 1]`` real, without gradient.
        gain: g, ``[rows, 1]`` real, without gradient.
        weight: W, ``[columns of the factors, outputs]`` real.
        real: The image is real: the columns of ``matrix`` are its values.
        logarithmic: Replace the magnitude :math:`|Q|` by :math:`\log(1 + |Q|^n)`.

    Returns:
        ``[rows, outputs]``.
    """
    outputs = weight.size(1)
    return _product(slots, scale, near, matrix, root, gain, in_lanes(weight), real, logarithmic)[:, :outputs]


def in_lanes(weight: Tensor) -> Tensor:
    """Returns a matrix with columns of zeros added up to a multiple of ``LANES``."""
    return pad(weight, (0, -weight.size(1) % LANES)).contiguous()


def _forward(
    slots: Tensor,
    scale: Tensor,
    near: Tensor | None,
    matrix: Tensor,
    root: Tensor,
    gain: Tensor,
    weight: Tensor,
    real: bool,
    logarithmic: bool,
) -> Tensor:
    out, buffers = weight.new_empty(slots.size(1), weight.size(1)), _Buffers(slots)
    for rows in chunks(slots, weight):
        product = None
        for block in _blocks(slots, scale, near, matrix, rows, real, buffers)[1]:
            part = block[0]
            for factor in block[1:]:
                part.mul_(factor)
            part.mul_(_geometric(part, root[rows])[1])
            product = part if product is None else product.mul_(part)
        if logarithmic:
            product.mul_(_logarithmic(product, root[rows], gain[rows])[1])
        torch.mm(_as_real(product), weight, out=out[rows])
    return out if logarithmic else out.mul_(gain)


def _backward(
    grad: Tensor,
    slots: Tensor,
    scale: Tensor,
    near: Tensor | None,
    matrix: Tensor,
    root: Tensor,
    gain: Tensor,
    weight: Tensor,
    real: bool,
    logarithmic: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of slots, matrix and weight. What runs backwards is the conjugate gradient, which needs no
    conjugated factors; the conjugation is done once, in the small matrices."""
    grad, buffers = grad if logarithmic else grad * gain, _Buffers(slots)
    slots_grad, matrix_grad, weight_grad = torch.empty_like(slots), torch.zeros_like(matrix), torch.zeros_like(weight)
    from_output = _conjugated(weight.t(), real).contiguous()
    to_slots = _conjugated(matrix, real).t().contiguous()
    for rows in chunks(slots, weight):
        scaled, blocks = _blocks(slots, scale, near, matrix, rows, real, buffers)
        products = [_running_products(block) for block in blocks]
        norms = [_geometric(running[-1], root[rows]) for running in products]
        parts = [running[-1] * norm[1] for running, norm in zip(products, norms, strict=True)]
        before = _running_products(parts)
        upper = torch.mm(grad[rows], from_output, out=buffers("upper", len(scaled[0]), weight.size(0)))
        upper = (upper if real else _as_complex(upper)).view_as(before[-1])
        signal = before[-1]
        if logarithmic:
            norm = _logarithmic(signal, root[rows], gain[rows])
            upper = _normalised_backward(signal, norm, upper)
            signal = signal * norm[1]
        weight_grad.addmm_(_as_real(signal).t(), grad[rows])
        far_grad = buffers("far_grad", *scaled.shape[:2], matrix.size(1))
        by_slot = far_grad if real else _as_complex(far_grad)
        for j in range(len(blocks) - 1, -1, -1):
            inner = _normalised_backward(products[j][-1], norms[j], upper * before[j - 1] if j else upper)
            for i in range(len(blocks[j]) - 1, -1, -1):
                mine = inner * products[j][i - 1] if i else inner
                if near is None:
                    by_slot[j * BLOCK + i] = mine
                else:
                    torch.sum(mine, 1, out=by_slot[j * BLOCK + i])
                if i:
                    inner.mul_(blocks[j][i])
            if j:
                upper = upper * parts[j]
        torch.mul((far_grad @ to_slots), scale[:, rows], out=slots_grad[:, rows])
        if near is None:
            matrix_grad.addmm_(scaled.flatten(0, 1).t(), far_grad.flatten(0, 1))
    return slots_grad, _conjugated(matrix_grad, real), weight_grad


def _save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    *tensors, ctx.real, ctx.logarithmic = inputs
    ctx.save_for_backward(*tensors)


def _gradients(ctx: Any, grad: Tensor, backward: Callable) -> tuple:
    slots, matrix, weight = backward(grad, *ctx.saved_tensors, ctx.real, ctx.logarithmic)
    return slots, None, None, matrix if ctx.needs_input_grad[3] else None, None, None, weight, None, None


def _shape(slots, scale, near, matrix, root, gain, weight, real, logarithmic):
    return weight.new_empty(slots.size(1), weight.size(1))


def _shapes(grad, slots, scale, near, matrix, root, gain, weight, real, logarithmic):
    return torch.empty_like(slots), torch.empty_like(matrix), torch.empty_like(weight)


_product = opaque("ssma::compressed_product", _forward, _backward, _save, _gradients, _shape, _shapes)


def headroom(largest: float | Tensor) -> float | Tensor:
    """Returns a factor for the first slot of each block, after which the smallest products are above the floor, and
    the largest below the ceiling.

    Args:
        largest: What the magnitude of a factor of slots with entries up to 1 cannot exceed.
    """
    return CEILING / largest**BLOCK


def largest_factor(matrix: Tensor, real: bool) -> Tensor:
    """Returns the largest magnitude that rows with entries up to 1 have under ``matrix``, a scalar, at least 1."""
    columns = (matrix if real else _as_complex(matrix)).abs().sum(0)
    return columns.max().clamp(min=1)


def chunks(slots: Tensor, weight: Tensor) -> list[slice]:
    """Returns the rows of each chunk."""
    threads = torch.get_num_threads() if slots.device.type == "cpu" else 1
    budget = CHUNK_BYTES.get(slots.device.type, CHUNK_BYTES["cuda"]) * threads
    budget = min(budget, 4 * budget // slots.size(0))  # four of a chunk's factors, or more smaller ones
    size, rows = max(1, budget // (weight.size(0) * weight.element_size())), slots.size(1)
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


class _Buffers:
    """Memory that the chunks of one call share: touching new pages costs more than the arithmetic on them.

    The first request of a name is the largest.
    """

    def __init__(self, like: Tensor) -> None:
        self.like, self.named = like, {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        size = math.prod(shape)
        if name not in self.named:
            self.named[name] = self.like.new_empty(size)
        return self.named[name][:size].view(shape)


def _blocks(
    slots: Tensor,
    scale: Tensor,
    near: Tensor | None,
    matrix: Tensor,
    rows: slice,
    real: bool,
    buffers: _Buffers,
) -> tuple[Tensor, list[list[Tensor]]]:
    """Returns the scaled slots of some rows, and their factors ``[rows, m1, b]`` (``[rows, columns]``) in blocks."""
    scaled = slots[:, rows] * scale[:, rows]
    far = buffers("far", *scaled.shape[:2], matrix.size(1))
    torch.mm(scaled.flatten(0, 1), matrix, out=far.flatten(0, 1))
    factors = far if real else _as_complex(far)
    if near is not None:
        far, shape = factors, (*near[:, rows].shape, factors.size(2))
        factors = _as_complex(buffers("factors", *shape[:3], 2 * shape[3]))
        torch.add(far.unsqueeze(-2), near[:, rows].unsqueeze(-1), out=factors)
    factors = list(factors.unbind(0))
    return scaled, [factors[start : start + BLOCK] for start in range(0, len(factors), BLOCK)]


def _running_products(factors: list[Tensor]) -> list[Tensor]:
    products = factors[:1]
    for factor in factors[1:]:
        products.append(products[-1] * factor)
    return products


def _geometric(product: Tensor, root: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``|P|**2``, the factor ``|P|**(1/n - 1)`` and the exponent of the latter.

    At zero the factor and its gradient are infinite, and count as 0: there ``|P|**2`` is the largest number instead. A
    single factor (exponent 0) keeps its 1.
    """
    exponent = root.view(-1, *[1] * (product.dim() - 1)) - 1
    square = _nonzero(_square(product))
    return square, square.log2().mul_(exponent / 2).exp2_(), exponent


def _logarithmic(normalised: Tensor, root: Tensor, gain: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``|N|**2``, the factor ``log(1 + (g |N|)**n) / |N|`` and its logarithmic derivative.

    Zero is treated as in :func:`_geometric`.
    """
    shape = (-1, *[1] * (normalised.dim() - 1))
    n, gain = 1 / root.view(shape), gain.view(shape)
    square = _square(normalised)
    log = square.clamp(min=FLOOR[square.dtype] ** 2).log_().mul_(0.5)
    power = ((log + gain.log()) * n).clamp_(min=-60)
    magnitude = torch.nn.functional.softplus(power, threshold=60)
    exponent = n * power.sigmoid() / magnitude - 1
    scale = torch.where((square > FLOOR[square.dtype] ** 2) | (exponent == 0), magnitude * (-log).exp_(), 0)
    return _nonzero(square), scale, exponent


def _nonzero(square: Tensor) -> Tensor:
    return torch.nn.functional.threshold(square, FLOOR[square.dtype] ** 2, torch.finfo(square.dtype).max)


def _normalised_backward(product: Tensor, norm: tuple[Tensor, Tensor, Tensor], upper: Tensor) -> Tensor:
    """Returns the conjugate gradient of P from that of ``P scale(|P|)``."""
    square, scale, exponent = norm
    work = product * upper
    radial = (work.real * exponent).div_(square)
    return torch.conj_physical(product, out=work).mul_(radial).add_(upper).mul_(scale)


def _square(product: Tensor) -> Tensor:
    if not product.is_complex():
        return product.square()
    squares = torch.view_as_real(product).square()
    return squares[..., 0] + squares[..., 1]  # faster than from the strided parts


def _as_real(signal: Tensor) -> Tensor:
    return torch.view_as_real(signal).flatten(1) if signal.is_complex() else signal


def _as_complex(pairs: Tensor) -> Tensor:
    return torch.view_as_complex(pairs.unflatten(-1, (-1, 2)))


def _conjugated(matrix: Tensor, real: bool) -> Tensor:
    """Conjugates a matrix whose columns are real and imaginary parts in turn."""
    if real:
        return matrix
    pairs = matrix.unflatten(1, (-1, 2))
    return torch.stack([pairs[..., 0], -pairs[..., 1]], -1).flatten(1)
