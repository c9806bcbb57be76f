"""One numeric axis: which way the metric goes along it, and the smallest setting that is as good as the best."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssma.statistics.describe import digits_of, finite, rounded
from ssma.statistics.outcome import ALPHA, NotTestable
from ssma.statistics.pairs import CorrectedT, corrected_t, mean_difference, paired_differences

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Slope:
    """Change of the metric for one unit of the axis: the mean over units, with the test that it is 0."""

    mean: float
    n: int
    test: CorrectedT | NotTestable


@dataclass(frozen=True)
class Trend:
    """Page's test for a trend over ordered settings.

    ``rho`` is the mean rank correlation of a unit's metrics with the axis, from -1 (all fall) to 1 (all rise); ``p`` is
    two-sided.
    """

    rho: float
    p: float


@dataclass(frozen=True)
class Smallest:
    """The one-standard-error rule: places on the axis, and what the smallest setting loses to the best."""

    best: int
    smallest: int
    difference: float
    """Mean of smallest minus best, 0 if they are the same."""
    test: CorrectedT | NotTestable


def slope(axis: "ArrayLike", scores: "ArrayLike", test_train_ratio: float | None) -> Slope:
    """Fits a least-squares line through each unit's metrics and averages the slopes.

    A unit's slope is a weighted sum of paired values, so that the slopes of overlapping splits get the corrected
    interval of `corrected_t`. It is rounded to 12 digits of the largest term of such a sum, so that one of 0 is 0.

    Args:
        axis: ``[settings]``, at least two different values; give logarithms for a logarithmic axis.
        scores: ``[units, settings]``.
        test_train_ratio: As in `corrected_t`.

    Raises:
        ValueError: If shapes do not match, a value is not finite, or the axis has a single value.
    """
    places, table = _ordered(axis, scores)
    centred = places - places.mean()
    weights = centred / (centred @ centred)
    slopes = (table @ weights).round(digits_of(abs(table).max() * weights))
    return Slope(mean_difference(slopes), len(slopes), corrected_t(slopes, test_train_ratio))


def trend(scores: "ArrayLike") -> Trend | NotTestable:
    """Tests whether the metric rises or falls along ordered settings, by Page's L.

    With m units and k settings, L = sum_j j R_j over the settings' rank sums, and
    rho = 12 L / (m k (k^2 - 1)) - 3 (k + 1) / (k - 1). ``p`` is twice the smaller one of both directions, at most 1.
    Ties (to 12 digits) make it conservative. Source: Page, "Ordered Hypotheses for Multiple Treatments", Journal of the
    American Statistical Association 58 (1963). It takes the units as independent.

    Args:
        scores: ``[units, settings]``, settings in the order of the axis.

    Raises:
        ValueError: If it has another shape or a value that is not finite.
    """
    from scipy.stats import page_trend_test

    table = rounded(finite(scores, "scores", 2))
    units, settings = table.shape
    if settings < 3:
        return NotTestable(f"{settings} of the 3 settings that a trend needs")
    if units < 2:
        return NotTestable("a single unit has no trend beyond its own")
    best = page_trend_test([list(range(settings))] * units).pvalue
    if 2 * best >= ALPHA:
        return NotTestable(f"{units} units of {settings} settings cannot reach p < {ALPHA}")
    rising, falling = page_trend_test(table), page_trend_test(table[:, ::-1])
    rho = 12 * rising.statistic / (units * settings * (settings**2 - 1)) - 3 * (settings + 1) / (settings - 1)
    return Trend(float(rho), min(1.0, 2 * float(min(rising.pvalue, falling.pvalue))))


def smallest_as_good(
    axis: "ArrayLike", scores: "ArrayLike", higher_is_better: bool, test_train_ratio: float | None
) -> Smallest | NotTestable:
    """Returns the smallest setting whose mean is within one standard error of the best one's.

    The standard error is that of the best setting, s / sqrt(n) over the units. Of equally good settings (to 12 digits)
    the smallest is the best; one that is a whole standard error away (to 12 digits) is within it. Source: Breiman,
    Friedman, Olshen and Stone, "Classification and Regression Trees" (1984), section 3.4.3. The paired difference to
    the best shows what the rule lets pass.

    Args:
        axis: ``[settings]``, rising.
        scores: ``[units, settings]``.
        higher_is_better: Direction of the metric.
        test_train_ratio: As in `corrected_t`.

    Raises:
        ValueError: If shapes do not match, a value is not finite, or the axis does not rise.
    """
    import numpy

    places, table = _ordered(axis, scores)
    if not (numpy.diff(places) > 0).all():
        raise ValueError(f"axis: got {places.tolist()}, but the smallest setting needs rising values")
    if len(table) < 2:
        return NotTestable("a single unit has no standard error")
    means = rounded(table.mean(axis=0) if higher_is_better else -table.mean(axis=0))
    best = int(means.argmax())
    error = float(table[:, best].std(ddof=1)) / len(table) ** 0.5
    beyond = (means[best] - means - error).round(digits_of(means))
    smallest = int((beyond <= 0).argmax())
    differences = paired_differences(table[:, smallest], table[:, best])
    return Smallest(best, smallest, mean_difference(differences), corrected_t(differences, test_train_ratio))


def _ordered(axis: "ArrayLike", scores: "ArrayLike") -> "tuple[NDArray, NDArray]":
    places, table = finite(axis, "axis", 1), finite(scores, "scores", 2)
    if table.shape[1] != len(places):
        raise ValueError(f"scores: got the shape {table.shape} but expected {len(places)} settings, as the axis has")
    if (places == places[0]).all():
        raise ValueError(f"axis: got {places.tolist()}, but a slope needs two different values")
    return places, table
