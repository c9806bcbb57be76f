"""The comparison table of an ablation: a mean with its spread for every arm."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ssma.report.checks import chosen_by_test, shared_arms, unequal_effort, unequal_treatment
from ssma.report.floor import Floor, floor_marked, floor_notes
from ssma.report.labels import Metric, acting, listing, metrics_of, of_all, setting, value_text
from ssma.report.layout import lay_out
from ssma.report.sanity import constant_notes, constants, marked, sanity_rows
from ssma.report.statistics import description_of, summarise
from ssma.report.table import Cell, Table
from ssma.statistics.outcome import Interval
from ssma.study.ids import canonical

if TYPE_CHECKING:
    import pandas


def comparison(
    plan: dict[str, Any],
    ablation: str,
    frame: "pandas.DataFrame",
    sanity: dict[str, dict[str, Any]] | None = None,
    found: dict[str, Floor] | None = None,
) -> Table:
    """Returns the table of an ablation: rows are layer x axis point, columns are data sets.

    The best mean of a data set and layer is bold if there are others to compare with and it rests on all its planned
    fits. Below stand predictors that look at no graph.

    Args:
        sanity: What these reach, by data set, as ``read_sanity`` returns it.
        found: The arms against them, as `floors` returns it; one that was not shown to be better is marked.
    """
    found = found or {}
    layout = lay_out(plan, ablation)
    summary, metrics, constant = summarise(frame), metrics_of(frame), constants(frame)
    bold = _best(layout.cells, summary, metrics)
    biased = {arm["id"] for arm in plan["arms"] if arm["selection"] == "test"}
    rows, told = [], []
    for layer in layout.layers:
        for point in layout.points:
            arms = [layout.arm(dataset, layer, point) for dataset in layout.datasets]
            shown = {key: value_text(value) for key, value in acting(point).items()}
            if any(arms) and (layer, shown, arms) not in told:  # a sum is one row, whatever kappa is
                told.append((layer, shown, arms))
                head = [Cell(layer), *(Cell(shown.get(key, "–")) for key in point)]
                cells = [cell_of(arm, summary, bold, biased) for arm in arms]
                cells = [marked(_with_interval(cell, frame, summary), constant) for cell in cells]
                rows.append(head + [floor_marked(cell, found) for cell in cells])
    keys = layout.points[0] if layout.points else {}
    rows += sanity_rows(sanity or {}, _splits(plan, layout.cells), layout.datasets, len(keys))
    heads = {name: f"{name} ({metric.title} {metric.arrow})" for name, metric in metrics.items()}
    columns = ["layer", *map(setting, keys), *(heads.get(name, name) for name in layout.datasets)]
    caption = f"{layout.title}. Test metric, mean ± sample standard deviation (number of fits that are ok). "
    caption += "On the page and in the CSV also the 95% interval of the mean, BCa bootstrap over what ± is over, "
    caption += "which it takes as independent: too narrow for few (under about 20), and for splits of the same items. "
    caption += "Bold: the best mean of a data set and layer, if all its fits are ok, which is no test. "
    caption += spread_over(plan, layout.cells, layout.datasets, metrics)
    used = [cell["arm"] for cell in layout.cells]
    notes = unequal_treatment(plan, ablation) + unequal_effort(plan, ablation, frame) + chosen_by_test(plan, used)
    notes += shared_arms(plan, ablation) + constant_notes(plan, used, constant) + floor_notes(found)
    return Table(ablation, caption, columns, rows, notes, grouped=True)


def cell_of(arm: str | None, summary: "pandas.DataFrame", bold: set[str], biased: set[str]) -> Cell:
    """Returns an arm's entry: "81.4 ± 5.1 (10)", "(9/10)" if fits are lacking, "failed: reason" or "missing"."""
    if arm is None:
        return Cell("–")
    row = summary.loc[arm]
    if not row["n"]:
        return Cell(row["reason"] if row["reason"] in ("missing", "failed") else f"failed: {row['reason']}", arm=arm)
    metric = Metric(row["metric"], row["direction"])
    text = f"{metric.spread(row['mean'], row['std'])} ({of_all(row['n'], row['planned'])})"
    numbers = metric.numbers(row["mean"], row["std"], row["n"])
    return Cell(f"{text} †" if arm in biased else text, arm in bold, arm, numbers)


def _with_interval(cell: Cell, frame: "pandas.DataFrame", summary: "pandas.DataFrame") -> Cell:
    """Adds the interval of the mean to the entry of an arm, or says why there is none."""
    found = description_of(frame, cell.arm) if cell.arm else None
    if found is None:
        return cell
    if not isinstance(found.interval, Interval):
        return replace(cell, detail=f"no interval: {found.interval.reason}")
    metric = Metric(*summary.loc[cell.arm, ["metric", "direction"]])
    ends = (found.interval.low * metric.factor, found.interval.high * metric.factor)
    return replace(cell, interval=ends, detail=metric.interval(found.interval))


def _best(cells: list[dict], summary: "pandas.DataFrame", metrics: dict[str, Metric]) -> set[str]:
    groups: dict[tuple[str, str], set[str]] = {}
    for cell in cells:
        if summary.loc[cell["arm"], "n"]:
            groups.setdefault((cell["dataset"], cell["layer"]), set()).add(cell["arm"])
    bold = set()
    for (dataset, _), group in groups.items():
        rows = summary.loc[sorted(group)]
        means = rows["mean"].map(canonical)  # to 12 digits: the same values in other splits have the same mean
        best = means.max() if metrics[dataset].higher_is_better else means.min()
        if len(rows) > 1:
            bold |= set(rows.index[(means == best) & (rows["n"] == rows["planned"])])
    return bold


def _splits(plan: dict[str, Any], cells: list[dict]) -> dict[str, set[int]]:
    """Returns by data set the splits that its arms are evaluated on."""
    arms, found = {arm["id"]: arm for arm in plan["arms"]}, {}
    for cell in cells:
        found.setdefault(cell["dataset"], set()).update(arms[cell["arm"]]["splits"])
    return found


def spread_over(plan: dict[str, Any], cells: list[dict], datasets: list[str], metrics: dict[str, Metric]) -> str:
    """Says what the spread is over, as planned, and names the data sets where it is."""
    arms = {arm["id"]: arm for arm in plan["arms"]}
    lines: dict[str, list[str]] = {}
    for dataset in datasets:
        used = [arms[cell["arm"]] for cell in cells if cell["dataset"] == dataset]
        kinds = sorted({_spread_words(len(arm["splits"]), arm["repeats"]) for arm in used})
        metric = metrics.get(dataset)
        better = f"{metric.title}, {metric.better}, " if metric else ""
        lines.setdefault(f"{better}± over {' or '.join(kinds)}", []).append(dataset)
    return " ".join(f"{listing(names, 12)}: {line}." for line, names in lines.items())


def _spread_words(splits: int, repeats: int) -> str:
    if splits == 1:
        return f"{repeats} seeds of one split" if repeats > 1 else "a single fit (no spread)"
    return f"{splits} splits" if repeats == 1 else f"{splits} splits (means of {repeats} seeds each)"
