"""What the workflow needs from the machine: how jobs find package and Python, and no locks of runs that are dead."""

import fcntl
import getpass
import json
import os
import re
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ssma.errors import StudyError
from ssma.study.ids import digest
from ssma.study.locks import lock_errors
from ssma.study.notes import Notes
from ssma.study.part import arms_of, part
from ssma.study.paths import Results
from ssma.study.records import SEAL, foreign, read_record, write_record

FAILED = re.compile(r"split [0-9]+ failed: \w+: ")
"""Reason of a trial that an exception ended, whose type it names; what is said without one, as of a budget that is too
small for the trial's settings, would be said again."""

LOOKS = (
    "--archive", "--cleanup-metadata", "--cm", "--cleanup-shadow", "--conda-cleanup-envs", "--conda-create-envs-only",
    "--container-cleanup-images", "--containerize", "--d3dag", "--dag", "--delete-temp-output", "--detailed-summary",
    "-D", "--export-cwl", "--filegraph", "--generate-unit-tests", "--lint", "--list", "--list-changes", "--lc",
    "--list-conda-envs", "--list-input-changes", "--li", "--list-params-changes", "--lp", "--list-rules", "-l",
    "--list-target-rules", "--lt", "--list-untracked", "--lu", "--print-compilation", "--report", "--rulegraph",
    "--summary", "-S", "--unlock",
)  # fmt: skip
"""Options with which Snakemake runs no job; it reads the workflow before it says which was given."""

BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
"""Variables by which torch binds its threads to cores, the first one to the first core, when it is imported."""


def prepare_jobs(package: Path) -> str:
    """Makes ``python`` in jobs the one that runs Snakemake (conda's own comes before it), and returns shell code that
    goes before each job's command.

    By that code jobs find the package, and what is on the user's PYTHONPATH, from any working directory. It is in the
    command because Snakemake takes PYTHONPATH out of the environment of conda jobs. Braces are doubled: Snakemake
    fills in what stands between single ones. Sets of texts have the same order in every job: a user's class may number
    what it finds by it. And no job binds its threads to cores, as clusters may have it by default: jobs do not know of
    each other, so that all would take the same ones. A user whom the machine has no name for, as in a container that is
    run by a number, gets the number as name: without one Snakemake ends in a traceback.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):  # the latter since Python 3.13
        os.environ["USER"] = str(os.getuid())
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    modules = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
    quoted = shlex.quote(modules).replace("{", "{{").replace("}", "}}")
    return f"set -euo pipefail; unset {' '.join(BINDING)}; export PYTHONPATH={quoted} PYTHONHASHSEED=0; "


def this_command() -> str:
    """Returns how a user starts this command line from here."""
    script = Path(sys.executable).with_name("ssma")
    if not script.exists():
        return f"{sys.executable} -m ssma"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)


def free_dead_locks(notes: Notes, study: str) -> tuple[int, bool]:
    """Removes Snakemake's locks of a study in a working directory if no run of it is alive there.

    Every run holds a shared lock of its study for as long as it lives, which the system takes back when it is killed;
    Snakemake's own locks are files, or rows of its database, which stay. Two runs of a study at once are still refused
    by Snakemake. Locks of other studies are left: one that runs beside it is none of ours.

    Returns:
        The descriptor of the held lock, which stays open until the process ends, and whether no other run of the study
        is alive.

    Raises:
        StudyError: If the folder cannot be written, or the file system has no locks.
    """
    alive, alone = notes.folder / f"alive-{study}", False
    with lock_errors(alive):
        notes.folder.mkdir(exist_ok=True)
        descriptor = os.open(alive, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
            notes.unlock(study)
        except BlockingIOError:
            pass  # another run of it is alive and needs its locks
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor, alone


def forget_lost(results: Results, plan: dict[str, Any]) -> None:
    """Removes the flags of arms, and tables of experiments, whose records were deleted: Snakemake runs these again.

    A flag says that a job ended well; records are what it left, those of fits too. One of an arm that a crash or an
    unfinished copy cut short is as good as deleted. A search ends well without trials that failed; where one did, its
    flag is removed, so that they are tried again. Finished fits of such an arm are not repeated.
    """
    made = {path.stem for path in results.fits.glob("*/*.json")}  # one look at each is slow on a cluster's disks
    for arm in plan["arms"]:
        chosen, evaluation = _read(results.chosen(arm["id"])), _read(results.evaluation(arm["id"]))
        tuned, evaluated = (results.arm(arm["id"]) / name for name in ("tuned", "evaluated"))
        searched = chosen and all(
            made.issuperset(trial["fits"].values()) and not FAILED.match(trial["reason"] or "")
            for trial in chosen["trials"]
        )
        if not searched:
            _remove(tuned)
        if not (searched and evaluation and made.issuperset(fit["id"] for fit in evaluation["fits"])):
            _remove(evaluated)
    for experiment in plan["theory"].values():
        record = results.theory(experiment["id"])
        if not _read(record):
            _remove(record.with_suffix(".csv"))


def runs_nothing(arguments: list[str]) -> bool:
    """Says whether Snakemake is to show or tidy something only. It takes options by their beginnings too, and a dry run
    as an executor; a report may be wanted after a run.
    """
    options = [argument.partition("=")[0] for argument in arguments if argument.strip("-")]
    looks = any(look.startswith(option) for look in LOOKS for option in options)
    dry = re.search(r"(^| )(-[a-zA-Z]*e|--exe\w*)[ =]?dryrun\b", " ".join(arguments))
    return dry is not None or (looks and not any(option.startswith("--report-a") for option in options))


def forget_outdated(results: Results, plan: dict[str, Any], notes: Notes, dry: bool) -> None:
    """Removes the frame and the pages of single ablations that show something else than the records, where Snakemake
    does not know.

    It takes an arm that was evaluated again for what it was: what tells is an empty file, whose content never changes.
    And results that were copied come without its notes of what it ran for, at which it does not look either where the
    user's ``rerun-triggers`` leave out ``params``: those of another plan would show arms that were taken out of the
    study since.

    Args:
        plan: The plan as the study file is now.
        dry: Whether nothing will run: what Snakemake has a note of may then be wanted for the plan that it was made
            for.
    """
    made_for = _read(results.plan) or {}
    made_for.pop(SEAL, None)
    pages = {name: Path("reports", plan["study"], "ablations", name, "index.html") for name in plan["ablations"]}
    for name, file in {None: results.frame, **pages}.items():
        if not file.exists():
            continue
        arms = arms_of(plan, name) if name else [arm["id"] for arm in plan["arms"]]
        kept = not made_for or (dry and notes.has(file)) or _shown(made_for, name) == _shown(plan, name)
        if older_than_records(file, results, arms) or not kept:
            file.unlink(missing_ok=True)


def _shown(plan: dict[str, Any], ablation: str | None) -> str | None:
    """Returns a text for what a plan, or one ablation of it, lets be shown; None if it has none, or is older code's."""
    try:
        return digest(part(plan, ablation) if ablation else plan)
    except (KeyError, TypeError):
        return None


def older_than_records(file: Path, results: Results, arms: list[str]) -> bool:
    """Says whether a record of arms was written after a file that was made from them."""
    records = [path for arm in arms for path in (results.chosen(arm), results.evaluation(arm)) if path.exists()]
    return any(path.stat().st_mtime > file.stat().st_mtime for path in records)


def begin(results: Results, plan: dict[str, Any]) -> None:
    """Writes the plan that jobs read, unless it is there, and gives what is dated in the future the present."""
    date_today(results)
    with suppress(StudyError):  # it is not there, or was changed since
        made = read_record(results.plan)
        if {key: value for key, value in made.items() if key != SEAL} == plan:
            return
    write_record(results.plan, plan)


def date_today(results: Results) -> None:
    """Gives files that are dated in the future, by another machine's clock, the present: what is made of them would be
    older than they are, and Snakemake takes such a job for failed. Those that others are made of come first.
    """
    of_arms = (f"arms/*/{name}" for name in ("chosen.json", "evaluation.json", "tuned", "evaluated"))
    patterns = ("mlflow/created", "data/*/card.json", "theory/*.csv", *of_arms, "*.parquet")
    for path in [path for pattern in patterns for path in results.root.glob(pattern)]:
        if path.stat().st_mtime > time.time() and os.access(path, os.W_OK):
            path.touch()


def _remove(path: Path) -> None:
    if path.exists():  # a folder that is read-only would refuse to remove even what is not there
        path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any] | None:
    """Returns what a record holds, with whatever seal, or None if it is not there, not whole, or another one's copy.

    Raises:
        StudyError: If it cannot be read.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    except OSError as error:
        raise StudyError(f"{path}: cannot be read ({error.strerror})") from error
    return record if isinstance(record, dict) and SEAL in record and not foreign(path, record) else None
