"""Exponents of growth and their intervals, by hand."""

import pytest

from ssma.statistics.exponent import Exponent, fit_exponent, mean_exponent

E = 2.718281828459045


def test_an_exponent_and_its_interval_by_hand():
    """Logarithms (0, 0), (1, 1), (2, 3): slope 3/2, squared error 1/6, so a standard error of sqrt(1/12)."""
    found = fit_exponent([1, E, E**2], [1, E, E**3])
    half = 12.706204736 * (1 / 12) ** 0.5  # the 97.5% quantile of t with one degree of freedom
    assert (found.value, found.low, found.high, found.n) == pytest.approx((1.5, 1.5 - half, 1.5 + half, 3))
    law = fit_exponent([2, 4, 8, 16], [12, 48, 192, 768])
    assert (law.value, law.low, law.high, law.n) == pytest.approx((2, 2, 2, 4), abs=1e-6)


def test_no_growth_is_zero_and_two_points_are_too_few():
    assert fit_exponent([1, 2, 3], [5, 5, 5]) == Exponent(0.0, 0.0, 0.0, 3)
    assert fit_exponent([1, 2], [1, 2]) is None


def test_the_mean_of_repeats_and_its_interval_by_hand():
    """Slopes 1, 2 and 6: mean 3, variance 7, so half an interval is t (7 / 3)^(1/2), t of two degrees of freedom."""
    curves = [([1, 10], [5, 50]), ([1, 10, 100], [1, 100, 10_000]), ([2, 4], [1, 64])]
    found = mean_exponent(curves)
    half = 4.302652729749464 * (7 / 3) ** 0.5
    assert (found.value, found.low, found.high, found.n) == pytest.approx((3, 3 - half, 3 + half, 3))
    assert str(mean_exponent(curves[1:2])) == "2.00 [-inf, inf]"
    assert mean_exponent([([1, 2], [3, 3])] * 2) == Exponent(0.0, 0.0, 0.0, 2)


def test_an_exponent_in_words():
    assert str(Exponent(1.2345, -0.001, 2.5, 3)) == "1.23 [0.00, 2.50]"
