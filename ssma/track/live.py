"""Logging while a study runs: what goes wrong with MLflow costs one warning and never a training."""

import logging
from typing import Any

from ssma.errors import StudyError
from ssma.study.paths import Results
from ssma.track.store import mlflow_errors, tracking_uri
from ssma.track.tracker import Tracker

LOG = logging.getLogger("ssma.track")

_failed: set[str] = set()
"""Stores that failed in this process: they are not tried, and not warned about, again."""


class NoTracker:
    """Takes what a tracker takes and does nothing."""

    def arm(self, arm: dict[str, Any]) -> None:
        pass

    def trial(self, arm: dict[str, Any], trial: dict[str, Any], fits: list[dict[str, Any]]) -> None:
        pass

    def fit(self, arm: dict[str, Any], split: int, repeat: int, fit: dict[str, Any]) -> None:
        pass

    def finish(self, arm: dict[str, Any], status: str, reason: str | None = None) -> None:
        pass


class LiveTracker:
    """A tracker that turns itself off, with one warning, when its store fails. See ``Tracker`` for the methods."""

    def __init__(self, tracker: Tracker, uri: str) -> None:
        self.tracker: Tracker | NoTracker = tracker
        self.uri = uri

    def arm(self, arm: dict[str, Any]) -> None:
        self._guard("arm", arm)

    def trial(self, arm: dict[str, Any], trial: dict[str, Any], fits: list[dict[str, Any]]) -> None:
        self._guard("trial", arm, trial, fits)

    def fit(self, arm: dict[str, Any], split: int, repeat: int, fit: dict[str, Any]) -> None:
        self._guard("fit", arm, split, repeat, fit)

    def finish(self, arm: dict[str, Any], status: str, reason: str | None = None) -> None:
        self._guard("finish", arm, status, reason)

    def _guard(self, method: str, *arguments: Any) -> None:
        if isinstance(self.tracker, NoTracker):
            return
        try:
            with mlflow_errors(self.uri):
                getattr(self.tracker, method)(*arguments)
        except StudyError as error:
            _give_up(self.uri, error)
            self.tracker = NoTracker()


def open_tracker(results: Results, plan: dict[str, Any]) -> LiveTracker | NoTracker:
    """Returns the tracker that a study asks for.

    A store that cannot be used costs less than ten seconds and one warning, and ``NoTracker`` is returned.
    """
    track = plan["config"]["track"]
    uri = tracking_uri(results, track["uri"])
    if not track["enabled"] or uri in _failed:
        return NoTracker()
    try:
        return LiveTracker(Tracker.open(results, uri, plan), uri)
    except StudyError as error:
        _give_up(uri, error)
        return NoTracker()


def _give_up(uri: str, error: StudyError) -> None:
    _failed.add(uri)
    LOG.warning("%s. Records are complete; run `ssma track` later to fill the store.", error)
