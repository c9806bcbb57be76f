"""The tables of an ablation: the comparison, and paired differences where there is one axis."""

import math
from typing import TYPE_CHECKING, Any

from ssma.errors import StudyError
from ssma.report.checks import chosen_by_test, unequal_effort, unequal_treatment
from ssma.report.labels import Metric, metrics_of, setting, value_text
from ssma.report.sanity import constant_notes, constants, marked, sanity_rows
from ssma.report.statistics import PairedDifference, paired_differences, summarise
from ssma.report.table import Cell, Table
from ssma.study.ids import canonical_json

if TYPE_CHECKING:
    import pandas

Place = tuple[str, str, str]  # data set, layer, canonical axis point


def comparison(
    plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame", sanity: dict[str, dict[str, Any]] | None = None
) -> Table:
    """Returns the table of an ablation: rows are layer x axis point, columns are data sets.

    The best mean of a data set and layer is bold if there are others to compare with and it rests on all its planned
    fits. Below stand predictors that look at no graph.

    Args:
        sanity: What these reach, by data set, as ``read_sanity`` returns it.
    """
    title, cells, points = _parts(plan, ablation)
    summary, metrics, constant = summarise(frame), metrics_of(frame), constants(frame)
    places, datasets = _places(cells), _datasets(plan, cells)
    bold = _best(cells, summary, metrics)
    biased = {arm["id"] for arm in plan["arms"] if arm["selection"] == "test"}
    rows = []
    for layer in _layers(cells):
        for point in points:
            arms = [places.get((dataset, layer, canonical_json(point))) for dataset in datasets]
            if any(arms):
                head = [Cell(layer), *(Cell(value_text(value)) for value in point.values())]
                found = [cell_of(arm, summary, metrics, bold, biased) for arm in arms]
                rows.append(head + [marked(cell, constant) for cell in found])
    rows += sanity_rows(sanity or {}, _splits(plan, cells), datasets, len(points[0]) if points else 0)
    columns = ["layer", *map(setting, points[0] if points else {}), *_headings(datasets, metrics)]
    caption = f"{title}. Test metric, mean ± sample standard deviation (number of fits). "
    caption += "Bold: the best mean of a data set and layer, if all its fits are ok. "
    caption += _over(plan, cells, datasets, metrics)
    used = [cell["arm"] for cell in cells]
    notes = unequal_treatment(plan, ablation) + unequal_effort(plan, ablation, frame) + chosen_by_test(plan, used)
    notes += constant_notes(plan, used, constant)
    return Table(ablation, caption, columns, rows, notes, grouped=True)


def paired(
    plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame", ratios: dict[str, float | None]
) -> Table | None:
    """Returns the differences to the first value of the axis with their 95% intervals; None for several axes.

    Args:
        ratios: n_test / n_train of each data set's splits, for the correction of the interval; None if unknown.
    """
    title, cells, points = _parts(plan, ablation)
    if len(points) < 2 or len(points[0]) != 1:
        return None
    metrics, places, datasets = metrics_of(frame), _places(cells), _datasets(plan, cells)
    evaluated = frame[frame["stage"] == "evaluate"]
    rows = []
    for layer in _layers(cells):
        for point in points[1:]:
            row = [Cell(layer), Cell(value_text(next(iter(point.values()))))]
            for dataset in datasets:
                arm, reference = (places.get((dataset, layer, canonical_json(at))) for at in (point, points[0]))
                if arm and reference:
                    difference = paired_differences(evaluated, arm, reference, ratios.get(dataset))
                    row.append(Cell(_difference_text(difference, metrics.get(dataset)), arm=arm))
                else:
                    row.append(Cell("–"))
            rows.append(row)
    (key, first), *_ = points[0].items()
    caption = (
        f"{title}: paired difference to {setting(key)} {value_text(first)}, in the units of the metric. Mean ± sample "
        "standard deviation (number of pairs) [95% interval of the mean]. Pairs share split and seed; seeds are "
        "averaged within a split. Over splits the interval is the corrected resampled t interval of Nadeau and Bengio "
        "(2003); it is for one comparison at a time. "
    )
    caption += " ".join(f"{name}: {_better(metrics[name])}." for name in datasets if name in metrics)
    notes = unequal_treatment(plan, ablation) + chosen_by_test(plan, [cell["arm"] for cell in cells])
    columns = ["layer", setting(key), *_headings(datasets, metrics)]
    return Table(f"{ablation}-paired", caption.strip(), columns, rows, notes, grouped=True)


def cell_of(
    arm: str | None, summary: "pandas.DataFrame", metrics: dict[str, Metric], bold: set[str], biased: set[str]
) -> Cell:
    """Returns an arm's entry: "81.4 ± 5.1 (10)", "(9/10)" if fits are lacking, "failed: reason" or "missing"."""
    if arm is None:
        return Cell("–")
    row = summary.loc[arm]
    if not row["n"]:
        return Cell(row["reason"] if row["reason"] in ("missing", "failed") else f"failed: {row['reason']}", arm=arm)
    count = row["n"] if row["n"] == row["planned"] else f"{row['n']}/{row['planned']}"
    metric = Metric(row["metric"], row["direction"])
    text = f"{metric.spread(row['mean'], row['std'])} ({count})"
    std = None if math.isnan(row["std"]) else float(row["std"]) * metric.factor
    numbers = (float(row["mean"]) * metric.factor, std, int(row["n"]))
    return Cell(f"{text} †" if arm in biased else text, arm in bold, arm, numbers)


def _difference_text(difference: PairedDifference | None, metric: Metric | None) -> str:
    if difference is None or metric is None:
        return "no pairs"
    text = metric.text(difference.mean, signed=True)
    if difference.n > 1:
        text += f" ± {metric.text(difference.std)}"
    text += f" ({difference.n})"
    if difference.low is None or difference.high is None:
        return text
    return f"{text} [{metric.text(difference.low, signed=True)}, {metric.text(difference.high, signed=True)}]"


def _best(cells: list[dict], summary: "pandas.DataFrame", metrics: dict[str, Metric]) -> set[str]:
    groups: dict[tuple[str, str], set[str]] = {}
    for cell in cells:
        if summary.loc[cell["arm"], "n"]:
            groups.setdefault((cell["dataset"], cell["layer"]), set()).add(cell["arm"])
    bold = set()
    for (dataset, _), group in groups.items():
        rows = summary.loc[sorted(group)]
        best = rows["mean"].min() if metrics[dataset].direction == "minimize" else rows["mean"].max()
        if len(rows) > 1:
            bold |= set(rows.index[(rows["mean"] == best) & (rows["n"] == rows["planned"])])
    return bold


def _parts(plan: dict[str, Any], ablation: str) -> tuple[str, list[dict], list[dict]]:
    entry = plan["ablations"][ablation]
    in_order = ({key: cell["point"][key] for key in entry["axes"]} for cell in entry["cells"])
    points = {canonical_json(point): point for point in in_order}
    order = {key: [canonical_json(value) for value in values] for key, values in entry["axes"].items()}
    try:
        ranked = sorted(points.values(), key=lambda p: [order[key].index(canonical_json(p[key])) for key in p])
    except ValueError as error:
        raise StudyError(f"plan.json: a cell of ablation {ablation!r} is off its axes ({error}); plan again") from error
    return entry["title"].rstrip("."), entry["cells"], ranked


def _splits(plan: dict[str, Any], cells: list[dict]) -> dict[str, set[int]]:
    """Returns by data set the splits that its arms are evaluated on."""
    arms, found = {arm["id"]: arm for arm in plan["arms"]}, {}
    for cell in cells:
        found.setdefault(cell["dataset"], set()).update(arms[cell["arm"]]["splits"])
    return found


def _places(cells: list[dict]) -> dict[Place, str]:
    return {(cell["dataset"], cell["layer"], canonical_json(cell["point"])): cell["arm"] for cell in cells}


def _layers(cells: list[dict]) -> list[str]:
    return list(dict.fromkeys(cell["layer"] for cell in cells))


def _datasets(plan: dict[str, Any], cells: list[dict]) -> list[str]:
    used = {cell["dataset"] for cell in cells}
    return [label for label in plan["datasets"] if label in used]


def _headings(datasets: list[str], metrics: dict[str, Metric]) -> list[str]:
    return [f"{name} ({metrics[name].title} {metrics[name].arrow})" if name in metrics else name for name in datasets]


def _better(metric: Metric) -> str:
    return f"{metric.title}, {metric.better}"


def _over(plan: dict[str, Any], cells: list[dict], datasets: list[str], metrics: dict[str, Metric]) -> str:
    """Says per data set what the spread is over, as planned."""
    arms = {arm["id"]: arm for arm in plan["arms"]}
    lines = []
    for dataset in datasets:
        used = [arms[cell["arm"]] for cell in cells if cell["dataset"] == dataset]
        kinds = sorted({_spread_words(len(arm["splits"]), arm["repeats"]) for arm in used})
        better = f"{_better(metrics[dataset])}, " if dataset in metrics else ""
        lines.append(f"{dataset}: {better}± over {' or '.join(kinds)}.")
    return " ".join(lines)


def _spread_words(splits: int, repeats: int) -> str:
    if splits == 1:
        return f"{repeats} seeds of one split" if repeats > 1 else "a single fit (no spread)"
    return f"{splits} splits" if repeats == 1 else f"{splits} splits (means of {repeats} seeds each)"
