"""A table once, written three ways: Markdown, CSV and LaTeX (booktabs)."""

import csv
import io
from dataclasses import dataclass, field

from ssma.study.ids import slug

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "†": r"$\dagger$",
    "‡": r"$\ddagger$", "−": r"$-$",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One entry; ``arm`` is the id of the arm it came from, ``numbers`` are its mean, deviation and number of fits."""

    text: str
    bold: bool = False
    arm: str | None = None
    numbers: tuple[float | None, float | None, int] | None = None


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns, a caption above and notes (warnings) below.

    ``grouped`` draws a line wherever the first column changes.
    """

    name: str
    caption: str
    columns: list[str]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)
    grouped: bool = False

    def starts_group(self, row: int) -> bool:
        """Says whether a line belongs above this row."""
        return self.grouped and row > 0 and self.rows[row][0].text != self.rows[row - 1][0].text

    def markdown(self) -> str:
        """Returns a caption, a pipe table and the notes."""
        lines = [self.columns, ["---"] * len(self.columns)]
        lines += [[_markdown(cell) for cell in row] for row in self.rows]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return "\n\n".join([self.caption, body, *self.notes]) + "\n"

    def csv(self) -> str:
        """Returns the cells as shown, without caption and notes; those with numbers have these beside them in full."""
        wide = [any(row[place].numbers for row in self.rows) for place in range(len(self.columns))]
        header, lines = [], []
        for name, numeric in zip(self.columns, wide, strict=True):
            header += [name, *([f"{name}: {part}" for part in ("mean", "std", "n")] if numeric else [])]
        for row in self.rows:
            line: list[str | float | None] = []
            for cell, numeric in zip(row, wide, strict=True):
                line += [cell.text, *((cell.numbers or (None, None, None)) if numeric else ())]
            lines.append(line)
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([header, *lines])
        return buffer.getvalue()

    def latex(self) -> str:
        """Returns a ``table`` that needs only the booktabs package."""
        lines = [r"\begin{table}", r"\centering\small", rf"\caption{{{escape(self.caption)}}}"]
        lines += [rf"\label{{tab:{slug(self.name)}}}", rf"\begin{{tabular}}{{{'l' * len(self.columns)}}}", r"\toprule"]
        lines += [" & ".join(map(escape, self.columns)) + r" \\", r"\midrule"]
        for number, row in enumerate(self.rows):
            lines += [r"\midrule"] if self.starts_group(number) else []
            lines.append(" & ".join(_latex(cell) for cell in row) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}"]
        lines += [rf"\par\smallskip{{\footnotesize {escape(note)}\par}}" for note in self.notes]
        return "\n".join([*lines, r"\end{table}"]) + "\n"


def escape(text: str) -> str:
    """Returns ``text`` for LaTeX: special characters escaped, signs as math."""
    return "".join(LATEX.get(character, character) for character in text)


def _latex(cell: Cell) -> str:
    return rf"\textbf{{{escape(cell.text)}}}" if cell.bold else escape(cell.text)


def _markdown(cell: Cell) -> str:
    text = cell.text.replace("|", r"\|").replace("\n", " ")
    return f"**{text}**" if cell.bold else text
