"""From the plan's search spaces to Optuna's distributions, and to configurations that were not tried."""

import math
import random
from itertools import islice
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from ssma.study.space import Space, configuration_key, configurations, count, values_of


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Returns Optuna's distributions of a space: a list is a choice, low and high a range."""
    return {key: _distribution(values) for key, values in sorted(space.items())}


def _distribution(values: list[Any] | dict[str, Any]) -> BaseDistribution:
    if isinstance(values, list):
        return CategoricalDistribution(values)
    kind = IntDistribution if values["kind"] == "int" else FloatDistribution
    return kind(values["low"], values["high"], log=values["log"])


def on_grid(space: Space, number: int) -> dict[str, Any]:
    """Returns a configuration of the grid by its number, from 0.

    Raises:
        IndexError: If the grid is smaller.
    """
    found = next(islice(configurations(space), number, None), None)
    if found is None:
        raise IndexError(f"there is no configuration {number} in this grid")
    return found


def first_untried(space: Space, tried: set[str], seed: int) -> dict[str, Any] | None:
    """Returns a configuration, random but for the seed, that is none of ``tried`` (their ``configuration_key``).

    None if the space is used up, which one with a range of real numbers never is: where that is idle, another value
    of the setting that makes it so is not.
    """
    if count(space, len(tried) + 1) <= len(tried):
        return None
    generator = random.Random(seed)
    while True:
        found = {key: _drawn(space[key], generator) for key in sorted(space)}
        if configuration_key(found) not in tried:
            return found


def _drawn(dimension: list[Any] | dict[str, Any], generator: random.Random) -> Any:
    values = values_of(dimension)
    if values is not None:
        return generator.choice(values)
    low, high = dimension["low"], dimension["high"]
    if not dimension["log"]:
        return generator.uniform(low, high)
    exponent = generator.uniform(math.log(low), math.log(high))
    return min(max(math.exp(exponent), low), high)
