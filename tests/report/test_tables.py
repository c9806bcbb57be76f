import csv
import io

import pandas
import pytest

from ssma.report.arms import arms
from ssma.report.checks import mixed_code, mixed_data, over_budget, shared_arms, unequal_treatment
from ssma.report.frame import collect
from ssma.report.labels import extent, listing, spans, value_text
from ssma.report.latex import escape
from ssma.report.selection_bias import biases
from ssma.report.selection_table import table
from ssma.report.table import Cell, Table
from ssma.report.tables import comparison
from ssma.study.cost import counted
from ssma.study.lookup import read_plan
from ssma.study.records import read_record, write_record


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


@pytest.fixture
def plan(study):
    return read_plan(study.plan)


@pytest.fixture
def frame(study):
    return collect(study)


def test_comparison_shows_numbers_and_gaps(plan, frame):
    table = comparison(plan, "main", frame)
    assert table.columns == ["layer", "aggregator", "MUTAG (accuracy in % ↑)", "ZINC (MAE ↓)"]
    assert texts(table) == [
        ["gcn", "sum", "80.7 ± 8.1 (6)", "0.4200 ± 0.0200 (3)"],
        ["gcn", "ssma", "85.0 ± 5.0 (5/6)", "0.3200 ± 0.0265 (3)"],
        ["gin", "sum", "failed: no valid trial", "–"],
        ["gin", "ssma", "missing", "–"],
    ]
    assert [table.starts_group(row) for row in range(4)] == [False, False, True, False]
    # the better mean on MUTAG lacks a fit; the lower error on ZINC does not
    assert [cell.arm for row in table.rows for cell in row if cell.bold] == ["ZINC-gcn-ssma"]
    assert "± over 3 splits (means of 2 seeds each)" in table.caption
    assert "ZINC: MAE, lower is better, ± over 3 seeds of one split" in table.caption


def test_an_axis_of_settings_makes_rows(plan, frame):
    table = comparison(plan, "kappa_slots", frame)
    assert texts(table) == [
        ["gcn", "2", "70.0 ± 10.0 (6)"], ["gcn", "3", "85.0 ± 5.0 (5/6)"], ["gcn", "4", "failed: diverged"],
    ]  # fmt: skip
    assert not any(cell.bold for row in table.rows for cell in row)


def test_arms_table_counts_costs_and_marks_the_claim(plan, frame):
    frame = frame.copy()
    frame.loc[(frame["stage"] == "tune") & (frame["trial"] == 0), "validation"] = 0.5
    table = arms(plan, frame, biases(frame))
    row = dict(zip(table.columns, texts(table)[1], strict=True))
    assert row["arm"] == "MUTAG-gcn-ssma" and row["fixed settings"] == "kappa=3"
    counts = ["trials planned", "complete", "pruned", "failed", "fits ok/planned"]
    assert [row[key] for key in counts] == ["4", "2", "1", "1", "5/6"]
    assert (row["parameters"], row["budget"], row["hidden width"], row["epochs (median)"]) == (
        "900",
        "1000",
        "16",
        "10",
    )
    # 5 tuning and 6 evaluation fits of 2 s
    assert (row["fits trained"], row["CPU seconds"], row["GPU seconds"]) == ("11", "22.0", "0.0")
    assert row["chosen hyperparameters"] == "training.lr=0.01"
    assert (row["validation"], row["test"]) == ("86.0 ± 5.0 (5/6)", "85.0 ± 5.0 (5/6)")
    assert row["chosen: validation on tuned splits"] == "50.0 ± 0.0 (2)"
    # on the two splits that both were tuned on
    assert row["chosen: test on tuned splits"] == "82.0 ± 2.8 (2)"
    assert row["test-selected (biased): test on tuned splits"] == "92.0 ± 2.8 (2)"
    assert "biased: chosen by the test metric" in table.caption
    frame = frame.copy()
    frame.loc[(frame["stage"] == "tune") & (frame["trial"] == 0) & (frame["split"] == 1), "test"] = None
    row = dict(zip(table.columns, texts(arms(plan, frame, biases(frame)))[1], strict=True))
    assert row["chosen: test on tuned splits"] == "80.0 (1/2)"


@pytest.mark.parametrize("made", [arms, lambda plan, frame, found: table(plan, frame, found, {})], ids=["arms", "bias"])
def test_arms_stay_when_their_table_is_grouped_by_its_settings(plan, frame, made):
    read = pandas.read_csv(io.StringIO(made(plan, frame, biases(frame)).csv()))
    assert read["fixed settings"].value_counts().to_dict() == {"–": 4, "kappa=3": 2, "kappa=2": 1, "kappa=4": 1}
    assert len(read.groupby(["data set", "layer", "aggregator", "fixed settings"])) == len(plan["arms"])


def test_unequal_treatment_is_said_unless_it_is_the_axis(fabric, plan):
    lines = unequal_treatment(plan, "main")
    assert lines == ["Warning: unequal treatment on MUTAG, gcn: number of trials is 2 for sum; 4 for ssma."]
    slow = {"settings": {"model": {"budget": 5}, "training": {"lr": 0.1}}}
    fabric.arms.clear()
    fabric.arm("MUTAG-gcn-a", splits=2)
    fabric.arm("MUTAG-gcn-b", space={"training.lr": [1]}, selection="test", **slow)
    cells = {"MUTAG-gcn-a": [1000], "MUTAG-gcn-b": [5]}
    fabric.ablation("budget", {"model.budget": [1000, 5]}, cells)
    unequal = " ".join(unequal_treatment(fabric.plan(), "budget"))
    assert "model.budget" not in unequal
    for words in (
        "evaluation splits are 0, 1 for",
        "selection is validation",
        "training.lr is 0.001",
        "searched over [1]",
    ):
        assert words in unequal


def test_choice_by_test_is_marked_in_the_cell_and_below(fabric):
    fabric.evaluated(fabric.arm("MUTAG-gcn-sum", selection="test", splits=1, repeats=1), {(0, 0): 0.5})
    fabric.ablation("main", {"aggregator": ["sum"]}, {"MUTAG-gcn-sum": ["sum"]})
    table = comparison(fabric.plan(), "main", collect(fabric.results))
    assert texts(table) == [["gcn", "sum", "50.0 (1) †"]]
    assert table.notes == ["Warning: † biased: chosen by the test metric, as the study asks for MUTAG / gcn / sum."]


def test_mixed_and_stale_code_names_the_arms(frame):
    assert mixed_code(frame, "c0de") == []
    mixed = frame.copy()
    mixed.loc[mixed["arm"] == "ZINC-gcn-sum", "code"] = "old"
    first, second = mixed_code(mixed, "c0de")
    assert "2 versions" in first and "old made ZINC / gcn / sum" in first
    assert second == "Other code than the installed one (c0de) made 4 of 34 fits: ZINC / gcn / sum."
    mixed.loc[0, "parameters"] = 1001
    assert over_budget(frame) == [] and over_budget(mixed) == ["More parameters than the budget: MUTAG / gcn / sum."]


def test_three_renderings_escape_what_they_must():
    table = Table("a_b", "50% & more_", ["x|y", "z (↑)"], [[Cell("a|b"), Cell("1.0 ± 0.1", bold=True)]], ["low_note"])
    assert "| a\\|b | **1.0 ± 0.1** |" in table.markdown()
    assert list(csv.reader(io.StringIO(table.csv()))) == [["x|y", "z (↑)"], ["a|b", "1.0 ± 0.1"]]
    numeric = Table(
        "t", "", ["a", "b"], [[Cell("x"), Cell("1.0 ± 0.1 (3)", numbers=(1.04, 0.1, 3))], [Cell("y"), Cell("-")]]
    )
    assert list(csv.reader(io.StringIO(numeric.csv()))) == [
        ["a", "b", "b: mean", "b: std", "b: n"], ["x", "1.0 ± 0.1 (3)", "1.04", "0.1", "3"], ["y", "-", "", "", ""],
    ]  # fmt: skip
    with_interval = Table("t", "", ["a"], [[Cell("1.0 ± 0.1 (3)", numbers=(1.04, 0.1, 3), interval=(0.9, 1.1))]])
    assert with_interval.csv().splitlines() == [
        "a,a: mean,a: std,a: n,a: low,a: high",
        "1.0 ± 0.1 (3),1.04,0.1,3,0.9,1.1",
    ]
    latex = table.latex()
    assert r"\caption{50\% \& more\_}" in latex and r"\textbf{1.0 $\pm$ 0.1} \\" in latex
    assert r"z ($\uparrow$)" in latex and r"low\_note" in latex and r"\label{tab:a-b}" in latex
    assert escape("\\{$#^~") == r"\textbackslash{}\{\$\#\textasciicircum{}\textasciitilde{}"
    assert escape("κ ≤ 3,\n\nΔ\n") == r"$\kappa$ $\leq$ 3, $\Delta$"


def test_markdown_shows_what_it_would_take_for_its_own():
    cells = ["c2*c1^2*|W2|", "<b>x</b>", "$x$ and $y$", "_own.Agg", "PTC_MR ~1, p <0.0001, −2.78 *", "`a` \\ b\nc"]
    made = Table("t", "**T** <x> of $5 & $6", ["a"], [[Cell(text)] for text in cells], ["own.__main__.Agg, I&amp;O"])
    assert made.markdown().split("\n") == [
        "**T** \\<x> of \\$5 & \\$6", "", "| a |", "| --- |", "| c2\\*c1^2\\*\\|W2\\| |", "| \\<b>x\\</b> |",
        "| \\$x\\$ and \\$y\\$ |", "| \\_own.Agg |", "| PTC_MR \\~1, p <0.0001, −2.78 * |", "| \\`a\\` \\\\ b c |", "",
        "own.\\_\\_main\\_\\_.Agg, I\\&amp;O", "",
    ]  # fmt: skip


def test_no_reader_of_a_csv_file_takes_a_value_for_a_missing_one():
    absent = ["", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None"]
    texts = [*absent, "#N/A N/A", "1.#IND", "-1.#QNAN", "none", "attention", None]
    table = Table("t", "T", ["mode", "rows"], [[Cell(value_text(text)), Cell("1")] for text in texts])
    read = pandas.read_csv(io.StringIO(table.csv()))
    assert read["mode"].isna().sum() == 0
    assert len(read.groupby("mode")) == len(texts)
    assert value_text("NA") == '"NA"'
    assert value_text("none") == "none"


def test_values_are_short_and_lists_are_cut():
    shown = [value_text(value) for value in (100_000, 1_600_000, 12_345, 0.25, 1.0, True, None, "None", [1, "a"])]
    assert shown == ["100k", "1.6M", "12345", "0.25", "1", "yes", "unset", '"None"', '[1,"a"]']
    texts = [
        value_text(value)
        for value in ("1", "-2e-05", "100k", "yes", "unset", "", "a b", '{"a":1}', "per_part", "1-hop", "3d")
    ]
    assert texts == [
        '"1"',
        '"-2e-05"',
        '"100k"',
        '"yes"',
        '"unset"',
        '""',
        '"a b"',
        r'"{\"a\":1}"',
        "per_part",
        "1-hop",
        "3d",
    ]
    alike = [value_text(value) for value in (0.1, 0.10000001, 123_456_700, 123_456_800, 1e-5)]
    assert alike == ["0.1", "0.10000001", "123456.7k", "123456.8k", "1e-05"]
    assert listing("abcdef", 4) == "a, b, c, d and 2 more"
    assert (counted(1, "arm"), counted(0, "arm")) == ("1 arm", "0 arms")
    assert (extent([48, 37, 40]), extent([3, 3]), extent([2.04, 2.01, 2.0], ".1f")) == ("37 to 48", "3", "2.0")
    assert [spans(numbers) for numbers in ([], [3], [0, 1], [0, 2, 3, 4, 9])] == ["", "3", "0, 1", "0, 2 to 4, 9"]


def test_arms_with_the_same_values_in_other_splits_are_both_bold(fabric):
    for aggregator, tests in (("sum", (0.61, 0.86, 0.56)), ("ssma", (0.56, 0.61, 0.86)), ("max", (0.5, 0.6, 0.7))):
        arm = fabric.arm(f"MUTAG-gcn-{aggregator}", repeats=1)  # the first two means differ in the last digit
        fabric.evaluated(arm, {(split, 0): test for split, test in enumerate(tests)})
    cells = {f"MUTAG-gcn-{name}": [name] for name in ("sum", "ssma", "max")}
    fabric.ablation("it", {"aggregator": ["sum", "ssma", "max"]}, cells)
    table = comparison(fabric.plan(), "it", collect(fabric.results))
    assert [row[-1].bold for row in table.rows] == [True, True, False]


def _arms(results):
    frame = collect(results)
    return arms(read_plan(results.plan), frame, biases(frame))


def test_a_choice_of_no_value_is_told(fabric):
    space = {"mine.act": [None, "Tanh"], "training.lr": [0.1, 0.2], "ssma.temperature": [1, 2], "mine.on": [None, True]}
    arm = fabric.arm("MUTAG-gcn-mine", splits=1, repeats=1, space=space)
    fabric.tuned(arm, [("complete", {"mine.act": None, "training.lr": 0.1, "mine.on": True}, [0.9])])
    other = fabric.arm("MUTAG-gin-mine", splits=1, repeats=1, space=space)
    fabric.tuned(other, [("complete", {"mine.act": "Tanh", "training.lr": 0.2, "ssma.temperature": 2}, [0.8])])
    fabric.arm("MUTAG-gat-mine", splits=1, repeats=1, space=space)  # was not searched yet
    fabric.plan()
    table = _arms(fabric.results)
    column = table.columns.index("chosen hyperparameters")
    assert [row[column] for row in texts(table)] == [
        "mine.act=unset, mine.on=True, training.lr=0.1",
        "mine.act=Tanh, mine.on=unset, ssma.temperature=2, training.lr=0.2",
        "–",
    ]


def test_a_choice_per_split_is_listed_and_averaged_by_split(fabric):
    arm = fabric.arm("MUTAG-gcn-sum", splits=2, repeats=1, selection="per_split")
    fabric.tuned(arm, [("complete", {"a": 1, "b": "x"}, [0.9, 0.5]), ("complete", {"a": 2}, [0.6, 0.8])])
    path = fabric.results.chosen(arm)
    chosen = read_record(path) | {"chosen": {"0": {"a": 1, "b": "x"}, "1": {"a": 2}}, "chosen_trial": {"0": 0, "1": 1}}
    write_record(path, chosen)
    fabric.plan()
    table = _arms(fabric.results)
    row = dict(zip(table.columns, texts(table)[0], strict=True))
    assert row["chosen hyperparameters"] == "split 0: a=1, b=x; split 1: a=2"
    close = {"0": {"a": 0.0012345671}, "1": {"a": 0.0012345674}}
    write_record(path, chosen | {"chosen": close})
    again = _arms(fabric.results)
    text = dict(zip(again.columns, texts(again)[0], strict=True))["chosen hyperparameters"]
    assert text == "split 0: a=0.0012345671; split 1: a=0.0012345674"
    # splits 0 and 1 chose trials 0 and 1, with 0.9 and 0.8; of single trials the earliest of two equal ones
    assert row["chosen: validation on tuned splits"] == "86.0 ± 7.1 (2)"
    assert row["chosen: test on tuned splits"] == "85.0 ± 7.1 (2)"
    assert row["test-selected (biased): test on tuned splits"] == "70.0 ± 28.3 (2)"
    assert (row["test"], row["fits ok/planned"]) == ("missing", "0/2")


def test_fits_on_other_data_are_named(frame):
    assert mixed_data(frame) == []
    frame.loc[frame["arm"] == "MUTAG-gcn-ssma", "data_hash"] = "0123456789abcdef"
    assert mixed_data(frame) == [
        "Warning: fits on MUTAG were made on 2 versions of its data: da7a of MUTAG / gcn / sum, MUTAG / gcn / ssma / k2, "
        "MUTAG / gcn / ssma / k4; 0123456789ab of MUTAG / gcn / ssma. They are not compared with each other; run the "
        "study again."
    ]


def test_rows_that_show_one_arm_are_told_as_one(plan, frame):
    assert [shared_arms(plan, name) for name in plan["ablations"]] == [[]] * len(plan["ablations"])
    ablation = plan["ablations"]["kappa_slots"]
    ablation["axes"] = {"aggregator": ["sum"], "model.heads": [2, 3, 4], "ssma.kappa": [5, 6]}
    used = ["MUTAG-gcn-sum", "MUTAG-gcn-sum", "MUTAG-gcn-ssma"]
    ablation["cells"] = [
        {
            "dataset": "MUTAG",
            "layer": "gcn",
            "arm": arm,
            "point": {"aggregator": "sum", "model.heads": heads, "ssma.kappa": 5},
        }
        for arm, heads in zip(used, (2, 3, 4), strict=True)
    ]
    ablation["cells"].append(ablation["cells"][0] | {"point": ablation["cells"][0]["point"] | {"ssma.kappa": 6}})
    told = "One and the same arm, where an axis has no effect: gcn with (sum, heads=2) or (sum, heads=3) on MUTAG."
    assert shared_arms(plan, "kappa_slots") == [told], "kappa is no setting of a sum, which is one row"
    assert told in comparison(plan, "kappa_slots", frame).notes
