import math
import re
from pathlib import Path

import pytest
from made_records import OF_DATA, make_fit, make_plan, make_trial

from ssma.track.runs import Point, arm_points, arm_run, fit_run, trial_run

DOCS = Path(__file__).parents[2] / "docs"


def test_what_is_not_finite_is_left_out():
    """MLflow would store infinity as 1.797e308."""
    (arm,) = make_plan(["one"])["arms"]
    fit = make_fit(arm, 0)
    fit["history"]["validation_metric"] = [math.inf, 0.5, math.nan]
    trial = make_trial(0, [fit]) | {"validation": -math.inf}
    time = 1767268800000
    assert trial_run(arm, trial, [fit]).points == [
        Point("split.validation_accuracy", 0.8, 0, time + 1500),
        Point("split_0.validation_accuracy", 0.5, 2, time + 1000),
    ]


def test_a_pruned_trial_is_not_finished():
    (arm,) = make_plan(["one"])["arms"]
    run = trial_run(arm, make_trial(4, [], "pruned"), [])
    assert (run.name, run.state, run.tags["ssma.status"]) == ("trial 4", "KILLED", "pruned")


def test_the_order_of_fits_does_not_matter():
    (arm,) = make_plan(["one"])["arms"]
    fits = [make_fit(arm, split) for split in (0, 1)]
    trial = make_trial(0, fits)
    assert trial_run(arm, trial, fits).identity == trial_run(arm, trial, fits[::-1]).identity


def test_a_long_label_fits_in_the_name_of_a_run():
    """A database of a tracking server keeps 250 characters, and refuses more."""
    plan = make_plan(["one"])
    arm = plan["arms"][0] | {"label": "x" * 300}
    assert arm_run(plan, arm).name == "x" * 250


def test_an_option_that_is_a_table_is_one_parameter_and_none_where_it_is_searched():
    plan = make_plan(["one"])
    arm = plan["arms"][0] | {"aggregator": "mine", "space": {"mine.c": [{"y": 2}, {"y": 3}]}}
    arm["settings"] = arm["settings"] | {"aggregator": {"a": {"x": 1}, "b": {}, "c": {"y": 2}}}
    mine = {name: text for name, text in arm_run(plan, arm).params.items() if name.startswith("mine.")}
    assert mine == {"mine.a": '{"x":1}', "mine.b": "{}"}


def test_the_means_of_an_arm_are_those_of_the_report():
    """Split by split, and without fits that a report shows as diverged: a fit of two on a split weighs more there."""
    (arm,) = make_plan(["one"])["arms"]
    fits = [make_fit(arm, split) for split in (0, 1, 1, 2)]
    for fit, test in zip(fits, (0.4, 0.7, 0.9, None), strict=True):
        fit["test"] = {"loss": None, "accuracy": test}
    fits[0]["validation"] = {"loss": 0.1, "accuracy": 0.3}
    chosen = {"trials": [], "chosen_trial": {"0": None}, "metric": "accuracy"}
    points = {point.name: point.value for point in arm_points(chosen, {"planned": 6}, fits)}
    assert points == {
        "fits.ok": 3, "fits.planned": 6, "trials.complete": 0,
        "mean.test_accuracy": pytest.approx(0.6), "mean.validation_accuracy": pytest.approx(0.6),
    }  # fmt: skip


def test_the_default_of_a_searched_setting_is_no_parameter_of_an_arm():
    plan = make_plan()
    arm = plan["arms"][0] | {"space": {"training.lr": [0.02, 0.05], "ssma.kappa": [2, 4]}}
    settings = {"ssma.note": "short", "model.num_layers": "4"}
    assert {name: text for name, text in arm_run(plan, arm).params.items() if name not in OF_DATA} == settings


def test_the_switches_of_a_data_set_are_parameters_of_its_arms():
    """Two arms of one label, with a set's node attributes and without, had the same parameters, and so had those of a
    file before and after it was changed. Places are none: a data set that was moved is the same."""
    plan = make_plan()
    arm = plan["arms"][0]
    assert {name: text for name, text in arm_run(plan, arm).params.items() if name in OF_DATA} == OF_DATA
    before, dataset = arm_run(plan, arm), plan["datasets"]["MUTAG"]
    dataset["spec"] |= {"path": "/elsewhere"}
    assert arm_run(plan, arm).identity == before.identity
    dataset["spec"] |= {"node_attributes": True, "target": None}
    dataset["splits"] = {"scheme": "file", "file": "splits.json", "content": "c1"}
    after = arm_run(plan, arm)
    assert after.params["data.node_attributes"] == "true" and after.params["splits.scheme"] == "file"
    assert (after.params["data.content"], after.params["splits.content"]) == ("c0", "c1")
    assert not {"data.path", "data.target", "splits.file"} & after.params.keys()
    dataset["spec"]["content"] = "c2"
    assert len({run.identity for run in (before, after, arm_run(plan, arm))}) == 3


def test_the_docs_name_tags_and_metrics_as_runs_have_them():
    told = (DOCS / "studies.md").read_text(encoding="utf-8").split("\nIn the MLflow store (")[1]
    plan = make_plan()
    arm = plan["arms"][0]
    fits = [make_fit(arm, split) for split in (0, 1)]
    runs = [arm_run(plan, arm), trial_run(arm, make_trial(0, fits), fits), fit_run(arm, 0, 0, fits[0])]
    chosen = {"trials": [], "chosen_trial": {"0": None}, "metric": "accuracy"}
    points = [*arm_points(chosen, {"planned": 2}, fits), *runs[1].points, *runs[2].points]
    tags = set().union(*(run.tags for run in runs)) | {"ssma.status", "ssma.superseded_by"}
    assert set(re.findall(r"`(ssma\.\w+)`", told)) == tags
    assert {run.tags["ssma.kind"] for run in runs} == {"arm", "trial", "fit"}
    metrics = re.findall(r"`((?:mean|best)\.\w+_)<metric>`", told)
    assert len(metrics) == 3 and {f"{name}accuracy" for name in metrics} < {point.name for point in points}
