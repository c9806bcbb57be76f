"""The figures of the theory experiments, a column of text wide. The sum is in all of them."""

from itertools import product
from typing import TYPE_CHECKING, Any

from ssma.report.encoding import MARKERS, Colour, aggregator_colours
from ssma.report.figures import FAINT, INK, STYLE, set_theme
from ssma.report.svg import TIP
from ssma.report.theory_words import with_ratio

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 3.6  # inches
ZERO = 1e-6  # derivatives by autograd are exact to about 1e-15
DASHES = {"polynomial": ("0.15", "-"), "normalised": ("0.15", "--")}
KINDS = {"random": "o", "near": "s", "equal sum": "D"}
OF_PAIRS = {
    "mix": "of the output",
    "representation_mix": "of the aggregate alone",
    "bound": "bound of the output, for sum",
}
COUNTED = {"size": "SSMA", "not zero": "SSMA, not zero", "rank": "least (n d)", "moments": "moments of a sum"}
OF_BOUNDS = {"mixing": "-", "bound": ":", "weights bound": "--"}
LEGEND = {"frameon": False, "fontsize": 7.5, "handlelength": 1.8, "columnspacing": 1.0, "alignment": "left"}


def draw(plan: dict[str, Any], record: dict[str, Any], rows: "pandas.DataFrame") -> "Figure":
    """Returns the figure of a record; ``rows`` are its rows."""
    import seaborn

    set_theme("whitegrid", STYLE)
    figure = DRAW[record["name"]](record, rows, aggregator_colours(plan))
    seaborn.despine(figure, left=True)
    return figure


def _sum_of_gram(record: dict[str, Any], rows: "pandas.DataFrame", colours: dict[str, Colour]) -> "Figure":
    """A panel per activation: errors over m, mean and sample standard deviation over repeats."""
    from matplotlib.lines import Line2D

    settings = record["settings"]
    activations, names = settings["activations"], settings["aggregators"]
    figure, axes = _panels(activations, 1.9)
    for ax, activation in zip(axes, activations, strict=False):
        for number, name in enumerate(names):
            mine = rows[(rows["aggregator"] == name) & (rows["activation"] == activation)]
            for part, line in (("test_l1", "-"), ("train_l1", ":")):
                groups = mine.groupby("m")[part]
                mean, std = groups.mean(), groups.std().fillna(0)
                of = f"{name}, {activation}, {part.removesuffix('_l1')}"
                tips = [
                    f"{of}, m = {m}: {mean[m]:.3g} ± {std[m]:.2g}, n = {count}" for m, count in groups.count().items()
                ]
                ax.plot(mean.index, mean, color=colours[name], ls=line, lw=1.4)
                _points(ax, mean.index, mean, tips, color=colours[name], marker=MARKERS[number])
                ax.fill_between(mean.index, mean - std, mean + std, color=colours[name], alpha=0.15, lw=0)
        for name, line in (("exact solution", "-"), ("train mean", "--")):
            height = rows.loc[rows["aggregator"] == name, "test_l1"].mean()
            ax.axhline(height, color=INK, ls=line, lw=1.0).set_gid(f"{TIP}{name}: {height:.3g}")
        ax.set_title(activation, loc="left", color=INK)
        ax.set_xscale("log", base=2)
        ax.set_xticks(settings["m"], list(map(str, settings["m"])))
        ax.minorticks_off()
    figure.supxlabel("representation size m (log scale)", fontsize=9, color=INK)
    figure.supylabel("L1 error ↓", fontsize=9, color=INK)
    handles = [Line2D([], [], color=colours[name], marker=MARKERS[n], label=name) for n, name in enumerate(names)]
    handles += [Line2D([], [], color=FAINT, ls=line, label=part) for part, line in (("test", "-"), ("train", ":"))]
    handles += [Line2D([], [], color=INK, lw=1, label="exact solution of a sum")]
    handles += [Line2D([], [], color=INK, lw=1, ls="--", label="train mean")]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, **LEGEND)
    return figure


def _mixing(record: dict[str, Any], rows: "pandas.DataFrame", colours: dict[str, Colour]) -> "Figure":
    """A panel per activation: the share of pairs whose mixing is not above x, a thin line for each repeat."""
    import seaborn
    from matplotlib.lines import Line2D

    settings = record["settings"]
    figure, axes = _panels(settings["activations"], 2.1)
    for ax, activation in zip(axes, settings["activations"], strict=False):
        mine = rows[(rows["activation"] == activation) & (rows["status"] == "ok")]
        for name in settings["aggregators"]:
            own = mine[mine["aggregator"] == name]
            for column, line in zip(OF_PAIRS, ("-", "--", ":"), strict=True):
                found = own.dropna(subset=[column])
                found = found[found[column] > ZERO]
                style = {"ax": ax, "color": colours[name], "ls": line}
                for _, repeat in found.groupby("repeat"):
                    seaborn.ecdfplot(repeat, x=column, lw=0.5, alpha=0.5, **style)
                if len(found):
                    seaborn.ecdfplot(found, x=column, lw=1.5, **style)
                    tip = f"{name}, {activation}, {OF_PAIRS[column]}: median {found[column].median():.3g}"
                    ax.lines[-1].set_gid(f"{TIP}{tip}, n = {len(found)}")
        ax.axvline(rows.loc[rows["aggregator"] == "target", "mix"].mean(), color=INK, lw=1.0)
        ax.set_xscale("log")
        ax.set(xlabel="", ylabel="")
        ax.set_title(activation, loc="left", color=INK)
    figure.supxlabel("mixing of a pair (log scale)", fontsize=9, color=INK)
    figure.supylabel("share of pairs", fontsize=9, color=INK)
    handles = [Line2D([], [], color=colours[name], label=name) for name in settings["aggregators"]]
    lines = zip(OF_PAIRS.values(), ("-", "--", ":"), strict=True)
    handles += [Line2D([], [], color=FAINT, ls=line, label=text) for text, line in lines]
    handles += [Line2D([], [], color=INK, lw=1, label="of the target")]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, **LEGEND)
    return figure


def _higher_order(record: dict[str, Any], rows: "pandas.DataFrame", colours: dict[str, Colour]) -> "Figure":
    """A cell per tuple of entries, with the entries k of the result that have a mixed derivative there."""
    import seaborn
    from matplotlib import pyplot

    length = record["settings"]["length"]
    slices = [(n, last) for n in record["settings"]["n"] for last in product(range(length), repeat=n - 2)]
    size = (max(WIDTH, 0.4 + 0.3 * length * len(slices)), 0.7 + 0.55 * length)
    figure, grid = pyplot.subplots(2, len(slices), figsize=size, squeeze=False, layout="constrained")
    shades = seaborn.color_palette("colorblind", length)
    for row, name in enumerate(("convolution", "sum")):
        mine = rows[(rows["combine"] == name) & (rows["derivative"].abs() > ZERO)]
        entries = mine.groupby(["n", mine["j"].map(tuple)])["k"].apply(list).to_dict()
        for ax, (n, last) in zip(grid[row], slices, strict=True):
            for j in product(range(length), repeat=2):
                found = entries.get((n, j + last), [])
                face = shades[found[0]] if len(found) == 1 else "0.95"
                text = ",".join(map(str, found)) or "–"
                cell = pyplot.Rectangle((j[1], j[0]), 1, 1, fc=face, ec="white", lw=1.5, alpha=0.8)
                cell.set_gid(f"{TIP}{name}, entries j = {j + last}: k = {text}")
                ax.add_patch(cell)
                ax.text(j[1] + 0.5, j[0] + 0.5, text, ha="center", va="center", fontsize=8, color="0.1")
            _as_table(ax, length, f"n={n}" + "".join(f", $j_3$={place}" for place in last) if row == 0 else "")
        grid[row][0].set_ylabel(f"{name}\n$j_1$", color=INK)
    for ax in grid[-1]:
        ax.set_xlabel("$j_2$", color=INK)
    return figure


def _separation(record: dict[str, Any], rows: "pandas.DataFrame", colours: dict[str, Colour]) -> "Figure":
    """Smallest distances over the Wasserstein distance, smallest ratios, and ratios in the limit."""
    from matplotlib import pyplot

    ratio = with_ratio(rows)
    names = list(ratio["representation"].unique())
    size, shares = (WIDTH, 2.9 + 2.9 + 0.15 * len(names)), {"height_ratios": [2, 0.15 * len(names), 2]}
    figure, axes = pyplot.subplots(3, 1, figsize=size, gridspec_kw=shares, layout="constrained")
    pairs, limit = ratio[ratio["kind"] != "limit"], ratio[ratio["kind"] == "limit"]
    free = pairs[pairs["kind"] != "equal sum"]
    bins = free["wasserstein"].map(lambda value: float(f"{value:.0e}"))
    smallest = free.groupby(["representation", bins])["distance"].min().reset_index()
    _curves(axes[0], smallest, "distance", colours)
    axes[0].set(xlabel="Wasserstein distance W", ylabel="smallest distance")
    _smallest_ratios(axes[1], pairs, names)
    means = limit.groupby(["representation", "wasserstein"])["ratio"].mean().reset_index()
    _curves(axes[2], means, "ratio", colours)
    axes[2].set(xlabel="W = h of the construction", ylabel="distance / W")
    axes[2].invert_xaxis()
    zeros = means.groupby("representation", sort=False)["ratio"].max().loc[lambda most: most == 0].index
    if len(zeros):
        where = {"transform": axes[2].transAxes, "ha": "left", "va": "bottom", "color": INK, "fontsize": 7.5}
        axes[2].text(0.03, 0.04, "\n".join(["always 0:", *zeros]), **where)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=3, **LEGEND)
    return figure


def _curves(ax: "Axes", rows: "pandas.DataFrame", y: str, colours: dict[str, Colour]) -> None:
    """Draws a line per representation over the Wasserstein distance, without exact zeros; others than these in grey."""
    others = False
    for name, mine in rows.groupby("representation", sort=False):
        above = mine[mine[y] > 0].sort_values("wasserstein")
        if name in DASHES or name in colours:
            colour, line = DASHES.get(name, (colours.get(name), "-"))
            style = {"color": colour, "ls": line, "lw": 1.5, "zorder": 3, "label": name}
        else:
            style = {"color": "0.75", "lw": 0.8, "zorder": 2, "label": None if others else "others"}
            others = True
        (drawn,) = ax.plot(above["wasserstein"], above[y], **style)
        drawn.set_gid(f"{TIP}{name}")
    ax.set_xscale("log")
    ax.set_yscale("log")


def _smallest_ratios(ax: "Axes", pairs: "pandas.DataFrame", names: list[str]) -> None:
    """Draws the smallest ratio of each representation and kind; exact zeros stand at the left edge, hollow."""
    smallest = pairs.groupby(["representation", "kind"])["ratio"].min()
    edge = smallest[smallest > 0].min() / 10
    for number, (kind, marker) in enumerate(KINDS.items()):
        values = [smallest[name, kind] for name in names]
        places = [place + 0.22 * (number - 1) for place in range(len(names))]
        shade = str(0.05 + 0.3 * number)
        for name, place, value in zip(names, places, values, strict=True):
            tip, face = f"{name}, {kind}: {value:.3g}", "white" if value == 0 else shade
            _points(ax, [value or edge], [place], [tip], marker=marker, ms=3.5, mfc=face, mec=shade, mew=0.8)
        ax.scatter([], [], s=12, color=shade, marker=marker, label=kind)
    ax.axvline(smallest["sum", "random"], color=FAINT, lw=1.0, ls="--")
    ax.set_xscale("log")
    ax.set_yticks(range(len(names)), names, fontsize=7.5)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlabel("smallest distance / W (hollow: exactly 0)")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, handletextpad=0.1, **LEGEND)


def _growth(record: dict[str, Any], rows: "pandas.DataFrame", colours: dict[str, Colour]) -> "Figure":
    """Sizes over n and over d, each at the largest of the other, and bounds over the factor of the parameters."""
    import seaborn
    from matplotlib import pyplot

    figure, axes = pyplot.subplot_mosaic([["n", "d"], ["s", "s"]], figsize=(WIDTH, 6.0), layout="constrained")
    shades = seaborn.color_palette("colorblind")
    counted = rows[rows["scale"].isna()]
    for varied, other in (("n", "d"), ("d", "n")):
        most, sizes = counted[other].max(), sorted(counted[varied].unique())
        for number, (name, label) in enumerate(COUNTED.items()):
            line = counted[(counted["quantity"] == name) & (counted[other] == most)].sort_values(varied)
            tips = [f"{label}, n = {row.n}, d = {row.d}: {row.value:.0f}" for row in line.itertuples()]
            axes[varied].plot(line[varied], line["value"], color=shades[number], lw=1.4)
            style = {"color": shades[number], "marker": MARKERS[number]}
            _points(axes[varied], line[varied], line["value"], tips, **style)
            axes[varied].plot([], [], lw=1.4, ms=4, label=label, **style)
        axes[varied].set(xscale="log", yscale="log", xlabel=f"{varied} (with {other} = {most})")
        axes[varied].set_xticks(sizes, list(map(str, sizes)))
        axes[varied].minorticks_off()
    axes["d"].tick_params(labelleft=False)
    axes["n"].set_ylabel("entries (log scale)")
    for ax in (axes["n"], axes["d"]):
        ax.set_ylim(counted["value"].min() / 2, counted["value"].max() * 2)
    figure.legend(*axes["n"].get_legend_handles_labels(), loc="outside upper left", ncols=2, **LEGEND)
    _bounds(axes["s"], rows[rows["scale"].notna()], [shades[place] for place in (4, 5, 9, 8)])  # unlike one another
    figure.legend(*axes["s"].get_legend_handles_labels(), loc="outside lower left", ncols=2, **LEGEND)
    return figure


def _bounds(ax: "Axes", rows: "pandas.DataFrame", shades: list[Colour]) -> None:
    """Draws mixing and its bounds over the factor of the parameters, and the paper's square."""
    import numpy

    activations = list(rows["activation"].unique())
    for (activation, name), part in rows.groupby(["activation", "quantity"], sort=False):
        powers = numpy.log10(part["value"]).groupby(part["scale"])
        mean, std = powers.mean(), powers.std()
        colour = shades[activations.index(activation)]
        (drawn,) = ax.plot(mean.index, 10**mean, color=colour, ls=OF_BOUNDS[name], lw=1.4)
        drawn.set_gid(f"{TIP}{name}, {activation}, n = {powers.count().min()}")
        ax.fill_between(mean.index, 10 ** (mean - std), 10 ** (mean + std), color=colour, alpha=0.12, lw=0)
    for activation, colour in zip(activations, shades, strict=False):
        ax.plot([], [], color=colour, lw=1.4, label=activation)
    for name, line in OF_BOUNDS.items():
        ax.plot([], [], color=FAINT, ls=line, lw=1.4, label=name)
    scales = numpy.array(sorted(rows["scale"].unique()))
    paper = rows["value"].max() * (scales / scales[-1]) ** 2
    ax.plot(scales, paper, color=INK, lw=1.0, label="slope 2, as the paper's O(|θ|²)")
    ax.set(xscale="log", yscale="log", xlabel="factor s of all parameters", ylabel="mixing and bounds (log scale)")
    ax.set_xticks(scales, [f"{scale:g}" for scale in scales])
    ax.minorticks_off()


def _points(ax: "Axes", x: "Iterable[float]", y: "Iterable[float]", tips: list[str], **style: Any) -> None:
    """Draws marks with a tooltip each."""
    for place, height, tip in zip(x, y, tips, strict=True):
        (mark,) = ax.plot([place], [height], ls="none", zorder=3, **{"ms": 4, "mec": "white", "mew": 0.6} | style)
        mark.set_gid(TIP + tip)


def _panels(titles: list[str], height: float) -> tuple["Figure", list["Axes"]]:
    """Returns panels, two in a row, one per title."""
    from matplotlib import pyplot

    columns = min(len(titles), 2)
    lines = -(-len(titles) // columns)
    size = (WIDTH, 1.1 + height * lines)
    figure, grid = pyplot.subplots(
        lines, columns, figsize=size, squeeze=False, sharex=True, sharey=True, layout="constrained"
    )
    axes = list(grid.flat)
    for ax in axes[len(titles) :]:
        ax.set_axis_off()
    return figure, axes


def _as_table(ax: "Axes", length: int, title: str) -> None:
    ax.set(xlim=(0, length), ylim=(length, 0), aspect="equal")
    ax.set_xticks([place + 0.5 for place in range(length)], range(length))
    ax.set_yticks([place + 0.5 for place in range(length)], range(length))
    ax.tick_params(length=0)
    ax.grid(False)
    ax.set_title(title, loc="left", color=INK, fontsize=8.5)


DRAW = {
    "sum_of_gram": _sum_of_gram,
    "mixing": _mixing,
    "higher_order": _higher_order,
    "separation": _separation,
    "growth": _growth,
}
