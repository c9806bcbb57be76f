"""Three selection rules on trials whose scores can be compared by eye."""

import math

import pandas
import pytest

from ssma.report.build import build
from ssma.report.frame import collect
from ssma.report.once import rows_of
from ssma.report.selection_bias import Outcome, biases, selection_bias
from ssma.report.selection_figure import caption, draw
from ssma.report.selection_table import table
from ssma.study.lookup import read_plan

VALIDATION = {0: [0.8, 0.6], 1: [0.7, 0.9], 2: [0.1, 0.1], 3: [0.99, 0.99]}
TEST = {0: [0.6, 0.5], 1: [0.5, 0.4], 2: [0.9, 0.7], 3: [1.0, 1.0]}
STATES = {0: "complete", 1: "complete", 2: "complete", 3: "pruned"}


def rows(test=TEST, direction="maximize", validation=VALIDATION, states=STATES):
    found = [
        {"arm": "a", "stage": "tune", "trial": trial, "trial_state": states[trial], "split": split,
         "status": "ok" if test[trial][split] is not None else "diverged", "direction": direction,
         "validation": validation[trial][split], "test": test[trial][split]}
        for trial in states for split in (0, 1)
    ]  # fmt: skip
    frame = pandas.DataFrame([*found, {"arm": "a", "stage": "tune", "trial": 4, "trial_state": "failed"}])
    return rows_of(frame.astype({"trial": "Int64", "split": "Int64", "validation": "float64", "test": "float64"}))["a"]


def test_the_three_rules_on_the_same_trials():
    bias = selection_bias(rows())
    taken = {rule: outcome.trials for rule, outcome in bias.outcomes.items()}
    assert taken == {"validation": {0: 1, 1: 1}, "per_split": {0: 0, 1: 1}, "test": {0: 2, 1: 2}}
    means = {rule: outcome.mean for rule, outcome in bias.outcomes.items()}
    assert means == pytest.approx({"validation": 0.45, "per_split": 0.5, "test": 0.8})
    assert bias.outcomes["test"].std == pytest.approx(0.2 / math.sqrt(2))
    assert bias.optimism == pytest.approx(0.35)
    assert bias.gains == (0.4, 0.3)
    assert bias.shared == {"validation": 1, "test": 1}
    assert (bias.states, bias.usable) == ({"complete": 3, "pruned": 1, "failed": 1}, 3)


def test_optimism_is_positive_where_a_smaller_error_flatters():
    bias = selection_bias(rows(direction="minimize"))
    # smallest validation mean: trial 2, tests 0.9 and 0.7; smallest test mean: trial 1, tests 0.5 and 0.4
    assert bias.outcomes["validation"].mean == pytest.approx(0.8)
    assert bias.outcomes["test"].mean == pytest.approx(0.45)
    assert bias.optimism == pytest.approx(0.35)


def test_test_scores_change_no_choice_by_validation():
    other = selection_bias(rows(test={trial: [1 - value for value in values] for trial, values in TEST.items()}))
    for rule in ("validation", "per_split"):
        assert other.outcomes[rule].trials == selection_bias(rows()).outcomes[rule].trials


def test_a_test_score_that_is_missing_is_counted_and_not_chosen_by():
    bias = selection_bias(rows(test=TEST | {1: [0.5, None], 2: [None, 0.7]}))
    assert (bias.outcomes["validation"].n, bias.outcomes["validation"].mean) == (1, 0.5)
    assert bias.outcomes["test"].trials == {0: 0, 1: 0}
    assert bias.optimism == pytest.approx(0.6 - 0.5)  # on split 0, which both have
    none = selection_bias(rows(test={trial: [None, None] for trial in TEST}))
    assert "test" not in none.outcomes and math.isnan(none.optimism)


def test_optimism_is_never_below_zero_where_no_test_metric_lacks():
    import numpy

    random, every = numpy.random.default_rng(0), dict.fromkeys(range(5), "complete")
    found = []
    for direction in ("maximize", "minimize") * 20:
        validation, test = (dict(enumerate(random.integers(0, 5, (5, 2)) / 4)) for _ in range(2))
        found.append(selection_bias(rows(test, direction, validation, every)).optimism)
    assert min(found) == 0 and max(found) > 0


def test_trials_that_share_the_best_are_counted():
    validation = {0: [0.1, 0.2], 1: [0.2, 0.1], 2: [0.15, 0.15], 3: [0.9, 0.9]}
    assert 0.1 + 0.2 != 0.15 + 0.15  # equal but for rounding
    bias = selection_bias(rows(test={0: [0.5, 0.5], 1: [0.4, 0.6], 2: [0, 0], 3: [1, 1]}, validation=validation))
    assert bias.shared == {"validation": 3, "test": 2}


def test_a_complete_trial_without_all_its_records_is_not_chosen():
    bias = selection_bias(rows(validation=VALIDATION | {1: [0.7, None]}))
    assert bias.outcomes["validation"].trials == {0: 0, 1: 0}
    assert bias.usable == 2 and bias.states["complete"] == 3
    best_test = selection_bias(rows(validation=VALIDATION | {2: [0.1, None]}))
    assert best_test.outcomes["test"].trials == {0: 0, 1: 0} and best_test.optimism == pytest.approx(0.1)


def test_nothing_complete_is_no_outcome():
    bias = selection_bias(rows(states=dict.fromkeys(STATES, "pruned")))
    assert (bias.outcomes, bias.usable) == ({}, 0)


@pytest.fixture
def report(study, fabric):
    lone = fabric.arm("MUTAG-gat-mean", trials=0, selection="none", splits=2, repeats=1)
    fabric.evaluated(lone, {(0, 0): 0.5, (1, 0): 0.7})
    ids = list(dict.fromkeys(cell["arm"] for cell in fabric.ablations["main"]["cells"]))
    fabric.ablation("main", {"aggregator": ["sum", "ssma", "mean"]}, {i: [i.split("-")[2]] for i in [*ids, lone]})
    fabric.plan()
    return read_plan(study.plan), collect(study)


def test_the_table_has_a_row_per_arm_and_marks_what_is_biased(report):
    plan, frame = report
    made = table(plan, frame, biases(frame), {"MUTAG": 0.5, "ZINC": None})
    found = {row[0].arm: dict(zip(made.columns, row, strict=True)) for row in made.rows}
    assert list(found) == [arm["id"] for arm in plan["arms"]]
    ssma = found["MUTAG-gcn-ssma"]
    assert [ssma[key].text for key in ("trials planned", "complete", "pruned", "failed")] == ["4", "2", "1", "1"]
    # validation is a point above test in this study, so that the rules agree
    assert ssma["validation"].text == "92.0 ± 2.8 (2)"
    assert ssma["test † (biased)"].text == "92.0 ± 2.8 (2) †"
    assert ssma["optimism of test"].text == "0.0"
    assert (ssma["share the best validation"].text, ssma["share the best test"].text) == ("1 of 2", "1 of 2")
    assert "95% interval of optimism" not in ssma and "Interval" not in made.caption
    lone = found["MUTAG-gat-mean"]
    assert [lone[key].text for key in ("validation", "per split", "test † (biased)")] == ["60.0 ± 14.1 (2)"] * 3
    assert lone["optimism of test"].text == "nothing to choose"
    assert found["MUTAG-gin-sum"]["validation"].text == "–"
    assert found["MUTAG-gcn-sum"]["optimism of test"].text == "0.0 (one trial is left)"
    assert found["ZINC-gcn-sum"]["optimism of test"].text == "0.0000 (one trial is left)"
    assert made.footnotes == [
        "No interval (not testable): 1 tuned split, 3 needed (3 arms); 2 tuned splits, 3 needed (1 arm).",
        "Mean optimism of test with ssma, accuracy in %: 0.0 over n = 1 arm, 1 data set, 2 tuned splits each; from 0.0 to "
        "0.0; best of 2 trials; both rules take the same trial in 1 of 1.",
    ]
    assert "biased: chosen by the test metric" in made.caption


def test_an_arm_with_nothing_to_choose_says_how_many_fits_are_ok(report, fabric):
    fabric.evaluated("MUTAG-gat-mean", {(0, 0): 0.5, (1, 0): "diverged"})
    gone = fabric.arm("MUTAG-gat-sum", trials=0, selection="none", splits=2, repeats=1)
    fabric.evaluated(gone, {(0, 0): "diverged", (1, 0): "diverged"})
    plan, frame = fabric.read()
    made = table(plan, frame, biases(frame), {"MUTAG": 0.5, "ZINC": None})
    found = {row[0].arm: [cell.text for cell in row[made.columns.index("validation") :][:3]] for row in made.rows}
    assert found["MUTAG-gat-mean"] == ["50.0 (1/2)"] * 3
    assert found[gone] == ["failed: diverged"] * 3


def test_the_optimism_has_its_interval_and_its_mean(fabric):
    validations = {"MUTAG-gcn-sum": [[0.9, 0.9, 0.9], [0.8, 0.8, 0.8]], "MUTAG-gin-sum": [[0.9, 0.9, 0.9], [0.5, 0, 0]]}
    tests = {"MUTAG-gcn-sum": [[0.5, 0.6, 0.7], [0.6, 0.8, 0.7]], "MUTAG-gin-sum": [[0.7, 0.7, 0.7], [0.7, 0.7, 0.9]]}
    for arm, of_trials in tests.items():
        fabric.arm(arm, space={"training.lr": [1, 2]}, tune_splits=[0, 1, 2])
        fabric.tuned(arm, [("complete", {"training.lr": n + 1}, scores) for n, scores in enumerate(of_trials)])
    plan, frame = fabric.read()
    for arm, of_trials in validations.items():
        for trial, scores in enumerate(of_trials):
            frame.loc[(frame["arm"] == arm) & (frame["trial"] == trial) & (frame["stage"] == "tune"), "validation"] = (
                scores
            )
    found = biases(frame)
    made = table(plan, frame, found, {"MUTAG": 0.5})
    first, second = (dict(zip(made.columns, row, strict=True)) for row in made.rows)
    # gains 10, 20, 0 points: mean 10, s 10, error sqrt(1/3 + 1/2) * 10, t quantile 4.302653 of two degrees of freedom
    half = 4.302653 * math.sqrt(5 / 6) * 10
    assert first["optimism of test"].text == "+10.0"
    assert first["optimism of test"].interval == pytest.approx((10 - half, 10 + half), abs=1e-4)
    assert first["95% interval of optimism"].text == "[−29.3, +49.3]"
    assert second["optimism of test"].text == "+6.7"
    assert made.footnotes == [
        "Mean optimism of test with sum, accuracy in %: +8.3 over n = 2 arms, 1 data set, 3 tuned splits each; from +6.7 "
        "to +10.0; best of 2 trials; both rules take the same trial in 0 of 2."
    ]
    assert "Interval: corrected resampled t-test" in made.caption and "pruned" not in made.columns
    unknown = table(plan, frame, found, {"MUTAG": None})
    assert unknown.footnotes[0].endswith("the sizes of the training and test parts are unknown (2 arms).")


@pytest.fixture
def two_splits(fabric):
    """Two arms of two trials each on two splits: by validation the first, 0.55; by test the second, 0.65."""
    for name, space in (("sum", {"training.lr": [1, 2]}), ("ssma", {"training.lr": [1, 2], "ssma.kappa": [2, 3, 4]})):
        arm = fabric.arm(f"MUTAG-gcn-{name}", space=space, tune_splits=[0, 1])
        scores = {1: [0.5, 0.6], 2: [0.7, 0.6]}
        fabric.tuned(arm, [("complete", {"training.lr": lr}, tests) for lr, tests in scores.items()])
    fabric.plan()
    frame = collect(fabric.results)
    frame.loc[frame["trial"] == 0, "validation"] = 0.9
    return read_plan(fabric.results.plan), frame


def test_means_of_unlike_searches_are_not_to_be_compared(two_splits):
    plan, frame = two_splits
    last = table(plan, frame, biases(frame), {"MUTAG": 0.5}).footnotes[-1]
    assert last == (
        "These means are no test. Do not compare aggregators by them: the search spaces differ (2 configurations with "
        "sum; 6 configurations with ssma)."
    )
    plan["arms"][1]["space"] = plan["arms"][0]["space"]
    last = table(plan, frame, biases(frame), {"MUTAG": 0.5}).footnotes[-1]
    assert last == "These means are no test. Do not compare aggregators by them."


def test_the_line_of_an_arm_is_its_optimism(two_splits):
    from matplotlib import pyplot

    plan, frame = two_splits
    found = biases(frame)
    outcomes = found["MUTAG-gcn-sum"].outcomes
    outcomes["per_split"] = Outcome({0: 0, 1: 0}, outcomes["test"].tests + 0.2)  # beyond both ends
    figure = draw(plan, frame, found)
    (ax,) = figure.axes
    assert list(ax.lines[0].get_xdata()) == pytest.approx([55, 65])
    pyplot.close(figure)


def test_two_splits_have_no_interval(fabric):
    arm = fabric.arm("ZINC-gcn-sum", space={"training.lr": [1, 2]}, tune_splits=[0, 1], splits=1)
    fabric.tuned(arm, [("complete", {"training.lr": 1}, [0.5, 0.6]), ("complete", {"training.lr": 2}, [0.4, 0.6])])
    fabric.plan()
    frame = collect(fabric.results)
    frame.loc[frame["trial"] == 0, "validation"] = 0.1
    made = table(read_plan(fabric.results.plan), frame, biases(frame), {"ZINC": 0.5})
    row = dict(zip(made.columns, made.rows[0], strict=True))
    assert row["optimism of test"].text == "+0.0500" and "95% interval of optimism" not in row
    assert made.footnotes[0] == "No interval (not testable): 2 tuned splits, 3 needed (1 arm)."


def test_the_figure_shows_arms_that_chose(report, study, tmp_path):
    from matplotlib import pyplot

    plan, frame = report
    figure = draw(plan, frame, biases(frame))
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["MUTAG", "ZINC"]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert sorted(names) == ["gcn / ssma", "gcn / sum"]
    pyplot.close(figure)
    tests = [[{"test": 20}, {"test": 19}, {"test": 50}], [{"test": 7}]]
    sizes = {label: {"items": "graphs", "splits": of} for label, of in zip(("MUTAG", "ZINC"), tests, strict=True)}
    told = caption(plan, biases(frame), sizes)
    assert "(1 to 2 tuned splits, 1 to 2 trials per arm; a point rests on 7 to 39 test graphs)" in told
    assert "only the" not in told and "a point" not in caption(plan, biases(frame), {"MUTAG": None, "ZINC": None})
    build(study, tmp_path / "out")
    html = (tmp_path / "out" / "index.html").read_text()
    assert 'id="selection_bias"' in html and "nothing to choose" in html
    assert (tmp_path / "out" / "tables" / "selection_bias.csv").exists()
    assert (tmp_path / "out" / "figures" / "selection_bias.png").exists()


def test_the_figure_tells_arms_with_long_names_apart(two_splits):
    from matplotlib import pyplot

    plan, frame = two_splits
    names = [f"gcn / ssma (kappa=4 compression=0.25 selection=attention budget={size}0000)" for size in (1, 4)]
    for arm, name in zip(plan["arms"], names, strict=True):
        arm["label"] = f"MUTAG / {name}"
    figure = draw(plan, frame, biases(frame))
    shown = [label.get_text().replace("\n", " ") for ax in figure.axes for label in ax.get_yticklabels()]
    assert sorted(shown) == names
    pyplot.close(figure)


def test_a_study_without_a_search_has_no_figure(fabric):
    fabric.evaluated(fabric.arm("MUTAG-gcn-sum", trials=0, splits=1, repeats=1), {(0, 0): 0.5})
    fabric.plan()
    frame = collect(fabric.results)
    assert draw(read_plan(fabric.results.plan), frame, biases(frame)) is None
