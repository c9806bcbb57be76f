"""Theory experiments on the page: figure, the data behind it, the paper's claim, and what the records say."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssma.report import theory_figures, theory_words
from ssma.report.figures import save
from ssma.report.svg import inline_svg
from ssma.study.ids import canonical_json
from ssma.study.paths import Results
from ssma.study.records import read_record, write_atomic
from ssma.study.theory import theory_fingerprint

if TYPE_CHECKING:
    import pandas

TITLES = {
    "sum_of_gram": "SumOfGram: a task that needs pairs of neighbours",
    "mixing": "Neighbour mixing of trained networks",
    "higher_order": "Higher-order mixing of the convolution",
    "separation": "Separation and stability of representations",
    "growth": "Growth of representations and of the bound of mixing",
}


@dataclass(frozen=True)
class Shown:
    """An experiment as the page has it; without a record there are no claim and no SVG, and words say why."""

    name: str
    title: str
    words: str
    claim: str = ""
    svg: str = ""


def theory(results: Results, plan: dict[str, Any], folder: Path) -> list[Shown]:
    """Returns what there is of a plan's experiments; writes figures and tables ``theory-<name>`` to ``folder``.

    Raises:
        StudyError: If a record was changed or cut short.
    """
    shown = []
    for name, experiment in plan.get("theory", {}).items():  # older plans have none
        path = results.theory(experiment["id"])
        record = read_record(path) if path.exists() else {"status": "missing", "reason": "no record"}
        if record["status"] == "ok":
            shown.append(show(plan, record, folder, f"theory-{name}"))
        else:
            shown.append(Shown(name, TITLES[name], f"{record['status']}: {record['reason']}"))
    return shown


def show(plan: dict[str, Any], record: dict[str, Any], folder: Path, stem: str) -> Shown:
    """Writes the figure of a record (PNG, PDF) and the rows behind it (CSV) to ``folder``.

    Returns what they show, with the figure as an SVG element that has tooltips.
    """
    rows, name = frame(record), record["name"]
    write_atomic(folder / f"{stem}.csv", _csv(rows))
    figure = theory_figures.draw(plan, record, rows)
    svg = inline_svg(figure, stem)
    save(figure, folder, stem)
    claim, words = theory_words.tell(record, rows)
    if record["code"] != theory_fingerprint():
        words += " Its record was made by other code than the installed one."
    return Shown(name, TITLES[name], words, claim, svg)


def frame(record: dict[str, Any]) -> "pandas.DataFrame":
    """Returns the rows of a record; whole numbers stay whole where some are missing."""
    import pandas

    rows = pandas.DataFrame(record["columns"])
    for name, values in record["columns"].items():
        known = [value for value in values if value is not None]
        if len(known) < len(values) and known and all(type(value) is int for value in known):
            rows[name] = rows[name].astype("Int64")
    return rows


def _csv(rows: "pandas.DataFrame") -> bytes:
    text = io.StringIO()
    lists = [column for column in rows if rows[column].map(lambda value: isinstance(value, list)).any()]
    rows.assign(**{column: rows[column].map(canonical_json) for column in lists}).to_csv(text, index=False)
    return text.getvalue().encode()
