"""The table of what each selection rule would report, arm by arm, and the optimism of choosing by the test metric."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ssma.report.flags import size_text, space_size
from ssma.report.folds import seen_in_tuning
from ssma.report.labels import Metric, counts, listing, metrics_of, of_all, point_text
from ssma.report.selection_bias import Bias
from ssma.report.statistics import BIASED, summarise
from ssma.report.table import Cell, Table
from ssma.report.tables import cell_of
from ssma.statistics.describe import SMALLEST
from ssma.statistics.outcome import Interval, NotTestable
from ssma.statistics.pairs import corrected_t
from ssma.study.cost import counted

if TYPE_CHECKING:
    import pandas

NAME = "selection_bias"
RULES = ("validation", "per_split", "test")
SHARED = ("validation", "test")
COLUMNS = ["data set", "layer", "aggregator", "fixed settings", "trials planned", "complete", "pruned", "failed",
           "validation", "per split", "test † (biased)", "share the best validation", "share the best test",
           "optimism of test", "95% interval of optimism"]  # fmt: skip
NOTHING = {"pruned": "0", "failed": "0", "95% interval of optimism": "not testable"}
"""Columns that are left out where all their entries are this one, or none."""
CAPTION = (
    "Selection bias: the test metric of the trial that each rule takes, from the same tuning fits; mean ± sample "
    "standard deviation over the tuned splits (their number). Validation: the best mean validation metric; per split: "
    f"for every split its own best validation metric; test: the best mean test metric, {BIASED}. Share the best: "
    "complete trials with the best mean. Optimism: test minus validation, positive where it flatters; where no test "
    "metric is missing it is never below 0, so that its size counts and not its sign."
)
INTERVALS = " Interval: corrected resampled t-test; the trials were picked by the same fits, so that it tests nothing."
ONE = " Arms with nothing to choose show their evaluation fits."


def table(
    plan: dict[str, Any], frame: "pandas.DataFrame", found: dict[str, Bias], ratios: dict[str, float | None]
) -> Table:
    """Returns a row per arm: what each rule would report, and the optimism of ``test``; its mean per aggregator below.

    Args:
        found: What ``biases`` returns of the frame.
        ratios: n_test / n_train of each data set's splits; None if unknown.
    """
    summary, metrics, rows, untested = summarise(frame), metrics_of(frame), [], []
    for arm in plan["arms"]:
        fixed = point_text(arm["fixed"]) or "–"
        facts = [arm["dataset"], arm["layer"], arm["aggregator"], fixed, str(arm["trials"])]
        bias, metric = found.get(arm["id"]), metrics.get(arm["dataset"])
        if arm["trials"] == 0:
            evaluated = cell_of(arm["id"], summary, set(), set())
            numbers = [*map(Cell, "–––"), *[evaluated] * 3, Cell("–"), Cell("–"), Cell("nothing to choose"), Cell("–")]
        elif bias is None or metric is None:
            numbers = [Cell("–")] * (len(COLUMNS) - len(facts))
        else:
            numbers = [*map(Cell, _counts(bias)), *(_cell(bias, rule, metric) for rule in RULES)]
            numbers += [
                Cell(f"{bias.shared[rule]} of {bias.usable}" if rule in bias.shared else "–") for rule in SHARED
            ]
            numbers += _optimism(arm, bias, metric, ratios.get(arm["dataset"]), untested)
        rows.append([replace(cell, arm=arm["id"]) for cell in [*map(Cell, facts), *numbers]])
    kept = [place for place, name in enumerate(COLUMNS) if _tells(name, [row[place].text for row in rows])]
    columns, rows = [COLUMNS[place] for place in kept], [[row[place] for place in kept] for row in rows]
    caption = CAPTION + INTERVALS * (COLUMNS[-1] in columns) + ONE * any(arm["trials"] == 0 for arm in plan["arms"])
    below = _reasons(untested) + _means(plan, found, metrics)
    return Table(NAME, caption, columns, rows, seen_in_tuning(plan), grouped=True, footnotes=below)


def _tells(column: str, texts: list[str]) -> bool:
    return column not in NOTHING or bool(set(texts) - {NOTHING[column], "–"})


def _counts(bias: Bias) -> list[str]:
    complete = bias.states.get("complete", 0)
    whole = str(complete) if bias.usable == complete else f"{bias.usable}/{complete} with all records"
    return [whole, *(str(bias.states.get(state, 0)) for state in ("pruned", "failed"))]


def _cell(bias: Bias, rule: str, metric: Metric) -> Cell:
    found = bias.outcomes.get(rule)
    if found is None or not found.n:
        return Cell("–")
    text = f"{metric.spread(found.mean, found.std)} ({of_all(found.n, len(found.tests))})"
    text += " †" if rule == "test" else ""
    return Cell(text, numbers=metric.numbers(found.mean, found.std, found.n))


def _optimism(
    arm: dict[str, Any], bias: Bias, metric: Metric, ratio: float | None, untested: list[str]
) -> tuple[Cell, Cell]:
    """Returns the entries of the optimism and of its interval; a reason why there is none is added to ``untested``."""
    if not bias.gains:
        return Cell("–"), Cell("–")
    n, splits = len(bias.gains), len(bias.outcomes["test"].tests)
    text = _signed(bias.optimism, metric) + ("" if n == splits else f" (on {n} of {splits} splits)")
    text += " (nothing to choose)" if arm["trials"] == 1 else " (one trial is left)" if bias.usable == 1 else ""
    optimism = Cell(text, numbers=metric.numbers(bias.optimism, math.nan, n))
    interval = _interval(bias, ratio)
    if isinstance(interval, NotTestable):
        untested.append(interval.reason)
        return optimism, Cell("not testable")
    ends = (interval.low * metric.factor, interval.high * metric.factor)
    return replace(optimism, interval=ends), Cell(metric.interval(interval, signed=True))


def _interval(bias: Bias, ratio: float | None) -> Interval | NotTestable:
    """Returns the interval of the mean gain over the tuned splits, by the corrected resampled t-test."""
    if len(bias.gains) < SMALLEST:
        return NotTestable(f"{counted(len(bias.gains), 'tuned split')}, {SMALLEST} needed")
    if bias.outcomes["test"].trials == bias.outcomes["validation"].trials:
        return NotTestable("both rules take the same trial")
    found = corrected_t(bias.gains, ratio)
    return found if isinstance(found, NotTestable) else found.interval


def _reasons(untested: list[str]) -> list[str]:
    """Returns a line that says why there are intervals that cannot be had."""
    counts = {reason: untested.count(reason) for reason in untested}
    told = "; ".join(f"{reason} ({counted(count, 'arm')})" for reason, count in counts.items())
    return [f"No interval (not testable): {told}."] if told else []


def _means(plan: dict[str, Any], found: dict[str, Bias], metrics: dict[str, Metric]) -> list[str]:
    """Returns a line per aggregator and metric: the mean optimism over the arms that have a choice.

    One more says of several aggregators that these means do not compare them, and how their search spaces differ.
    """
    groups: dict[tuple[str, Metric], list[tuple[dict[str, Any], Bias]]] = {}
    sizes: dict[int | None, list[str]] = {}
    for arm in plan["arms"]:
        bias = found.get(arm["id"])
        if bias is not None and bias.usable > 1 and bias.gains:
            groups.setdefault((arm["aggregator"], metrics[arm["dataset"]]), []).append((arm, bias))
            sizes.setdefault(space_size(arm["space"]), []).append(arm["aggregator"])
    lines = [
        f"Mean optimism of test with {name}, {metric.title}: {_mean(arms, metric)}"
        for (name, metric), arms in groups.items()
    ]
    if len({name for name, _ in groups}) > 1:
        spaces = "; ".join(f"{size_text(size)} with {listing(names)}" for size, names in sizes.items())
        unlike = f": the search spaces differ ({spaces})" if len(sizes) > 1 else ""
        lines.append(f"These means are no test. Do not compare aggregators by them{unlike}.")
    return lines


def _mean(arms: list[tuple[dict[str, Any], Bias]], metric: Metric) -> str:
    values = [bias.optimism for _, bias in arms]
    same = sum(bias.outcomes["test"].trials == bias.outcomes["validation"].trials for _, bias in arms)
    datasets = counted(len({arm["dataset"] for arm, _ in arms}), "data set")
    splits = counts([len(bias.gains) for _, bias in arms], "tuned split")
    return (
        f"{_signed(math.fsum(values) / len(values), metric)} over n = {counted(len(arms), 'arm')}, {datasets}, "
        f"{splits} each; from {_signed(min(values), metric)} to {_signed(max(values), metric)}; best of "
        f"{counts([bias.usable for _, bias in arms], 'trial')}; both rules take the same trial in {same} of "
        f"{len(arms)}."
    )


def _signed(value: float, metric: Metric) -> str:
    return metric.text(value, signed=True) if abs(value) > 1e-12 else metric.text(0.0)  # equal but for rounding
