"""Search spaces: from the plan's JSON to Optuna distributions, and to configurations that were not tried."""

import math
import random
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from ssma.study.ids import canonical_json

Space = dict[str, list[Any] | dict[str, Any]]


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Returns Optuna's distributions of a space: a list is a choice, low and high a range."""
    return {key: _distribution(values) for key, values in sorted(space.items())}


def _distribution(values: list[Any] | dict[str, Any]) -> BaseDistribution:
    if isinstance(values, list):
        return CategoricalDistribution(values)
    kind = IntDistribution if values["kind"] == "int" else FloatDistribution
    return kind(values["low"], values["high"], log=values["log"])


def first_untried(space: Space, tried: set[str], seed: int) -> dict[str, Any] | None:
    """Returns a configuration, random but for the seed, whose canonical JSON is not in ``tried``.

    None if the space has a range, in which a repetition does not happen twice, or is used up.
    """
    if any(not isinstance(values, list) for values in space.values()):
        return None
    keys = sorted(space)
    sizes = [len(space[key]) for key in keys]
    if math.prod(sizes) <= len(tried):
        return None
    generator = random.Random(seed)
    while True:
        found = {key: space[key][generator.randrange(size)] for key, size in zip(keys, sizes, strict=True)}
        if canonical_json(found) not in tried:
            return found
