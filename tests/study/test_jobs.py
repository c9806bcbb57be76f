"""What the workflow puts before each job's command, and which jobs it takes for done."""

import errno
import getpass
import json
import os
import subprocess
import threading
import time
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from snakemake.shell import shell

from ssma.errors import StudyError
from ssma.study.config import parse_study
from ssma.study.ids import git_commit
from ssma.study.jobs import (
    begin,
    date_today,
    forget_lost,
    forget_outdated,
    free_dead_locks,
    prepare_jobs,
    runs_nothing,
)
from ssma.study.locks import exclusive
from ssma.study.notes import Notes
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.records import read_record, write_record
from ssma.track.live import try_again


def test_jobs_get_paths_with_any_characters(tmp_path, monkeypatch):
    package, own = tmp_path / "it's a {x} $y", tmp_path / "own {0}"
    monkeypatch.setenv("PYTHONPATH", str(own))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(shell, "_process_prefix", None)
    shell.prefix(prepare_jobs(package))
    command = shell._process_prefix + 'printf %s "$PYTHONPATH"'
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert found.stdout == f"{package}:{own}"


@pytest.mark.parametrize(
    ("arguments", "nothing"),
    [
        ("--cores 2 --summary", True),
        ("--cores 2 --summ --configfile s.yaml", True),
        ("--dag=dot", True),
        ("-S", True),
        ("--executor dryrun", True),
        ("--exec=dryrun", True),
        ("--exe dryrun", True),
        ("-pe dryrun", True),
        ("-e dryrun --cores 2", True),
        ("--report page.html", True),
        ("--report page.html --report-after-run", False),
        ("--cores 2 --configfile dryrun", False),
        ("--executor slurm dryrun", False),
        ("--rerun-incomplete -- all", False),
        ("", False),
    ],
)
def test_a_start_that_runs_no_job_is_known_however_it_is_written(arguments, nothing):
    assert runs_nothing(arguments.split()) is nothing


@pytest.mark.parametrize("known", [True, False])
def test_a_user_whom_the_machine_does_not_know_has_a_name(tmp_path, monkeypatch, known):
    monkeypatch.setenv("PATH", os.environ["PATH"])
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "")  # which restores them after the test

    def unknown(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    if not known:
        monkeypatch.setattr("pwd.getpwuid", unknown)
    name = getpass.getuser() if known else str(os.getuid())
    prepare_jobs(tmp_path)
    assert getpass.getuser() == name


@pytest.mark.parametrize("variable", ["OMP_PROC_BIND=true", "OMP_PLACES=cores", "GOMP_CPU_AFFINITY=0"])
def test_jobs_side_by_side_are_not_bound_to_one_core(tmp_path, monkeypatch, variable):
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv(*variable.split("="))
    monkeypatch.setattr(shell, "_process_prefix", None)
    shell.prefix(prepare_jobs(tmp_path))
    cores = "python -c 'import os; import torch; print(len(os.sched_getaffinity(0)))'"
    found = subprocess.run(["bash", "-c", shell._process_prefix + cores], capture_output=True, text=True, check=True)
    assert int(found.stdout) == len(os.sched_getaffinity(0))


def test_sets_of_texts_have_one_order_in_all_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    monkeypatch.setattr(shell, "_process_prefix", None)
    shell.prefix(prepare_jobs(tmp_path))
    command = ["bash", "-c", shell._process_prefix + "python -c 'print(list(set(\"C N O F Cl Br I P S\".split())))'"]
    orders = {subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(3)}
    assert len(orders) == 1 and "Br" in orders.pop()


FOREIGN = {"kind": "card", "seal": "x"}


def flagged(results):
    """Makes the flags of an arm that is tuned and evaluated, and returns them by name."""
    flags = {name: results.arm("arm") / name for name in ("tuned", "evaluated")}
    for flag in flags.values():
        flag.touch()
    return flags


@pytest.mark.parametrize(
    "damage", ["", '{"fits": [{"id": "aa1', "\0\0\0", "[1]", "[" * 100_000, '{"fits": []}', json.dumps(FOREIGN), None]
)
@pytest.mark.parametrize(("record", "lost"), [("chosen", {"tuned", "evaluated"}), ("evaluation", {"evaluated"})])
def test_a_record_that_was_cut_short_is_as_good_as_deleted(tmp_path, record, lost, damage):
    results = Results(tmp_path)
    paths = {"chosen": results.chosen("arm"), "evaluation": results.evaluation("arm"), "fit": results.fit("aa11")}
    for path in paths.values():
        write_record(path, {"fits": [{"id": "aa11"}], "trials": []})
    flags = flagged(results)
    plan = {"arms": [{"id": "arm"}], "theory": {}}
    forget_lost(results, plan)
    assert all(flag.exists() for flag in flags.values())
    if damage is None:
        paths[record].unlink()
    else:
        paths[record].write_text(damage)
    forget_lost(results, plan)
    assert {name for name, flag in flags.items() if not flag.exists()} == lost


def test_a_record_that_cannot_be_read_is_named(tmp_path):
    results = Results(tmp_path)
    results.chosen("arm").mkdir(parents=True)
    with pytest.raises(StudyError, match=r"arms/arm/chosen\.json: cannot be read \(Is a directory\)"):
        forget_lost(results, {"arms": [{"id": "arm"}], "theory": {}})


def test_an_evaluation_without_its_fit_is_made_again(tmp_path):
    results = Results(tmp_path)
    write_record(results.chosen("arm"), {"status": "ok", "trials": []})
    write_record(results.evaluation("arm"), {"fits": [{"id": "aa11"}]})
    flags = flagged(results)
    forget_lost(results, {"arms": [{"id": "arm"}], "theory": {}})
    assert flags["tuned"].exists()
    assert not flags["evaluated"].exists()


def test_a_search_without_a_fit_of_a_trial_is_made_again(tmp_path):
    """The report had no comparison of selection rules for its arm, and no later run trained the fit again."""
    results = Results(tmp_path)
    trials = [{"state": "complete", "reason": None, "fits": {"0": "aa11", "1": "bb22"}}]
    write_record(results.chosen("arm"), {"status": "ok", "trials": trials})
    write_record(results.evaluation("arm"), {"fits": []})
    for fit in ("aa11", "bb22"):
        write_record(results.fit(fit), {})
    flags, plan = flagged(results), {"arms": [{"id": "arm"}], "theory": {}}
    forget_lost(results, plan)
    assert all(flag.exists() for flag in flags.values())
    results.fit("bb22").unlink()
    forget_lost(results, plan)
    assert not any(flag.exists() for flag in flags.values())


@pytest.mark.parametrize(
    ("reason", "lost"),
    [
        ("split 12 failed: OutOfMemoryError: CUDA out of memory", {"tuned", "evaluated"}),
        ("split 0 failed: model.budget: 100 parameters are too few, the smallest network (width 1) has 200", set()),
        ("split 0 diverged: the training loss was nan in epoch 3", set()),
        ("split 0 timeout: training.max_minutes (1) passed in epoch 3", set()),
        (None, set()),
    ],
)
def test_a_search_with_a_trial_that_failed_is_made_again(tmp_path, reason, lost):
    """It had ended well, by its other trials, and its arm kept fewer of them than others for good."""
    results = Results(tmp_path)
    states = {"complete": None, "failed" if reason else "pruned": reason}
    trials = [{"state": state, "reason": why, "fits": {}} for state, why in states.items()]
    write_record(results.chosen("arm"), {"status": "ok", "trials": trials})
    write_record(results.evaluation("arm"), {"fits": []})
    flags = flagged(results)
    forget_lost(results, {"arms": [{"id": "arm"}], "theory": {}})
    assert {name for name, flag in flags.items() if not flag.exists()} == lost


def test_what_is_older_than_the_records_of_its_arms_is_made_again(tmp_path, monkeypatch):
    """Snakemake looks at the content of what tells that an arm is done, which is empty. What it has a note of outlives
    a dry run of another plan, and a run of one in which the same is shown."""
    monkeypatch.chdir(tmp_path)
    results = Results(Path("results/s"))
    study = {
        "study": "s",
        "datasets": {"d": {"source": "synthetic", "task": "product_regression", "num_graphs": 30}},
        "layers": ["gcn"],
        "ablations": {name: {"axes": {"aggregator": [name]}} for name in ("max", "mean")},
    }
    plan = make_plan(parse_study(study))
    one, two = (arm["id"] for arm in plan["arms"])
    made = [results.frame, *(Path(f"reports/s/ablations/{name}/index.html") for name in ("max", "mean"))]
    note = Path(".snakemake/metadata", urlsafe_b64encode(str(made[1]).encode()).decode())

    def left(seconds, now=plan, dry=True, before=plan):
        for path in [*made, note]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        write_record(results.plan, before) if before else results.plan.unlink()
        for path in (record(arm) for arm in (one, two) for record in (results.chosen, results.evaluation)):
            write_record(path, {})
            os.utime(path, (0, 0))
        then = made[0].stat().st_mtime + seconds
        os.utime(results.evaluation(two), (then, then))
        forget_outdated(results, now, Notes(Path(".snakemake")), dry)
        return [path for path in made if path.exists()]

    assert left(seconds=-1) == made
    assert left(seconds=5) == [made[1]]
    assert left(seconds=-1, now=plan | {"title": "Other"}) == [made[1]]
    assert left(seconds=-1, now=plan | {"title": "Other"}, dry=False) == []
    assert left(seconds=-1, now=plan | {"theory": {"mixing": {}}}, dry=False) == made[1:]
    assert left(seconds=-1, dry=False) == made
    assert left(seconds=-1, dry=False, before=None) == made
    assert left(seconds=-1, dry=False, before=plan | {"ablations": {"mean": plan["ablations"]["mean"]}}) == made[2:]
    assert left(seconds=-1, dry=False, before=plan | {"ablations": ["max", "mean"]}) == []


def test_nothing_is_removed_of_results_that_are_read_only(tmp_path, monkeypatch):
    """There the system refuses to remove even what is not there."""

    def refused(path, missing_ok=False):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "unlink", refused)
    forget_lost(Results(tmp_path), {"arms": [{"id": "arm"}], "theory": {"mixing": {"id": "mixing-1"}}})
    try_again(Results(tmp_path))


def test_files_from_the_future_are_dated_today_those_that_others_are_made_of_first(tmp_path):
    of_arm = [f"arms/a/{name}" for name in ("chosen.json", "evaluation.json", "tuned", "evaluated")]
    names = ["mlflow/created", "data/d-1/card.json", *of_arm, "records.parquet"]
    now, old = time.time(), tmp_path / "arms/b/evaluated"
    for path in [old, *(tmp_path / name for name in names)]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (now - 60, now - 60) if path == old else (now + 3600, now + 3600))
    date_today(Results(tmp_path))
    dates = [(tmp_path / name).stat().st_mtime for name in names]
    assert dates == sorted(dates)
    assert max(dates) <= time.time()
    assert old.stat().st_mtime == pytest.approx(now - 60, abs=0.01)


def test_a_file_system_without_locks_is_named_in_one_error(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    for lock, take in (
        ("fit.lock", lambda: exclusive(tmp_path / "fit.lock").__enter__()),
        ("alive-mine", lambda: free_dead_locks(Notes(tmp_path), "mine")),
    ):
        with pytest.raises(StudyError) as caught:
            take()
        assert str(caught.value).startswith(f"{tmp_path / lock}: cannot be locked (No locks available); results need")


def test_the_locks_of_a_dead_study_are_freed_beside_a_living_one(tmp_path):
    locks = {
        "0.input.lock": "reports/mine/index.html\nresults/mine/records.parquet\n",
        "0.output.lock": "results/mine/arms/a/tuned\n",
        "1.output.lock": "results/mine2/plan.json\nresults/other/mine/x\n",
        "2.input.lock": "results/other/plan.json\n",
        "3.input.lock": "",
    }
    (tmp_path / "locks").mkdir()

    def kept_after(study):
        for name, files in locks.items():
            (tmp_path / "locks" / name).write_text(files)
        descriptor, alone = free_dead_locks(Notes(tmp_path), study)
        held.append(descriptor)
        return {path.name for path in (tmp_path / "locks").iterdir()}, alone

    held = []
    try:
        assert kept_after("other") == ({"0.input.lock", "0.output.lock", "3.input.lock"}, True)
        assert kept_after("mine") == ({"1.output.lock", "2.input.lock", "3.input.lock"}, True)
        assert kept_after("mine") == (set(locks), False)  # its first run is alive
        os.close(held.pop(1))
        os.close(held.pop(1))
        assert kept_after("mine") == ({"1.output.lock", "2.input.lock", "3.input.lock"}, True)
    finally:
        for descriptor in held:
            os.close(descriptor)


def test_a_plan_is_written_where_it_is_not_there_or_was_changed(tmp_path):
    results, plan = Results(tmp_path), {"kind": "plan", "study": "s", "lr": 0.1}
    begin(results, plan)
    made = results.plan.read_text()
    os.utime(results.plan, (0, 0))
    begin(results, plan)
    assert results.plan.stat().st_mtime == 0
    for other in (made.replace("0.1", "0.2"), made[:20], ""):
        results.plan.write_text(other)
        begin(results, plan)
        assert results.plan.read_text() == made
    begin(results, plan | {"lr": 0.2})
    assert read_record(results.plan)["lr"] == 0.2


def test_a_lock_that_cannot_be_made_is_named_in_one_error(tmp_path):
    (tmp_path / "fits").touch()
    with (
        pytest.raises(StudyError, match=r"fits/aa/x\.lock: cannot be locked \(Not a directory\)"),
        exclusive(tmp_path / "fits/aa/x.lock"),
    ):
        pass


def test_who_waits_for_a_lock_says_so(tmp_path, caplog):
    path, entered = tmp_path / "job.lock", []

    def wait():
        with exclusive(path):
            entered.append(path.exists())

    caplog.set_level("INFO", "ssma")
    waiting = threading.Thread(target=wait, daemon=True)
    with exclusive(path):
        waiting.start()
        give_up = time.monotonic() + 30
        while not caplog.messages and time.monotonic() < give_up:
            time.sleep(0.01)
        assert not entered
    waiting.join(timeout=30)
    assert caplog.messages == [f"{path}: waiting for another process that has it locked"]
    assert entered == [True] and not path.exists()


def test_the_commit_is_that_of_the_package_and_of_no_folder_around_it(tmp_path, monkeypatch):
    def git(*arguments):
        start = ["git", "-C", tmp_path, "-c", "user.name=nobody", "-c", "user.email=nobody"]
        return subprocess.run([*start, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    monkeypatch.delenv("GIT_DIR", raising=False)
    package = tmp_path / "ssma"
    monkeypatch.setattr("ssma.study.ids.__file__", str(package / "study" / "ids.py"))
    (tmp_path / "README").touch()
    for place in (package, package / "inner"):
        (place / "study").mkdir(parents=True)
        (place / "__init__.py").touch()
    git("init")
    git("add", "README")
    git("commit", "-mproject")

    def commit():
        git_commit.cache_clear()
        return git_commit()

    assert commit() is None  # unpacked or installed inside somebody's project
    git("add", "ssma")
    assert commit() is None
    git("commit", "-mpackage")
    head = git("rev-parse", "HEAD")
    assert commit() == head
    index = tmp_path / ".git" / "index"
    before = index.read_bytes()
    os.utime(package / "__init__.py", (0, 0))  # a plain status would lock the index and note it there
    assert commit() == head
    assert index.read_bytes() == before
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # as in a container
    assert commit() == head
    with monkeypatch.context() as deeper:  # in another user's project, whose settings may name what git is to run
        deeper.setattr("ssma.study.ids.__file__", str(package / "inner" / "study" / "ids.py"))
        assert commit() is None
        deeper.delenv("GIT_TEST_ASSUME_DIFFERENT_OWNER")
        assert commit() == head
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))  # as in a hook of another project
    assert commit() == head
    (package / "__init__.py").write_text("changed = True")
    assert commit() == f"{head}-dirty"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() is None
    git_commit.cache_clear()
