"""A table once, written three ways: Markdown, CSV and LaTeX (booktabs)."""

import csv
import io
import re
from dataclasses import dataclass, field, replace

from ssma.report import latex
from ssma.study.ids import slug

NUMBERS = ("mean", "std", "n", "low", "high")
LOST = r"[$]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|^#(?=#* )"
MARKUP = re.compile(LOST + r"|[\\`|~]|\*(?=\S)|(?<=\S)\*|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown (GitHub's) takes for its own: formulas, tags, signs, a heading; and code, columns and emphasis."""


@dataclass(frozen=True)
class Cell:
    """One entry; ``arm`` is the id of the arm it came from, ``numbers`` are its mean, deviation and number of fits.

    A number that rests on several arms has a ``link`` instead: the id of the table on the page that names them.
    ``interval`` are the ends of the 95% interval of the mean, in full; ``detail`` is shown below the text on the page;
    ``full`` stands in the CSV, which has no footnotes, in place of a text that points to one.
    """

    text: str
    bold: bool = False
    arm: str | None = None
    numbers: tuple[float | None, float | None, int] | None = None
    link: str | None = None
    interval: tuple[float, float] | None = None
    detail: str = ""
    full: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns, a caption above, notes (warnings) and footnotes below.

    ``grouped`` draws a line wherever the first column changes. In a table of ``sentences`` cells wrap on the page. Of
    rows and footnotes LaTeX has the first ``printed`` ones, by default all.
    """

    name: str
    caption: str
    columns: list[str]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)
    grouped: bool = False
    footnotes: list[str] = field(default_factory=list)
    sentences: bool = False
    printed: tuple[int | None, int | None] = (None, None)

    def starts_group(self, row: int) -> bool:
        """Says whether a line belongs above this row."""
        return self.grouped and row > 0 and self.rows[row][0].text != self.rows[row - 1][0].text

    def markdown(self) -> str:
        """Returns a caption, a pipe table and the notes; only a caption may have Markdown of its own."""
        lines = [[*map(_markdown, self.columns)], ["---"] * len(self.columns)]
        lines += [
            [f"**{_markdown(cell.text)}**" if cell.bold else _markdown(cell.text) for cell in row] for row in self.rows
        ]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        caption = re.sub(LOST, r"\\\g<0>", self.caption)  # which may emphasise
        return "\n\n".join([caption, body, *map(_markdown, self.notes + self.footnotes)]) + "\n"

    def csv(self) -> str:
        """Returns the cells as shown, without caption and notes; those with numbers have these beside them in full."""
        parts = [self._parts(place) for place in range(len(self.columns))]
        header = [
            text
            for name, beside in zip(self.columns, parts, strict=True)
            for text in (name, *(f"{name}: {part}" for part in beside))
        ]
        lines = []
        for row in self.rows:
            line: list[str | float | None] = []
            for cell, beside in zip(row, parts, strict=True):
                known = dict(zip(NUMBERS, (*(cell.numbers or ()), *(cell.interval or ())), strict=False))
                line += [cell.full or cell.text, *(known.get(part) for part in beside)]
            lines.append(line)
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([header, *lines])
        return buffer.getvalue()

    def _parts(self, place: int) -> tuple[str, ...]:
        """Returns the numbers that a column of the CSV is followed by."""
        cells = [row[place] for row in self.rows]
        return NUMBERS if any(cell.interval for cell in cells) else NUMBERS[: 3 * any(cell.numbers for cell in cells)]

    def latex(self) -> str:
        """Returns a table that compiles as it is; a comment on top names the packages that it needs."""
        rows, footnotes = self.printed
        return latex.write(replace(self, rows=self.rows[:rows], footnotes=self.footnotes[:footnotes]))


def table_id(name: str) -> str:
    """Returns the id that a table of this name has on the page; no name of an ablation has a colon."""
    return f"{slug(name)}:table"


def _markdown(text: str) -> str:
    """Returns a text for Markdown, in one line: it stands there as it is."""
    return MARKUP.sub(r"\\\g<0>", " ".join(text.split("\n")))
