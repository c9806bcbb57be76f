"""Predictors that look at no graph: what any trained network must beat. Nothing is trained."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ssma.data.prepare import Prepared
from ssma.fit.metrics import macro_f1, metric_value
from ssma.study.ids import seed_from

PREDICTORS = {
    "accuracy": ("majority class",),
    "f1": ("majority class", "random classes"),
    "mae": ("training mean", "training median"),
    "rmse": ("training mean", "training median"),
    "ap": ("constant score",),
    "auroc": ("constant score",),
}
"""Metric -> predictors that give every item the same answer, or one that is drawn."""
DRAWS = 1000


def sanity(prepared: Prepared) -> dict[str, Any]:
    """Returns what predictors without a graph reach on the test part of every split, by the metric code of the fits.

    The majority class (of equal ones the lowest), mean and median (target by target, missing ones left out) are those
    of the training part. Random classes are drawn by their shares there, and the metric is the mean of ``DRAWS`` draws:
    by macro F1 mostly above any one class. A value is None where the metric is undefined, with the reason beside it.
    """
    card, y = prepared.card, prepared.graphs.y
    predictors = {
        name: [_on_split(name, card, y, number, split) for number, split in enumerate(prepared.splits)]
        for name in PREDICTORS[card["metric"]]
    }
    shared = {key: card[key] for key in ("dataset", "metric", "direction", "data_hash")}
    return {"kind": "sanity", **shared, "predictors": predictors}


def _on_split(name: str, card: dict[str, Any], y: Tensor, number: int, split: dict[str, Any]) -> dict[str, Any]:
    train, test = y[split["train"]], y[split["test"]]
    if name == "random classes":
        value = _by_chance(train, test, card["num_outputs"], seed_from("random classes", number))
        return {"split": number, "split_hash": split["hash"], "test": value, "reason": None}
    output = _answer(name, train, card["num_outputs"]).expand(len(test), -1)
    value, reason = None, None
    try:
        value = metric_value(card["metric"], output, test)
    except ValueError as error:
        reason = str(error)
    if value is not None and not np.isfinite(value):
        value, reason = None, "a target has no training label"
    return {"split": number, "split_hash": split["hash"], "test": value, "reason": reason}


def _by_chance(train: Tensor, test: Tensor, classes: int, seed: int) -> float:
    generator, shares = torch.Generator().manual_seed(seed), train.bincount(minlength=classes).double()
    draws = (shares.multinomial(len(test), replacement=True, generator=generator) for _ in range(DRAWS))
    return sum(macro_f1(drawn, test, classes) for drawn in draws) / DRAWS


def _answer(name: str, train: Tensor, num_outputs: int) -> Tensor:
    """Returns the one output that a predictor gives to every item, ``[num_outputs]``."""
    if name == "majority class":
        return F.one_hot(train.bincount(minlength=num_outputs).argmax(), num_outputs).double()
    if name == "constant score":
        return torch.zeros(num_outputs, dtype=torch.float64)
    if name == "training mean":
        return train.double().nanmean(dim=0)
    known = ~train.isnan().all(dim=0)
    median = np.nanmedian(train.double().where(known, 0.0).numpy(), axis=0)
    return torch.from_numpy(median).where(known, torch.nan)
