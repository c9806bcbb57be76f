import pytest

from ssma.report.frame import collect, read_plan
from ssma.report.words import words
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
    return words(read_plan(results), ablation, collect(results), RATIOS)


def test_the_best_setting_is_told_with_its_paired_difference_to_sum(selection):
    # differences to sum 0.05 0.10 0.04: mean 6.33, s 3.215, half width 4.303 * sqrt(1/3 + 1/2) * 3.215 = 12.63
    # random against attention 0.00 -0.05 -0.14: mean -6.33, s 7.095, half width 27.87
    said = found(selection, "selection")
    assert said.details == [
        "MUTAG, gcn: of 2 settings the best is selection=attention, accuracy in % 86.3 ± 7.1 (3 fits); "
        "against sum +6.3 [−6.3, +19.0], which holds 0; "
        "selection=random against selection=attention −6.3 [−34.2, +21.5], which holds 0."
    ]
    assert said.overall == [
        "Against sum in the same network and training, the best other setting has a better mean at 1 of 1 place (data "
        "set and layer). The 95% interval of the paired difference lies on the better side at 0, on the worse side at "
        "0, holds 0 at 1, and is not testable at 0.",
        "Neighbour selection: random has a better mean than attention in 0 of 1 pairs that differ in nothing else.",
        "Not run: MUTAG gin.",
    ]


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
        "against sum −0.0967 [−0.1110, −0.0823], all of it better."
    ]
    assert "lies on the better side at 1," in said.overall[0]


def test_where_sum_is_best_the_best_of_the_others_is_compared_and_is_worse(fabric):
    for name, tests in (("sum", (0.80, 0.81, 0.82)), ("mean", (0.70, 0.72, 0.71)), ("ssma", (0.60, 0.61, 0.63))):
        arm(fabric, f"MUTAG-gcn-{name}", tests)
    cells = {f"MUTAG-gcn-{name}": [name] for name in ("sum", "mean", "ssma")}
    fabric.ablation("main", {"aggregator": ["sum", "mean", "ssma"]}, cells)
    fabric.plan()
    said = found(fabric.results, "main")
    assert "the best is sum" in said.details[0]
    # -0.10 -0.09 -0.11: mean -10.0, s 1.0, half width 4.303 * sqrt(5/6) * 1.0 = 3.93
    assert "; mean, the best of the others, against sum −10.0 [−13.9, −6.1], all of it worse." in said.details[0]
    assert "a better mean at 0 of 1" in said.overall[0] and "on the worse side at 1" in said.overall[0]
    assert said.overall[-1].startswith("The best setting was picked by these very test numbers")


def test_a_numeric_axis_is_told_by_its_table(fabric):
    for value, tests in ((2, (0.6, 0.7, 0.8)), (3, (0.7, 0.8, 0.9)), (4, (0.8, 0.9, 0.95))):
        arm(fabric, f"MUTAG-gcn-ssma-{value}", tests)
    fabric.ablation("kappa", {"ssma.kappa": [2, 3, 4]}, {f"MUTAG-gcn-ssma-{value}": [value] for value in (2, 3, 4)})
    fabric.plan()
    best, course = found(fabric.results, "kappa").details
    assert "no sum arm with the same network and training is in the study; kappa=4 against kappa=2 +18.3 [" in best
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
        "MUTAG, gat: of 1 setting the best is selection=random, accuracy in % 75.0 ± 7.1 (2 of 3 fits); "
        "against sum −5.0 (not testable: at 1 of 3 places (split and seed) a fit is not ok)."
    )
    bare = type(selection)(selection.root.parent / "bare")
    write_record(bare.plan, read_plan(selection))
    assert found(bare, "selection") == type(said)(["Not run: nothing of this ablation."], [])
