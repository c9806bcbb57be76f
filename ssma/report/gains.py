"""The paper's improvement rows: the mean of relative gains, from its entries and from records, with an interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssma.statistics.describe import bca_interval
from ssma.statistics.outcome import Interval, NotTestable

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
    independent: bool = True  # seeds of one split; folds share most of their training data


@dataclass(frozen=True)
class Gain:
    """A mean relative gain in percent with its 95% interval, which takes the units as independent, as folds are not."""

    mean: float
    interval: Interval | NotTestable
    independent: bool = True


def pair_of(dataset: str, layer: str, direction: str, base: "pandas.Series", ours: "pandas.Series") -> Pair | None:
    """Returns two arms' values on the units that both have, None unless they have the same units."""
    if set(base.index) != set(ours.index):
        return None
    same = ours.loc[base.index]
    seeds = "repeat" in base.index.names
    return Pair(dataset, layer, direction == "minimize", tuple(base.index), base.to_numpy(), same.to_numpy(), seeds)


def relative_gain(base: float, ours: float, smaller_is_better: bool) -> float:
    """Returns the gain over ``base`` in percent: (ours - base) / base, of an error (base - ours) / base."""
    return 100 * (base - ours if smaller_is_better else ours - base) / base


def mean_gain(pairs: Sequence[Pair]) -> Gain:
    """Returns the mean over ``pairs`` of the relative gain of mean over mean, with its BCa bootstrap interval.

    Resampled are the units of each data set, the same for all its layers and both arms, so that pairs stay pairs.

    Raises:
        ValueError: If there are no pairs, or those of one data set differ in their units.
    """
    import numpy

    groups = [[pair for pair in pairs if pair.dataset == name] for name in dict.fromkeys(p.dataset for p in pairs)]
    mixed = [group[0].dataset for group in groups if len({pair.units for pair in group}) > 1]
    if not groups or mixed:
        raise ValueError(f"mean_gain: expected pairs, on the same units within a data set; got {mixed or 'no pairs'}")

    def statistic(*samples: "numpy.ndarray", axis: int = -1) -> "numpy.ndarray":
        gains = []
        for sample, group in zip(samples, groups, strict=True):
            places = sample.astype(int)
            for pair in group:
                base, ours = pair.base[places].mean(axis), pair.ours[places].mean(axis)
                gains.append(relative_gain(base, ours, pair.smaller_is_better))
        return numpy.mean(gains, axis=0)

    places = [numpy.arange(len(group[0].units)) for group in groups]
    return Gain(float(statistic(*places)), bca_interval(places, statistic), all(pair.independent for pair in pairs))
