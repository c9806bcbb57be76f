r"""A table in LaTeX (booktabs) that fits its page: portrait, landscape, or in parts that repeat the first columns.

Widths are estimated from the number of characters, for the narrowest text of the usual classes: 345 pt by 550 pt of
``article``. Columns of long cells become paragraphs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssma.study.ids import slug

if TYPE_CHECKING:
    from ssma.report.table import Cell, Table

SIGNS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "|": r"\textbar{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "†": r"$\dagger$", "‡": r"$\ddagger$", "−": r"$-$",
    "§": r"\S{}", "¶": r"\P{}", "²": r"$^2$", "≥": r"$\geq$", "…": r"\ldots{}",
    "≤": r"$\leq$", "≠": r"$\neq$", "≈": r"$\approx$", "∞": r"$\infty$", "→": r"$\rightarrow$",
}  # fmt: skip
SMALL = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi "
SMALL += "omega"
CAPITAL = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"  # the others are Latin letters in LaTeX
for letters, names in (("αβγδεζηθικλμνξπρστυφχψω", SMALL), ("ΓΔΘΛΞΠΣΥΦΨΩ", CAPITAL)):
    SIGNS |= {letter: rf"$\{name}$" for letter, name in zip(letters, names.split(), strict=True)}
PORTRAIT, LANDSCAPE = 345.0, 550.0
CHARACTER, GAP = 4.25, 6.0
"""Points: a character in footnotesize, and the space between columns."""
KEPT_WHOLE, NARROWEST = 24, 12
"""Characters: cells up to this length are not broken (of sentences, up to the second), the least of a paragraph."""
SHRUNK = 1.25
"""A table that floats may be this much too wide, and is scaled."""
MOST_ROWS = 30
"""Rows of a table that floats; a longer one breaks over pages."""


@dataclass(frozen=True)
class Shape:
    """Parts of a table: the columns of each, with the width of a paragraph in characters, 0 where cells stay whole.

    One that is ``shrunk`` is a little too wide and scaled to the text.
    """

    parts: list[dict[int, int]]
    landscape: bool
    shrunk: bool = False


def write(table: "Table") -> str:
    """Returns the table; a comment on top names the packages that it needs."""
    shape = shape_of(table)
    floats = not shape.landscape and len(shape.parts) == 1 and len(table.rows) <= MOST_ROWS
    packages = [
        "booktabs",
        *(["graphicx"] if shape.shrunk else []),
        *([] if floats else ["longtable"]),
        *(["pdflscape"] if shape.landscape else []),
    ]
    if any(any(part.values()) for part in shape.parts):
        packages.insert(0, "array")
    below = [
        rf"\par\smallskip{{\footnotesize\raggedright {escape(note)}\par}}" for note in table.notes + table.footnotes
    ]
    needs = rf"% \usepackage{{{','.join(packages)}}}"
    title = rf"\caption{{{escape(table.caption)}}}" + "\n" + rf"\label{{tab:{slug(table.name)}}}"
    small = r"\footnotesize\setlength{\tabcolsep}{3pt}"
    if floats:
        columns, head, body = _part(table, shape.parts[0])
        inner = [rf"\begin{{tabular}}{{{columns}}}", *head, *body, r"\bottomrule", r"\end{tabular}"]
        if shape.shrunk:
            scaled = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{"
            inner = [scaled + inner[0], *inner[1:-1], inner[-1] + "}"]
        lines = [needs, r"\begin{table}", rf"\centering{small}", title, *inner, *below, r"\end{table}"]
        return "\n".join(lines) + "\n"
    lines = [needs, r"\begin{landscape}"] if shape.landscape else [needs]
    lines += [rf"\begingroup{small}\setlength{{\LTcapwidth}}{{\linewidth}}"]
    for number, part in enumerate(shape.parts, 1):
        columns, head, body = _part(table, part)
        of = f"part {number} of {len(shape.parts)}"
        again = rf"\caption*{{Table \ref{{tab:{slug(table.name)}}}, {of}.}}"
        lines += [rf"\begin{{longtable}}{{{columns}}}", (title if number == 1 else again) + r" \\", *head]
        lines += [r"\endfirsthead", *head, r"\endhead", r"\bottomrule", r"\endlastfoot", *body, r"\end{longtable}"]
    lines += [*below, r"\endgroup", *([r"\end{landscape}"] if shape.landscape else [])]
    return "\n".join(lines) + "\n"


def shape_of(table: "Table") -> Shape:
    """Returns how a table fits: upright if it can, else on its side, else in parts that repeat its first columns."""
    texts = [[name, *(row[place].text for row in table.rows)] for place, name in enumerate(table.columns)]
    whole = [max(max(map(_size, column[1:]), default=0), _longest_word(column[0])) for column in texts]
    kept, broken = (NARROWEST, "-") if table.sentences else (KEPT_WHOLE, "")
    least = [
        width if width <= kept else max(NARROWEST, *(_longest_word(text, broken) for text in column))
        for width, column in zip(whole, texts, strict=True)
    ]
    fits = sum(least) <= _room(len(whole), False)
    if not fits and len(table.rows) <= MOST_ROWS and sum(whole) <= SHRUNK * _room(len(whole), False):
        return Shape([dict.fromkeys(range(len(whole)), 0)], landscape=False, shrunk=True)
    for landscape in (False, True):
        if sum(least) <= _room(len(whole), landscape):
            return Shape([_filled(range(len(whole)), whole, least, landscape)], landscape)
    key = range(stub(table))
    parts = [list(key)]
    for place in range(len(key), len(whole)):
        wanted = sum(least[other] for other in [*parts[-1], place])
        if len(parts[-1]) > len(key) and wanted > _room(len(parts[-1]) + 1, True):
            parts.append(list(key))
        parts[-1].append(place)
    return Shape([_filled(part, whole, least, True) for part in parts], True)


def stub(table: "Table") -> int:
    """Returns the fewest first columns that tell all rows apart (all but one column at most)."""
    for key in range(1, len(table.columns) - 1):
        if len({tuple(cell.text for cell in row[:key]) for row in table.rows}) == len(table.rows):
            return key
    return max(1, len(table.columns) - 1)


def escape(text: str) -> str:
    """Returns ``text`` for LaTeX, in one line: special characters escaped, signs and Greek letters as math."""
    return "".join(SIGNS.get(character, character) for character in " ".join(text.split()))


def _room(columns: int, landscape: bool) -> float:
    """Returns how many characters a line has."""
    return ((LANDSCAPE if landscape else PORTRAIT) - GAP * columns) / CHARACTER


def _size(text: str) -> int:
    """Returns the width of a text in characters; capitals are wider than figures and small letters."""
    return math.ceil(len(text) + 0.4 * sum(map(str.isupper, text)))


def _longest_word(text: str, broken: str = "") -> int:
    """Returns the width of the longest word; one is also broken after the character ``broken``."""
    return max(map(_size, (text.replace(broken, f"{broken} ") if broken else text).split()), default=0)


def _filled(part: Sequence[int], whole: list[int], least: list[int], landscape: bool) -> dict[int, int]:
    """Returns the widths of paragraphs: as wide as the line allows, the same for all that need more; 0 for others."""
    width = max(whole[place] for place in part)
    room = _room(len(part), landscape)
    while width > NARROWEST and sum(max(least[place], min(whole[place], width)) for place in part) > room:
        width -= 1
    return {place: max(least[place], width) if whole[place] > max(least[place], width) else 0 for place in part}


def _part(table: "Table", part: dict[int, int]) -> tuple[str, list[str], list[str]]:
    """Returns the column specification, the head and the rows of some columns."""
    names, kinds = [], []
    for place, width in part.items():
        longest = max((_size(row[place].text) for row in table.rows), default=0)
        kinds.append(rf">{{\raggedright\arraybackslash}}p{{{width * CHARACTER:.0f}pt}}" if width else "l")
        names.append(escape(table.columns[place]) if width else _stacked(table.columns[place], longest))
    head = [r"\toprule", " & ".join(names) + r" \\", r"\midrule"]
    body = []
    for number, row in enumerate(table.rows):
        body += [r"\midrule"] if table.starts_group(number) else []
        body.append(_begun(" & ".join(_cell(row[place]) for place in part)) + r" \\")
    return "".join(kinds), head, body


def _stacked(name: str, width: int) -> str:
    """Returns a heading broken at spaces into lines no longer than the cells below, where words allow it."""
    width = max(width, _longest_word(name))
    lines = [""]
    for word in name.split():
        joined = f"{lines[-1]} {word}".strip()
        lines = [*lines[:-1], joined] if _size(joined) <= width else [*lines, word]
    stack = r"\\".join(_begun(escape(line)) for line in lines)
    return stack if len(lines) == 1 else rf"\shortstack[l]{{{stack}}}"


def _begun(line: str) -> str:
    r"""Returns a line that can stand behind ``\\`` or a rule, which take a bracket or an asterisk for their own."""
    return "{}" + line if line.startswith(("[", "*")) else line


def _cell(cell: "Cell") -> str:
    return rf"\textbf{{{escape(cell.text)}}}" if cell.bold else escape(cell.text)
