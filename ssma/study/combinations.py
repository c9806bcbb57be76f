"""Combinations of settings that no fit could be made of, and axes along which nothing changes."""

from typing import Any

from pydantic import ValidationError

from ssma.study.ids import canonical_json
from ssma.study.settings import AGGREGATORS, WIDTH_MULTIPLE_OF
from ssma.study.space import table_of


def impossible(layer: str, aggregator: str, settings: dict[str, Any], searched: dict[str, Any]) -> list[str]:
    """Returns a sentence for each combination that an arm must not have.

    Args:
        settings: The arm's settings of ``aggregator``, ``model`` and ``training``.
        searched: Setting -> list of values or range, where the arm searches it.
    """
    return [
        *_options(aggregator, settings),
        *_mixing(aggregator, settings, searched),
        *_width(layer, settings, searched),
        *_rate(settings, searched),
        *_evaluation(layer, settings),
    ]


def not_given(
    aggregator: str, options: dict[str, bool] | None, given: dict[str, Any], searched: dict[str, Any]
) -> list[str]:
    """Returns a sentence for each option without which a user's class cannot be made.

    Args:
        options: Option -> whether it has no default; None where that is not known.
        searched: As in :func:`impossible`.
    """
    return [
        f"aggregators.{aggregator}: its class needs '{option}', which has no default; give it there, in an ablation, "
        "or in tune.space"
        for option, needed in (options or {}).items()
        if needed and option not in given and f"{aggregator}.{option}" not in searched
    ]


def idle_axes(name: str, ablation: dict[str, Any]) -> list[str]:
    """Returns a sentence for each axis along which no arm of an ablation changes: each would be compared with itself.

    Args:
        ablation: Its entry in the plan.
    """
    sentences = []
    for key, values in ablation["axes"].items():
        lines: dict[str, set[str]] = {}
        for cell in ablation["cells"]:
            others = {axis: value for axis, value in cell["point"].items() if axis != key}
            lines.setdefault(canonical_json([cell["dataset"], cell["layer"], others]), set()).add(cell["arm"])
        if len(values) > 1 and all(len(arms) == 1 for arms in lines.values()):
            sentences.append(
                f"ablations.{name}.axes.{key}: has no effect with any data set, layer and setting of this ablation, so "
                "that its arms would all be the same; leave it out"
            )
    return sentences


def _options(aggregator: str, settings: dict[str, Any]) -> list[str]:
    try:
        if aggregator in AGGREGATORS:
            AGGREGATORS[aggregator].model_validate(settings["aggregator"])
    except ValidationError as error:
        return [f"{aggregator}: {each['msg'].removeprefix('Value error, ')}" for each in error.errors()]
    return []


def _mixing(aggregator: str, settings: dict[str, Any], searched: dict[str, Any]) -> list[str]:
    """Returns what is wrong where a search could combine a sum of slots with a normalisation of their product."""
    if aggregator != "ssma" or not searched.keys() & {"ssma.mixing", "ssma.normalisation"}:
        return []
    mixings, magnitudes = (_values(f"ssma.{key}", settings, searched, "ssma") for key in ("mixing", "normalisation"))
    others = [value for value in magnitudes if value != "geometric"]
    if "sum" not in mixings or not others:
        return []
    return [
        f"tune.space: ssma.mixing {mixings} with ssma.normalisation {magnitudes} would combine 'sum' with "
        f"'{others[0]}', which has no effect there; leave out 'sum', or keep normalisation 'geometric'"
    ]


def _width(layer: str, settings: dict[str, Any], searched: dict[str, Any]) -> list[str]:
    errors, width, multiple = [], settings["model"]["hidden_channels"], WIDTH_MULTIPLE_OF.get(layer)
    if isinstance(searched.get(f"model.{multiple}"), dict):
        errors.append(f"tune.space.model.{multiple}: give a list of values; a width is a multiple of them")
    elif multiple and width:
        bad = [number for number in _values(f"model.{multiple}", settings, searched) if width % number]
        errors += [f"model.hidden_channels: {layer} needs a multiple of its {n} {multiple}, got {width}" for n in bad]
    if width and "random_walk" in _values("model.positional_encoding", settings, searched):
        steps = max(_values("model.walk_steps", settings, searched))
        if width <= steps:
            errors.append(f"model.hidden_channels: must be above the {steps} walk_steps of the encoding, got {width}")
    return errors


def _rate(settings: dict[str, Any], searched: dict[str, Any]) -> list[str]:
    rate, floor = (pick(_values(f"training.{key}", settings, searched)) for pick, key in ((min, "lr"), (max, "min_lr")))
    return [f"training.lr: {rate} is below training.min_lr ({floor}), where training ends"] if rate < floor else []


def _evaluation(layer: str, settings: dict[str, Any]) -> list[str]:
    if layer != "gps" or settings["training"].get("evaluation") != "whole":
        return []
    return [
        "training.evaluation: got whole, but gps attends among all nodes of a graph, and one that is cut into parts is "
        "too large for that; set it to per_part, for all layers or in the fixed of an ablation with layers: [gps]"
    ]


def _values(key: str, settings: dict[str, Any], searched: dict[str, Any], aggregator: str = "") -> list[Any]:
    """Returns the values that a setting can have; of a range, its ends."""
    group, field = table_of(key, aggregator)
    found = searched.get(key, [settings[group].get(field)])
    return [found["low"], found["high"]] if isinstance(found, dict) else found
