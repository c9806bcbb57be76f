"""Fills the store from the records: what a live tracker missed, or everything into a new store."""

import sys
from typing import Any

from tqdm import tqdm

from ssma.study.locks import exclusive
from ssma.study.paths import Results
from ssma.study.records import read_record
from ssma.track.store import mlflow_errors, tracking_uri
from ssma.track.tracker import Tracker, readable


def fill(results: Results, plan: dict[str, Any]) -> dict[str, int]:
    """Logs every arm of the plan that left records; runs that are in the store already stay as they are.

    A second call waits for the first: each would make the runs that it did not find.

    Returns counts: ``arms``, ``trials`` and ``fits`` that the records hold, ``new_runs`` made in the store,
    ``missing_fits``, named by an arm but without a record, and ``damaged_fits``. An arm that has no ``evaluation.json``
    yet counts as interrupted (KILLED) until its job, or the next call, says otherwise.

    Raises:
        StudyError: If the store cannot be used or an arm's own record was changed.
    """
    uri = tracking_uri(results, plan["config"]["track"]["uri"])
    counts = dict.fromkeys(("arms", "trials", "fits", "new_runs", "missing_fits", "damaged_fits"), 0)
    with exclusive(results.store / "fill.lock"):
        tracker = Tracker.open(results, uri, plan)
        # disable=None: no bar where stderr is a file
        for arm in tqdm(plan["arms"], desc="ssma track", unit="arm", file=sys.stderr, disable=None):
            if results.chosen(arm["id"]).exists() or results.evaluation(arm["id"]).exists():
                with mlflow_errors(uri):
                    _fill_arm(tracker, results, arm, counts)
        results.store_made.touch()
    return counts | {"new_runs": tracker.created}


def _fill_arm(tracker: Tracker, results: Results, arm: dict[str, Any], counts: dict[str, int]) -> None:
    tracker.arm(arm)
    counts["arms"] += 1
    if results.chosen(arm["id"]).exists():
        for trial in read_record(results.chosen(arm["id"]))["trials"]:
            tracker.trial(arm, trial, _read_fits(results, trial["fits"].values(), counts))
            counts["trials"] += 1
    if not results.evaluation(arm["id"]).exists():
        tracker.finish(arm, "interrupted", "no evaluation.json: the job was stopped, or has not ended yet")
        return
    evaluation = read_record(results.evaluation(arm["id"]))
    for entry in evaluation["fits"]:
        for fit in _read_fits(results, [entry["id"]], counts):
            tracker.fit(arm, entry["split"], entry["repeat"], fit)
            counts["fits"] += 1
    tracker.finish(arm, evaluation["status"], evaluation["reason"])


def _read_fits(results: Results, ids: Any, counts: dict[str, int]) -> list[dict[str, Any]]:
    paths = [results.fit(fit_id) for fit_id in ids]
    there = [path for path in paths if path.exists()]
    found = readable(there)
    counts["missing_fits"] += len(paths) - len(there)
    counts["damaged_fits"] += len(there) - len(found)
    return found
