import itertools

import numpy
import pytest

from ssma.statistics.axis import slope, smallest_as_good, trend
from ssma.statistics.outcome import NotTestable
from ssma.statistics.pairs import corrected_t


def test_a_slope_is_the_mean_of_the_units_lines():
    # exact lines of slope 1, 2 and 3
    scores = [[0.0, 1.0, 3.0], [5.0, 7.0, 11.0], [1.0, 4.0, 10.0]]
    found = slope([2, 3, 5], scores, 0.25)
    assert (found.mean, found.n) == (pytest.approx(2.0), 3)
    assert found.test.interval.low == pytest.approx(corrected_t([1, 2, 3], 0.25).interval.low)
    bent = slope([0, 1, 2], [[0.0, 3.0, 1.0]], None)
    assert (bent.mean, bent.test) == (pytest.approx(0.5), NotTestable("a single pair has no spread"))


@pytest.mark.parametrize("bump", [0.0, 0.1])
def test_a_slope_of_zero_is_zero_whatever_rounding_says(bump):
    """Units that do not change over the axis, or are as high at both ends: rounding gave all slopes the same sign."""
    scores = [[level, level + bump, level + bump, level] for level in (0.5, 0.6, 0.55, 0.71, 0.33)]
    found = slope([0.1, 0.2, 0.4, 0.5], scores, 1 / 8)
    assert (found.mean, found.test) == (0.0, NotTestable("all differences are equal"))
    tiny = slope([1, 2], [[0.0, 1e-9], [0.0, 3e-9], [5e-9, 7e-9]], 0.0)
    assert (tiny.mean, tiny.test.p) == (pytest.approx(2e-9), pytest.approx(0.0741799))


def test_a_slope_needs_an_axis():
    with pytest.raises(ValueError, match="two different values"):
        slope([1, 1], [[0.0, 1.0]], 0.1)
    with pytest.raises(ValueError, match="expected 3 settings"):
        slope([1, 2, 3], [[0.0, 1.0]], 0.1)


def test_a_trend_is_exact():
    scores = numpy.array([[0.1, 0.2, 0.3], [0.1, 0.3, 0.2], [0.1, 0.2, 0.3]])
    # L = 1 * 3 + 2 * 7 + 3 * 8 = 41 of all 6^3 equally likely orders
    orders = list(itertools.permutations((1, 2, 3)))
    all_of_them = [
        sum((place + 1) * rank for order in three for place, rank in enumerate(order))
        for three in itertools.product(orders, repeat=3)
    ]
    found = trend(scores)
    assert found.p == pytest.approx(2 * sum(value >= 41 for value in all_of_them) / 6**3)
    # rank correlations 1, 0.5, 1
    assert found.rho == pytest.approx(2.5 / 3)
    falling = trend(scores[:, ::-1])
    assert (falling.rho, falling.p) == (pytest.approx(-2.5 / 3), pytest.approx(found.p))


def test_what_few_units_cannot_show():
    assert trend([[1.0, 2.0]] * 9) == NotTestable("2 of the 3 settings that a trend needs")
    assert trend([[1.0, 2.0, 3.0]]) == NotTestable("a single unit has no trend beyond its own")
    assert trend([[1.0, 2.0, 3.0]] * 2) == NotTestable("2 units of 3 settings cannot reach p < 0.05")
    assert trend([[1.0, 2.0, 3.0]] * 3).p == pytest.approx(2 / 6**3)
    flat = trend([[0.3, 0.3, 0.1 + 0.2]] * 3)  # equal but for rounding
    assert (flat.rho, flat.p) == (0, 1)


def test_the_smallest_setting_within_one_standard_error():
    # means 0.80, 0.88, 0.90; the best has s = 0.1 and with 4 units an error of 0.05
    best = 0.9 + 0.1 * numpy.array([1, -1, 1, -1]) * (3 / 4) ** 0.5
    scores = numpy.stack([best - 0.1, best - 0.02, best], axis=1)
    scores[0, 1] += 0.04
    scores[1, 1] -= 0.04
    found = smallest_as_good([8, 16, 32], scores, True, 0.1)
    assert (found.best, found.smallest) == (2, 1)
    assert found.difference == pytest.approx(-0.02)
    assert found.test == corrected_t([0.02, -0.06, -0.02, -0.02], 0.1)


def test_a_whole_standard_error_away_is_within_it():
    scores = [[0.3, 0.3], [0.3, 0.7]]  # 0.5 - 0.2 is above 0.3 in the last digit
    found = smallest_as_good([1, 2], scores, True, 0.1)
    assert (found.best, found.smallest, found.difference) == (1, 0, -0.2)
    assert smallest_as_good([1, 2], [[0.2999999, 0.3], [0.2999999, 0.7]], True, 0.1).smallest == 1


def test_of_errors_the_lowest_is_best_and_of_equals_the_smallest():
    scores = numpy.array([[0.3, 0.1, 0.1, 0.5], [0.3, 0.1, 0.1, 0.5]])
    found = smallest_as_good([1, 2, 3, 4], scores, False, 0.1)
    assert (found.best, found.smallest, found.difference) == (1, 1, 0.0)
    permuted = numpy.array([[0.83, 0.85, 0.79], [0.83, 0.79, 0.85]]).T  # their means differ in the last digit
    assert smallest_as_good([1, 2], permuted, True, 0.1).best == 0
    assert smallest_as_good([1, 2], [[0.1, 0.2]], True, 0.1) == NotTestable("a single unit has no standard error")
    for axis in ([2, 1], [1, 2, 2]):
        with pytest.raises(ValueError, match="rising"):
            smallest_as_good(axis, scores[:, : len(axis)], True, 0.1)
