import numpy
import pytest

from ssma.report.align import align, evaluation_fits, report_options
from ssma.report.frame import collect
from ssma.study.lookup import read_plan

PAIR = ["MUTAG-gcn-ssma", "MUTAG-gcn-sum"]


@pytest.fixture
def frame(study):
    return collect(study)


def test_pairs_share_split_and_seed(frame):
    found = align(frame, PAIR, "drop")
    # fold 2 of ssma has one seed that is ok, so that sum counts with this one too
    assert found.values == pytest.approx(numpy.array([[0.85, 0.82], [0.80, 0.72], [0.90, 0.90]]))
    assert (found.reason, found.by_split) == ("", True)


def test_by_default_a_gap_leaves_the_rest_untested(frame):
    found = align(frame, PAIR, "not_testable")
    assert found.reason == "at 1 of 6 splits and seeds a fit is not ok"
    assert found.values.tolist() == align(frame, PAIR, "drop").values.tolist()
    assert align(frame, ["MUTAG-gcn-ssma-k2", "MUTAG-gcn-sum"], "not_testable").reason == ""


def test_the_worst_takes_the_place_of_a_failed_fit_only(frame):
    found = align(frame, PAIR, "worst")
    # the worst ok evaluation fit on MUTAG is 0.6; fold 2: (0.90 + 0.6) / 2 against (0.90 + 0.86) / 2
    assert found.values[2].tolist() == pytest.approx([0.75, 0.88])
    assert found.reason == ""
    # of k4 two fits diverged and four were not made
    assert align(frame, ["MUTAG-gcn-ssma-k4", "MUTAG-gcn-ssma-k2"], "worst").reason == (
        "at 4 of 6 splits and seeds a fit is not ok"
    )


def test_the_worst_error_is_the_largest(frame):
    other = frame.copy()
    other.loc[(other["arm"] == "ZINC-gcn-ssma") & (other["repeat"] == 0), "status"] = "failed"
    found = align(other, ["ZINC-gcn-ssma", "ZINC-gcn-sum"], "worst")
    assert found.values.tolist() == [[0.44, 0.40], [0.31, 0.42], [0.35, 0.44]]
    assert found.by_split is False


@pytest.mark.parametrize(("dataset", "test", "expected"), [("MUTAG", 0.3, [0.6, 0.3]), ("ZINC", 0.9, [0.9, 0.9])])
def test_the_worst_may_be_that_of_a_predictor(frame, dataset, test, expected):
    arm = f"{dataset}-gcn-ssma"
    other = frame.copy()
    other.loc[(other["arm"] == "ZINC-gcn-ssma") & (other["repeat"] == 2), "status"] = "failed"
    beside = {place: fit | {"test": test, "status": "ok"} for place, fit in evaluation_fits(other)[arm].items()}
    beside[0, 1] |= {"test": None, "status": "missing"}
    found = align(other, [arm, "constant"], "worst", {"constant": beside})
    assert found.values[-1].tolist() == pytest.approx(expected)  # of MUTAG the mean of 0.9 and the worst
    assert found.reason.startswith("at 1 of ")


@pytest.mark.parametrize("what", ["split_hash", "data_hash"])
def test_other_splits_and_data_do_not_pair(frame, what):
    other = frame.copy()
    other.loc[(other["arm"] == "MUTAG-gcn-sum") & (other["split"] == 2), what] = "other"
    assert len(align(other, PAIR, "drop").values) == 2
    assert align(other, PAIR, "not_testable").reason == "at 2 of 6 splits and seeds a fit is not ok"


def test_nothing_in_common(frame):
    for missing in ("not_testable", "drop", "worst"):
        found = align(frame, ["MUTAG-gin-ssma", "MUTAG-gin-sum"], missing)
        assert (len(found.values), found.reason) == (0, "no fits to pair")


def test_seeds_that_only_one_arm_has_are_no_gap(fabric):
    fabric.evaluated(fabric.arm("MUTAG-gcn-a", splits=1, repeats=2), {(0, 0): 0.5, (0, 1): 0.6})
    fabric.evaluated(fabric.arm("MUTAG-gcn-b", splits=1, repeats=1), {(0, 0): 0.4})
    fabric.plan()
    found = align(collect(fabric.results), ["MUTAG-gcn-a", "MUTAG-gcn-b"], "not_testable")
    assert (found.values.tolist(), found.reason) == ([[0.5, 0.4]], "")


def test_an_old_plan_has_the_default_options(study):
    plan = read_plan(study.plan)
    assert report_options(plan).missing == "not_testable"
    plan["config"]["report"] = {"missing": "drop", "rope": {"mae": 0.01}}
    assert (report_options(plan).missing, report_options(plan).rope) == ("drop", {"mae": 0.01})
