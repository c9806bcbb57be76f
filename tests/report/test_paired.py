import math

import numpy
import pytest

from ssma.report.frame import collect
from ssma.report.labels import Metric, p_text
from ssma.report.paired import paired, rope_of
from ssma.study.config import Report
from ssma.study.lookup import read_plan
from ssma.study.part import part

ACCURACY, MAE = Metric("accuracy", "maximize"), Metric("mae", "minimize")


def rows_of(table):
    return [dict(zip(table.columns, [cell.text for cell in row], strict=True)) for row in table.rows]


@pytest.fixture
def plan(study):
    return read_plan(study.plan)


@pytest.fixture
def frame(study):
    return collect(study)


def test_what_has_gaps_is_described_and_not_tested(plan, frame):
    first, second, _ = rows_of(paired(plan, "main", frame, {"MUTAG": 0.5}))
    assert (first["data set"], first["layer"], first["aggregator"]) == ("MUTAG", "gcn", "ssma")
    assert first["difference (pairs)"] == "+3.7 ± 4.0 (3)"
    tests = ["95% interval", "bootstrap interval", "p", "p (Holm)", "p (Wilcoxon)", "P(better)", "effect size g"]
    assert {first[name] for name in tests} == {"not testable"}
    assert first["not testable because"].endswith(": at 1 of 6 splits and seeds a fit is not ok")
    assert (second["difference (pairs)"], second["not testable because"]) == ("no pairs", "no fits to pair")


def test_with_drop_the_rest_is_tested(plan, frame):
    plan["config"]["report"] = {"missing": "drop"}
    first, *_ = rows_of(paired(plan, "main", frame, {"MUTAG": 0.5}))
    # differences 0.03, 0.08, 0.00: error s sqrt(1/3 + 1/2); with 2 degrees of freedom p = 1 - t / sqrt(2 + t^2)
    error = 0.0404145 * math.sqrt(1 / 3 + 0.5)
    t = 0.11 / 3 / error
    assert first["95% interval"] == "[−12.2, +19.5]"  # 3.67 -+ 4.3026527 * 3.689
    assert first["half width"] == "±15.9"
    assert float(first["p"]) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=5e-4)

    def cumulative(t):
        return 0.5 + t / (2 * math.sqrt(2 + t * t))

    worse, better = cumulative((-0.01 - 0.11 / 3) / error), 1 - cumulative((0.01 - 0.11 / 3) / error)
    shown = [float(first[name]) for name in ("P(worse)", "P(equivalent)", "P(better)")]
    assert shown == pytest.approx([worse, 1 - worse - better, better], abs=6e-4)
    assert float(first["effect size g"]) == pytest.approx(0.11 / 3 / 0.0404145 / math.sqrt(math.pi), abs=6e-3)
    assert first["p (Wilcoxon)"] == "not testable"
    assert "2 pairs besides 1 without a difference cannot reach p < 0.05" in first["not testable because"]


def test_holm_takes_the_table_as_the_family(plan, frame):
    plan["config"]["report"] = {"missing": "drop"}
    table = paired(plan, "main", frame, {"MUTAG": 0.5})
    first, untested, third = rows_of(table)
    assert "p (Holm): over the 2 comparisons of this table." in table.caption
    assert untested["p (Holm)"] == "–"
    assert float(third["p (Holm)"]) == pytest.approx(2 * float(third["p"]), rel=2e-3)
    assert first["p (Holm)"] == first["p"]


def test_of_errors_lower_is_better_and_seeds_need_no_correction(plan, frame):
    *_, row = rows_of(paired(plan, "main", frame, {"ZINC": 0.1}))
    # -0.10, -0.11, -0.09: 4.3026527 * 0.01 / sqrt(3) = 0.02484
    assert (row["difference (pairs)"], row["95% interval"]) == ("−0.1000 ± 0.0100 (3)", "[−0.1248, −0.0752]")
    assert float(row["P(better)"]) > 0.99 > 0.01 > float(row["P(worse)"])


def test_a_difference_and_its_deviation_have_the_same_digits(fabric):
    for arm, tests in {"ZINC-gcn-sum": (0.9000, 0.9000, 0.9000), "ZINC-gcn-ssma": (0.8000, 0.80041, 0.79963)}.items():
        fabric.arm(arm, splits=1, repeats=3)
        fabric.evaluated(arm, {(0, repeat): test for repeat, test in enumerate(tests)})
    fabric.ablation("main", {"aggregator": ["sum", "ssma"]}, {"ZINC-gcn-sum": ["sum"], "ZINC-gcn-ssma": ["ssma"]})
    (row,) = rows_of(paired(fabric.plan(), "main", collect(fabric.results), {}))
    assert row["difference (pairs)"] == "−0.1000 ± 0.0004 (3)"


def test_without_the_sizes_of_the_parts_there_is_no_t_test(plan, frame):
    plan["config"]["report"] = {"missing": "drop"}
    first, *_ = rows_of(paired(plan, "main", frame, {}))
    assert first["95% interval"] == "not testable" and first["bootstrap interval"] != "not testable"
    assert "interval and p, P: the sizes of the training and test parts are unknown" in first["not testable because"]


def test_the_region_of_practical_equivalence():
    reference = numpy.array([0.4, 0.5])
    assert rope_of(ACCURACY, reference, Report()) == pytest.approx(0.01)
    assert rope_of(MAE, reference, Report()) == pytest.approx(0.0045)
    assert rope_of(Metric("f1", "maximize"), reference, Report()) == pytest.approx(0.01)
    assert rope_of(Metric("rmse", "minimize"), reference, Report()) == pytest.approx(0.0045)
    assert rope_of(Metric("f1", "maximize"), reference, Report(rope={"f1": 3})) == pytest.approx(0.03)
    given = Report(rope={"accuracy": 2.5, "mae": 0.02})
    assert rope_of(ACCURACY, reference, given) == pytest.approx(0.025)
    assert rope_of(MAE, reference, given) == pytest.approx(0.02)


def test_the_caption_says_what_was_done(plan, frame):
    plan["config"]["report"] = {"rope": {"mae": 0.02}}
    caption = paired(plan, "main", frame, {"MUTAG": 0.5}).caption
    assert "paired difference to aggregator sum" in caption and "95% interval, not adjusted," in caption
    assert "accuracy in % (MUTAG): higher is better, equivalent up to 1; MAE (ZINC): lower is better" in caption
    assert "equivalent up to 0.02. Not testable" in caption and len(caption.split()) < 110
    assert "1% of the mean of the reference" in paired(plan | {"config": {}}, "main", frame, {}).caption
    told = "Of ZINC the pairs are seeds of one split: a result holds for other seeds, not for other data."
    assert paired(plan, "main", frame, {"MUTAG": 0.5}).footnotes == [told]
    assert paired(plan, "kappa_slots", frame, {"MUTAG": 0.5}).footnotes == []


def test_the_worst_is_that_of_the_report(study):
    plan = read_plan(study.plan) | {"config": {"report": {"missing": "worst"}}}
    tables = [paired(some, "main", collect(study, some), {"MUTAG": 0.5}) for some in (plan, part(plan, "main"))]
    # fold 2 is (0.90 + worst) / 2 against 0.88: 0.60 is the worst of all, 0.70 that of this ablation
    assert [rows_of(table)[0]["difference (pairs)"] for table in tables] == ["−0.7 ± 11.0 (3)", "+1.0 ± 8.2 (3)"]
    assert all("the worst test metric of the data set in this report" in table.caption for table in tables)


def test_two_axes_have_no_paired_table(fabric):
    ids = [fabric.arm(f"MUTAG-gcn-ssma-{number}") for number in range(2)]
    cells = dict(zip(ids, ([2, 1], [3, 1]), strict=True))
    fabric.ablation("two", {"ssma.kappa": [2, 3], "ssma.heads": [1]}, cells)
    assert paired(fabric.plan(), "two", collect(fabric.results), {}) is None


def test_p_values_are_short():
    assert [p_text(p) for p in (1.0, 0.041259765, 0.000123456, 0.00001)] == ["1", "0.0413", "0.000123", "<0.0001"]


def test_a_p_value_that_is_below_the_level_is_not_shown_at_it():
    """What is judged better at p < 0.05 would stand beside 0.05."""
    assert [p_text(p) for p in (0.0499, 0.04996, 0.05, 0.0500004)] == ["0.0499", "<0.05", "0.05", "0.05"]
