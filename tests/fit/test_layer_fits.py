"""Every layer in a real, tiny fit through a study's settings, with edge features and a positional encoding."""

import math

import pytest
import torch

from ssma.fit.run import run_fit
from ssma.fit.spec import fit_spec
from ssma.study.config import parse_study
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.settings import LAYERS


@pytest.fixture(scope="module")
def study():
    return make_plan(parse_study({
        "study": "s",
        "datasets": {"d": {"source": "synthetic", "task": "typed_classification", "num_graphs": 24, "num_nodes": 8}},
        "layers": list(LAYERS),
        "splits": {"folds": 3},
        "protocol": "paper",
        "model": {"num_layers": 1, "budget": 9000, "positional_encoding": "random_walk", "walk_steps": 4},
        "training": {"max_epochs": 3, "batch_size": 8, "lr": 0.01},
        "ablations": {"a": {"axes": {"aggregator": ["sum", "ssma"]}, "fixed": {"ssma.kappa": 2}}},
    }))  # fmt: skip


@pytest.mark.parametrize("aggregator", ["sum", "ssma"])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_fit_with_every_layer(study, prepared, tmp_path, layer, aggregator):
    arm = next(arm for arm in study["arms"] if (arm["layer"], arm["aggregator"]) == (layer, aggregator))
    spec = fit_spec(arm | {"dataset": "d"}, prepared.card, prepared.splits[0], 0, {}, 5)
    record = run_fit(Results(tmp_path), prepared, spec, torch.device("cpu"))
    assert (record["status"], record["reason"], record["epochs"]) == ("ok", None, 3)
    assert record["parameters"] <= 9000
    assert all(math.isfinite(value) for part in ("train", "validation", "test") for value in record[part].values())
    width = record["hidden_channels"]
    assert f"encoder.embeddings.0: Embedding(4, {width - 4})" in record["model"]
    assert "walk_norm: BatchNorm1d(4" in record["model"]
    assert ("edge_encoder" in record["model"]) == (layer not in ("gcn", "gin"))
    assert ("SSMAAggregation" in record["model"]) == (aggregator == "ssma")
