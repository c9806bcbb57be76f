"""Predictors without a graph in the tables, and marks on networks that are no better."""

import pytest

from ssma.errors import StudyError
from ssma.report.build import build
from ssma.report.checks import unequal_effort, unknown_constants
from ssma.report.floor import below_text, best_predictor, floor_table, floors
from ssma.report.frame import collect, read_frame, write_frame
from ssma.report.paper_tables import beside, results_table
from ssma.report.sanity import (
    Constants,
    Repeated,
    constant_notes,
    constants,
    copies_marked,
    copy_notes,
    read_copies,
    read_sanity,
)
from ssma.report.tables import comparison
from ssma.study.lookup import read_plan
from ssma.study.records import read_record, write_record


def write_sanity(results, values, data_hash="da7ada7ada7ada7a"):
    rows = [
        {"split": s, "split_hash": f"s{s}", "test": v, "reason": None if v else "why"} for s, v in enumerate(values)
    ]
    write_record(
        results.data("MUTAG-1") / "sanity.json",
        {"kind": "sanity", "dataset": "MUTAG-1", "metric": "accuracy", "direction": "maximize", "data_hash": data_hash,
         "predictors": {"majority class": rows}},
    )  # fmt: skip


def test_the_majority_class_stands_below_the_arms(study):
    write_sanity(study, [0.6, 0.7, 0.8, 0.1])  # the arms use three splits
    plan = read_plan(study.plan)
    table = comparison(plan, "main", collect(study), read_sanity(study, plan))
    last = table.rows[-1]
    assert [cell.text for cell in last] == ["majority class", "–", "70.0 ± 10.0 (3)", "–"]
    assert last[2].numbers == (pytest.approx(70), pytest.approx(10), 3)
    assert not any(cell.bold for cell in last)
    assert [cell.link for cell in last] == [None, None, "data:table", None]  # it is no arm's
    write_sanity(study, [0.6, None, 0.8])
    assert comparison(plan, "main", collect(study), read_sanity(study, plan)).rows[-1][2].text == "70.0 ± 14.1 (2/3)"


@pytest.mark.usefixtures("no_images")
def test_what_belongs_to_other_data_is_left_out_and_said(study, tmp_path):
    write_sanity(study, [0.6] * 3, data_hash="other")
    assert read_sanity(study, read_plan(study.plan)) == {}
    build(study, tmp_path / "out")
    html = (tmp_path / "out" / "index.html").read_text()
    assert "No predictors without a graph for MUTAG: they were prepared by older code" in html


def evaluated(fabric, name, constant, **changes):
    arm = fabric.arm(f"MUTAG-gcn-{name}", splits=3, repeats=1)
    fabric.evaluated(arm, {(split, 0): 0.5 for split in range(3)}, **changes)
    for split, value in enumerate(constant):
        path = fabric.results.fit(f"{arm}-e{split}r0")
        test = {"loss": 0.5, "accuracy": 0.5} | ({} if value is None else {"constant": value})
        write_record(path, read_record(path) | {"test": test})
    return arm


def test_constant_predictions_are_marked_and_old_records_do_not_tell(fabric):
    fabric.tuned(evaluated(fabric, "sum", [True, False, True]), [("pruned", {}, [0.5])])  # whose fit does not count
    evaluated(fabric, "mean", [True, None, None])
    evaluated(fabric, "max", [None, None, None])
    names = ["sum", "mean", "max"]
    fabric.ablation("main", {"aggregator": names}, {f"MUTAG-gcn-{name}": [name] for name in names})
    plan, frame = fabric.read()
    assert constants(frame) == {"MUTAG-gcn-sum": (2, 0, 3), "MUTAG-gcn-mean": (1, 2, 3), "MUTAG-gcn-max": (0, 3, 3)}
    table = comparison(plan, "main", frame)
    assert [row[2].text for row in table.rows] == ["50.0 ± 0.0 (3) ‡", "50.0 ± 0.0 (3) ‡", "50.0 ± 0.0 (3)"]
    assert table.notes == [
        "‡ constant predictions in 2 of 3 fits: MUTAG / gcn / sum; in 1 of 3 fits, unknown in 2 of older code: MUTAG / "
        "gcn / mean."
    ]
    assert r"$\ddagger$" in table.latex()
    unknown = unknown_constants(frame)
    assert unknown == ["Whether test predictions are constant is unknown of 6 of 10 fits, made by older code."]


def test_one_fit_is_no_fits(fabric):
    fabric.arm("MUTAG-gcn-sum", splits=1, repeats=1)
    fabric.evaluated("MUTAG-gcn-sum", {(0, 0): 0.5})
    lines = constant_notes(fabric.plan(), ["MUTAG-gcn-sum"], {"MUTAG-gcn-sum": Constants(1, 0, 1)})
    assert lines == ["‡ constant predictions in 1 of 1 fit: MUTAG / gcn / sum."]


def test_arms_with_as_many_constant_fits_are_named_together(fabric):
    ids = [evaluated(fabric, name, [True, False, False]) for name in ("sum", "max")]
    plan, frame = fabric.read()
    lines = constant_notes(plan, ids, constants(frame))
    assert lines == ["‡ constant predictions in 1 of 3 fits each: MUTAG / gcn / sum, MUTAG / gcn / max."]
    assert constant_notes(plan, [], constants(frame)) == []


def test_a_frame_of_older_code_is_refused(study):
    write_frame(collect(study).drop(columns="constant"), study.frame)
    with pytest.raises(StudyError, match="has no column constant, as older code made it; collect the records again"):
        read_frame(study.frame)


def test_unequal_effort_is_said(fabric):
    evaluated(fabric, "sum", [False] * 3)
    evaluated(fabric, "ssma", [False] * 3, epochs=21, parameters=1000, device="NVIDIA H100")
    fabric.tuned("MUTAG-gcn-ssma", [("complete", {}, [0.5]), ("failed", {}, [])])
    names = ["sum", "ssma"]
    fabric.ablation("main", {"aggregator": names}, {f"MUTAG-gcn-{name}": [name] for name in names})
    plan, frame = fabric.read()
    start = "Warning: unequal effort on MUTAG, gcn:"
    assert unequal_effort(plan, "main", frame) == [
        f"{start} complete trials are 0 for sum; 1 for ssma.",
        f"{start} epochs (median) are 10 for sum; 21 for ssma.",
        f"{start} parameters (median) are 900 for sum; 1000 for ssma.",
        f"{start} fits ran on CPU for sum; GPU for ssma.",
    ]


def test_the_paper_s_tables_have_them_too(study):
    write_sanity(study, [0.6, 0.7, 0.8, 0.1])  # the arms use three splits
    plan = read_plan(study.plan)
    found = beside(plan, collect(study), {})["results_tu_zinc"]
    rows = [[cell.text for cell in row] for row in results_table(found, read_sanity(study, plan)).rows]
    (mine,) = [row for row in rows if row[1] == "majority class"]
    assert mine == ["MUTAG (accuracy in %)", "majority class", "–", "70.00 ± 10.00 (3)", "–", "–", "–", "–"]
    assert rows[rows.index(mine) - 1][0] == "MUTAG (accuracy in %)" and rows[rows.index(mine) + 1][0] != mine[0]


@pytest.fixture
def learned(fabric):
    """Two arms and what the majority class reaches: differences 0.20 0.15 0.28 and 0.30 0.25 0.33."""
    for name, tests in (("sum", (0.80, 0.70, 0.90)), ("ssma", (0.90, 0.80, 0.95))):
        arm = fabric.arm(f"MUTAG-gcn-{name}", repeats=1)
        fabric.evaluated(arm, {(split, 0): test for split, test in enumerate(tests)})
    fabric.ablation("main", {"aggregator": ["sum", "ssma"]}, {f"MUTAG-gcn-{name}": [name] for name in ("sum", "ssma")})
    fabric.plan()
    fabric.card()
    write_sanity(fabric.results, [0.60, 0.55, 0.62])
    return fabric.results


def against(results, missing="not_testable"):
    plan = read_plan(results.plan)
    plan["config"]["report"] = {"missing": missing}
    return plan, floors(plan, "main", collect(results), read_sanity(results, plan), {"MUTAG": 0.5})


def test_arms_are_tested_against_the_predictor_on_the_same_splits(learned):
    plan, found = against(learned)
    other = read_record(learned.data("MUTAG-1") / "sanity.json")
    other["predictors"]["majority class"][1]["split_hash"] = "of other folds"
    unlike = floors(plan, "main", collect(learned), {"MUTAG": other}, {"MUTAG": 0.5})
    assert {one.difference.found.difference.n for one in unlike.values()} == {2}
    # errors s sqrt(1/3 + 1/2); with 2 degrees of freedom p = 1 - t / sqrt(2 + t^2): 0.0725 and 0.0155
    sum_, ssma = found["MUTAG-gcn-sum"], found["MUTAG-gcn-ssma"]
    p = [one.difference.adjusted for one in (sum_, ssma)]
    assert p == [pytest.approx(0.0725, abs=2e-4), pytest.approx(2 * 0.01546, abs=2e-4)]
    assert (sum_.above, ssma.above) == (False, True)
    table = comparison(plan, "main", collect(learned), read_sanity(learned, plan), found)
    assert [row[2].text for row in table.rows] == ["80.0 ± 10.0 (3) §", "88.3 ± 7.6 (3)", "59.0 ± 3.6 (3)"]
    assert table.notes == [
        "§ Not shown to beat “majority class”: 1 of 2 arms (p < 0.05 after Holm; see the table against predictors)."
    ]
    first, second = floor_table(plan, "main", found).rows
    assert [cell.text for cell in first][2:] == [
        "majority class", "+21.0 ± 6.6 (3)", "[−4.8, +46.8]", "±25.8", "0.0725", "0.0725", "not shown",
    ]  # fmt: skip
    assert second[-1].text == "yes"


def test_what_is_worse_or_cannot_be_tested_is_not_shown_to_be_better(learned, fabric):
    write_sanity(learned, [0.99, 0.99, None])
    _, found = against(learned)
    reason = "at 1 of 3 splits and seeds a fit is not ok"
    assert not any(one.above for one in found.values())
    assert found["MUTAG-gcn-sum"].difference.text == f"−24.0 (not testable: {reason})"
    assert below_text(found) == "Not shown to beat “majority class”: 2 of 2 arms, of them 2 not testable"
    write_sanity(learned, [0.99, 0.985, 1.0])
    fabric.evaluated("MUTAG-gcn-ssma", {(0, 0): 0.30, (1, 0): 0.301, (2, 0): 0.305})
    plan, found = against(learned)
    assert found["MUTAG-gcn-ssma"].difference.adjusted < 0.001 and not found["MUTAG-gcn-ssma"].above
    told = "Not shown to beat “majority class”: 2 of 2 arms, of them 1 worse"
    assert below_text(found) == told
    assert [row[-1].text for row in floor_table(plan, "main", found).rows] == ["not shown", "no, worse"]


def test_an_arm_whose_fits_all_failed_is_among_those_that_beat_no_predictor(learned, fabric):
    fabric.evaluated("MUTAG-gcn-ssma", dict.fromkeys([(0, 0), (1, 0), (2, 0)], "diverged"))
    plan, found = against(learned)
    assert below_text(found) == "Not shown to beat “majority class”: 2 of 2 arms, of them 1 not testable"
    assert floor_table(plan, "main", found).rows[1][3].text == "not testable: no fits to pair"
    table = comparison(plan, "main", collect(learned), read_sanity(learned, plan), found)
    assert [row[2].text for row in table.rows[:2]] == ["80.0 ± 10.0 (3) §", "failed: diverged"]
    _, found = against(learned, "worst")  # 0.55 of all, three times: differences -0.05 0.00 -0.07
    ssma = found["MUTAG-gcn-ssma"].difference
    assert (ssma.found.difference.mean, ssma.side) == (pytest.approx(-0.04), "worse")


def test_seeds_of_one_split_against_a_predictor_are_told_as_such(learned, fabric):
    plan, found = against(learned)
    assert floor_table(plan, "main", found).footnotes == []
    arm = fabric.arm("MUTAG-gin-sum", splits=1, repeats=3)
    fabric.evaluated(arm, {(0, repeat): 0.7 + repeat / 100 for repeat in range(3)})
    fabric.ablation("main", {"aggregator": ["sum"]}, {arm: ["sum"]})
    fabric.plan()
    plan, found = against(learned)
    told = "Of MUTAG the pairs are seeds of one split: a result holds for other seeds, not for other data."
    assert floor_table(plan, "main", found).footnotes == [told]
    assert found[arm].difference.found.difference.n == 3


def test_of_predictors_that_are_equal_but_for_rounding_the_first_is_taken():
    tests = {"b": (0.56, 0.61, 0.86), "a": (0.61, 0.86, 0.56)}
    rows = {name: [{"split": split, "test": test} for split, test in enumerate(mine)] for name, mine in tests.items()}
    for predictors in (rows, dict(reversed(rows.items()))):
        record = {"direction": "maximize", "predictors": predictors}
        assert best_predictor(record, {0, 1, 2}) == next(iter(predictors))
        assert (best_predictor(record, {0}), best_predictor(record, {1})) == ("a", "a")
        assert best_predictor(record, {2}) == "b"


@pytest.mark.usefixtures("no_images")
def test_data_with_copies_in_the_training_part_are_marked(learned, tmp_path):
    path = learned.data("MUTAG-1") / "card.json"
    write_record(path, read_record(path) | {"copies": {"graphs": 9, "leaked": [2, 0, 3, 50]}})  # three splits are used
    plan = read_plan(learned.plan)
    copies = read_copies(learned, plan)
    said = "9 of 188 graphs have a copy, in a split 0 to 3 of the 3 validation and test graphs one in the training part"
    assert copies == {"MUTAG": Repeated("copies", said)}
    table = copies_marked(comparison(plan, "main", collect(learned)), copies)
    note = f"¶ MUTAG: {said}. A copy is stored alike, targets aside; isomorphic graphs stored in another order are not "
    note += "counted."
    assert table.columns[2] == "MUTAG (accuracy in % ↑) ¶" and table.footnotes == [note]
    assert copies_marked(table, {"PTC": Repeated("copies", "no")}) == table
    build(learned, tmp_path / "out")
    for name in ("main-paired", "main-sanity", "arms", "paper/results_tu_zinc"):
        text = (tmp_path / "out" / "tables" / f"{name}.md").read_text()
        assert note in text and "| MUTAG ¶ |" in text.replace(" (accuracy in %)", "")
    html = (tmp_path / "out" / "index.html").read_text()
    assert html.count(note) == 1 and html.index(note) < html.index('<h2 id="main">') and "MUTAG ¶</a>" in html
    write_record(path, read_record(path) | {"copies": {"graphs": 9, "leaked": [0, 0, 0, 50]}})
    assert read_copies(learned, plan) == {}


def test_graphs_that_are_alike_are_said_with_the_copies_among_them(learned):
    path = learned.data("MUTAG-1") / "card.json"
    counts = {"copies": {"graphs": 0, "leaked": [0, 0, 0, 0]}, "alike": {"graphs": 9, "leaked": [2, 0, 3, 50]}}
    write_record(path, read_record(path) | counts)
    copies = read_copies(learned, read_plan(learned.plan))
    said = (
        "9 of 188 graphs are like another one, in a split 0 to 3 of the 3 validation and test graphs like one in the "
    )
    assert copies == {"MUTAG": Repeated("alike", f"{said}training part, 0 of them as an exact copy")}
    meant = "Graphs are alike if no message passing tells them apart, as with isomorphic ones, targets aside."
    assert copy_notes(copies) == [f"¶ MUTAG: {copies['MUTAG'].text}. {meant}"]
