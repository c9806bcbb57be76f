"""The Fourier side of SSMA: spectra of slots and of the compressor's weights.

All signals are real, so half of the second frequency axis is enough, and the first is complete.
"""

import math

import torch
from torch import Tensor


def roots_of_unity(count: int, size: int, like: Tensor) -> Tensor:
    """Returns ``exp(-2 pi i k / size)`` for k = 0..count-1, complex, ``[count]``."""
    angle = torch.arange(count, dtype=torch.float64, device=like.device) * (-2 * math.pi / size)
    return torch.polar(torch.ones_like(angle), angle).to(like.dtype.to_complex())


def half(size: int) -> int:
    """Returns how many frequencies of a real signal of ``size`` values are independent."""
    return size // 2 + 1


def signal_spectrum(slots: Tensor, size: int) -> Tensor:
    """Returns the Fourier transform of slots padded to ``size`` values, as one matrix product.

    Args:
        slots: Real slots, ``[..., d]``.
        size: Length of the transform, at least d.

    Returns:
        Complex, ``[..., half(size)]``.
    """
    place, frequency = (torch.arange(count, device=slots.device) for count in (slots.size(-1), half(size)))
    basis = roots_of_unity(size, size, slots)[torch.outer(place, frequency) % size]
    return _apply(slots, basis)


def linear_map_spectrum(slots: Tensor, weight: Tensor) -> Tensor:
    """Returns the 2D spectrum of linearly mapped slots, by transforming the map instead of the slots.

    Args:
        slots: Real slots, ``[..., d]``.
        weight: The map, ``[d, m1, m2]``.

    Returns:
        Complex, ``[..., m1, half(m2)]``.
    """
    spectrum = torch.fft.rfft2(weight)
    return _apply(slots, spectrum.flatten(1)).unflatten(-1, spectrum.shape[1:])


def _apply(x: Tensor, matrix: Tensor) -> Tensor:
    """Multiplies a real tensor ``[..., d]`` with a complex matrix ``[d, b]``."""
    return torch.view_as_complex((x @ torch.view_as_real(matrix).flatten(1)).unflatten(-1, (-1, 2)))


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
