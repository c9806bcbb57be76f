"""The paper's synthetic task (section 5.1): regression errors of aggregators over representation sizes."""

from typing import Any

from torch import Tensor

from ssma.theory.training import draw_sets, exact_solution, sum_of_gram, train

EXACT, MEAN = "exact solution", "train mean"


def run(settings: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Returns a row per trained network, and per repeat one of each line to read them by.

    ``exact solution`` is the sum aggregator that solves the task, ``train mean`` the constant that knows nothing but
    the mean target of the training multisets. L1 errors are in units of the target, whose mean is n d.

    Args:
        settings: Those of ``ssma.study.theory.SumOfGram``.
    """
    rows = []
    for repeat in range(settings["seeds"]):
        rows += _lines(settings, seed, repeat)
        rows += [
            train(settings, name, activation, m, seed, repeat)[1]
            for activation in settings["activations"]
            for m in settings["m"]
            for name in settings["aggregators"]
        ]
    return rows


def _lines(settings: dict[str, Any], seed: int, repeat: int) -> list[dict[str, Any]]:
    drawn = draw_sets(settings, seed, repeat)
    parts = (drawn.train.double(), drawn.test.double())
    targets = [sum_of_gram(x) for x in parts]
    mean = targets[0].mean()
    empty = dict.fromkeys(("activation", "m", "width", "parameters", "lr"))

    def row(name: str, train_error: Tensor, test_error: Tensor) -> dict[str, Any]:
        errors = {"train_l1": train_error.abs().mean().item(), "test_l1": test_error.abs().mean().item()}
        return {"aggregator": name, "repeat": repeat, "status": "ok", **empty, **errors}

    return [
        row(EXACT, *(exact_solution(x) - target for x, target in zip(parts, targets, strict=True))),
        row(MEAN, *(mean - target for target in targets)),
    ]
