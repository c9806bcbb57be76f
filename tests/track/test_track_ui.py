import errno
import os
import socket
import sys

import pytest
from made_records import make_plan

from ssma.cli import main
from ssma.study.paths import Results
from ssma.study.records import write_record
from ssma.track.store import make_client, tracking_uri


def started(folder, monkeypatch, uri):
    """Returns the arguments of MLflow that `ssma ui` becomes."""
    commands = []
    monkeypatch.setattr(os, "execve", lambda program, arguments, environment: commands.append(arguments))
    monkeypatch.setattr("ssma.track.ui._check_free", lambda port: None)  # another UI may run on this machine
    write_record(folder / "plan.json", make_plan(["one"], uri=uri))
    assert main(["ui", str(folder / "plan.json"), "--port", "5001"]) == 0
    return commands


def test_the_ui_is_opened_on_the_store_beside_the_results(tmp_path, monkeypatch):
    store = f"sqlite:///{tmp_path}/mlflow/mlflow.db"
    arguments = ["ui", "--backend-store-uri", store, "--workers", "1", "--port", "5001"]
    assert started(tmp_path, monkeypatch, None) == [[sys.executable, "-m", "mlflow", *arguments]]


def test_options_of_a_server_for_other_work_are_none_of_the_ui(tmp_path, monkeypatch):
    """MLflow takes them from the environment, and ends, or answers at another address than the one that is told."""
    environments = []
    monkeypatch.setattr(os, "execve", lambda program, arguments, environment: environments.append(environment))
    monkeypatch.setattr("ssma.track.ui._check_free", lambda port: None)
    write_record(tmp_path / "plan.json", make_plan(["one"]))
    assert main(["ui", str(tmp_path / "plan.json")]) == 0
    for name, value in (
        ("MLFLOW_ARTIFACTS_ONLY", "true"),
        ("MLFLOW_HOST", "mlflow.example.org"),
        ("MLFLOW_READ_REPLICA_BACKEND_STORE_URI", "sqlite:////elsewhere/runs.db"),
        ("MLFLOW_REGISTRY_STORE_URI", "postgresql://ann@127.0.0.1:9/models"),
        ("MLFLOW_SERVER_ALLOWED_HOSTS", "mlflow.example.org"),
        ("MLFLOW_STATIC_PREFIX", "/mlflow"),
        ("MLFLOW_WORKSPACE", "team"),
        ("UVICORN_UDS", "/run/other.sock"),
    ):
        monkeypatch.setenv(name, value)
    assert main(["ui", str(tmp_path / "plan.json")]) == 0
    assert environments[0] == environments[1]


def test_a_relative_store_is_that_of_the_study_wherever_the_ui_is_called(tmp_path, monkeypatch):
    folder, elsewhere = tmp_path / "mine/results/made", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (arguments,) = started(folder, monkeypatch, "sqlite:///runs/own.db")
    assert f"sqlite:///{tmp_path}/mine/runs/own.db" in arguments
    assert (tmp_path / "mine/runs/own.db").exists() and not any(elsewhere.iterdir())


def test_a_tracking_server_has_its_own_ui(tmp_path, monkeypatch, capsys):
    assert started(tmp_path, monkeypatch, "https://mlflow.example.org") == []
    assert capsys.readouterr().out == "MLflow UI: https://mlflow.example.org (the study's tracking server)\n"


def test_the_ui_of_moved_results_shows_their_artifacts_there(results, tmp_path, monkeypatch):
    second = tmp_path / "second"
    started(results.root, monkeypatch, None)
    results.root.rename(second)
    started(second, monkeypatch, None)
    experiment = make_client(tracking_uri(Results(second), None)).get_experiment_by_name("made")
    assert experiment.artifact_location == (second / "mlflow/artifacts").as_uri()


def test_the_ui_of_results_that_cannot_be_written_says_what_to_do(results, monkeypatch, capsys):
    started(results.root, monkeypatch, None)

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("ssma.track.store.fcntl.flock", refuse)
    assert main(["ui", str(results.root / "plan.json")]) == 2
    assert "copy the results to where you may write" in capsys.readouterr().err


def test_a_port_that_no_machine_has_is_refused(tmp_path, capsys):
    write_record(tmp_path / "plan.json", make_plan(["one"]))
    assert main(["ui", str(tmp_path / "plan.json"), "--port", "65536"]) == 2
    assert capsys.readouterr().err == "ssma: --port: got 65536, expected a number from 1 to 65535\n"


def test_a_port_that_is_taken_is_refused_before_the_ui_is_said_to_be_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("MLflow was started"))
    write_record(tmp_path / "plan.json", make_plan(["one"]))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["ui", str(tmp_path / "plan.json"), "--port", str(port)]) == 2
    told = f"ssma: --port: {port} cannot be used (Address already in use); give another one\n"
    assert capsys.readouterr().err == told
