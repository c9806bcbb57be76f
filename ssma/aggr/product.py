"""The heart of SSMA: the normalised product of spectra and the compressor, without storing either's activations."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 8  # factors that are multiplied before they are normalised: their product stays inside float32
FLOOR = 1e-12  # below this (relative) magnitude the geometric mean is linear, which bounds its gradient
CHUNK_BYTES = {"cpu": 2**18, "cuda": 2**26}  # of one factor: what stays in cache, what keeps a GPU busy


class CompressedProduct(torch.autograd.Function):
    r"""Multiplies spectra, replaces the magnitude by the geometric mean, and applies a linear map.

    With :math:`P = \prod_k F_k` over the slots of a row, :math:`Q = g\, P |P|^{1/n - 1}` and the result is
    :math:`Q W`, the real and imaginary parts of Q side by side. The gradient of the second step is

    .. math::
        G_P = g |P|^{\alpha} \left( G_Q + \alpha P \, \mathrm{Re}(\bar{P} G_Q) / |P|^2 \right), \quad \alpha = 1/n - 1

    Rows are processed in chunks that fit the cache, and backward multiplies again instead of storing, so memory does
    not grow with the size of the spectra. Second derivatives are not available.

    Args (of ``apply``):
        near: ``[rows, slots, m1]`` complex, or None.
        far: ``[rows, slots, b]`` complex: the factors are ``near[..., :, None] - far[..., None, :]``; without
            ``near``, the factors themselves, ``[rows, slots, m1, b]``.
        root: ``1/n``, ``[rows, 1, 1]`` real.
        gain: g, ``[rows, 1, 1]`` real.
        weight: W, ``[m1 * b * 2, channels]`` real.
    """

    @staticmethod
    def forward(ctx: Any, near: Tensor | None, far: Tensor, root: Tensor, gain: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(near, far, root, gain, weight)
        out = weight.new_empty(far.size(0), weight.size(1))
        for rows in _chunks(far, weight):
            blocks = _blocks(near, far, rows)
            normalised = _products([_normalise(block[-1], root[rows])[0] for _, block in blocks])[-1]
            torch.mm(_as_real(normalised * gain[rows]), weight, out=out[rows])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None, None, Tensor]:
        near, far, root, gain, weight = ctx.saved_tensors
        far_grad, weight_grad = torch.empty_like(far), torch.zeros_like(weight)
        for rows in _chunks(far, weight):
            blocks = _blocks(near, far, rows)
            parts = [_normalise(block[-1], root[rows]) for _, block in blocks]
            normalised = _products([part[0] for part in parts])
            weight_grad.addmm_(_as_real(normalised[-1] * gain[rows]).t(), grad[rows])
            upper = torch.view_as_complex((grad[rows] @ weight.t()).view(*normalised[-1].shape, 2)) * gain[rows]
            for j, (block_upper, (factors, products)) in _backwards(
                [part[0] for part in parts], normalised, upper, blocks
            ):
                product, (_, scale, square) = products[-1], parts[j]
                radial = (product.real * block_upper.real + product.imag * block_upper.imag) * (root[rows] - 1) / square
                inner = (block_upper + product * radial.masked_fill_(square <= FLOOR**2, 0)) * scale
                for k, (mine, _) in _backwards(factors, products, inner, factors):
                    far_grad[rows, j * BLOCK + k] = mine if near is None else -mine.sum(-2)
        return None, far_grad, None, None, weight_grad


def _chunks(far: Tensor, weight: Tensor) -> list[slice]:
    row_bytes = max(1, weight.size(0) * weight.element_size())
    size = max(1, CHUNK_BYTES.get(far.device.type, CHUNK_BYTES["cuda"]) // row_bytes)
    return [slice(start, min(start + size, far.size(0))) for start in range(0, far.size(0), size)]


def _factors(near: Tensor | None, far: Tensor, rows: slice) -> list[Tensor]:
    if near is None:
        return list(far[rows].unbind(1))
    return list((near[rows].unsqueeze(-1) - far[rows].unsqueeze(-2)).unbind(1))


def _blocks(near: Tensor | None, far: Tensor, rows: slice) -> list[tuple[list[Tensor], list[Tensor]]]:
    """Returns, for each block of factors, the factors and their running products."""
    factors = _factors(near, far, rows)
    parts = [factors[start : start + BLOCK] for start in range(0, len(factors), BLOCK)]
    return [(part, _products(part)) for part in parts]


def _products(factors: list[Tensor]) -> list[Tensor]:
    products = factors[:1]
    for factor in factors[1:]:
        products.append(products[-1] * factor)
    return products


def _backwards(factors: list[Tensor], products: list[Tensor], upper: Tensor, items: list[Any]) -> Iterator[Any]:
    """Yields ``(k, (gradient of factor k, items[k]))`` from the last factor of a product to the first."""
    for k in range(len(factors) - 1, 0, -1):
        yield k, (upper * products[k - 1].conj(), items[k])
        upper = upper * factors[k].conj()
    yield 0, (upper, items[0])


def _normalise(product: Tensor, root: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``P |P|**(1/n - 1)``, the factor ``|P|**(1/n - 1)`` and ``|P|**2``, the last two away from zero."""
    square = (product.real.square() + product.imag.square()).clamp_(min=FLOOR**2)
    scale = square.pow((root - 1) / 2)
    return product * scale, scale, square


def _as_real(spectrum: Tensor) -> Tensor:
    return torch.view_as_real(spectrum).flatten(1)
