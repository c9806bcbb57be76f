"""Reading a plan, and finding things of it by name, with an error that helps."""

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ssma.errors import StudyError
from ssma.study.config import load_study
from ssma.study.ids import canonical
from ssma.study.paths import Results
from ssma.study.records import SEAL, read_record
from ssma.study.wording import did_you_mean

log = logging.getLogger("ssma")

NO_ROOM = 2**20
"""Bytes; a database of MLflow and prepared data take more."""


def plan_path(text: str) -> Path:
    """Returns the path of a plan; of a study file, whatever it is called, where the workflow puts its plan.

    Raises:
        StudyError: If it is a study file that cannot be read as one.
    """
    path = Path(text)
    is_study = path.suffix.lower() in (".yaml", ".yml")
    if not is_study and os.path.isfile(path):  # which takes no name amiss, however long
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            is_study = isinstance(found, dict) and SEAL not in found and "kind" not in found
        except (ValueError, RecursionError):  # YAML, or a plan that was cut short
            is_study = path.suffix.lower() != ".json"
    return started_plan(path) if is_study else path


def started_plan(study_file: Path) -> Path:
    """Returns where the workflow put the plan of a study file; what the file says otherwise by now, it tells the log.

    Raises:
        StudyError: If the file is no study.
    """
    study = load_study(study_file)
    path = Results(Path("results", study.study)).plan
    if path.exists():
        then, now = read_plan(path)["config"], canonical(study.model_dump(mode="json"))
        said = canonical(study.model_dump(mode="json", exclude_defaults=True))
        if other := [key for key in now if key in then and _differ(then[key], now[key], said.get(key))]:
            log.warning(
                "%s: is of the study as it was started last, with other values of %s than %s has now",
                path, ", ".join(other), study_file,
            )  # fmt: skip
    return path


def _differ(then: Any, now: Any, said: Any) -> bool:
    """Says whether two tables have other values; a key that the former lacks, as that of older code, had its default.

    Args:
        said: The latter without defaults.
    """
    if not isinstance(then, dict) or not isinstance(now, dict):
        return then != now
    said = said or {}
    return not then.keys() <= now.keys() or any(
        _differ(then[key], value, said.get(key)) if key in then else key in said for key, value in now.items()
    )


def read_plan(path: Path) -> dict[str, Any]:
    """Reads a plan.

    Raises:
        StudyError: If the file is not there, cannot be read, was changed after it was sealed, or is a record of
            something else.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StudyError(
            f"{path}: is not there; a plan is written when its study is started (snakemake --cores all --configfile "
            f"STUDY.yaml) or by `ssma plan STUDY.yaml --write {path}`, and looked for in the folder that a command is "
            f"called in"
        ) from error
    except OSError as error:
        raise StudyError(f"{path}: cannot be read ({error.strerror})") from error
    record = read_record(path)
    if record.get("kind") != "plan":
        raise StudyError(f"{path}: is a record of kind {record.get('kind')!r}, expected results/<study>/plan.json")
    return record


def open_results(path: Path) -> tuple[dict[str, Any], Results]:
    """Returns a plan and the results that it lies in.

    Raises:
        StudyError: As `read_plan`, and if they are a report: it has nothing of what its numbers came from.
    """
    plan, results = read_plan(path), Results(path.parent)
    if results.is_report:
        raise StudyError(
            f"{results.root}: is a report without the records of fits; give the study file, or the plan in the results "
            "folder (`ssma report` makes its pages again); where there are no results, `snakemake --cores all "
            f"results/{plan['study']}/arms/ARM/evaluated --configfile STUDY.yaml` trains an arm of it anew"
        )
    return plan, results


def named(items: Mapping[str, Any], name: str, kind: str) -> Any:
    """Returns ``items[name]``.

    Raises:
        StudyError: If there is none, with the names that there are.
    """
    if name not in items:
        raise StudyError(f"no {kind} '{name}' in this plan; {did_you_mean(name, list(items))}")
    return items[name]


def named_arm(plan: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Returns the arm of an id or a label, or of a part that only one id or label has.

    Raises:
        StudyError: If no arm fits, or several do.
    """
    found = [arm for arm in plan["arms"] if text in (arm["id"], arm["label"])]
    found = found or [arm for arm in plan["arms"] if text in arm["id"] or text in arm["label"]]
    if len(found) == 1:
        return found[0]
    names = [f"{arm['id']} ({arm['label']})" for arm in found or plan["arms"]]
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    raise StudyError(
        f"{'several arms have' if found else 'no arm has'} '{text}' in id or label; give the id of one: {shown}"
    )


def unfinished(plan: Mapping[str, Any], results: Results) -> Iterator[str]:
    """Yields a line for each data set that is not prepared and each theory experiment without a result, with why, and
    one for a full disk: jobs that could not write there could not write into their logs either."""
    for dataset in plan["datasets"].values():
        if not (results.data(dataset["id"]) / "card.json").exists():
            file = results.log("prepare", dataset["id"])
            why = f": {told} ({file})" if (told := _last_line(file)) else ""
            yield f"data set {dataset['label']} is not prepared{why}"
    for name, experiment in plan.get("theory", {}).items():  # older plans have none
        path = results.theory(experiment["id"])
        why = _why_not(path) if path.exists() else _left_by(results, ["theory"], experiment["id"]) or "it has not run"
        if why:
            yield f"theory experiment {name}: {why}"
    if (free := shutil.disk_usage(results.root).free) < NO_ROOM:
        yield f"the disk of {results.root} is full ({free} B left); make room and start the study again"


def why_no_result(results: Results, arm_id: str) -> str | None:
    """Returns None for an arm that has a result, else what its records say of that, or else the last line of the log of
    its job: one that was killed leaves no record. Of an arm whose job was not begun it is an empty text.
    """
    jobs = ["evaluate", "tune"]
    for path in (results.evaluation(arm_id), results.chosen(arm_id)):
        if path.exists():
            why = _why_not(path)
            if why or path == results.evaluation(arm_id):
                return why
            jobs = ["evaluate"]  # the search has ended well
    return _left_by(results, jobs, arm_id)


def _why_not(path: Path) -> str | None:
    """Returns why a record is of no result, or cannot be read; None if it is of one."""
    try:
        record = read_record(path)
    except StudyError as error:
        return str(error)
    return None if record["status"] == "ok" else record["reason"]


def _left_by(results: Results, jobs: Sequence[str], item_id: str) -> str:
    """Returns how the last log of jobs of an arm or experiment ends that left no record, empty if none was begun."""
    logs = [path for job in jobs if (path := results.log(job, item_id)).exists()]
    if not logs:
        return ""
    last = max(logs, key=lambda path: path.stat().st_mtime)
    return f"no result yet; {last} " + (f"ends with: {told}" if (told := _last_line(last)) else "is empty")


def _last_line(log: Path) -> str:
    """Returns the last line of a log that is not blank, without the command's name, empty if there is none."""
    told = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
    return told[0].removeprefix("ssma: ") if told else ""
