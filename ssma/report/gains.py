"""The paper's improvement rows: the mean of relative gains, from its entries and from records, with an interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssma.statistics.outcome import ALPHA, Interval, NotTestable
from ssma.statistics.pairs import mean_and_error

if TYPE_CHECKING:
    import numpy
    import pandas


@dataclass(frozen=True)
class Pair:
    """Two arms on one data set and layer: their metric on the same units, in the same order."""

    dataset: str
    layer: str
    smaller_is_better: bool
    units: tuple
    base: "numpy.ndarray"  # [units]
    ours: "numpy.ndarray"  # [units]
    ratio: float | None  # n_test / n_train of splits, whose training parts overlap; 0 for seeds of one split


@dataclass(frozen=True)
class Gain:
    """A mean relative gain in percent with its 95% interval."""

    mean: float
    interval: Interval | NotTestable


def pair_of(
    dataset: str, layer: str, direction: str, base: "pandas.Series", ours: "pandas.Series", ratio: float | None
) -> Pair | None:
    """Returns two arms' values on the units that both have, None unless they have the same units.

    Also None beside a mean of 0, which has no relative gain. ``ratio`` is n_test / n_train of the splits, None if
    unknown.
    """
    if set(base.index) != set(ours.index) or base.mean() == 0:
        return None
    same = ours.loc[base.index]
    ratio = 0.0 if "repeat" in base.index.names else ratio
    return Pair(dataset, layer, direction == "minimize", tuple(base.index), base.to_numpy(), same.to_numpy(), ratio)


def relative_gain(base: float, ours: float, smaller_is_better: bool) -> float:
    """Returns the gain over ``base`` in percent: (ours - base) / base, of an error (base - ours) / base."""
    return 100 * (base - ours if smaller_is_better else ours - base) / base


def mean_gain(pairs: Sequence[Pair]) -> Gain:
    """Returns the mean over ``pairs`` of the relative gain of mean over mean, with the corrected resampled t interval.

    A gain is a ratio of means, and is taken as linear in the units around them (delta method): unit i moves it by
    (ours_i - R base_i) / mean(base), R = mean(ours) / mean(base). That is summed over the layers of a data set, which
    have the same units; the errors of data sets are independent, with degrees of freedom by Satterthwaite, Biometrics
    Bulletin 2 (1946).

    Raises:
        ValueError: If there are no pairs, or those of one data set differ in their units.
    """
    from scipy import stats

    groups = [[pair for pair in pairs if pair.dataset == name] for name in dict.fromkeys(p.dataset for p in pairs)]
    mixed = [group[0].dataset for group in groups if len({pair.units for pair in group}) > 1]
    if not groups or mixed:
        raise ValueError(f"mean_gain: expected pairs, on the same units within a data set; got {mixed or 'no pairs'}")
    mean = math.fsum(relative_gain(p.base.mean(), p.ours.mean(), p.smaller_is_better) for p in pairs) / len(pairs)
    parts = [mean_and_error(sum(map(_by_unit, group)) / len(pairs), group[0].ratio) for group in groups]
    if reasons := [part for part in parts if isinstance(part, NotTestable)]:
        return Gain(mean, reasons[0])
    variance = math.fsum(error**2 for _, error, _ in parts)
    degrees = variance**2 / math.fsum(error**4 / degrees for _, error, degrees in parts)
    half = float(stats.t.isf(ALPHA / 2, degrees)) * math.sqrt(variance)
    return Gain(mean, Interval(mean - half, mean + half))


def _by_unit(pair: Pair) -> "numpy.ndarray":
    """Returns the gain in percent as a mean of values of the units ``[units]``."""
    base, ours = pair.base.mean(), pair.ours.mean()
    moved = 100 * (pair.ours - ours / base * pair.base) / base
    return relative_gain(base, ours, pair.smaller_is_better) + (-moved if pair.smaller_is_better else moved)
