r"""Mixing of order n (section 4.3): the mixed n-th derivatives of a circular convolution of n signals.

Every n-tuple of entries, one of each signal, has exactly one entry of the convolution with derivative 1, that at the
sum of their places; all others have 0, as have all of a sum's.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def run(settings: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Returns a row per way to combine, number of signals, tuple j of entries and entry k of the result.

    ``convolution`` is the exact one and ``sum`` the baseline; ``normalised`` has the geometric mean in place of the
    product of magnitudes, as the trained SSMA has. All are taken at one random point.

    Args:
        settings: Those of ``ssma.study.theory.HigherOrder``.
    """
    rows = []
    for n in settings["n"]:
        signals = torch.randn(n, settings["length"], dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        for name, combine in COMBINE.items():
            derivatives = mixed_derivatives(combine, signals)
            for place in itertools.product(range(settings["length"]), repeat=n):
                for k, value in enumerate(derivatives[(slice(None), *place)].tolist()):
                    rows.append({"combine": name, "n": n, "j": list(place), "k": k, "derivative": value})
    return rows


def convolution(signals: Tensor) -> Tensor:
    """Returns the circular convolution of n signals, ``[n, m]`` to ``[m]``."""
    return torch.fft.ifft(torch.fft.fft(signals).prod(0)).real


def normalised(signals: Tensor) -> Tensor:
    """Returns the convolution with the magnitude of each frequency replaced by the geometric mean of the factors'."""
    spectrum = torch.fft.fft(signals)
    magnitude = spectrum.abs().log().mean(0).exp()
    return torch.fft.ifft(torch.polar(magnitude, spectrum.angle().sum(0))).real


COMBINE = {"sum": lambda signals: signals.sum(0), "convolution": convolution, "normalised": normalised}


def mixed_derivatives(function: Callable[[Tensor], Tensor], signals: Tensor) -> Tensor:
    """Returns the derivatives of a function of n signals, once by an entry of each signal.

    Args:
        function: Maps ``[n, m]`` to ``[L]`` and is n times differentiable.
        signals: Where they are taken, ``[n, m]``.

    Returns:
        ``[L, m, ..., m]``; entry (l, j_1, ..., j_n) is by the entry j_i of each signal i.
    """
    derivative = lambda *parts: function(torch.stack(parts))  # noqa: E731
    for place in range(signals.size(0)):
        derivative = torch.func.jacrev(derivative, place)
    return derivative(*signals)
