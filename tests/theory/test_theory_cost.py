"""What theory experiments are said to take: by hand from the reference seconds, and from their records."""

import json
import os

import pytest

from ssma.cli import main
from ssma.study.config import parse_study
from ssma.study.cost import describe, duration, plan_cost, usable_cores
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.records import write_record

STUDY = {
    "study": "small",
    "datasets": {"d": {"source": "synthetic", "task": "product_regression", "num_graphs": 20}},
    "layers": ["gcn"],
    "splits": {"folds": 3},
    "ablations": {"aggregator": {"axes": {"aggregator": ["sum", "ssma"]}}},
}
TRAINED = {"n": 4, "d": 2, "train_sets": 90, "batch_size": 20, "epochs": 7, "lr": [0.1, 0.2], "seeds": 3}
STEPS = 7 * 5  # five batches of 20 or 10
TRAININGS = 3 * 2 * 2  # seeds, activations, learning rates


def planned(**theory):
    return make_plan(parse_study(STUDY | {"theory": theory}))


def sum_step(m):
    return 5.0e-4 + 8.4e-11 * (20 + 50) * m * (m + 40 * 4)


def ssma_step(m):
    return 1.3e-3 + 2.7e-8 * 20 * m


@pytest.mark.parametrize(
    ("name", "settings", "seconds"),
    [
        ("sum_of_gram", TRAINED | {"m": [8, 64], "aggregators": ["sum", "ssma"]},
         TRAININGS * STEPS * (sum_step(8) + sum_step(64) + ssma_step(8) + ssma_step(64))),
        ("sum_of_gram", TRAINED | {"m": [8], "aggregators": ["sum", "lstm"]},
         TRAININGS * STEPS * (sum_step(8) + 7.2e-4 + 6.8e-10 * 70 * 8 * 168)),
        ("sum_of_gram", TRAINED | {"m": [8], "aggregators": ["sum"], "train_sets": 9},
         TRAININGS * 7 * (5.0e-4 + 8.4e-11 * (9 + 50) * 8 * 168)),  # a batch has no more multisets than there are
        ("mixing", TRAINED | {"m": 8, "multisets": 10},
         TRAININGS * STEPS * (sum_step(8) + ssma_step(8)) + 3 * 2 * 2 * 8 * 4 * 2 * 10 * 3e-6),
        ("separation", {"n": 3, "d": 2, "pairs": 10, "draws": 4, "halvings": 5}, 4 * 35 * 3 * 2 * 4e-6),
        ("higher_order", {}, 0),
    ],
)  # fmt: skip
def test_an_experiment_costs_its_steps(tmp_path, name, settings, seconds):
    cost = plan_cost(planned(**{name: settings}), Results(tmp_path))
    assert cost.theory == {name: pytest.approx(4 + seconds)} and cost.theory_measured == 0
    assert cost.seconds == pytest.approx(plan_cost(planned(), Results(tmp_path)).seconds + 4 + seconds)


def test_a_finished_experiment_costs_what_it_took_and_a_failed_one_does_not(tmp_path):
    plan, results = planned(separation={}, higher_order={}), Results(tmp_path)
    for name, status in (("separation", "ok"), ("higher_order", "failed")):
        write_record(results.theory(plan["theory"][name]["id"]), {"status": status, "seconds": 96.0})
    cost = plan_cost(plan, results)
    assert (cost.theory, cost.theory_measured) == ({"separation": 100, "higher_order": 4}, 1)
    told = "of it about 100 s for 2 theory experiments (1 of 2 by their own records, the others by reference steps)"
    assert describe(cost, 2).splitlines()[2] == told
    assert "theory" not in describe(plan_cost(planned(), results), 2)


def test_the_plan_says_what_experiments_take(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.json").write_text(json.dumps(STUDY | {"theory": {"higher_order": {}}}))
    assert main(["plan", "study.json", "--cores", "1"]) == 0
    out = capsys.readouterr().out
    assert " theory experiment, about 4 s on a core\n" in out
    assert "of it about 4 s for 1 theory experiment (by reference steps)" in out


def test_more_cores_than_jobs_make_nothing_faster(tmp_path):
    cost = plan_cost(planned(separation={}), Results(tmp_path))
    jobs = cost.arms + 1
    assert describe(cost, 2**63 - 1) == describe(cost, jobs)
    ssma = make_plan(parse_study(STUDY | {"ablations": {"ssma": {"axes": {"ssma.kappa": [4]}}}}))
    alone = plan_cost(ssma, Results(tmp_path)).seconds
    assert cost.seconds / jobs < alone < cost.seconds / 1.2  # whose fits follow each other
    assert f"about {duration(alone)} in all on {jobs} cores" in describe(cost, 2**63 - 1)
    assert f"about {duration(cost.seconds)} in all on 1 core" in describe(cost, 1)
    assert "of it about 4 s for 1 theory experiment" in describe(cost, jobs)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to cores")
def test_cores_that_are_not_ours_do_not_count():
    ours = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(ours)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, ours)
