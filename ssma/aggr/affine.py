"""How far a learned affine map is from the one that it started from."""

from typing import Any

from torch import Tensor

LARGEST_PICTURE = 2048  # entries of m1 x m2; larger maps are told by their numbers alone
DIGITS = 4


def compare_maps(given: Tensor, learned: Tensor) -> dict[str, Any]:
    r"""Returns what the entries of two affine maps, :math:`[d + 1, m_1, m_2]`, and of their difference are like.

    ``given``, ``learned`` and ``difference`` (learned less given) each have the ``mean`` and the ``std`` (population)
    of the absolute entries, the ``largest`` of them, and the ``picture``: the absolute entries averaged over the d
    channels and the constant, ``[m1][m2]`` with four significant digits, or None for more than 2,048 of them.
    """
    given, learned = (maps.detach().cpu().double() for maps in (given, learned))  # Apple's GPUs hold no float64
    maps = {"given": given, "learned": learned, "difference": learned - given}
    return {name: _describe(entries.abs()) for name, entries in maps.items()} | {"shape": list(given.shape)}


def _describe(entries: Tensor) -> dict[str, Any]:
    picture = entries.mean(0)
    small = picture.numel() <= LARGEST_PICTURE
    return {
        "mean": entries.mean().item(),
        "std": entries.std(correction=0).item(),
        "largest": entries.max().item(),
        "picture": [[float(f"{value:.{DIGITS}g}") for value in row] for row in picture.tolist()] if small else None,
    }
