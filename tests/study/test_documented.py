"""The keys of a study file stand in docs/studies.md, each with its default and what else is allowed, and no others do;
those of data sets in docs/data.md."""

import re
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from ssma.study.config import Ablation, Range, Study
from ssma.study.datasets import AnyDataset
from ssma.study.settings import AGGREGATORS, GROUPS, SSMAOptions

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "studies.md").read_text(encoding="utf-8")
OWN_SECTIONS = {"datasets", "layers", "ablations", "aggregators", "theory", "tune.space"}
TABLES = ("splits", "tune", "evaluate", "report", "data", "track")


def rows(header):
    """Returns the rows of the table whose first column has this heading: name -> (default, meaning)."""
    table = TEXT.split(f"\n| {header} | default |")[1].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    return {name.strip("`| "): (default, meaning) for name, default, meaning in cells}


def fields(model, prefix=""):
    return {prefix + name: field for name, field in model.model_fields.items()}


def literals(annotation):
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return [value for part in get_args(annotation) for value in literals(part)]


def keys():
    own = {name: field for name, field in fields(Study).items() if name not in (*TABLES, *GROUPS)}
    for table in TABLES:
        own |= fields(Study.model_fields[table].annotation, f"{table}.")
    return {name: field for name, field in own.items() if name not in OWN_SECTIONS}


def settings():
    return {name: field for group, model in GROUPS.items() for name, field in fields(model, f"{group}.").items()}


def others():
    return {
        name: field
        for group, model in AGGREGATORS.items()
        if group != "ssma"
        for name, field in fields(model, f"{group}.").items()
    }


@pytest.mark.parametrize(
    ("header", "known"),
    [("key", keys()), ("setting", settings()), ("option", others()), ("option of ssma", fields(SSMAOptions))],
)
def test_tables_have_every_key_with_its_default_and_its_values(header, known):
    table = rows(header)
    assert table.keys() == known.keys()
    for name, (default, meaning) in table.items():
        value = known[name].default
        if isinstance(value, bool):
            assert default == str(value).lower(), name
        elif isinstance(value, int | float):
            assert float(default) == value, name
        elif isinstance(value, str) and value:
            assert default == f"`{value}`", name
        for word in literals(known[name].annotation):
            assert re.search(rf"`{word}`|[`{{ ]{word}:", default + meaning), (name, word)


def test_the_page_on_data_has_every_key_of_every_source():
    section = (DOCS / "data.md").read_text(encoding="utf-8")
    for model in get_args(get_args(AnyDataset)[0]):
        for name, field in model.model_fields.items():
            key = field.alias or name
            assert re.search(rf"`{key}[`:]|[{{, ]{key}: ", section), (model.__name__, key)
            for word in literals(field.annotation):
                assert re.search(rf"`(\w+: )?{word}`|: {word}[,}}`]", section), (model.__name__, key, word)
            if type(field.default) is int:
                assert f"`{key}` ({field.default})" in section, (model.__name__, key)


def test_ablations_and_ranges_have_every_key():
    section = TEXT.split("\n## Ablations\n")[1].split("\n## Aggregators\n")[0]
    for key in (*Ablation.model_fields, *Range.model_fields):
        assert re.search(rf"`{key}[`:]|[{{ ]{key}: ", section), key
