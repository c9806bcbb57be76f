"""The search of one arm: Optuna trials over the splits, judged on validation, pruned split by split, resumable.

The search is a row of slots, one per planned trial. A slot's hyperparameters follow from the search's id, the slot's
number and the results before it, so a search that was killed ends as it would have without.
"""

import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from ssma.study.ids import canonical_json, seed_from
from ssma.study.locks import exclusive
from ssma.tune.space import Space, distributions, first_untried

SLOT, OUTCOME = "slot", "outcome"
STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "diverged": TrialState.FAIL,
    "timeout": TrialState.FAIL,
}
"""What a slot can end in for good."""
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
    with exclusive(journal.with_suffix(".writer")), warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        journal.with_name(journal.name + ".lock").unlink(missing_ok=True)  # Optuna's own, left by a killed process
        study = _open(journal, search_id, direction, prune)
        results = []
        for slot in range(trials):
            trial = _finished(study, slot)
            if trial is None:
                result = _run(study, _ask(study, search_id, space, slot), slot, splits, run_fit)
            else:
                result = _replay(trial, slot, splits, run_fit)
            results.append(result)
            after_trial(result)
        return results


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
        log.info("trial %d was interrupted; it is closed, and runs again unless it had ended", trial.number)
        outcome, scores = trial.user_attrs.get(OUTCOME), list(trial.intermediate_values.values())
        value = sum(scores) / len(scores) if outcome == "complete" else None
        study.tell(trial.number, value, STATES.get(outcome, TrialState.FAIL))
    return study


def _finished(study: optuna.Study, slot: int) -> FrozenTrial | None:
    """Returns the trial that fills a slot: its outcome was noted, and was not an error of code or machine."""
    return next((trial for trial in _of_slot(study, slot) if trial.user_attrs.get(OUTCOME) in STATES), None)


def _of_slot(study: optuna.Study, slot: int) -> list[FrozenTrial]:
    return [trial for trial in study.get_trials(deepcopy=False) if trial.user_attrs.get(SLOT) == slot]


def _ask(study: optuna.Study, search_id: str, space: Space, slot: int) -> Trial:
    """Returns a new trial with the slot's hyperparameters, which no other slot has tried if the space has more.

    A slot that runs again gets what it had. Else TPE proposes; instead of a repetition, which would cost an arm a
    trial, comes the next configuration of a random order.
    """
    spaces, seed = distributions(space), seed_from(search_id, slot)
    before = [trial.params for trial in _of_slot(study, slot) if trial.params.keys() == space.keys()]
    sampler = optuna.samplers.TPESampler(seed=seed)
    study.sampler = optuna.samplers.PartialFixedSampler(before[-1], sampler) if before else sampler
    trial = study.ask(spaces)
    if not before:
        tried = {canonical_json(t.params) for other in range(slot) for t in _of_slot(study, other)}
        fresh = first_untried(space, tried, seed) if canonical_json(trial.params) in tried else None
        if fresh is not None:
            study.tell(trial, state=TrialState.FAIL)
            study.sampler = optuna.samplers.PartialFixedSampler(fresh, sampler)
            trial = study.ask(spaces)
    trial.set_user_attr(SLOT, slot)
    return trial


def _run(study: optuna.Study, trial: Trial, slot: int, splits: list[int], run_fit: RunFit) -> TrialResult:
    result = TrialResult(slot, dict(trial.params))
    for split, record in _fits(result, splits, run_fit):
        trial.report(record["validation"][record["metric"]], split)
        if split != splits[-1] and trial.should_prune():
            result.state = "pruned"
            break
    scores = result.scores("validation")
    outcome = list(result.records.values())[-1]["status"] if result.state == "failed" else result.state
    trial.set_user_attr(OUTCOME, outcome)
    value = sum(scores.values()) / len(scores) if result.state == "complete" else None
    study.tell(trial, value, STATES.get(outcome, TrialState.FAIL))
    return result


def _replay(trial: FrozenTrial, slot: int, splits: list[int], run_fit: RunFit) -> TrialResult:
    """Returns the result of a finished trial from its fits' records; what was deleted of them is trained again."""
    result = TrialResult(slot, dict(trial.params))
    outcome = trial.user_attrs[OUTCOME]
    seen = len(trial.intermediate_values) + (STATES[outcome] == TrialState.FAIL)
    list(_fits(result, splits[:seen], run_fit))
    if outcome == "pruned" and result.state == "complete":
        result.state = "pruned"
    return result


def _fits(result: TrialResult, splits: list[int], run_fit: RunFit) -> Iterator[tuple[int, dict[str, Any]]]:
    """Trains split by split, notes the records, and yields good ones; the first that is not ends the trial."""
    for split in splits:
        record = run_fit(result.hyperparameters, split)
        result.records[split] = record
        if record["status"] != "ok":
            result.state, result.reason = "failed", f"split {split} {record['status']}: {record['reason']}"
            return
        yield split, record
