"""What a search space holds: its configurations, without those that are another one under a different name.

A setting is idle where another one makes it do nothing; two configurations that differ in it only are the same thing.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ssma.study.ids import canonical_json

Space = Mapping[str, list[Any] | dict[str, Any]]
"""Setting -> list of values, or a range ``{"low", "high", "log", "kind"}`` of ``int`` or ``float``."""

IDLE = {
    "ssma.temperature": ("ssma.selection", "random"),
    "ssma.compression_of": ("ssma.compression", 1),
    "model.walk_steps": ("model.positional_encoding", "none"),
    "model.residual": ("model.outer_block", False),
    "training.keep_cut_edges": ("training.batch_size", 1),
}
"""Setting -> the setting that makes it idle, and by which value."""


def idle_settings(aggregator: str, settings: Mapping[str, Mapping[str, Any]], searched: Space) -> list[str]:
    """Returns the settings that do nothing in an arm, whatever its search chooses.

    Args:
        settings: The arm's settings of ``aggregator``, ``model`` and ``training``.
        searched: The arm's search space.
    """
    found = []
    for key, (other, value) in IDLE.items():
        group, field = table_of(other, aggregator)
        possible = searched.get(other, [settings.get(group, {}).get(field)])
        if isinstance(possible, list) and all(item == value for item in possible):
            found.append(key)
    return found


def idle_on(layer: str, spec: Mapping[str, Any]) -> list[str]:
    """Returns the settings that do nothing in a layer, or on a data set.

    Those on data sets are a readout where the nodes have the targets, a batch size where there is but one batch, edges
    between parts where there is but one part, and edge features where it is known beforehand that there are none.

    Args:
        layer: Name of the layer; the messages of ``gin`` are the features themselves.
        spec: The data set's entry in the plan.
    """
    found = ["ssma.slots_from"] if layer == "gin" else []
    undivided = spec.get("task") == "node_classification" or spec.get("level") == "node"
    if "parts" in spec or undivided:
        found.append("model.readout")
    if undivided or spec.get("parts") == 1:
        found += ["training.batch_size", "training.keep_cut_edges"]
    if "parts" in spec or (spec["source"] == "synthetic" and spec["task"] != "typed_classification"):
        found.append("model.edge_features")
    return found


def table_of(key: str, aggregator: str) -> tuple[str, str]:
    """Returns the table of an arm's settings that holds a setting, and its name there."""
    group, _, field = key.partition(".")
    return "aggregator" if group == aggregator else group, field


def full_names(settings: Mapping[str, Mapping[str, Any]], aggregator: str) -> dict[str, Any]:
    """Returns an arm's settings under the names that a study file uses."""
    return {
        f"{aggregator if group == 'aggregator' else group}.{field}": value
        for group, values in settings.items()
        for field, value in values.items()
    }


def without_idle(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a configuration without the settings that do nothing beside its others.

    Example:
        >>> without_idle({"ssma.selection": "random", "ssma.temperature": 2.0})
        {'ssma.selection': 'random'}
    """
    idle = [key for key, (other, value) in IDLE.items() if configuration.get(other) == value]
    return {key: value for key, value in configuration.items() if key not in idle}


def configuration_key(configuration: Mapping[str, Any]) -> str:
    """Returns one text for all configurations that are the same thing."""
    return canonical_json(without_idle(configuration))


def values_of(dimension: list[Any] | dict[str, Any]) -> Sequence[Any] | None:
    """Returns the values of a choice or a range of whole numbers; None for a range of real numbers."""
    if isinstance(dimension, list):
        return dimension
    return range(dimension["low"], dimension["high"] + 1) if dimension["kind"] == "int" else None


def is_finite(space: Space) -> bool:
    """Says whether a space has no range of real numbers."""
    return all(values_of(dimension) is not None for dimension in space.values())


def configurations(space: Space) -> Iterator[dict[str, Any]]:
    """Yields every configuration of a finite space that is not the same thing as one before.

    The settings are taken in the order of their names, the last one changes fastest.
    """
    seen = set()
    for found in _product(space, sorted(space)):
        key = configuration_key(found)
        if key not in seen:
            seen.add(key)
            yield found


def count(space: Space, most: int) -> int:
    """Returns how many different configurations a space has, or ``most`` if it has more."""
    return sum(1 for _ in islice(configurations(space), most)) if is_finite(space) else most


def _product(space: Space, keys: list[str]) -> Iterator[dict[str, Any]]:
    """Like ``itertools.product``, which would first make a list of every range."""
    if not keys:
        yield {}
        return
    for value in values_of(space[keys[0]]):
        for rest in _product(space, keys[1:]):
            yield {keys[0]: value, **rest}
