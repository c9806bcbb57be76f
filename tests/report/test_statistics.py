import math

import pytest

from ssma.report import statistics
from ssma.report.frame import collect


@pytest.fixture
def frame(study):
    return collect(study)


def test_repeats_are_averaged_before_splits(frame):
    row = statistics.summarise(frame).loc["MUTAG-gcn-sum"]
    # fold means 0.82, 0.72, 0.88
    assert row["mean"] == pytest.approx(2.42 / 3)
    assert row["std"] == pytest.approx(0.0808290, abs=1e-6)
    assert (row["units"], row["n"], row["planned"], row["over"]) == (3, 6, 6, "3 splits x 2 seeds")


def test_a_single_split_is_averaged_over_seeds(frame):
    row = statistics.summarise(frame).loc["ZINC-gcn-sum"]
    assert (row["mean"], row["std"]) == (pytest.approx(0.42), pytest.approx(0.02))
    assert (row["n"], row["over"], row["direction"]) == (3, "3 seeds", "minimize")


def test_failed_fits_are_counted_not_averaged(frame):
    row = statistics.summarise(frame).loc["MUTAG-gcn-ssma"]
    # fold means 0.85, 0.80, 0.90; the last rests on one seed
    assert (row["mean"], row["std"]) == (pytest.approx(0.85), pytest.approx(0.05))
    assert (row["n"], row["planned"], row["failed"], row["missing"]) == (5, 6, 1, 0)
    assert row["over"] == "3 splits x 1 to 2 seeds"


def test_arms_without_a_mean_say_why(frame):
    summary = statistics.summarise(frame)
    assert summary.loc["MUTAG-gin-sum", "reason"] == "no valid trial"
    assert summary.loc["MUTAG-gin-ssma", "reason"] == "missing"
    assert summary.loc["MUTAG-gcn-ssma-k4", "reason"] == "diverged"
    assert math.isnan(summary.loc["MUTAG-gin-sum", "mean"])
    assert summary.loc["MUTAG-gcn-ssma-k4", ["failed", "missing"]].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("no valid trial: 2 failed", "no valid trial"),
        ("RuntimeError: my own mistake", "RuntimeError: my own mistake"),
        (
            "ValueError: Mine made a result of shape (607, 51) of messages of shape (1340, 52) but expected (607, 52)",
            "ValueError: Mine made a result of shape (607, 51) of ...",
        ),
    ],
)
def test_a_cell_says_why_it_failed_in_whole_words(frame, reason, shown):
    frame.loc[frame["arm"] == "MUTAG-gin-sum", ["status", "reason"]] = ["failed", reason]
    assert statistics.summarise(frame).loc["MUTAG-gin-sum", "reason"] == shown


def test_a_single_value_has_no_spread(fabric):
    fabric.evaluated(fabric.arm("MUTAG-gcn-sum", splits=2, repeats=1), {(0, 0): 0.5})
    fabric.plan()
    row = statistics.summarise(collect(fabric.results)).loc["MUTAG-gcn-sum"]
    assert row["mean"] == 0.5 and math.isnan(row["std"])
    assert (row["n"], row["planned"], row["over"]) == (1, 2, "1 split")


def test_an_arm_is_described_over_the_units_of_its_spread(frame):
    found = statistics.description_of(frame, "MUTAG-gcn-sum")
    # fold means 0.82, 0.72, 0.88
    assert (found.n, found.mean, found.std) == (3, pytest.approx(2.42 / 3), pytest.approx(0.0808290, abs=1e-6))
    assert 0.72 <= found.interval.low < found.mean < found.interval.high <= 0.88
    assert statistics.description_of(frame, "ZINC-gcn-sum").n == 3
    assert statistics.description_of(frame, "MUTAG-gin-sum") is None
