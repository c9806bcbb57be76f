"""The Fourier side of SSMA: what turns slots into spectra, and the compressor's weights in the Fourier domain.

All signals are real, so half of the second frequency axis is enough, and the first is complete. Complex matrices are
real ones here, with real and imaginary parts of a column in turn.
"""

import math

import torch
from torch import Tensor


def roots_of_unity(count: int, size: int, like: Tensor) -> Tensor:
    """Returns ``exp(-2 pi i k / size)`` for k = 0..count-1, complex, ``[count]``."""
    angle = torch.arange(count, dtype=torch.float64, device=like.device) * (-2 * math.pi / size)
    return torch.complex(angle.cos().to(like.dtype), angle.sin().to(like.dtype))


def half(size: int) -> int:
    """Returns how many frequencies of a real signal of ``size`` values are independent."""
    return size // 2 + 1


def transform_matrix(channels: int, size: int, like: Tensor) -> Tensor:
    """Returns the Fourier transform of ``channels`` values padded to ``size``, ``[channels, half(size) * 2]``."""
    place, frequency = (torch.arange(count, device=like.device) for count in (channels, half(size)))
    basis = roots_of_unity(size, size, like)[torch.outer(place, frequency) % size]
    return torch.view_as_real(basis).flatten(1)


def transformed_map(weight: Tensor) -> Tensor:
    """Returns linear maps to the signal domain, followed by a 2D transform, as one matrix.

    Args:
        weight: The maps, ``[rows, m1, m2]``.

    Returns:
        ``[rows, m1 * half(m2) * 2]``.
    """
    return torch.view_as_real(torch.fft.rfft2(weight)).flatten(1)


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
