"""The table of a numeric axis: which way the metric goes along it, and the smallest setting that is good enough."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ssma.report.align import WORST, Aligned, align, report_options
from ssma.report.checks import chosen_by_test
from ssma.report.encoding import is_numeric, is_wide
from ssma.report.labels import Metric, metrics_of, p_text, point_text, setting, value_text
from ssma.report.layout import Layout, Point, lay_out
from ssma.report.table import Cell, Table, table_id
from ssma.statistics.axis import Slope, Smallest, Trend, slope, smallest_as_good, trend
from ssma.statistics.describe import rounded
from ssma.statistics.outcome import Interval, NotTestable
from ssma.study.ids import canonical_json

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray

COLUMNS = ["units", "change over the axis", "95% interval", "means", "trend", "best"]
COLUMNS += ["smallest within 1 SE", "it loses"]
EXPLAINED = (
    "Change: slope of the least-squares line through a unit's metrics, times the length of the axis, averaged over "
    "the units (splits, or seeds of one split). 95% interval: corrected resampled t (Nadeau and Bengio 2003), "
    "not adjusted. Means: whether they rise or fall at every step. Trend: Page's test over the units, as if they were "
    "independent; rho is the mean rank correlation with the axis. Smallest: the smallest setting whose mean is within "
    "one standard error of the best one's (Breiman et al. 1984). It loses: its paired difference to the best with the "
    "corrected 95% interval. Not testable never means that there is no trend."
)
TREATED = {
    "not_testable": "Where a fit is not ok, nothing is tested.",
    "drop": "Units with a fit that is not ok are left out (report.missing: drop).",
    "worst": WORST,
}


def axis_table(
    plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame", ratios: dict[str, float | None]
) -> Table | None:
    """Returns a row per data set, layer and value of the other axes; None unless exactly one axis is numeric.

    Args:
        ratios: n_test / n_train of each data set's splits; None if unknown.
    """
    axes = plan["ablations"][ablation]["axes"]
    numeric = [key for key, values in axes.items() if is_numeric(values)]
    if len(numeric) != 1:
        return None
    (key,), layout, metrics, missing = numeric, lay_out(plan, ablation), metrics_of(frame), report_options(plan).missing
    values = sorted(axes[key])
    rows = []
    for dataset in layout.datasets:
        for layer in layout.layers:
            for other in _others(layout, key):
                arms = [layout.arm(dataset, layer, other | {key: value}) for value in values]
                if None in arms or len(set(arms)) < 2 or dataset not in metrics:
                    continue  # not there, or the axis does not apply, as kappa to a sum
                aligned = align(frame, [arm for arm in arms if arm], missing)
                ratio = ratios.get(dataset) if aligned.by_split else 0.0
                head = [Cell(dataset), Cell(layer), *([Cell(point_text(other))] if other else [])]
                cells = _cells(values, arms, aligned, metrics[dataset], ratio)
                linked = (replace(cell, link=table_id(ablation)) if cell.numbers else cell for cell in cells)
                rows.append([*head, *linked])
    if not rows:
        return None
    columns = ["data set", "layer", *(["with"] if len(axes) > 1 else []), *COLUMNS]
    ends = f"from {value_text(values[0])} to {value_text(values[-1])}" + (" (logarithmic)" if is_wide(values) else "")
    caption = (
        f"{layout.title}: along {setting(key)}, {ends}, in the units of the metric. {EXPLAINED} {TREATED[missing]}"
    )
    notes = chosen_by_test(plan, [cell["arm"] for cell in layout.cells])
    return Table(f"{ablation}-axis", caption, columns, rows, notes, grouped=True)


def _others(layout: Layout, key: str) -> list[Point]:
    """Returns the points of the other axes, in order; one empty point if there are none."""
    points = [{name: value for name, value in point.items() if name != key} for point in layout.points]
    return list({canonical_json(point): point for point in points}.values())


def _cells(
    values: list[float], arms: list[str | None], aligned: Aligned, metric: Metric, ratio: float | None
) -> list[Cell]:
    scores = aligned.values
    if aligned.reason:
        return [Cell(str(len(scores))), Cell(str(NotTestable(aligned.reason))), *[Cell("–")] * (len(COLUMNS) - 2)]
    places = [math.log10(value) for value in values] if is_wide(values) else values
    line, length = slope(places, scores, ratio), places[-1] - places[0]
    change = metric.numbers(line.mean * length, math.nan, line.n)
    rule = smallest_as_good(values, scores, metric.higher_is_better, ratio)
    return [
        Cell(str(line.n)),
        Cell(metric.text(line.mean * length, signed=True), numbers=change),
        Cell(_interval(line, length, metric)),
        Cell(_steps(scores.mean(axis=0))),
        Cell(_trend(trend(scores))),
        *_rule(rule, values, arms, metric),
    ]


def _interval(line: Slope, length: float, metric: Metric) -> str:
    if isinstance(line.test, NotTestable):
        return str(line.test)
    ends = line.test.interval
    return metric.interval(Interval(ends.low * length, ends.high * length), signed=True)


def _steps(means: "NDArray") -> str:
    means = rounded(means)
    steps = means[1:] - means[:-1]
    if (steps > 0).all():
        return "rise"
    return "fall" if (steps < 0).all() else "neither rise nor fall throughout"


def _trend(found: Trend | NotTestable) -> str:
    if isinstance(found, NotTestable):
        return str(found)
    return f"rho {found.rho:+.2f}, unadjusted p {p_text(found.p)}".replace("-", "−")


def _rule(rule: Smallest | NotTestable, values: list[float], arms: list[str | None], metric: Metric) -> list[Cell]:
    if isinstance(rule, NotTestable):
        return [Cell(str(rule)), Cell("–"), Cell("–")]
    cells = [Cell(value_text(values[place]), arm=arms[place]) for place in (rule.best, rule.smallest)]
    if rule.best == rule.smallest:
        return [*cells, Cell("–")]
    loss = metric.text(rule.difference, signed=True)
    if isinstance(rule.test, NotTestable):
        return [*cells, Cell(f"{loss} ({rule.test})")]
    return [*cells, Cell(f"{loss} {metric.interval(rule.test.interval, signed=True)}")]
