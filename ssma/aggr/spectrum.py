"""The Fourier side of SSMA: spectra of mapped slots, their normalised product, and the compressor's weights.

All signals are real, so half of the second frequency axis is enough, and the first is complete.
"""

import math

import torch
from torch import Tensor

BLOCK = 8  # factors multiplied before they are normalised: their product stays inside float32
FLOOR = 1e-12  # below this (relative) magnitude the geometric mean is linear, which bounds its gradient


def roots_of_unity(count: int, size: int, like: Tensor) -> Tensor:
    """Returns ``exp(-2 pi i k / size)`` for k = 0..count-1, complex, ``[count]``."""
    angle = torch.arange(count, dtype=torch.float64, device=like.device) * (-2 * math.pi / size)
    return torch.polar(torch.ones_like(angle), angle).to(like.dtype.to_complex())


def half(size: int) -> int:
    """Returns how many frequencies of a real signal of ``size`` values are independent."""
    return size // 2 + 1


def constant_map_spectrum(slots: Tensor, m1: int, m2: int) -> Tensor:
    """Returns the 2D spectrum of slots under the paper's constant affine map (Eq. 10).

    The map places ``-x`` in row 0 and a one at (1, 0), so the spectrum is ``w**s - X[b]`` with
    ``w = exp(-2 pi i / m1)`` and X the length-m2 Fourier transform of x.

    Args:
        slots: Real slots, ``[..., d]``.
        m1: Size of the first axis.
        m2: Size of the second axis, at least d.

    Returns:
        Complex, ``[..., m1, half(m2)]``.
    """
    d = slots.size(-1)
    exponent = torch.outer(torch.arange(d, device=slots.device), torch.arange(half(m2), device=slots.device)) % m2
    basis = roots_of_unity(m2, m2, slots)[exponent]  # [d, half(m2)]
    spectrum = torch.complex(slots @ basis.real, slots @ basis.imag)
    return roots_of_unity(m1, m1, slots).unsqueeze(-1) - spectrum.unsqueeze(-2)


def learned_map_spectrum(slots: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Returns the 2D spectrum of slots under any affine map, by transforming the map instead of the slots.

    Args:
        slots: Real slots, ``[..., d]``.
        weight: Linear part, ``[d, m1, m2]``.
        bias: Constant part, ``[m1, m2]``.

    Returns:
        Complex, ``[..., m1, half(m2)]``.
    """
    linear, constant = torch.fft.rfft2(weight), torch.fft.rfft2(bias)
    flat = linear.flatten(1)
    spectrum = torch.complex(slots @ flat.real, slots @ flat.imag)
    return spectrum.unflatten(-1, linear.shape[1:]) + constant


def normalised_product(factors: list[Tensor], scales: list[Tensor], count: Tensor) -> Tensor:
    """Multiplies factors and replaces the magnitude of the product by the geometric mean of theirs.

    With P the product of n factors the result is ``P |P|**(1/n - 1)``; it is 1 for n = 0. A common positive scale of
    a factor cancels but for its n-th root, so factors come scaled to the order of one and nothing overflows.

    Args:
        factors: Complex factors, ``[N, ..., m1, half(m2)]``; an absent one must be 1.
        scales: Positive scale by which each factor was divided, broadcastable to it; 1 for an absent factor.
        count: Number of factors that are present, ``[N, ..., 1, 1]``.

    Returns:
        Complex, ``[N, ..., m1, half(m2)]``.
    """
    root = 1 / count.clamp(min=1).to(scales[0].dtype)
    result = torch.ones_like(factors[0])
    for start in range(0, len(factors), BLOCK):
        product = factors[start]
        for factor in factors[start + 1 : start + BLOCK]:
            product = product * factor
        square = product.real.square() + product.imag.square()
        result = result * (product * square.clamp(min=FLOOR**2).pow((root - 1) / 2))
    for scale in scales:
        result = result * scale.pow(root)
    return result


def transformed_weight(weight: Tensor) -> Tensor:
    """Returns what a real linear map of a signal becomes when it is applied to the signal's half spectrum.

    By Parseval, ``<W, ifft2(Q)>`` is ``<fft2(W), Q> / (m1 m2)``. The frequencies that the half spectrum leaves out
    are complex conjugates of kept ones and count twice there.

    Args:
        weight: Real rows over the signal domain, ``[rows, m1, m2]``.

    Returns:
        Real, ``[m1 * half(m2) * 2, rows]``, for spectra laid out as (m1, half(m2), real and imaginary part).
    """
    m1, m2 = weight.shape[1:]
    twice = weight.new_full((half(m2),), 2 / (m1 * m2))
    twice[0] = 1 / (m1 * m2)
    if m2 % 2 == 0:
        twice[-1] = 1 / (m1 * m2)
    return torch.view_as_real(torch.fft.rfft2(weight) * twice).flatten(1).t()
