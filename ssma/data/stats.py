"""Sizes and degrees of data sets beside those that the paper prints."""

import csv
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from ssma.errors import StudyError
from ssma.study.paths import Results
from ssma.study.records import read_record

COLUMNS = ("graphs", "nodes", "edges", "in-degree", "std", "median")
"""Number of graphs; means over graphs of nodes and directed edges; mean, deviation and median over nodes."""

AS_THE_PAPER_COUNTS = {"undirected": False, "parts": 1, "parts_seed": 0}
"""Of the OGB node tasks: the edges of arxiv in one direction, although experiments use both."""


def study_rows(plan: dict[str, Any], results: Results) -> list[list[str]]:
    """Returns the rows of ``format_table`` for a study's data sets, by their cards."""
    rows = []
    for dataset in plan["datasets"].values():
        path = results.data(dataset["id"]) / "card.json"
        card = read_record(path) if path.exists() else "not prepared"
        rows += _rows(dataset["label"], card, dataset["spec"])
    return rows


def mirror_rows(mirror: Path) -> tuple[list[list[str]], list[str]]:
    """Returns the rows of ``format_table`` for the data sets of the paper and the other ones in a folder of raw files,
    and what is wrong with those that cannot be read.

    Raises:
        StudyError: If there is no such folder.
    """
    if not mirror.is_dir():
        raise StudyError(f"{mirror}: no such folder; it is the one that holds TUDataset/, ZINC/, LRGB/ and OGB/")
    from ssma.data.prepare import count_graphs, load_source

    others = {("tu", path.parent.name) for path in mirror.glob("TUDataset/*/raw")} - _paper().keys()
    rows, errors = [], []
    for source, name in [*_paper(), *sorted(others)]:
        spec = {"source": source, "name": name, "features": "constant", "loss": None} | AS_THE_PAPER_COUNTS
        found: dict[str, Any] | str
        if not _is_there(mirror, source, name):
            found = "not in the mirror"
        else:
            try:
                with tempfile.TemporaryDirectory() as work:
                    found = count_graphs(load_source(spec, Path(work), mirror).graphs)
            except StudyError as error:  # of one set, which says nothing of the others
                found = "cannot be read"
                errors.append(str(error))
        rows += _rows(name, found, spec)
    return rows, errors


def format_table(rows: list[list[str]]) -> str:
    """Returns the rows as aligned text; ``*`` marks what differs from the paper in the digits that it prints."""
    lines = [["data set", "", *COLUMNS], *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = []
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line[:2], widths[:2], strict=True)]
        cells += [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
        text.append("  ".join(cells).rstrip())
    legend = "means over graphs: nodes, directed edges; over nodes: in-degree, deviation, median; * not as printed"
    return "\n".join([*text, legend])


def _rows(label: str, found: dict[str, Any] | str, spec: dict[str, Any]) -> list[list[str]]:
    """Returns a row for our numbers and one for the paper's, if it has the data set."""
    printed = _paper().get((spec["source"], spec.get("name", "ZINC")))
    if isinstance(found, str):
        rows = [[label, found, *[""] * len(COLUMNS)]]
    else:
        graphs, degree = found["num_graphs"], found["in_degree"]
        values = [graphs, found["num_nodes"] / graphs, found["num_edges"] / graphs]
        values += [degree["mean"], degree["std"]]
        as_printed = printed[:-1] if printed else ["0", *["0.00"] * 4]
        ours = [_beside(value, text) for value, text in zip(values, as_printed, strict=True)]
        ours.append(f"{degree['median']:g}")
        if printed:
            ours = [text if text == paper else f"{text}*" for text, paper in zip(ours, printed, strict=True)]
        rows = [[label, "ours", *ours]]
    return rows + ([["", "paper", *printed]] if printed else [])


def _beside(value: float, printed: str) -> str:
    """Returns a value with as many decimals as a printed one has."""
    return f"{value:.{len(printed.partition('.')[2])}f}"


def _is_there(mirror: Path, source: str, name: str) -> bool:
    lrgb, ogb = name.lower(), name.replace("-", "_")
    places = {
        "tu": f"TUDataset/{name}",
        "zinc": "ZINC",
        "lrgb": f"LRGB/{lrgb}",
        "ogbg": f"OGB/{ogb}",
        "ogbn": f"OGB/{ogb}",
    }
    return (mirror / places[source]).is_dir()


def _paper() -> dict[tuple[str, str], list[str]]:
    """Returns (source, name) -> the paper's numbers as it prints them, in the order of ``COLUMNS``."""
    text = files("ssma.paper").joinpath("datasets.csv").read_text(encoding="utf-8")
    return {(row[0], row[1]): row[2:] for row in list(csv.reader(text.splitlines()))[1:]}
