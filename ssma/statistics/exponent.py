"""Exponents of growth, b in y = a x^b, with 95% intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ssma.statistics.outcome import ALPHA


@dataclass(frozen=True)
class Exponent:
    """The exponent b of y = a x^b with its 95% interval, from ``n`` points or repeats."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        """Returns ``b [low, high]`` with two decimals."""
        value, low, high = (f"{round(each, 2) + 0.0:.2f}" for each in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}]"


def fit_exponent(sizes: Sequence[float], values: Sequence[float]) -> Exponent | None:
    """Fits a line through the logarithms by least squares; None for fewer than three points, which give no interval.

    The interval is that of Student's t with n - 2 degrees of freedom. It covers scatter about a power law, not a curve
    that is none: fixed costs flatten the small sizes.

    Args:
        sizes: The sizes x, positive and not all the same.
        values: The values y, positive.
    """
    from scipy.stats import linregress, t

    if len(sizes) < 3:
        return None
    if len(set(values)) == 1:  # no correlation to take an error from
        return Exponent(0.0, 0.0, 0.0, len(sizes))
    line = linregress([math.log(size) for size in sizes], [math.log(value) for value in values])
    half = float(t.ppf(1 - ALPHA / 2, len(sizes) - 2) * line.stderr)
    return Exponent(float(line.slope), line.slope - half, line.slope + half, len(sizes))


def mean_exponent(curves: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Exponent:
    """Fits an exponent to each curve and returns their mean.

    The interval is that of Student's t over the curves, so that these must be independent repeats; that of a single
    curve has no ends. Within a curve two points are enough.

    Args:
        curves: Sizes, at least two different ones, and values of each repeat; all are positive. At least one.
    """
    from scipy.stats import linregress, t

    slopes = [
        float(linregress([math.log(size) for size in sizes], [math.log(value) for value in values]).slope)
        for sizes, values in curves
    ]
    mean = math.fsum(slopes) / len(slopes)
    if len(slopes) == 1:
        return Exponent(mean, -math.inf, math.inf, 1)
    variance = math.fsum((slope - mean) ** 2 for slope in slopes) / (len(slopes) - 1)
    half = float(t.ppf(1 - ALPHA / 2, len(slopes) - 1)) * math.sqrt(variance / len(slopes))
    return Exponent(mean, mean - half, mean + half, len(slopes))
