"""What the paper printed: its result tables, improvement rows and claims, each entry with its line in the LaTeX source.

Numbers are kept as printed, trailing zeros too. ``repeats`` and ``configurations`` come from the paper's text or, where
it is silent, from the authors' code.
"""

import csv
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import TypeVar


@dataclass(frozen=True)
class PaperTable:
    """A table of results: its label in the source, its number in the paper, and what has to be said below it."""

    name: str
    number: int
    line: int
    title: str
    note: str


@dataclass(frozen=True)
class Result:
    """One entry of a table. ``std`` is empty where none is printed, ``dataset`` for times, which name no graph.

    ``layer`` is ``gps_pe`` for GraphGPS with positional encoding; ``variant`` is ``constant`` or ``learnable`` (affine
    map), ``random`` or ``attention`` (selection), else empty. ``unit`` is percent, fraction, mae or ms.
    """

    table: str
    dataset: str
    layer: str
    aggregator: str
    variant: str
    metric: str
    unit: str
    mean: str
    std: str
    line: int


@dataclass(frozen=True)
class Improvement:
    """An entry of an improvement row, in percent: a mean over layers, or of one layer over data sets.

    ``check`` says how it agrees with the mean of the relative gains of the printed entries, ``note`` what explains it.
    """

    claim: str
    table: str
    dataset: str
    layer: str
    printed: str
    check: str
    note: str
    line: int


@dataclass(frozen=True)
class Footnote:
    """What is odd about an entry; an empty ``layer`` means every layer, ``tables`` are separated by spaces."""

    tables: str
    dataset: str
    layer: str
    aggregator: str
    text: str


@dataclass(frozen=True)
class Claim:
    """A claim of the text; ``reason`` says why records cannot decide it, and is empty where they can."""

    id: str
    section: str
    claim: str
    expected: str
    note: str
    reason: str


@dataclass(frozen=True)
class Protocol:
    """How often the paper measured on a data set, and how many configurations of SSMA it searched (0: unknown)."""

    dataset: str
    units: int
    unit: str
    configurations: int


Row = TypeVar("Row")


@cache
def tables() -> tuple[PaperTable, ...]:
    """Returns the tables in the order of the paper."""
    return _rows("tables.csv", PaperTable)


@cache
def results(table: str) -> tuple[Result, ...]:
    """Returns the entries of one table in the order of the paper."""
    return tuple(row for row in _rows("results.csv", Result) if row.table == table)


@cache
def improvements() -> tuple[Improvement, ...]:
    """Returns the entries of all improvement rows."""
    return _rows("improvements.csv", Improvement)


@cache
def footnotes() -> tuple[Footnote, ...]:
    """Returns what is odd about single entries."""
    return _rows("footnotes.csv", Footnote)


@cache
def claims() -> tuple[Claim, ...]:
    """Returns the claims: those of text and theory, then the improvement rows."""
    return _rows("claims.csv", Claim)


@cache
def protocols() -> dict[str, Protocol]:
    """Returns data set -> how it was measured."""
    return {row.dataset: row for row in _rows("protocol.csv", Protocol)}


def _rows(name: str, kind: type[Row]) -> tuple[Row, ...]:
    text = files(__name__).joinpath(name).read_text(encoding="utf-8")
    types = {field.name: field.type for field in fields(kind)}
    return tuple(
        kind(**{key: types[key](value or 0) if types[key] is not str else value for key, value in row.items()})
        for row in csv.DictReader(text.splitlines())
    )
