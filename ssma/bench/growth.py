"""The paper's complexity formulas: how operations grow with a size."""

import math
from dataclasses import dataclass

ATTENTION, RANDOM, SUM = "SSMA, attention", "SSMA, random", "sum"
FORMULAS = {
    ATTENTION: "m (d + log m + κ) |V| + m κ |E|",
    RANDOM: "m (d + log m + κ) |V| + |E|",
    SUM: "d |E|",
}
"""Operation counts, with m = (κ + 1)(κ (d - 1) + 1).

Those of SSMA are from the appendix "Complexity analysis" of `"Sequential Signal Mixing Aggregation for Message Passing
Graph Neural Networks" <https://arxiv.org/abs/2409.19414>`_ (the "refined" version, at its end). That of the sum is
the second term of its "standard" cost O(m d |V| + m |E|), for messages of width d in place of m.
"""
FAR = 10**12  # where the leading term of a formula is all of it


@dataclass(frozen=True)
class Point:
    """Sizes of one call: nodes, edges, width of a message, slots."""

    nodes: int
    edges: int
    d: int
    kappa: int


def operations(method: str, point: Point) -> float:
    """Returns the value of a method's formula, all constants 1 and the logarithm of base 2."""
    m = (point.kappa + 1) * (point.kappa * (point.d - 1) + 1)
    if method == SUM:
        return point.d * point.edges
    nodes = m * (point.d + math.log2(m) + point.kappa) * point.nodes
    return nodes + (m * point.kappa if method == ATTENTION else 1) * point.edges


def limit_exponent(method: str, varied: str) -> float:
    """Returns the exponent of a formula in one size, a field of :class:`Point`, as this grows without bound."""
    near, far = (Point(**(dict.fromkeys(("nodes", "edges", "d", "kappa"), 2) | {varied: x})) for x in (FAR, 10 * FAR))
    return math.log10(operations(method, far) / operations(method, near))
