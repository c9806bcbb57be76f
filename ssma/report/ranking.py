"""The arms of an ablation ranked over all its data sets and layers, as a table and a critical-difference diagram."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssma.report.align import WORST, align, report_options
from ssma.report.checks import chosen_by_test
from ssma.report.encoding import encode
from ssma.report.figures import INK, OF_STUDIES, set_theme
from ssma.report.labels import acting, listing, metrics_of, p_text, point_text, setting, value_text
from ssma.report.layout import Layout, Point, lay_out
from ssma.report.table import Cell, Table, table_id
from ssma.statistics.outcome import NotTestable
from ssma.statistics.ranks import RankComparison, compare_ranks
from ssma.study.cost import counted
from ssma.study.records import SIGN

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HALF_PAGE, LEVEL, LETTER, RANK = 3.5, 0.2, 0.065, 0.17
"""Inches: the width of a diagram, the height of a line of it, a character, and the least room of a rank."""
SHORT_LABEL = 14
"""Characters; a diagram with longer labels takes the whole width of a page, or more where they need it."""
TREATED = {
    "not_testable": "A place with a fit that is not ok is not ranked, and then nothing is tested.",
    "drop": "Means are over the splits and seeds at which the fits of all arms are ok (report.missing: drop).",
    "worst": WORST,
}


@dataclass(frozen=True)
class Ranking:
    """The points of an ablation over its places; a place is a data set and layer, here one that has all of them."""

    layout: Layout
    points: list[Point]
    places: list[tuple[str, str]]
    left_out: list[tuple[str, str]]
    missing: str
    biased: list[str]
    found: RankComparison


def rank(plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame") -> Ranking | None:
    """Ranks the points of an ablation by their mean test metrics; None for under three points or two whole places.

    A point whose arms are another point's, since a setting does not apply to them, is ranked once. Where some place
    lacks fits (see `align`), those that are whole are ranked, and not tested.
    """
    layout, metrics = lay_out(plan, ablation), metrics_of(frame)
    points, missing = _different(layout), report_options(plan).missing
    if len(points) < 3:
        return None
    places, left_out, scores = [], [], []
    for dataset in layout.datasets:
        for layer in layout.layers:
            arms = [layout.arm(dataset, layer, point) for point in points]
            if None in arms:
                continue
            aligned = align(frame, [arm for arm in arms if arm], missing)
            if aligned.reason or dataset not in metrics:
                left_out.append((dataset, layer))
                continue
            places.append((dataset, layer))
            scores.append(SIGN[metrics[dataset].direction] * aligned.values.mean(axis=0))
    if len(places) < 2:
        return None
    found = compare_ranks(scores)
    if left_out and missing != "drop":
        no = NotTestable(f"fits are lacking at {len(left_out)} of {len(places) + len(left_out)} places")
        found = RankComparison(found.places, found.average, no, no)
    biased = chosen_by_test(plan, [cell["arm"] for cell in layout.cells])
    return Ranking(layout, points, places, left_out, missing, biased, found)


def _different(layout: Layout) -> list[Point]:
    """Returns the points without those whose arms are another point's too, since a setting does not apply to them."""
    places = [(dataset, layer) for dataset in layout.datasets for layer in layout.layers]
    different: dict[tuple[str | None, ...], Point] = {}
    for point in layout.points:
        different.setdefault(tuple(layout.arm(*place, point) for place in places), point)
    return list(different.values())


def ranks_table(ablation: str, ranking: Ranking) -> Table:
    """Returns the points from the best average rank to the worst, each with Nemenyi's p against the best."""
    found, points = ranking.found, ranking.points
    order = sorted(range(len(points)), key=lambda number: found.average[number])
    rows = []
    for number in order:
        if isinstance(found.nemenyi, NotTestable):
            p = "not testable"
        else:
            p = "–" if number == order[0] else p_text(float(found.nemenyi.p[number, order[0]]))
        acts = acting(points[number])  # kappa means nothing to a sum, as in the comparison
        head = [Cell(value_text(value) if key in acts else "–") for key, value in points[number].items()]
        average = Cell(f"{found.average[number]:.2f}", link=table_id(ablation))
        rows.append([*head, average, Cell(str(found.places)), Cell(p)])
    columns = [*map(setting, points[0]), "average rank (1 is best)", "places", "p against the best (Nemenyi)"]
    return Table(f"{ablation}-ranks", _caption(ranking), columns, rows, _notes(ranking))


def _caption(ranking: Ranking) -> str:
    places = ranking.places
    return (
        f"{ranking.layout.title}: average ranks over {len(places)} places (data set and layer: "
        f"{listing((f'{dataset} {layer}' for dataset, layer in places), 12)}), ranked by mean test metric. "
        f"{_friedman(ranking)} {_nemenyi(ranking)} {_dependent(ranking)} {TREATED[ranking.missing]}"
    )


def _dependent(ranking: Ranking) -> str:
    count = counted(len({dataset for dataset, _ in ranking.places}), "data set")
    return f"The places are of {count}; layers of one data set are not independent, as the test takes them."


def _friedman(ranking: Ranking) -> str:
    test = ranking.found.friedman
    if isinstance(test, NotTestable):
        return f"Friedman's test: {test}."
    degrees = f"{test.degrees} degrees of freedom"
    return f"Friedman's test that all rank alike: chi² {test.chi_squared:.2f}, {degrees}, p {p_text(test.p)}."


def _nemenyi(ranking: Ranking) -> str:
    test = ranking.found.nemenyi
    if isinstance(test, NotTestable):
        return f"Nemenyi's test: {test}."
    return f"Nemenyi's test: ranks further apart than {test.critical_difference:.2f} differ (5% over all pairs)."


def _notes(ranking: Ranking) -> list[str]:
    if not ranking.left_out:
        return ranking.biased
    names = listing((f"{dataset} {layer}" for dataset, layer in ranking.left_out), 12)
    return [f"Not ranked, since fits are not ok: {names}.", *ranking.biased]


def diagram(plan: dict[str, Any], ablation: str, ranking: Ranking) -> "Figure | None":
    """Returns the critical-difference diagram; None where Nemenyi's test could not be made."""
    found, points = ranking.found, ranking.points
    if isinstance(found.nemenyi, NotTestable):
        return None
    import pandas
    from matplotlib import pyplot
    from scikit_posthocs import critical_difference_diagram

    set_theme("white", OF_STUDIES)
    labels, encoding = [point_text(point) for point in points], encode(plan, ablation)
    longest = max(map(len, labels))
    width = HALF_PAGE if longest <= SHORT_LABEL else 2 * HALF_PAGE
    width = max(width, RANK * len(points) + 2 * LETTER * (longest + len(" (12.34) ")))
    figure, ax = pyplot.subplots(layout="constrained")
    colours = [encoding.colour({"point": point}) for point in points]
    drawn = critical_difference_diagram(  # of numbers, not names: sets of texts have another order in every process
        dict(enumerate(found.average)), pandas.DataFrame(found.nemenyi.p), ax=ax,
        color_palette=dict(enumerate(colours)), label_fmt_left="{label} left", label_fmt_right="{label} right",
        label_props={"fontsize": 8}, crossbar_props={"color": INK},
    )  # fmt: skip
    for label in drawn["labels"]:
        number, side = label.get_text().split()
        name, rank = labels[int(number)], f"({found.average[int(number)]:.2f})"
        label.set_text(f"{name} {rank} " if side == "left" else f" {rank} {name}")
        label.set_color(INK)
    _scale(ax, len(points), found.nemenyi.critical_difference)
    low, high = ax.get_ylim()
    figure.set_size_inches(width, LEVEL * (high - low))
    figure.draw_without_rendering()  # the labels move with the axis: the layout needs a pass to settle
    return figure


def _scale(ax: "Axes", count: int, difference: float) -> None:
    """Draws the axis from 1 to the number of ranks, and above it the critical difference at the same scale."""
    ax.set_xlim(1, count)
    ax.set_xticks(range(1, count + 1))
    ax.tick_params(axis="x", labelsize=8, labelcolor=INK)
    ax.plot([1, 1 + difference], [2, 2], color=INK, linewidth=1.5, marker="|", markersize=7, clip_on=False)
    ax.text(1 + difference / 2, 2.3, f"CD = {difference:.2f}", ha="center", va="bottom", fontsize=8, color=INK)
    ax.set_ylim(ax.dataLim.y0 - 0.5, 3.3)


def diagram_caption(ranking: Ranking) -> str:
    """Returns what the diagram shows, in words."""
    treated = [TREATED[ranking.missing]] * (ranking.missing != "not_testable")  # which draws none where fits lack
    return (
        f"{ranking.layout.title}: average ranks over {ranking.found.places} places (data set and layer), 1 is best. "
        "The bar above the axis is the critical difference (CD) of Nemenyi's test at 5%; a bar below it joins those "
        "that the test does not tell apart, which does not make them equal. "
        + " ".join([_dependent(ranking), *treated, *_notes(ranking)])
    )
