"""Sentences about the budget of a whole study, on numbers that can be counted by eye."""

import pytest

from ssma.report.build import build
from ssma.report.flags import alike, coverage, epoch_cap, flags, idle_pruning, repeated, seconds_apart, space_size
from ssma.report.frame import collect

SETTINGS = {"aggregator": {}, "model": {"budget": 1000}, "training": {"lr": 0.001, "max_epochs": 10}}


@pytest.fixture
def made(fabric):
    """Returns plan and frame of sum, mean and ssma in one place, with the given changes to arms and to fits."""

    def make(arms=None, fits=None):
        for number, name in enumerate(("sum", "mean", "ssma")):
            changes = {"settings": SETTINGS} | (arms or {}).get(name, {})
            arm = fabric.arm(f"MUTAG-gcn-{name}", repeats=1, splits=2, **changes)
            given = {"test": 0.5 + number / 10} | (fits or {}).get(name, {})
            fabric.evaluated(arm, dict.fromkeys([(0, 0), (1, 0)], given.pop("test")), **given)
        names = ["sum", "mean", "ssma"]
        fabric.ablation("main", {"aggregator": names}, {f"MUTAG-gcn-{name}": [name] for name in names})
        return fabric.read()

    return make


def test_a_pair_of_arms_that_several_ablations_compare_is_told(made, fabric):
    plan, _ = made()
    assert repeated(plan) == ""
    again = plan["ablations"]["main"] | {"title": "Once\nmore"}
    again["cells"] = [cell for cell in again["cells"] if cell["arm"].endswith("ssma")]
    plan["ablations"]["again"] = again
    title = plan["ablations"]["main"]["title"]
    assert repeated(plan) == (
        "Several ablations compare 1 of 2 pairs of an arm and its baseline; MUTAG / gcn / ssma and MUTAG / "
        f"gcn / sum are in most of them: “{title}”, “Once more”. What holds of one pair is one finding, however often it is told, and p "
        "values are adjusted within an ablation, not over all of them."
    )


def test_fits_that_were_cut_off_are_counted_by_aggregator(made):
    plan, frame = made(fits={"sum": {"epochs": 9, "best_epoch": 9}, "ssma": {"best_epoch": 10}})
    assert epoch_cap(plan, frame) == (
        "Training was cut off at max_epochs (10) in 4 of 6 evaluation fits (0 of 2 with sum, 2 of 2 with mean, 2 of 2 "
        "with ssma); in 2 of these evaluation fits the last epoch is the best one by "
        "validation. They may be undertrained."
    )
    searched = frame.assign(**{"hp.training.max_epochs": [20, 20, 20, 20, None, None]})
    assert "max_epochs (10) in 2 of 6" in epoch_cap(plan, searched)
    assert epoch_cap(plan, frame.assign(**{"hp.training.max_epochs": 20})) == ""
    alike = epoch_cap(plan, frame.assign(epochs=10))
    assert "in 6 of 6 evaluation fits; in 2 of these" in alike and "with sum" not in alike


def test_spaces_of_unequal_size_are_told_with_their_shares(made):
    small = {"space": {"training.lr": [1, 2, 3]}, "trials": 3}
    large = {"space": {"training.lr": [1, 2, 3], "ssma.kappa": [2, 3, 4, 5]}, "trials": 3}
    plan, _ = made({"sum": small, "mean": small, "ssma": large})
    assert coverage(plan) == (
        "Unequal coverage of search spaces at 1 of 1 place (data set and layer), in trials planned: 3 of 3 "
        "configurations (100%) with sum, mean; 3 of 12 configurations (25%) with ssma. As many trials search a larger "
        "space more thinly."
    )


@pytest.mark.parametrize(
    ("space", "size", "text"),
    [
        ({"x.a": {"low": 0.1, "high": 1.0, "log": False, "kind": "float"}}, None, "2 of infinitely many"),
        ({"x.a": {"low": 1, "high": 20_000, "log": False, "kind": "int"}}, 10_001, "2 of more than 10,000"),
        ({"ssma.selection": ["random", "attention"], "ssma.temperature": [1, 2]}, 3, "2 of 3 configurations (66.7%)"),
    ],
)  # fmt: skip
def test_spaces_are_counted_as_the_search_does(made, space, size, text):
    assert space_size(space) == size
    plan, _ = made({"sum": {"space": {"training.lr": [1, 2]}}, "ssma": {"space": space}})
    assert text in coverage(plan)


def test_equal_shares_and_arms_without_a_search_are_no_finding(made):
    plan, _ = made({"sum": {"space": {"training.lr": [1, 2]}}, "ssma": {"space": {"ssma.kappa": [2, 3]}}})
    assert coverage(plan) == ""


def test_seconds_beyond_twice_those_of_the_cheapest_are_told(made):
    plan, frame = made(fits={"sum": {"seconds": 1.0}, "mean": {"seconds": 2.0}, "ssma": {"seconds": 2.5}})
    assert seconds_apart(plan, frame) == (
        "Unequal seconds: at 1 of 1 place (data set and layer) an arm took more than 2 times those of the cheapest arm "
        "beside it: ssma at 1 (2.5 times); the largest ratio is 5.0 s (CPU) of MUTAG / gcn / ssma against 2.0 s of "
        "MUTAG / gcn / sum. Seconds on the clock, of tuning and evaluation together, with other load of the machine in "
        "them."
    )


def test_a_place_is_counted_once_however_many_ablations_have_it(made, fabric):
    large = {"space": {"ssma.kappa": [2, 3, 4, 5]}}
    made({"sum": {"space": {"training.lr": [1, 2, 3]}}, "ssma": large}, {"ssma": {"seconds": 9.0}})
    fabric.ablations["again"] = fabric.ablations["main"]
    plan, frame = fabric.read()
    assert "at 1 of 1 place (" in coverage(plan)
    assert "at 1 of 1 place (" in seconds_apart(plan, frame) and "ssma at 1 (4.5 times)" in seconds_apart(plan, frame)


def test_seconds_of_arms_with_a_fit_that_ended_early_are_not_compared(made):
    plan, frame = made(fits={"sum": {"seconds": 1.0}, "mean": {"seconds": 2.0}, "ssma": {"seconds": 5.0}})
    assert "ssma at 1 (5.0 times)" in seconds_apart(plan, frame)
    early = frame["fit"] == "MUTAG-gcn-sum-e0r0"
    told = seconds_apart(plan, frame.assign(status=frame["status"].mask(early, "diverged")))
    assert "ssma at 1 (2.5 times)" in told and "sum" not in told


def test_seconds_of_unfinished_arms_and_of_other_devices_are_not_compared(made, fabric):
    plan, frame = made(
        fits={"sum": {"seconds": 1.0}, "mean": {"seconds": 9.0, "device": "H200"}, "ssma": {"seconds": 9.0}}
    )
    assert "ssma at 1 (9.0 times)" in seconds_apart(plan, frame) and "mean" not in seconds_apart(plan, frame)
    fabric.results.fit("MUTAG-gcn-ssma-e0r0").unlink()
    assert seconds_apart(plan, collect(fabric.results)) == ""


def test_seconds_on_gpus_of_different_names_are_not_compared(made):
    slow, fast = {"seconds": 9.0, "device": "Tesla T4"}, {"seconds": 1.0, "device": "NVIDIA H200"}
    plan, frame = made(fits={"sum": slow, "mean": fast, "ssma": fast | {"seconds": 4.0}})
    told = seconds_apart(plan, frame)
    assert "ssma at 1 (4.0 times); the largest ratio is 8.0 s (NVIDIA H200) of MUTAG / gcn / ssma against 2.0 s" in told
    assert "sum" not in told
    mixed = frame.assign(device=frame["device"].mask(frame["fit"] == "MUTAG-gcn-ssma-e0r0", "Tesla T4"))
    assert seconds_apart(plan, mixed) == ""


def test_pruning_on_too_few_splits_is_told(made):
    plan, _ = made(
        {"sum": {"prune": True, "tune_splits": [0, 1]}, "ssma": {"prune": True, "tune_splits": list(range(5))}}
    )
    told = "Pruning is on but cannot act in 1 of 2 arms, with 2 tuned splits: it needs 5."
    assert idle_pruning(plan) == told
    assert idle_pruning({"arms": [arm for arm in plan["arms"] if arm["aggregator"] != "sum"]}) == ""


@pytest.mark.usefixtures("no_images")
def test_the_page_has_what_there_is_to_flag_and_no_more(made, fabric, tmp_path):
    plan, frame = made({"sum": {"prune": True}})
    assert [line.split(" ")[0] for line in flags(plan, frame)] == ["Training", "Pruning"]
    build(fabric.results, tmp_path / "out")
    html = (tmp_path / "out" / "index.html").read_text()
    assert "<li>Training was cut off at max_epochs (10) in 6 of 6" in html and "<li>Pruning is on" in html


def test_arms_that_came_out_the_same_are_told(made):
    plan, frame = made(fits={"sum": {"test": 0.7}, "ssma": {"test": 0.7}})
    labels = [next(arm["label"] for arm in plan["arms"] if arm["aggregator"] == name) for name in ("sum", "ssma")]
    assert alike(plan, frame) == (
        "The same to the last digit in every evaluation fit, so that what they differ in had no effect: "
        f"{labels[0]}, {labels[1]}."
    )
    ssma = (frame["aggregator"] == "ssma") & (frame["split"] == 1)
    assert alike(plan, frame.assign(train=frame["train"] + 1e-16 * ssma * 10)) == "", "as they are not on one split"
    assert (frame["test_loss"] == 0.5).all()
    assert alike(plan, frame.assign(test_loss=0.5 + 0.01 * ssma)) == "", "other outputs, if the same accuracy"
    assert alike(plan, frame.drop(columns="test_loss")) == alike(plan, frame), "a frame that older code made"
    assert alike(plan, frame.assign(status=frame["status"].mask(ssma, "failed"))) == ""
    assert alike(plan, frame.assign(constant=frame["constant"].mask(ssma, True))) == ""
    main = plan["ablations"]["main"]
    main["cells"] = [cell for cell in main["cells"] if "sum" not in cell["arm"]]
    assert alike(plan, frame) == "", "an ablation does not have both"
