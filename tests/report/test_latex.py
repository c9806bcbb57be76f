"""Tables in LaTeX: what a table needs, and how a wide one is made to fit."""

import shutil
import subprocess
from dataclasses import replace

import pytest

from ssma.report.latex import PORTRAIT, shape_of, stub
from ssma.report.table import Cell, Table


def made(columns, rows, **changes):
    return Table("a/b", "It | is", columns, [[Cell(text) for text in row] for row in rows], **changes)


def test_a_small_table_floats_and_needs_booktabs_only():
    assert made(["x", "some long heading"], [["1", "2"]], footnotes=["see_ §"]).latex() == (
        "% \\usepackage{booktabs}\n\\begin{table}\n\\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}\n"
        "\\caption{It \\textbar{} is}\n\\label{tab:a-b}\n\\begin{tabular}{ll}\n\\toprule\n"
        "x & \\shortstack[l]{some\\\\long\\\\heading} \\\\\n\\midrule\n1 & 2 \\\\\n\\bottomrule\n\\end{tabular}\n"
        "\\par\\smallskip{\\footnotesize\\raggedright see\\_ \\S{}\\par}\n\\end{table}\n"
    )


def test_a_long_one_breaks_over_pages_and_repeats_its_head():
    text = made(["x", "y"], [[str(row), "2"] for row in range(31)]).latex()
    assert text.startswith("% \\usepackage{booktabs,longtable}\n\\begingroup")
    assert text.count("x & y") == 2 and "\\endlastfoot\n0 & 2 \\\\\n1 & 2 \\\\\n" in text


def test_a_wide_one_lies_on_its_side_and_a_wider_one_is_parted():
    # a column of 20 figures takes 20 * 4.25 + 6 = 91 pt: 3 fit into 345, 6 into 550
    row = ["a", *[str(place) * 20 for place in range(9)]]
    rows = [row, ["b", *row[1:]]]
    shape = shape_of(made(list("abcde"), [row[:5] for row in rows]))
    assert shape.shrunk and len(shape.parts[0]) == 5  # 4 of them are 370 pt
    assert "\\usepackage{booktabs,graphicx}" in made(list("abcde"), [row[:5] for row in rows]).latex()
    for count, landscape, parts in ((4, False, [4]), (6, True, [6]), (7, True, [6, 2])):
        shape = shape_of(made(list("abcdefghij")[:count], [row[:count] for row in rows]))
        assert (shape.landscape, [len(part) for part in shape.parts]) == (landscape, parts)
    shape = shape_of(made(list("abcdefghij"), rows))
    assert [list(part) for part in shape.parts] == [[0, 1, 2, 3, 4, 5], [0, 6, 7, 8, 9]]
    text = made(list("abcdefghij"), rows).latex()
    assert "\\begin{landscape}" in text and "\\caption*{Table \\ref{tab:a-b}, part 2 of 2.}" in text
    assert text.count("\na & 0") == 1 and "\na & " + "5" * 20 in text


def test_sentences_become_paragraphs_that_share_the_line():
    shape = shape_of(made(["x", "y", "z"], [["1", "word " * 40, "word " * 40]], sentences=True))
    (part,) = shape.parts
    assert not shape.landscape and part[0] == 0 and part[1] == part[2] == (int((PORTRAIT - 18) / 4.25) - 1) // 2
    assert ">{\\raggedright\\arraybackslash}p{" in made(["y"], [["word " * 40]]).latex()


def test_what_is_repeated_tells_the_rows_apart():
    rows = [["M", "gcn", "1", "2"], ["M", "gin", "1", "2"], ["P", "gcn", "1", "2"]]
    assert stub(made(list("wxyz"), rows)) == 2
    assert stub(made(list("wxyz"), [["1"] * 4] * 2)) == 3


BRACKETS = made(["gain [%]", "[x]"], [["[0.5, 1]", "[a]"], ["[1, 2]", "b"], ["*", "1"], ["* *", "1"]])


def test_a_bracket_or_an_asterisk_that_begins_a_line_is_no_option_of_the_line_before():
    text = BRACKETS.latex()
    assert "{}[0.5, 1] & [a] \\\\\n{}[1, 2] & b \\\\\n{}* & 1 \\\\\n{}* * & 1 \\\\\n" in text
    assert "\\shortstack[l]{long\\\\{}[\\%]} & y" in made(["long [%]", "y"], [["1", "2"], ["3", "4"]]).latex()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_it_compiles_and_stays_on_the_page(tmp_path):
    rows = [
        [f"IMDB-BINARY-gcn-{row}", *(f"72.{row} ± 3.8 (10) §¶†" for _ in range(9)), "why it is so, κ ≤ Δ → ∞\n\n" * 9]
        for row in range(9)
    ]
    title = "Two paragraphs:\n\nthe effect of κ ≈ 3\n"
    columns = ["arm", *(f"a long heading {place}" for place in range(9)), "why"]
    for name, table in (
        ("wide", made(columns, rows)),
        ("small", made(columns[:3], [row[:3] for row in rows])),
        ("brackets", BRACKETS),
    ):
        text = replace(table, caption=title).latex()
        needs = text.split("\n", 1)[0].removeprefix("% ")
        (tmp_path / f"{name}.tex").write_text(
            f"\\documentclass{{article}}\n{needs}\n\\begin{{document}}\n{text}\\end{{document}}\n"
        )
        made_of = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
        assert subprocess.run(made_of, cwd=tmp_path, capture_output=True).returncode == 0
        assert "Overfull \\hbox" not in (tmp_path / f"{name}.log").read_text(errors="replace")
