import itertools
import math

import numpy
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from ssma.statistics.describe import describe
from ssma.statistics.outcome import NotTestable
from ssma.statistics.pairs import (
    compare_pairs,
    corrected_t,
    hedges_g,
    holm,
    mean_difference,
    paired_differences,
    posterior,
    wilcoxon,
)

# Darwin's maize, in eighths of an inch (Fisher, The Design of Experiments, 1935)
DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]


def test_rounding_makes_no_differences():
    assert paired_differences([0.1 + 0.2, 0.8], [0.3, 0.7]).tolist() == [0.0, 0.1]
    assert paired_differences([1e-9, 0.0], [0.0, 0.0]).tolist() == [1e-9, 0.0]
    assert paired_differences([0.0], [0.0]).tolist() == [0.0]
    with pytest.raises(ValueError, match="2 of ours and 3 of the reference"):
        paired_differences([1, 2], [1, 2, 3])


@pytest.mark.parametrize(
    ("items", "of", "low", "high"),
    [([1, 4, 0, -3, 1], 18, -1.6, 2.6), ([2, 0, 3, 2, 2, -2, -1, 2, -2, 0], 19, -0.5, 1.6)],
)
def test_resamples_with_the_mean_of_the_sample_are_counted_as_such(items, of, low, high):
    """Differences of accuracies are so many items of a split, of which the sums are exact; as numbers they have fewer
    digits than the accuracies.
    """
    found = compare_pairs([(11 + item) / of for item in items], [11 / of] * len(items), 0.1, 0.01).difference.interval
    assert (of * found.low, of * found.high) == pytest.approx((low, high), abs=1e-7)
    whole = describe([float(item) for item in items]).interval
    assert (whole.low, whole.high) == pytest.approx((low, high))


def test_the_same_values_in_another_order_have_a_mean_difference_of_0():
    ours, reference = [0.61, 0.86, 0.56], [0.56, 0.61, 0.86]
    assert math.fsum(paired_differences(ours, reference)) != 0
    for one, other in ((ours, reference), (reference, ours)):
        mean = compare_pairs(one, other, 0.5, 0.01).difference.mean
        assert (mean, math.copysign(1, mean)) == (0, 1)
    ours, reference = [29 / 36, 21 / 36, 28 / 36], [27 / 36, 24 / 36, 27 / 36]  # 2, -3 and 1 of 36: sixths and ninths
    assert math.fsum(paired_differences(ours, reference)) > 9e-13
    found = compare_pairs(ours, reference, 0.5, 0.01)
    assert (found.difference.mean, found.effect) == (0, 0)
    assert mean_difference([1e-3, -1e-3 + 3e-10]) == pytest.approx(1.5e-10, rel=1e-6)
    assert mean_difference([-1.0, 0.5, 0.5 + 2.4e-8]) == 0  # of the largest, which is the negative one
    assert math.copysign(1, mean_difference([-0.0, -0.0])) == 1
    assert mean_difference([0.25, -0.05, 0.1]) == 0.1
    assert mean_difference([-0.05]) == -0.05


def test_corrected_t_by_hand():
    # mean 0.2, s 0.1, error 0.1 sqrt(1/3 + 1/6); with 2 degrees of freedom p = 1 - t / sqrt(2 + t^2)
    found = corrected_t([0.1, 0.2, 0.3], 1 / 6)
    assert (found.t, found.degrees) == (pytest.approx(2 * math.sqrt(2)), 2)
    assert found.p == pytest.approx(1 - math.sqrt(8 / 10))
    half = 4.3026527 * 0.1 / math.sqrt(2)  # t(0.975, 2)
    assert (found.interval.low, found.interval.high) == (pytest.approx(0.2 - half), pytest.approx(0.2 + half))
    worse = corrected_t([-0.1, -0.2, -0.3], 1 / 6)
    assert (worse.t, worse.p, worse.interval.low) == (-found.t, found.p, -found.interval.high)


def test_without_overlap_it_is_the_paired_t_test():
    # published: t = 2.148, p = 0.0497 (Fisher)
    found, known = corrected_t(DARWIN, 0.0), stats.ttest_1samp(DARWIN, 0)
    assert (found.t, found.p) == (pytest.approx(2.148, abs=5e-4), pytest.approx(0.0497, abs=5e-5))
    assert (found.t, found.p) == (pytest.approx(known.statistic), pytest.approx(known.pvalue))


def test_no_t_test_where_it_cannot_be_made():
    assert corrected_t([0.1], 0.1) == NotTestable("a single pair has no spread")
    assert corrected_t([0.1, 0.2], None) == NotTestable("the sizes of the training and test parts are unknown")
    assert corrected_t([0.1, 0.1, 0.1 + 1e-17], 0.1) == NotTestable("all differences are equal")
    for ratio in (-1, math.inf):
        with pytest.raises(ValueError, match=f"test_train_ratio: got {ratio}"):
            corrected_t([0.1, 0.2], ratio)


def test_wilcoxon_agrees_with_published_and_scipy():
    found = wilcoxon(DARWIN)
    assert found == pytest.approx(1352 / 2**15)  # 0.0413
    assert found == pytest.approx(stats.wilcoxon(DARWIN, method="exact").pvalue)


@pytest.mark.parametrize(
    "differences",
    [[0.1, 0.1, -0.1, 0.2, 0.3, 0.3, 0.4, 0.0, -0.2], [-4, -2, -3, 1, 1, 0, 2], [1, -1, 2, -2, 3, -3]],
)
def test_wilcoxon_is_exact_with_ties_and_zeros(differences):
    nonzero = numpy.array([d for d in differences if d])
    ranks = stats.rankdata(abs(nonzero))
    observed = ranks[nonzero > 0].sum()
    sums = [
        sum(r for r, sign in zip(ranks, signs, strict=True) if sign)
        for signs in itertools.product((0, 1), repeat=len(ranks))
    ]
    tail = min(sum(s >= observed for s in sums), sum(s <= observed for s in sums)) / len(sums)
    assert wilcoxon(differences) == pytest.approx(min(1, 2 * tail))


def test_five_pairs_cannot_show_a_difference():
    assert str(wilcoxon([1, 2, 3, 4, 5])) == "not testable: 5 pairs cannot reach p < 0.05"
    assert wilcoxon([1, 2, 3, 4, 5, 6]) == pytest.approx(2 / 64)
    few = wilcoxon([1, 2, 3, 4, 5, 0, 0])
    assert few.reason == "5 pairs besides 2 without a difference cannot reach p < 0.05"
    assert wilcoxon([0.0]).reason == "0 pairs besides 1 without a difference cannot reach p < 0.05"


def test_posterior_by_hand():
    # with 2 degrees of freedom F(t) = 1/2 + t / (2 sqrt(2 + t^2)); error 0.1 / sqrt(2) as above
    found = posterior([0.1, 0.2, 0.3], 1 / 6, 0.1)

    def cumulative(t):
        return 0.5 + t / (2 * math.sqrt(2 + t * t))

    low, high = -0.3 / (0.1 / math.sqrt(2)), -0.1 / (0.1 / math.sqrt(2))
    assert found.below == pytest.approx(cumulative(low))
    assert found.within == pytest.approx(cumulative(high) - cumulative(low))
    assert found.above == pytest.approx(1 - cumulative(high))


def test_posterior_without_a_region_is_the_one_sided_t_test():
    differences = [0.1, 0.3, -0.05, 0.2]
    found, test = posterior(differences, 0.25, 0.0), corrected_t(differences, 0.25)
    assert found.within == pytest.approx(0, abs=1e-12)
    assert found.below == pytest.approx(test.p / 2)
    assert posterior([0.1], 0.25, 0.0) == NotTestable("a single pair has no spread")
    for rope in (-1, math.inf):
        with pytest.raises(ValueError, match=f"rope: got {rope}"):
            posterior(differences, 0.25, rope)


def test_effect_size_by_hand():
    # mean / s = 2; J(2) = Gamma(1) / (1 Gamma(1/2)) = 1 / sqrt(pi)
    assert hedges_g([0.1, 0.2, 0.3]) == pytest.approx(2 / math.sqrt(math.pi))
    # J(9) = 0.9139 (Hedges 1981, table)
    ten = numpy.arange(10.0)
    assert hedges_g(ten) == pytest.approx(0.9139 * ten.mean() / ten.std(ddof=1), rel=1e-4)
    assert hedges_g([0.1, 0.2]) == NotTestable("2 of the 3 pairs that an effect size needs")
    assert hedges_g([0.1, 0.1, 0.1]) == NotTestable("all differences are equal")


def test_holm_by_hand_leaves_out_what_was_not_tested():
    # sorted 0.01, 0.03, 0.04 times 3, 2, 1, and never below the one before
    assert holm([0.04, None, 0.01, 0.03]) == [pytest.approx(0.06), None, pytest.approx(0.03), pytest.approx(0.06)]
    assert holm([None]) == [None] and holm([]) == []


def test_holm_is_that_of_statsmodels():
    p_values = numpy.random.default_rng(0).beta(0.3, 2, 40).round(3)  # with ties
    assert holm(list(p_values)) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


def test_a_comparison_holds_all_of_it():
    ours, reference = [0.85, 0.80, 0.90, 0.70], [0.80, 0.78, 0.80, 0.71]
    found, differences = compare_pairs(ours, reference, 0.2, 0.01), [0.05, 0.02, 0.1, -0.01]
    assert (found.difference.mean, found.difference.n) == (pytest.approx(0.04), 4)
    assert found.corrected_t == corrected_t(differences, 0.2)
    assert found.posterior == posterior(differences, 0.2, 0.01)
    assert found.effect == hedges_g(differences)
    assert found.wilcoxon.reason == "4 pairs cannot reach p < 0.05"


def test_what_a_mean_has_to_exceed_is_the_half_width_and_more_in_a_family():
    found = corrected_t([0.1, 0.2, 0.3], 0.5)
    error = 0.1 * math.sqrt(1 / 3 + 0.5)
    assert found.needed() == pytest.approx(4.302653 * error)
    assert found.needed(10) == pytest.approx(14.089 * error, rel=1e-4)  # t(0.9975, 2)
    at_the_edge = corrected_t([value - 0.2 + found.needed(10) for value in (0.1, 0.2, 0.3)], 0.5)
    assert at_the_edge.p == pytest.approx(0.005)
