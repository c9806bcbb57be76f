"""The search of one arm: Optuna trials over the splits, judged on validation, pruned split by split, resumable.

The search is a row of slots, one per planned trial. A slot's hyperparameters follow from the search's id, the slot's
number and the results before it, so a search that was killed ends as it would have without.
"""

import fcntl
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from ssma.study.ids import seed_from
from ssma.tune.space import Space, configurations, distributions

SLOT, OUTCOME = "slot", "outcome"
RunFit = Callable[[dict[str, Any], int], dict[str, Any]]
"""(hyperparameters, split) -> fit record."""

log = logging.getLogger("ssma.tune")


@dataclass
class TrialResult:
    """What one slot of a search led to."""

    number: int
    hyperparameters: dict[str, Any]
    state: str = "complete"
    reason: str | None = None
    records: dict[int, dict[str, Any]] = field(default_factory=dict)

    def scores(self, part: str) -> dict[int, float]:
        """Returns split -> metric on ``part`` of the splits that were trained."""
        return {split: r[part][r["metric"]] for split, r in self.records.items() if r["status"] == "ok"}


def search(
    journal: Path,
    search_id: str,
    space: Space,
    trials: int,
    splits: list[int],
    direction: str,
    prune: bool,
    run_fit: RunFit,
    after_trial: Callable[[TrialResult], None] = lambda result: None,
) -> list[TrialResult]:
    """Runs what is missing of a search and returns the results of its first ``trials`` slots.

    Args:
        journal: The Optuna journal of this search; made if absent, kept for a later, longer search.
        search_id: Name of the Optuna study; the space is part of it.
        space: What is searched.
        trials: Number of slots.
        splits: Splits on which a trial is judged, in this order.
        direction: ``maximize`` or ``minimize``, of the validation metric.
        prune: Whether a trial may end before its last split.
        run_fit: Trains; finished fits are expected to come back from disk.
        after_trial: Called with each result.
    """
    with _only_writer(journal), warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = _open(journal, search_id, direction, prune)
        results = []
        for slot in range(trials):
            trial = _finished(study, slot)
            if trial is None:
                result = _run(study, _ask(study, search_id, space, slot, trials), slot, splits, run_fit)
            else:
                result = _replay(trial, slot, splits, run_fit)
            results.append(result)
            after_trial(result)
        return results


@contextmanager
def _only_writer(journal: Path) -> Iterator[None]:
    """Waits until no other process works on this search; what a killed one left locked is freed."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.with_suffix(".writer").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        journal.with_name(journal.name + ".lock").unlink(missing_ok=True)
        yield


def _open(journal: Path, search_id: str, direction: str, prune: bool) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    backend = optuna.storages.journal.JournalFileBackend(str(journal))
    study = optuna.create_study(
        study_name=search_id,
        storage=optuna.storages.JournalStorage(backend),
        direction=direction,
        pruner=optuna.pruners.WilcoxonPruner(p_threshold=0.1) if prune else optuna.pruners.NopPruner(),
        load_if_exists=True,
    )
    for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
        log.info("trial %d was interrupted; it is closed and its slot runs again", trial.number)
        study.tell(trial.number, state=TrialState.FAIL)
    return study


def _finished(study: optuna.Study, slot: int) -> FrozenTrial | None:
    """Returns the trial that fills a slot: an outcome was noted, and it was not an error of code or machine."""
    filled = [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.user_attrs.get(SLOT) == slot and trial.user_attrs.get(OUTCOME) in ("complete", "pruned", "diverged")
    ]
    return filled[0] if filled else None


def _ask(study: optuna.Study, search_id: str, space: Space, slot: int, trials: int) -> Trial:
    """Returns a new trial with the slot's hyperparameters; a slot that runs again gets those it had."""
    spaces = distributions(space)
    everything = configurations(space, trials)
    before = [
        t.params
        for t in study.get_trials(deepcopy=False)
        if t.user_attrs.get(SLOT) == slot and t.params.keys() == space.keys()
    ]
    fixed = everything[slot] if everything else before[-1] if before else {}
    sampler = optuna.samplers.TPESampler(seed=seed_from(search_id, slot))
    study.sampler = optuna.samplers.PartialFixedSampler(fixed, sampler) if fixed else sampler
    trial = study.ask(spaces)
    trial.set_user_attr(SLOT, slot)
    return trial


def _run(study: optuna.Study, trial: Trial, slot: int, splits: list[int], run_fit: RunFit) -> TrialResult:
    result = TrialResult(slot, dict(trial.params))
    for split in splits:
        record = run_fit(result.hyperparameters, split)
        result.records[split] = record
        if record["status"] != "ok":
            result.state, result.reason = "failed", f"split {split} {record['status']}: {record['reason']}"
            trial.set_user_attr(OUTCOME, record["status"])
            study.tell(trial, state=TrialState.FAIL)
            return result
        trial.report(record["validation"][record["metric"]], split)
        if split != splits[-1] and trial.should_prune():
            result.state = "pruned"
            trial.set_user_attr(OUTCOME, "pruned")
            study.tell(trial, state=TrialState.PRUNED)
            return result
    scores = result.scores("validation")
    trial.set_user_attr(OUTCOME, "complete")
    study.tell(trial, sum(scores.values()) / len(scores))
    return result


def _replay(trial: FrozenTrial, slot: int, splits: list[int], run_fit: RunFit) -> TrialResult:
    """Returns the result of a finished trial from its fits' records."""
    result = TrialResult(slot, dict(trial.params))
    outcome = trial.user_attrs[OUTCOME]
    for split in splits[: len(trial.intermediate_values) + (outcome == "diverged")]:
        result.records[split] = run_fit(result.hyperparameters, split)
    if outcome == "pruned":
        result.state = "pruned"
    elif outcome == "diverged":
        last = splits[len(trial.intermediate_values)]
        result.state, result.reason = "failed", f"split {last} diverged: {result.records[last]['reason']}"
    return result
