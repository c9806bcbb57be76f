"""Errors of a study file in plain words: which key, what it holds, what is allowed, what to do."""

import difflib
import re
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

A_NAME = "a name has letters, digits, '_', '-' and '.' and begins with a letter or a digit"

EXPECTED = {
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "expected a table of keys"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "expected true or false"),
    "list_type": "expected a list",
    "string_type": "expected a text, in quotes where YAML reads it as something else",
    "string_pattern_mismatch": A_NAME,
}
"""Kind of pydantic's error -> words that name no Python type."""

OTHER_NAMES = {
    "add": "sum", "depth": "num_layers", "hidden": "hidden_channels", "hidden_dim": "hidden_channels",
    "learning_rate": "lr", "patience": "plateau_patience", "pool": "readout", "pooling": "readout", "prod": "mul",
    "wd": "weight_decay", "width": "hidden_channels",
}  # fmt: skip
"""What settings and aggregators are called elsewhere."""


def did_you_mean(word: str, allowed: Sequence[str]) -> str:
    """Returns a suggestion and the list of what is allowed, as the end of a sentence."""
    named = {}  # of a name that two groups have, the first
    for each in allowed:
        named.setdefault(_last(each), each)
    wanted = _last(str(word)) if any("." in each for each in allowed) else str(word).lower()
    wanted = OTHER_NAMES.get(wanted, wanted)
    close = named.get(wanted) or next(map(named.get, difflib.get_close_matches(wanted, named, n=1)), None)
    return (f"did you mean '{close}'? " if close else "") + "allowed: " + (", ".join(allowed) or "none")


def _last(name: str) -> str:
    """Returns what a setting is called within its group, of anything else the whole."""
    setting = re.fullmatch(r"[a-z]+\.([A-Za-z]\w*)", name)
    return (setting[1] if setting else name).lower()


def what(item: Any) -> str:
    """Returns what pydantic's error says of a value."""
    return EXPECTED.get(item["type"], item["msg"].removeprefix("Value error, "))


def sentence(item: Any, raw: Any, study: type[BaseModel]) -> str:
    """Returns pydantic's error as one sentence.

    Args:
        raw: The tables of the file.
        study: The type of the whole file.
    """
    path, field = _path(item["loc"], raw), _field(item["loc"], study)
    if item["type"] == "extra_forbidden":
        known = _known(item["loc"], study)
        other = "" if known.startswith("did you mean") else _other_place(item["loc"], study)
        return f"{path}: unknown key; {other}{known}"
    if item["type"] == "missing":
        allowed = get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()
        told = f"; allowed: {', '.join(map(str, allowed))}" if allowed else ""
        return f"{path}.{item['loc'][-1]}".strip(".") + f": this key is required{told}"
    if item["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return f"{path}.source: {_wrong_source(item['input'], _tags_at(item['loc'], study))}"
    if item["input"] is None and item["type"] != "value_error":
        optional = "" if field and field.is_required() else ", or leave it out"
        return f"{path}: is empty; fill it in{optional}" + (" to have its default" if optional and field else "")
    told = item["type"] == "value_error" and (isinstance(item["input"], dict | None) or ", got " in item["msg"])
    got = "" if told else f", got {item['input']!r}"
    if item["type"] == "too_short":
        least = item["ctx"]["min_length"]
        return f"{path}: expected at least {least} {'entry' if least == 1 else 'entries'}{got}"
    unset = item["input"] is False or item["input"] in ("none", "None", "all")
    has_none = field is not None and not field.is_required() and field.default is None
    return f"{path}: {what(item)}{got}" + ("; leave it out to have its default" if unset and has_none else "")


def _other_place(location: Sequence[Any], study: type[BaseModel]) -> str:
    """Returns where a key belongs that stands in a table which does not have it, empty if no table has it."""
    name = str(location[-1]).rpartition(".")[2]
    if len(location) > 1 and name in study.model_fields:
        return f"'{name}' stands at the top of a study, for all that is in it; "
    tables = {key: field.annotation for key, field in study.model_fields.items()}
    places = [
        f"'{name}' belongs into '{key}'; "
        for key, table in tables.items()
        if isinstance(table, type) and issubclass(table, BaseModel) and name in table.model_fields
    ]
    return "".join(places[:1])


def _known(location: Sequence[Any], study: type[BaseModel]) -> str:
    model = _model(location[:-1], study)
    return did_you_mean(location[-1], [field.alias or name for name, field in model.model_fields.items()])


def _wrong_source(entry: dict[str, Any], known: list[str]) -> str:
    if (given := entry.get("source")) is None:
        keys = f"; got {', '.join(map(str, entry))}" if entry else ""
        return f"this key is required; allowed: {', '.join(known)}{keys}"
    return f"unknown source {given!r}; {did_you_mean(given, known)}"


def _path(location: Sequence[Any], raw: Any) -> str:
    """Returns a pydantic location as the user wrote it, without the names of union members."""
    parts, here = [], raw
    for part in location:
        if (isinstance(here, dict) and part in here) or (isinstance(here, list) and isinstance(part, int)):
            parts.append(str(part))
            here = here[part]
    return ".".join(parts)


def _field(location: Sequence[Any], study: type[BaseModel]) -> FieldInfo | None:
    """Returns the key at a pydantic location, None of what a user names: an entry of a table or a list."""
    model = _model(location[:-1], study)
    fields = {field.alias or name: field for name, field in model.model_fields.items()} if model else {}
    return fields.get(location[-1])


def _model(location: Sequence[Any], study: type[BaseModel]) -> type[BaseModel] | None:
    """Returns the type of the table at a pydantic location."""
    here: Any = study
    for part in location:
        if isinstance(here, type) and issubclass(here, BaseModel):
            here = here.model_fields[part].annotation if part in here.model_fields else here
        else:
            here = next((m for m in _models_in(here) if part in _tags(m) or part == m.__name__), here)
    return next(iter(_models_in(here)), None)


def _tags_at(location: Sequence[Any], study: type[BaseModel]) -> list[str]:
    return [tag for model in _models_in(study.model_fields[location[0]].annotation) for tag in _tags(model)]


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    return get_args(model.model_fields["source"].annotation) if "source" in model.model_fields else ()


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [model for part in get_args(annotation) for model in _models_in(part)]
