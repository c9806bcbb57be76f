"""How time and memory grow with a size: fitted exponents, and those of the paper's complexity formulas."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import linregress, t

ATTENTION, RANDOM, SUM = "SSMA, attention", "SSMA, random", "sum"
FORMULAS = {
    ATTENTION: "m (d + log m + κ) |V| + m κ |E|",
    RANDOM: "m (d + log m + κ) |V| + |E|",
    SUM: "d |E|",
}
"""Operation counts, with m = (κ + 1)(κ (d - 1) + 1).

Those of SSMA are from the appendix "Complexity analysis" of `"Sequential Signal Mixing Aggregation for Message Passing
Graph Neural Networks" <https://arxiv.org/abs/2409.19414>`_ (its last display, "refined" version). That of the sum is
step 3 of its list, "product aggregation", for messages of width d in place of m.
"""
FAR = 10**12  # where the leading term of a formula is all of it


@dataclass(frozen=True)
class Point:
    """Sizes of one call: nodes, edges, width of a message, slots."""

    nodes: int
    edges: int
    d: int
    kappa: int


@dataclass(frozen=True)
class Exponent:
    """The exponent b of y = a x^b with its 95% interval, from ``n`` points."""

    value: float
    low: float
    high: float
    n: int


def operations(method: str, point: Point) -> float:
    """Returns the value of a method's formula, all constants 1 and the logarithm of base 2."""
    m = (point.kappa + 1) * (point.kappa * (point.d - 1) + 1)
    if method == SUM:
        return point.d * point.edges
    nodes = m * (point.d + math.log2(m) + point.kappa) * point.nodes
    return nodes + (m * point.kappa if method == ATTENTION else 1) * point.edges


def fit_exponent(sizes: Sequence[float], values: Sequence[float]) -> Exponent | None:
    """Fits a line through the logarithms by least squares; None for fewer than three points, which give no interval.

    The interval is that of Student's t with n - 2 degrees of freedom. It covers scatter about a power law, not a curve
    that is none: fixed costs flatten the small sizes.
    """
    if len(sizes) < 3:
        return None
    if len(set(values)) == 1:  # no correlation to take an error from
        return Exponent(0.0, 0.0, 0.0, len(sizes))
    line = linregress([math.log(size) for size in sizes], [math.log(value) for value in values])
    half = float(t.ppf(0.975, len(sizes) - 2) * line.stderr)
    return Exponent(float(line.slope), line.slope - half, line.slope + half, len(sizes))


def limit_exponent(method: str, varied: str) -> float:
    """Returns the exponent of a formula in one size, a field of :class:`Point`, as this grows without bound."""
    near, far = (Point(**(dict.fromkeys(("nodes", "edges", "d", "kappa"), 2) | {varied: x})) for x in (FAR, 10 * FAR))
    return math.log10(operations(method, far) / operations(method, near))
