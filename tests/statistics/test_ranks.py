import numpy
import pytest

from ssma.statistics.outcome import NotTestable
from ssma.statistics.ranks import average_ranks, compare_ranks, friedman

# Demšar (2006), table 6: four variants of C4.5 on 14 data sets (0.9751 is printed as 0.975, its rank says it is more)
C45 = numpy.array([
    [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
    [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
    [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
    [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
    [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
])  # fmt: skip


def test_demsars_example():
    found = compare_ranks(C45)
    assert found.places == 14
    assert found.average.round(3).tolist() == [3.143, 2.0, 2.893, 1.964]
    # the paper leaves out the correction for ties: 9.28, which is 14 places x 60 less the ties' t^3 - t:
    # 60 for mushroom (four alike), 6 each for iris, lung cancer and primary tumor
    assert found.friedman.chi_squared * (1 - 78 / (14 * 60)) == pytest.approx(9.28, abs=5e-3)
    assert found.friedman.degrees == 3
    assert found.nemenyi.critical_difference == pytest.approx(1.25, abs=5e-3)


def test_pairs_differ_where_ranks_are_further_apart_than_the_critical_difference():
    found = compare_ranks(C45)
    apart = abs(found.average[:, None] - found.average)
    assert ((found.nemenyi.p < 0.05) == (apart > found.nemenyi.critical_difference)).all()
    wide = compare_ranks([[1.0, 2.0, 3.0]] * 9)
    # q(0.05, 3 arms) = 2.343 (Demšar, table 5a)
    assert wide.nemenyi.critical_difference == pytest.approx(2.343 * (3 * 4 / (6 * 9)) ** 0.5, abs=5e-4)
    assert (wide.nemenyi.p < 0.05).tolist() == [[False, False, True], [False, False, False], [True, False, False]]


def test_higher_scores_have_lower_ranks_and_ties_share():
    assert average_ranks([[0.9, 0.5, 0.9], [0.1, 0.2, 0.3]]).tolist() == [2.25, 2.5, 1.25]
    assert average_ranks([[0.1 + 0.2, 0.3, 0.2]]).tolist() == [1.5, 1.5, 3]  # equal but for rounding
    # places may have metrics of very different sizes, as a squared error and an accuracy
    assert average_ranks([[1e13, 2e13, 3e13], [0.1, 0.3, 0.2]]).tolist() == [3, 1.5, 1.5]


def test_friedman_by_hand():
    # rank sums 4, 8, 12: 12 / (4 * 3 * 4) (16 + 64 + 144) - 3 * 4 * 4 = 8, p = exp(-4)
    found = friedman([[3.0, 2.0, 1.0]] * 4)
    assert (found.chi_squared, found.p) == (pytest.approx(8.0), pytest.approx(numpy.exp(-4)))


def test_what_few_places_cannot_show():
    few = compare_ranks([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]])
    assert few.average.tolist() == [3.0, 1.5, 1.5]
    assert few.friedman == NotTestable("2 places of 3 arms cannot reach p < 0.05")
    assert few.nemenyi == NotTestable("2 places of 3 arms: no average ranks can differ by 2.34")
    assert friedman([[1.0, 2.0]] * 20) == NotTestable("2 of the 3 arms that Friedman's test needs")
    assert friedman([[1.0, 1.0, 1.0]] * 20) == NotTestable("all arms are equal in every place")


def test_a_table_with_gaps_or_one_arm_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        compare_ranks([[1.0, float("nan")]])
    with pytest.raises(ValueError, match="got 1 arm"):
        compare_ranks([[1.0], [2.0]])
