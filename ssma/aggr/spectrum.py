"""The Fourier side of SSMA: what turns slots into spectra, and the compressor's weights in the Fourier domain.

All signals are real, so half of the second frequency axis is enough, and the first is complete. Complex matrices are
real ones here, with real and imaginary parts of a column in turn.
"""

import math
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import torch
from torch import Tensor

from ssma.aggr.opaque import recorded


def kept(table: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Computes a table of constants once for each set of arguments, of which the last is its device.

    A table takes a score of small steps, which on a GPU last longer than the rest of a small call. Whoever records or
    replaces the steps (a compiler, a dispatch mode such as that of fake tensors, a CUDA graph) sees the computation
    itself, and nothing is kept of it.
    """

    @lru_cache(maxsize=64)
    def first(*arguments: Any) -> Tensor:
        with torch.inference_mode(False):  # or it could take part in no later training
            made = table(*arguments)
        if made.is_cuda:
            torch.cuda.current_stream(made.device).synchronize()  # other streams may read it next
        return made

    @wraps(table)
    def again(*arguments: Any) -> Tensor:
        anew = recorded() or (arguments[-1].type == "cuda" and torch.cuda.is_current_stream_capturing())
        return (table if anew else first)(*arguments)

    return again


@kept
def roots_of_unity(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns ``exp(-2 pi i k / size)`` for k = 0..size-1, real and imaginary parts, ``[size, 2]``."""
    place = "cpu" if device.type == "mps" else device  # which knows no float64
    angle = torch.arange(size, dtype=torch.float64, device=place) * (-2 * math.pi / size)
    return torch.stack([angle.cos(), angle.sin()], -1).to(dtype).to(device)


def half(size: int) -> int:
    """Returns how many frequencies of a real signal of ``size`` values are independent."""
    return size // 2 + 1


@kept
def transform_matrix(channels: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns the Fourier transform of ``channels`` values padded to ``size``, ``[channels, half(size) * 2]``."""
    place, frequency = (torch.arange(count, device=device) for count in (channels, half(size)))
    return roots_of_unity(size, dtype, device)[torch.outer(place, frequency) % size].flatten(1)


@kept
def _multiplicity(m1: int, m2: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns how often a column of the half spectrum stands in the whole one, over ``m1 m2``, ``[half(m2)]``."""
    frequency = torch.arange(half(m2), device=device)
    alone = (frequency == 0) | (2 * frequency == m2)
    return (2 - alone.to(dtype)) / (m1 * m2)


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
    spectrum = torch.fft.rfft2(weight) * _multiplicity(*weight.shape[1:], weight.dtype, weight.device)
    return torch.view_as_real(spectrum).flatten(1).t()
