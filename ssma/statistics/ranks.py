"""Several arms over several data sets: average ranks, Friedman's test, Nemenyi's critical difference."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssma.statistics.describe import finite, rounded
from ssma.statistics.outcome import ALPHA, NotTestable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Friedman:
    """Friedman's test that all arms rank alike, with the correction for ties."""

    chi_squared: float
    degrees: int
    p: float


@dataclass(frozen=True)
class Nemenyi:
    """Average ranks further apart than ``critical_difference`` differ; ``p`` ``[arms, arms]`` holds each pair's."""

    critical_difference: float
    p: "NDArray"


@dataclass(frozen=True)
class RankComparison:
    """Arms over places; ``average`` ``[arms]`` are average ranks, 1 is best."""

    places: int
    average: "NDArray"
    friedman: Friedman | NotTestable
    nemenyi: Nemenyi | NotTestable


def compare_ranks(scores: "ArrayLike") -> RankComparison:
    """Compares arms by their ranks within places, such as data sets.

    Source: Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets", Journal of Machine Learning
    Research 7 (2006).

    Args:
        scores: ``[places, arms]``, higher is better (turn errors around), at least two arms.

    Raises:
        ValueError: If it has another shape or a value that is not finite.
    """
    table = rounded(finite(scores, "scores", 2))
    places, arms = table.shape
    if arms < 2:
        raise ValueError(f"scores: got {arms} arm, but ranks need at least 2")
    return RankComparison(places, average_ranks(table), friedman(table), nemenyi(table))


def average_ranks(scores: "ArrayLike") -> "NDArray":
    """Returns each arm's rank ``[arms]`` averaged over the places of ``scores`` ``[places, arms]``.

    The highest score of a place has rank 1; equal ones share the mean of their ranks.
    """
    from scipy.stats import rankdata

    return rankdata(-rounded(finite(scores, "scores", 2)), axis=1).mean(axis=0)


def friedman(scores: "ArrayLike") -> Friedman | NotTestable:
    """Tests whether all arms rank alike over the places of ``scores`` ``[places, arms]``, by chi squared.

    The approximation is conservative for few places. Source: Friedman, Journal of the American Statistical Association
    32 (1937).
    """
    from scipy.stats import chi2, friedmanchisquare

    table = rounded(finite(scores, "scores", 2))
    places, arms = table.shape
    if arms < 3:
        return NotTestable(f"{arms} of the 3 arms that Friedman's test needs")
    if chi2.sf(places * (arms - 1), arms - 1) >= ALPHA:
        count = f"{places} place{'' if places == 1 else 's'}"
        return NotTestable(f"{count} of {arms} arms cannot reach p < {ALPHA}")
    if (table == table[:, :1]).all():
        return NotTestable("all arms are equal in every place")
    found = friedmanchisquare(*table.T)
    return Friedman(float(found.statistic), arms - 1, float(found.pvalue))


def nemenyi(scores: "ArrayLike") -> Nemenyi | NotTestable:
    """Compares the average ranks of all pairs of arms over the places of ``scores`` ``[places, arms]``.

    The critical difference is q sqrt(k (k + 1) / (6 N)) for k arms and N places, where q is the 95% quantile of the
    studentised range of k means with infinite degrees of freedom, divided by sqrt(2). All pairs are one family, for
    which it corrects. Source: Nemenyi (1963), as in Demšar (2006), equation 5.
    """
    from scikit_posthocs import posthoc_nemenyi_friedman
    from scipy.stats import studentized_range

    table = rounded(finite(scores, "scores", 2))
    places, arms = table.shape
    quantile = float(studentized_range.ppf(1 - ALPHA, arms, math.inf)) / math.sqrt(2)
    difference = quantile * math.sqrt(arms * (arms + 1) / (6 * places))
    if difference > arms - 1:
        count = f"{places} place{'' if places == 1 else 's'}"
        return NotTestable(f"{count} of {arms} arms: no average ranks can differ by {difference:.2f}")
    return Nemenyi(difference, posthoc_nemenyi_friedman(table).to_numpy())
