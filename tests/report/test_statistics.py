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


def test_a_single_value_has_no_spread(fabric):
    fabric.evaluated(fabric.arm("MUTAG-gcn-sum", splits=2, repeats=1), {(0, 0): 0.5})
    fabric.plan()
    row = statistics.summarise(collect(fabric.results)).loc["MUTAG-gcn-sum"]
    assert row["mean"] == 0.5 and math.isnan(row["std"])
    assert (row["n"], row["planned"], row["over"]) == (1, 2, "1 split")


def test_paired_differences_with_the_corrected_interval(frame):
    found = statistics.paired_differences(frame, "MUTAG-gcn-ssma", "MUTAG-gcn-sum", 0.5)
    # fold 0: (0.05 + 0.01) / 2, fold 1: (0.10 + 0.06) / 2, fold 2: only seed 0 pairs, 0.00
    assert (found.mean, found.n) == (pytest.approx(0.11 / 3), 3)
    assert found.std == pytest.approx(0.0404145, abs=1e-6)
    half = 4.3026527 * 0.0404145 * math.sqrt(1 / 3 + 0.5)  # t(0.975, 2)
    assert (found.low, found.high) == (
        pytest.approx(found.mean - half, abs=1e-5),
        pytest.approx(found.mean + half, abs=1e-5),
    )


def test_seeds_of_one_split_need_no_correction(frame):
    found = statistics.paired_differences(frame, "ZINC-gcn-ssma", "ZINC-gcn-sum", 0.1)
    # -0.10, -0.11, -0.09
    assert (found.mean, found.std, found.n) == (pytest.approx(-0.10), pytest.approx(0.01), 3)
    assert found.high - found.mean == pytest.approx(4.3026527 * 0.01 / math.sqrt(3))


def test_no_interval_without_the_ratio_and_no_pairs_without_a_partner(frame):
    assert statistics.paired_differences(frame, "MUTAG-gcn-ssma", "MUTAG-gcn-sum", None).low is None
    assert statistics.paired_differences(frame, "MUTAG-gcn-ssma", "MUTAG-gin-sum", 0.5) is None


def test_splits_with_another_hash_do_not_pair(frame):
    other = frame.copy()
    other.loc[(other["arm"] == "MUTAG-gcn-sum") & (other["split"] == 2), "split_hash"] = "other"
    assert statistics.paired_differences(other, "MUTAG-gcn-ssma", "MUTAG-gcn-sum", 0.5).n == 2


def test_the_claim_by_test_selection_is_labelled_biased(frame):
    claim = statistics.test_selected_claim(frame, "MUTAG-gcn-ssma")
    # trial 2 is better still, but was pruned
    assert (claim.trial, claim.mean, claim.n) == (1, pytest.approx(0.92), 2)
    assert claim.std == pytest.approx(0.04 / math.sqrt(2))
    assert claim.label == "biased: chosen by the test metric"
    assert statistics.test_selected_claim(frame, "MUTAG-gin-sum") is None


def test_the_claim_minimises_errors(fabric):
    arm = fabric.arm("ZINC-gcn-sum")
    fabric.tuned(arm, [("complete", {}, [0.5]), ("complete", {}, [0.3])])
    fabric.plan()
    assert statistics.test_selected_claim(collect(fabric.results), arm).trial == 1


def test_validation_of_the_chosen(frame):
    assert statistics.validation_of_chosen(frame, "MUTAG-gcn-ssma") == pytest.approx(0.82)
    assert statistics.validation_of_chosen(frame, "MUTAG-gin-sum") is None
