"""Mean, spread and bootstrap interval of a sample."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ssma.statistics.outcome import ALPHA, Interval, NotTestable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

RESAMPLES = 9_999
SEED = 0
SMALLEST = 3
"""Values that an interval needs: of two, half of all resamples are one value repeated."""
DIGITS = 12
"""To these, values that are equal but for rounding are equal."""
ALIKE = "the values do not vary enough for an interval"

TIE = 1e-8
"""The part of the largest value below which a mean, or a difference of means, is rounding: differences are rounded as
the metrics are, which are larger, so that thirds or eighteenths add up to the last digit of those and not to 0."""


@dataclass(frozen=True)
class Description:
    """A sample in numbers; ``std`` is the sample standard deviation (n - 1), ``interval`` that of the mean (BCa)."""

    n: int
    mean: float
    std: float | NotTestable
    interval: Interval | NotTestable


def describe(values: "ArrayLike") -> Description:
    """Describes the values of the units, such as one test metric per split.

    Args:
        values: ``[n]``, at least one, all finite.

    Raises:
        ValueError: If there is no value, or one is not finite.
    """
    import numpy

    sample = finite(values, "values", 1)
    std = float(sample.std(ddof=1)) if len(sample) > 1 else NotTestable("a single value has no spread")
    return Description(len(sample), float(sample.mean()), std, bca_interval(sample, numpy.mean))


def bca_interval(sample: "ArrayLike", statistic: "Callable[..., NDArray]") -> Interval | NotTestable:
    """Returns the 95% bootstrap interval of a statistic, bias-corrected and accelerated (BCa).

    9,999 resamples with a fixed seed; of up to five values all n^n, each as often: drawn ones leave it to chance
    whether an end is the largest mean or the one below. Their statistics are rounded to 12 digits of the largest value,
    and those within ``TIE`` of it from that of the sample, or from 0, are that: the bias is corrected by how many are
    below that of the sample and how many are equal. Source: Efron, "Better Bootstrap Confidence Intervals", Journal of
    the American Statistical Association 82 (1987). It takes the units as independent, and with few of them (under about
    20) it is too narrow.

    Args:
        sample: ``[n]``, with at least one value, all finite.
        statistic: Takes ``[..., n]`` and ``axis=-1``, returns ``[...]``.

    Raises:
        ValueError: If there is no value, or one is not finite.
    """
    import numpy
    from scipy.stats import DegenerateDataWarning, bootstrap

    values = finite(sample, "sample", 1)
    if len(values) < SMALLEST:
        return NotTestable(f"{len(values)} of the {SMALLEST} values that an interval needs")
    if constant(values):
        return NotTestable(ALIKE)
    digits, near, of_sample = digits_of(values), TIE * abs(values).max(), statistic(values, axis=-1)

    def to_digits(resamples: "NDArray", axis: int) -> "NDArray":
        found = statistic(resamples, axis=axis)
        for exact in (of_sample, 0.0):
            found = numpy.where(abs(found - exact) < near, exact, found)
        return found.round(digits)

    drawn: dict[str, Any] = {"n_resamples": RESAMPLES, "rng": SEED}
    if len(values) ** len(values) <= RESAMPLES:
        places = numpy.indices([len(values)] * len(values)).reshape(len(values), -1).T
        every = numpy.repeat(to_digits(values[places], axis=-1), RESAMPLES // len(places) + 1)
        drawn = {"n_resamples": 0, "bootstrap_result": SimpleNamespace(bootstrap_distribution=every)}
    with warnings.catch_warnings():
        for category in (DegenerateDataWarning, RuntimeWarning):
            warnings.simplefilter("ignore", category)  # a degenerate sample gives NaN, which is reported below
        result = bootstrap([values], to_digits, vectorized=True, method="BCa", confidence_level=1 - ALPHA, **drawn)
    low, high = map(float, result.confidence_interval)
    if not (math.isfinite(low) and math.isfinite(high)):
        return NotTestable(ALIKE)
    return Interval(low, high)


def finite(values: "ArrayLike", name: str, dimensions: int) -> "NDArray":
    """Returns an array of floats.

    Raises:
        ValueError: If it has another number of dimensions, no values, or one that is not finite.
    """
    import numpy

    array = numpy.asarray(values, dtype=float)
    if array.ndim != dimensions or array.size == 0:
        raise ValueError(f"{name}: got the shape {array.shape} but expected {dimensions} dimension(s) with values")
    if not numpy.isfinite(array).all():
        raise ValueError(f"{name}: got a value that is not finite; leave out what has no value and say so")
    return array


def rounded(values: "NDArray") -> "NDArray":
    """Returns values ``[..., n]`` to 12 digits of the largest in their row, so that ties are ties."""
    import numpy

    return numpy.apply_along_axis(lambda row: row.round(digits_of(row)), -1, values)


def constant(sample: "NDArray") -> bool:
    """Says whether the values differ by no more than rounding."""
    return float(sample.max() - sample.min()) <= 10.0 ** (2 - DIGITS) * float(abs(sample).max())


def digits_of(values: "NDArray") -> int:
    """Returns the decimals that leave 12 digits of the largest value."""
    largest = float(abs(values).max())
    return DIGITS - math.ceil(math.log10(largest)) if largest else 0
