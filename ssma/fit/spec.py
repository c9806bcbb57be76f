"""What a fit is: everything that can change its numbers, and nothing else. Its hash is the fit's id."""

from typing import Any

from ssma import RESULT_VERSION
from ssma.study.ids import canonical, digest
from ssma.study.space import idle_settings, table_of


def fit_spec(
    arm: dict[str, Any],
    card: dict[str, Any],
    split: dict[str, Any],
    number: int,
    hyperparameters: dict[str, Any],
    seed: int,
) -> dict[str, Any]:
    """Returns the specification of one training.

    Args:
        split: The split, with its hash.
        hyperparameters: Values of the arm's search space, e.g. ``{"training.lr": 0.001, "ssma.kappa": 3}``.
        seed: Seed of initial weights, batch order, dropout and random selection.
    """
    settings = {group: dict(values) for group, values in arm["settings"].items()}
    for key, value in hyperparameters.items():
        group, field = table_of(key, arm["aggregator"])
        settings[group][field] = value
    for key in idle_settings(arm["aggregator"], settings, {}):
        group, field = table_of(key, arm["aggregator"])
        settings.get(group, {}).pop(field, None)
    return canonical(
        {
            "dataset": arm["dataset"],
            "data_hash": card["data_hash"],
            "split": number,
            "split_hash": split["hash"],
            "layer": arm["layer"],
            "aggregator": arm["aggregator"],
            "class": arm["class"],
            "class_code": arm["class_code"],
            "settings": settings,
            "seed": seed,
            "result_version": RESULT_VERSION,
        }
    )


def fit_id(spec: dict[str, Any]) -> str:
    """Returns the id of a fit."""
    return digest(spec, 16)
