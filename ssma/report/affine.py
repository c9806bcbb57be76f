"""How far the learned affine maps of an ablation are from the given one: a table and a figure."""

import json
import math
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ssma import paper
from ssma.report.figures import OF_STUDIES, set_theme
from ssma.report.labels import acting, point_text
from ssma.report.table import Cell, Table

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

AXIS = "ssma.learn_affine"
MAPS = ("given", "learned", "difference")
FIGURE_CAPTION = (
    "The affine map as given, as learned, and their difference: absolute entries of the array that a neighbour "
    "becomes, averaged over its channels, the constant and the layers of the arm's first fit. One scale per row."
)
PAPERS_WIDTH, PAPERS_KAPPA = 31, 3  # of the one run behind the paper's two numbers, by the authors' code

Maps = dict[str, Any]
"""What ``ssma.aggr.affine.compare_maps`` tells of one module."""


def without_pictures(summary: dict[str, Any]) -> dict[str, Any]:
    """Returns a module summary without what is under ``picture`` in it, at any depth."""
    kept = {name: value for name, value in summary.items() if name != "picture"}
    return {name: without_pictures(value) if isinstance(value, dict) else value for name, value in kept.items()}


def affine_table(plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame") -> Table | None:
    """Returns a row for each arm of an ablation that learns the map; None if learning it is no axis.

    An arm without a fit whose record tells of its maps says so. The last row is the paper's.
    """
    if AXIS not in plan["ablations"][ablation]["axes"]:
        return None
    rows = []
    for cell in _learning(plan, ablation):
        head = [Cell(cell["dataset"]), Cell(cell["layer"]), Cell(point_text(cell["point"]), arm=cell["arm"])]
        fits = _fits(frame, cell["arm"])
        rows.append(head + [Cell(text) for text in (_numbers(fits) if fits else ["no record tells", *[""] * 6])])
    rows.append([Cell(text) for text in ("the paper: ZINC", "gcn", "d = 31, κ = 3", *_papers_numbers())])
    columns = ["data set", "layer", "arm", "fits × maps", "change", "learned", "given", "change / given"]
    columns += ["largest learned", "largest change"]
    caption = (
        "Learned affine map against the given one, at the best validation epoch; the change is learned less given. "
        "Means of the absolute entries ± their standard deviation over the entries of a map, averaged over all maps of "
        "all fits that are ok (largest: of them all). One in m1 m2 entries of the given map is not zero."
    )
    note = (
        "The paper calls its two maps similar and compares the mean change with the mean entry of the learned map, of "
        "one run; beside the given map's mean entry, 1 / (m1 m2), the change is as large as the ratio says."
    )
    return Table(f"{ablation}-map", caption, columns, rows, footnotes=[note])


def affine_figure(plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame") -> "Figure | None":
    """Returns heat maps of given, learned and difference for each arm that learns its map; None without any.

    Drawn are the absolute entries of the arm's first fit, averaged over channels, constant and the network's layers.
    """
    pictures = _pictures(plan, ablation, frame)
    if not pictures:
        return None
    from matplotlib import pyplot

    set_theme("whitegrid", OF_STUDIES)
    size = (7.5, 0.5 + 1.5 * len(pictures))
    figure, grid = pyplot.subplots(len(pictures), 3, figsize=size, squeeze=False, layout="constrained")
    for axes, (title, maps) in zip(grid, pictures.items(), strict=True):
        top = max(max(map(max, maps[name])) for name in MAPS)
        for ax, name in zip(axes, MAPS, strict=True):
            image = ax.imshow(maps[name], vmin=0, vmax=top, cmap="cividis", aspect="auto", interpolation="nearest")
            shown = f"{title} · {name}" if name == MAPS[0] else name
            ax.set_title(shown, loc="left", fontsize=8)
            ax.set_yticks(range(len(maps[name])))
            ax.grid(visible=False)
        axes[0].set_ylabel("row (power of t)", fontsize=8)
        figure.colorbar(image, ax=list(axes), shrink=0.9)
    for ax in grid[-1]:
        ax.set_xlabel("column (power of z)", fontsize=8)
    return figure


def affine_data(plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame") -> "pandas.DataFrame":
    """Returns what the figure shows: arm, row, column and the entry of each map."""
    import pandas

    rows = [
        {"arm": title, "row": row, "column": column} | {name: maps[name][row][column] for name in MAPS}
        for title, maps in _pictures(plan, ablation, frame).items()
        for row, values in enumerate(maps["given"])
        for column in range(len(values))
    ]
    return pandas.DataFrame(rows, columns=["arm", "row", "column", *MAPS])


def _learning(plan: dict[str, Any], ablation: str) -> list[dict[str, Any]]:
    """Returns the cells that learn the map, without those of other aggregators, which have none."""
    return [cell for cell in plan["ablations"][ablation]["cells"] if acting(cell["point"]).get(AXIS) is True]


def _fits(frame: "pandas.DataFrame", arm: str) -> list[list[Maps]]:
    """Returns the maps of each fit of an arm, in the order of the network, fits in the order of the frame."""
    if "modules" not in frame:
        return []
    told = frame.loc[(frame["arm"] == arm) & (frame["status"] == "ok"), "modules"].dropna()
    fits = ([one["affine"] for one in json.loads(text).values() if "affine" in one] for text in told)
    return [maps for maps in fits if maps]


def _numbers(fits: list[list[Maps]]) -> list[str]:
    maps = [one for fit in fits for one in fit]
    mean, std = ({name: fmean(one[name][what] for one in maps) for name in MAPS} for what in ("mean", "std"))
    texts = [f"{mean[name]:.3g} ± {std[name]:.3g}" for name in ("difference", "learned", "given")]
    ratio = f"{mean['difference'] / mean['given']:.2g}"
    largest = [f"{max(one[name]['largest'] for one in maps):.3g}" for name in ("learned", "difference")]
    return [f"{len(fits)} × {len(maps) / len(fits):g}", *texts, ratio, *largest]


def _papers_numbers() -> list[str]:
    """Returns the paper's row; the given map's entries follow from its definition."""
    printed = {claim.id: claim.expected.replace("+-", "±") for claim in paper.claims()}
    given = 1 / ((PAPERS_KAPPA + 1) * (PAPERS_KAPPA * (PAPERS_WIDTH - 1) + 1))
    std = math.sqrt(given - given**2)  # of zeros and ones
    ratio = float(printed["A10"].split()[0]) / given
    return ["1 run", printed["A10"], printed["A11"], f"{given:.3g} ± {std:.3g}", f"{ratio:.2g}", "–", "–"]


def _pictures(plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame") -> dict[str, dict[str, list]]:
    """Returns the arrays that are drawn, by a title; of arms whose maps are small enough to be in the records."""
    found = {}
    for cell in _learning(plan, ablation):
        fits = _fits(frame, cell["arm"])
        if not fits or any(one[name].get("picture") is None for one in fits[0] for name in MAPS):
            continue
        rest = {key: value for key, value in cell["point"].items() if key != AXIS}
        title = " · ".join(filter(None, (cell["dataset"], cell["layer"], point_text(rest))))
        found[title] = {name: _average([one[name]["picture"] for one in fits[0]]) for name in MAPS}
    return found


def _average(arrays: list[list[list[float]]]) -> list[list[float]]:
    """Returns the mean of arrays of one shape."""
    return [[fmean(entry) for entry in zip(*rows, strict=True)] for rows in zip(*arrays, strict=True)]
