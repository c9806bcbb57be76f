"""The command line's output, where nobody reads it to its end, or cannot show all of it."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from ssma.cli import main
from ssma.study.config import parse_study
from ssma.study.lookup import read_plan
from ssma.study.plan import make_plan
from ssma.study.records import write_record

ROOT = Path(__file__).parents[1]
MADE = {"source": "synthetic", "task": "product_regression", "num_graphs": 30}


def written(folder, data=MADE, axes=None, **own):
    """Writes a study of one data set, with the user's ``own`` classes, and returns its path."""
    study = {
        "study": "s",
        "datasets": {"d": data},
        "layers": ["gcn"],
        "aggregators": {name: {"class": path} for name, path in own.items()},
        "ablations": {"a": {"axes": axes or {"aggregator": ["sum"]}}},
    }
    (folder / "study.yaml").write_text(json.dumps(study))
    return str(folder / "study.yaml")


def planned(folder, *study, **own):
    """Writes the plan of such a study, and returns its path."""
    plan = str(folder / "plan.json")
    assert main(["plan", written(folder, *study, **own), "--write", plan]) == 0
    return plan


def made_up(folder, tracked=True, **parts):
    """Writes a plan of no arms, or of the given ``parts``, and returns its path."""
    plan = {"kind": "plan", "study": "s", "config": {"track": {"enabled": tracked}}}
    write_record(folder / "results" / "plan.json", plan | {"arms": [], "datasets": {}, "ablations": {}} | parts)
    return folder / "results" / "plan.json"


def start(*arguments, **variables):
    return subprocess.Popen(
        [sys.executable, "-m", "ssma", *arguments], env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )  # fmt: skip


def test_a_reader_that_leaves_early_causes_no_traceback():
    run = start("schema")
    run.stdout.close()
    assert run.stderr.read() == b""
    assert run.wait() == 0


def test_a_closed_output_stops_no_command():
    command = ["sh", "-c", f"'{sys.executable}' -m ssma schema >&-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_that_lacks_a_character_stops_no_command(tmp_path):
    (tmp_path / "own.py").write_text("class Mine:\n    pass\n")
    study = written(tmp_path, axes={"mine.name": ["gr\u00f6\u00dfe"]}, mine="own.Mine")
    run = start("plan", study, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}", PYTHONIOENCODING="ascii")
    output, errors = run.communicate()
    assert errors == b""
    assert b"d / gcn / mine (name=gr??e)" in output


def test_the_output_of_a_notebook_is_written_to(tmp_path):
    with contextlib.redirect_stdout(io.StringIO()) as output:  # which cannot be reconfigured, as that of IPython
        assert main(["plan", written(tmp_path)]) == 0
    assert "1 arm, 0 trials, 10 fits" in output.getvalue()


def test_a_thread_of_another_program_can_call(tmp_path, capsys):
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(main, ["plan", written(tmp_path)]).result() == 0
    assert "1 arm, 0 trials, 10 fits" in capsys.readouterr().out


def test_figures_need_no_backend_of_the_notebook_that_calls():
    draws = (
        "import ssma.cli as c; c._schema = lambda _: print(__import__('matplotlib').get_backend()); c.main(['schema'])"
    )
    variables = {"PYTHONPATH": str(ROOT), "MPLBACKEND": "module://of_a_notebook.backend_inline"}
    done = subprocess.run(
        [sys.executable, "-c", draws], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("agg\n", "")


def test_who_stops_a_command_sees_one_word_and_the_shell_sees_the_signal():
    stopped = "import ssma.cli as c, signal; c._schema = lambda _: signal.raise_signal(signal.SIGINT)"
    command = [sys.executable, "-c", f"{stopped}; c.main(['schema'])"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "KeyboardInterrupt\n")


@pytest.mark.parametrize(
    ("name", "wanted", "status", "told"),
    [("SIGHUP", "SIG_DFL", 143, ""), ("SIGHUP", "SIG_IGN", 0, "goes on\n"), ("SIGTERM", "SIG_IGN", 143, "")],
)
def test_who_closes_a_terminal_stops_a_command_unless_nohup_was_called(name, wanted, status, told):
    closed = f"c._schema = lambda _: signal.raise_signal(signal.{name}) or print('goes on')"
    run = f"import ssma.cli as c, signal; signal.signal(signal.{name}, signal.{wanted}); {closed}; c.main(['schema'])"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", run], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, told, "")


def test_a_connection_that_breaks_is_no_reader_that_left(monkeypatch):
    def lost(options):
        raise BrokenPipeError("the database is gone")

    monkeypatch.setattr("ssma.cli._schema", lost)
    with pytest.raises(BrokenPipeError, match="the database is gone"):
        main(["schema"])


def test_a_class_that_was_changed_since_the_plan_trains_nothing(tmp_path, monkeypatch, capsys):
    source = tmp_path / "my_sum.py"
    source.write_text("class Mine:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    plan = planned(tmp_path, MADE, {"aggregator": ["mine"]}, mine="my_sum.Mine")
    source.write_text("class Mine:\n    factor = 2\n")
    assert main(["evaluate", plan, "mine"]) == 2
    assert "my_sum.Mine: its file is not that which the plan was made with" in capsys.readouterr().err
    source.write_text("# a comment\nclass Mine:\n    pass\n")
    assert main(["evaluate", plan, "mine"]) == 2
    assert "card.json: missing; the data set is not prepared" in capsys.readouterr().err


def test_an_arm_is_tuned_before_it_is_evaluated(tmp_path, capsys):
    study, plan = Path(written(tmp_path)), str(tmp_path / "plan.json")
    study.write_text(json.dumps(json.loads(study.read_text()) | {"tune": {"space": {"training.lr": [0.1, 0.2]}}}))
    assert main(["plan", str(study), "--write", plan]) == 0
    assert main(["prepare", plan, "d"]) == 0
    assert main(["evaluate", plan, "gcn"]) == 2
    arm = read_plan(Path(plan))["arms"][0]["id"]
    told = capsys.readouterr().err
    assert f"arm {arm} is not tuned yet: " in told and told.endswith(f" tune {plan} {arm}\n")


def test_a_data_set_class_that_was_changed_since_the_plan_is_not_prepared(tmp_path, monkeypatch, capsys):
    source, file = tmp_path / "changed.py", tmp_path / "list.txt"
    source.write_text("class Set(list):\n    def __init__(self, file):\n        pass\n")
    file.write_text("1")
    monkeypatch.syspath_prepend(tmp_path)
    plan = planned(tmp_path, {"source": "pyg", "class": "changed.Set", "arguments": {"file": str(file)}})
    code = source.read_text()
    message = "changed.Set: its file, or one that its arguments name, is not that which the plan was made with"
    for changed, text in ((source, f"{code}        self.x = 1\n"), (file, "2")):
        before = changed.read_text()
        changed.write_text(text)
        assert main(["prepare", plan, "d"]) == 2
        assert message in capsys.readouterr().err
        changed.write_text(before)
    assert main(["prepare", plan, "d"]) == 2
    assert "no graph has a node" in capsys.readouterr().err


def test_one_job_at_a_time_prepares_a_data_set(tmp_path, monkeypatch, capsys):
    (tmp_path / "own.py").write_text(
        "import fcntl\n"
        "from pathlib import Path\n"
        "class Set(list):\n"
        "    def __init__(self, folder):\n"
        "        (path,) = Path(folder).rglob('prepare.lock')\n"
        "        fcntl.flock(path.open(), fcntl.LOCK_SH | fcntl.LOCK_NB)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plan = planned(tmp_path, {"source": "pyg", "class": "own.Set", "arguments": {"folder": str(tmp_path)}})
    assert main(["prepare", plan, "d"]) == 2
    assert "own.Set with {'folder': " in (errors := capsys.readouterr().err) and "BlockingIOError" in errors
    assert not list(tmp_path.rglob("prepare.lock"))


def test_status_tells_why_a_data_set_is_not_prepared(tmp_path, capsys):
    plan = planned(tmp_path)
    (folder := tmp_path / "logs" / "prepare").mkdir(parents=True)
    log = folder / f"{read_plan(Path(plan))['datasets']['d']['id']}.log"
    for text, why in ((None, ""), ("", ""), ("a warning\nssma: no y; mend it\n", f": no y; mend it ({log})")):
        if text is not None:
            log.write_text(text)
        capsys.readouterr()
        assert main(["status", plan, "--out", str(tmp_path)]) == 0
        assert f"  data set d is not prepared{why}\n" in capsys.readouterr().out


def test_status_tells_that_the_disk_is_full(tmp_path, capsys, monkeypatch):
    """The logs of jobs that a full disk ended are empty."""
    plan = made_up(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free={plan.parent: 4096}[path]))
    assert main(["status", str(plan)]) == 0
    told = f"  the disk of {plan.parent} is full (4096 B left); make room and start the study again"
    assert told in capsys.readouterr().out.splitlines()
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=2**21))
    assert main(["status", str(plan)]) == 0
    assert "is full" not in capsys.readouterr().out


def test_status_tells_of_every_arm_that_was_begun_why_it_has_no_result(tmp_path, capsys):
    """Arms by name: one whose search failed has no evaluation; one whose job was killed left nothing but its log."""
    arms = ["done", "searched", "evaluated", "killed", "tuning", "at once", "waiting", "damaged"]
    plan = {"kind": "plan", "study": "s", "config": {"track": {"enabled": False}}, "datasets": {}, "ablations": {}}
    theory = {"mixing": {"id": "mixing-1"}, "growth": {"id": "growth-2"}, "torn": {"id": "torn-3"}}
    write_record(tmp_path / "plan.json", plan | {"arms": [{"id": arm} for arm in arms], "theory": theory})
    for path, status, reason in (
        ("done/chosen", "ok", None),
        ("done/evaluation", "ok", None),
        ("searched/chosen", "failed", "no valid trial: no memory"),
        ("evaluated/chosen", "ok", None),
        ("evaluated/evaluation", "failed", "2 of 3 fits failed"),
        ("killed/chosen", "ok", None),
        ("waiting/chosen", "ok", None),
    ):
        record = {"kind": Path(path).name, "arm_id": Path(path).parent.name, "status": status, "reason": reason}
        write_record(tmp_path / "arms" / f"{path}.json", record)
    for path, text in (
        ("tune/killed", "2 trials\n"),
        ("tune/waiting", "2 trials\n"),
        ("evaluate/killed", "a\nfit 3 of 9\n\n"),
        ("tune/tuning", "ssma: no x\n"),
        ("theory/mixing-1", "epoch 7\n"),
    ):
        (log := tmp_path / "logs" / f"{path}.log").parent.mkdir(parents=True, exist_ok=True)
        log.write_text(text)
    (tmp_path / "logs/evaluate/at once.log").touch()
    damaged, torn = tmp_path / "arms/damaged/evaluation.json", tmp_path / "theory/torn-3.json"
    for path in (damaged, torn):
        path.parent.mkdir()
        path.write_text('{"status": "ok", "seal": "0"}')
    assert main(["status", str(tmp_path / "plan.json"), "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "s: 1 of 8 arms with a result",
        "  searched: no valid trial: no memory",
        "  evaluated: 2 of 3 fits failed",
        f"  killed: no result yet; {tmp_path}/logs/evaluate/killed.log ends with: fit 3 of 9",
        f"  tuning: no result yet; {tmp_path}/logs/tune/tuning.log ends with: no x",
        f"  at once: no result yet; {tmp_path}/logs/evaluate/at once.log is empty",
        f"  damaged: {damaged}: changed after it was sealed; delete it to have it made again",
        f"  theory experiment mixing: no result yet; {tmp_path}/logs/theory/mixing-1.log ends with: epoch 7",
        "  theory experiment growth: it has not run",
        f"  theory experiment torn: {torn}: changed after it was sealed; delete it to have it made again",
    ]


def test_status_tells_where_the_page_of_an_ablation_is_that_was_run_alone(tmp_path, capsys):
    plan = made_up(tmp_path, ablations={"width": {}, "depth": {}})

    def told():
        assert main(["status", str(plan), "--out", str(tmp_path)]) == 0
        return [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:-1]]

    assert told() == []
    for page in ("ablations/width/index.html", "index.html"):
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / page).touch()
    assert told() == [["report", f"{tmp_path}/index.html"], ["width", f"{tmp_path}/ablations/width/index.html"]]


def test_status_tells_that_a_report_is_of_the_study_before_it_was_changed(tmp_path, capsys):
    plan, out = made_up(tmp_path), tmp_path / "report"
    out.mkdir()
    line = "  The report is not of the whole study as it was started last; a run makes it anew at its end"
    for change, told in ((b"", False), (b" ", True)):
        (out / "plan.json").write_bytes(plan.read_bytes() + change)
        assert main(["status", str(plan), "--out", str(out)]) == 0
        assert (line in capsys.readouterr().out.splitlines()) == told


def test_status_tells_of_a_note_that_is_no_text(tmp_path, capsys):
    plan = made_up(tmp_path)
    (folder := plan.parent / "mlflow").mkdir()
    (folder / "unusable").write_bytes(b"disk \xff full")
    assert main(["status", str(plan), "--out", str(tmp_path)]) == 0
    assert "MLflow was not filled: disk \ufffd full. Mend it" in capsys.readouterr().out


def test_status_tells_a_reason_of_several_lines_in_one(tmp_path, capsys):
    plan = made_up(tmp_path, tracked=False, arms=[{"id": "a"}])
    failed = {"kind": "evaluation", "arm_id": "a", "status": "failed", "reason": "CUDA error: assert\nDebug with X\n"}
    write_record(plan.parent / "arms" / "a" / "evaluation.json", failed)
    assert main(["status", str(plan), "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "s: 0 of 1 arm with a result\n  a: CUDA error: assert Debug with X\n"


def test_track_and_plan_tell_one_of_a_thing_as_one(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("ssma.track.fill.fill", lambda results, plan: {"arms": 1, "trials": 2, "new_runs": 1})
    assert main(["track", str(made_up(tmp_path))]) == 0
    assert capsys.readouterr().out == "1 arm, 2 trials, 1 new run\n"
    study = {
        "study": "s",
        "datasets": {"d": {"source": "synthetic", "task": "product_classification", "num_graphs": 30}},
        "layers": ["gcn"],
        "ablations": {},
    }
    study["ablations"]["kappa"] = {"axes": {"aggregator": ["ssma", "sum"]}}
    study["tune"] = {"trials": 1, "splits": 1, "space": {"ssma.kappa": [2, 3]}}
    (path := tmp_path / "study.yaml").write_text(json.dumps(study))
    assert main(["plan", str(path)]) == 0
    assert [line[44:58] for line in capsys.readouterr().out.splitlines()[:2]] == ["    1 trial  d", "   0 trials  d"]


def test_status_offers_no_ui_where_nothing_is_tracked(tmp_path, capsys):
    for enabled in (True, False):
        plan = made_up(tmp_path, tracked=enabled)
        assert main(["status", str(plan), "--out", str(tmp_path)]) == 0
        assert (f" ui {plan}" in capsys.readouterr().out) is enabled


@pytest.mark.parametrize("command", ["status {}", "show {} x", "tune {} x", "track {}", "data stats {}"])
def test_a_record_that_is_no_plan_is_named(tmp_path, capsys, command):
    path = tmp_path / "fit.json"
    write_record(path, {"kind": "fit", "id": "0"})
    assert main(command.format(path).split()) == 2
    told = f"ssma: {path}: is a record of kind 'fit', expected results/<study>/plan.json\n"
    assert capsys.readouterr().err == told


def test_a_plan_that_was_cut_short_is_no_study_file(tmp_path, capsys):
    path = Path(planned(tmp_path))
    capsys.readouterr()
    path.write_text(path.read_text()[:300])
    assert main(["status", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"ssma: {path}: not a sealed record (Unterminated string")


def test_a_plan_that_is_given_as_a_study_file_is_named(tmp_path, capsys):
    plan = planned(tmp_path)
    assert main(["plan", plan]) == 2
    told = f"ssma: {plan}: is a record that was made of a study (plan); give the study file\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    "command",
    [
        "store {}",
        "prepare {} d",
        "tune {} x",
        "evaluate {} x",
        "collect {}",
        "track {}",
        "status {}",
        "show {} x",
        "rerun {} x",
        "ui {}",
        "theory {} t",
    ],
)
def test_a_report_is_not_taken_for_results(tmp_path, capsys, command):
    """To collect the records that it does not have emptied its table, from which everything in it is drawn."""
    write_record(tmp_path / "plan.json", {"kind": "plan", "study": "s", "arms": [], "datasets": {}, "theory": {}})
    for name in ("records.parquet", "index.html"):
        (tmp_path / name).write_text(name)
    assert main(command.format(tmp_path / "plan.json").split()) == 2
    told = f"ssma: {tmp_path}: is a report without the records of fits; give the study file, or the plan in the results"
    error = capsys.readouterr().err
    assert error.startswith(told)
    anew = "`snakemake --cores all results/s/arms/ARM/evaluated --configfile STUDY.yaml` trains an arm of it anew\n"
    assert error.endswith(anew)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["index.html", "plan.json", "records.parquet"]
    assert (tmp_path / "records.parquet").read_text() == "records.parquet"


@pytest.mark.parametrize(
    "command", [["show", "plan.json", ""], ["report", "plan.json", "--out", ""], ["report", "plan.json", "--out="]]
)
def test_an_empty_argument_is_refused(capsys, command):
    """A variable of the shell that is not set would be taken for the working directory, or for all."""
    assert main(command) == 2
    assert capsys.readouterr().err == "ssma: an argument is empty, as where a variable of the shell is not set\n"


@pytest.mark.parametrize("command", ["status {}", "data stats --mirror {}", "report {} --out x", "plan {}"])
def test_a_path_that_no_file_can_have_is_named_in_one_line(capsys, command):
    path = "x" * 300
    assert main(command.format(path).split()) == 2
    assert f"{path}: " in (told := capsys.readouterr().err) and "File name too long" in told
    assert told.count("\n") == 1


def test_a_text_that_is_too_long_for_a_file_is_looked_for_among_arms(tmp_path, capsys):
    """Labels of arms with many settings are."""
    plan = tmp_path / "plan.json"
    assert main(["plan", str(ROOT / "config.yaml"), "--write", str(plan)]) == 0
    for command in ("show", "rerun"):
        assert main([command, str(plan), "x" * 300]) == 2
        assert f"no arm has '{'x' * 300}' in id or label; give the id of one: " in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "\u00b2", "9" * 30, "9" * 5000])
def test_a_number_of_threads_that_no_machine_has_is_refused(capsys, number):
    with pytest.raises(SystemExit) as caught:
        main(["tune", "plan.json", "x", "--threads", number])
    assert caught.value.code == 2
    assert f"got {number!r}, expected a whole number from 1 to 999999" in capsys.readouterr().err


def test_a_benchmark_that_could_not_be_written_measures_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("ssma.bench.command.bench_aggr", lambda *_: pytest.fail("it was started"))
    (file := tmp_path / "file").touch()
    assert main(["bench", "aggr", "--quick", "--out", str(file)]) == 2
    assert capsys.readouterr().err == f"ssma: {file}: File exists\n"


@pytest.mark.parametrize("path", [".", "/"])
def test_a_plan_is_not_written_to_a_folder(capsys, path):
    assert main(["plan", str(ROOT / "config.yaml"), "--write", path]) == 2
    assert capsys.readouterr().err.startswith(f"ssma: {path}: cannot be written (")


@pytest.mark.parametrize("name", ["STUDY.YML", "study.txt", "study", "study.json"])
def test_a_study_file_is_one_whatever_it_is_called(tmp_path, monkeypatch, capsys, name):
    """One that is not called .yaml was taken for a plan, and as such it was to be deleted."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "config.yaml").read_text()
    Path(name).write_text(json.dumps(yaml.safe_load(text)) if name == "study.json" else text)
    assert main(["status", name]) == 2
    assert capsys.readouterr().err == (
        "ssma: results/quickstart/plan.json: is not there; a plan is written when its study is started (snakemake "
        "--cores all --configfile STUDY.yaml) or by `ssma plan STUDY.yaml --write results/quickstart/plan.json`, and "
        "looked for in the folder that a command is called in\n"
    )


@pytest.mark.parametrize(
    ("table", "key", "now", "told"),
    [
        ("splits", "seed", {}, False),
        ("splits", "seed", {"splits": {"seed": 1}}, True),
        ("splits", "seed", {"splits": {"folds": 4}}, True),
        ("tune", "storage", {}, False),
        ("datasets", "MUTAG", {}, True),
    ],
)
def test_a_plan_of_older_code_is_of_the_same_study(tmp_path, monkeypatch, caplog, table, key, now, told):
    """It lacks the keys that came since; an entry of the user's own it does not lack."""
    monkeypatch.chdir(tmp_path)
    study = {
        "study": "s",
        "datasets": {"MUTAG": {"source": "tu"}, "PROTEINS": {"source": "tu"}},
        "layers": ["gcn"],
        "ablations": {"slots": {"axes": {"ssma.kappa": [2, 3]}}},
    }
    plan = make_plan(parse_study(study))
    del plan["config"][table][key]
    write_record(Path("results/s/plan.json"), plan)
    Path("study.yaml").write_text(json.dumps(study | now))
    assert main(["status", "study.yaml"]) == 0
    assert [message.partition("other values of ")[2].split()[0] for message in caplog.messages] == [table] * told


def test_a_study_file_that_says_otherwise_than_the_plan_is_told(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    study = yaml.safe_load((ROOT / "config.yaml").read_text())
    Path("study.yaml").write_text(json.dumps(study))
    assert main(["plan", "study.yaml", "--write", "results/quickstart/plan.json"]) == 0
    assert main(["status", "study.yaml"]) == 0
    assert not caplog.messages
    Path("study.yaml").write_text(json.dumps(study | {"layers": ["gat"], "title": "Other"}))
    assert main(["status", "study.yaml"]) == 0
    assert caplog.messages == [
        "results/quickstart/plan.json: is of the study as it was started last, with other values of title, layers than "
        "study.yaml has now"
    ]
