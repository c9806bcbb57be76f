"""A search has no configuration twice, also not under two names."""

import pytest

from ssma.errors import StudyError
from ssma.fit.spec import fit_id, fit_spec
from ssma.study.config import Tune, parse_study
from ssma.study.plan import make_plan
from ssma.study.space import configurations, count, without_idle
from ssma.study.tuning import number_of_trials, storage_error, storage_url

KAPPA, RATE = {"low": 2, "high": 4, "log": False, "kind": "int"}, {"low": 0.1, "high": 1, "log": True, "kind": "float"}
ATTENTION = {"ssma.selection": ["random", "attention"], "ssma.temperature": [0.5, 1, 2]}
STUDY = {
    "study": "s",
    "datasets": {"MUTAG": {"source": "tu"}},
    "layers": ["gcn"],
    "ablations": {"a": {"axes": {"aggregator": ["sum", "ssma"]}}},
}


def plan_of(**changes):
    return make_plan(parse_study(STUDY | changes))


def arms_of(**changes):
    return {arm["aggregator"]: arm for arm in plan_of(**changes)["arms"]}


def errors_of(**changes):
    with pytest.raises(StudyError) as error:
        plan_of(**changes)
    return str(error.value)


def test_a_range_is_of_real_numbers_where_the_setting_is_one():
    space = {"training.max_minutes": {"low": 1, "high": 5}, "training.max_epochs": {"low": 1, "high": 5}}
    found = arms_of(tune={"space": space})["sum"]["space"]
    assert {key: dimension["kind"] for key, dimension in found.items()} == {
        "training.max_minutes": "float",
        "training.max_epochs": "int",
    }
    space = {"training.max_minutes": {"low": 0.5, "high": 5.5}}
    assert arms_of(tune={"space": space})["sum"]["space"]["training.max_minutes"]["low"] == 0.5


def test_configurations_come_in_order_and_once():
    assert list(configurations({"b": [1, 2], "a": ["x", "y"]})) == [
        {"a": "x", "b": 1}, {"a": "x", "b": 2}, {"a": "y", "b": 1}, {"a": "y", "b": 2},
    ]  # fmt: skip
    found = [(item["ssma.selection"], item["ssma.temperature"]) for item in configurations(ATTENTION)]
    assert found == [("random", 0.5), ("attention", 0.5), ("attention", 1), ("attention", 2)]
    assert [item["ssma.kappa"] for item in configurations({"ssma.kappa": KAPPA})] == [2, 3, 4]


@pytest.mark.parametrize(
    ("space", "size"),
    [
        ({"ssma.kappa": KAPPA}, 3),
        (ATTENTION, 4),
        (ATTENTION | {"ssma.compression": [0.5, 1], "ssma.compression_of": ["parameters", "rank"]}, 4 * 3),
        ({"model.positional_encoding": ["none", "random_walk"], "model.walk_steps": [4, 8, 16]}, 4),
        ({"ssma.kappa": KAPPA, "training.lr": RATE}, 100),
        ({"ssma.kappa": KAPPA | {"high": 10**9}}, 100),
    ],
)
def test_a_space_counts_what_is_different(space, size):
    assert count(space, 100) == size


def test_a_range_of_whole_numbers_may_be_written_with_a_point():
    arm = arms_of(tune={"space": {"ssma.kappa": {"low": "2", "high": 4.0}}})["ssma"]
    assert arm["space"] == {"ssma.kappa": KAPPA}
    assert arm["trials"] == 3


def test_what_another_setting_makes_idle_is_left_out():
    assert without_idle({"ssma.compression": 1.0, "ssma.compression_of": "rank"}) == {"ssma.compression": 1.0}
    assert len(without_idle({"ssma.compression": 0.5, "ssma.compression_of": "rank"})) == 2
    axes = {"ssma.selection": ["random", "attention"], "ssma.temperature": [1, 2]}
    plan = plan_of(ablations={"a": {"axes": axes}})
    assert len(plan["ablations"]["a"]["cells"]) == 4
    assert [arm["fixed"] for arm in plan["arms"]] == [
        {"ssma.selection": "random"},
        {"ssma.selection": "attention", "ssma.temperature": 1},
        {"ssma.selection": "attention", "ssma.temperature": 2},
    ]
    whole = {"ssma.compression": [1, 0.5], "ssma.compression_of": ["parameters", "rank"]}
    assert len(plan_of(ablations={"a": {"axes": whole}})["arms"]) == 3
    assert len(plan_of(ablations={"a": {"axes": {"aggregator": ["sum", "ssma"], "ssma.kappa": [2, 3]}}})["arms"]) == 3


def test_a_search_leaves_out_what_its_arm_makes_idle():
    random = {"a": {"axes": {"ssma.selection": ["random", "attention"]}}}
    drawn, attended = plan_of(ablations=random, tune={"space": {"ssma.temperature": [1, 2]}})["arms"]
    assert (drawn["space"], drawn["trials"], drawn["sampler"], drawn["selection"]) == ({}, 0, "none", "none")
    assert (attended["trials"], attended["sampler"], attended["selection"]) == (2, "tpe", "validation")
    only = {"a": {"axes": {"ssma.selection": ["random"]}}}
    message = "tune.space.ssma.temperature: no arm searches it"
    assert message in errors_of(ablations=only, tune={"space": {"ssma.temperature": [1, 2]}})


def test_two_trials_of_the_same_thing_are_one_fit():
    arm = arms_of(tune={"space": ATTENTION})["ssma"]
    card, split = {"data_hash": "h"}, {"hash": "s"}

    def fit(**values):
        return fit_id(fit_spec(arm, card, split, 0, {f"ssma.{key}": value for key, value in values.items()}, 1))

    assert fit(selection="random", temperature=1) == fit(selection="random", temperature=2)
    assert fit(selection="attention", temperature=1) != fit(selection="attention", temperature=2)


def test_an_arm_without_a_search_does_not_depend_on_how_others_search():
    before, after = (
        arms_of(tune=tune) for tune in ({"space": {"ssma.kappa": [2, 3]}},
        {"space": {"ssma.kappa": [2, 3]}, "sampler": "random", "prune": False, "selection": "test", "splits": 2})
    )  # fmt: skip
    assert before["sum"]["id"] == after["sum"]["id"]
    assert before["ssma"]["search_id"] != after["ssma"]["search_id"]


def test_a_sampler_is_another_search():
    searches = {
        arms_of(tune={"space": {"ssma.kappa": [2, 3]}, "sampler": sampler})["ssma"]["search_id"]
        for sampler in ("tpe", "random", "grid")
    }
    assert len(searches) == 3


def test_a_grid_is_all_of_it_or_an_error():
    space = {"ssma.kappa": [2, 3, 4], "training.lr": [0.1, 0.01, 0.001, 0.0001]}
    arms = arms_of(tune={"sampler": "grid", "space": space})
    assert {name: arm["trials"] for name, arm in arms.items()} == {"sum": 4, "ssma": 12}
    assert arms_of(tune={"sampler": "grid", "trials": 20, "space": space})["ssma"]["trials"] == 12
    message = errors_of(tune={"sampler": "grid", "trials": 8, "space": space})
    assert "tune.trials: got 8, but the grid has 12 configurations; leave trials out" in message
    ranges = {"training.lr": {"low": 0.1, "high": 1}, "ssma.kappa": [2, 3]}
    assert "give training.lr as a list of values" in errors_of(tune={"sampler": "grid", "space": ranges})
    tune = Tune(sampler="grid")
    assert number_of_trials(tune, {"ssma.kappa": KAPPA}) == (3, None)
    assert "a grid of 1000000 configurations" in number_of_trials(tune, {"x": KAPPA | {"low": 1, "high": 10**6}})[1]


@pytest.mark.parametrize(
    ("space", "aggregators"),
    [
        ({"ssma.mixing": ["convolution", "sum"], "ssma.normalisation": ["geometric", "none"]}, {}),
        ({"ssma.mixing": ["convolution", "sum"]}, {"ssma": {"normalisation": "none"}}),
    ],
)
def test_a_search_that_the_operator_would_refuse_is_refused(space, aggregators):
    message = errors_of(tune={"space": space}, aggregators=aggregators)
    assert "would combine 'sum' with 'none', which has no effect there; leave out 'sum'" in message
    plan_of(tune={"space": {"ssma.mixing": ["convolution", "product"], "ssma.normalisation": ["geometric", "none"]}})


# Search grid of the paper's code: 5 rates x 2 selections x kappa from 2 to 7, 4 or 3.
GRIDS = {
    "ENZYMES": ({"source": "tu"}, 7, 60),
    "PROTEINS": ({"source": "tu"}, 7, 60),
    "IMDB-BINARY": ({"source": "tu", "features": "degree"}, 7, 60),
    "MUTAG": ({"source": "tu"}, 4, 30),
    "PTC_MR": ({"source": "tu"}, 4, 30),
    "zinc": ({"source": "zinc"}, 4, 30),
    "func": ({"source": "lrgb", "name": "Peptides-func"}, 3, 20),
    "struct": ({"source": "lrgb", "name": "Peptides-struct"}, 3, 20),
    "hiv": ({"source": "ogbg", "name": "ogbg-molhiv"}, 4, 30),
}


@pytest.mark.parametrize("label", GRIDS)
def test_the_paper_searches_for_its_own_arm_only(label):
    spec, most, size = GRIDS[label]
    arms = arms_of(protocol="paper", datasets={label: spec})
    ssma, baseline = arms["ssma"], arms["sum"]
    assert (ssma["trials"], ssma["sampler"], ssma["selection"], ssma["prune"]) == (size, "grid", "test", False)
    assert ssma["space"]["ssma.kappa"] == list(range(2, most + 1))
    assert ssma["space"]["ssma.compression"] == [0.1, 0.25, 0.5, 0.75, 1]
    assert (baseline["trials"], baseline["space"], baseline["selection"]) == (0, {}, "none")


def test_what_a_study_says_of_tuning_wins_over_the_paper():
    arm = arms_of(protocol="paper", tune={"selection": "validation"})["ssma"]
    assert (arm["trials"], arm["sampler"], arm["selection"]) == (30, "grid", "validation")
    arms = arms_of(protocol="paper", tune={"space": {"training.lr": [0.1, 0.2]}})
    assert {name: arm["trials"] for name, arm in arms.items()} == {"sum": 2, "ssma": 2}
    assert arms_of(protocol="fair")["ssma"]["trials"] == 0


def test_searches_and_mlflow_have_a_database_each(monkeypatch):
    """In one, either refuses the tables of the other."""
    told = "1 error in the study file:\n  - track.uri: is the database of tune.storage; Optuna and MLflow need one each"
    runs = {"uri": "postgresql+psycopg://bob@db:5432/lab"}
    assert errors_of(tune={"storage": "postgresql://ann@db/lab"}, track=runs) == told
    for other in ("postgresql://ann@db/searches", "postgresql://ann@elsewhere/lab", "journal"):
        assert plan_of(tune={"storage": other}, track=runs)["config"]["track"] == runs | {"enabled": True}
    monkeypatch.setenv("SSMA_TUNE_STORAGE", "postgresql://ann:geheim@db/lab")
    assert errors_of(track=runs) == told


def test_a_password_is_neither_taken_nor_told(monkeypatch):
    with_password = "postgresql://ann:geheim@db/studies"
    message = errors_of(tune={"storage": with_password})
    assert "tune.storage: holds a password" in message and "SSMA_TUNE_STORAGE" in message
    wrong = errors_of(tune={"storage": "mysql://ann:geheim@db/studies"})
    assert "tune.storage: got mysql://..., expected journal or postgresql://" in wrong
    assert "geheim" not in message + wrong
    assert storage_error("postgresql://ann@db/studies") is None and storage_error(None) is None
    before = {arm["id"] for arm in plan_of()["arms"]}
    assert before == {arm["id"] for arm in plan_of(tune={"storage": "postgresql://ann@db/studies"})["arms"]}
    monkeypatch.setenv("SSMA_TUNE_STORAGE", with_password)
    assert storage_url({"storage": None}) == with_password
    assert storage_url({"storage": "journal"}) is None
    assert "geheim" not in str(plan_of())
    monkeypatch.setenv("SSMA_TUNE_STORAGE", "mysql://ann:geheim@db/studies")
    with pytest.raises(StudyError, match=r"^SSMA_TUNE_STORAGE: got mysql://..., expected"):
        storage_url({"storage": None})
