"""Fabricates a results folder with known numbers: 3 folds x 2 seeds of accuracy, 3 seeds of MAE, and every mishap."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ssma.report.frame import collect
from ssma.study.lookup import read_plan
from ssma.study.paths import Results
from ssma.study.records import write_record

INFINITE = 1.797e308
TU = {"MUTAG": "MUTAG", "PROTEINS": "PROTEINS", "IMDB": "IMDB-BINARY"}
SPECS = {label: {"source": "tu", "name": name, "features": "labels"} for label, name in TU.items()}
SPECS["ZINC"] = {"source": "zinc"}
FOLDS = {label: {"scheme": "shuffle", "folds": 3, "seed": 0} for label in TU} | {"ZINC": {"scheme": "official"}}
METRICS = dict.fromkeys(TU, ("accuracy", "maximize")) | {"ZINC": ("mae", "minimize")}


@dataclass
class Fabric:
    """A study under construction: add arms and records, then ``plan()`` or ``read()``."""

    results: Results
    code: str = "c0de"
    arms: list[dict[str, Any]] = field(default_factory=list)
    ablations: dict[str, Any] = field(default_factory=dict)

    def arm(self, arm_id: str, fixed: dict | None = None, splits: int = 3, repeats: int = 2, **changes: Any) -> str:
        dataset, layer, aggregator = arm_id.split("-")[:3]
        arm = {
            "id": arm_id, "label": arm_id.replace("-", " / "), "dataset": dataset, "layer": layer,
            "aggregator": aggregator, "fixed": fixed or {}, "space": {}, "search_id": arm_id, "trials": 2,
            "settings": {"aggregator": {}, "model": {"budget": 1000}, "training": {"lr": 0.001, "max_epochs": 300}},
            "tune_splits": [0], "splits": list(range(splits)), "repeats": repeats, "selection": "validation",
            "sampler": "tpe", "prune": False,
        } | changes  # fmt: skip
        self.arms.append(arm)
        return arm_id

    def fit(self, arm_id: str, name: str, test: float | None, status: str = "ok", split: int = 0, **changes) -> str:
        arm = next(arm for arm in self.arms if arm["id"] == arm_id)
        metric, direction = METRICS[arm["dataset"]]
        shifts = {"train": 0.02, "validation": 0.01, "test": 0.0}
        parts = {part: None if status != "ok" else {"loss": 0.5 + shift, metric: test and test + shift}
                 for part, shift in shifts.items()}  # fmt: skip
        record = {
            "kind": "fit", "id": f"{arm_id}-{name}", "status": status, "metric": metric, "direction": direction,
            "reason": None if status == "ok" else f"{status}: on purpose",
            "spec": {"dataset": arm["dataset"], "data_hash": "da7a", "split": split, "split_hash": f"s{split}",
                     "seed": 7},
            "history": {"validation_metric": [0.1, 0.2, 0.3, 0.5, *[0.4] * 6]},
            "best_epoch": 3 if status == "ok" else None, "epochs": 10, **parts,
            "hidden_channels": 16, "parameters": 900, "budget": 1000, "seconds": 2.0, "seconds_per_step": 0.01,
            "peak_memory_mb": None, "device": "cpu", "threads": 1, "versions": {"ssma": "0.1.0", "torch": "2.13.0"},
            "code": self.code, "git_commit": None, "started": "2026-01-01T12:00:00+00:00",
        } | changes  # fmt: skip
        write_record(self.results.fit(record["id"]), record)
        return record["id"]

    def tuned(self, arm_id: str, trials: list[tuple[str, dict, list[float]]], best: int = 0) -> None:
        """Each trial: state, hyperparameters, one test metric per split; validation is a point above it."""
        arm = next(arm for arm in self.arms if arm["id"] == arm_id)
        metric, direction = METRICS[arm["dataset"]]
        entries = []
        for number, (state, hyperparameters, tests) in enumerate(trials):
            fits = {str(s): self.fit(arm_id, f"t{number}s{s}", test, split=s) for s, test in enumerate(tests)}
            entries.append(
                {"number": number, "state": state, "hyperparameters": hyperparameters, "validation": None,
                 "per_split": {}, "fits": fits, "reason": None if fits else "width 0"}
            )  # fmt: skip
        chosen = {str(split): trials[best][1] for split in arm["splits"]}
        write_record(
            self.results.chosen(arm_id),
            {"kind": "chosen", "arm_id": arm_id, "status": "ok", "reason": None, "metric": metric,
             "direction": direction, "trials": entries, "planned": arm["trials"], "chosen": chosen,
             "chosen_trial": dict.fromkeys(chosen, best)},
        )  # fmt: skip

    def evaluated(self, arm_id: str, tests: dict[tuple[int, int], float | str], **changes: Any) -> None:
        """Writes an evaluation: (split, repeat) -> test metric, or a status that is not ok."""
        fits = []
        for (split, repeat), test in tests.items():
            status, value = (test, None) if isinstance(test, str) else ("ok", test)
            name = self.fit(arm_id, f"e{split}r{repeat}", value, status, split, **changes)
            fits.append({"id": name, "split": split, "repeat": repeat, "seed": 7, "status": status, "reason": None})
        record = {"kind": "evaluation", "arm_id": arm_id, "status": "ok", "reason": None, "chosen": {}, "fits": fits}
        write_record(self.results.evaluation(arm_id), record | {"planned": len(fits)})

    def unusable(self, arm_id: str, reason: str) -> None:
        """Writes what a tuning without a valid trial leaves."""
        body = {"arm_id": arm_id, "status": "failed", "reason": reason}
        none = {"metric": "accuracy", "direction": "maximize", "trials": [], "planned": 2, "chosen": {}}
        write_record(self.results.chosen(arm_id), body | none | {"kind": "chosen", "chosen_trial": {}})
        write_record(
            self.results.evaluation(arm_id), body | {"kind": "evaluation", "chosen": {}, "fits": [], "planned": 6}
        )

    def ablation(self, name: str, axes: dict[str, list], cells: dict[str, list]) -> None:
        """Each cell: arm id -> its values, in the order of the axes."""
        entries = []
        for arm_id, point in cells.items():
            dataset, layer = arm_id.split("-")[:2]
            place = dict(zip(axes, point, strict=True))
            entries.append({"arm": arm_id, "dataset": dataset, "layer": layer, "point": place})
        title = name.replace("_", " ").capitalize()
        self.ablations[name] = {"title": title, "axes": axes, "cells": entries}

    def plan(self) -> dict[str, Any]:
        labels = list(dict.fromkeys(arm["dataset"] for arm in self.arms))
        datasets = {}
        for label in labels:
            given = {"id": f"{label}-1", "label": label, "spec": SPECS[label], "splits": FOLDS[label]}
            datasets[label] = given | {"use": FOLDS[label].get("folds", 1)}
        write_record(
            self.results.plan,
            {"kind": "plan", "study": "made_up", "title": "A study & its <tests>", "result_version": 1,
             "config": {"track": {"enabled": True}},
             "datasets": datasets, "arms": self.arms, "ablations": self.ablations},
        )  # fmt: skip
        return read_plan(self.results.plan)

    def read(self) -> tuple[dict[str, Any], pd.DataFrame]:
        return self.plan(), collect(self.results)

    def card(self) -> None:
        """Writes MUTAG's card and splits, with half as many test as training graphs."""
        folder = self.results.data("MUTAG-1")
        write_record(
            folder / "card.json",
            {"kind": "card", "notes": ["made up"], "label": "MUTAG", "level": "graph", "task": "multiclass", "metric": "accuracy",
             "direction": "maximize", "num_outputs": 2, "num_graphs": 188, "num_edges": 7442,
             "nodes_per_graph": {"mean": 17.93, "min": 10, "max": 28}, "in_degree": {"mean": 2.21, "max": 4},
             "features": "node labels (one-hot)", "data_hash": "da7ada7ada7ada7a"},
        )  # fmt: skip
        split = {"train": [0, 1, 2, 3], "validation": [4], "test": [5, 6], "hash": "s"}
        write_record(
            folder / "splits.json",
            {"kind": "splits", "folds": 3, "items": "graphs", "scheme": "shuffle", "seed": 0, "splits": [split] * 3},
        )


@pytest.fixture
def no_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out PNG and PDF of figures, which take half of the time of a report; the page has their SVG all the same."""
    from matplotlib import pyplot

    monkeypatch.setattr("ssma.report.figures.save", lambda figure, folder, name: pyplot.close(figure))


@pytest.fixture
def fabric(tmp_path: Path) -> Fabric:
    return Fabric(Results(tmp_path / "results" / "made_up"))


@pytest.fixture
def study(fabric: Fabric) -> Results:
    """Sum against SSMA on two layers and two data sets, and kappa, which shares an arm with the first."""
    sums = {(0, 0): 0.80, (0, 1): 0.84, (1, 0): 0.70, (1, 1): 0.74, (2, 0): 0.90, (2, 1): 0.86}
    ssma = {(0, 0): 0.85, (0, 1): 0.85, (1, 0): 0.80, (1, 1): 0.80, (2, 0): 0.90, (2, 1): "diverged"}
    fabric.arm("MUTAG-gcn-sum")
    fabric.tuned("MUTAG-gcn-sum", [("complete", {}, [0.8])])
    fabric.evaluated("MUTAG-gcn-sum", sums)
    fabric.arm("MUTAG-gcn-ssma", {"ssma.kappa": 3}, trials=4)
    fabric.tuned(
        "MUTAG-gcn-ssma",
        [("complete", {"training.lr": 0.01}, [0.80, 0.84]), ("complete", {"training.lr": 0.1}, [0.90, 0.94]),
         ("pruned", {"training.lr": 1.0}, [0.99]), ("failed", {"training.lr": 2.0}, [])],
    )  # fmt: skip
    fabric.evaluated("MUTAG-gcn-ssma", ssma)
    fabric.arm("MUTAG-gin-sum")
    fabric.unusable("MUTAG-gin-sum", "no valid trial: 2 failed")
    fabric.arm("MUTAG-gin-ssma", {"ssma.kappa": 3})
    for aggregator, tests in (("sum", (0.40, 0.42, 0.44)), ("ssma", (0.30, 0.31, 0.35))):
        arm = fabric.arm(f"ZINC-gcn-{aggregator}", splits=1, repeats=3)
        fabric.tuned(arm, [("complete", {}, [0.5])])
        fabric.evaluated(arm, {(0, repeat): test for repeat, test in enumerate(tests)})
    fabric.arm("MUTAG-gcn-ssma-k2", {"ssma.kappa": 2})
    fabric.evaluated(
        "MUTAG-gcn-ssma-k2", {(0, 0): 0.7, (0, 1): 0.7, (1, 0): 0.8, (1, 1): 0.8, (2, 0): 0.6, (2, 1): 0.6}
    )
    fabric.arm("MUTAG-gcn-ssma-k4", {"ssma.kappa": 4})
    fabric.evaluated("MUTAG-gcn-ssma-k4", {(0, 0): INFINITE, (0, 1): "diverged"})
    main = {f"{place}-{name}": [name] for place in ("MUTAG-gcn", "MUTAG-gin", "ZINC-gcn") for name in ("sum", "ssma")}
    fabric.ablation("main", {"aggregator": ["sum", "ssma"]}, main)
    slots = {"MUTAG-gcn-ssma-k2": [2], "MUTAG-gcn-ssma": [3], "MUTAG-gcn-ssma-k4": [4]}
    fabric.ablation("kappa_slots", {"ssma.kappa": [2, 3, 4]}, slots)
    fabric.plan()
    fabric.card()
    return fabric.results
