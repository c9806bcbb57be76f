"""What modules tell the record of a fit, and the numbers of a learned affine map."""

import math

import pytest
import torch
from torch import nn

from ssma.aggr import SSMAAggregation
from ssma.aggr.affine import compare_maps
from ssma.data.prepare import load, prepare
from ssma.fit.run import run_fit
from ssma.fit.spec import fit_spec
from ssma.fit.summaries import module_summaries
from ssma.fit.training import Training
from ssma.study.config import parse_study
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.records import read_record


def test_maps_are_compared_by_hand():
    """Two channels (one and the constant) of a 1 x 2 array: -1 and 1 are given, two entries move."""
    given = torch.tensor([[[-1.0, 0.0]], [[0.0, 1.0]]])
    learned = torch.tensor([[[-0.5, 0.0]], [[0.25, 1.0]]])
    found = compare_maps(given, learned)
    assert found["shape"] == [2, 1, 2]
    assert found["given"] == {"mean": 0.5, "std": 0.5, "largest": 1.0, "picture": [[0.5, 0.5]]}
    assert found["learned"]["mean"] == (0.5 + 0.25 + 1) / 4
    assert found["learned"]["picture"] == [[0.375, 0.5]]
    difference = found["difference"]
    assert (difference["mean"], difference["largest"]) == (0.75 / 4, 0.5)
    assert difference["std"] == pytest.approx(math.sqrt((0.25 + 0.0625) / 4 - (0.75 / 4) ** 2))
    assert difference["picture"] == [[0.375, 0.0]]


def test_a_picture_has_four_digits_and_only_so_many_entries():
    third = torch.full((1, 2, 1024), 1 / 3)
    assert compare_maps(third, third)["given"]["picture"][0][0] == 0.3333
    large = torch.zeros(1, 1, 2049)
    assert compare_maps(large, large)["given"]["picture"] is None


def test_the_given_map_of_the_paper_has_32_ones_in_11648_entries():
    found = SSMAAggregation(31, kappa=3, learn_affine=True).summary()["affine"]
    assert found["shape"] == [32, 4, 91]
    assert found["given"]["mean"] == found["learned"]["mean"] == pytest.approx(32 / 11648, rel=1e-12)
    assert found["difference"]["mean"] == found["difference"]["largest"] == 0


def test_a_learned_map_is_compared_and_a_constant_one_is_not():
    aggr = SSMAAggregation(2, kappa=1, learn_affine=True)  # two channels and the constant, 2 x 2 each
    with torch.no_grad():
        aggr.affine_weight[0, 0, 0] += 0.5  # from -1
        aggr.affine_bias[1, 1] -= 0.75
    found = aggr.summary()["affine"]
    assert found["difference"]["mean"] == 1.25 / 12
    assert found["learned"]["mean"] == (0.5 + 1 + 1 + 0.75) / 12
    assert found["difference"]["picture"] == [[round(0.5 / 3, 4), 0], [0, 0.25]]
    assert SSMAAggregation(2, kappa=1).summary() == {}


class Telling(nn.Module):
    def __init__(self, told):
        super().__init__()
        self.told = told

    def summary(self):
        return self.told


def test_summaries_go_by_the_modules_names():
    network = nn.Sequential(nn.Linear(2, 2), Telling({"a": 1}), nn.Sequential(Telling({}), Telling({"b": [2.5]})))
    assert module_summaries(network) == {"1": {"a": 1}, "2.1": {"b": [2.5]}}


@pytest.mark.parametrize(
    ("told", "text"), [({"a": math.nan}, "cannot be recorded"), ({"a": object()}, "cannot be recorded"), (3, "a dict")]
)
def test_a_summary_that_cannot_be_recorded_names_its_module(told, text):
    with pytest.raises(ValueError, match=rf"summary\(\) of 1 \(Telling\).*{text}"):
        module_summaries(nn.Sequential(nn.Identity(), Telling(told)))


@pytest.fixture
def fit_of(tmp_path):
    """Trains the arm with the given affine map (False) or the one that learns it (True), for three epochs."""
    dataset = {"source": "synthetic", "task": "product_classification", "num_graphs": 33, "num_nodes": 8}
    plan = make_plan(parse_study({
        "study": "s", "datasets": {"d": dataset}, "layers": ["gcn"], "splits": {"folds": 3},
        "model": {"num_layers": 2, "budget": None, "hidden_channels": 6},
        "training": {"max_epochs": 3, "batch_size": 8, "lr": 0.01},
        "ablations": {"a": {"axes": {"ssma.learn_affine": [False, True]}, "fixed": {"ssma.kappa": 2}}},
    }))  # fmt: skip
    prepare(tmp_path / "data", plan["datasets"]["d"], None)
    prepared = load(tmp_path / "data")

    def fit(learned):
        arm = next(arm for arm in plan["arms"] if arm["settings"]["aggregator"]["learn_affine"] == learned)
        spec = fit_spec(arm | {"dataset": "d"}, prepared.card, prepared.splits[0], 0, {}, 5)
        return run_fit(Results(tmp_path), prepared, spec, torch.device("cpu"))

    return fit


@pytest.mark.parametrize(
    ("method", "told", "epochs", "reason"),
    [("summary", {"a": torch.ones(1)}, 1, "cannot be recorded"), ("summary", {"a": math.nan}, 3, "cannot be recorded"),
     ("summary", {"a": 1}, 3, None), ("__repr__", None, 0, "__repr__ returned non-string")],
)  # fmt: skip
def test_what_no_record_can_hold_ends_a_fit_at_once(fit_of, monkeypatch, method, told, epochs, reason):
    spent, real = [], Training._epoch
    monkeypatch.setattr(Training, "_epoch", lambda self: spent.append(self.epochs) or real(self))
    monkeypatch.setattr(SSMAAggregation, method, lambda self: told)
    record = fit_of(True)
    assert len(spent) == epochs
    assert record["reason"] is None if reason is None else reason in record["reason"]


def test_the_record_of_a_fit_holds_the_map_of_its_best_epoch(tmp_path, fit_of):
    told = {}
    for learned in (False, True):
        record = fit_of(learned)
        assert record["status"] == "ok"
        assert read_record(Results(tmp_path).fit(record["id"]))["modules"] == record["modules"]
        told[learned] = record["modules"]
    assert told[False] == {}
    assert list(told[True]) == ["blocks.0.conv.aggr_module", "blocks.1.conv.aggr_module"]
    for summary in told[True].values():
        assert summary["affine"]["shape"] == [7, 3, 11]
        assert summary["affine"]["given"]["mean"] == pytest.approx(1 / 33)
        assert 0 < summary["affine"]["difference"]["mean"] < 0.2
