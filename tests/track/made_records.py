"""A made-up study of two arms, written as a real one would be."""

from ssma.study.records import write_record

STARTED = "2026-01-01T12:00:00+00:00"
OF_DATA = {
    "data.source": "folder", "data.content": "c0", "data.features": "labels", "data.node_attributes": "false",
    "splits.scheme": "shuffle", "splits.folds": "3", "splits.seed": "0",
}  # fmt: skip
"""What an arm's run has of its data set as parameters."""


def make_plan(names=("one", "two"), study="made", uri=None, long_text="short"):
    arms = [
        {
            "id": f"MUTAG-gcn-{name}-0123456789",
            "label": f"MUTAG / gcn / {name}",
            "dataset": "MUTAG",
            "layer": "gcn",
            "aggregator": "ssma",
            "settings": {
                "aggregator": {"kappa": 3, "note": long_text},
                "model": {"num_layers": 4},
                "training": {"lr": 0.01},
            },
            "fixed": {},
            "space": {},
            "search_id": "s",
            "trials": 2,
            "tune_splits": [0, 1],
            "splits": [0, 1],
            "repeats": 1,
            "selection": "validation",
        }
        for name in names
    ]
    spec = {"source": "folder", "path": "/home/me", "content": "c0", "features": "labels", "node_attributes": False}
    splits = {"scheme": "shuffle", "folds": 3, "seed": 0}
    cells = [{"arm": arm["id"], "dataset": "MUTAG", "layer": "gcn", "point": {}} for arm in arms]
    return {
        "kind": "plan",
        "study": study,
        "title": "",
        "config": {"study": study, "track": {"enabled": True, "uri": uri}},
        "datasets": {"MUTAG": {"id": "MUTAG-1", "label": "MUTAG", "spec": spec, "splits": splits}},
        "arms": arms,
        "ablations": {"main": {"title": "", "axes": {}, "cells": cells}, "first": {"title": "", "cells": cells[:1]}},
    }


def make_fit(arm, split, lr=0.01, status="ok", epochs=3, tag=""):
    """Returns a fit record whose validation metric is 0.5, 0.9, 0.7, 0.7, ...; the second epoch's loss is null."""
    ok = status == "ok"
    metric = [0.5, 0.9] + [0.7] * (epochs - 2)
    return {
        "kind": "fit",
        "id": f"{arm['id'][-3:]}{tag}{split}{lr}".replace(".", "").replace("-", ""),
        "status": status,
        "reason": None if ok else "loss is not finite in epoch 2",
        "spec": {
            "dataset": "d",
            "split": split,
            "layer": "gcn",
            "aggregator": "ssma",
            "settings": {"aggregator": {"kappa": 3}, "model": {"num_layers": 4}, "training": {"lr": lr}},
            "seed": 123,
        },
        "metric": "accuracy",
        "direction": "maximize",
        "best_epoch": 2 if ok else None,
        "epochs": epochs,
        "train": {"loss": 0.2, "accuracy": 0.95} if ok else None,
        "validation": {"loss": 0.3, "accuracy": 0.9} if ok else None,
        "test": {"loss": 0.4, "accuracy": 0.8} if ok else None,
        "history": {
            "train_loss": [1.0, None] + [0.2] * (epochs - 2),
            "validation_loss": [0.9] * epochs,
            "validation_metric": metric,
            "lr": [lr] * epochs,
            "seconds": [0.5] * epochs,
        },
        "parameters": 999,
        "seconds": 0.5 * epochs,
        "started": STARTED,
    }


def make_trial(number, fits, state="complete"):
    complete = state == "complete"
    return {
        "number": number,
        "state": state,
        "hyperparameters": {"training.lr": 0.01 * (number + 1)},
        "validation": 0.85 if complete else None,
        "per_split": {str(fit["spec"]["split"]): 0.8 + 0.1 * fit["spec"]["split"] for fit in fits} if complete else {},
        "fits": {str(fit["spec"]["split"]): fit["id"] for fit in fits},
        "reason": None if complete else "out of memory",
    }


def write_arm(results, arm):
    """Writes the records of an arm: two trials, the second failed, and two fits, the second diverged.

    Returns its trials with their fits, and its evaluation fits.
    """
    search = [make_fit(arm, split, tag="t") for split in (0, 1)]
    fits = [make_fit(arm, 0), make_fit(arm, 1, status="diverged")]
    trials = [(make_trial(0, search), search), (make_trial(1, [], "failed"), [])]
    for record in search + fits:
        write_record(results.fit(record["id"]), record)
    chosen = {
        "kind": "chosen", "arm_id": arm["id"], "status": "ok", "metric": "accuracy",
        "trials": [trial for trial, _ in trials], "chosen_trial": {"0": 0, "1": 0},
        "chosen": {str(split): trials[0][0]["hyperparameters"] for split in (0, 1)},
    }  # fmt: skip
    write_record(results.chosen(arm["id"]), chosen)
    entries = [{"id": fit["id"], "split": fit["spec"]["split"], "repeat": 0, "status": fit["status"]} for fit in fits]
    evaluation = {
        "kind": "evaluation", "arm_id": arm["id"], "status": "ok", "reason": None, "fits": entries, "planned": 2,
    }  # fmt: skip
    write_record(results.evaluation(arm["id"]), evaluation)
    return trials, fits


def log_live(tracker, arm, trials, fits):
    """Logs an arm in the order in which tune and evaluate do."""
    tracker.arm(arm)
    for trial, records in trials:
        tracker.trial(arm, trial, records)
    for fit in fits:
        tracker.fit(arm, fit["spec"]["split"], 0, fit)
    tracker.finish(arm, "ok")
