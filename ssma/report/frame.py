"""Records of a study -> one tidy frame, a row per fit that was planned or made."""

import io
import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssma.errors import StudyError
from ssma.report.affine import without_pictures
from ssma.study.ids import canonical_json
from ssma.study.lookup import read_plan
from ssma.study.paths import Results
from ssma.study.records import PARTS, read_record, write_atomic

if TYPE_CHECKING:
    import pandas

COLUMNS = {
    "study": "str", "arm": "str", "label": "str", "dataset": "str", "layer": "str", "aggregator": "str",
    "selection": "str", "trials_planned": "Int64", "stage": "str", "trial": "Int64", "trial_state": "str",
    "split": "Int64", "repeat": "Int64", "seed": "Int64", "status": "str", "reason": "str",
    "metric": "str", "direction": "str", "train": "float64", "validation": "float64", "test": "float64",
    "constant": "boolean",
    "best_epoch": "Int64", "epochs": "Int64", "hidden_channels": "Int64", "parameters": "Int64", "budget": "Int64",
    "seconds": "float64", "seconds_per_step": "float64", "peak_memory_mb": "float64", "device": "str",
    "threads": "Int64", "fit": "str", "code": "str", "data_hash": "str", "split_hash": "str", "git_commit": "str",
    "started": "str", "versions": "str",
}  # fmt: skip
"""The fixed columns and their types; ``set.<key>`` (fixed settings) and ``hp.<key>`` (hyperparameters) follow."""

COPIED = (
    "status", "reason", "metric", "direction", "best_epoch", "epochs", "hidden_channels", "parameters", "budget",
    "seconds", "seconds_per_step", "peak_memory_mb", "device", "threads", "code", "git_commit", "started",
)  # fmt: skip

LARGEST = 1e300  # some stores write infinity as 1.797e308


def collect(results: Results, plan: dict[str, Any] | None = None) -> "pandas.DataFrame":
    """Returns one row per (arm, stage, trial, split, repeat), with ``COLUMNS``, ``set.*`` and ``hp.*``.

    Nothing is dropped: a planned fit without a record has the status ``missing``; those of an arm whose tuning failed
    have ``failed`` and its reason; a trial that ended before its first fit has one row without a split; and an ``ok``
    fit whose test metric is not finite counts as ``diverged``. A fit whose record was changed or cut short is
    ``failed``, and its reason names the file. ``constant`` says whether all test predictions of a fit are the same;
    it is unknown in records that older code made. A column ``test_loss`` has the loss of the test part, where fits are,
    which tells fits of the same accuracy apart. Where fits were compiled, a column ``compiled`` has true for them.
    Where modules left summaries in the records of evaluation fits, a column ``modules`` holds them as JSON; those of
    an arm's first fit with the pictures of learned affine maps.

    Args:
        plan: A part of their plan; all of it by default.

    Raises:
        StudyError: If there is no plan, or an arm's own record was changed or cut short; names the file.
    """
    plan = plan or read_plan(results.plan)
    metrics = _metrics(results, plan)

    @cache
    def fit_row(fit_id: str) -> dict[str, Any]:
        path = results.fit(fit_id)
        try:
            if path.exists():
                return _from_fit(read_record(path))
        except StudyError as error:
            return {"fit": fit_id, "status": "failed", "reason": f"damaged record: {error}"}
        return {"fit": fit_id, "status": "missing", "reason": f"{path.relative_to(results.root)} is not there"}

    rows = []
    for arm in plan["arms"]:
        chosen, evaluation = _optional(results.chosen(arm["id"])), _optional(results.evaluation(arm["id"]))
        base = _from_arm(plan["study"], arm) | metrics.get(arm["dataset"], {})
        rows += [base | row for row in _tuning_rows(chosen, fit_row)]
        rows += [base | row for row in _evaluation_rows(arm, chosen, evaluation, fit_row)]
    return _frame(rows)


def write_frame(frame: "pandas.DataFrame", path: Path) -> None:
    """Writes ``frame`` as parquet, whole or not at all. Parquet keeps types: the text "None" stays a text. Its numbers
    have check sums, as records have seals."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False, write_page_checksum=True)
    write_atomic(path, buffer.getvalue())


def read_frame(path: Path) -> "pandas.DataFrame":
    """Reads what ``write_frame`` wrote.

    Raises:
        StudyError: If the file is missing, is not parquet, is damaged, or lacks columns.
    """
    import pandas

    try:
        frame = pandas.read_parquet(path, page_checksum_verification=True)
    except (OSError, ValueError, TypeError, LookupError, NotImplementedError) as error:
        raise StudyError(f"{path}: not a readable frame ({error}); collect the records again") from error
    if absent := COLUMNS.keys() - set(frame):
        raise StudyError(f"{path}: has no column {min(absent)}, as older code made it; collect the records again")
    return frame


def _optional(path: Path) -> dict[str, Any]:
    return read_record(path) if path.exists() else {}


def _metrics(results: Results, plan: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Metric and direction per data set, so that rows without a fit have them too."""
    known = {}
    for label, dataset in plan["datasets"].items():
        arms = [arm["id"] for arm in plan["arms"] if arm["dataset"] == label]
        for path in (results.data(dataset["id"]) / "card.json", *map(results.chosen, arms)):
            record = _optional(path)
            if record.get("metric"):
                known[label] = {"metric": record["metric"], "direction": record["direction"]}
                break
    return known


def _from_arm(study: str, arm: dict[str, Any]) -> dict[str, Any]:
    row = {key: arm[key] for key in ("label", "dataset", "layer", "aggregator", "selection")}
    row |= {"study": study, "arm": arm["id"], "trials_planned": arm["trials"]}
    row |= {"budget": arm["settings"]["model"].get("budget")}
    return row | {f"set.{key}": value for key, value in arm["fixed"].items()}


def _from_fit(fit: dict[str, Any]) -> dict[str, Any]:
    row = {key: fit.get(key) for key in COPIED} | {"fit": fit["id"]}
    row |= {key: fit["spec"].get(key) for key in ("seed", "data_hash", "split_hash")}
    row["versions"] = ", ".join(f"{name} {version}" for name, version in sorted(fit.get("versions", {}).items()))
    for part in PARTS:
        row[part] = _finite((fit.get(part) or {}).get(fit["metric"]))
    test = fit.get("test") or {}
    row |= {"constant": test.get("constant"), "test_loss": _finite(test.get("loss"))}
    for key in ("modules", "compiled"):
        if fit.get(key):
            row[key] = fit[key]
    if row["status"] == "ok" and row["test"] is None:
        row |= {"status": "diverged", "reason": f"the test {fit['metric']} is not a finite number"}
    return row


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and abs(value) < LARGEST else None


def _tuning_rows(chosen: dict[str, Any], fit_row) -> list[dict[str, Any]]:
    rows = []
    for trial in chosen.get("trials", []):
        base = {"stage": "tune", "trial": trial["number"], "trial_state": trial["state"]}
        base |= _hyperparameters(trial["hyperparameters"])
        for split, fit_id in trial["fits"].items():
            rows.append(base | {"split": int(split)} | fit_row(fit_id))
            rows[-1].pop("modules", None)
        if not trial["fits"]:
            status = "failed" if trial["state"] == "failed" else "missing"
            rows.append(base | {"status": status, "reason": trial.get("reason")})
    return rows


def _evaluation_rows(arm: dict[str, Any], chosen: dict[str, Any], evaluation: dict[str, Any], fit_row) -> list[dict]:
    made = {(fit["split"], fit["repeat"]): fit for fit in evaluation.get("fits", [])}
    planned = [(split, repeat) for split in arm["splits"] for repeat in range(arm["repeats"])]
    ended = next((record for record in (evaluation, chosen) if record.get("status") == "failed"), None)
    if ended and not made:
        absent = {"status": "failed", "reason": ended.get("reason") or "failed"}
    else:
        absent = {"status": "missing", "reason": "not evaluated" if chosen else "not tuned"}
    rows = []
    for key in dict.fromkeys(planned + sorted(made)):
        split = str(key[0])
        row = {"stage": "evaluate", "split": key[0], "repeat": key[1]}
        row["trial"] = (chosen.get("chosen_trial") or {}).get(split)
        row |= _hyperparameters((evaluation.get("chosen") or chosen.get("chosen") or {}).get(split) or {})
        rows.append(row | ({"seed": made[key]["seed"]} | fit_row(made[key]["id"]) if key in made else absent))
    for row in [row for row in rows if "modules" in row][1:]:
        row["modules"] = without_pictures(row["modules"])
    return rows


def _hyperparameters(values: dict[str, Any]) -> dict[str, Any]:
    return {f"hp.{key}": value for key, value in values.items()}


def _frame(rows: list[dict[str, Any]]) -> "pandas.DataFrame":
    import pandas

    extra = sorted({key for row in rows for key in row} - COLUMNS.keys(), key=lambda key: (key[:2] != "se", key))
    columns = {key: pandas.Series([row.get(key) for row in rows], dtype=kind) for key, kind in COLUMNS.items()}
    return pandas.DataFrame(columns | {key: _series([row.get(key) for row in rows]) for key in extra})


def _series(values: list[Any]) -> "pandas.Series":
    """One type per column, as parquet asks: a column of mixed types becomes text. Other texts are left as they are, but
    one that another value becomes, as that of 1, is in quotes."""
    import pandas

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pandas.Series(values, dtype="boolean")
    if kinds and kinds <= {int, float}:
        return pandas.Series(values, dtype="Int64" if kinds == {int} else "float64")
    taken = {canonical_json(value) for value in values if not isinstance(value, str | None)}
    plain = [value is None or (isinstance(value, str) and value not in taken) for value in values]
    texts = [value if kept else canonical_json(value) for value, kept in zip(values, plain, strict=True)]
    return pandas.Series(texts, dtype="str")
