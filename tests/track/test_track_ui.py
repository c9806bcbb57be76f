import os
import sys

from made_records import make_plan

from ssma.cli import main
from ssma.study.records import write_record


def started(tmp_path, monkeypatch, uri):
    """Returns the arguments of MLflow that `ssma ui` becomes."""
    commands = []
    monkeypatch.setattr(os, "execve", lambda program, arguments, environment: commands.append(arguments))
    write_record(tmp_path / "plan.json", make_plan(["one"], uri=uri))
    assert main(["ui", str(tmp_path / "plan.json"), "--port", "5001"]) == 0
    return commands


def test_the_ui_is_opened_on_the_store_beside_the_results(tmp_path, monkeypatch):
    store = f"sqlite:///{tmp_path}/mlflow/mlflow.db"
    arguments = ["ui", "--backend-store-uri", store, "--workers", "1", "--port", "5001"]
    assert started(tmp_path, monkeypatch, None) == [[sys.executable, "-m", "mlflow", *arguments]]


def test_a_tracking_server_has_its_own_ui(tmp_path, monkeypatch, capsys):
    assert started(tmp_path, monkeypatch, "https://mlflow.example.org") == []
    assert capsys.readouterr().out == "MLflow UI: https://mlflow.example.org (the study's tracking server)\n"
