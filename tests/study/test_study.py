import errno
import json
import os
import re
import subprocess
import sys
from datetime import date
from importlib.util import spec_from_file_location
from pathlib import Path
from zipfile import ZipFile

import pytest

import ssma
from ssma.cli import main
from ssma.errors import StudyError
from ssma.report.labels import point_text, setting
from ssma.study.classes import class_fingerprint
from ssma.study.config import Study, load_study, parse_study
from ssma.study.cost import Cost, _reference, _size, describe, plan_cost
from ssma.study.ids import canonical_json, code_fingerprint, digest, seed_from
from ssma.study.lookup import named_arm
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.records import read_record, write_record
from ssma.study.wording import did_you_mean

ROOT = Path(__file__).parents[2]
BASE = {
    "study": "s",
    "datasets": {
        "MUTAG": {"source": "tu"},
        "made": {"source": "synthetic", "task": "product_regression", "num_graphs": 100, "fixed": {"model.readout": "sum"}},
    },
    "layers": ["gcn", "gat"],
    "ablations": {
        "aggregator": {"axes": {"aggregator": ["sum", "ssma"]}},
        "kappa": {"axes": {"ssma.kappa": [2, 3], "ssma.selection": ["random", "attention"]}},
    },
    "tune": {"trials": 5, "splits": 3, "space": {"training.lr": [0.1, 0.01], "ssma.kappa": [2, 3]}},
}  # fmt: skip


def plan_of(**changes):
    return make_plan(parse_study(BASE | changes))


def errors_of(**changes):
    with pytest.raises(StudyError) as error:
        plan_of(**changes)
    return str(error.value)


def test_data_sets_times_layers_times_axes():
    plan = plan_of()
    assert len(plan["ablations"]["aggregator"]["cells"]) == 2 * 2 * 2
    assert len(plan["ablations"]["kappa"]["cells"]) == 2 * 2 * 4
    assert len(plan["arms"]) == 8 + 16
    arm = named_arm(plan, "made / gat / ssma (kappa=3 selection=random)")
    assert arm["settings"]["aggregator"]["kappa"] == 3
    assert arm["settings"]["model"]["readout"] == "sum"
    assert arm["space"] == {"training.lr": [0.1, 0.01]}
    assert (arm["trials"], arm["tune_splits"], arm["splits"]) == (2, [0, 1, 2], list(range(10)))
    tuned = plan["arms"][1]
    assert (tuned["label"], tuned["trials"], sorted(tuned["space"])) == (
        "MUTAG / gcn / ssma",
        4,
        ["ssma.kappa", "training.lr"],
    )
    sums = plan["arms"][0]
    assert (sums["trials"], list(sums["space"])) == (2, ["training.lr"])


def test_an_arm_that_two_ablations_share_is_run_once():
    ablations = BASE["ablations"] | {"again": {"axes": {"ssma.kappa": [3.0]}, "fixed": {"ssma.selection": "attention"}}}
    plan = plan_of(ablations=ablations)
    assert len(plan["arms"]) == 24
    cells = plan["ablations"]["again"]["cells"]
    shared = {cell["arm"] for cell in plan["ablations"]["kappa"]["cells"]}
    assert len(cells) == 4
    assert {cell["arm"] for cell in cells} <= shared


def test_an_id_changes_with_what_can_change_a_number_and_with_nothing_else():
    before = {arm["id"] for arm in plan_of()["arms"]}

    def moved(**changes):
        return len(before - {arm["id"] for arm in plan_of(**changes)["arms"]})

    assert moved(title="other words", data={"mirror": "/elsewhere"}, track={"enabled": False}, device="cpu") == 0
    assert moved(report={"missing": "drop", "rope": {"accuracy": 2.0}}) == 0
    assert moved(training={"lr": 0.5}) == 0  # it is searched in every arm
    assert moved(training={"weight_decay": 0.5}) == 24
    assert moved(seed=1) == 24
    assert plan_of(seed=1)["datasets"] == plan_of()["datasets"], "folds and data have seeds of their own"
    assert moved(model={"num_layers": 3}) == 24
    assert moved(model={"heads": 4}) == 12  # gat only
    assert moved(evaluate={"repeats": 2}) == 24
    assert moved(tune=BASE["tune"] | {"trials": 3}) == 4  # arms with fewer configurations than that are not touched
    assert moved(splits={"scheme": "shuffle"}) == 24
    assert moved(aggregators={"ssma": {"compression": 0.5}}) == 20
    own = BASE["datasets"] | {"MUTAG": {"source": "tu", "node_attributes": True}}
    assert moved(datasets=own) == 12


def test_a_new_result_version_retrains_everything(monkeypatch):
    before = {arm["id"] for arm in plan_of()["arms"]}
    monkeypatch.setattr("ssma.study.plan.RESULT_VERSION", ssma.RESULT_VERSION + 1)
    assert before.isdisjoint({arm["id"] for arm in plan_of()["arms"]})


def test_an_empty_space_says_that_nothing_is_to_be_searched():
    assert {arm["trials"] for arm in plan_of(tune={"trials": 50, "space": {}})["arms"]} == {0}


def test_a_choice_per_split_is_made_on_every_split():
    plan = plan_of(tune={"selection": "per_split", "space": {"training.lr": [0.1, 0.01]}})
    assert {tuple(arm["tune_splits"]) for arm in plan["arms"]} == {tuple(range(10))}


def test_a_larger_search_continues_the_smaller_one():
    small, large = plan_of(tune=BASE["tune"] | {"trials": 3}), plan_of()
    pairs = list(zip(small["arms"], large["arms"], strict=True))
    assert all(a["search_id"] == b["search_id"] for a, b in pairs)
    assert any(a["id"] != b["id"] for a, b in pairs)


def test_ids_are_paths_that_lead_back():
    names = {
        "IMDB-BINARY": {"source": "tu", "features": "degree"},
        "PTC_MR": {"source": "tu"},
        "a.b_c": {"source": "tu", "name": "X"},
    }
    plan = plan_of(datasets=names, aggregators={"f-mean_1": {"class": "torch.nn.Identity"}},
                   ablations={"a": {"axes": {"aggregator": ["sum", "f-mean_1", "ssma"]}}})  # fmt: skip
    ids = [arm["id"] for arm in plan["arms"]]
    assert len(set(ids)) == 3 * 2 * 3
    assert all(re.fullmatch("[A-Za-z0-9.-]+", item) for item in ids)
    assert all(named_arm(plan, item)["id"] == item for item in ids)


def test_budget_and_width_exclude_each_other():
    width = {"w": {"axes": {"model.hidden_channels": [8, 16]}, "fixed": {"aggregator": "sum"}}}
    models = [arm["settings"]["model"] for arm in plan_of(ablations=width, tune={})["arms"]]
    assert {(m["budget"], m["hidden_channels"]) for m in models} == {(None, 8), (None, 16)}
    assert "budget and hidden_channels exclude each other" in errors_of(model={"budget": 10, "hidden_channels": 8})
    assert "give a budget or hidden_channels" in errors_of(model={"budget": None})
    odd = {"w": {"axes": {"model.hidden_channels": [10]}, "fixed": {"aggregator": "sum", "model.heads": 4}}}
    assert "gat needs a multiple of its 4 heads, got 10" in errors_of(ablations=odd, tune={})


def test_a_combination_that_cannot_be_names_its_ablations():
    """Of a study with many of them it is else to be looked for."""
    wide = {"axes": {"aggregator": ["sum"]}, "fixed": {"model.hidden_channels": 10, "model.heads": 4}}
    told = "gat needs a multiple of its 4 heads, got 10"
    both = {"one": wide, "fine": {"axes": {"aggregator": ["mean"]}}, "other": wide | {"layers": ["gat"]}}
    assert errors_of(ablations=both, tune={}) == (
        f"1 error in the study file:\n  - model.hidden_channels: {told} (in the ablations one, other)"
    )
    mixed = {"axes": {"ssma.kappa": [2, 3]}, "fixed": {"ssma.mixing": "sum", "ssma.normalisation": "log"}}
    assert errors_of(ablations=BASE["ablations"] | {"mixed": mixed}, tune={}).endswith(
        "with mixing 'sum'; leave it at 'geometric' (in the ablation mixed)"
    )
    everywhere = errors_of(ablations={"one": wide, "other": wide}, tune={})
    assert everywhere.endswith(told)


def test_all_that_is_wrong_in_itself_is_told_at_once():
    """An unknown option was told only where all keys and types of the file were right."""
    told = errors_of(layers="gcn", aggregators={"ssma": {"kapa": 3}}, title="\x1b[1m")
    assert told.startswith("3 errors in the study file:\n  - layers: expected a list, got 'gcn'\n")
    assert "\n  - aggregators.ssma.kapa: unknown setting; did you mean 'kappa'?" in told
    assert "\n  - title: holds '\\x1b'" in told


def test_settings_are_told_together_with_keys_and_types(tmp_path, monkeypatch):
    """They took a round of their own."""
    (tmp_path / "own.py").write_text("class Mine:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    changes = {
        "aggregators": {"mine": {"class": "own.Mine"}},
        "datasets": {"d": {"source": "tu", "fixed": {"readout": "sum"}}, "e": None},
        "ablations": {
            "a": {"axes": {"aggregator": ["sum", "mine", "smma"], "mine.p": ["x"]}, "fixed": {"model.dropout": "5%"}},
            "b": {"axes": {"ssma.kapa": [2, 3], "ssma.kappa": 2}, "fixed": {"model": {"heads": 2}}},
        },
        "tune": {"space": {"training.lr": [0, 0.1], "ssma.kappa": {"low": 2}, "mine.q": [1, 2]}},
    }
    first, *lines = errors_of(**changes).splitlines()
    assert first == "9 errors in the study file:"
    told = [line.removeprefix("  - ").partition("; ")[0] for line in lines]
    assert told == [
        "datasets.e: is empty",
        "ablations.b.axes.ssma.kappa: expected a list, got 2",
        "ablations.b.fixed: settings are written with a dot, such as model.heads",
        "tune.space.ssma.kappa.high: this key is required",
        "datasets.d.fixed.readout: unknown setting",
        "ablations.a.fixed.model.dropout: Input should be a valid number, unable to parse string as a number, got '5%'",
        "ablations.a.axes.aggregator: unknown aggregator 'smma'",
        "ablations.b.axes.ssma.kapa: unknown setting",
        "tune.space.training.lr: Input should be greater than 0, got 0",
    ]


def test_one_canonical_text_per_value():
    assert canonical_json(0.1 + 0.2) == canonical_json(0.3) == "0.3"
    assert canonical_json(1.0) == canonical_json(1) == "1"
    assert canonical_json({"b": (1, 2), "a": None}) == '{"a":null,"b":[1,2]}'
    assert canonical_json(1e-3) == canonical_json(0.001)
    assert canonical_json(True) == "true"
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))
    assert seed_from(1, "a") != seed_from("a", 1)
    assert len(digest({}, 16)) == 16


@pytest.mark.parametrize(
    ("axes", "fixed", "where"),
    [
        ({"aggregator": ["SSMA"]}, {}, "axes"),
        ({"aggregator": ["sum", "smma"], "ssma.kappa": [2, 3]}, {}, "axes"),
        ({"model.dropout": [0, 0.1]}, {"aggregator": "smma"}, "fixed"),
    ],
)
def test_an_unknown_aggregator_is_one_error(axes, fixed, where):
    name = fixed.get("aggregator") or axes["aggregator"][-1]
    first, *lines = errors_of(ablations={"a": {"axes": axes, "fixed": fixed}}, tune={}).splitlines()
    assert first == "1 error in the study file:"
    assert len(lines) == 1
    assert lines[0].startswith(f"  - ablations.a.{where}.aggregator: unknown aggregator '{name}'; ")


def test_all_errors_at_once_with_their_path():
    raw = {
        "study": "s",
        "datasets": {"a": {"source": "tu", "nam": "x"}, "b": {"source": "synthetic", "task": "foo"}},
        "layer": ["gcn"],
        "training": {"lrr": 1, "batch_size": 0},
        "ablations": {"k": {"axis": {}, "axes": {"ssma.kappa": [2]}}},
        "tune": {"space": {"training.lr": {"lo": 1, "high": 2}}},
    }
    with pytest.raises(StudyError) as error:
        parse_study(raw)
    for line in (
        "datasets.a.nam: unknown key; did you mean 'name'?",
        "datasets.b.task: Input should be",
        "layers: this key is required",
        "layer: unknown key; did you mean 'layers'?",
        "training.lrr: unknown key; did you mean 'lr'?",
        "training.batch_size: Input should be greater than 0, got 0",
        "ablations.k.axis: unknown key; did you mean 'axes'?",
        "tune.space.training.lr.lo: unknown key; did you mean 'low'? allowed: low, high, log",
    ):
        assert line in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": ["gcnn"]}, "layers: unknown layer 'gcnn'; did you mean 'gcn'?"),
        ({"ablations": {"a": {"axes": {"aggregator": ["sun"]}}}}, "ablations.a.axes.aggregator: unknown aggregator 'sun'; did you mean 'sum'?"),
        ({"ablations": {"a": {"axes": {"ssma.kapa": [2]}}}}, "unknown setting; did you mean 'ssma.kappa'?"),
        ({"aggregators": {"ssma": {"ssma.kappa": 2}}}, "aggregators.ssma.ssma.kappa: unknown setting; did you mean 'kappa'? allowed: kappa, selection, "),
        ({"aggregators": {"sum": {"p": 2}}}, "aggregators.sum.p: unknown setting; allowed: none"),
        ({"ablations": {"a": {"axes": {"ssma.kappa": [2, "many"]}}}}, "got 'many'"),
        ({"ablations": {"a": {"axes": {"ssma.kappa": [0]}}}}, "ablations.a.axes.ssma.kappa: Input should be greater than 0, got 0"),
        ({"ablations": {"a": {"axes": {"ssma.kappa": [2]}, "datasets": ["MUTAG", "MUTAG"]}}}, "ablations.a.datasets: names 'MUTAG' twice; leave one out"),
        ({"ablations": {"a": {"axes": {"aggregator": ["sum", "ssma", "sum"]}}}}, 'ablations.a.axes.aggregator: names "sum" twice; leave one out'),
        ({"ablations": {"a": {"axes": {"ssma.kappa": [2, 3.0, "3"]}}}}, "ablations.a.axes.ssma.kappa: names 3 twice; leave one out"),
        ({"tune": {"space": {"training.lr": [0.1, "1e-1"]}}}, "tune.space.training.lr: names 0.1 twice; leave one out"),
        ({"tune": {"trials": 50}}, "tune.trials: nothing is searched; give tune.space, or leave it out"),
        ({"layers": ["gcn", "gcn"]}, "layers: names 'gcn' twice; leave one out, got ['gcn', 'gcn']"),
        ({"ablations": {"a": {"axes": {"ssma.kappa": [2]}, "datasets": ["MUTG"]}}}, "'MUTG' is not in this study; did you mean 'MUTAG'?"),
        ({"ablations": {"a": {"axes": {"model.dropout": [0.1]}}}}, "ablations.a: which aggregator?"),
        ({"ablations": {"a": {"axes": {"aggregator": ["sum"]}, "fixed": {"ssma.kappa": 2}}}}, "settings of 'ssma' never apply"),
        ({"ablations": {"a": {"axes": {"aggregator": ["sum"]}}}}, "tune.space.ssma.kappa: no arm searches it"),
        ({"tune": {"space": {"model.budget": [1, 2]}}}, "tune.space.model.budget: cannot be tuned"),
        ({"tune": {"space": {"training.lr": {"low": 1, "high": 0.5}}}}, "low must be below high"),
        ({"tune": {"space": {"training.lr": {"low": 0, "high": 0.5, "log": True}}}}, "tune.space.training.lr: Input should be greater than 0, got 0"),
        ({"tune": {"space": {"model.residual": {"low": 0, "high": 1}}}}, "tune.space.model.residual: is true or false and has no range"),
        ({"tune": {"selection": "per_split", "splits": 2}}, "tune.splits: must be left out"),
        ({"aggregators": {"mine": {"p": 1}}}, "aggregators.mine: unknown aggregator"),
        ({"aggregators": {"mine": {"class": "MyAggregation"}}}, "aggregators.mine.class: got 'MyAggregation', expected the dotted path"),
        ({"aggregators": {"mine": {"class": ""}}}, "aggregators.mine.class: got '', expected the dotted path of a class"),
        ({"aggregators": {"ssma": {"kapa": 1}}}, "aggregators.ssma.kapa: unknown setting"),
        ({"aggregators": {"a b": {"class": "json.JSONDecoder"}}}, "aggregators.a b: a name has letters, digits, '_', '-' and '.' and begins with a letter or a digit, here without '.'"),
        ({"aggregators": {"_a": {"class": "json.JSONDecoder"}}}, "aggregators._a: a name has letters, digits, '_', '-' and '.' and begins with a letter or a digit, here"),
        ({"aggregators": {"model": {"class": "json.JSONDecoder"}}}, "aggregators.model: a name has letters, digits, '_', '-' and '.' and begins with a letter or a digit, here without '.', and is none of model, training, data, splits"),
        ({"aggregators": {"data": {"class": "json.JSONDecoder"}}}, "aggregators.data: a name has letters, digits, '_', '-' and '.' and begins with a letter or a digit, here without '.', and is none of model, training, data, splits"),
        ({"ablations": {"_a": BASE["ablations"]["kappa"]}}, "ablations._a: a name has letters, digits, '_', '-' and '.' and begins with a letter or a digit"),
        ({"study": "my study"}, "study: a name has letters, digits, '_', '-' and '.' and begins with a letter or a digit, got 'my study'"),
        ({"datasets": {"n": {"source": "synthetic", "task": "node_classification", "num_graphs": 3}}}, "must be left out: the task is one graph"),
        ({"datasets": {"n": {"source": "synthetic", "task": "multilabel"}}}, "datasets.n.num_graphs: this key is required"),
        ({"datasets": {"n": {"source": "tu", "fixed": {"aggregator": "sum"}}}}, "datasets.n.fixed.aggregator: name it in an ablation's"),
        ({"datasets": {"n/m": {"source": "tu"}}}, "datasets.n/m: a name has letters"),
        ({"splits": {"folds": 3, "use": 4}}, "splits.use: got 4, allowed is at most 3, the number of folds"),
        ({"tune": {"splits": 11}}, "tune.splits: got 11, but MUTAG has 10 splits"),
        ({"ablations": {"a": {"axes": {"aggregator": [["sum"]]}}}}, "unknown aggregator ['sum']"),
        ({"ablations": {"a": {"axes": {"ssma.kappa": [True]}}}}, "ablations.a.axes.ssma.kappa: Input should not be true or false, got True"),
        ({"seed": True}, "seed: Input should not be true or false"),
        ({"splits": {"seed": -1}}, "splits.seed: Input should be greater than or equal to 0"),
        ({"tune": {"trials": 10**20}}, "tune.trials: Input should be less than 9007199254740992, got 1" + "0" * 20),
        ({"training": {"lr": 1e-7}, "tune": {}}, "training.lr: 1e-07 is below training.min_lr (1e-06)"),
        ({"tune": {"space": {"training.lr": [0.1, 1e-7]}}}, "training.lr: 1e-07 is below training.min_lr"),
        ({"tune": {"space": {"model.heads": [3, 8], "ssma.kappa": [2, 3]}}, "model": {"hidden_channels": 16}}, "gat needs a multiple of its 3 heads, got 16"),
        ({"datasets": {"a_b": {"source": "tu"}, "a-b": {"source": "tu"}}}, "datasets.a_b: differs from another name in punctuation or case only"),
        ({"ablations": {"Width": BASE["ablations"]["kappa"], "width": BASE["ablations"]["kappa"]}}, "ablations.width: differs from another name in punctuation or case only"),
        ({"ablations": {"A_b": BASE["ablations"]["kappa"], "a-b": BASE["ablations"]["kappa"]}}, "ablations.A_b: differs from another name in punctuation or case only"),
        ({"ablations": {"theory-Mixing": BASE["ablations"]["kappa"]}}, "ablations.theory-Mixing: the report has a part of this name"),
        ({"ablations": {"a": BASE["ablations"]["kappa"], "a_sanity": BASE["ablations"]["kappa"]}}, "ablations.a_sanity: the report has a part of this name"),
        ({"ablations": {"arms": {"axes": {"ssma.kappa": [2]}}}}, "ablations.arms: the report has a part of this name"),
        ({"ablations": {"a": BASE["ablations"]["kappa"], "a-ranks": BASE["ablations"]["kappa"]}}, "ablations.a-ranks: the report has a part of this name"),
        ({"tune": {"space": {"training.lr": {"low": 0.1, "high": 0.1000000000001}}}}, "tune.space.training.lr: low must be below high, got 0.1 and 0.1000000000001"),
        ({"splits": {"folds": 10**9}}, "splits.folds: Input should be less than or equal to 10000, got 1000000000"),
        ({"datasets": {"d": {"source": "zinc"}}, "tune": {"splits": 3, "space": {"ssma.kappa": [1, 2]}}}, "tune.splits: got 3, but every data set has one split"),
        ({"datasets": {"d": {"source": "file", "path": "x" * 300}}}, f"datasets.d.path: {Path.cwd()}/{'x' * 300}: cannot be read (File name too long)"),
        ({"datasets": {"d": {"source": "folder", "path": "x" * 300}}}, f"datasets.d.path: {Path.cwd()}/{'x' * 300}: cannot be read (File name too long)"),
        *(
            ({"datasets": {"d": {"source": "pyg", "class": "json.JSONDecoder", "arguments": {"year": value}}}}, f"datasets.d.arguments.year: {told}\n")
            for value, told in (
                (float("nan"), "expected a finite number, got nan"),
                (["1e400"], "expected a finite number, got inf"),
                ([date(2024, 1, 2)], "expected numbers, texts, true, false, null, lists or tables of these, got datetime.date(2024, 1, 2)"),
            )
        ),
        *(
            ({"tune": {"storage": url, "space": {}}}, "tune.storage: got no URL, expected journal or postgresql://")
            for url in ("", "postgresql://[::1", "postgresql://host:port/database")
        ),
        ({"tune": {"space": {"mine.p": {"low": 1, "high": 10**30}}}}, "tune.space.mine.p.high: Input should be less than 9007199254740992, got 1"),
        ({"data": {"mirror": ""}}, "data.mirror: String should have at least 1 character, got ''"),
        ({"datasets": {"d": {"source": "tu", "name": ""}}}, "datasets.d.name: String should have at least 1 character"),
        ({"datasets": {"d": {"source": "folder", "path": ""}}}, "datasets.d.path: String should have at least 1 char"),
        ({"track": {"uri": "https://user:secret@[host"}}, "track.uri: is no address; expected one like sqlite:"),
        *(
            ({"track": {"uri": uri}}, "track.uri: is no address; expected one like sqlite:")
            for uri in (
                "", "https://host:port", "postgresql://host:port/runs", "mlruns", "file:///runs", "localhost:5000", "http//host:5000", "sqlite://runs.db", "sqlite:///",
                "sqlite:///:memory:", "sqlite+pysqlite://runs.db", "sqlite+aiosqlite:///runs.db", "https:///runs",
                "http://localhost:5000/#/experiments/1", "https://host/#/",
            )
        ),
        ({"report": {"missing": "ignore"}}, "report.missing: Input should be 'not_testable', 'drop' or 'worst', got 'ignore'"),
        ({"report": {"rope": {"loss": 1}}}, "report.rope.loss: Input should be 'accuracy', 'f1', 'ap', 'auroc', 'mae' or 'rmse', got 'loss'"),
        ({"report": {"rope": {"mae": -1}}}, "report.rope.mae: Input should be greater than or equal to 0, got -1"),
        ({"aggregators": {"mine": {"class": "json.JSONDecoder", "p": float("nan")}}}, "aggregators.mine.p: expected a finite number, got nan"),
        *(
            ({"aggregators": {"mine": {"class": "json.JSONDecoder", "p": value}}}, f"aggregators.mine.p: expected a whole number nearer to 0 than 2^53, or one in quotes, got {told}\n")
            for value, told in ((2**53, 2**53), ([1, -(2**70)], -(2**70)))
        ),
        ({"title": "\x1b[31mred"}, "title: holds '\\x1b', which no page or figure can show; leave it out, got '\\x1b[31mred'\n"),
        ({"aggregators": {"mine": {"class": "json.JSONDecoder", "p": {"\0": 1}}}}, "aggregators.mine.p.\\x00: holds '\\x00', which no page or figure can show"),
        ({"aggregators": {"mine": {"class": "json.JSONDecoder"}}, "ablations": {"a": {"axes": {"mine": [1]}}}}, "ablations.a.axes.mine: unknown setting; "),
        ({"aggregators": {"mine": {"class": "json.JSONDecoder"}}, "tune": {"space": {"mine.p": [0, 1, "1", True]}}}, "tune.space.mine.p: 1 and true are one value to Optuna"),
        ({"aggregators": {"mine": {"class": "json.JSONDecoder"}}, "tune": {"space": {"mine.p": [0, 1, True, False]}}}, "tune.space.mine.p: 0 and false are one value to Optuna"),
        ({"aggregators": {"mine": {"class": "json.JSONDecoder", "p": [date(2024, 1, 2)]}}}, "aggregators.mine.p: expected numbers, texts,"),
    ],
)  # fmt: skip
def test_wrong_inputs_are_named(changes, message):
    assert message in errors_of(**changes) + "\n"


NODES = {"n": {"source": "synthetic", "task": "node_classification"}}
PART = {"n": {"source": "ogbn", "name": "ogbn-arxiv", "parts": 1}}
TYPED = {"t": {"source": "synthetic", "task": "typed_classification", "num_graphs": 30}}
IDLE_AXES = [
    (NODES, ["gcn"], {"training.batch_size": [1, 2]}),
    (NODES, ["gcn"], {"model.readout": ["sum", "mean"]}),
    (PART, ["gcn"], {"training.batch_size": [1, 2]}),
    (PART, ["gat"], {"model.edge_features": [True, False]}),
    ({"made": BASE["datasets"]["made"]}, ["gat", "gine"], {"model.edge_features": [True, False]}),
    (TYPED, ["gcn", "gin"], {"model.edge_features": [True, False]}),
    (TYPED, ["gcn"], {"model.heads": [2, 4]}),
]


@pytest.mark.parametrize(("datasets", "layers", "axis"), IDLE_AXES)
def test_an_axis_along_which_nothing_changes_is_refused(datasets, layers, axis):
    (key,) = axis
    ablations = {"a": {"axes": {"aggregator": ["sum", "ssma"], **axis}}}
    message = errors_of(datasets=datasets, layers=layers, ablations=ablations, tune={})
    assert message.splitlines()[1:] == [
        f"  - ablations.a.axes.{key}: has no effect with any data set, layer and setting of this ablation, so that its "
        "arms would all be the same; leave it out"
    ]


@pytest.mark.parametrize(
    ("datasets", "layers", "axis", "arms"),
    [
        (NODES | TYPED, ["gcn"], {"training.batch_size": [1, 2]}, 1 + 2),
        ({"n": PART["n"] | {"parts": 2}}, ["gcn"], {"training.batch_size": [1, 2]}, 2),
        (TYPED, ["gcn", "gat"], {"model.edge_features": [True, False]}, 1 + 2),
        (TYPED, ["gcn"], {"model.heads": [2]}, 1),
    ],
)
def test_an_axis_that_acts_somewhere_is_taken(datasets, layers, axis, arms):
    ablations = {"a": {"axes": axis, "fixed": {"aggregator": "sum"}}}
    assert len(plan_of(datasets=datasets, layers=layers, ablations=ablations, tune={})["arms"]) == arms


@pytest.mark.parametrize(("device", "variable"), [("cuda:1", "=1 "), ("gpu:12", "=12 "), ("cuda0", "=0 ")])
def test_a_numbered_gpu_is_told_how_to_be_chosen(device, variable):
    told = errors_of(device=device)
    assert told.startswith("1 error in the study file:\n  - device: expected 'auto', 'cpu' or 'cuda', got ")
    assert told.count(repr(device)) == 1 and f"start the study with CUDA_VISIBLE_DEVICES{variable}" in told


@pytest.mark.parametrize("device", ["mps", "gpu", 0, ["cuda:0"]])
def test_another_device_is_told_what_is_allowed(device):
    assert errors_of(device=device).endswith(f"device: Input should be 'auto', 'cpu' or 'cuda', got {device!r}")


TABLES = ("model", "training", "splits", "tune", "evaluate", "report", "data", "track", "theory", "aggregators")


REQUIRED = ("datasets", "layers", "ablations", "study")


@pytest.mark.parametrize("key", [*TABLES, *REQUIRED, "seed", "device", "title"])
def test_an_empty_section_is_named_without_pythons_words(key):
    told = f"1 error in the study file:\n  - {key}: is empty; fill it in"
    assert errors_of(**{key: None}) == told + ("" if key in REQUIRED else ", or leave it out to have its default")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ablations": {"a": None}}, "ablations.a: is empty; fill it in, or leave it out"),
        ({"ablations": {"a": {"axes": None}}}, "ablations.a.axes: is empty; fill it in"),
        ({"ablations": {"a": {"axes": {"aggregator": None}}}}, "ablations.a.axes.aggregator: is empty; fill it in, or leave it out"),
        ({"datasets": {"a": None}}, "datasets.a: is empty; fill it in, or leave it out"),
        ({"datasets": {"a": {"source": "lrgb", "name": None}}}, "datasets.a.name: is empty; fill it in"),
        ({"tune": {"space": {"training.lr": None}}}, "tune.space.training.lr: is empty; fill it in, or leave it out"),
        ({"layers": ["gcn", None]}, "layers.1: is empty; fill it in, or leave it out"),
        ({"lr": 0.1}, "lr: unknown key; 'lr' belongs into 'training'; allowed: study, title, "),
        ({"model.num_layers": 3}, "model.num_layers: unknown key; 'num_layers' belongs into 'model'; allowed: study, "),
        ({"model": {"lr": 0.1}}, "model.lr: unknown key; 'lr' belongs into 'training'; allowed: num_layers, "),
        ({"model": {"layers": 3}}, "model.layers: unknown key; did you mean 'num_layers'? allowed: num_layers, "),
        ({"datasets": {"a": {"source": "tu", "folds": 5}}}, "datasets.a.folds: unknown key; 'folds' belongs into 'splits'; allowed: fixed, "),
        ({"ablations": {"a": {"axes": {"aggregator": ["sum"]}, "tune": {}}}}, "ablations.a.tune: unknown key; 'tune' stands at the top of a study, for all that is in it; allowed: title, "),
        ({"datasets": {"ogbn-arxiv": {"source": "ogbn"}}}, "datasets.ogbn-arxiv.name: this key is required; allowed: ogbn-arxiv, ogbn-products"),
        ({"datasets": {"a": {"sources": "tu", "name": "X"}}}, "datasets.a.source: this key is required; allowed: synthetic, tu, zinc, lrgb, ogbg, ogbn, folder, file, pyg; got sources, name"),
        ({"datasets": {"a": {"source": "tu", "fixed": {"model": {"readout": "sum"}}}}}, "datasets.a.fixed: settings are written with a dot, such as model.readout"),
        ({"model": {"residual": "maybe"}}, "model.residual: expected true or false, got 'maybe'"),
        ({"ablations": {"a": {"axes": {"ssma.learn_affine": [True, "both"]}}}}, "ablations.a.axes.ssma.learn_affine: expected true or false, got 'both'"),
        ({"protocol": "none"}, "protocol: Input should be 'paper' or 'fair', got 'none'; leave it out to have its default"),
        ({"splits": {"use": "all"}}, "splits.use: Input should be a valid integer, unable to parse string as an integer, got 'all'; leave it out to have its default"),
        ({"training": {"max_minutes": False}}, "training.max_minutes: Input should not be true or false, got False; leave it out to have its default"),
        ({"theory": {"growth": None}}, "theory.growth: is empty; write {} to run it with its defaults, or leave it out"),
        ({"layers": []}, "layers: expected at least 1 entry, got []"),
        ({"datasets": {"a": {"source": "ogb"}}}, "datasets.a.source: unknown source 'ogb'; did you mean 'ogbn'? allowed: synthetic, tu,"),
        ({"datasets": {"a": {"name": "MUTAG"}}}, "datasets.a.source: this key is required; allowed: synthetic, tu,"),
        ({"tune": {"space": {"training": {"lr": [0.1, 1]}}}}, "tune.space: settings are written with a dot, such as training.lr"),
        ({"ablations": {"a": {"axes": {"ssma": {"kappa": [2]}}}}}, "ablations.a.axes: settings are written with a dot, such as ssma.kappa"),
        ({"layers": "gcn"}, "layers: expected a list, got 'gcn'"),
        ({"tune": {"space": {"training.lr": 0.1}}}, "tune.space.training.lr: expected a list of values, or a table of low and high, got 0.1"),
        ({"layers": [False]}, "layers.0: expected a text, in quotes where YAML reads it as something else, got False"),
        ({"model": ["budget"]}, "model: expected a table of keys, got ['budget']"),
        ({"ablations": {"a": {"axes": ["aggregator"]}}}, "ablations.a.axes: expected a table of keys, got ['aggregator']"),
    ],
)  # fmt: skip
def test_what_a_section_must_be_is_told_in_words_of_a_study_file(changes, message):
    found = errors_of(**changes).splitlines()
    assert len(found) == 2 and found[1].startswith(f"  - {message}")
    assert found[1].count("leave it out") < 2 and found[1].count("did you mean") + found[1].count("belongs into") < 2


def test_a_reader_that_has_enough_ends_no_command_with_an_error():
    command = f"{sys.executable} -m ssma plan studies/paper.yaml | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)


def test_what_is_wrong_with_a_range_is_told_of_a_range_alone():
    message = errors_of(tune={"space": {"model.dropout": {"low": 0, "high": 0.5, "step": 0.1}}})
    assert message == (
        "1 error in the study file:\n  - tune.space.model.dropout.step: unknown key; allowed: low, high, log"
    )


def test_a_password_of_a_tracking_server_is_neither_taken_nor_told():
    message = errors_of(track={"uri": "https://ann:geheim@mlflow.example.org"})
    assert message.startswith("1 error in the study file:\n  - track.uri: holds a password")
    assert "MLFLOW_TRACKING_PASSWORD" in message and "geheim" not in message
    for uri in (
        "https://mlflow.example.org:5000",
        "mysql+pymysql://ann@db/runs",
        "postgresql:///runs",
        "sqlite:///runs.db",
        "databricks",
    ):
        assert plan_of(track={"uri": uri})["config"]["track"]["uri"] == uri


def test_types_guessed_by_a_command_line_are_converted_or_refused():
    plan = plan_of(ablations={"a": {"axes": {"ssma.kappa": ["2", "4"], "ssma.learn_affine": ["False"]}}}, tune={})
    assert {(c["point"]["ssma.kappa"], c["point"]["ssma.learn_affine"]) for c in plan["ablations"]["a"]["cells"]} == {
        (2, False),
        (4, False),
    }
    own = {"mine": {"class": "json.JSONDecoder", "p": ["1e-3", {"q": "-2.E+1"}, "1e", "e1"]}}  # as YAML reads 1e-3
    plan = plan_of(aggregators=own, ablations={"a": {"axes": {"aggregator": ["mine"]}}}, tune={})
    assert plan["arms"][0]["settings"]["aggregator"]["p"] == [0.001, {"q": -20}, "1e", "e1"]
    with pytest.raises(
        StudyError, match="study: expected a text, in quotes where YAML reads it as something else, got 12"
    ):
        parse_study(BASE | {"study": 1_2})


@pytest.mark.parametrize("values", [(2, 3, 4), range(2, 5)])
def test_a_space_made_in_python_may_have_any_sequence_of_values(values):
    assert parse_study(BASE | {"tune": {"space": {"ssma.kappa": values}}}).tune.space == {"ssma.kappa": [2, 3, 4]}


def test_a_range_of_a_users_own_option_is_whole_where_its_ends_are():
    ranges = {"mine.p": {"low": 1, "high": 3}, "mine.q": {"low": 1, "high": 2.5}}
    mine = {
        "aggregators": {"mine": {"class": "json.JSONDecoder"}},
        "ablations": {"a": {"axes": {"aggregator": ["mine"]}}},
    }
    arm = plan_of(**mine, tune={"space": ranges})["arms"][0]
    assert [arm["space"][key]["kind"] for key in ranges] == ["int", "float"]


def test_numbers_and_texts_have_labels_of_their_own():
    values = [1, "1", True, "True", "plain", "a b=c"]
    ablations = {f"a{number}": {"axes": {"mine.p": [value]}} for number, value in enumerate(values)}
    ablations["together"] = {"axes": {"mine.p": values}}
    plan = plan_of(aggregators={"mine": {"class": "json.JSONDecoder"}}, layers=["gcn"], ablations=ablations, tune={})
    labels = [arm["label"].partition(" / mine ")[2] for arm in plan["arms"] if arm["dataset"] == "MUTAG"]
    assert labels == ["(p=1)", '(p="1")', "(p=yes)", '(p="True")', "(p=plain)", '(p="a b=c")']


def test_an_option_that_is_called_as_a_setting_of_the_network_has_a_label_of_its_own():
    ablations = {
        "own": {"axes": {"mine.dropout": [0.5], "mine.p": [2]}},
        "network": {"axes": {"model.dropout": [0.5]}, "fixed": {"aggregator": "mine"}},
    }
    own = {"mine": {"class": "json.JSONDecoder"}}
    plan = plan_of(aggregators=own, ablations=ablations, tune={}, datasets={"d": {"source": "tu"}}, layers=["gcn"])
    shown = [arm["label"].removeprefix("d / gcn / mine ") for arm in plan["arms"]]
    assert shown == ["(mine.dropout=0.5 p=2)", "(dropout=0.5)"]
    points = [cell["point"] for ablation in plan["ablations"].values() for cell in ablation["cells"]]
    assert [point_text(point) for point in points] == ["mine.dropout=0.5, p=2", "dropout=0.5"]
    named = [setting(key) for key in ("mine.dropout", "model.dropout", "mine.p", "ssma.slots_from", "aggregator")]
    assert named == ["mine.dropout", "dropout", "mine.p", "slots from", "aggregator"]


def test_a_users_own_aggregator_is_part_of_the_id(tmp_path, monkeypatch):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    source = tmp_path / "pkg" / "module.py"
    source.write_text("class Mine: pass\n")
    monkeypatch.syspath_prepend(tmp_path)

    def ids(**options):
        mine = {"mine": {"class": "pkg.module.Mine", **options}}
        plan = plan_of(aggregators=mine, ablations={"a": {"axes": {"aggregator": ["mine"]}}}, tune={})
        return plan["arms"][0]["class"], plan["arms"][0]["id"], plan["arms"][0]["settings"]["aggregator"]

    assert ids(p=2)[0] == "pkg.module.Mine"
    assert ids(p=2)[1] != ids(p=3)[1]
    assert ids(p=2)[2] == {"p": 2}
    before = ids(p=2)[1]
    source.write_text("class Mine: pass  # a comment\n")
    assert ids(p=2)[1] == before
    source.write_text("class Mine: x = 1\n")
    assert ids(p=2)[1] != before
    source.write_text("class Others: pass\n")
    assert "no class 'Mine' in" in errors_of(aggregators={"mine": {"class": "pkg.module.Mine"}})
    source.write_text("class Mine: pass\nclass Others:\n")
    message = "aggregators.mine.class: the module of pkg.module.Mine is no Python: expected an indented block after "
    assert f"{message}class definition on line 2 (module.py, line 2)" in errors_of(
        aggregators={"mine": {"class": "pkg.module.Mine"}}
    )
    source.write_bytes(b"\xef\xbb\xbfclass Mine: pass\r\n")
    assert ids(p=2)[1] == before, "a byte order mark says nothing"
    source.write_bytes(b"# -*- coding: latin-1 -*-\nclass Mine: name = '\xe9'\n")
    assert ids(p=2)[1] != before
    source.write_text("try:\n    from pkg.torch import Mine\nexcept ImportError:\n    class Mine: pass\n")
    assert ids(p=2)[1] != before, "as ogb has its classes"
    source.write_text("def late():\n    from pkg.torch import Mine\n")
    assert "no class 'Mine' in" in errors_of(aggregators={"mine": {"class": "pkg.module.Mine"}})
    message = (
        "aggregators.mine.class: no module 'nowhere' on Python's path; set PYTHONPATH to the folder that it lies in"
    )
    assert message in errors_of(aggregators={"mine": {"class": "nowhere.Mine"}})
    message = f"aggregators.mine.class: no module 'modul' in {source.parent}"
    assert message in errors_of(aggregators={"mine": {"class": "pkg.modul.Mine"}})
    message = f"aggregators.mine.class: no package 'pkg.module': {source} is a module without others in it"
    assert message in errors_of(aggregators={"mine": {"class": "pkg.module.json.JSONDecoder"}})
    message = "aggregators.mine.class: got './mine.py', expected the dotted path of a class, package.module.Class"
    assert message in errors_of(aggregators={"mine": {"class": "./mine.py"}})


def test_what_is_allowed_is_said_and_what_may_be_meant():
    assert did_you_mean("mixing", []) == "allowed: none"
    assert did_you_mean("GCN", ["gat", "gcn"]) == "did you mean 'gcn'? allowed: gat, gcn"
    assert (
        did_you_mean("lr", ["aggregator", "training.lr"])
        == "did you mean 'training.lr'? allowed: aggregator, training.lr"
    )
    assert did_you_mean("resnet", ["gat", "gcn"]) == "allowed: gat, gcn"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("training.learning_rate", "training.lr"),
        ("model.lr", "training.lr"),
        ("model.lrr", "training.lr"),
        ("wd", "training.weight_decay"),
        ("training.epochs", "training.max_epochs"),
        ("model.Depth", "model.num_layers"),
        ("model.pooling", "model.readout"),
        ("ssma.kapa", "ssma.kappa"),
        ("add", "sum"),
        ("prod", "mul"),
        ("model.optimizer", None),
    ],
)
def test_a_setting_is_meant_by_its_name_elsewhere_or_in_another_group(word, meant):
    """A group's name in common makes no two settings alike, and lr has few letters."""
    model = ("num_layers", "budget", "towers", "dropout", "readout", "residual")
    training = ("lr", "weight_decay", "max_epochs", "min_lr")
    known = ["sum", "mul", "ssma.kappa", *(f"model.{key}" for key in model), *(f"training.{key}" for key in training)]
    assert did_you_mean(word, known).partition("allowed")[0] == (f"did you mean '{meant}'? " if meant else "")


SUM = """
class Sum:
    def __init__(self, in_channels, heads=1, gain=1.0, *, shift=0.0):
        pass

class Any(Sum):
    def __init__(self, **options):
        pass

class Inherited(Sum):
    pass

@wrapped
class Wrapped:
    def __init__(self, in_channels, heads):
        pass

class NoHeads:
    def __init__(self, in_channels, gain=1.0):
        pass

class Scaled:
    def __init__(self, in_channels, heads, degrees, gain=1.0):
        pass
"""


def test_an_option_that_a_users_class_does_not_have_is_refused_without_importing_it(tmp_path, monkeypatch):
    (tmp_path / "own_sums.py").write_text(SUM)
    monkeypatch.syspath_prepend(tmp_path)

    def mine(kind, **options):
        return {"aggregators": {"mine": {"class": f"own_sums.{kind}", **options}}}

    told = "its class has no such option; did you mean 'gain'? allowed: gain, shift"
    assert f"aggregators.mine.gian: {told}" in errors_of(**mine("Sum", gian=2))
    axes = {"ablations": {"a": {"axes": {"mine.gian": [1, 2]}}}}
    assert f"ablations.a.axes.mine.gian: {told}" in errors_of(**mine("Sum"), **axes)
    assert f"tune.space.mine.gian: {told}" in errors_of(**mine("Sum"), tune={"space": {"mine.gian": [1, 2]}})
    message = "aggregators.mine.class: NoHeads.__init__ must take heads, or any keyword"
    assert message in errors_of(**mine("NoHeads", gain=2))
    assert "mine.degrees: its class has no such option; allowed: gain" in errors_of(**mine("Scaled", degrees=[1]))
    plan_of(**mine("Scaled", gain=2))
    plan_of(**mine("Sum", gain=2, shift=1))
    for kind in ("Any", "Inherited", "Wrapped"):
        plan_of(**mine(kind, gian=2))


CALLED = """
class Short:
    def forward(self, x, index):
        pass

class Target:
    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2, *, x_i, edge_attr=None):
        pass

class Whole:
    def forward(self, messages, /, index, ptr=None, dim_size=None, dim=-2, max_num_elements=None):
        pass

class Some:
    def forward(self, x, index=None, **others):
        pass

class Named:
    def forward(self, *x, index, ptr, dim_size, dim):
        pass

class Unnamed:
    def forward(self, x, index, /, ptr=None, dim_size=None, dim=-2):
        pass

class Given:
    def __init__(self, in_channels, heads, /):
        pass
"""


def test_a_forward_that_is_called_otherwise_is_refused_without_importing_it(tmp_path, monkeypatch):
    (tmp_path / "called_sums.py").write_text(CALLED)
    monkeypatch.syspath_prepend(tmp_path)

    def mine(kind):
        return {"aggregators": {"mine": {"class": f"called_sums.{kind}"}}}

    told = "aggregators.mine.class: "
    assert told + "Short.forward must take ptr and dim_size and dim, or any keyword" in errors_of(**mine("Short"))
    assert told + "Unnamed.forward must take index, or any keyword" in errors_of(**mine("Unnamed"))
    assert told + "Given.__init__ must take in_channels and heads, or any keyword" in errors_of(**mine("Given"))
    found = errors_of(**mine("Target"))
    assert told + "Target.forward needs x_i, but is given the layer's messages alone" in found
    for kind in ("Whole", "Some", "Named"):
        plan_of(**mine(kind))


NEEDY = """
class Needy:
    def __init__(self, in_channels, heads, gain, limit=2, *, shift):
        pass
"""


@pytest.mark.parametrize("option", ["in_channels", "heads", "self", "class"])
def test_what_no_class_can_be_given_is_refused_where_it_takes_any_keyword(option):
    """An axis of classes would train one class under the names of all."""
    own = {"aggregators": {"mine": {"class": "json.JSONDecoder"}}}
    told = "is no option, as in_channels, heads, self, class; name another class in aggregators"
    message = errors_of(**own, ablations={"a": {"axes": {f"mine.{option}": [1, 2]}}})
    assert f"ablations.a.axes.mine.{option}: {told}" in message


def test_an_option_without_a_default_has_to_be_given(tmp_path, monkeypatch):
    (tmp_path / "needy_sums.py").write_text(NEEDY)
    monkeypatch.syspath_prepend(tmp_path)

    def mine(axes, space=(), **options):
        own = {"mine": {"class": "needy_sums.Needy", **options}}
        return {"aggregators": own, "ablations": {"a": {"axes": axes}}, "tune": {"space": dict(space)}}

    told = "aggregators.mine: its class needs '{}', which has no default"
    found = errors_of(**mine({"aggregator": ["sum", "mine"]}))
    assert told.format("gain") in found and told.format("shift") in found and "'limit'" not in found
    found = errors_of(**mine({"mine.gain": [1, 2]}))
    assert told.format("shift") in found and "'gain'" not in found
    plan_of(**mine({"aggregator": ["sum", "mine"]}, gain=None, shift=1))
    plan_of(**mine({"mine.gain": [1, 2]}, shift=1))
    plan_of(**mine({"mine.limit": [1, 2]}, {"mine.gain": [1, 2]}, shift=1))
    plan_of(**mine({"aggregator": ["sum", "ssma"]}))


def test_a_class_of_an_editable_installation_is_found_where_its_finder_says(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub"):
        (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "sub" / "own.py").write_text("class Mine: pass\n")

    class Finder:  # as setuptools installs one for a package that lies in the root of its repository
        @staticmethod
        def find_spec(name, path=None, target=None):
            return spec_from_file_location(name, tmp_path / "__init__.py") if name == "installed_so" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    (tmp_path / "own.py").write_text("class Mine: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert class_fingerprint("installed_so.sub.own.Mine") == class_fingerprint("own.Mine")


@pytest.mark.parametrize(
    "line",
    [
        "from .own import Mine",
        "from hands_on.own import Mine",
        "from .own import Other, Mine as Mine",
        "from .own import Inner as Mine",
        "from .own import *",
        "from . import own\nfrom .between import Mine",
        "try:\n    from .fast import Mine\nexcept ImportError:\n    from .own import Mine",
        "from .between import Mine  # which imports it from here\nfrom .own import Mine",
    ],
)
def test_a_class_that_a_package_hands_on_is_known_by_the_file_that_defines_it(tmp_path, monkeypatch, line):
    package = tmp_path / "hands_on"
    package.mkdir()
    (package / "between.py").write_text("from . import Mine\n" if "here" in line else "from .own import Mine\n")
    (package / "own.py").write_text("class Mine:\n    p = 1\nclass Inner(Mine): pass\nclass Other: pass\n")
    (package / "__init__.py").write_text(f"{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = class_fingerprint("hands_on.Mine")
    assert before == class_fingerprint("hands_on.own.Mine")
    (package / "__init__.py").write_text(f"{line}\nfrom .own import Other as More\n")
    assert class_fingerprint("hands_on.Mine") == before
    (package / "own.py").write_text("class Mine:\n    p = 2\nclass Inner(Mine): pass\nclass Other: pass\n")
    assert class_fingerprint("hands_on.Mine") != before


def test_a_class_in_a_zip_archive_is_refused_in_one_sentence(tmp_path, monkeypatch):
    with ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("zipped_so.py", "class Mine: pass\n")
    monkeypatch.syspath_prepend(tmp_path / "all.zip")
    told = f"the module of zipped_so.Mine cannot be read: {tmp_path}/all.zip/zipped_so.py (Not a directory)"
    assert told in errors_of(aggregators={"mine": {"class": "zipped_so.Mine"}})


def test_the_schema_in_the_repository_is_that_of_the_typed_config():
    stored = json.loads((ROOT / "workflow/schemas/study.schema.json").read_text())
    assert stored == Study.model_json_schema(), "run: ssma schema > workflow/schemas/study.schema.json"
    bounds = stored["$defs"]["Tune"]["properties"]["trials"]  # in words of JSON Schema, for editors
    assert (bounds["exclusiveMinimum"], bounds["exclusiveMaximum"]) == (0, 2**53)


def test_every_study_in_the_repository_makes_a_plan():
    paths = [ROOT / "config.yaml", *sorted((ROOT / "studies").glob("*.yaml"))]
    assert len(paths) > 1
    for path in paths:
        assert make_plan(load_study(path))["arms"]


def test_a_plan_costs_what_its_arms_cost(tmp_path):
    cost = plan_cost(plan_of(), Results(tmp_path))
    assert cost.arms == 24
    assert cost.trials == 4 * (2 + 4) + 16 * 2
    assert cost.fits == cost.trials * 3 + 24 * 10
    assert cost.unknown == ()
    assert plan_cost(plan_of(datasets={"x": {"source": "tu"}}), Results(tmp_path)).unknown == ("x",)


def test_an_estimate_reads_the_card_of_a_data_set_once_for_all_its_arms(tmp_path, monkeypatch):
    plan, results, reads = plan_of(), Results(tmp_path), []
    before = plan_cost(plan, results)
    cards = [results.data(dataset["id"]) / "card.json" for dataset in plan["datasets"].values()]
    for path in cards:
        write_record(path, {"num_graphs": 100_000, "num_nodes": 3_000_000})
    monkeypatch.setattr("ssma.study.cost.read_record", lambda path: reads.append(path) or read_record(path))
    cost = plan_cost(plan, results)
    assert sorted(reads) == sorted(cards) and len(cards) < cost.arms == 24
    assert cost.seconds > 10 * before.seconds


def test_an_estimate_says_what_it_rests_on():
    fits, steps = "by fits of their data set, layer and aggregator", "by reference steps up to the epoch cap"
    for measured, told in ((0, steps), (2, f"2 of 3 {fits}, the others {steps}"), (3, fits)):
        cost = Cost(3, 4, 12, 72e6, measured, (), {}, 0, 1.0)
        assert describe(cost, 2) == f"3 arms, 4 trials, 12 fits\nabout 10,000 h in all on 2 cores ({told})"


def test_an_estimate_for_a_gpu_stands_beside_that_for_cores(tmp_path):
    """A layer of a step takes as long whatever the batch; each fit has 10 epochs of five steps through three layers."""
    study = {"training": {"max_epochs": 10, "batch_size": 32}, "model": {"num_layers": 3}, "tune": {}}
    study |= {"layers": ["gcn", "gat"], "ablations": {"a": {"axes": {"aggregator": ["sum", "ssma"]}}}}
    cost = plan_cost(plan_of(datasets={"MUTAG": {"source": "tu"}}, **study), Results(tmp_path))
    fits = 10 * 10 * 5 * 3 * (2.7e-3 + 1.2e-2) * (1 + 1.3)
    assert (cost.arms, cost.on_gpu) == (4, pytest.approx(fits + 4 * 3.5))
    told = f"the arms on one GPU instead: about {cost.on_gpu:.0f} s (by steps of an NVIDIA H200)"
    assert describe(cost, 2).splitlines()[2:] == [told]
    assert plan_cost(plan_of(device="cpu"), Results(tmp_path)).on_gpu is None
    graphs = {"mine": {"source": "pyg", "class": "torch_geometric.datasets.QM9"}}
    lines = describe(plan_cost(plan_of(datasets=graphs, **study), Results(tmp_path)), 2).splitlines()
    assert all(", not counting mine (size unknown until prepared) (" in line for line in lines[1:]) and len(lines) == 3


@pytest.mark.parametrize(
    ("label", "layer_seconds"),  # of a batch of 32 graphs with 17.9 nodes of width 64, times the factor of the layer
    [
        ("MUTAG / gcn / sum", 7.3e-4 + 2.2e-8 * 32 * 17.9 * 64),
        ("MUTAG / gat / sum", 1.2 * (7.3e-4 + 2.2e-8 * 32 * 17.9 * 64)),
        ("MUTAG / gcn / ssma (kappa=2 selection=random)", 1.1e-3 + 4.8e-7 * 6 / 20 * 32 * 17.9 * 64),
        ("MUTAG / gat / ssma (kappa=3 selection=random)", 1.2 * (1.1e-3 + 4.8e-7 * 12 / 20 * 32 * 17.9 * 64)),
    ],
)
def test_a_fit_costs_by_layer_aggregator_and_slots(tmp_path, label, layer_seconds):
    plan = plan_of(training={"max_epochs": 10, "batch_size": 32}, model={"num_layers": 3})
    arm = named_arm(plan, label)
    steps = round(188 * 0.8 / 32)  # of eight in ten folds
    mutag = plan["datasets"]["MUTAG"]
    cost = _reference(arm, mutag, _size(mutag, Results(tmp_path)))
    assert cost == pytest.approx(10 * steps * 3 * layer_seconds)


def test_thousands_of_arms_are_planned_in_seconds_and_without_torch():
    code = """
import sys, time
from ssma.study.config import parse_study
from ssma.study.plan import make_plan
from ssma.cli import main
start = time.perf_counter()
axes = {"ssma.kappa": list(range(1, 31)), "ssma.compression": [i / 50 for i in range(1, 51)]}
plan = make_plan(parse_study({"study": "s", "layers": ["gcn", "gin"], "datasets": {"a": {"source": "tu"}}, "ablations": {"k": {"axes": axes}}}))
print(len(plan["arms"]), time.perf_counter() - start < 10, sorted({"torch", "mlflow", "optuna", "pandas"} & set(sys.modules)))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "3000 True []"


def test_records_are_sealed(tmp_path):
    path = tmp_path / "a" / "record.json"
    record = write_record(path, {"kind": "x", "value": 0.1 + 0.2, "none": None})
    assert read_record(path) == record
    assert list(path.parent.iterdir()) == [path]
    path.write_text(path.read_text().replace("0.3", "0.4"))
    with pytest.raises(StudyError, match="changed after it was sealed"):
        read_record(path)
    path.write_text(path.read_text()[:20])
    with pytest.raises(StudyError, match="not a sealed record"):
        read_record(path)
    path.write_text('{"study": "mine"}')
    with pytest.raises(StudyError) as caught:
        read_record(path)
    assert str(caught.value).endswith("has no seal, so that it is none of the records that are written here")
    path.write_text('{"value": NaN, "seal": "x"}')
    with pytest.raises(StudyError, match="not a sealed record"):
        read_record(path)
    with pytest.raises(StudyError, match="cannot be read"):
        read_record(tmp_path / "nowhere.json")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_record(path, {"value": float("inf")})


@pytest.mark.parametrize("text", ["[1]", "null", '"x"', "[" * 100_000])
def test_a_file_that_is_no_table_is_no_record(tmp_path, text):
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(StudyError, match=r"record\.json: not a sealed record \((no table of keys|maximum recursion)"):
        read_record(path)


def test_a_record_that_was_copied_over_another_is_refused(tmp_path):
    """Numbers of one arm would else stand as those of another."""
    results = Results(tmp_path)
    arm, fit = {"kind": "chosen", "arm_id": "a"}, {"kind": "fit", "id": "aa1"}
    wrong = [
        (results.chosen("b"), arm, "the chosen of b"),
        (results.evaluation("a"), arm, "the evaluation of a"),
        (results.fit("aa2"), fit, "the fit of aa2"),
        (results.theory("growth-1"), {"kind": "theory", "id": "mixing-1"}, "the theory of growth-1"),
        (results.data("d") / "card.json", {"kind": "splits", "dataset": "d"}, "the card of d"),
        (results.data("d") / "splits.json", {"kind": "splits", "dataset": "e"}, "the splits of d"),
        (results.data("d") / "sanity.json", {"kind": "card", "dataset": "d"}, "the sanity of d"),
    ]
    for path, record, belongs in wrong:
        write_record(path, record)
        with pytest.raises(StudyError) as caught:
            read_record(path)
        assert str(caught.value) == f"{path}: holds another record than {belongs}; delete it to have it made again"
    for path, record in ((results.chosen("a"), arm), (results.fit("aa1"), fit)):
        write_record(path, record)
        assert read_record(path).items() >= record.items()


@pytest.mark.parametrize("name", ["arms", "data", "fits", "theory"])
def test_a_study_may_be_called_as_a_folder_of_results(tmp_path, name):
    results = Results(tmp_path / name)
    records = {
        results.plan: {"kind": "plan", "study": name},
        results.root / "split_sizes.json": {"kind": "split_sizes"},
        results.chosen("a"): {"kind": "chosen", "arm_id": "a"},
        results.data("d") / "card.json": {"kind": "card", "dataset": "d"},
        results.fit("aa1"): {"kind": "fit", "id": "aa1"},
        results.theory("mixing-1"): {"kind": "theory", "id": "mixing-1"},
    }
    for path, record in records.items():
        write_record(path, record)
        assert read_record(path).items() >= record.items()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_record_that_cannot_be_written_is_one_line_and_leaves_nothing_behind(tmp_path, monkeypatch, capsys, number):
    path = tmp_path / "record.json"
    record = write_record(path, {"value": 1})

    def refuse(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(StudyError) as caught:
        write_record(path, {"value": 2})
    assert str(caught.value) == f"{path}: cannot be written ({os.strerror(number)})"
    assert read_record(path) == record
    assert list(tmp_path.iterdir()) == [path]
    assert main(["plan", str(ROOT / "config.yaml"), "--write", str(path)]) == 2
    assert capsys.readouterr().err == f"ssma: {path}: cannot be written ({os.strerror(number)})\n"


def test_the_code_fingerprint_is_blind_to_comments_only(tmp_path, monkeypatch):
    package = tmp_path / "ssma"
    (package / "aggr").mkdir(parents=True)
    (package / "study").mkdir()
    source = package / "aggr" / "a.py"
    monkeypatch.setattr("ssma.study.ids.__file__", str(package / "study" / "ids.py"))

    def fingerprint(text):
        source.write_text(text)
        code_fingerprint.cache_clear()
        return code_fingerprint()

    first = fingerprint('"""Doc."""\nEPS = 1e-6  # small\n')
    assert fingerprint('"""Other."""\n\n# a comment\nEPS = 1e-6\n') == first
    assert fingerprint("EPS = 1e-5\n") != first
    code_fingerprint.cache_clear()


def test_an_arm_is_found_by_a_part_of_its_name():
    plan = plan_of()
    with pytest.raises(StudyError) as told:
        named_arm(plan, "ssma")
    arms = [arm for arm in plan["arms"] if arm["aggregator"] == "ssma"]
    first = f"give the id of one: {arms[0]['id']} ({arms[0]['label']}), "
    assert str(told.value).startswith(f"several arms have 'ssma' in id or label; {first}")
    with pytest.raises(StudyError, match="no arm has 'nothing'"):
        named_arm(plan, "nothing")
    label = "MUTAG / gcn / ssma"  # with which others begin
    assert sum(label in arm["label"] for arm in plan["arms"]) == 5
    assert named_arm(plan, label)["label"] == label


def test_a_class_is_the_same_to_every_python(tmp_path, monkeypatch):
    (tmp_path / "of_mine.py").write_text('"""Mine."""\nclass Mine(Base):\n    def forward(self):\n        return []\n')
    monkeypatch.syspath_prepend(tmp_path)
    forward = (
        "FunctionDef(name='forward', args=arguments(args=[arg(arg='self')]), body=[Return(value=List(ctx=Load()))])"
    )
    dumped = f"Module(body=[ClassDef(name='Mine', bases=[Name(id='Base', ctx=Load())], body=[{forward}])])"
    assert class_fingerprint("of_mine.Mine") == digest(
        dumped
    )  # as Python 3.13 dumps it; 3.11 and 3.12 have empty lists
