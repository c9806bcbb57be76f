"""The hidden width that a parameter budget allows."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import Module
from torch.nn.parameter import is_lazy

from ssma.errors import StudyError
from ssma.layers.network import Network, walk_steps
from ssma.study.settings import WIDTH_MULTIPLE_OF

SOME_DEGREES = torch.tensor([0, 1])  # a parameter count does not depend on them


def count_parameters(module: Module) -> int:
    """Returns the number of trainable parameters.

    Raises:
        StudyError: If one gets its shape in the first call only, so that it cannot be counted before.
    """
    lazy = [name for name, parameter in module.named_parameters() if is_lazy(parameter)]
    if lazy:
        raise StudyError(
            f"parameter {lazy[0]} gets its shape in the first call only, so that no width can be found for a budget; "
            f"give its layer all widths, in_channels is that of a message"
        )
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def largest_width(
    count: Callable[[int], int], budget: int, step: int = 1, above: int = 0, lower: str = "num_layers"
) -> int:
    """Returns the largest multiple of ``step`` whose parameter count does not exceed ``budget``.

    Args:
        count: Parameters of a network of a given width; must not decrease with the width.
        budget: Largest count allowed.
        step: The width is a multiple of it.
        above: The width is larger than it.
        lower: Settings that make a network smaller, to be named where none is small enough.

    Raises:
        StudyError: If even the smallest width exceeds the budget.
    """
    low = above // step + 1
    if count(low * step) > budget:
        raise StudyError(
            f"model.budget: {budget} parameters are too few, the smallest network (width {low * step}) has "
            f"{count(low * step)}; raise the budget, or lower {lower}"
        )
    high = 2 * low
    while count(high * step) <= budget:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle * step) <= budget else (low, middle)
    return low * step


def hidden_channels(
    card: dict[str, Any], layer: str, aggregator: str, settings: dict[str, Any], path: str | None = None
) -> int:
    """Returns an arm's width: the given one, or the largest within its budget, found without training or memory.

    With a class of the user the networks are made in memory: it may read the numbers that it starts with.
    """
    model = settings["model"]
    if model["hidden_channels"] is not None:
        return model["hidden_channels"]

    def count(width: int) -> int:
        with torch.device("meta" if path is None else "cpu"):
            return count_parameters(Network(card, layer, aggregator, settings, width, path, SOME_DEGREES))

    step = model[WIDTH_MULTIPLE_OF[layer]] if layer in WIDTH_MULTIPLE_OF else 1
    own = {*model, *settings["aggregator"]}
    lower = [key for key in ("num_layers", "kappa", "compression", "heads", "towers", "walk_steps") if key in own]
    return largest_width(count, model["budget"], step, walk_steps(model), " or ".join(lower))
