"""Arms against a reference, tested as a family, and their table: each value of a single axis against the first one."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from ssma.report.align import WORST, Aligned, align, report_options
from ssma.report.checks import chosen_by_test, unequal_treatment
from ssma.report.labels import Metric, listing, metrics_of, p_text, setting, value_text
from ssma.report.layout import lay_out
from ssma.report.table import Cell, Table
from ssma.statistics.outcome import ALPHA, Interval, NotTestable
from ssma.statistics.pairs import PairComparison, compare_pairs, holm
from ssma.study.cost import counted

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
CAPTION = (
    "{title}: paired difference to {first}, mean ± sample standard deviation (number of pairs). 95% interval, not "
    "adjusted, its half width, and p: corrected resampled t-test. p (Holm): over the {tests} of this table. Bootstrap "
    "interval and Wilcoxon's test take the pairs as independent, and are not adjusted. P: Bayesian correlated t-test; "
    "{equivalent}. Not testable does not mean that there is no difference. {missing} More: docs/statistics.md."
)
TREATED = {
    "not_testable": "Where a fit is not ok, the others are described and not tested.",
    "drop": "Pairs with a fit that is not ok are left out (report.missing: drop).",
    "worst": WORST,
}


@dataclass(frozen=True)
class Difference:
    """An arm minus its reference: what `compare_pairs` finds or why nothing, and p adjusted for its family.

    ``whole`` says whether no unit lacks a partner.
    """

    found: PairComparison | str
    metric: Metric | None
    adjusted: float | None = None
    whole: bool = True

    @property
    def valued(self) -> bool:
        """Says whether there is a difference, tested or not."""
        return not isinstance(self.found, str)

    @property
    def p(self) -> float | None:
        """The p value by itself; None if nothing was tested."""
        return None if isinstance(self.found, str) or isinstance(self.t, NotTestable) else self.t.p

    @property
    def t(self) -> Any:
        return NotTestable(self.found) if isinstance(self.found, str) else self.found.corrected_t

    @property
    def side(self) -> str:
        """The side of the mean, tested or not: ``better``, ``equal`` or ``worse``; ``not testable`` where fits lack."""
        if isinstance(self.found, str) or not self.whole:
            return UNTESTED
        mean = self.found.difference.mean
        if mean == 0:
            return "equal"
        return "better" if (mean > 0) == self.metric.higher_is_better else "worse"

    @property
    def holds(self) -> bool:
        """Says whether it is a difference at an adjusted p under 0.05."""
        return self.adjusted is not None and self.adjusted < ALPHA

    @property
    def text(self) -> str:
        """Returns "+2.1 [−0.4, +4.6], p 0.431 (Holm), not told apart"."""
        if isinstance(self.found, str):
            return f"{UNTESTED}: {self.found}"
        shown = self.metric.text(self.found.difference.mean, signed=True)
        if self.p is None:
            return f"{shown} ({self.t})"
        told = self.side if self.holds else "not told apart"
        return f"{shown} {self.metric.interval(self.t.interval, signed=True)}, p {p_text(self.adjusted)} (Holm), {told}"


def compare_family(
    plan: dict[str, Any], frame: "pandas.DataFrame", references: dict[str, str], ratios: dict[str, float | None]
) -> dict[str, Difference]:
    """Compares arms with their references, p adjusted by Holm over all of them that could be tested.

    Args:
        references: Arm -> the arm that it is compared with.
        ratios: n_test / n_train of each data set's splits; None if unknown.
    """
    options, metrics = report_options(plan), metrics_of(frame)
    datasets = {arm["id"]: arm["dataset"] for arm in plan["arms"]}
    found = []
    for arm, reference in references.items():
        aligned, dataset = align(frame, [arm, reference], options.missing), datasets[arm]
        found.append(compare_arms(aligned, options, metrics.get(dataset), ratios.get(dataset)))
    return dict(zip(references, adjusted(found), strict=True))


def compare_arms(aligned: Aligned, options: "Report", metric: Metric | None, ratio: float | None) -> Difference:
    """Compares an arm with its reference, ``[units, 2]``; with units that lack a partner the tests give way to the
    reason, without any unit all does."""
    if not len(aligned.values) or metric is None:
        return Difference(aligned.reason, metric)
    ours, other = aligned.values.T
    found = compare_pairs(ours, other, ratio if aligned.by_split else 0.0, rope_of(metric, other, options))
    if aligned.reason:
        no = NotTestable(aligned.reason)
        found = PairComparison(replace(found.difference, interval=no), no, no, no, no)
    return Difference(found, metric, whole=not aligned.reason)


def adjusted(family: Sequence[Difference]) -> list[Difference]:
    """Returns the differences with p values adjusted by Holm for the family that they are."""
    p_values = holm([one.p for one in family])
    return [replace(one, adjusted=p) for one, p in zip(family, p_values, strict=True)]


def tests_of(found: Iterable[Difference]) -> str:
    """Returns "12 comparisons": how many could be tested."""
    return counted(sum(one.p is not None for one in found), "comparison")


def seeds_alone(plan: dict[str, Any], arms: Iterable[str]) -> str:
    """Returns a sentence on the data sets of which these arms have one split, so that pairs are seeds; "" if none."""
    names = set(arms)
    alone = [arm["dataset"] for arm in plan["arms"] if arm["id"] in names and len(arm["splits"]) == 1]
    told = "the pairs are seeds of one split: a result holds for other seeds, not for other data."
    return f"Of {listing(alone, 12)} {told}" if alone else ""


def paired(
    plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame", ratios: dict[str, float | None]
) -> Table | None:
    """Returns the comparisons with the first value of the axis; None if there are several axes or one value.

    Args:
        ratios: n_test / n_train of each data set's splits; None if unknown.
    """
    layout = lay_out(plan, ablation)
    if len(layout.points) < 2 or len(layout.points[0]) != 1:
        return None
    (key, first), *_ = layout.points[0].items()
    heads, references = [], {}
    for dataset, layer, point in product(layout.datasets, layout.layers, layout.points[1:]):
        arm, reference = layout.arm(dataset, layer, point), layout.arm(dataset, layer, layout.points[0])
        if arm and reference and arm != reference:  # the same where the setting does not apply
            references[arm] = reference
            heads.append(([Cell(dataset), Cell(layer), Cell(value_text(point[key]))], arm))
    found = compare_family(plan, frame, references, ratios)
    cells = [[*head, *_cells(found[arm], arm)] for head, arm in heads]
    options = report_options(plan)
    caption = CAPTION.format(
        title=layout.title, first=f"{setting(key)} {value_text(first)}", tests=tests_of(found.values()),
        equivalent=_equivalent(layout.datasets, metrics_of(frame), options), missing=TREATED[options.missing],
    )  # fmt: skip
    notes = unequal_treatment(plan, ablation) + chosen_by_test(plan, [cell["arm"] for cell in layout.cells])
    columns = ["data set", "layer", setting(key), *COLUMNS]
    if not any(row[-1].text for row in cells):  # all were tested: no reasons
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    alone = seeds_alone(plan, found)
    return Table(f"{ablation}-paired", caption, columns, cells, notes, grouped=True, footnotes=[alone] if alone else [])


def rope_of(metric: Metric, reference: "NDArray", options: "Report") -> float:
    """Returns half the width of the region of practical equivalence, in raw units.

    The study's `report.rope` for the metric; else one percentage point of a metric in percent, or 1 % of the mean of
    the reference ``[units]``.
    """
    if metric.name in options.rope:
        return options.rope[metric.name] / metric.factor
    return RELATIVE_ROPE if metric.in_percent else RELATIVE_ROPE * abs(float(reference.mean()))


def _cells(one: Difference, arm: str) -> list[Cell]:
    found, metric, t = one.found, one.metric, one.t
    if isinstance(found, str) or metric is None:
        return [Cell("no pairs", arm=arm), *[Cell("–")] * (len(COLUMNS) - 2), Cell(str(found))]
    outcomes = {
        "spread": found.difference.std, "interval and p": t, "bootstrap interval": found.difference.interval,
        "Wilcoxon": found.wilcoxon, "P": found.posterior, "g": found.effect,
    }  # fmt: skip
    bootstrap = found.difference.interval
    texts = [
        *t_texts(one),
        metric.interval(bootstrap, signed=True) if isinstance(bootstrap, Interval) else UNTESTED,
        *p_texts(one),
        UNTESTED if isinstance(found.wilcoxon, NotTestable) else p_text(found.wilcoxon),
        *_probabilities(found, metric),
        UNTESTED if isinstance(found.effect, NotTestable) else f"{found.effect:+.2f}".replace("-", "−"),
        _reasons({name: what.reason for name, what in outcomes.items() if isinstance(what, NotTestable)}),
    ]
    return [difference_cell(found, metric, arm), *map(Cell, texts)]


def t_texts(one: Difference) -> list[str]:
    """Returns the interval and its half width."""
    if one.p is None:
        return [UNTESTED] * 2
    return [one.metric.interval(one.t.interval, signed=True), f"±{one.metric.text(one.t.needed())}"]


def p_texts(one: Difference) -> list[str]:
    """Returns p by itself and adjusted."""
    return [UNTESTED if p is None else p_text(p) for p in (one.p, one.adjusted)]


def difference_cell(found: PairComparison, metric: Metric, arm: str) -> Cell:
    n, mean, std = found.difference.n, found.difference.mean, found.difference.std
    std = math.nan if isinstance(std, NotTestable) else std
    text = f"{metric.spread(mean, std, signed=True)} ({n})"
    return Cell(text, arm=arm, numbers=metric.numbers(mean, std, n))


def _probabilities(found: PairComparison, metric: Metric) -> list[str]:
    if isinstance(found.posterior, NotTestable):
        return [UNTESTED] * 3
    sides = [found.posterior.below, found.posterior.within, found.posterior.above]
    return [f"{side:.3f}" for side in (sides if metric.higher_is_better else sides[::-1])]


def _reasons(reasons: dict[str, str]) -> str:
    """Returns "P, g: reason; Wilcoxon: reason", each reason once."""
    named: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        named.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in named.items())


def _equivalent(datasets: list[str], metrics: dict[str, Metric], options: "Report") -> str:
    """Returns "accuracy in %: higher is better, equivalent up to 1", data sets named where metrics differ."""
    names: dict[Metric, list[str]] = {}
    for name in datasets:
        if name in metrics:
            names.setdefault(metrics[name], []).append(name)
    lines = []
    for metric, here in names.items():
        width = f"{RELATIVE_ROPE:.0%} of the mean of the reference"
        if metric.name in options.rope or metric.in_percent:
            width = f"{options.rope.get(metric.name, RELATIVE_ROPE * metric.factor):g}"
        where = f" ({listing(here, 12)})" if len(names) > 1 else ""
        lines.append(f"{metric.title}{where}: {metric.better}, equivalent up to {width}")
    return "; ".join(lines) or "no metric is known"
