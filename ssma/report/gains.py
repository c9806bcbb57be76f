"""The paper's improvement rows: the mean of relative gains, from its entries and from records, with an interval."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    import pandas

RESAMPLES = 9_999
SEED = 0


@dataclass(frozen=True)
class Pair:
    """Two arms on one data set and layer: their metric on the same units, in the same order."""

    dataset: str
    layer: str
    smaller_is_better: bool
    units: tuple
    base: "numpy.ndarray"  # [units]
    ours: "numpy.ndarray"  # [units]


@dataclass(frozen=True)
class Gain:
    """A mean relative gain in percent with its 95% interval; ``reason`` says why there is none."""

    mean: float
    low: float | None
    high: float | None
    reason: str


def pair_of(dataset: str, layer: str, direction: str, base: "pandas.Series", ours: "pandas.Series") -> Pair | None:
    """Returns two arms' values on the units that both have, None unless they have the same units."""
    if set(base.index) != set(ours.index):
        return None
    same = ours.loc[base.index]
    return Pair(dataset, layer, direction == "minimize", tuple(base.index), base.to_numpy(), same.to_numpy())


def relative_gain(base: float, ours: float, smaller_is_better: bool) -> float:
    """Returns the gain over ``base`` in percent: (ours - base) / base, of an error (base - ours) / base."""
    return 100 * (base - ours if smaller_is_better else ours - base) / base


def mean_gain(pairs: Sequence[Pair]) -> Gain:
    """Returns the mean over ``pairs`` of the relative gain of mean over mean, with a bootstrap interval.

    Resampled are the units of each data set (9,999 times, fixed seed), the same for all its layers and both arms, so
    that pairs stay pairs; the interval is BCa (Efron, J. Am. Stat. Assoc. 82, 1987).

    Raises:
        ValueError: If there are no pairs, or those of one data set differ in their units.
    """
    import numpy
    from scipy.stats import DegenerateDataWarning, bootstrap

    groups = [[pair for pair in pairs if pair.dataset == name] for name in dict.fromkeys(p.dataset for p in pairs)]
    mixed = [group[0].dataset for group in groups if len({pair.units for pair in group}) > 1]
    if not groups or mixed:
        raise ValueError(f"mean_gain: expected pairs, on the same units within a data set; got {mixed or 'no pairs'}")

    def statistic(*places: "numpy.ndarray", axis: int = -1) -> "numpy.ndarray":
        gains = []
        for place, group in zip(places, groups, strict=True):
            for pair in group:
                base, ours = pair.base[place].mean(axis), pair.ours[place].mean(axis)
                gains.append(relative_gain(base, ours, pair.smaller_is_better))
        return numpy.mean(gains, axis=0)

    units = [numpy.arange(len(group[0].units)) for group in groups]
    mean = float(statistic(*units))
    if min(map(len, units)) < 2:
        return Gain(mean, None, None, "a single unit has no interval")
    with warnings.catch_warnings():
        for category in (DegenerateDataWarning, RuntimeWarning):
            warnings.simplefilter("ignore", category)  # a degenerate sample is reported below
        interval = bootstrap(units, statistic, n_resamples=RESAMPLES, rng=SEED, method="BCa").confidence_interval
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return Gain(mean, None, None, "all units agree, which gives no interval")
    return Gain(mean, float(interval.low), float(interval.high), "")
