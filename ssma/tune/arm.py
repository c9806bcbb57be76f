"""Tuning and evaluating one arm: the search, the choice, and the fits behind the reported numbers."""

from collections.abc import Callable
from typing import Any, Protocol

import optuna

from ssma.study.ids import seed_from
from ssma.study.paths import Results
from ssma.study.records import read_record, write_record
from ssma.tune.search import TrialResult, search
from ssma.tune.select import choose

Train = Callable[[dict[str, Any], int, int], dict[str, Any]]
"""(hyperparameters, split, seed) -> fit record."""


class Watcher(Protocol):
    """Is told of results as they come: progress on the terminal, MLflow."""

    def trial(self, entry: dict[str, Any], records: list[dict[str, Any]]) -> None: ...

    def fit(self, split: int, repeat: int, record: dict[str, Any]) -> None: ...


def tune_arm(
    results: Results,
    arm: dict[str, Any],
    dataset_id: str,
    study_seed: int,
    metric: str,
    direction: str,
    train: Train,
    watcher: Watcher,
    storage_url: str | None = None,
) -> dict[str, Any]:
    """Searches an arm's space, chooses by the arm's ``selection``, writes and returns ``chosen.json``.

    An arm without a search space has nothing to choose and trains nothing here. The seed of a fit depends on data set
    and split only, so arms are paired.

    Args:
        dataset_id: Id of its data set.
        direction: ``maximize`` or ``minimize``.
        train: Trains one fit, or reads its record.
        watcher: Is told of each trial.
        storage_url: A PostgreSQL database that keeps the search instead of a journal.
    """

    def run_fit(hyperparameters: dict[str, Any], split: int) -> dict[str, Any]:
        return train(hyperparameters, split, seed_from(study_seed, dataset_id, "tune", split))

    def tell(result: TrialResult) -> None:
        watcher.trial(_entry(result), list(result.records.values()))

    trials: list[TrialResult] = []
    if arm["space"]:
        trials = search(
            results.search(arm["search_id"]), arm["search_id"], arm["space"], arm["trials"], arm["tune_splits"],
            direction, arm["prune"], run_fit, tell, arm["sampler"], storage_url,
        )  # fmt: skip
    complete = {result.number: result for result in trials if result.state == "complete"}
    judged_on = "test" if arm["selection"] == "test" else "validation"
    scores = {number: result.scores(judged_on) for number, result in complete.items()}
    scores = {number: of_splits for number, of_splits in scores.items() if None not in of_splits.values()}
    chosen: dict[int, int] = {}
    status, reason = "ok", None
    if arm["space"] and not scores:
        no_score = f"no {judged_on} {metric} is a finite number" if complete else "all were pruned"
        status, reason = "failed", "no valid trial: " + next((r.reason for r in trials if r.reason), no_score)
    elif arm["space"]:
        chosen = choose(scores, arm["splits"], direction, per_split=arm["selection"] == "per_split")
    record = {
        "kind": "chosen",
        "arm_id": arm["id"],
        "status": status,
        "reason": reason,
        "selection": arm["selection"],
        "metric": metric,
        "direction": direction,
        "planned": arm["trials"],
        "optuna": optuna.__version__ if arm["space"] else None,
        "trials": [_entry(result) for result in trials],
        "chosen_trial": {str(split): chosen.get(split) for split in arm["splits"]},
        "chosen": {
            str(split): complete[chosen[split]].hyperparameters if split in chosen else {} for split in arm["splits"]
        },
    }
    if status == "failed":
        _write_evaluation(results, arm, record["chosen"], [], reason)
    return write_record(results.chosen(arm["id"]), record)


def evaluate_arm(
    results: Results, arm: dict[str, Any], dataset_id: str, study_seed: int, train: Train, watcher: Watcher
) -> dict[str, Any]:
    """Trains the chosen configuration with fresh seeds on every split, writes and returns ``evaluation.json``."""
    chosen = read_record(results.chosen(arm["id"]))
    fits = []
    if chosen["status"] == "ok":
        for split in arm["splits"]:
            for repeat in range(arm["repeats"]):
                seed = seed_from(study_seed, dataset_id, "evaluate", split, repeat)
                record = train(chosen["chosen"][str(split)], split, seed)
                watcher.fit(split, repeat, record)
                ended = {key: record[key] for key in ("status", "reason")}
                fits.append({"id": record["id"], "split": split, "repeat": repeat, "seed": seed} | ended)
    bad = [f"split {fit['split']} {fit['status']}: {fit['reason']}" for fit in fits if fit["status"] != "ok"]
    nothing = chosen["reason"] if chosen["status"] != "ok" else "no fit succeeded: " + (bad or ["none planned"])[0]
    succeeded = any(fit["status"] == "ok" for fit in fits)
    return _write_evaluation(results, arm, chosen["chosen"], fits, None if succeeded else nothing)


def _write_evaluation(
    results: Results, arm: dict[str, Any], chosen: dict[str, Any], fits: list[dict[str, Any]], reason: str | None
) -> dict[str, Any]:
    record = {
        "kind": "evaluation",
        "arm_id": arm["id"],
        "status": "ok" if reason is None else "failed",
        "reason": reason,
        "chosen": chosen,
        "fits": fits,
        "planned": len(arm["splits"]) * arm["repeats"],
    }
    return write_record(results.evaluation(arm["id"]), record)


def _entry(result: TrialResult) -> dict[str, Any]:
    scores = result.scores("validation")
    return {
        "number": result.number,
        "state": result.state,
        "reason": result.reason,
        "hyperparameters": result.hyperparameters,
        "validation": sum(scores.values()) / len(scores) if scores and result.state == "complete" else None,
        "per_split": {str(split): score for split, score in scores.items()},
        "fits": {str(split): record["id"] for split, record in result.records.items()},
    }
