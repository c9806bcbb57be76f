import math

import pytest

from ssma.data.loaded import DIRECTION
from ssma.report.floor import Floor
from ssma.report.frame import collect
from ssma.report.labels import Metric, setting
from ssma.report.paired import Difference, paired
from ssma.report.words import words
from ssma.statistics.outcome import Interval
from ssma.study.lookup import read_plan
from ssma.study.records import write_record

# MUTAG / gcn over three folds, one seed each: sum 0.80 0.70 0.90, attention 0.85 0.80 0.94, random 0.85 0.75 0.80
SUM, ATTENTION, RANDOM = (0.80, 0.70, 0.90), (0.85, 0.80, 0.94), (0.85, 0.75, 0.80)
RATIOS = {"MUTAG": 0.5}


def arm(fabric, name, tests):
    fabric.arm(name, repeats=1)
    if tests:
        fabric.evaluated(name, {(split, 0): test for split, test in enumerate(tests)})


@pytest.fixture
def selection(fabric):
    arm(fabric, "MUTAG-gcn-sum", SUM)
    arm(fabric, "MUTAG-gcn-ssma-attention", ATTENTION)
    arm(fabric, "MUTAG-gcn-ssma-random", RANDOM)
    arm(fabric, "MUTAG-gin-ssma-attention", None)
    cells = {"MUTAG-gcn-ssma-attention": ["attention"], "MUTAG-gcn-ssma-random": ["random"]}
    fabric.ablation(
        "selection", {"ssma.selection": ["attention", "random"]}, cells | {"MUTAG-gin-ssma-attention": ["attention"]}
    )
    fabric.plan()
    return fabric.results


def found(results, ablation):
    return words(read_plan(results.plan), ablation, collect(results), RATIOS)


def test_the_best_setting_is_told_with_its_paired_difference_to_sum(selection):
    # differences to sum 0.05 0.10 0.04: mean 6.33, s 3.215, half width 4.303 * sqrt(1/3 + 1/2) * 3.215 = 12.63
    # random against attention 0.00 -0.05 -0.14: mean -6.33, s 7.095, half width 27.87
    # with 2 degrees of freedom p = 1 - t / sqrt(2 + t^2): 0.1636, twice it by Holm, and 0.431; random against sum is 0
    said = found(selection, "selection")
    assert said.details == [
        "MUTAG, gcn: of 2 settings the best is selection=attention, accuracy in % 86.3 ± 7.1 (3 fits); "
        "against sum: selection=attention +6.3 [−6.3, +19.0], p 0.327 (Holm), not told apart; "
        "selection=random +0.0 [−34.0, +34.0], p 1 (Holm), not told apart; "
        "against selection=attention: selection=random −6.3 [−34.2, +21.5], p 0.431 (Holm), not told apart."
    ]
    assert said.summary == (
        "Differences from sum that hold after Holm: none of 2, over 1 place (data set and layer), 3 pairs each. By the "
        "means alone: selection=attention better at 1, worse at 0 of 1 place; selection=random better at 0, worse at 0, equal "
        "at 1 of 1 place."
    )
    # at 5%/2 a t of 2 degrees of freedom has 6.2053 for 4.3027
    assert said.overall == [
        "Differences are paired by split and seed and tested by the corrected resampled t-test; 95% intervals are not "
        "adjusted, p is (Holm). An observed mean difference (accuracy in %, by place) needs to exceed 12.6 to 34.0 to "
        "reach p < 0.05 alone, and 18.2 to 49.1 to be the first to hold after Holm over 2.",
        "Neighbour selection, random against attention, pairs that differ in nothing else (Holm over 1 comparison): by "
        "the mean alone better at 0, worse at 1 of 1 pair; after Holm 0 better, 0 worse.",
        "Not run: MUTAG gin.",
    ]


def test_an_option_of_ones_own_class_keeps_its_name(fabric):
    arm(fabric, "MUTAG-gcn-mine-a", SUM)
    arm(fabric, "MUTAG-gcn-mine-b", ATTENTION)
    fabric.ablation("gates", {"mine.gateKind_used": ["a", "b"]}, {"MUTAG-gcn-mine-a": ["a"], "MUTAG-gcn-mine-b": ["b"]})
    fabric.plan()
    told = "mine.gateKind_used, b against a, pairs that differ in nothing else (Holm over 1 comparison): "
    assert any(line.startswith(told) for line in found(fabric.results, "gates").overall)
    table = paired(read_plan(fabric.results.plan), "gates", collect(fabric.results), RATIOS)
    assert table.columns[2] == "mine.gateKind_used"


def test_a_difference_that_cannot_be_is_not_asked_for(fabric):
    # differences 0.6 -0.2 0.2: s 0.4, half width 4.303 * sqrt(1/3 + 1/2) * 0.4 = 157.1; 0 0.01 0.02: 3.9
    arm(fabric, "MUTAG-gcn-sum", (0.1, 0.5, 0.3))
    arm(fabric, "MUTAG-gcn-ssma-2", (0.7, 0.3, 0.5))
    arm(fabric, "MUTAG-gcn-ssma-3", (0.1, 0.51, 0.32))
    fabric.ablation("slots", {"ssma.kappa": [2, 3]}, {"MUTAG-gcn-ssma-2": [2], "MUTAG-gcn-ssma-3": [3]})
    fabric.plan()
    said = found(fabric.results, "slots").overall[0]
    assert "to exceed 3.9 to 157.1 (no difference can, at 1 of 2: they end at 100.0) to reach p < 0.05 alone" in said


def test_means_have_a_side_where_nothing_can_be_tested_but_not_where_fits_are_lacking(fabric):
    arm(fabric, "MUTAG-gcn-sum", (0.8, 0.7, 0.9))
    arm(fabric, "MUTAG-gcn-ssma-2", (0.82, 0.72, 0.92))
    arm(fabric, "MUTAG-gcn-ssma-3", (0.9, 0.8, "diverged"))
    fabric.ablation("slots", {"ssma.kappa": [2, 3]}, {"MUTAG-gcn-ssma-2": [2], "MUTAG-gcn-ssma-3": [3]})
    fabric.plan()
    said = found(fabric.results, "slots")
    assert said.summary == (
        "No difference from sum could be tested. By the means alone: kappa=2 better at 1, worse at 0 of 1 place; "
        "kappa=3 better at 0, worse at 0, not testable at 1 of 1 place."
    )
    assert "kappa=2 +2.0 (not testable: all differences are equal)" in said.details[0]


def test_a_lower_error_is_better_and_its_interval_says_so(fabric):
    for name, tests in (("sum", (0.40, 0.42, 0.44)), ("ssma", (0.30, 0.33, 0.34))):
        fabric.arm(f"ZINC-gcn-{name}", splits=1, repeats=3)
        fabric.evaluated(f"ZINC-gcn-{name}", {(0, repeat): test for repeat, test in enumerate(tests)})
    cells = {f"ZINC-gcn-{name}": [name] for name in ("sum", "ssma")}
    fabric.ablation("main", {"aggregator": ["sum", "ssma"]}, cells)
    fabric.plan()
    said = found(fabric.results, "main")
    # differences -0.10 -0.09 -0.10: mean -0.09667, s 0.005774, half width 4.303 * 0.005774 / sqrt(3) = 0.01434
    assert said.details == [
        "ZINC, gcn: of 2 settings the best is ssma, MAE 0.3233 ± 0.0208 (3 fits); "
        "against sum: ssma −0.0967 [−0.1110, −0.0823], p 0.00119 (Holm), better."
    ]
    assert said.summary == (
        "Differences from sum that hold after Holm: 1 of 1, over 1 place (data set and layer), 3 pairs each: ssma better "
        "on ZINC gcn. Of ZINC the pairs are seeds of one split: a result holds for other seeds, not for other data. By the "
        "means alone: ssma better at 1, worse at 0 of 1 place."
    )
    assert said.overall[0].endswith("(MAE, by place) needs to exceed 0.0143 to reach p < 0.05 alone.")


def test_where_sum_is_best_the_others_are_compared_and_are_worse(fabric):
    for name, tests in (("sum", (0.80, 0.81, 0.82)), ("mean", (0.70, 0.72, 0.71)), ("ssma", (0.60, 0.61, 0.63))):
        arm(fabric, f"MUTAG-gcn-{name}", tests)
    cells = {f"MUTAG-gcn-{name}": [name] for name in ("sum", "mean", "ssma")}
    fabric.ablation("main", {"aggregator": ["sum", "mean", "ssma"]}, cells)
    fabric.plan()
    said = found(fabric.results, "main")
    assert "the best is sum" in said.details[0]
    # -0.10 -0.09 -0.11: mean -10.0, s 1.0, half width 4.303 * sqrt(5/6) * 1.0 = 3.93, p 0.00823; ssma 0.00072
    assert "; against sum: mean −10.0 [−13.9, −6.1], p 0.00823 (Holm), worse; ssma −19.7 [" in said.details[0]
    assert said.summary.startswith("Differences from sum that hold after Holm: 2 of 2, over 1 place")
    assert "3 pairs each: mean worse on MUTAG gcn, ssma worse on MUTAG gcn. By the means" in said.summary
    assert said.overall[-1] == "The best was picked by these test numbers."


def test_settings_that_share_the_best_mean_are_named_with_it(fabric):
    # (0.6 + 0.7 + 0.8) / 3 and 0.7 three times differ by rounding alone
    for name, tests in (("sum", (0.6, 0.7, 0.8)), ("mean", (0.7, 0.7, 0.7)), ("max", (0.5, 0.6, 0.7))):
        arm(fabric, f"MUTAG-gcn-{name}", tests)
    cells = {f"MUTAG-gcn-{name}": [name] for name in ("sum", "mean", "max")}
    fabric.ablation("main", {"aggregator": ["sum", "mean", "max"]}, cells)
    fabric.plan()
    best = "of 3 settings the best is sum, accuracy in % 70.0 ± 10.0 (3 fits), and mean has the same mean; against"
    assert best in found(fabric.results, "main").details[0]


def test_a_numeric_axis_is_told_by_its_table(fabric):
    for value, tests in ((2, (0.6, 0.7, 0.8)), (3, (0.7, 0.8, 0.9)), (4, (0.8, 0.9, 0.95))):
        arm(fabric, f"MUTAG-gcn-ssma-{value}", tests)
    fabric.ablation("kappa", {"ssma.kappa": [2, 3, 4]}, {f"MUTAG-gcn-ssma-{value}": [value] for value in (2, 3, 4)})
    fabric.plan()
    best, course = found(fabric.results, "kappa").details
    assert "no sum arm with the same network and training is in the study; against kappa=2: kappa=3 +10.0" in best
    assert "; kappa=4 +18.3 [" in best
    assert course.startswith("MUTAG, gcn, along kappa (neighbour slots): change over the axis +18.3 [")
    assert "; means rise; " in course and "; best at 4, smallest within one standard error of it 4." in course


def test_what_failed_or_was_not_run_is_said(selection, fabric):
    arm(fabric, "MUTAG-gat-ssma-random", ["diverged", 0.7, 0.8])
    arm(fabric, "MUTAG-gat-sum", SUM)
    fabric.ablations["selection"]["cells"].append(
        {"arm": "MUTAG-gat-ssma-random", "dataset": "MUTAG", "layer": "gat", "point": {"ssma.selection": "random"}}
    )
    fabric.plan()
    said = found(selection, "selection")
    assert said.details[1] == (
        "MUTAG, gat: selection=random, accuracy in % 75.0 ± 7.1 (2 of 3 fits); "
        "against sum: selection=random −5.0 (not testable: at 1 of 3 splits and seeds a fit is not ok)."
    )
    fabric.evaluated("MUTAG-gat-ssma-random", {(0, 0): 0.7})
    fabric.arms[[one["id"] for one in fabric.arms].index("MUTAG-gat-ssma-random")]["splits"] = [0]
    fabric.plan()
    assert "accuracy in % 70.0 (1 fit); no sum" in found(selection, "selection").details[1]
    arm(fabric, "MUTAG-gat-ssma-attention", ["diverged"] * 3)
    fabric.ablations["selection"]["cells"].append(
        {
            "arm": "MUTAG-gat-ssma-attention",
            "dataset": "MUTAG",
            "layer": "gat",
            "point": {"ssma.selection": "attention"},
        }
    )
    fabric.plan()
    assert "gat: of 2 settings (1 without a result) the best is sel" in found(selection, "selection").details[1]
    bare = type(selection)(selection.root.parent / "bare")
    write_record(bare.plan, read_plan(selection.plan))
    assert found(bare, "selection") == type(said)("Not run: nothing of this ablation.", [], [])


def test_a_baseline_beside_arms_that_all_failed_is_not_said_to_lack(fabric):
    arm(fabric, "MUTAG-gcn-sum", SUM)
    arm(fabric, "MUTAG-gcn-ssma", ["failed"] * 3)
    cells = {f"MUTAG-gcn-{name}": [name] for name in ("sum", "ssma")}
    fabric.ablation("main", {"aggregator": ["sum", "ssma"]}, cells)
    fabric.plan()
    said = found(fabric.results, "main")
    assert said.summary == (
        "No difference from sum could be tested. By the means alone: ssma better at 0, worse at 0, not testable at 1 of 1 "
        "place."
    )
    assert said.details[0].endswith("; against sum: ssma not testable: no fits to pair.")


def test_pairs_without_a_baseline_say_how_they_are_tested_and_that_they_are_seeds_of_one_split(fabric):
    cells = {}
    for readout, residual in ((readout, residual) for readout in ("sum", "mean") for residual in (True, False)):
        one = fabric.arm(f"ZINC-gcn-ssma-{readout}-{residual}", splits=1, repeats=3)
        mean = 0.4 + 0.1 * (readout == "mean") + 0.01 * residual
        fabric.evaluated(
            one, {(0, seed): mean + seed / 1000 * (1 + residual + (readout == "mean")) for seed in range(3)}
        )
        cells[one] = [readout, residual]
    fabric.ablation("main", {"model.readout": ["sum", "mean"], "model.residual": [True, False]}, cells)
    fabric.plan()
    said = found(fabric.results, "main")
    assert said.summary == "No sum arm with the same network and training is in the study."
    first, readout, residual, alone, _ = said.overall
    assert first.startswith("Differences are paired by split and seed and tested by the corrected resampled t-test")
    # 0.1 and 0.001 more with each seed: t is 101 / (1 / sqrt(3)); 0.01 less and 0.001 less: t is 11 / (1 / sqrt(3))
    assert readout.startswith("Readout, mean against sum") and readout.endswith("; after Holm 0 better, 2 worse.")
    assert residual.startswith("Residual, no against yes") and residual.endswith("; after Holm 2 better, 0 worse.")
    assert alone == "Of ZINC the pairs are seeds of one split: a result holds for other seeds, not for other data."
    fabric.evaluated(fabric.arm("ZINC-gcn-sum", splits=1, repeats=3), {(0, 0): 0.5, (0, 1): 0.6, (0, 2): 0.8})
    fabric.plan()
    said = found(fabric.results, "main")
    assert alone in said.summary and alone not in said.overall
    assert "".join(said.overall).count("tested by the corrected resampled t-test") == 1


def test_a_baseline_beside_arms_that_were_not_run_is_not_said_to_lack(fabric):
    arm(fabric, "MUTAG-gcn-sum", SUM)
    arm(fabric, "MUTAG-gcn-ssma", None)
    cells = {f"MUTAG-gcn-{name}": [name] for name in ("sum", "ssma")}
    fabric.ablation("main", {"aggregator": ["sum", "ssma"]}, cells)
    fabric.plan()
    said = found(fabric.results, "main")
    assert said.summary == "No difference from sum could be tested: the arms that could be compared have no result."
    assert said.details[0].endswith("; against sum not testable: the arms that could be compared have no result.")


def test_an_arm_that_failed_at_a_place_counts_there_as_not_testable(fabric):
    # better where it ends, at one place of two: "better at 1 of 1" would favour an arm that fails
    names = ("sum", "mean", "max", "min", "lstm", "ssma")
    for layer in ("gcn", "gin"):
        for place, name in enumerate(names):
            tests = [test + place / 100 for test in SUM]
            arm(fabric, f"MUTAG-{layer}-{name}", ["failed"] * 3 if (layer, name) == ("gin", "ssma") else tests)
    cells = {f"MUTAG-{layer}-{name}": [name] for layer in ("gcn", "gin") for name in names}
    fabric.ablation("main", {"aggregator": [*names]}, cells)
    fabric.plan()
    said = found(fabric.results, "main")
    assert said.summary.endswith(
        " By the means alone the 5 settings are better at 9, worse at 0, not testable at 1 of 10 comparisons."
    )
    assert "; against sum: the best of 5, ssma, +5.0 (" in said.details[0]
    assert "; against sum: mean +1.0 (" in said.details[1] and said.details[1].endswith(
        "; ssma not testable: no fits to pair."
    )


def test_a_place_where_all_fits_failed_is_not_said_to_be_not_run(fabric):
    cells = {f"MUTAG-{layer}-{name}": [name] for layer in ("gcn", "gin", "gat") for name in ("sum", "ssma")}
    for name in cells:
        arm(fabric, name, {"gcn": ["diverged"] * 3, "gin": SUM, "gat": None}[name.split("-")[1]])
    fabric.ablation("main", {"aggregator": ["sum", "ssma"]}, cells)
    fabric.plan()
    failed = "all fits that were made failed, diverged or ran out of time."
    assert found(fabric.results, "main").overall == [f"No result on MUTAG gcn: {failed}", "Not run: MUTAG gat."]
    here = {name: point for name, point in cells.items() if "gin" not in name}
    fabric.ablation("main", {"aggregator": ["sum", "ssma"]}, here)
    fabric.plan()
    assert found(fabric.results, "main").summary == f"No result: {failed}"


def test_of_many_settings_the_best_and_the_worst_are_told(fabric):
    arm(fabric, "MUTAG-gcn-sum", SUM)
    for value in range(2, 7):
        arm(fabric, f"MUTAG-gcn-ssma-{value}", [test + value / 100 for test in (0.60, 0.53, 0.71)])
    fabric.ablation(
        "kappa", {"ssma.kappa": [*range(2, 7)]}, {f"MUTAG-gcn-ssma-{value}": [value] for value in range(2, 7)}
    )
    fabric.plan()
    said = found(fabric.results, "kappa")
    place = said.details[0]
    assert "; against sum: the best of 5, kappa=6, −12.7 [" in place and "; the worst of 5, kappa=2, −16.7 [" in place
    assert place.endswith(
        "; against kappa=2: kappa=3 +1.0 (not testable: all differences are equal); kappa=4 +2.0 (not "
        "testable: all differences are equal); kappa=5 +3.0 (not testable: all differences are equal); kappa=6 +4.0 (not "
        "testable: all differences are equal)."
    )
    assert said.summary.endswith(" By the means alone the 5 settings are better at 0, worse at 5 of 5 comparisons.")
    assert said.overall[-1].startswith("The best and the worst setting of a place were picked")


def test_an_arm_that_failed_everywhere_is_compared_where_the_worst_takes_its_place(fabric):
    tests = {1: (0.80, 0.71, 0.90), 2: (0.81, 0.70, 0.90), 3: ["diverged"] * 3, 4: None}
    for value, own in tests.items():
        arm(fabric, f"MUTAG-gcn-mean-{value}", own)
    fabric.ablation("rates", {"training.lr": [*tests]}, {f"MUTAG-gcn-mean-{value}": [value] for value in tests})
    fabric.plan()
    assert found(fabric.results, "rates").summary.endswith(
        "lr=2 better at 0, worse at 0, equal at 1 of 1 place; lr=3 better at 0, worse at 0, not testable at 1 of 1 place."
    )
    plan, frame = read_plan(fabric.results.plan) | {"config": {"report": {"missing": "worst"}}}, collect(fabric.results)
    said = words(plan, "rates", frame, {"MUTAG": 0.0})
    # the worst is 0.70: differences -0.10 -0.01 -0.20, mean -0.10333, s 0.09504
    assert "; lr=3 −10.3 [−33.9, +13.3], p 0.401 (Holm), not told apart." in said.details[0]
    assert said.summary == (
        "Differences from lr=1 that hold after Holm: none of 2, over 1 place (data set and layer), 3 pairs each. By the "
        "means alone: lr=2 better at 0, worse at 0, equal at 1 of 1 place; lr=3 better at 0, worse at 1 of 1 place. A "
        "failed fit counts as the worst test metric of the data set in this report (report.missing: worst)."
    )
    table = paired(plan, "rates", frame, {"MUTAG": 0.0})
    assert [row[table.columns.index("p (Holm)")].text for row in table.rows] == ["1", "0.401", "–"]


def test_a_result_that_rests_on_what_was_left_out_says_so(selection, fabric):
    # without split 2, attention differs from sum by 0.05 0.10; random by 0.05 twice, which cannot be tested
    dropped = {"config": {"report": {"missing": "drop"}}}
    told = " Pairs with a fit that is not ok are left out (report.missing: drop)."
    plan, frame = read_plan(selection.plan), collect(selection)
    assert "left out" not in words(plan | dropped, "selection", frame, RATIOS).summary  # nothing was
    fabric.evaluated("MUTAG-gcn-sum", {(0, 0): 0.8, (1, 0): 0.7, (2, 0): "diverged"})
    said = words(plan | dropped, "selection", collect(selection), RATIOS)
    assert said.summary.startswith("Differences from sum that hold after Holm: none of 1, ") and said.summary.endswith(
        told
    )
    assert "report.missing" not in words(plan, "selection", collect(selection), RATIOS).summary  # nothing is tested


def test_arms_below_the_floor_are_counted(selection):
    accuracy = Metric("accuracy", "maximize")
    none = {"a": Floor("a", "MUTAG", "MUTAG / gcn / sum", "majority class", Difference("no fits to pair", accuracy))}
    said = words(read_plan(selection.plan), "selection", collect(selection), RATIOS, none)
    assert said.summary.endswith(" Not shown to beat “majority class”: 1 of 1 arm, of them 1 not testable (§).")


def test_small_errors_keep_their_digits():
    mae = Metric("mae", "minimize")
    assert (mae.spread(3.2345e-6, 4.2e-8), mae.spread(0.25, 5e-4)) == ("3.23e−06 ± 4.2e−08", "0.2500 ± 0.0005")
    assert (mae.text(-1.5e-4, signed=True), mae.text(0), mae.text(0.001)) == ("−0.00015", "0.0000", "0.0010")
    assert mae.spread(-0.8614, 8.72e-4, signed=True) == "−0.8614 ± 0.0009"
    assert mae.spread(0.25, math.nan, signed=True) == "+0.2500"
    assert Metric("rmse", "minimize").spread(3.2345e-6, 4.2e-8) == "3.23e−06 ± 4.2e−08"


def test_what_is_not_zero_is_not_written_as_zero():
    accuracy, auroc = Metric("accuracy", "maximize"), Metric("auroc", "maximize")
    assert accuracy.spread(3e-4, 0.0123, signed=True) == "+0.03 ± 1.2"
    assert accuracy.spread(1e-4, 2e-4) == "0.01 ± 0.02"
    assert accuracy.interval(Interval(-3e-4, 0.213), signed=True) == "[−0.03, +21.3]"
    assert [accuracy.text(value, signed=True) for value in (0.0, 5e-4, -0.004)] == ["+0.0", "+0.1", "−0.4"]
    assert (auroc.text(-3e-5, signed=True), auroc.text(5e-5)) == ("−3e−05", "0.0001")


def test_options_of_aggregators_are_told_apart():
    names = list(map(setting, ("softmax.learn", "powermean.learn", "ssma.slots_from", "model.heads", "aggregator")))
    assert names == ["softmax.learn", "powermean.learn", "slots from", "heads", "aggregator"]


def test_metrics_are_called_as_in_the_docs():
    titles = [Metric(name, "maximize").title for name in DIRECTION]
    assert titles == ["accuracy in %", "macro F1 in %", "AP in %", "AUROC", "MAE", "RMSE"]
