import numpy
import pytest

from ssma.statistics import describe as module
from ssma.statistics.describe import bca_interval, describe
from ssma.statistics.outcome import Interval, NotTestable

# spatial test data A of Efron and Tibshirani, An Introduction to the Bootstrap (1993), table 14.1
SPATIAL = [48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41]


def test_a_sample_in_numbers():
    found = describe([0.82, 0.72, 0.88])
    assert (found.n, found.mean) == (3, pytest.approx(2.42 / 3))
    assert found.std == pytest.approx(0.0808290, abs=1e-6)
    assert 0.72 <= found.interval.low < found.mean < found.interval.high <= 0.88


def test_few_or_equal_values_have_no_interval():
    assert describe([0.5]).std == NotTestable("a single value has no spread")
    assert describe([1.0, 3.0]).std == pytest.approx(2**0.5)
    assert str(describe([0.5, 0.6]).interval) == "not testable: 2 of the 3 values that an interval needs"
    none = NotTestable("the values do not vary enough for an interval")
    assert [describe([value] * n).interval for value in (0.5, 0.7, 0.475) for n in range(3, 11)] == [none] * 24
    assert describe([0.1 + 0.2, 0.3, 0.3]).interval == none  # equal but for rounding


def test_bca_agrees_with_the_published_interval(monkeypatch):
    monkeypatch.setattr(module, "ALPHA", 0.1)
    found = bca_interval(SPATIAL, numpy.var)
    # chapter 14: (115.8, 259.6) from 2,000 resamples, whose ends vary by a few units
    assert found.low == pytest.approx(115.8, abs=2)
    assert found.high == pytest.approx(259.6, abs=4)


@pytest.mark.parametrize("seed", [0, 1, 4])
@pytest.mark.parametrize(
    ("values", "low", "high"),
    # at 0.0176 and 0.9657 of 27 resamples: the least and the greatest, of which there is one each (26 / 27 = 0.9630);
    # at 0.0408 and 0.9865: beyond the least (1 / 27 = 0.0370); of five, (2.0 and 7.4) at 0.0513 and 0.9912 of 3,125
    [([66.67, 80.56, 91.67], 66.67, 91.67), ([1, 2, 4], 4 / 3, 4), ([1, 2, 3, 5, 9], 2.0, 7.4)],
)
def test_intervals_of_few_values_are_not_left_to_chance(monkeypatch, seed, values, low, high):
    monkeypatch.setattr(module, "SEED", seed)
    for order in (values, values[::-1]):
        found = describe(order).interval
        assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)


@pytest.mark.parametrize("unit", [1 / 7, 1 / 18, 100 / 19, 1e-9])
def test_an_interval_does_not_depend_on_the_unit(unit):
    """Differences of accuracies are so many items of a split: many resamples have the mean of the sample, but for
    rounding."""
    items = numpy.array([1, 1, 2, -3, 4, 0, 0, 1])
    whole, scaled = (describe(items * scale).interval for scale in (1.0, unit))
    assert (whole.low, whole.high) == (-0.625, 2.0)
    assert (scaled.low / unit, scaled.high / unit) == pytest.approx((-0.625, 2.0), rel=1e-9)


def test_an_interval_is_the_same_every_time():
    assert isinstance(describe(SPATIAL).interval, Interval)
    assert describe(SPATIAL) == describe(SPATIAL)


@pytest.mark.parametrize("values", [[], [0.5, float("nan")], [[0.5]]])
def test_what_has_no_value_is_refused(values):
    with pytest.raises(ValueError, match="values: got"):
        describe(values)
