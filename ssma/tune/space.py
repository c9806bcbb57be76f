"""Search spaces: from the plan's JSON to Optuna distributions and, for small ones, to a list of configurations."""

import itertools
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

Space = dict[str, list[Any] | dict[str, Any]]


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Returns Optuna's distributions of a space: a list is a choice, low and high a range."""
    return {key: _distribution(values) for key, values in sorted(space.items())}


def _distribution(values: list[Any] | dict[str, Any]) -> BaseDistribution:
    if isinstance(values, list):
        return CategoricalDistribution(values)
    ends = (values["low"], values["high"])
    kind = IntDistribution if all(isinstance(end, int) for end in ends) else FloatDistribution
    return kind(*ends, log=values["log"])


def configurations(space: Space, most: int) -> list[dict[str, Any]] | None:
    """Returns all configurations of a space of choices if there are at most ``most``, else None."""
    if any(not isinstance(values, list) for values in space.values()):
        return None
    keys = sorted(space)
    found = list(itertools.islice(itertools.product(*(space[key] for key in keys)), most + 1))
    return [dict(zip(keys, values, strict=True)) for values in found] if len(found) <= most else None
