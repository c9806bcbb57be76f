"""What a number is worth: rows of predictors that look at no graph, and marks on networks that predict a constant."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ssma.report.kept import split_sizes
from ssma.report.labels import Metric, extent, of_all
from ssma.report.table import Cell, Table, table_id
from ssma.study.cost import counted
from ssma.study.paths import Results
from ssma.study.records import read_record

if TYPE_CHECKING:
    import pandas

MARK, COPIES = "‡", "¶"
SAID = {
    "alike": "{0} of {1} graphs are like another one, in a split {2} of the {3} validation and test graphs like one in "
    "the training part, {4} of them as an exact copy",
    "copies": "{0} of {1} graphs have a copy, in a split {2} of the {3} validation and test graphs one in the training "
    "part",
}
"""What is said of a data set by the counts in its card, of which the first that it has are taken."""
MEANT = {
    "copies": "A copy is stored alike, targets aside; isomorphic graphs stored in another order are not counted.",
    "alike": "Graphs are alike if no message passing tells them apart, as with isomorphic ones, targets aside.",
}
"""What each of these means."""


class Repeated(NamedTuple):
    """A kind of ``SAID``, and what is said of a data set."""

    kind: str
    text: str


class Constants(NamedTuple):
    """Of the good evaluation fits of an arm: those with constant test predictions, and those that do not tell."""

    constant: int
    unknown: int
    fits: int


def read_sanity(results: Results, plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns what predictors without a graph reach, by data set; without data sets that older code prepared."""
    found = {}
    for label, dataset in plan["datasets"].items():
        card, path = (results.data(dataset["id"]) / name for name in ("card.json", "sanity.json"))
        if card.exists() and path.exists():
            record = read_record(path)
            if record["data_hash"] == read_record(card)["data_hash"]:
                found[label] = record
    return found


def read_copies(results: Results, plan: dict[str, Any]) -> dict[str, Repeated]:
    """Returns what is to be said of data sets with graphs that have one like them in the training part, by data set.

    The cards count validation and test graphs together; those of older code know exact copies only.
    """
    evaluated: dict[str, set[int]] = {}
    for arm in plan["arms"]:
        evaluated.setdefault(arm["dataset"], set()).update(arm["splits"])
    found = {}
    for label, dataset in plan["datasets"].items():
        path = results.data(dataset["id"]) / "card.json"
        card = read_record(path) if path.exists() else {}
        kind = next((kind for kind in SAID if kind in card), None)
        used = sorted(evaluated.get(label, ())) if kind else []
        leaked = [card[kind]["leaked"][split] for split in used]
        if any(leaked):
            sizes = split_sizes(results, dataset["id"])
            held_out = extent(_held_out(sizes["splits"][split]) for split in used) if sizes else "unknown number of"
            counts = (card[kind]["graphs"], card["num_graphs"], extent(leaked), held_out)
            exact = extent(card["copies"]["leaked"][split] for split in used)
            found[label] = Repeated(kind, SAID[kind].format(*counts, exact))
    return found


def _held_out(sizes: dict[str, Any]) -> int:
    return sizes["validation"] + sizes["test"]


def copy_notes(copies: dict[str, Repeated]) -> list[str]:
    """Returns a line that explains the mark of ``copies_marked``, if any data set has it."""
    told = "; ".join(f"{name}: {one.text}" for name, one in copies.items())
    kinds = {one.kind for one in copies.values()}
    meant = [words for kind, words in MEANT.items() if kind in kinds]
    return [f"{COPIES} {told}. {' '.join(meant)}"] if told else []


def copies_marked(table: Table, copies: dict[str, Repeated]) -> Table:
    """Returns the table with a mark wherever such a data set is named, in a heading or in its column, and footnotes.

    Args:
        copies: What is to be said of a data set, by the name that it has in this table.
    """
    seen: dict[str, None] = {}

    def marked(text: str) -> str:
        for name in copies:
            if text == name or text.startswith(f"{name} ("):
                seen[name] = None
                return f"{text} {COPIES}"
        return text

    columns = [marked(name) for name in table.columns]
    places = [place for place, name in enumerate(table.columns) if name == "data set"]
    rows = [
        [replace(cell, text=marked(cell.text)) if place in places else cell for place, cell in enumerate(row)]
        for row in table.rows
    ]
    notes = copy_notes({name: one for name, one in copies.items() if name in seen})
    return replace(table, columns=columns, rows=rows, footnotes=table.footnotes + notes)


def sanity_rows(
    records: dict[str, dict[str, Any]], splits: dict[str, set[int]], columns: list[str], axes: int
) -> list[list[Cell]]:
    """Returns a table row for each predictor that some data set has.

    Args:
        records: By data set, as ``read_sanity`` returns them.
        splits: By data set, the splits that its arms are evaluated on.
        axes: How many columns stand between the first one and the data sets.
    """
    names = dict.fromkeys(name for column in columns for name in records.get(column, {}).get("predictors", {}))
    return [
        [Cell(name), *[Cell("–")] * axes, *(_cell(records.get(column), name, splits[column]) for column in columns)]
        for name in names
    ]


def _cell(record: dict[str, Any] | None, name: str, splits: set[int]) -> Cell:
    if record is None or name not in record["predictors"]:
        return Cell("–")
    metric = Metric(record["metric"], record["direction"])
    return predictor_cell(record, name, splits, metric.factor, metric.spread)


def predictor_cell(
    record: dict[str, Any], name: str, splits: set[int], factor: float, spread: Callable[[float, float], str]
) -> Cell:
    """Returns what a predictor reaches on some splits, with a link to the data sets.

    Args:
        record: Of the data set, as ``read_sanity`` returns it.
        factor: From raw units to those of the table.
        spread: Writes mean and sample standard deviation, both in raw units.
    """
    import pandas

    rows = [row for row in record["predictors"][name] if row["split"] in splits]
    values = pandas.Series([row["test"] for row in rows if row["test"] is not None], dtype=float)
    if values.empty:
        return Cell(f"undefined: {rows[0]['reason']}" if rows else "–")
    mean, std = float(values.mean()), float(values.std(ddof=1))
    numbers = (mean * factor, None if pandas.isna(std) else std * factor, len(values))
    return Cell(f"{spread(mean, std)} ({of_all(len(values), len(rows))})", numbers=numbers, link=table_id("data"))


def constants(frame: "pandas.DataFrame") -> dict[str, Constants]:
    """Returns how many good evaluation fits of each arm predict a constant."""
    good = frame[(frame["stage"] == "evaluate") & (frame["status"] == "ok")]
    return {
        arm: Constants(int(rows.fillna(False).sum()), int(rows.isna().sum()), len(rows))
        for arm, rows in good.groupby("arm", sort=False)["constant"]
    }


def marked(cell: Cell, found: dict[str, Constants]) -> Cell:
    """Returns the cell of an arm, with a mark if any of its fits predicts a constant."""
    if cell.arm not in found or not found[cell.arm].constant:
        return cell
    return replace(cell, text=f"{cell.text} {MARK}")


def constant_notes(plan: dict[str, Any], arm_ids: list[str], found: dict[str, Constants]) -> list[str]:
    """Returns a line on the marked arms, such as "‡ constant predictions in 7 of 10 fits: MUTAG / gat / mean."."""
    alike: dict[Constants, list[str]] = {}
    for arm in plan["arms"]:
        counts = found.get(arm["id"])
        if arm["id"] in arm_ids and counts and counts.constant:
            alike.setdefault(counts, []).append(arm["label"])
    parts = []
    for counts, labels in alike.items():
        unknown = f", unknown in {counts.unknown} of older code" if counts.unknown else ""
        each = " each" if len(labels) > 1 else ""
        parts.append(f"in {counts.constant} of {counted(counts.fits, 'fit')}{each}{unknown}: {', '.join(labels)}")
    return [f"{MARK} constant predictions {'; '.join(parts)}."] if parts else []
