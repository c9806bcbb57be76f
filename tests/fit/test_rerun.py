"""A fit that is trained again from its record comes out the same, and a record that lies is found out."""

from types import SimpleNamespace

import pytest
import torch

from ssma.data.prepare import load, prepare
from ssma.errors import StudyError
from ssma.fit.run import run_fit
from ssma.fit.spec import fit_spec
from ssma.rerun import circumstances, differences, records_of, rerun
from ssma.study.config import parse_study
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.records import write_record

CLASS = "torch_geometric.nn.aggr.MeanAggregation"
STUDY = {
    "study": "s",
    "datasets": {"d": {"source": "synthetic", "task": "product_classification", "num_graphs": 30, "num_nodes": 8}},
    "layers": ["gcn"],
    "splits": {"folds": 3},
    "model": {"num_layers": 1, "budget": 800},
    "training": {"max_epochs": 3, "batch_size": 8},
    "ablations": {"a": {"axes": {"ssma.selection": ["random"]}, "fixed": {"ssma.kappa": 2}}},
}


def test_a_fit_comes_out_as_recorded(tmp_path):
    plan, results = make_plan(parse_study(STUDY)), Results(tmp_path)
    dataset = plan["datasets"]["d"]
    prepare(results.data(dataset["id"]), dataset, None)
    prepared = load(results.data(dataset["id"]))
    arm = plan["arms"][0] | {"dataset": dataset["id"]}
    spec = fit_spec(arm, prepared.card, prepared.splits[1], 1, {}, 5)
    record = run_fit(results, prepared, spec, torch.device("cpu"))
    assert isinstance(record["test"]["constant"], bool)
    (again,) = rerun(results, [record], "cpu")
    assert again["id"] == record["id"]
    assert differences(record, again) == []
    train, test = record["train"] | {"loss": 0.5}, record["test"] | {"accuracy": 2.0}
    assert differences(record | {"epochs": 99, "train": train, "test": test}, again) == [
        "epochs was 99, is 3",
        f"train loss was 0.5, is {again['train']['loss']}",
        f"test accuracy was 2.0, is {again['test']['accuracy']}",
    ]
    assert circumstances(record, again) == []
    older = record | {"versions": record["versions"] | {"torch": "1.0"}, "code": "c"}
    assert circumstances(older, again) == [
        f"code was c, is {again['code']}",
        f"torch was 1.0, is {again['versions']['torch']}",
    ]
    on_gpu = {"device": "NVIDIA H200"}
    assert circumstances(record | on_gpu, again | on_gpu) == ["a GPU is not deterministic"]
    assert circumstances(record | on_gpu, again) == ["device was NVIDIA H200, is cpu"]
    with pytest.raises(StudyError, match="holds other data than it was trained on"):
        next(rerun(results, [record | {"spec": spec | {"data_hash": "other"}}], "cpu"))
    changed = spec | {"class": CLASS, "class_code": "of other code"}
    with pytest.raises(StudyError, match="MeanAggregation: its file is not that which the plan was made with"):
        next(rerun(results, [record | {"spec": changed}], "cpu"))


def test_a_compiled_fit_is_compiled_again_where_that_can_be(tmp_path, monkeypatch):
    seen, checked = [], []
    monkeypatch.setattr("ssma.rerun.check_compiler", checked.append)
    monkeypatch.setattr("ssma.rerun.run_fit", lambda *arguments: seen.append(arguments[-1]) or {})
    monkeypatch.setattr("ssma.rerun.load", lambda _: SimpleNamespace(card={"data_hash": "h"}))
    record = {"id": "f", "spec": {"dataset": "d", "data_hash": "h", "class": None}, "threads": torch.get_num_threads()}
    assert list(rerun(Results(tmp_path), [record | {"compiled": True}, record], "cpu")) == [{}, {}]
    assert seen == [True, False]
    assert checked == [torch.device("cpu")]


def test_an_arm_without_evaluation_fits_did_not_come_out_as_recorded(tmp_path):
    plan, results = make_plan(parse_study(STUDY)), Results(tmp_path)
    arm = plan["arms"][0]["id"]
    with pytest.raises(StudyError, match=f"arm {arm} is not evaluated yet: there is no .*/{arm}/evaluation.json"):
        records_of(results, plan, "gcn")
    evaluation = {"kind": "evaluation", "arm_id": arm, "status": "failed", "reason": "no valid trial", "fits": []}
    write_record(results.evaluation(arm), evaluation)
    with pytest.raises(StudyError, match=f"arm {arm} has no evaluation fits: no valid trial"):
        records_of(results, plan, "gcn")
    write_record(results.fit("0f"), {"id": "0f"})
    write_record(results.evaluation(arm), evaluation | {"fits": [{"id": "0f"}]})
    assert [record["id"] for record in records_of(results, plan, "gcn")] == ["0f"]
    assert [record["id"] for record in records_of(results, plan, "0f")] == ["0f"]
