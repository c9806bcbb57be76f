"""Figures of the benchmarks, from their frames."""

from pathlib import Path

import matplotlib
import pandas as pd
import seaborn

from ssma.bench.growth import Point, operations
from ssma.bench.runtime_page import RUNTIME_CELL, SIZES
from ssma.bench.tables import DATA_CELL, FIT_CELL, of_epochs, summary
from ssma.report.figures import FAINT, STYLE, save, set_theme


def draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes a figure of the operator and one of the layers for each device, as PNG and PDF; returns the paths."""
    set_theme("whitegrid", STYLE)
    whole = summary(frame[frame["seconds"].notna()]).assign(ms=lambda part: 1000 * part["seconds"])
    whole["κ"] = whole["kappa"].astype(str)
    paths = []
    for device, mine in whole.groupby("device", sort=False):
        operator = {"hue": "κ", "style": "method"}
        layers = {"hue": "method", "style": "method"}
        for part, marks in (("operator", operator), ("layers", layers)):
            figure = _lines(mine[mine["part"] == part], marks)
            paths += save(figure, folder, f"aggr-{part}-{device}")
    return paths


def draw_data(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes a figure of the epochs of batches for each device, as PNG and PDF; returns the paths."""
    set_theme("whitegrid", STYLE)
    whole = summary(frame, DATA_CELL).assign(ms=lambda part: 1000 * part["seconds"])
    paths = []
    for device, mine in whole.groupby("device", sort=False):
        paths += save(_points(mine, "ms per epoch", x="ms", y="dataset", hue="method"), folder, f"data-{device}")
    return paths


def draw_fit(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes a figure of the seconds per epoch for each device, as PNG and PDF; returns the paths."""
    set_theme("whitegrid", STYLE)
    whole = summary(of_epochs(frame), FIT_CELL)
    whole["arm"] = (whole["layer"] + ", " + whole["aggregator"] + " " + whole["selection"]).str.strip()
    paths = []
    for device, mine in whole.groupby("device", sort=False):
        figure = _points(mine, "s per epoch", x="seconds", y="arm", row="dataset", hue="method")
        paths += save(figure, folder, f"fit-{device}")
    return paths


def draw_runtime(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes a figure of the layers and one of the growth for each device, as PNG and PDF; returns the paths."""
    set_theme("whitegrid", STYLE)
    whole = summary(frame[frame["seconds"].notna()], RUNTIME_CELL).assign(ms=lambda part: 1000 * part["seconds"])
    paths = []
    for device, mine in whole.groupby("device", sort=False):
        layers = _points(mine[mine["part"] == "layers"], "ms", x="ms", y="method", row="graph", hue="pass")
        paths += save(layers, folder, f"runtime-layers-{device}")
        paths += save(_growth(mine[mine["part"] == "growth"]), folder, f"runtime-growth-{device}")
    return paths


def _points(part: pd.DataFrame, unit: str, **axes: str) -> matplotlib.figure.Figure:
    """Returns times as points, two beside each name, a panel per row; bars have no length on a logarithmic axis."""
    height = max(1.8, 0.7 + 0.17 * part[axes["y"]].nunique())
    grid = seaborn.catplot(
        part, kind="point", linestyle="none", markers=["o", "s"], markersize=4, palette="colorblind", height=height,
        aspect=3.8 / height, **axes,
    )  # fmt: skip
    grid.set(xscale="log").set_titles("").set_axis_labels(f"{unit} (log scale)", "")
    for name, ax in grid.axes_dict.items():
        ax.set_title(name, loc="left")
    for ax in grid.axes.flat:
        ax.yaxis.grid(True)
    return _legend_above(grid)


def _growth(part: pd.DataFrame) -> matplotlib.figure.Figure:
    """Returns time and memory (columns) over each size (rows); beside time the paper's formula, in grey.

    A formula has no unit, so that it goes through the largest size that was measured.
    """
    part = part.assign(MB=part["bytes"] / 1e6, size=[line[line["varied"]] for _, line in part.iterrows()])
    long = part.melt(["varied", "size", "method"], ["ms", "MB"], var_name="quantity")
    grid = seaborn.relplot(
        long, x="size", y="value", col="quantity", row="varied", hue="method", style="method", kind="line",
        markers=True, palette="colorblind", height=1.6, aspect=1.35, facet_kws={"sharex": "row", "sharey": "col"},
    )  # fmt: skip
    grid.set(xscale="log", yscale="log").set_titles("")
    for (varied, quantity), ax in grid.axes_dict.items():
        mine = part[part["varied"] == varied]
        if quantity == "ms":
            for method, line in mine.groupby("method"):
                counts = _operations(method, line)
                last = line.loc[line["size"].idxmax()]
                ax.plot(line["size"], counts * last["ms"] / counts[last.name], color=FAINT, lw=0.8, zorder=1)
        sizes = sorted(mine["size"].unique())
        ax.set_xticks(sizes, [f"{size / 1000:g}k" if size >= 1000 else f"{size:g}" for size in sizes])
        ax.minorticks_off()
        ax.set_xlabel(SIZES[varied])
        ax.set_ylabel(f"{quantity} (log scale)")
    return _legend_above(grid)


def _operations(method: str, line: pd.DataFrame) -> pd.Series:
    points = line[["nodes", "edges", "d", "kappa"]].itertuples(index=False)
    return pd.Series([operations(method, Point(*point)) for point in points], index=line.index)


def _legend_above(grid: seaborn.FacetGrid) -> matplotlib.figure.Figure:
    seaborn.move_legend(grid, "upper center", bbox_to_anchor=(0.5, 1), ncols=3, title=None, frameon=False)
    grid.figure.tight_layout(rect=(0, 0, 1, 1 - 0.3 / grid.figure.get_figheight()))
    return grid.figure


def _lines(part: pd.DataFrame, marks: dict) -> matplotlib.figure.Figure:
    """Returns time over width: columns are numbers of nodes, rows are passes."""
    grid = seaborn.relplot(
        part, x="d", y="ms", row="pass", col="nodes", kind="line", markers=True, palette="colorblind", height=2.3,
        aspect=1.2, **marks,
    )  # fmt: skip
    grid.set_titles("")
    widths = sorted(part["d"].unique())
    for (name, nodes), ax in grid.axes_dict.items():
        ax.set_title(f"{name}, {nodes:,} nodes", loc="left")
    grid.set(xscale="log", yscale="log").set_axis_labels("width d", "ms (log scale)")
    grid.set(xticks=widths, xticklabels=widths)
    for ax in grid.axes.flat:
        ax.minorticks_off()
    return grid.figure
