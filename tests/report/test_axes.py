import pytest

from ssma.report.axes import axis_table
from ssma.report.frame import collect
from ssma.study.lookup import read_plan


def along(fabric, metric, tests, axis, values, **others):
    """An ablation along one axis: value -> test metric per split."""
    cells = {}
    for value, by_split in zip(values, tests, strict=True):
        arm = fabric.arm(f"{metric}-gcn-ssma-{value}", splits=len(by_split), repeats=1)
        fabric.evaluated(arm, {(split, 0): test for split, test in enumerate(by_split)})
        cells[arm] = [value, *others.values()]
    fabric.ablation("along", {axis: values} | {key: [value] for key, value in others.items()}, cells)
    return fabric.read()


def row_of(table):
    (row,) = table.rows
    return dict(zip(table.columns, [cell.text for cell in row], strict=True))


def test_a_metric_that_rises(fabric):
    tests = [[0.60, 0.62, 0.64], [0.70, 0.70, 0.72], [0.80, 0.82, 0.86]]
    plan, frame = along(fabric, "MUTAG", tests, "ssma.kappa", [2, 3, 4])
    row = row_of(axis_table(plan, "along", frame, {"MUTAG": 1 / 6}))
    # changes 0.20, 0.20, 0.22: mean 20.67, s 1.1547, error s / sqrt(2), t(0.975, 2) = 4.3026527
    assert (row["units"], row["change over the axis"], row["95% interval"]) == ("3", "+20.7", "[+17.2, +24.2]")
    assert (row["means"], row["trend"]) == ("rise", "rho +1.00, unadjusted p 0.00926")  # 2 / 6^3
    assert (row["best"], row["smallest within 1 SE"], row["it loses"]) == ("4", "4", "–")


def test_an_error_whose_smallest_setting_is_good_enough(fabric):
    tests = [[0.50, 0.54, 0.52], [0.40, 0.45, 0.41], [0.40, 0.44, 0.42], [0.41, 0.44, 0.43]]
    plan, frame = along(fabric, "ZINC", tests, "ssma.compression", [0.01, 0.1, 0.5, 1.0], **{"x.y": "z"})
    table = axis_table(plan, "along", frame, {"ZINC": 0.0})
    row = row_of(table)
    # means 0.52, 0.42, 0.42, 0.4267; the best is 0.1, which is also the smallest within its error of 0.0153
    assert (row["best"], row["smallest within 1 SE"], row["with"]) == ("0.1", "0.1", "y=z")
    assert row["means"] == "neither rise nor fall throughout"
    assert "from 0.01 to 1 (logarithmic)" in table.caption
    # over log10: -2, -1, -0.301, 0 less their mean -0.825; slope -0.11197 / 2.36642, length 2
    assert row["change over the axis"] == "−0.0946"


def test_what_the_smaller_setting_loses(fabric):
    tests = [[0.50, 0.60, 0.70, 0.80], [0.51, 0.61, 0.73, 0.83]]
    plan, frame = along(fabric, "MUTAG", tests, "model.hidden_channels", [8, 16])
    row = row_of(axis_table(plan, "along", frame, {"MUTAG": 0.0}))
    # differences -1, -1, -3, -3: mean -2, s 1.1547, t(0.975, 3) = 3.1824463
    assert (row["best"], row["smallest within 1 SE"], row["it loses"]) == ("16", "8", "−2.0 [−3.8, −0.2]")
    assert row["trend"] == "not testable: 2 of the 3 settings that a trend needs"


def test_its_numbers_lead_to_the_arms_behind_them(fabric):
    tests = [[0.50, 0.60, 0.70, 0.80], [0.51, 0.61, 0.73, 0.83]]
    plan, frame = along(fabric, "MUTAG", tests, "model.hidden_channels", [8, 16])
    table = axis_table(plan, "along", frame, {"MUTAG": 0.0})
    cells = dict(zip(table.columns, table.rows[0], strict=True))
    assert [cells[name].arm for name in ("best", "smallest within 1 SE")] == ["MUTAG-gcn-ssma-16", "MUTAG-gcn-ssma-8"]
    assert {name: cell.link for name, cell in cells.items() if cell.link} == {"change over the axis": "along:table"}


def test_gaps_and_categorical_axes(study):
    plan, frame = read_plan(study.plan), collect(study)
    assert axis_table(plan, "main", frame, {}) is None
    row = row_of(axis_table(plan, "kappa_slots", frame, {}))
    assert (row["units"], row["change over the axis"]) == ("0", "not testable: no fits to pair")


@pytest.mark.parametrize(("missing", "units"), [("drop", "2"), ("worst", "3")])
def test_the_policy_for_gaps_is_the_studys(fabric, missing, units):
    tests = [[0.60, 0.62, 0.64], [0.70, 0.70, "diverged"]]
    plan, frame = along(fabric, "MUTAG", tests, "ssma.kappa", [2, 3])
    assert "at 1 of 3 splits and seeds" in row_of(axis_table(plan, "along", frame, {}))["change over the axis"]
    plan["config"]["report"] = {"missing": missing}
    row = row_of(axis_table(plan, "along", frame, {"MUTAG": 0.1}))
    # drop: 0.10 and 0.08; worst: the third unit gets 0.60 for its 0.64
    assert (row["units"], row["change over the axis"]) == (units, "+9.0" if missing == "drop" else "+4.7")


def test_means_that_are_equal_but_for_rounding_do_not_rise(fabric):
    tests = [[0.83, 0.85, 0.79], [0.83, 0.79, 0.85]]
    plan, frame = along(fabric, "MUTAG", tests, "ssma.kappa", [2, 3])
    assert row_of(axis_table(plan, "along", frame, {"MUTAG": 1 / 6}))["means"] == "neither rise nor fall throughout"


def test_seeds_of_one_split_are_tested_as_independent(fabric):
    cells = {}
    for value, tests in ((2, (0.40, 0.42, 0.44)), (3, (0.30, 0.31, 0.35))):
        arm = fabric.arm(f"ZINC-gcn-ssma-{value}", splits=1, repeats=3)
        fabric.evaluated(arm, {(0, repeat): test for repeat, test in enumerate(tests)})
        cells[arm] = [value]
    fabric.ablation("along", {"ssma.kappa": [2, 3]}, cells)
    plan, frame = fabric.read()
    row = row_of(axis_table(plan, "along", frame, {"ZINC": 0.5}))
    # changes -0.10, -0.11, -0.09: error 0.01 / sqrt(3), t(0.975, 2) = 4.3026527
    assert row["95% interval"] == "[−0.1248, −0.0752]"
