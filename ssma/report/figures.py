"""A figure per ablation: every fit as a point, its mean and spread as in the tables, gaps marked as gaps."""

import io
import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssma.report.drawn import Line, arm_text, lines_of, notes
from ssma.report.encoding import MARKERS, Encoding, encode
from ssma.report.labels import Metric, metrics_of, setting, value_text
from ssma.report.statistics import summarise
from ssma.report.svg import TIP
from ssma.study.part import baselines
from ssma.study.records import write_atomic

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT, DASHES = "0.25", "0.5", (0, (4, 2))
LETTER = 0.085
"""Inches that a character takes at most."""
STYLE = {
    "font.size": 9, "axes.titlesize": 9.5, "axes.labelsize": 9, "axes.edgecolor": "0.7", "grid.color": "0.9",
    "xtick.bottom": True, "xtick.color": INK, "ytick.color": INK, "axes.labelcolor": INK, "pdf.fonttype": 42,
    "text.parse_math": True,
}  # fmt: skip
OF_STUDIES = STYLE | {"text.parse_math": False}
"""The style of figures that show names and values of a study: a `$` in them begins no formula."""


def set_theme(style: str, rc: dict[str, Any]) -> None:
    """Begins a figure without a display, from matplotlib's own defaults.

    A ``matplotlibrc`` of the user's would change figures, and with ``text.usetex`` end the report where LaTeX lacks
    a package.
    """
    import matplotlib
    import seaborn

    matplotlib.use("Agg")
    matplotlib.rcdefaults()
    seaborn.set_theme(style=style, context="paper", rc=rc)


def draw(plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame") -> "Figure":
    """Returns the figure of an ablation: columns are data sets, rows are layers (and axes beyond the second)."""
    import seaborn
    from matplotlib import pyplot

    encoding, arms = encode(plan, ablation), {arm["id"]: arm for arm in plan["arms"]}
    cells = encoding.cells
    datasets = [label for label in plan["datasets"] if any(cell["dataset"] == label for cell in cells)]
    keys = list(dict.fromkeys(map(encoding.row, cells)))
    summary, metrics = summarise(frame), metrics_of(frame)
    axes, known = plan["ablations"][ablation]["axes"], baselines(plan, ablation)
    ok = frame[(frame["stage"] == "evaluate") & (frame["status"] == "ok")].sort_values(["split", "repeat"])
    tests = dict(iter(ok.groupby("arm")["test"]))
    width = _panel_width(encoding)
    turn, below = _ticks(encoding, width)
    size = (0.8 + width * len(datasets), 0.8 + 2.3 * len(keys) + below)
    set_theme("whitegrid", OF_STUDIES | _font_sizes(size[0]))
    figure, grid = pyplot.subplots(
        len(keys), len(datasets), figsize=size, squeeze=False, sharex=True, layout="constrained"
    )
    drawn: list[Line] = []
    same = len({metrics.get(dataset) for dataset in datasets}) == 1
    for column, dataset in enumerate(datasets):
        for row, key in enumerate(keys):
            ax = grid[row][column]
            panel = [cell for cell in cells if cell["dataset"] == dataset and encoding.row(cell) == key]
            if panel:
                lines = lines_of(axes, known, encoding, panel)
                drawn += lines
                _lines(ax, lines, panel, encoding, summary, arms)
                _panel(ax, panel, encoding, summary, tests, arms)
            else:
                ax.set_axis_off()
            ax.set_title(_wrapped(f"{dataset} · {key}", width), loc="left", color=INK)
            if dataset in metrics and (column == 0 or not same):
                ax.set_ylabel(f"test {metrics[dataset].title} {metrics[dataset].arrow}")
        grid[-1][column].set_xlabel(setting(encoding.x) + (f" ({encoding.scale})" if encoding.scale else ""))
    _turn_ticks(grid, encoding, turn)
    if encoding.hue or drawn:
        _legend(figure, encoding, sorted({line.name for line in drawn}))
    if text := notes(plan, cells, summary):
        text = textwrap.fill(text, int(size[0] * 16))
        figure.supxlabel(text, x=0.01, ha="left", fontsize=7.5, color=INK)
    seaborn.despine(figure, left=True)
    return figure


def save(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Writes PNG (150 dpi) and PDF without dates, closes the figure and returns the paths.

    Its canvases print it, since ``savefig`` draws a figure with a layout twice, the first time for the layout alone.
    """
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    paths = []
    for kind, canvas, without in (("png", FigureCanvasAgg, "Software"), ("pdf", FigureCanvasPdf, "CreationDate")):
        buffer = io.BytesIO()
        figure.set_dpi(150)  # vector formats set their own
        getattr(canvas(figure), f"print_{kind}")(buffer, metadata={without: None})
        paths.append(folder / f"{name}.{kind}")
        write_atomic(paths[-1], buffer.getvalue())
    pyplot.close(figure)
    return paths


def _font_sizes(width: float) -> dict[str, float]:
    """Returns sizes that stay readable when a figure of up to two columns is set at half the width of a page."""
    size = 9 if width < 4.5 else 11 if width < 7.5 else 10
    return {"font.size": size, "axes.titlesize": size + 0.5, "axes.labelsize": size} | dict.fromkeys(
        ("xtick.labelsize", "ytick.labelsize", "legend.fontsize", "legend.title_fontsize"), size - 0.5
    )


def _panel(
    ax: "Axes",
    cells: list[dict],
    encoding: Encoding,
    summary: "pandas.DataFrame",
    tests: "dict[str, pandas.Series]",
    arms: dict[str, dict],
) -> None:
    for level in range(len(encoding.levels)):
        drawn = sorted((cell for cell in cells if encoding.level(cell) == level), key=encoding.place)
        for cell in drawn:
            result = summary.loc[cell["arm"]]
            _mark(ax, cell, encoding, result, tests.get(cell["arm"]), arm_text(arms[cell["arm"]], result))
        if encoding.numeric and drawn:
            _line(ax, drawn, encoding, summary)
    places = encoding.places.values()
    ax.set_xlim(min(places) - 0.55 * encoding.gap, max(places) + 0.55 * encoding.gap)
    ax.margins(y=0.12)
    ax.xaxis.grid(False)
    if not ax.lines and not ax.collections:
        ax.set_yticks([])


def _lines(
    ax: "Axes",
    lines: list[Line],
    cells: list[dict],
    encoding: Encoding,
    summary: "pandas.DataFrame",
    arms: dict[str, dict],
) -> None:
    """Draws baselines behind the marks, dashed with their deviation: across the panel, or from place to place."""
    by_level = {encoding.level(cell): encoding.colour(cell) for cell in cells}
    for line in lines:
        places = [place for place, arm in line.arms.items() if summary.loc[arm, "n"]]
        if not places:
            continue
        rows = summary.loc[[line.arms[place] for place in places]]
        factor = Metric(*rows.iloc[0][["metric", "direction"]]).factor
        means, spreads = rows["mean"].to_numpy() * factor, rows["std"].to_numpy() * factor
        colour = INK if line.level is None else by_level[line.level]
        style = {"color": colour, "lw": 1.2, "ls": DASHES, "zorder": 1.5}
        if line.single:
            drawn = ax.axhline(means[0], **style)
            drawn.set_gid(TIP + arm_text(arms[line.single], rows.iloc[0]))
            if not math.isnan(spreads[0]):
                ax.axhspan(means[0] - spreads[0], means[0] + spreads[0], color=colour, alpha=0.07, lw=0, zorder=0)
        else:
            ax.plot(places, means, **style)
            ax.fill_between(places, means - spreads, means + spreads, color=colour, alpha=0.07, lw=0, zorder=0)


def _mark(
    ax: "Axes", cell: dict, encoding: Encoding, result: "pandas.Series", tests: "pandas.Series | None", tip: str
) -> None:
    """Draws one arm: a point per fit with its mean and spread, or a word where nothing can be drawn."""
    place, colour = encoding.place(cell), encoding.colour(cell)
    if not result["n"]:
        word = "missing" if result["reason"] == "missing" else "failed"
        where = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "bottom", "rotation": 90}
        ax.text(place, 0.05, f"× {word}", fontsize=7.5, color=FAINT, **where)
        return
    factor = Metric(result["metric"], result["direction"]).factor
    reach = 0.3 * encoding.step if len(tests) > 1 else 0.0
    aside = [place - reach + 2 * reach * number / max(len(tests) - 1, 1) for number in range(len(tests))]
    ax.scatter(aside, tests * factor, s=11, color=[colour], alpha=0.45, linewidths=0, zorder=2)
    bars = not (encoding.numeric and not encoding.hue) and not math.isnan(result["std"])
    mark, *_ = ax.errorbar(
        place, result["mean"] * factor, result["std"] * factor if bars else None, color=colour, zorder=3,
        fmt=MARKERS[encoding.level(cell) % len(MARKERS)], ms=5.2, mec="white", mew=0.8, elinewidth=1.4, capsize=3,
    )  # fmt: skip
    mark.set_gid(TIP + tip)


def _line(ax: "Axes", cells: list[dict], encoding: Encoding, summary: "pandas.DataFrame") -> None:
    """Joins the means of one level; a gap breaks the line (NaN is not drawn)."""
    results = summary.loc[[cell["arm"] for cell in cells]]
    factor = next((Metric(row.metric, row.direction).factor for row in results.itertuples() if row.n), 1.0)
    places, means = [encoding.place(cell) for cell in cells], results["mean"] * factor
    ax.plot(places, means, color=encoding.colour(cells[0]), lw=1.4, zorder=2)
    if not encoding.hue:
        spreads = results["std"] * factor
        ax.fill_between(places, means - spreads, means + spreads, color=encoding.colour(cells[0]), alpha=0.15, lw=0)


def _panel_width(encoding: Encoding) -> float:
    marks = len(encoding.places) * (1 + 0.4 * (len(encoding.levels) - 1))
    return min(max(2.8, 0.5 * marks), 6.0)


def _ticks(encoding: Encoding, width: float) -> tuple[int, float]:
    """Returns the angle of the tick labels, and the inches that long ones take below the panels."""
    longest = LETTER * max(len(value_text(value)) for value in encoding.axes[encoding.x])
    span = max(encoding.places.values()) - min(encoding.places.values()) + 1.1 * encoding.gap
    room = width * 0.8 * encoding.gap / span  # inches between the two closest ticks
    if longest <= room:
        return 0, 0.0
    turn = 40 if longest < 1.5 and room > 0.2 else 90  # slanted ones reach far to the left, and into each other
    return turn, max(0.0, longest * math.sin(math.radians(turn)) - 1)


def _turn_ticks(grid: Any, encoding: Encoding, turn: int) -> None:
    texts = [value_text(value) for value in encoding.axes[encoding.x]]
    for ax in grid.flat:
        ax.set_xticks(list(encoding.places.values()), texts)
        if turn:
            ax.tick_params(axis="x", labelrotation=turn)
            for label in ax.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor", va="center" if turn == 90 else "baseline")


def _wrapped(text: str, inches: float) -> str:
    """Returns a text broken into lines of at most this width."""
    return textwrap.fill(text, max(12, int(inches / LETTER)))


def _legend(figure: "Figure", encoding: Encoding, lines: list[str]) -> None:
    from matplotlib.lines import Line2D

    handles, width = [], figure.get_figwidth()
    values = dict(zip(encoding.levels, encoding.axes[encoding.hue], strict=True)) if encoding.hue else {}
    for number, (level, value) in enumerate(values.items()):
        style = {"color": encoding.colours[level], "marker": MARKERS[number % len(MARKERS)], "mec": "white"}
        line = "-" if encoding.numeric else "none"
        handles.append(Line2D([], [], ls=line, label=_wrapped(value_text(value), width - 0.6), **style))
    handles += [Line2D([], [], color=INK, lw=1.2, ls=DASHES, label=f"{name} (baseline)") for name in lines]
    entry = 0.6 + LETTER * max(len(handle.get_label()) for handle in handles)
    columns = max(1, min(len(handles), int(width / max(1.3, entry))))
    rows = math.ceil(len(handles) / columns)
    figure.set_figheight(figure.get_figheight() + 0.2 * max(0, rows - 2))
    title = setting(encoding.hue) if encoding.hue else None
    legend = figure.legend(
        handles=handles, title=title, loc="outside upper left", ncols=columns, frameon=False, alignment="left"
    )
    legend.get_title().set_color(INK)
