"""Logging while a study runs: what goes wrong with MLflow costs one warning and never a training."""

import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ssma.errors import StudyError
from ssma.study.paths import Results
from ssma.study.records import write_atomic
from ssma.track.store import DELETED, mlflow_errors, tracking_uri
from ssma.track.tracker import Tracker

log = logging.getLogger("ssma.track")

AGAIN = 3600
"""Seconds after which a store that was given up is tried again."""


class LiveTracker:
    """A tracker that turns itself off, with one warning, when its store fails. See ``Tracker`` for the methods.

    One that is off, as without a tracker, does nothing.
    """

    def __init__(self, results: Results, tracker: Tracker | None, uri: str = "") -> None:
        self.results, self.tracker, self.uri = results, tracker, uri

    def arm(self, arm: dict[str, Any]) -> None:
        self._guard("arm", arm)

    def trial(self, arm: dict[str, Any], trial: dict[str, Any], fits: list[dict[str, Any]]) -> None:
        self._guard("trial", arm, trial, fits)

    def fit(self, arm: dict[str, Any], split: int, repeat: int, fit: dict[str, Any]) -> None:
        self._guard("fit", arm, split, repeat, fit)

    def finish(self, arm: dict[str, Any], status: str, reason: str | None = None) -> None:
        self._guard("finish", arm, status, reason)

    def _guard(self, method: str, *arguments: Any) -> None:
        if self.tracker is None:
            return
        try:
            with mlflow_errors(self.uri):
                getattr(self.tracker, method)(*arguments)
        except StudyError as error:
            _give_up(self.results, error)
            self.tracker = None


def open_tracker(results: Results, plan: dict[str, Any]) -> LiveTracker:
    """Returns the tracker that a study asks for.

    A store that cannot be used costs a study less than ten seconds and one warning an hour: it is noted beside the
    results, and the trackers of later jobs are off at once. After an hour it may be back, as a server that was down
    when the study was started; the note stays, since what came in between is to be filled in.
    """
    track = plan["config"]["track"]
    if not track["enabled"] or (unusable(results) and time.time() - _note(results).stat().st_mtime < AGAIN):
        return LiveTracker(results, None)
    try:
        uri = tracking_uri(results, track["uri"])
        return LiveTracker(results, Tracker.open(results, uri, plan), uri)
    except StudyError as error:
        _give_up(results, error)
        return LiveTracker(results, None)


def unusable(results: Results) -> str | None:
    """Returns why the store was given up in this study, and lacks what was trained then, or None."""
    note = _note(results)
    return note.read_text(encoding="utf-8", errors="replace") if note.exists() else None


def try_again(results: Results) -> None:
    """Forgets that the store was given up."""
    if unusable(results):  # a folder that is read-only would refuse to remove even what is not there
        _note(results).unlink()


def _note(results: Results) -> Path:
    return results.store / "unusable"


def _give_up(results: Results, error: StudyError) -> None:
    """Warns, and notes it for later jobs, which a run that was deleted while this one wrote to it does not concern."""
    if DELETED not in str(error):
        with suppress(StudyError):  # where the note cannot be written either, later jobs find out by themselves
            write_atomic(_note(results), str(error).encode(errors="backslashreplace"))
    log.warning("%s. Records are complete; run `ssma track` later to fill the store.", error)
