"""The search of one arm: Optuna trials over the splits, judged on validation, pruned split by split, resumable.

The search is a row of slots, one per planned trial. A slot's hyperparameters follow from the search's id, the slot's
number and the results before it, so a search that was killed ends as it would have without.
"""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from ssma.errors import StudyError
from ssma.study.ids import seed_from
from ssma.study.space import Space, configuration_key, without_idle
from ssma.study.tuning import PRUNE_BELOW
from ssma.tune.space import distributions, first_untried, on_grid
from ssma.tune.storage import writing

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
    sampler: str = "tpe",
    url: str | None = None,
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
        sampler: ``tpe``, ``random``, or ``grid``: the configurations in their order.
        url: A PostgreSQL database instead of the journal.

    Raises:
        StudyError: If the search was made for another direction, or the database cannot be used.
    """
    with _without_warnings(), writing(journal, search_id, url) as storage:
        study = _open(storage, search_id, direction, prune)
        results = []
        for slot in range(trials):
            trial = _finished(study, slot)
            if trial is None:
                result = _run(study, _ask(study, search_id, space, slot, sampler), slot, splits, run_fit)
            else:
                result = _replay(trial, slot, splits, run_fit)
            results.append(result)
            after_trial(result)
        return results


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silences what Optuna says of its newer parts, and of lists among choices: its stores keep them, as JSON."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", "Choices for a categorical distribution", UserWarning)
        yield


def _open(storage: BaseStorage, search_id: str, direction: str, prune: bool) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        study_name=search_id,
        storage=storage,
        direction=direction,
        pruner=optuna.pruners.WilcoxonPruner(p_threshold=PRUNE_BELOW) if prune else optuna.pruners.NopPruner(),
        load_if_exists=True,
    )
    made_for = study.direction.name.lower()
    if made_for != direction:  # which create_study does not look at in a study that exists
        raise StudyError(f"search {search_id}: was made to {made_for} its metric but is asked to {direction} it")
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


def _ask(study: optuna.Study, search_id: str, space: Space, slot: int, sampler: str) -> Trial:
    """Returns a new trial with the slot's hyperparameters, which no other slot has tried if the space has more.

    A slot that runs again gets what it had, one of a grid what stands there. Else the sampler proposes; instead of a
    repetition, which would cost an arm a trial, comes the next configuration of a random order.
    """
    spaces, seed = distributions(space), seed_from(search_id, slot)
    samplers = optuna.samplers
    proposing = samplers.TPESampler(seed=seed) if sampler == "tpe" else samplers.RandomSampler(seed=seed)
    before = [trial.params for trial in _of_slot(study, slot) if trial.params.keys() == space.keys()]
    known = before[-1] if before else on_grid(space, slot) if sampler == "grid" else None
    study.sampler = samplers.PartialFixedSampler(known, proposing) if known else proposing
    trial = study.ask(spaces)
    if not known:
        slots = [(t.user_attrs.get(SLOT), t) for t in study.get_trials(deepcopy=False)]
        tried = {configuration_key(t.params) for other, t in slots if other is not None and other < slot}
        fresh = first_untried(space, tried, seed) if configuration_key(trial.params) in tried else None
        if fresh is not None:
            study.tell(trial, state=TrialState.FAIL)
            study.sampler = samplers.PartialFixedSampler(fresh, proposing)
            trial = study.ask(spaces)
    trial.set_user_attr(SLOT, slot)
    return trial


def _run(study: optuna.Study, trial: Trial, slot: int, splits: list[int], run_fit: RunFit) -> TrialResult:
    result = TrialResult(slot, without_idle(trial.params))
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
    """Returns the result of a finished trial from its fits' records; what was deleted of them is trained again.

    A trial that had ended by a fit that is good now, as one that took too long, goes on to its last split: it would
    be judged on fewer splits than others.
    """
    result = TrialResult(slot, without_idle(trial.params))
    outcome = trial.user_attrs[OUTCOME]
    seen = len(splits) if STATES[outcome] == TrialState.FAIL else len(trial.intermediate_values)
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
