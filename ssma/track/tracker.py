"""Writes runs into the store, each once: a run is found again by its key and never doubled.

Tags say what a run is: ``ssma.key`` names it, ``ssma.identity`` is a hash of what it says. What is already
there is left alone; a run that a kill left open is completed in place; one that said something else is closed,
marked ``ssma.superseded_by`` and made again, since MLflow never changes a parameter.
"""

import logging
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssma.errors import StudyError
from ssma.study.ids import canonical_json
from ssma.study.paths import Results
from ssma.study.records import read_record
from ssma.track.names import param_values
from ssma.track.runs import FINAL_STATE, LONGEST_REASON, Run, arm_points, arm_run, fit_run, trial_run
from ssma.track.store import artifact_folder, create_store, make_client

if TYPE_CHECKING:
    from mlflow import MlflowClient

log = logging.getLogger("ssma.track")

PAGE = 1000
PARENT = "mlflow.parentRunId"
OPEN = "RUNNING"


@dataclass
class Known:
    """What the tracker remembers of a run in the store."""

    run_id: str
    identity: str
    state: str
    parent: str | None


class Tracker:
    """Logs arms, trials and fits of one study; every error of the store is raised as it comes.

    An arm belongs to one process at a time: its runs are read from the store once, when it is first named. Every call
    is synchronous: where MLFLOW_ENABLE_ASYNC_LOGGING is set, MLflow would drop the errors of the others.
    """

    def __init__(self, results: Results, plan: dict[str, Any], client: "MlflowClient", experiment: str) -> None:
        self.results = results
        self.plan = plan
        self.client = client
        self.experiment = experiment
        self.created = 0
        self._arms: dict[str, dict[str, list[Known]]] = {}

    @classmethod
    def open(cls, results: Results, uri: str, plan: dict[str, Any]) -> "Tracker":
        """Opens the store of a study, and makes it if it is missing."""
        experiment = create_store(uri, artifact_folder(results), plan["study"])
        return cls(results, plan, make_client(uri), experiment)

    def arm(self, arm: dict[str, Any]) -> str:
        """Opens the run of an arm, the parent of all its runs, or finds it; returns its id."""
        return self._save(arm["id"], arm_run(self.plan, arm), parent=None)

    def trial(self, arm: dict[str, Any], trial: dict[str, Any], fits: list[dict[str, Any]]) -> None:
        """Logs one trial: its entry as in ``chosen.json``, and the records of its fits."""
        self._save(arm["id"], trial_run(arm, trial, fits), self._parent(arm))

    def fit(self, arm: dict[str, Any], split: int, repeat: int, fit: dict[str, Any]) -> None:
        """Logs one fit of the evaluation from its record."""
        self._save(arm["id"], fit_run(arm, split, repeat, fit), self._parent(arm))

    def finish(self, arm: dict[str, Any], status: str, reason: str | None = None) -> None:
        """Closes the run of an arm: ``status`` is ok, failed or interrupted.

        Attaches ``chosen.json`` and ``evaluation.json``, so they must be written before; closes what was left open.
        """
        parent = self._parent(arm)
        paths = [self.results.chosen(arm["id"]), self.results.evaluation(arm["id"])]
        for path in paths:
            if path.exists():
                self.client.log_artifact(parent, str(path))
        if status == "ok" and all(path.exists() for path in paths):
            self._summarise(parent, *map(read_record, paths))
        for run in chain.from_iterable(self._runs(arm["id"]).values()):
            if run.run_id == parent:
                tags = {"ssma.status": status, "ssma.reason": (reason or "")[:LONGEST_REASON]}
                self._close(run, tags, FINAL_STATE[status])
            elif run.state == OPEN:
                self._close(run, {"ssma.status": "interrupted"}, "KILLED")

    def _summarise(self, parent: str, chosen: dict[str, Any], evaluation: dict[str, Any]) -> None:
        """Gives an arm's run what a list of arms is sorted by, and the hyperparameters that were chosen."""
        from mlflow.entities import Metric, RunTag

        fits = readable([self.results.fit(entry["id"]) for entry in evaluation["fits"]])
        points = arm_points(chosen, evaluation, fits)
        same = {canonical_json(values): values for values in chosen["chosen"].values()}
        picked = next(iter(same.values())) if len(same) == 1 else {}
        tags = {f"chosen.{key}": text for key, text in param_values(picked)[0].items()}
        self.client.log_batch(
            parent,
            metrics=[Metric(point.name, point.value, point.time, point.step) for point in points],
            tags=[RunTag(name, text) for name, text in tags.items()],
            synchronous=True,
        )
        for name in self.client.get_run(parent).data.tags:
            if name.startswith("chosen.") and name not in tags:  # of what was chosen before trials were tried again
                self.client.delete_tag(parent, name)

    def _parent(self, arm: dict[str, Any]) -> str:
        known = self._arms.get(arm["id"], {}).get(f"arm:{arm['id']}")
        return known[0].run_id if known else self.arm(arm)

    def _save(self, arm_id: str, run: Run, parent: str | None) -> str:
        runs = self._runs(arm_id)
        same = [known for known in runs[run.key] if known.identity == run.identity]
        keep = min(same, key=lambda known: known.state == OPEN, default=None)
        if keep is None:
            keep = self._create(run, parent)
        for other in runs[run.key]:
            if other is not keep:
                tags = {"ssma.superseded_by": keep.run_id}
                self._close(other, tags, "KILLED" if other.state == OPEN else other.state)
        runs[run.key] = [keep]
        if keep.state == OPEN or run.state is None:
            self._write(keep, run)
        if keep.parent != parent:
            self.client.set_tag(keep.run_id, PARENT, parent, synchronous=True)
            keep.parent = parent
        return keep.run_id

    def _create(self, run: Run, parent: str | None) -> Known:
        tags = {"ssma.key": run.key, "ssma.identity": run.identity} | run.tags
        if parent is not None:
            tags[PARENT] = parent
        made = self.client.create_run(self.experiment, start_time=run.start, tags=tags, run_name=run.name)
        self.created += 1
        return Known(made.info.run_id, run.identity, OPEN, parent)

    def _write(self, known: Known, run: Run) -> None:
        """Fills a run; points that are there already, with the same value and time, are not stored again."""
        from mlflow.entities import Metric, Param, RunTag

        self.client.log_batch(  # it cuts its lists into the 1000 metrics and 100 parameters that one call may hold
            known.run_id,
            metrics=[Metric(point.name, point.value, point.time, point.step) for point in run.points],
            params=[Param(name, value) for name, value in run.params.items()],
            tags=[RunTag(name, value) for name, value in run.tags.items()],
            synchronous=True,
        )
        for path, text in run.files.items():
            self.client.log_text(known.run_id, text, path)
        if run.state is not None:
            self.client.set_terminated(known.run_id, run.state, run.end)
            known.state = run.state

    def _close(self, known: Known, tags: dict[str, str], state: str) -> None:
        """Tags a run and ends it in ``state``; one that ended so before keeps its time."""
        from mlflow.entities import RunTag

        told = [RunTag(name, value) for name, value in tags.items()]
        self.client.log_batch(known.run_id, tags=told, synchronous=True)
        if known.state != state:
            self.client.set_terminated(known.run_id, state)
            known.state = state

    def _runs(self, arm_id: str) -> dict[str, list[Known]]:
        """Returns the runs of an arm by key, those that were superseded left out."""
        if arm_id not in self._arms:
            found: dict[str, list[Known]] = defaultdict(list)
            token = None
            while True:
                query = f"tags.\"ssma.arm\" = '{arm_id}'"
                page = self.client.search_runs([self.experiment], query, max_results=PAGE, page_token=token)
                for run in page:
                    tags = run.data.tags
                    # without them: somebody's own run, or one whose tags were edited in the UI
                    if {"ssma.key", "ssma.identity"} <= tags.keys() and "ssma.superseded_by" not in tags:
                        cut = PARENT in tags and tags.get("ssma.status") == "interrupted"  # stopped as it was written
                        state = OPEN if cut else run.info.status
                        known = Known(run.info.run_id, tags["ssma.identity"], state, tags.get(PARENT))
                        found[tags["ssma.key"]].append(known)
                token = page.token
                if not token:
                    break
            self._arms[arm_id] = found
        return self._arms[arm_id]


def readable(paths: list[Path]) -> list[dict[str, Any]]:
    """Returns the records that are there and whole; says which are damaged."""
    found = []
    for path in paths:
        if path.exists():
            try:
                found.append(read_record(path))
            except StudyError as error:
                log.warning("left out: %s", error)
    return found
