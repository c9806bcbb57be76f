"""Predictors that look at no graph: what any trained network must beat. Nothing is trained."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ssma.data.prepare import Prepared
from ssma.fit.metrics import metric_value

PREDICTORS = {
    "accuracy": ("majority class",),
    "f1": ("majority class",),
    "mae": ("training mean", "training median"),
    "rmse": ("training mean", "training median"),
    "ap": ("constant score",),
    "auroc": ("constant score",),
}
"""Metric -> predictors that give every item the same answer."""


def sanity(prepared: Prepared) -> dict[str, Any]:
    """Returns what constant predictors reach on the test part of every split, by the metric code of the fits.

    The majority class (of equal ones the lowest), mean and median (target by target, missing ones left out) are those
    of the training part. A value is None where the metric is undefined, with the reason beside it.
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
    output = _answer(name, train, card["num_outputs"]).expand(len(test), -1)
    value, reason = None, None
    try:
        value = metric_value(card["metric"], output, test)
    except ValueError as error:
        reason = str(error)
    if value is not None and not np.isfinite(value):
        value, reason = None, "a target has no training label"
    return {"split": number, "split_hash": split["hash"], "test": value, "reason": reason}


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
