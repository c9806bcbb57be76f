"""From a number to what made it."""

import re
from pathlib import Path

import pytest

from ssma.cli import main
from ssma.report.build import build
from ssma.report.show import describe_arm, describe_fit
from ssma.study.lookup import read_plan
from ssma.study.paths import Results
from ssma.study.records import read_record, write_record

SPEC = {
    "dataset": "MUTAG-1", "data_hash": "da7a", "split": 1, "split_hash": "s1", "seed": 7, "layer": "gcn",
    "aggregator": "ssma", "settings": {"aggregator": {}, "model": {}, "training": {}},
}  # fmt: skip


@pytest.fixture
def shown(study):
    plan = read_plan(study.plan)

    def show(arm_id):
        text = describe_arm(study, plan, next(arm for arm in plan["arms"] if arm["id"] == arm_id))
        return re.sub(" +", " ", text)

    return show


def test_an_arm_is_told_with_everything_behind_its_numbers(shown, study):
    text = shown("MUTAG-gcn-ssma")
    for line in (
        "arm MUTAG-gcn-ssma", "data hash da7ada7ada7ada7a", "features node labels (one-hot)", 'splits {"folds":3,"scheme":"shuffle","seed":0}',
        "split hashes 0 s, 1 s, 2 s", "training.lr 0.001", "trials 2 complete, 1 pruned, 1 failed",
        "split 0 repeat 0 seed 7: ok", "accuracy in %: train 87.0, validation 86.0, test 85.0; "
        "validation 10.0 (epoch 1) → 30.0 (epoch 3) → 40.0 (epoch 10)", "split 2 repeat 1 seed 7: diverged: diverged: on purpose",
        "code c0de", "torch 2.13.0", "device cpu", "MLflow search for: tags.\"ssma.arm\" = 'MUTAG-gcn-ssma'",
        f"logs {study.root}/logs/evaluate/MUTAG-gcn-ssma.log\n",
        f"again ssma rerun {study.plan} MUTAG-gcn-ssma", str(study.fit("MUTAG-gcn-ssma-e0r0")),
    ):  # fmt: skip
        assert line in text


def test_what_a_search_chose_is_told(fabric):
    arm = fabric.arm("MUTAG-gcn-ssma", space={"training.lr": [0.1, 0.2]}, trials=2)
    fabric.tuned(arm, [("complete", {"training.lr": 0.1}, [0.5]), ("complete", {"training.lr": 0.2}, [0.6])], best=1)
    plan = fabric.plan()
    text = re.sub(" +", " ", describe_arm(fabric.results, plan, plan["arms"][0]))
    for line in (
        "training.lr [0.1,0.2]", "sampler tpe", "chosen by validation", "trials planned 2", "tuned on splits 0\n",
        "optuna unknown\n",
        'choice for evaluation splits 0 to 2 trial 1: {"training.lr":0.2}', "evaluation splits 0 to 2\n not evaluated yet", "card not prepared",
        f"logs {fabric.results.root}/logs/tune/MUTAG-gcn-ssma.log, {fabric.results.root}/logs/evaluate/MUTAG-gcn-ssma.log\n",
    ):  # fmt: skip
        assert line in text
    assert "training.lr 0.001" not in text  # the default, which no fit has


def test_gaps_are_told(shown, study):
    study.fit("MUTAG-gcn-sum-e0r0").unlink()
    path = study.fit("MUTAG-gcn-sum-e0r1")
    path.write_text(path.read_text().replace("0.84", "0.99"))
    text = shown("MUTAG-gcn-sum")
    assert "MUTAG-gcn-sum-e0r0.json is not there" in text and "changed after it was sealed" in text
    assert "failed: no valid trial: 2 failed" in shown("MUTAG-gin-sum")
    assert "choice not tuned yet" in shown("MUTAG-gin-ssma")


def test_a_fit_is_told_epoch_by_epoch(study, fabric, capsys):
    settings = SPEC["settings"] | {"aggregator": {"kappa": 3}, "training": {"lr": 0.1}}
    fabric.fit("MUTAG-gcn-ssma", "told", 0.8, split=1, spec=SPEC | {"settings": settings})
    text = re.sub(" +", " ", describe_fit(study, read_plan(study.plan), "MUTAG-gcn-ssma-told"))
    for line in (
        "ssma.kappa 3", "training.lr 0.1", "split 1 (hash s1)", "seed 7", " 4 0.5\n", "tags.\"ssma.fit\" = 'MUTAG-gcn-ssma-told'",
        f"again ssma rerun {study.plan} MUTAG-gcn-ssma-told",
    ):  # fmt: skip
        assert line in text
    assert "modules" not in text and " class " not in text
    assert main(["show", str(study.plan), "MUTAG-gcn-ssma-told"]) == 0
    assert re.sub(" +", " ", capsys.readouterr().out) == text
    assert main(["show", str(study.plan), "ZINC / gcn / ssma"]) == 0
    assert "arm" in capsys.readouterr().out


def test_an_own_class_is_named_with_its_code(study, fabric):
    own = {"class": "mine.Sum", "class_code": "abc123"}
    fabric.fit(fabric.arm("MUTAG-gcn-own", **own), "told", 0.8, split=1, spec=SPEC | {"aggregator": "own"} | own)
    plan = fabric.plan()
    for text in (describe_arm(study, plan, plan["arms"][-1]), describe_fit(study, plan, "MUTAG-gcn-own-told")):
        assert "\nclass mine.Sum (code abc123)\n" in re.sub(" +", " ", text)


@pytest.mark.usefixtures("no_images")
def test_runs_of_mlflow_are_spoken_of_where_a_study_logs_to_it(study, fabric, tmp_path):
    fabric.fit("MUTAG-gcn-ssma", "told", 0.8, split=1, spec=SPEC)
    plan = read_plan(study.plan)
    for tracked in (True, False):
        plan["config"]["track"] = {"enabled": tracked}
        write_record(study.plan, plan)
        build(study, tmp_path)
        page = (tmp_path / "index.html").read_text()
        told = describe_arm(study, plan, plan["arms"][0]) + describe_fit(study, plan, "MUTAG-gcn-ssma-told")
        assert ("MLflow" in told) == ('tags."ssma.arm"' in page) == tracked


def test_a_fit_tells_the_summaries_of_its_modules(study, fabric):
    modules = {"blocks.0.aggr": {"learned": {"mean": 0.5, "picture": [[0.25]]}}, "blocks.1.aggr": {"alive": True}}
    fabric.fit("MUTAG-gcn-ssma", "told", 0.8, split=1, spec=SPEC, modules=modules)
    assert (
        "modules at the best epoch (pictures are in the record)\n"
        '  blocks.0.aggr  {"learned":{"mean":0.5}}\n'
        '  blocks.1.aggr  {"alive":true}\n'
    ) in describe_fit(study, read_plan(study.plan), "MUTAG-gcn-ssma-told")


@pytest.mark.usefixtures("no_images")
def test_every_arm_of_the_report_has_a_page(study, tmp_path):
    build(study, tmp_path / "out")
    html = (tmp_path / "out" / "index.html").read_text()
    for arm in read_plan(study.plan)["arms"]:
        assert f'<a href="arms/{arm["id"]}.html"' in html
        text = (tmp_path / "out" / "arms" / f"{arm['id']}.html").read_text()
        assert f"ssma rerun results/made_up/plan.json {arm['id']}" in text
        assert str(tmp_path) not in text and str(study.root) not in text


@pytest.mark.usefixtures("no_images")
def test_a_report_of_data_that_lost_their_splits_says_so(study, tmp_path):
    """It ended in a traceback, and so did what `ssma show` prints."""
    card = study.data("MUTAG-1") / "card.json"
    write_record(card, read_record(card) | {"copies": {"graphs": 9, "leaked": [2, 0, 3]}})
    (study.data("MUTAG-1") / "splits.json").unlink()
    build(study, tmp_path / "out")
    html = (tmp_path / "out" / "index.html").read_text()
    assert "not frozen" in html
    assert "in a split 0 to 3 of the unknown number of validation and test graphs one in the training part" in html
    page = (tmp_path / "out" / "arms" / "MUTAG-gcn-ssma.html").read_text()
    assert (
        "card      not prepared, or its splits are gone" in page
        and "accuracy in %: train 87.0, validation 86.0, test 85.0" in page
    )


@pytest.mark.usefixtures("no_images")
def test_a_page_is_the_same_wherever_the_report_is_started(study, tmp_path, monkeypatch):
    build(study, tmp_path / "there")
    monkeypatch.chdir(study.root)
    build(Results(Path()), tmp_path / "here")
    there, here = (sorted((tmp_path / name / "arms").iterdir()) for name in ("there", "here"))
    assert there and [page.read_text() for page in here] == [page.read_text() for page in there]
