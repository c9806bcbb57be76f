"""Real, tiny fits on one graph that is cut into parts, from raw files in OGB's format to sealed records."""

import math

import pytest
import torch
from raw_sets import OGBN_NODES, OGBN_SIZES, write_ogbn

from ssma.cli import main
from ssma.data import ogbn
from ssma.data.parts import PartBatches
from ssma.data.prepare import load
from ssma.fit.metrics import evaluate
from ssma.fit.run import _batches
from ssma.layers.network import Network
from ssma.study.config import parse_study
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.records import read_record, write_record
from ssma.study.settings import LAYERS

STUDY = {
    "study": "s",
    "datasets": {"papers": {"source": "ogbn", "name": "ogbn-arxiv", "parts": 6}},
    "layers": list(LAYERS),
    "model": {"num_layers": 2, "budget": 9000, "dropout": 0.2},
    "training": {"max_epochs": 3, "batch_size": 4, "lr": 0.01},
    "track": {"enabled": False},
    "ablations": {
        "whole": {"axes": {"aggregator": ["ssma"]}, "layers": [layer for layer in LAYERS if layer != "gps"]},
        "parts": {"axes": {"training.keep_cut_edges": [True, False]},
                  "fixed": {"aggregator": "sum", "training.evaluation": "per_part"}, "layers": ["gcn", "gps"]},
        "walks": {"axes": {"model.positional_encoding": ["random_walk"]}, "layers": ["gin"],
                  "fixed": {"aggregator": "sum", "model.walk_steps": 3}},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A study whose data are prepared and whose arms have all been evaluated, by the command line."""
    folder = tmp_path_factory.mktemp("study")
    write_ogbn(folder / "mirror")
    plan = make_plan(parse_study(STUDY))
    write_record(folder / "plan.json", plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ogbn, "SIZES", {"ogbn-arxiv": OGBN_SIZES})
        patch.setenv("SSMA_DATA_MIRROR", str(folder / "mirror"))
        assert main(["prepare", str(folder / "plan.json"), "papers"]) == 0
    for arm in plan["arms"]:
        assert main(["evaluate", str(folder / "plan.json"), arm["id"]]) == 0
    return Results(folder), plan


def record_of(results, plan, layer, **settings):
    (arm,) = [
        arm
        for arm in plan["arms"]
        if arm["layer"] == layer and all(arm["settings"]["training"][key] == value for key, value in settings.items())
    ]
    (fit,) = read_record(results.evaluation(arm["id"]))["fits"]
    return read_record(results.fit(fit["id"]))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_fit_with_every_layer(results, layer):
    folder, plan = results
    for arm in (arm for arm in plan["arms"] if arm["layer"] == layer):
        (fit,) = read_record(folder.evaluation(arm["id"]))["fits"]
        record = read_record(folder.fit(fit["id"]))
        assert (record["status"], record["reason"], record["epochs"]) == ("ok", None, 3)
        assert record["parameters"] <= 9000
        for part, size in zip(("train", "validation", "test"), OGBN_SIZES, strict=True):
            assert math.isfinite(record[part]["loss"])
            assert record[part]["accuracy"] * size == pytest.approx(round(record[part]["accuracy"] * size))


def test_what_is_trained_and_evaluated_on(results):
    folder, plan = results
    prepared = load(folder.data(plan["datasets"]["papers"]["id"]))
    split = prepared.splits[0]
    edges = {}
    for keep in (True, False):
        settings = {"training": {"batch_size": 6, "keep_cut_edges": keep, "evaluation": "per_part"},
                    "model": {"positional_encoding": "none"}}  # fmt: skip
        train, parts = _batches(prepared, split, settings, torch.device("cpu"))
        edges[keep] = [next(iter(batches.epoch())).edge_index.size(1) for batches in (train, parts["validation"])]
        assert {name: sum(batch.y.numel() for batch in batches.epoch()) for name, batches in parts.items()} == dict(
            zip(("train", "validation", "test"), OGBN_SIZES, strict=True)
        )
    assert edges == {True: [84, 72], False: [72, 72]}  # 12 of the 84 edges are cut
    alone = settings | {"training": {"batch_size": 1, "evaluation": "per_part"}}  # as the plan has a batch of one part
    train, _ = _batches(prepared, split, alone, torch.device("cpu"))
    assert [batch.edge_index.size(1) for batch in train.epoch()] == [12] * 6
    settings["training"]["evaluation"] = "whole"
    _, parts = _batches(prepared, split, settings, torch.device("cpu"))
    (whole,) = parts["test"].epoch()
    assert (whole.x.size(0), whole.edge_index.size(1), whole.target.numel()) == (OGBN_NODES, 84, 8)


def test_edges_between_parts_change_the_numbers(results):
    folder, plan = results
    losses = [record_of(folder, plan, "gps", keep_cut_edges=keep)["history"]["train_loss"] for keep in (True, False)]
    assert losses[0] != losses[1]


@pytest.mark.parametrize("layer", [layer for layer in LAYERS if layer != "gps"])
def test_the_whole_graph_in_parts_of_one_is_one_forward_pass(results, layer):
    folder, plan = results
    prepared = load(folder.data(plan["datasets"]["papers"]["id"]))
    arm = next(arm for arm in plan["arms"] if arm["layer"] == layer)
    torch.manual_seed(0)
    network = Network(prepared.card, layer, "ssma", arm["settings"] | {"aggregator": {"kappa": 2}}, 40, None,
                      prepared.graphs.in_degrees().bincount())  # fmt: skip
    settings = {"training": {"batch_size": 6, "keep_cut_edges": True, "evaluation": "whole"},
                "model": {"positional_encoding": "none"}}  # fmt: skip
    _, parts = _batches(prepared, prepared.splits[0], settings, torch.device("cpu"))
    test = prepared.splits[0]["test"]
    plain = PartBatches(prepared.graphs, test, 6, True)  # all parts with all edges
    found = [evaluate(network, batches.epoch(), "cross_entropy", "accuracy") for batches in (parts["test"], plain)]
    assert found[0]["accuracy"] == found[1]["accuracy"]
    assert found[0]["loss"] == pytest.approx(found[1]["loss"], rel=1e-5)
