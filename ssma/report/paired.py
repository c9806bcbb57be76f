"""The table of paired comparisons: each value of a single axis against the first one, tested."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ssma.report.align import align, report_options
from ssma.report.checks import chosen_by_test, unequal_treatment
from ssma.report.labels import Metric, metrics_of, p_text, setting, value_text
from ssma.report.layout import Layout, Point, lay_out
from ssma.report.table import Cell, Table
from ssma.statistics.outcome import Interval, NotTestable
from ssma.statistics.pairs import PairComparison, compare_pairs, holm

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray

    from ssma.study.config import Report

RELATIVE_ROPE = 0.01
UNTESTED = "not testable"
COLUMNS = [
    "difference (pairs)", "95% interval", "half width", "bootstrap interval", "p", "p (Holm)", "p (Wilcoxon)",
    "P(worse)", "P(equivalent)", "P(better)", "effect size g", "not testable because",
]  # fmt: skip
EXPLAINED = (
    "Difference: mean ± sample standard deviation over the pairs, which share split and seed; seeds are averaged "
    "within a split. 95% interval and p: corrected resampled t-test, which allows for the overlap of the splits' "
    "training sets (Nadeau and Bengio 2003). Half width: of that interval. Bootstrap interval: BCa of the mean over "
    "the pairs, as if they were independent. Holm: p adjusted for all comparisons of this table that could be tested. "
    "Wilcoxon: exact signed ranks, pairs as if independent, zeros left out. P: Bayesian correlated t-test (Benavoli et "
    "al. 2017), the probability that the mean difference is a loss, equivalent in practice, or a gain. g: mean "
    "difference in standard deviations of the differences, with Hedges' correction. Not testable never means that "
    "there is no difference."
)


def paired(
    plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame", ratios: dict[str, float | None]
) -> Table | None:
    """Returns the comparisons with the first value of the axis; None if there are several axes or one value.

    Args:
        plan: The plan.
        ablation: Its name.
        frame: The records.
        ratios: n_test / n_train of each data set's splits; None if unknown.
    """
    layout = lay_out(plan, ablation)
    if len(layout.points) < 2 or len(layout.points[0]) != 1:
        return None
    options, metrics = report_options(plan), metrics_of(frame)
    rows, compared = [], []
    for dataset, layer, point in _comparisons(layout):
        arm, reference = layout.arm(dataset, layer, point), layout.arm(dataset, layer, layout.points[0])
        if arm and reference and arm != reference:  # the same where the setting does not apply
            found = compare_arms(frame, arm, reference, options, metrics.get(dataset), ratios.get(dataset))
            head = [Cell(dataset), Cell(layer), Cell(value_text(next(iter(point.values()))))]
            rows.append((head, arm, metrics.get(dataset)))
            compared.append(found)
    adjusted = holm([None if isinstance(found, str) else _p(found) for found in compared])
    cells = [
        [*head, *_cells(found, metric, arm, p)]
        for (head, arm, metric), found, p in zip(rows, compared, adjusted, strict=True)
    ]
    (key, first), *_ = layout.points[0].items()
    caption = f"{layout.title}: paired difference to {setting(key)} {value_text(first)}. {EXPLAINED} "
    power = {
        name: visible_text(
            [one for one, row in zip(compared, rows, strict=True) if row[0][0].text == name],
            metrics.get(name),
            sum(p is not None for p in adjusted),
        )
        for name in layout.datasets
    }
    caption += " ".join([*_equivalent(layout.datasets, metrics, options, power), missing_text(options)])
    notes = unequal_treatment(plan, ablation) + chosen_by_test(plan, [cell["arm"] for cell in layout.cells])
    columns = ["data set", "layer", setting(key), *COLUMNS]
    if not any(row[-1].text for row in cells):  # all were tested: no reasons
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    return Table(f"{ablation}-paired", caption, columns, cells, notes, True)


def _comparisons(layout: Layout) -> list[tuple[str, str, Point]]:
    return [
        (dataset, layer, point) for dataset in layout.datasets for layer in layout.layers for point in layout.points[1:]
    ]


def compare_arms(
    frame: "pandas.DataFrame",
    arm: str,
    reference: str,
    options: "Report",
    metric: Metric | None,
    ratio: float | None,
) -> PairComparison | str:
    """Compares two arms; with units that lack a partner the tests give way to the reason, without any unit all does."""
    aligned = align(frame, [arm, reference], options.missing)
    if not len(aligned.values) or metric is None:
        return aligned.reason
    ours, other = aligned.values.T
    found = compare_pairs(ours, other, ratio if aligned.by_split else 0.0, rope_of(metric, other, options))
    if not aligned.reason:
        return found
    no = NotTestable(aligned.reason)
    return PairComparison(replace(found.difference, interval=no), no, no, no, no)


def rope_of(metric: Metric, reference: "NDArray", options: "Report") -> float:
    """Returns half the width of the region of practical equivalence, in raw units.

    The study's `report.rope` for the metric; else one percentage point of a metric in percent, or 1 % of the mean of
    the reference ``[units]``.
    """
    if metric.name in options.rope:
        return options.rope[metric.name] / metric.factor
    return RELATIVE_ROPE if metric.in_percent else RELATIVE_ROPE * abs(float(reference.mean()))


def _p(found: PairComparison) -> float | None:
    return None if isinstance(found.corrected_t, NotTestable) else found.corrected_t.p


def _cells(found: PairComparison | str, metric: Metric | None, arm: str, adjusted: float | None) -> list[Cell]:
    if isinstance(found, str) or metric is None:
        return [Cell("no pairs", arm=arm), *[Cell("–")] * (len(COLUMNS) - 2), Cell(str(found))]
    difference, t = found.difference, found.corrected_t
    outcomes = {
        "spread": difference.std, "interval and p": t, "bootstrap interval": difference.interval,
        "Wilcoxon": found.wilcoxon, "P": found.posterior, "g": found.effect,
    }  # fmt: skip
    tested = not isinstance(t, NotTestable)
    texts = [
        metric.interval(t.interval, signed=True) if tested else UNTESTED,
        f"±{metric.text(t.visible())}" if tested else UNTESTED,
        metric.interval(difference.interval, signed=True) if isinstance(difference.interval, Interval) else UNTESTED,
        p_text(t.p) if tested else UNTESTED,
        UNTESTED if adjusted is None else p_text(adjusted),
        UNTESTED if isinstance(found.wilcoxon, NotTestable) else p_text(found.wilcoxon.p),
        *_probabilities(found, metric),
        UNTESTED if isinstance(found.effect, NotTestable) else f"{found.effect:+.2f}".replace("-", "−"),
        _reasons({name: what.reason for name, what in outcomes.items() if isinstance(what, NotTestable)}),
    ]
    return [difference_cell(found, metric, arm), *map(Cell, texts)]


def difference_cell(found: PairComparison, metric: Metric, arm: str) -> Cell:
    n, mean, std = found.difference.n, found.difference.mean, found.difference.std
    spread = None if isinstance(std, NotTestable) else std
    text = metric.text(mean, signed=True) + ("" if spread is None else f" ± {metric.text(spread)}") + f" ({n})"
    numbers = (mean * metric.factor, None if spread is None else spread * metric.factor, n)
    return Cell(text, arm=arm, numbers=numbers)


def _probabilities(found: PairComparison, metric: Metric) -> list[str]:
    if isinstance(found.posterior, NotTestable):
        return [UNTESTED] * 3
    sides = [found.posterior.below, found.posterior.within, found.posterior.above]
    return [f"{side:.3f}" for side in (sides if metric.direction == "maximize" else sides[::-1])]


def _reasons(reasons: dict[str, str]) -> str:
    """Returns "P, g: reason; Wilcoxon: reason", each reason once."""
    named: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        named.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in named.items())


def visible_text(found: Sequence[PairComparison | str], metric: Metric | None, family: int) -> str:
    """Returns how wide the intervals of some comparisons are, and what cannot be seen with them; "" if none was tested.

    Args:
        found: The comparisons.
        metric: Their metric.
        family: How many tests Holm's adjustment is over.
    """
    tests = [one.corrected_t for one in found if not isinstance(one, str)]
    tests = [test for test in tests if not isinstance(test, NotTestable)]
    if not tests or metric is None:
        return ""
    single, adjusted = (span([test.visible(size) for test in tests], metric) for size in (1, family))
    text = f"the intervals reach {single} to either side, so that a smaller difference cannot be seen"
    return text + (f" ({adjusted} for the smallest p of {family} under Holm)" if family > 1 else "")


def span(values: list[float], metric: Metric) -> str:
    """Returns "3.1 to 14.0", or one number if all are written alike."""
    low, high = (metric.text(value) for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _equivalent(datasets: list[str], metrics: dict[str, Metric], options: "Report", power: dict[str, str]) -> list[str]:
    lines = []
    for name in datasets:
        if name in metrics:
            metric = metrics[name]
            width = f"{RELATIVE_ROPE:.0%} of the mean of the reference"
            if metric.name in options.rope or metric.in_percent:
                width = f"{options.rope.get(metric.name, RELATIVE_ROPE * metric.factor):g}"
            seen = f"; {power[name]}" if power[name] else ""
            lines.append(f"{name}: {metric.title}, {metric.better}; equivalent up to {width}{seen}.")
    return lines


def missing_text(options: "Report") -> str:
    return {
        "not_testable": "Where a fit is not ok, the others are described and not tested.",
        "drop": "Pairs with a fit that is not ok are left out (report.missing: drop).",
        "worst": "A failed fit counts as the worst test metric of the data set (report.missing: worst).",
    }[options.missing]
