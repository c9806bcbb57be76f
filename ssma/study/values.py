"""Settings and their values in the tables of a study file: `fixed`, `axes` and `tune.space`."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from ssma.study.classes import NO_OPTIONS
from ssma.study.ids import canonical
from ssma.study.settings import AGGREGATORS, GROUPS, own_option
from ssma.study.wording import did_you_mean, what

MODELS = {**GROUPS, **AGGREGATORS}


def typed_value(key: str, value: Any, aggregators: Collection[str], own: Mapping[str, Collection[str] | None]) -> Any:
    """Returns the value of a setting in its type.

    Args:
        key: ``aggregator``, or ``<group>.<field>``.
        aggregators: Names of all that there are.
        own: Aggregator of the user's -> options of its class, None where that does not say.

    Raises:
        ValueError: With what is wrong with key or value.
    """
    if key == "aggregator":
        if not isinstance(value, str) or value not in aggregators:
            raise ValueError(f"unknown aggregator {value!r}; {did_you_mean(value, list(aggregators))}")
        return value
    group, _, field = key.partition(".")
    model = MODELS.get(group)
    if model is None and group in aggregators and field:
        if (known := own.get(group)) is not None and field not in known:
            raise ValueError(f"its class has no such option; {did_you_mean(field, list(known))}")
        if field in NO_OPTIONS:
            raise ValueError(f"is no option, as {', '.join(NO_OPTIONS)}; name another class in aggregators")
        return own_option(value)
    if model is None or field not in model.model_fields:
        keys = [f"{group}.{field}" for group, model in MODELS.items() for field in model.model_fields]
        raise ValueError(f"unknown setting; {did_you_mean(key, ['aggregator', *keys])}")
    info = model.model_fields[field]
    adapter = TypeAdapter(Annotated[info.annotation, info], config={"allow_inf_nan": False})
    try:
        return canonical(adapter.validate_python(value))
    except ValidationError as error:
        raise ValueError(f"{what(error.errors()[0])}, got {value!r}") from error


def wrong_settings(raw: Mapping[str, Any]) -> Iterator[str]:
    """Yields a sentence for each setting that is none, or has a wrong value, of a file whose types are not right; where
    they are, its plan tells so. What a user's own class takes is not looked at.
    """
    own = _tables(raw.get("aggregators"))
    for path, table, has_lists in _of_settings(raw):
        for key, given in table.items():
            alone = has_lists and not isinstance(given, list)
            if alone or isinstance(given, dict | None) or str(key).partition(".")[0] in own:
                continue
            for value in given if has_lists else [given]:
                try:
                    typed_value(str(key), value, [*AGGREGATORS, *own], {})
                except ValueError as error:
                    yield f"{path}.{key}: {error}"


def _of_settings(raw: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yields the path of each table of settings, the table, and whether its values are lists."""
    for group, names in (("datasets", ["fixed"]), ("ablations", ["fixed", "axes"])):
        for label, entry in _tables(raw.get(group)).items():
            for name in names:
                yield f"{group}.{label}.{name}", _table(entry.get(name)), name == "axes"
    yield "tune.space", _table(_table(raw.get("tune")).get("space")), True


def _tables(value: Any) -> dict[str, dict[str, Any]]:
    return {key: entry for key, entry in _table(value).items() if isinstance(entry, dict)}


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
