"""What lies in a real SQLite store after logging."""

import builtins
import contextlib
import errno
import json
import logging
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import optuna
import pytest
from made_records import OF_DATA, log_live, make_fit, make_plan, make_trial, write_arm

from ssma.errors import StudyError
from ssma.study.paths import Results
from ssma.study.records import read_record, write_record
from ssma.track.fill import fill
from ssma.track.live import open_tracker
from ssma.track.store import artifact_folder, create_store, make_client, mlflow_errors, tracking_uri
from ssma.track.tracker import Tracker


def runs_of(results, study="made"):
    """Returns every run of a study by its key: name, status, tags, parameters, metric histories."""
    client = make_client(tracking_uri(results, None))
    found = {}
    for run in client.search_runs([client.get_experiment_by_name(study).experiment_id], max_results=1000):
        tags = {key: value for key, value in run.data.tags.items() if key != "mlflow.parentRunId"}
        key = tags["ssma.key"]
        assert key not in found
        points = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
        histories = {name: [(point.step, point.value, point.timestamp) for point in points[name]] for name in points}
        found[key] = (run.info.run_name, run.info.status, tags, run.data.params, histories)
    return found


def run_of(results, key):
    client = make_client(tracking_uri(results, None))
    experiment = client.get_experiment_by_name("made").experiment_id
    return client.search_runs([experiment], f"tags.\"ssma.key\" = '{key}'")


def artifacts_of(run):
    return Path(unquote(urlsplit(run.info.artifact_uri).path))


def test_live_logging_and_filling_say_the_same_once(results):
    plan = make_plan()
    written = {arm["id"]: write_arm(results, arm) for arm in plan["arms"]}
    tracker = open_tracker(results, plan)
    assert tracker.tracker
    for arm in plan["arms"]:
        log_live(tracker, arm, *written[arm["id"]])
    logged = runs_of(results)
    assert len(logged) == 10

    one = plan["arms"][0]["id"]
    name, status, tags, params, histories = logged[f"arm:{one}"]
    assert (name, status) == ("MUTAG / gcn / one", "FINISHED")
    settings = {"ssma.kappa": "3", "ssma.note": "short", "model.num_layers": "4", "training.lr": "0.01"}
    assert params == OF_DATA | settings
    assert tags["ssma.ablations"] == "first, main"
    assert tags["ssma.kind"] == "arm"
    assert tags["chosen.training.lr"] == "0.01"
    own = {metric: points[0][1] for metric, points in histories.items()}
    assert own == {
        "mean.test_accuracy": 0.8, "mean.validation_accuracy": 0.9, "chosen.validation_accuracy": 0.85, "fits.ok": 1,
        "fits.planned": 2, "trials.complete": 1,
    }  # fmt: skip

    name, status, tags, params, histories = logged[f"fit:{one}:0:0"]
    assert (name, status, tags["ssma.status"], tags["ssma.seed"]) == ("split 0 repeat 0", "FINISHED", "ok", "123")
    start = 1767268800000
    curve = [(1, 0.5, start + 500), (2, 0.9, start + 1000), (3, 0.7, start + 1500)]
    assert histories["validation_accuracy"] == curve
    assert histories["train_loss"] == [(1, 1.0, start + 500), (3, 0.2, start + 1500)]  # null is not logged
    assert histories["best.validation_accuracy"] == [(2, 0.9, start + 1500)]  # the step is the epoch, as in the curve
    assert histories["best.test_accuracy"] == [(2, 0.8, start + 1500)]
    assert histories["parameters"][0][1] == 999

    name, status, tags, params, histories = logged[f"fit:{one}:1:0"]
    assert (status, tags["ssma.status"], tags["ssma.reason"]) == ("FAILED", "diverged", "loss is not finite in epoch 2")
    assert not [name for name in histories if name.startswith("best")]

    name, status, tags, params, histories = logged[f"trial:{one}:0"]
    assert (name, status, params) == ("trial 0", "FINISHED", {"training.lr": "0.01"})
    assert histories["mean.validation_accuracy"] == [(0, 0.85, start + 1500)]
    assert [point[:2] for point in histories["split.validation_accuracy"]] == [(0, 0.8), (1, 0.9)]
    assert histories["split_1.validation_accuracy"] == curve
    assert logged[f"trial:{one}:1"][1] == "FAILED"

    assert fill(results, plan) == {
        "arms": 2,
        "trials": 4,
        "fits": 4,
        "new_runs": 0,
        "missing_fits": 0,
        "damaged_fits": 0,
    }
    assert runs_of(results) == logged

    # Another name for the same records: MLflow keeps the opened database of a deleted file.
    copy = Results(results.root.with_name("copy"))
    shutil.copytree(results.root, copy.root, ignore=shutil.ignore_patterns("mlflow"))
    assert fill(copy, plan)["new_runs"] == 10
    assert runs_of(copy) == logged


def test_chosen_hyperparameters_read_as_parameters_do(tmp_path):
    """So that one search finds both, and a text that MLflow would cut without a word is marked."""
    logged = {}
    client = SimpleNamespace(
        log_batch=lambda _, metrics, tags, **__: logged.update({t.key: t.value for t in tags}),
        get_run=lambda _: SimpleNamespace(data=SimpleNamespace(tags=logged)),
    )
    values = {"ssma.learn_affine": True, "training.max_minutes": None, "mine.text": "x" * 9000, "mine.p": 0.1 + 0.2}
    chosen = {"chosen": {"0": values, "1": values}, "chosen_trial": {"0": None}, "metric": "mae", "trials": []}
    Tracker(Results(tmp_path), {}, client, "1")._summarise("run", chosen, {"fits": [], "planned": 2})
    long = logged.pop("chosen.mine.text")
    assert len(long) == 6000 and long.endswith("(cut: the whole value is an artifact)")
    assert logged == {
        "chosen.ssma.learn_affine": "true", "chosen.training.max_minutes": "null", "chosen.mine.p": "0.3",
    }  # fmt: skip


def test_two_fillings_at_once_double_no_run(results, monkeypatch):
    """The second would find none of the runs that the first is about to make."""
    plan = make_plan()
    for arm in plan["arms"]:
        write_arm(results, arm)
    both = threading.Barrier(2)
    real = Tracker._runs

    def meet_after_reading(self, arm_id):
        found = real(self, arm_id)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(timeout=1)
        return found

    monkeypatch.setattr(Tracker, "_runs", meet_after_reading)
    with ThreadPoolExecutor(2) as pool:
        new = [counts["new_runs"] for counts in pool.map(fill, [results] * 2, [plan] * 2)]
    assert sorted(new) == [0, 10]
    assert len(runs_of(results)) == 10


def test_parents_and_artifacts(results):
    plan = make_plan(["one"], long_text="y" * 9000)
    (arm,) = plan["arms"]
    trials, fits = write_arm(results, arm)
    log_live(open_tracker(results, plan), arm, trials, fits)
    (parent,) = run_of(results, f"arm:{arm['id']}")
    folder = artifacts_of(parent)
    assert folder.is_relative_to(results.store)
    assert sorted(path.name for path in folder.iterdir()) == ["chosen.json", "config.json", "evaluation.json", "params"]
    assert json.loads((folder / "config.json").read_text())["arm"]["id"] == arm["id"]
    assert (folder / "params" / "ssma.note.txt").read_text() == "y" * 9000
    assert parent.data.tags["ssma.cut_params"] == "ssma.note"
    assert len(parent.data.params["ssma.note"]) == 6000
    (fit,) = run_of(results, f"fit:{arm['id']}:0:0")
    assert fit.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert json.loads((artifacts_of(fit) / "record.json").read_text())["id"] == fits[0]["id"]


def test_what_was_chosen_is_written_as_in_the_parameters_of_the_fits(results):
    plan = make_plan(["one"])
    (arm,) = plan["arms"]
    write_arm(results, arm)
    record = read_record(results.chosen(arm["id"]))
    before = {"training.lr": 0.1, "ssma.temperature": 2}
    values = {"training.lr": 0.005843271972172518, "ssma.learn_affine": True, "ssma.selection": "random"}
    for chosen in (before, values):  # a trial that had failed may be the best when it is tried again
        write_record(results.chosen(arm["id"]), record | {"chosen": {"0": chosen, "1": chosen}})
        fill(results, plan)
    (run,) = run_of(results, f"arm:{arm['id']}")
    told = {key: text for key, text in run.data.tags.items() if key.startswith("chosen.")}
    assert told == {
        "chosen.training.lr": "0.00584327197217", "chosen.ssma.learn_affine": "true", "chosen.ssma.selection": "random",
    }  # fmt: skip


def test_runs_of_a_killed_process_are_completed_or_closed(results):
    plan = make_plan(["one"])
    (arm,) = plan["arms"]
    trials, fits = write_arm(results, arm)
    tracker = Tracker.open(results, tracking_uri(results, None), plan)
    log_live(tracker, arm, trials, fits)
    tracker.client.update_run(tracker._runs(arm["id"])[f"trial:{arm['id']}:0"][0].run_id, "RUNNING")
    stray = {"ssma.key": "trial:lost", "ssma.identity": "x", "ssma.arm": arm["id"]}
    stray_id = tracker.client.create_run(tracker.experiment, tags=stray).info.run_id
    before = runs_of(results)
    assert before[f"trial:{arm['id']}:0"][1] == before["trial:lost"][1] == "RUNNING"

    assert fill(results, plan)["new_runs"] == 0
    after = runs_of(results)
    assert after[f"trial:{arm['id']}:0"][1] == "FINISHED"
    assert after[f"trial:{arm['id']}:0"][4] == before[f"trial:{arm['id']}:0"][4]
    assert tracker.client.get_run(stray_id).info.status == "KILLED"


def test_a_run_that_was_cut_short_by_a_stopped_job_is_completed(results, monkeypatch):
    plan = make_plan(["one"])
    (arm,) = plan["arms"]
    (trial, _), _ = write_arm(results, arm)
    uri, key = tracking_uri(results, None), f"trial:{arm['id']}:0"

    def stop(*arguments, **options):
        raise SystemExit(143)

    with monkeypatch.context() as patch:
        tracker = Tracker.open(results, uri, plan)
        tracker.arm(arm)
        patch.setattr(tracker.client, "log_batch", stop)
        with pytest.raises(SystemExit):
            tracker.trial(arm, *trial)
    tracker.finish(arm, "interrupted")
    assert runs_of(results)[key][1] == "KILLED"
    again = Tracker.open(results, uri, plan)
    again.trial(arm, *trial)
    _, state, tags, params, histories = runs_of(results)[key]
    assert (state, tags["ssma.status"], bool(params), bool(histories)) == ("FINISHED", "complete", True, True)
    assert again.created == 0


def test_arm_without_evaluation_is_killed_then_finished(results):
    plan = make_plan(["one"])
    (arm,) = plan["arms"]
    write_arm(results, arm)
    later = results.evaluation(arm["id"]).rename(results.root / "later.json")
    fill(results, plan)
    assert runs_of(results)[f"arm:{arm['id']}"][1] == "KILLED"
    later.rename(results.evaluation(arm["id"]))
    fill(results, plan)
    assert runs_of(results)[f"arm:{arm['id']}"][1] == "FINISHED"


@pytest.mark.parametrize("damaged", [False, True])
def test_arms_without_a_readable_fit_stop_nothing(results, damaged):
    """As on a single split whose only record was deleted, or cut short. Both arms have the same fits here."""
    plan = make_plan()
    for arm in plan["arms"]:
        _, fits = write_arm(results, arm)
    for path in (results.fit(fit["id"]) for fit in fits):
        path.write_text("{") if damaged else path.unlink()
    counts = fill(results, plan)
    lost, other = ("damaged_fits", "missing_fits") if damaged else ("missing_fits", "damaged_fits")
    assert (counts["arms"], counts["fits"], counts[lost], counts[other]) == (2, 0, 4, 0)
    for arm in plan["arms"]:
        run = runs_of(results)[f"arm:{arm['id']}"]
        assert (run[1], run[4]) == ("FINISHED", {})


def test_changed_parameters_make_a_new_run(results):
    plan = make_plan(["one"])
    (arm,) = plan["arms"]
    tracker = open_tracker(results, plan)
    tracker.fit(arm, 0, 0, make_fit(arm, 0, lr=0.01))
    tracker.fit(arm, 0, 0, make_fit(arm, 0, lr=0.5))
    runs = run_of(results, f"fit:{arm['id']}:0:0")
    old, new = sorted(runs, key=lambda run: run.data.params["training.lr"])
    assert (old.data.params["training.lr"], new.data.params["training.lr"]) == ("0.01", "0.5")
    assert old.data.tags["ssma.superseded_by"] == new.info.run_id
    assert "ssma.superseded_by" not in new.data.tags


@pytest.mark.parametrize("tag", ["ssma.key", "ssma.identity"])
def test_a_run_whose_tags_were_deleted_in_the_ui_is_left_alone(results, tag):
    plan = make_plan(["one"])
    (arm,) = plan["arms"]
    write_arm(results, arm)
    fill(results, plan)
    client = make_client(tracking_uri(results, None))
    (edited,) = run_of(results, f"fit:{arm['id']}:0:0")
    client.delete_tag(edited.info.run_id, tag)
    assert fill(results, plan)["new_runs"] == 1
    found = {run.info.run_id: run.data.tags for run in run_of(results, f"fit:{arm['id']}:0:0")}
    assert len(found.keys() - {edited.info.run_id}) == 1
    assert tag not in client.get_run(edited.info.run_id).data.tags


def test_more_values_than_one_call_may_hold(results):
    plan = make_plan(["one"])
    (arm,) = plan["arms"]
    open_tracker(results, plan).fit(arm, 0, 0, make_fit(arm, 0, epochs=2500))
    metrics = runs_of(results)[f"fit:{arm['id']}:0:0"][4]
    assert len(metrics["validation_loss"]) == 2500
    assert len(metrics["train_loss"]) == 2499


def test_every_page_of_a_search_is_read(results, monkeypatch):
    monkeypatch.setattr("ssma.track.tracker.PAGE", 3)
    plan = make_plan(["one"])
    (arm,) = plan["arms"]
    uri = tracking_uri(results, None)
    for _ in range(2):
        tracker = Tracker.open(results, uri, plan)
        for number in range(8):
            tracker.trial(arm, make_trial(number, [], "failed"), [])
    assert tracker.created == 0
    assert len(runs_of(results)) == 9


def test_experiment_deleted_in_the_ui_comes_back(results):
    uri = tracking_uri(results, None)
    client = make_client(uri)
    made = client.get_experiment_by_name("made").experiment_id
    client.delete_experiment(made)
    assert create_store(uri, artifact_folder(results), "made") == made
    assert client.get_experiment(made).lifecycle_stage == "active"


def test_moved_results_keep_their_artifacts(results):
    plan = make_plan(["one"])
    write_arm(results, plan["arms"][0])
    fill(results, plan)
    moved = Results(results.root.with_name("moved"))
    results.root.rename(moved.root)
    assert fill(moved, plan)["new_runs"] == 0
    for key in (f"arm:{plan['arms'][0]['id']}", f"fit:{plan['arms'][0]['id']}:0:0"):
        (run,) = run_of(moved, key)
        assert artifacts_of(run).is_relative_to(moved.store)
        assert list(artifacts_of(run).glob("*.json"))


def test_a_store_in_the_home_folder_is_made_there(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    monkeypatch.chdir(tmp_path)
    results = Results(tmp_path / "work/results/made")
    assert open_tracker(results, make_plan(["one"], uri="sqlite:///~/runs.db")).tracker
    assert (tmp_path / "ann/runs.db").exists()
    assert not list(tmp_path.rglob("~"))


@pytest.mark.parametrize("path", ["runs.db", "~/runs.db", "/data/runs.db"])
def test_a_store_whose_driver_is_named_is_the_same_store(tmp_path, path):
    """Else it would be made without a lock, which is a race, and in the folder that a command is called in."""
    results = Results(tmp_path / "results/made")
    assert tracking_uri(results, f"sqlite+pysqlite:///{path}") == tracking_uri(results, f"sqlite:///{path}")


@pytest.mark.parametrize("end", ["", "/"])
def test_a_folder_that_is_named_as_a_store_is_not_to_be_deleted(tmp_path, end):
    folder = tmp_path / "mlruns"
    folder.mkdir()
    told = f"MLflow store sqlite:///{folder}{end}: is a folder; name a file in it, such as sqlite:///{folder}/mlflow.db"
    with pytest.raises(StudyError, match=f"^{re.escape(told)}$"):
        create_store(f"sqlite:///{folder}{end}", tmp_path / "artifacts", "made")
    assert [file.name for file in tmp_path.iterdir()] == ["mlruns"]


def test_artifacts_of_other_work_stay_where_they_are(tmp_path):
    """A user's own database may have an experiment with the name of the study, whose models lie elsewhere."""
    uri = f"sqlite:///{tmp_path}/own.db"
    client, place = make_client(uri), (tmp_path / "mlruns/1").as_uri()
    experiment = client.create_experiment("made", artifact_location=place)
    mine = client.create_run(experiment).info.run_id
    client.log_text(mine, "weights", "model.txt")
    plan, results = make_plan(["one"], uri=uri), Results(tmp_path / "results/made")
    write_arm(results, plan["arms"][0])
    assert fill(results, plan)["new_runs"] == 5
    assert [file.path for file in client.list_artifacts(mine)] == ["model.txt"]
    assert client.get_experiment(experiment).artifact_location == place


def test_runs_in_a_database_whose_making_was_cut_short_are_kept(tmp_path):
    """A user's other work may have gone on with it before the study was started again."""
    uri = f"sqlite:///{tmp_path}/own.db"
    client = make_client(uri)
    mine = client.create_run(client.create_experiment("mine")).info.run_id
    left = tmp_path / "own.db.unfinished"
    left.touch()
    create_store(uri, tmp_path / "results/made/mlflow/artifacts", "made")
    assert client.get_run(mine).info.status == "RUNNING"
    assert client.get_experiment_by_name("made") and not left.exists()


def test_a_store_kept_elsewhere_follows_results_that_moved_and_no_others(tmp_path):
    uri, query = f"sqlite:///{tmp_path}/shared.db", "tags.\"ssma.kind\" = 'fit'"
    plan, first, second = make_plan(["one"], uri=uri), Results(tmp_path / "a/made"), Results(tmp_path / "b/made")
    write_arm(first, plan["arms"][0])
    fill(first, plan)
    client = make_client(uri)

    def lie_at():
        return {run.info.artifact_uri.rsplit("/", 2)[0] for run in client.search_runs(["1"], query)}

    create_store(uri, artifact_folder(second), "made")
    assert lie_at() == {artifact_folder(first).as_uri()}
    shutil.rmtree(artifact_folder(first))  # as before the first of them is logged
    create_store(uri, artifact_folder(second), "made")
    assert lie_at() == {artifact_folder(first).as_uri()}
    first.root.rename(tmp_path / "c")
    create_store(uri, artifact_folder(Results(tmp_path / "c")), "made")
    assert lie_at() == {artifact_folder(Results(tmp_path / "c")).as_uri()}


def test_artifacts_lie_beside_the_store_whatever_the_folder_is_called(tmp_path):
    results = Results(tmp_path / "a b#c%20d;é" / "made")
    plan = make_plan(["one"])
    write_arm(results, plan["arms"][0])
    fill(results, plan)
    (run,) = run_of(results, f"fit:{plan['arms'][0]['id']}:0:0")
    assert artifacts_of(run).is_relative_to(results.store)
    assert [file.name for file in artifacts_of(run).iterdir()] == ["record.json"]
    assert [folder.name for folder in tmp_path.iterdir()] == ["a b#c%20d;é"]


@pytest.mark.parametrize("name", ["the \"best\" of 'all'", ":runs"])
def test_a_store_is_made_in_a_working_directory_whatever_it_is_called(tmp_path, monkeypatch, name):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    results, plan = Results(Path("results/made")), make_plan(["one"])
    assert open_tracker(results, plan).tracker
    write_arm(results, plan["arms"][0])
    fill(results, plan)
    (run,) = run_of(results, f"fit:{plan['arms'][0]['id']}:0:0")
    assert [file.name for file in artifacts_of(run).iterdir()] == ["record.json"]
    assert [folder.name for folder in Path().iterdir()] == ["results"]


def test_a_folder_that_sqlite_cannot_address_costs_one_warning(tmp_path, warnings_of):
    results, plan = Results(tmp_path / "what?"), make_plan(["one"])
    assert open_tracker(results, plan).tracker is None
    assert open_tracker(results, plan).tracker is None
    (line,) = warnings_of()
    assert "SQLite addresses cannot hold '?'; rename the folder or set track.uri" in line


def test_a_group_may_write_to_a_store_as_to_records(tmp_path):
    before = os.umask(0o002)
    try:
        tracker = open_tracker(Results(tmp_path / "results/made"), make_plan(["one"]))
        tracker.arm(make_plan(["one"])["arms"][0])
        modes = {
            path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "results/made/mlflow").glob("mlflow.db*")
        }
    finally:
        os.umask(before)
    assert modes["mlflow.db"] == modes["mlflow.db-wal"] == modes["mlflow.db-shm"] == 0o664


def test_sqlite_is_in_wal_mode(results):
    with sqlite3.connect(results.store / "mlflow.db") as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_commits_to_a_store_in_wal_mode_do_not_wait_for_the_disk(results, tmp_path):
    from sqlalchemy import create_engine, event
    from sqlalchemy.engine import Engine

    levels = []

    def look(connection, _):
        levels.append(connection.execute("PRAGMA synchronous").fetchone()[0])

    event.listen(Engine, "connect", look)
    try:
        make_client(tracking_uri(results, None)).get_experiment_by_name("made")
        create_engine(f"sqlite:///{tmp_path}/other.db").connect().close()
    finally:
        event.remove(Engine, "connect", look)
    normal, full = 1, 2
    assert levels == [normal, full], "the other one is in no WAL mode"


PROCESS = """
import sys
from pathlib import Path
from made_records import log_live, make_plan, write_arm
from ssma.study.paths import Results
from ssma.study.records import read_record, write_record
from ssma.track.live import open_tracker
results, plan = Results(Path(sys.argv[1])), make_plan(["a", "b", "c", "d"], study=sys.argv[3])
arm = plan["arms"][int(sys.argv[2])]
log_live(open_tracker(results, plan), arm, *write_arm(results, arm))
"""


@pytest.mark.parametrize(("count", "made"), [(3, True), (2, False)])
def test_processes_at_once(results, tmp_path, count, made):
    """The experiment is not there, the store may be: each is made once, and every run is in the right place."""
    results = results if made else Results(tmp_path / "new")
    command = [sys.executable, "-c", PROCESS, str(results.root)]
    where = {"cwd": Path(__file__).parent, "env": {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""}}
    commands = [[*command, str(number), "other"] for number in range(count)]
    jobs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **where) for command in commands]
    assert [job.communicate(timeout=60)[1] for job in jobs] == [""] * count
    assert len(runs_of(results, "other")) == 5 * count
    assert make_client(tracking_uri(results, None)).search_runs(["0"]) == []


@pytest.fixture
def warnings_of(caplog):
    return lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "postgresql://me:secret@127.0.0.1:9/db"])
def test_closed_port_costs_one_warning(tmp_path, warnings_of, uri):
    plan = make_plan(["one"], uri=uri)
    start = time.monotonic()
    assert open_tracker(Results(tmp_path), plan).tracker is None
    assert open_tracker(Results(tmp_path), plan).tracker is None
    assert time.monotonic() - start < 8
    (line,) = warnings_of()
    assert line.endswith("Records are complete; run `ssma track` later to fill the store.")
    assert "127.0.0.1" in line
    assert "\n" not in line
    assert "secret" not in line
    with pytest.raises(StudyError, match="cannot be used"):
        fill(Results(tmp_path), plan)


def test_a_store_that_is_back_is_logged_to_after_an_hour(tmp_path, warnings_of):
    """A study that runs for days was off MLflow to its end where the server was down for its first minute."""
    results, plan = Results(tmp_path / "results/made"), make_plan()
    results.store.mkdir(parents=True)
    (results.store / "mlflow.db").mkdir()
    assert open_tracker(results, plan).tracker is None
    (results.store / "mlflow.db").rmdir()
    note, (line,) = results.store / "unusable", warnings_of()
    assert open_tracker(results, plan).tracker is None
    hour_ago = note.stat().st_mtime - 3601
    os.utime(note, (hour_ago, hour_ago))
    assert open_tracker(results, plan).tracker
    assert note.read_text() in line  # what was trained before is not in the store
    assert len(warnings_of()) == 1


@contextlib.contextmanager
def answering(status, body=b"", **headers):
    """A server that answers whatever it is asked in one way; gives its address and the list of what it was asked."""
    asked = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_wants_to_be_asked_later_is_not_waited_for(results, warnings_of, status):
    with answering(status, Retry_After="60") as (uri, asked):
        before = time.monotonic()
        assert open_tracker(results, make_plan(["one"], uri=uri)).tracker is None
        assert time.monotonic() - before < 10
    assert len(asked) == 2
    (line,) = warnings_of()
    assert "cannot be used" in line


def test_a_server_that_asks_who_it_is_tells_where_that_is_said(results, warnings_of):
    with answering(401, b"You are not authenticated.") as (uri, _):
        assert open_tracker(results, make_plan(["one"], uri=uri)).tracker is None
    (line,) = warnings_of()
    assert "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or a token into MLFLOW_TRACKING_TOKEN. Rec" in line
    assert "track.uri" not in line


@pytest.mark.parametrize("body", [b"", b"{}", b'{"status": "healthy"}'])
def test_a_server_that_is_none_of_mlflow_is_named(results, warnings_of, body):
    """To MLflow such an answer is an experiment without an id, and so is a run: all would be logged to nowhere."""
    with answering(200, body) as (uri, _):
        assert open_tracker(results, make_plan(["one"], uri=uri)).tracker is None
    (line,) = warnings_of()
    assert f"track.uri: what answers at {uri} is no MLflow server; check host, port and path" in line


@pytest.mark.parametrize("asynchronous", ["false", "true"])
def test_store_that_breaks_on_the_way(results, warnings_of, monkeypatch, asynchronous):
    """Also where the user has MLflow write in the background, which tells nobody of an error."""
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_LOGGING", asynchronous)
    plan = make_plan(["one"])
    (arm,) = plan["arms"]
    trials, fits = write_arm(results, arm)
    tracker = open_tracker(results, plan)
    tracker.arm(arm)
    with sqlite3.connect(results.store / "mlflow.db") as database:
        database.execute("DROP TABLE metrics")
    log_live(tracker, arm, trials, fits)
    assert tracker.tracker is None
    assert len(warnings_of()) == 1


def test_a_folder_that_the_locale_cannot_name_costs_one_warning(results, warnings_of, monkeypatch):
    """As in an ASCII locale, where letters of paths become surrogates, and MLflow's are encoded anew."""
    plan = make_plan(["one"])
    tracker = open_tracker(results, plan)
    monkeypatch.setattr(Tracker, "arm", lambda *_: "größe".encode("ascii"))
    tracker.uri = "sqlite:////gr\udcc3\udcb6\udcc3\udc9fe/mlflow.db"
    tracker.arm(plan["arms"][0])
    assert tracker.tracker is None
    (line,) = warnings_of()
    assert "ordinal not in range(128)); set a locale that can name the folder, such as LC_ALL=C.UTF-8." in line
    assert open_tracker(results, plan).tracker is None


def test_a_database_of_optuna_costs_one_warning_and_is_not_to_be_deleted(tmp_path, warnings_of):
    """Both note the version of their tables in the same place, and neither's exception is MLflow's own."""
    address = f"sqlite:///{tmp_path}/optuna.db"
    optuna.create_study(storage=address, study_name="mine")
    plan = make_plan(["one"], uri=address)
    assert open_tracker(Results(tmp_path / "results"), plan).tracker is None
    (line,) = warnings_of()
    assert "Can't locate revision" in line and "such as Optuna: set track.uri to another one. Records are" in line
    assert "delete" not in line
    assert optuna.get_all_study_names(address) == ["mine"]


def test_a_store_of_another_mlflow_costs_one_warning_and_is_to_be_upgraded(results, tmp_path, warnings_of):
    plan, file = make_plan(["one"]), tmp_path / "older.db"
    open_tracker(results, plan)
    shutil.copy(results.store / "mlflow.db", file)  # MLflow looks once in a process at the version of a store
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = 'cc1f77228345'")  # of MLflow 1.28
    plan = make_plan(["one"], uri=f"sqlite:///{file}")
    assert open_tracker(results, plan).tracker is None
    (line,) = warnings_of()
    assert "found version cc1f77228345" in line
    assert f"run `mlflow db upgrade sqlite:///{file}`; of a newer one, install that. Records are" in line
    assert "delete" not in line


@pytest.mark.parametrize("what", ["run", "experiment"])
def test_what_is_deleted_while_a_job_logs_to_it_costs_that_job_its_runs_alone(results, warnings_of, what):
    plan = make_plan(["one"])
    (arm,) = plan["arms"]
    trials, fits = write_arm(results, arm)
    tracker = open_tracker(results, plan)
    tracker.arm(arm)
    client = make_client(tracking_uri(results, None))
    (parent,) = run_of(results, f"arm:{arm['id']}")
    if what == "run":
        client.delete_run(parent.info.run_id)
    else:
        client.delete_experiment(parent.info.experiment_id)
    log_live(tracker, arm, trials, fits)
    assert tracker.tracker is None
    (line,) = warnings_of()
    assert "is deleted.); leave the runs of a job alone until it has ended. Records are complete" in line
    assert open_tracker(results, plan).tracker
    fill(results, plan)
    (parent,) = run_of(results, f"arm:{arm['id']}")
    (fit,) = run_of(results, f"fit:{arm['id']}:0:0")
    assert (parent.info.status, fit.data.tags["mlflow.parentRunId"]) == ("FINISHED", parent.info.run_id)


def test_an_error_of_a_cloud_that_keeps_artifacts_costs_one_warning(results, warnings_of, monkeypatch):
    class NoCredentialsError(Exception):
        """As botocore's, which is of no class that others have."""

    def upload(*_):
        raise NoCredentialsError("Unable to locate credentials")

    plan = make_plan(["one"])
    tracker = open_tracker(results, plan)
    monkeypatch.setattr(Tracker, "arm", upload)
    tracker.arm(plan["arms"][0])
    assert tracker.tracker is None
    assert "cannot be used (Unable to locate credentials); " in warnings_of()[0]


def test_a_folder_that_takes_no_note_either_costs_one_warning_a_job(tmp_path, warnings_of):
    """As another user's, in results that several share: the note of a store given up lies beside the store."""
    results, plan = Results(tmp_path), make_plan(["one"])
    results.store.touch()
    for jobs in (1, 2):
        assert open_tracker(results, plan).tracker is None
        assert len(warnings_of()) == jobs
    assert "File exists" in warnings_of()[0]


def test_a_database_that_may_not_be_written_is_not_to_be_deleted(results):
    uri = tracking_uri(results, None)
    create_store(uri, artifact_folder(results), "made")
    with closing(sqlite3.connect(f"file:{results.store / 'mlflow.db'}?mode=ro", uri=True)) as database:
        told = r"\(attempt to write a readonly database\); copy the results to where you may write$"
        with pytest.raises(StudyError, match=told), mlflow_errors(uri):
            database.execute("DELETE FROM metrics")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOENT])
def test_a_server_whose_artifacts_lie_in_a_folder_of_its_own_is_to_take_them(code):
    with (
        pytest.raises(StudyError, match=r"'/srv/1'\); the server names this folder for artifacts: start it so"),
        mlflow_errors("http://tracking.example.org"),
    ):
        raise OSError(code, os.strerror(code), "/srv/1")


def test_a_store_that_another_program_locks_is_not_to_be_deleted(results):
    uri = tracking_uri(results, None)
    create_store(uri, artifact_folder(results), "made")
    file = results.store / "mlflow.db"
    with closing(sqlite3.connect(file)) as other, closing(sqlite3.connect(file, timeout=0)) as ours:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StudyError, match=r"\(database is locked\); close the program"), mlflow_errors(uri):
            ours.execute("DELETE FROM metrics")


def test_a_store_on_a_full_disk_is_not_to_be_deleted(results):
    uri = tracking_uri(results, None)
    create_store(uri, artifact_folder(results), "made")
    with closing(sqlite3.connect(results.store / "mlflow.db")) as database:
        database.execute("PRAGMA max_page_count = 1")  # pages that it has already stay
        told = r"\(database or disk is full\); make room on its disk, if that is full$"
        with pytest.raises(StudyError, match=told), mlflow_errors(uri):
            database.execute("CREATE TABLE more AS SELECT hex(randomblob(100000)) AS text")


def test_file_that_is_no_database(tmp_path, warnings_of):
    results = Results(tmp_path)
    results.store.mkdir()
    (results.store / "mlflow.db").write_text("not a database " * 100)
    assert open_tracker(results, make_plan(["one"])).tracker is None
    (line,) = warnings_of()
    assert "file is not a database" in line
    assert "delete" in line


def test_store_whose_making_was_cut_short_is_made_anew(tmp_path, monkeypatch):
    results = Results(tmp_path)
    uri, file = tracking_uri(results, None), results.store / "mlflow.db"

    def full(*_):
        with closing(sqlite3.connect(file)) as database:
            database.execute("CREATE TABLE experiments (half INTEGER)")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ssma.track.store.make_client", full)
        with pytest.raises(StudyError, match="No space left"):
            create_store(uri, artifact_folder(results), "made")
    assert file.exists()
    experiment = create_store(uri, artifact_folder(results), "made")
    assert make_client(uri).get_experiment(experiment).name == "made"
    assert create_store(uri, artifact_folder(results), "made") == experiment


def test_without_mlflow(tmp_path, warnings_of, monkeypatch):
    for name in ("mlflow", "mlflow.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    assert open_tracker(Results(tmp_path), make_plan(["one"])).tracker is None
    assert "MLflow cannot be imported" in warnings_of()[0]


def test_switched_off_is_silent(tmp_path, warnings_of):
    plan = make_plan(["one"])
    plan["config"]["track"]["enabled"] = False
    tracker = open_tracker(Results(tmp_path), plan)
    tracker.finish(plan["arms"][0], "ok")
    assert warnings_of() == []
    assert not any(tmp_path.iterdir())


def test_a_user_without_a_home_folder_costs_the_store_only(tmp_path, monkeypatch):
    def homeless(name, *arguments, real=builtins.__import__, **named):
        if name == "mlflow.exceptions":
            raise RuntimeError("Could not determine home directory.")
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", homeless)
    told = "MLflow cannot be imported .*home directory.*track.enabled: false"
    with pytest.raises(StudyError, match=told), mlflow_errors(f"sqlite:///{tmp_path}/mlflow.db"):
        pass


def test_variables_of_a_users_other_work_cost_nothing(tmp_path):
    """An active model, to which MLflow's client logs too, and workspaces, which the store of a study does not have."""
    plan, results = make_plan(["one"]), Results(tmp_path)
    write_arm(results, plan["arms"][0])
    write_record(results.plan, plan)
    variables = {"MLFLOW_ACTIVE_MODEL_ID": "m-1", "MLFLOW_ENABLE_WORKSPACES": "true", "MLFLOW_WORKSPACE": "team"}
    variables |= {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "MLFLOW_RUN_ID": "1", "MLFLOW_EXPERIMENT_NAME": "other"}
    command = [sys.executable, "-m", "ssma", "track", str(results.plan)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted({key.partition(":")[0] for key in runs_of(results)}) == ["arm", "fit", "trial"]


def test_an_error_that_is_not_of_the_store_does_not_advise_to_delete_it():
    for error, told in (
        (KeyError("epochs"), "(KeyError('epochs')); set track.uri, or track.enabled: false"),
        (
            sqlite3.DatabaseError("malformed"),
            "(malformed); delete /r/mlflow.db, if it has runs of this study alone, to ",
        ),
    ):
        with pytest.raises(StudyError, match=re.escape(told)), mlflow_errors("sqlite:////r/mlflow.db"):
            raise error
