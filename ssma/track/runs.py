"""What a run says: records become tags, parameters and metrics. Pure Python, no MLflow.

Everything follows from the records alone, times too, so that logging twice says the same twice.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from statistics import fmean
from typing import Any, NamedTuple

from ssma.study.ids import digest
from ssma.study.records import PARTS
from ssma.study.space import full_names
from ssma.track.names import LONGEST_NAME, param_values, safe_name

FINAL_STATE = {
    "ok": "FINISHED",
    "complete": "FINISHED",
    "diverged": "FAILED",
    "failed": "FAILED",
    "timeout": "FAILED",
    "pruned": "KILLED",
    "interrupted": "KILLED",
}
"""MLflow's word for each status of a fit, state of a trial and end of an arm."""

LONGEST_REASON = 5000
PLACES = ("path", "file")
"""What a data set's entry says of where its files lie: of one arm they may lie elsewhere tomorrow."""
CURVES = ("train_loss", "auxiliary_loss", "validation_loss", "validation_metric", "lr")


class Point(NamedTuple):
    """One value of a metric; ``step`` of a curve is the epoch, from 1; ``time`` in milliseconds since 1970."""

    name: str
    value: float
    step: int
    time: int


@dataclass(frozen=True)
class Run:
    """The whole content of one MLflow run; ``state`` None leaves it open."""

    key: str
    name: str
    state: str | None
    tags: dict[str, str]
    params: dict[str, str]
    points: list[Point] = field(default_factory=list)
    start: int | None = None
    end: int | None = None
    files: dict[str, str] = field(default_factory=dict)
    identity: str = ""
    """A hash of the content: a run that says something else is another run, since parameters are write-once."""


def arm_run(plan: dict[str, Any], arm: dict[str, Any]) -> Run:
    """Returns the parent run of an arm. Its tags may change (an ablation more), its settings may not, nor what is
    learned: the data set's own as ``data.<key>`` and ``splits.<key>``.

    What is searched is none of them: a default would stand there, and the fits have other values.
    """
    settings = full_names(arm["settings"], arm["aggregator"])
    fixed = {key: value for key, value in settings.items() if key not in arm["space"]}
    params, files = _params(_of_data(plan["datasets"][arm["dataset"]]) | fixed)
    ablations = [
        name
        for name, ablation in sorted(plan["ablations"].items())
        if any(cell["arm"] == arm["id"] for cell in ablation["cells"])
    ]
    tags = {
        "dataset": arm["dataset"],
        "layer": arm["layer"],
        "aggregator": arm["aggregator"],
        "ablations": ", ".join(ablations),
        "selection": arm["selection"],
    }
    about = {"study": plan["study"], "config": plan["config"], "arm": arm}
    return Run(
        key=f"arm:{arm['id']}",
        name=arm["label"][:LONGEST_NAME],
        state=None,
        tags=_tags("arm", arm, tags, files),
        params=params,
        files=files | {"config.json": _json(about)},
        identity=digest([arm["label"], params]),
    )


def _of_data(dataset: dict[str, Any]) -> dict[str, Any]:
    groups = {"data": dataset["spec"], "splits": dataset["splits"]}
    return {
        f"{group}.{key}": value
        for group, values in groups.items()
        for key, value in values.items()
        if key not in PLACES and value is not None
    }


def arm_points(chosen: dict[str, Any], evaluation: dict[str, Any], fits: list[dict[str, Any]]) -> list[Point]:
    """Returns an arm's own metrics: test and validation mean of its good evaluation fits, how many of these there are,
    and the validation mean of the trial that was chosen (where it is one).

    They are those of the report: a mean is over splits, each averaged over its repeats first, and a fit whose test
    metric is no finite number is not good. None without a record of any fit, which tell the time too.
    """
    if not fits:
        return []
    good = [fit for fit in fits if fit["status"] == "ok" and _finite(fit["test"][fit["metric"]])]
    numbers: dict[str, float | None] = {"fits.ok": len(good), "fits.planned": evaluation["planned"]}
    for part in ("test", "validation") if good else ():
        of_splits: dict[int, list[float]] = {}
        for fit in good:
            of_splits.setdefault(fit["spec"]["split"], []).append(fit[part][fit["metric"]])
        numbers[f"mean.{part}_{good[0]['metric']}"] = fmean(map(fmean, of_splits.values()))
    numbers |= {"trials.complete": sum(trial["state"] == "complete" for trial in chosen["trials"])}
    trials = {trial["number"]: trial["validation"] for trial in chosen["trials"]}
    picked = set(chosen["chosen_trial"].values()) - {None}
    if len(picked) == 1:
        numbers[f"chosen.validation_{chosen['metric']}"] = trials[picked.pop()]
    return _final(numbers, 0, max(map(_end, fits)))


def trial_run(arm: dict[str, Any], trial: dict[str, Any], fits: Iterable[dict[str, Any]]) -> Run:
    """Returns the run of one trial from its entry in ``chosen.json`` and the records of its fits.

    Its metrics: ``mean.validation_<metric>``, ``split.validation_<metric>`` with the split as step, and the
    curve of each fit as ``split_<k>.validation_<metric>``.
    """
    fits = sorted(fits, key=lambda fit: fit["spec"]["split"])
    points = []
    for fit in fits:
        split, metric = fit["spec"]["split"], fit["metric"]
        per_split = trial["per_split"].get(str(split))
        points += _final({f"split.validation_{metric}": per_split}, split, _end(fit))
        curve = _history(fit, "validation_metric")
        points += _curve(f"split_{split}.validation_{metric}", curve, _times(fit))
    end = max(map(_end, fits), default=None)
    if fits:
        points += _final({f"mean.validation_{fits[0]['metric']}": trial["validation"]}, 0, end)
    tags = {"trial": trial["number"], "status": trial["state"], "reason": trial["reason"]}
    return _child(
        key=f"trial:{arm['id']}:{trial['number']}",
        name=f"trial {trial['number']}",
        status=trial["state"],
        tags=("trial", arm, tags),
        params=trial["hyperparameters"],
        points=points,
        start=min(map(_start, fits), default=None),
        end=end,
    )


def fit_run(arm: dict[str, Any], split: int, repeat: int, fit: dict[str, Any]) -> Run:
    """Returns the run of one evaluation fit: its curves, and its numbers at the best validation epoch."""
    spec, metric = fit["spec"], fit["metric"]
    points = []
    for name in CURVES:
        shown = f"validation_{metric}" if name == "validation_metric" else name
        values = _history(fit, name)
        if name != "auxiliary_loss" or any(values):  # all zero where no module has one
            points += _curve(shown, values, _times(fit))
    best = {f"best.{part}_{metric}": (fit[part] or {}).get(metric) for part in PARTS}
    numbers = {"best_epoch": fit["best_epoch"], "parameters": fit["parameters"], "seconds": fit["seconds"]}
    points += _final(best | numbers, fit["best_epoch"] or 0, _end(fit))
    tags = {"split": split, "repeat": repeat, "seed": spec["seed"], "fit": fit["id"]}
    tags |= {"status": fit["status"], "reason": fit["reason"]}
    return _child(
        key=f"fit:{arm['id']}:{split}:{repeat}",
        name=f"split {split} repeat {repeat}",
        status=fit["status"],
        tags=("fit", arm, tags),
        params=full_names(spec["settings"], spec["aggregator"]),
        points=points,
        start=_start(fit),
        end=_end(fit),
        files={"record.json": _json(fit)},
    )


def _child(
    key: str,
    name: str,
    status: str,
    tags: tuple[str, dict[str, Any], dict[str, Any]],
    params: dict[str, Any],
    points: list[Point],
    start: int | None,
    end: int | None,
    files: dict[str, str] | None = None,
) -> Run:
    texts, whole = _params(params)
    all_tags = _tags(*tags, whole)
    state = FINAL_STATE[status]
    identity = digest([name, state, all_tags, texts, points])
    return Run(key, name, state, all_tags, texts, points, start, end, whole | (files or {}), identity)


def _params(values: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    texts, whole = param_values(values)
    return texts, {f"params/{name}.txt": text for name, text in whole.items()}


def _tags(kind: str, arm: dict[str, Any], tags: dict[str, Any], cut: dict[str, str]) -> dict[str, str]:
    given = {f"ssma.{name}": str(value)[:LONGEST_REASON] for name, value in tags.items() if value is not None}
    if cut:
        given["ssma.cut_params"] = ", ".join(sorted(path[len("params/") : -len(".txt")] for path in cut))
    return {"ssma.kind": kind, "ssma.arm": arm["id"]} | given


def _final(values: dict[str, float | None], step: int, time: int) -> list[Point]:
    return [Point(safe_name(name), value, step, time) for name, value in values.items() if _finite(value)]


def _curve(name: str, values: list[float | None], times: list[int]) -> list[Point]:
    steps = enumerate(zip(values, times, strict=True), start=1)
    return [Point(safe_name(name), value, step, time) for step, (value, time) in steps if _finite(value)]


def _finite(value: float | None) -> bool:
    """MLflow would store infinity as the largest float; the status of the run says what happened instead."""
    return value is not None and math.isfinite(value)


def _start(fit: dict[str, Any]) -> int:
    return round(datetime.fromisoformat(fit["started"]).timestamp() * 1000)


def _end(fit: dict[str, Any]) -> int:
    return _start(fit) + round(1000 * (fit["seconds"] or 0))


def _times(fit: dict[str, Any]) -> list[int]:
    start = _start(fit)
    return [start + round(1000 * passed) for passed in accumulate(value or 0 for value in _history(fit, "seconds"))]


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def _history(fit: dict[str, Any], curve: str) -> list[float | None]:
    """A curve of a fit; one that failed before its first epoch has none."""
    return (fit["history"] or {}).get(curve, [])
