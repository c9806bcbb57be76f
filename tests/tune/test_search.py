"""Samplers, what is tried twice, and who may write."""

import os
import resource
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from statistics import median
from types import SimpleNamespace

import optuna
import pytest
from optuna.exceptions import StorageInternalError

from ssma.errors import StudyError
from ssma.study.paths import Results
from ssma.study.space import configurations
from ssma.study.tuning import splits_to_prune
from ssma.tune.arm import tune_arm
from ssma.tune.search import search
from ssma.tune.storage import create_tables, writing

SPACE = {"training.lr": [0.1, 0.2, 0.3], "ssma.kappa": {"low": 2, "high": 4, "log": False, "kind": "int"}}
SELECTION = {"ssma.selection": ["attention", "random"], "ssma.temperature": [1, 2, 3, 4]}


def run(hyperparameters, split):
    return {"id": "x", "status": "ok", "metric": "m", "validation": {"m": 1.0}, "reason": None}


def tried(folder, space, trials, sampler):
    results = search(folder / "j", "s", space, trials, [0], "maximize", False, run, sampler=sampler)
    return [result.hyperparameters for result in results]


def test_a_grid_is_walked_in_order(tmp_path):
    found = tried(tmp_path, SPACE, 9, "grid")
    assert found == [{"ssma.kappa": k, "training.lr": lr} for k in (2, 3, 4) for lr in (0.1, 0.2, 0.3)]
    assert found == list(configurations(SPACE))


def test_trials_are_looked_through_as_often_for_the_last_as_for_the_first(tmp_path, monkeypatch):
    """Once more for each trial before would make the time of a search grow as the cube of its length."""
    calls, get_trials = [], optuna.Study.get_trials
    monkeypatch.setattr(optuna.Study, "get_trials", lambda *a, **k: calls.append(1) or get_trials(*a, **k))
    space = {"training.lr": {"low": 0.1, "high": 0.2, "log": False, "kind": "float"}}
    counts = []
    for trials in (10, 20, 30):
        tried(tmp_path / str(trials), space, trials, "random")
        counts.append(len(calls))
        calls.clear()
    assert counts[2] - counts[1] == counts[1] - counts[0] > 0


@pytest.mark.parametrize("sampler", ["random", "tpe", "grid"])
def test_no_sampler_repeats_a_configuration(tmp_path, sampler):
    found = tried(tmp_path, SPACE, 9, sampler)
    assert len({tuple(sorted(item.items())) for item in found}) == 9
    same_thing = tried(tmp_path / "b", SELECTION, 5, sampler)
    assert len({tuple(sorted(item.items())) for item in same_thing}) == 5
    assert {"ssma.selection": "random"} in same_thing


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_no_sampler_repeats_a_configuration_in_which_a_range_of_real_numbers_is_idle(tmp_path, sampler, log):
    temperature = {"low": 0.5, "high": 8.0, "log": log, "kind": "float"}
    space = SELECTION | {"ssma.temperature": temperature}
    found = tried(tmp_path, space, 20, sampler)
    assert len({tuple(sorted(item.items())) for item in found}) == 20
    assert found.count({"ssma.selection": "random"}) == 1
    assert all(0.5 <= item["ssma.temperature"] <= 8 for item in found if item != {"ssma.selection": "random"})
    assert tried(tmp_path, space, 20, sampler) == found


@pytest.mark.parametrize("sampler", ["random", "tpe", "grid"])
@pytest.mark.filterwarnings("error::UserWarning")
def test_values_of_any_kind_are_searched_and_found_again(tmp_path, sampler):
    values = [None, True, "None", 2, 0.5, [16], [16, 16], {"a": 1}]
    found = tried(tmp_path, {"mine.x": values}, 8, sampler)
    assert all({"mine.x": value} in found for value in values)
    assert tried(tmp_path, {"mine.x": values}, 8, sampler) == found


def test_a_trial_whose_fit_is_good_when_it_is_made_again_is_judged_on_all_splits(tmp_path):
    slow = {(1, 1)}

    def run(hyperparameters, split):
        late = (hyperparameters["training.lr"], split) in slow
        status = {"status": "timeout", "reason": "slow"} if late else {"status": "ok", "reason": None}
        return {"id": "x", "metric": "m", "validation": {"m": 1.0}} | status

    def states():
        found = search(
            tmp_path / "j", "s", {"training.lr": [1, 2]}, 2, [0, 1, 2], "maximize", False, run, sampler="grid"
        )
        return [(result.state, sorted(result.scores("validation"))) for result in found]

    assert states() == [("failed", [0]), ("complete", [0, 1, 2])]
    assert states() == [("failed", [0]), ("complete", [0, 1, 2])]
    slow.clear()  # its record was deleted, and the machine has less to do
    assert states() == [("complete", [0, 1, 2])] * 2


def test_random_is_not_tpe_and_goes_on_where_it_ended(tmp_path):
    real = {"x": {"low": 0.0, "high": 1.0, "log": False, "kind": "float"}}
    five = tried(tmp_path / "a", real, 5, "random")
    assert tried(tmp_path / "a", real, 8, "random")[:5] == five
    assert tried(tmp_path / "b", real, 8, "random") == tried(tmp_path / "a", real, 8, "random")
    assert len({item["x"] for item in tried(tmp_path / "a", real, 8, "random")}) == 8


@pytest.mark.parametrize(("direction", "sign"), [("maximize", -1), ("minimize", 1)])
def test_tpe_goes_where_the_metric_is_good_and_random_does_not(tmp_path, direction, sign):
    space = {"x": {"low": 0.0, "high": 1.0, "log": False, "kind": "float"}}

    def far(hyperparameters, split):
        return run(hyperparameters, split) | {"validation": {"m": sign * (hyperparameters["x"] - 0.9) ** 2}}

    def away(sampler):
        found = search(tmp_path / sampler, "s", space, 30, [0], direction, False, far, sampler=sampler)
        return median(abs(result.hyperparameters["x"] - 0.9) for result in found[15:])

    assert away("tpe") < 0.1 < away("random")


def test_a_search_for_the_other_direction_is_refused(tmp_path):
    search(tmp_path / "j", "s", SPACE, 1, [0], "maximize", False, run)
    with pytest.raises(StudyError, match="search s: was made to maximize its metric but is asked to minimize it"):
        search(tmp_path / "j", "s", SPACE, 1, [0], "minimize", False, run)


def test_half_a_line_of_a_journal_costs_no_search(tmp_path):
    real = {"x": {"low": 0.0, "high": 1.0, "log": False, "kind": "float"}}
    whole = tried(tmp_path, real, 3, "tpe")
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    for kept in (0, 1, 4, len(lines) - 1):  # in the study's creation, in the first trial, in the last one
        (tmp_path / "j").write_bytes(b"".join(lines[:kept]) + lines[kept][:-9])
        assert tried(tmp_path, real, 3, "tpe") == whole
        assert tried(tmp_path, real, 3, "tpe") == whole


def test_a_journal_that_cannot_be_written_is_one_clear_error_and_costs_no_search(tmp_path):
    whole = tried(tmp_path / "other", SPACE, 3, "tpe")
    (tmp_path / "j").touch()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (100, 500, 900):  # bytes
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
        try:
            with pytest.raises(StudyError, match=r"/j: cannot be written \(File too large\)"):
                tried(tmp_path, SPACE, 3, "tpe")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert tried(tmp_path, SPACE, 3, "tpe") == whole


def test_a_search_needs_no_symbolic_links(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    assert len(tried(tmp_path, SPACE, 3, "tpe")) == 3


@pytest.mark.parametrize("line", ["{}", "12", '{"op_code": 99, "worker_id": "x"}', '{"op_code": 5, "worker_id": "x"}'])
def test_a_journal_with_a_line_that_optuna_never_wrote_is_one_clear_error(tmp_path, line):
    before = tried(tmp_path, SPACE, 2, "random")
    whole = (tmp_path / "j").read_text()
    (tmp_path / "j").write_text(f"{whole}{line}\n")
    with pytest.raises(
        StudyError, match=r"/j: is damaged; delete the file to have it made again: fits that have ended"
    ):
        tried(tmp_path, SPACE, 3, "random")
    (tmp_path / "j").unlink()
    assert tried(tmp_path, SPACE, 3, "random")[:2] == before


@pytest.mark.parametrize("damage", [b"\x00\xff\xfe\n", b"none\n", b"\n"])
def test_a_damaged_journal_is_one_clear_error_and_can_be_deleted(tmp_path, damage):
    whole = tried(tmp_path, SPACE, 3, "tpe")
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    (tmp_path / "j").write_bytes(b"".join([*lines[:4], damage, *lines[5:]]))
    with pytest.raises(StudyError, match=r"/j: line 5 is damaged; delete the file to have it made again"):
        tried(tmp_path, SPACE, 3, "tpe")
    (tmp_path / "j").unlink()
    assert tried(tmp_path, SPACE, 3, "tpe") == whole


def test_pruning_needs_as_many_splits_as_is_said(tmp_path):
    def worse_each_time(hyperparameters, split):
        return run(hyperparameters, split) | {"validation": {"m": -hyperparameters["x"] - split / 10}}

    space, need = {"x": [1, 2, 3]}, splits_to_prune()
    states = {}
    for splits in (need - 1, need):
        found = search(
            tmp_path / str(splits),
            "s",
            space,
            3,
            list(range(splits)),
            "maximize",
            True,
            worse_each_time,
            sampler="grid",
        )
        states[splits] = [result.state for result in found]
    assert need == 5
    assert states == {4: ["complete"] * 3, 5: ["complete", "pruned", "pruned"]}


def test_processes_that_start_together_on_one_journal_train_everything_once(tmp_path):
    script = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from ssma.tune.search import search
        def run(hp, split):
            path = Path(sys.argv[1], f"fit-{hp['x']!r}-{split}")
            if not path.exists():
                path.touch()
                with Path(sys.argv[1], "trained").open("a") as file:
                    file.write(f"{path.name}\\n")
                time.sleep(0.02)
            return {"id": "x", "status": "ok", "metric": "m", "validation": {"m": hp["x"]}, "reason": None}
        space = {"x": {"low": 0.0, "high": 1.0, "log": False, "kind": "float"}}
        print([r.hyperparameters for r in search(Path(sys.argv[1], "j"), "s", space, 12, [0, 1], "maximize", False, run)])
    """)
    command = [sys.executable, "-c", script, str(tmp_path)]
    jobs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = {job.communicate(timeout=100)[0] for job in jobs}
    assert [job.returncode for job in jobs] == [0] * 4
    assert len(outputs) == 1
    lines = (tmp_path / "trained").read_text().splitlines()
    assert len(lines) == len(set(lines)) == 12 * 2


class Silent:
    def trial(self, entry, records):
        pass


@pytest.mark.parametrize(("finite", "chosen"), [({0.2}, {"training.lr": 0.2}), (set(), None)])
def test_the_paper_s_choice_passes_over_trials_without_a_test_score(tmp_path, finite, chosen):
    def train(hyperparameters, split, seed):
        lr = hyperparameters["training.lr"]
        test = lr if lr in finite else None
        parts = {"validation": {"accuracy": 0.5}, "test": {"accuracy": test}}
        return {"id": "x", "metric": "accuracy", "status": "ok", "reason": None, **parts}

    arm = {
        "id": "a", "search_id": "s", "space": {"training.lr": [0.1, 0.2, 0.3]}, "trials": 3, "tune_splits": [0],
        "splits": [0, 1], "repeats": 1, "selection": "test", "prune": False, "sampler": "grid",
    }  # fmt: skip
    record = tune_arm(Results(tmp_path), arm, "d", 0, "accuracy", "maximize", train, Silent())
    if chosen:
        assert record["chosen"] == {"0": chosen, "1": chosen}
    else:
        reason = "no valid trial: no test accuracy is a finite number"
        assert (record["status"], record["reason"]) == ("failed", reason)


def test_a_database_that_cannot_be_used_says_why_without_the_password(monkeypatch):
    import sqlalchemy

    with pytest.raises(StudyError, match="tune.storage: postgresql:///x cannot be used: Could not parse"):
        create_tables("postgresql:/x")

    def no_driver(*_, **__):
        raise ModuleNotFoundError("No module named 'psycopg'")

    monkeypatch.setattr(sqlalchemy, "create_engine", no_driver)
    with pytest.raises(StudyError, match=r"needs the driver psycopg: pip install 'psycopg\[binary\]'"):
        create_tables("postgresql://ann:geheim@db/studies")

    def refused(*_, **__):
        raise sqlalchemy.exc.OperationalError("connect", {}, Exception("no entry for ann, password geheim"))

    monkeypatch.setattr(sqlalchemy, "create_engine", lambda *_, **__: SimpleNamespace(connect=refused))
    with pytest.raises(StudyError) as error:
        create_tables("postgresql://ann:geheim@db/studies")
    assert str(error.value) == "tune.storage: postgresql://db/studies cannot be used: no entry for ann, password ***"


def test_a_database_whose_connection_breaks_during_a_fit_is_reached_anew_or_named(monkeypatch, tmp_path, caplog):
    """SQLite stands in for PostgreSQL: with a lock function, and without the option that keeps connections alive."""
    import sqlalchemy

    make_engine, given, locks = sqlalchemy.create_engine, [], []

    def stand_in(url, connect_args, **options):
        def connected(connection, _):
            connection.create_function("pg_advisory_lock", 1, str)
            if not pings:
                locks.append(connection)

        pings = options.get("pool_pre_ping", False)
        given.append((connect_args, pings))
        engine = make_engine("sqlite:///" + str(tmp_path / "s.db"), **options)
        sqlalchemy.event.listen(engine, "connect", connected)
        return engine

    monkeypatch.setattr(sqlalchemy, "create_engine", stand_in)
    monkeypatch.setattr(sqlalchemy.engine, "create_engine", stand_in)
    url = "postgresql://ann:geheim@db/studies"
    with writing(tmp_path / "none", "s", url) as storage:
        assert storage.get_all_studies() == []
    assert given == [({"keepalives_idle": 60}, False), ({"keepalives_idle": 60}, True)] * 2
    assert not caplog.messages
    with writing(tmp_path / "none", "s", url) as storage:
        locks[-1].close()
        assert storage.get_all_studies() == []
    (told,) = caplog.messages
    assert told.startswith(
        "tune.storage: postgresql://db/studies: lost the lock (Cannot operate on a closed database.)"
    )

    def stopped():
        locks[-1].close()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), writing(tmp_path / "none", "s", url):
        stopped()
    lost = StorageInternalError("An exception is raised during the commit.")
    lost.__cause__ = sqlalchemy.exc.OperationalError("commit", {}, Exception("terminating connection of geheim"))
    with pytest.raises(StudyError) as error, writing(tmp_path / "none", "s", url):
        raise lost
    told = "tune.storage: postgresql://db/studies cannot be used: terminating connection of ***"
    assert str(error.value) == told


def test_tables_of_another_version_or_program_are_named_in_one_error(monkeypatch, tmp_path):
    """SQLite stands in for PostgreSQL; the version is one of MLflow, which notes its own in the same place."""
    import sqlalchemy

    make_engine, file = sqlalchemy.create_engine, tmp_path / "s.db"

    def stand_in(url, connect_args, **options):
        engine = make_engine(f"sqlite:///{file}", **options)
        sqlalchemy.event.listen(engine, "connect", lambda made, _: made.create_function("pg_advisory_lock", 1, str))
        return engine

    monkeypatch.setattr(sqlalchemy, "create_engine", stand_in)
    monkeypatch.setattr(sqlalchemy.engine, "create_engine", stand_in)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        database.execute("INSERT INTO alembic_version VALUES ('7f2a7d5fae7d')")
    with pytest.raises(StudyError) as error:
        create_tables("postgresql://ann:geheim@db/studies")
    told = "tune.storage: postgresql://db/studies cannot be used: The runtime optuna version"
    assert str(error.value).startswith(told)
