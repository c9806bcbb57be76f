"""Two arms on the same units: is there a difference, how large, and does it matter?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ssma.statistics.describe import TIE, Description, constant, describe, digits_of, finite
from ssma.statistics.outcome import ALPHA, Interval, NotTestable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class CorrectedT:
    """A corrected resampled t-test; ``p`` is two-sided, ``interval`` that of the mean."""

    t: float
    degrees: int
    p: float
    interval: Interval

    def needed(self, family: int = 1) -> float:
        """Returns the size that the observed mean has to exceed to differ from 0 at the level, given this spread.

        Of a single test it is the half width of its interval. To be the smallest p of a ``family`` of tests and hold
        after Holm it takes more: the level divided by their number. A true difference of that size is found in about
        half of all studies.
        """
        from scipy import stats

        half = (self.interval.high - self.interval.low) / 2
        single, adjusted = (float(stats.t.isf(ALPHA / (2 * tests), self.degrees)) for tests in (1, family))
        return half * adjusted / single


@dataclass(frozen=True)
class Posterior:
    """Probabilities that the mean difference lies below, within and above the region of practical equivalence."""

    below: float
    within: float
    above: float


@dataclass(frozen=True)
class PairComparison:
    """Everything that is said of ours minus reference; ``wilcoxon`` is a p value, ``effect`` is Hedges' g.

    The mean ``difference`` is rounded to 12 digits of the largest one, so that one of 0 is 0.
    """

    difference: Description
    corrected_t: CorrectedT | NotTestable
    wilcoxon: float | NotTestable
    posterior: Posterior | NotTestable
    effect: float | NotTestable


def compare_pairs(
    ours: "ArrayLike", reference: "ArrayLike", test_train_ratio: float | None, rope: float
) -> PairComparison:
    """Compares two arms on the same units.

    Args:
        ours: ``[n]``, one metric per unit (split).
        reference: ``[n]``, in the same order.
        test_train_ratio: n_test / n_train of a split; 0 for units that share no training data; None if unknown,
            which leaves out the tests that need it.
        rope: Half the width of the region of practical equivalence, in units of the metric.

    Raises:
        ValueError: If the arrays differ in shape, are empty, or hold a value that is not finite, or if the ratio or
            ``rope`` is negative or not finite.
    """
    differences = paired_differences(ours, reference)
    described = describe(differences)
    return PairComparison(
        replace(described, mean=mean_difference(differences)),
        corrected_t(differences, test_train_ratio),
        wilcoxon(differences),
        posterior(differences, test_train_ratio, rope),
        hedges_g(differences),
    )


def paired_differences(ours: "ArrayLike", reference: "ArrayLike") -> "NDArray":
    """Returns ours minus reference ``[n]``, rounded to 12 digits of the largest value so that ties are ties.

    Raises:
        ValueError: If the arrays differ in shape, are empty, or hold a value that is not finite.
    """
    import numpy

    one, other = finite(ours, "ours", 1), finite(reference, "reference", 1)
    if one.shape != other.shape:
        raise ValueError(
            f"pairs: got {len(one)} of ours and {len(other)} of the reference; each value needs its partner"
        )
    return numpy.round(one - other, digits_of(numpy.concatenate([one, other])))


def mean_difference(differences: "ArrayLike") -> float:
    """Returns the mean of differences ``[n]``, rounded to 12 digits of the largest one, so that ties are ties: the same
    values in another order have a mean difference of 0. A mean under ``TIE`` of the largest is 0 too."""
    sample = finite(differences, "differences", 1)
    mean = math.fsum(sample) / len(sample)
    tie = abs(mean) <= TIE * float(abs(sample).max())
    return 0.0 if tie else round(mean, digits_of(sample))  # of zeros alone not -0.0


def corrected_t(differences: "ArrayLike", test_train_ratio: float | None) -> CorrectedT | NotTestable:
    """Tests whether the mean difference is 0, for splits whose training sets overlap.

    t = mean / sqrt((1 / n + n_test / n_train) s^2) with n - 1 degrees of freedom, s the sample standard deviation.
    Source: Nadeau and Bengio, "Inference for the Generalization Error", Machine Learning 52 (2003); for
    cross-validation Bouckaert and Frank (PAKDD 2004).

    Args:
        differences: ``[n]``, one per split.
        test_train_ratio: n_test / n_train; 0 gives the plain paired t-test; None if unknown.

    Raises:
        ValueError: If the ratio is negative or not finite.
    """
    from scipy import stats

    found = mean_and_error(differences, test_train_ratio)
    if isinstance(found, NotTestable):
        return found
    mean, error, degrees = found
    half = float(stats.t.ppf(1 - ALPHA / 2, degrees)) * error
    p = 2 * float(stats.t.sf(abs(mean) / error, degrees))
    return CorrectedT(mean / error, degrees, p, Interval(mean - half, mean + half))


def wilcoxon(differences: "ArrayLike") -> float | NotTestable:
    """Returns the p value of the hypothesis that differences are symmetric about 0, by signed ranks, exactly.

    Differences of 0 are left out, as Wilcoxon did; tied ones share their mean rank. It is twice the smaller tail, at
    most 1, of the distribution over all 2^n signs of these very ranks, so that it is exact with ties too. Source:
    Wilcoxon, "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1 (1945). It takes the units as
    independent, which the splits of a cross-validation are not.
    """
    import numpy
    from scipy.stats import rankdata

    sample = finite(differences, "differences", 1)
    nonzero = sample[sample != 0]
    n, zeros = len(nonzero), len(sample) - len(nonzero)
    if 2.0 ** (1 - n) >= ALPHA:
        without = f" besides {zeros} without a difference" if zeros else ""
        return NotTestable(f"{n} pair{'' if n == 1 else 's'}{without} cannot reach p < {ALPHA}")
    doubled = numpy.rint(2 * rankdata(numpy.abs(nonzero))).astype(int)  # mean ranks are multiples of 1/2
    positive = int(doubled[nonzero > 0].sum())
    share = numpy.ones(1)
    for rank in doubled:
        shifted = numpy.concatenate([numpy.zeros(rank), share])
        share = (numpy.pad(share, (0, rank)) + shifted) / 2
    tail = min(share[: positive + 1].sum(), share[positive:].sum())
    return min(1.0, 2 * float(tail))


def posterior(differences: "ArrayLike", test_train_ratio: float | None, rope: float) -> Posterior | NotTestable:
    """Returns what the Bayesian correlated t-test believes of the mean difference.

    The posterior is Student's t with n - 1 degrees of freedom, location mean and squared scale
    (1 / n + rho / (1 - rho)) s^2, where rho = n_test / (n_test + n_train), so that rho / (1 - rho) = n_test / n_train.
    Source: Corani and Benavoli, Machine Learning 100 (2015); Benavoli, Corani, Demšar and Zaffalon, "Time for a
    Change", Journal of Machine Learning Research 18 (2017).

    Args:
        differences: ``[n]``, one per split.
        test_train_ratio: n_test / n_train; None if unknown.
        rope: Differences of at most this size are equivalent in practice; 0 for none.

    Raises:
        ValueError: If ``rope`` or the ratio is negative or not finite.
    """
    from scipy import stats

    if not (math.isfinite(rope) and rope >= 0):
        raise ValueError(f"rope: got {rope}, but half the width of a region is a number from 0 up")
    found = mean_and_error(differences, test_train_ratio)
    if isinstance(found, NotTestable):
        return found
    mean, error, degrees = found
    below = float(stats.t.cdf((-rope - mean) / error, degrees))
    above = float(stats.t.sf((rope - mean) / error, degrees))
    return Posterior(below, max(0.0, 1 - below - above), above)


def hedges_g(differences: "ArrayLike") -> float | NotTestable:
    """Returns the standardised mean difference of pairs, mean / s, corrected for the bias of a small n.

    The factor is J(f) = Gamma(f / 2) / (sqrt(f / 2) Gamma((f - 1) / 2)) with f = n - 1. Source: Hedges, "Distribution
    Theory for Glass's Estimator of Effect Size", Journal of Educational Statistics 6 (1981). s is that of the
    differences, so that g says how many of their standard deviations the mean is away from 0.
    """
    sample = finite(differences, "differences", 1)
    n = len(sample)
    if n < 3:
        return NotTestable(f"{n} of the 3 pairs that an effect size needs")
    if constant(sample):
        return NotTestable("all differences are equal")
    half = (n - 1) / 2
    factor = math.exp(math.lgamma(half) - math.lgamma(half - 0.5)) / math.sqrt(half)
    return factor * mean_difference(sample) / float(sample.std(ddof=1))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Returns p values adjusted for the family that they are, in the same order.

    None stands for a test that could not be made: it stays None and does not count in the family. Source: Holm, "A
    Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6 (1979).
    """
    adjusted, largest = list(p_values), 0.0
    made = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    for step, (p, place) in enumerate(made):
        largest = max(largest, (len(made) - step) * p)
        adjusted[place] = min(largest, 1.0)
    return adjusted


def mean_and_error(differences: "ArrayLike", test_train_ratio: float | None) -> tuple[float, float, int] | NotTestable:
    """Returns the mean, its standard error with overlapping training sets, and the degrees of freedom.

    Raises:
        ValueError: If the ratio is negative or not finite.
    """
    sample = finite(differences, "differences", 1)
    n = len(sample)
    if n < 2:
        return NotTestable("a single pair has no spread")
    if test_train_ratio is None:
        return NotTestable("the sizes of the training and test parts are unknown")
    if not (math.isfinite(test_train_ratio) and test_train_ratio >= 0):
        raise ValueError(f"test_train_ratio: got {test_train_ratio}, but n_test / n_train is a number from 0 up")
    if constant(sample):
        return NotTestable("all differences are equal")
    error = math.sqrt(1 / n + test_train_ratio) * float(sample.std(ddof=1))
    return float(sample.mean()), error, n - 1
