"""What an ablation found, in sentences with numbers. They say what the records hold, and what they cannot say."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ssma.report.align import align, report_options
from ssma.report.axes import axis_table
from ssma.report.encoding import is_numeric
from ssma.report.floor import MARK, Floor
from ssma.report.labels import Metric, listing, metrics_of, p_text, point_text, setting, value_text
from ssma.report.layout import Layout, Point, lay_out
from ssma.report.paired import span
from ssma.report.statistics import summarise
from ssma.report.table import Table
from ssma.statistics.outcome import ALPHA, NotTestable
from ssma.statistics.pairs import CorrectedT, corrected_t, holm, paired_differences
from ssma.study.ids import canonical_json
from ssma.study.part import baseline_name, baselines

if TYPE_CHECKING:
    import pandas

PICKED = (
    "The best and the worst setting of a place were picked by these very test numbers, so that their differences "
    "describe them; the p values count every comparison, not the picked ones alone."
)
TESTED = "paired by split and seed, corrected resampled t-test, p adjusted by Holm over"
MOST_NAMED = 4
"""Settings of a place that are all compared in words; of more, the best and the worst are."""


@dataclass(frozen=True)
class Words:
    """Sentences over all data sets and layers, and one per data set and layer."""

    overall: list[str]
    details: list[str]


@dataclass(frozen=True)
class Difference:
    """A paired difference of two arms in raw units, p adjusted for its family; no mean where there are no pairs."""

    mean: float | None
    test: CorrectedT | NotTestable
    metric: Metric
    adjusted: float | None = None

    @property
    def side(self) -> str:
        """The side of the mean: ``better``, ``equal`` or ``worse``; ``not testable`` without a test."""
        if self.mean is None or isinstance(self.test, NotTestable):
            return "not testable"
        if self.mean == 0:
            return "equal"
        return "better" if (self.mean > 0) == (self.metric.direction == "maximize") else "worse"

    @property
    def holds(self) -> bool:
        """Says whether it is a difference at an adjusted p under 0.05."""
        return self.adjusted is not None and self.adjusted < ALPHA

    @property
    def text(self) -> str:
        """Returns "+2.1 [−0.4, +4.6], p 0.431 (Holm), not told apart"."""
        if self.mean is None:
            return str(self.test)
        shown = self.metric.text(self.mean, signed=True)
        if isinstance(self.test, NotTestable) or self.adjusted is None:
            return f"{shown} ({self.test})"
        told = self.side if self.holds else "not told apart"
        return (
            f"{shown} {self.metric.interval(self.test.interval, signed=True)}, p {p_text(self.adjusted)} (Holm), {told}"
        )


class _Reader:
    """One ablation with its records."""

    def __init__(
        self, plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame", ratios: dict[str, float | None]
    ) -> None:
        self.frame, self.ratios = frame, ratios
        self.layout: Layout = lay_out(plan, ablation)
        self.axes = plan["ablations"][ablation]["axes"]
        self.known = baselines(plan, ablation)
        self.summary, self.metrics = summarise(frame), metrics_of(frame)
        self.missing = report_options(plan).missing
        self.against = self._family(lambda arm, first: self.known.get(arm))
        self.steps = self._family(lambda arm, first: first if arm != first else None) if self._stepped() else {}

    def _stepped(self) -> bool:
        return len(self.axes) == 1 and "aggregator" not in self.axes

    def _family(self, reference: Callable[[str, str], str | None]) -> dict[str, Difference]:
        """Returns the differences of arms with results to their references, adjusted over all places."""
        found = {}
        for dataset, layer in self.places():
            arms = self.arms(dataset, layer)
            for arm in arms:
                other = reference(arm, next(iter(arms)))
                if other and self.summary.loc[arm, "n"]:
                    found[arm] = self.difference(arm, other, dataset)
        return dict(zip(found, adjusted(list(found.values())), strict=True))

    def places(self) -> list[tuple[str, str]]:
        """Returns the data sets and layers of which the metric is known."""
        return [(name, layer) for name in self.layout.datasets if name in self.metrics for layer in self.layout.layers]

    def arms(self, dataset: str, layer: str) -> dict[str, Point]:
        """Returns the arms at a place, each with the first point that it has."""
        found: dict[str, Point] = {}
        for point in self.layout.points:
            if arm := self.layout.arm(dataset, layer, point):
                found.setdefault(arm, point)
        return found

    def mean(self, arm: str) -> float:
        return float(self.summary.loc[arm, "mean"])

    def whole(self, arm: str) -> bool:
        """Says whether all planned fits of an arm are ok."""
        return bool(self.summary.loc[arm, "n"] and self.summary.loc[arm, "n"] == self.summary.loc[arm, "planned"])

    def best(self, arms: list[str], metric: Metric) -> str:
        return (max if metric.direction == "maximize" else min)(arms, key=self.mean)

    def difference(self, arm: str, reference: str, dataset: str) -> Difference:
        aligned, metric = align(self.frame, [arm, reference], self.missing), self.metrics[dataset]
        if not len(aligned.values):
            return Difference(None, NotTestable(aligned.reason), metric)
        differences = paired_differences(*aligned.values.T)
        test: Any = NotTestable(aligned.reason) if aligned.reason else None
        test = test or corrected_t(differences, self.ratios.get(dataset) if aligned.by_split else 0.0)
        return Difference(float(differences.mean()), test, metric)


def adjusted(found: list[Difference]) -> list[Difference]:
    """Returns the differences with p values adjusted by Holm for the family that they are."""
    p = holm([None if isinstance(one.test, NotTestable) else one.test.p for one in found])
    return [replace(one, adjusted=value) for one, value in zip(found, p, strict=True)]


def words(
    plan: dict[str, Any],
    ablation: str,
    frame: "pandas.DataFrame",
    ratios: dict[str, float | None],
    found: dict[str, Floor] | None = None,
) -> Words:
    """Returns what the records say of an ablation: every setting against the baseline in numbers of places, with what
    holds after Holm and what cannot be seen; the best setting of each data set and layer, how values compare pair by
    pair, and the course along an axis.

    Args:
        plan: The plan.
        ablation: Its name.
        frame: The records.
        ratios: n_test / n_train of each data set's splits; None if unknown.
        found: The arms against predictors that look at no graph, as `floors` returns it.
    """
    reader = _Reader(plan, ablation, frame, ratios)
    details, not_run, pairs = [], [], {}
    for dataset in reader.layout.datasets:
        for layer in reader.layout.layers:
            arms, metric = reader.arms(dataset, layer), reader.metrics.get(dataset)
            if not arms:
                continue
            run = [arm for arm in arms if reader.summary.loc[arm, "n"]]
            if not run or metric is None:
                not_run.append(f"{dataset} {layer}")
                continue
            details.append(_place(reader, dataset, layer, arms, run, metric))
            _collect_pairs(reader, dataset, layer, pairs)
    overall = [*_against_baseline(reader), *_pairwise(pairs, reader), *_power(reader), *_floor(found or {})]
    if details and len(reader.layout.points) > 2:
        overall.append(PICKED)
    table = axis_table(plan, ablation, frame, ratios)
    details += _courses(table, reader) if table else []
    if not_run:
        overall.append(f"Not run: {listing(not_run, 12)}." if details else "Not run: nothing of this ablation.")
    return Words(overall, details)


def _place(reader: _Reader, dataset: str, layer: str, arms: dict[str, Point], run: list[str], metric: Metric) -> str:
    """Returns the sentence of a data set and layer: its best mean, and its settings against the baseline."""
    best = reader.best(run, metric)
    row = reader.summary.loc[best]
    count = row["n"] if reader.whole(best) else f"{row['n']} of {row['planned']}"
    of = f"of {len(run)} setting{'s' if len(run) > 1 else ''}" + (
        f" ({len(arms) - len(run)} have no result)" if len(run) < len(arms) else ""
    )
    text = f"{dataset}, {layer}: {of} the best is {point_text(arms[best])}, "
    text += f"{metric.title} {metric.spread(row['mean'], row['std'])} ({count} fits)"
    name = baseline_name(layer)
    if others := [arm for arm in run if arm in reader.against]:
        text += f"; against {name}: {_compared(reader, others, arms, reader.against, metric)}"
    elif any(arm in reader.known for arm in arms):
        text += f"; against {name} not testable: the arms that could be compared have no result"
    else:
        text += f"; no {name} arm with the same network and training is in the study"
    if others := [arm for arm in run if arm in reader.steps]:
        first = point_text(next(iter(arms.values())))
        text += f"; against {first}: {_compared(reader, others, arms, reader.steps, metric)}"
    return f"{text}."


def _compared(
    reader: _Reader, others: list[str], arms: dict[str, Point], found: dict[str, Difference], metric: Metric
) -> str:
    """Returns "mean +1.5 [...], p 1 (Holm), not told apart; ssma ..."; of many settings the best and the worst."""
    if len(others) <= MOST_NAMED:
        return "; ".join(f"{point_text(arms[arm])} {found[arm].text}" for arm in others)
    ranked = sorted(others, key=reader.mean, reverse=metric.direction == "maximize")
    return "; ".join(
        f"the {which} of {len(others)}, {point_text(arms[arm])}, {found[arm].text}"
        for which, arm in (("best", ranked[0]), ("worst", ranked[-1]))
    )


def _against_baseline(reader: _Reader) -> list[str]:
    """Returns a sentence that says how settings were compared with the baseline, and one of each setting."""
    groups: dict[str, list[Difference]] = {}
    for dataset, layer in reader.places():
        for arm, point in reader.arms(dataset, layer).items():
            if arm in reader.against:
                groups.setdefault(point_text(point), []).append(reader.against[arm])
    if not groups:
        return []
    names = " or ".join(sorted({baseline_name(layer) for layer in reader.layout.layers}))
    tests = sum(one.adjusted is not None for one in reader.against.values())
    start = f"Against {names} in the same network and training, over places (data set and layer; {TESTED} {tests}"
    start += f" comparison{'' if tests == 1 else 's'}): "
    return [start + ". ".join(f"{name} {_tally(found, 'place')}" for name, found in groups.items()) + "."]


def _tally(found: list[Difference], noun: str) -> str:
    """Returns "by the mean alone better / equal / worse at 2 / 0 / 4 of 6 places; after Holm 0 better, 0 worse"."""
    sides = [one.side for one in found]
    held = [one.side for one in found if one.holds]
    means = " / ".join(str(sides.count(side)) for side in ("better", "equal", "worse"))
    of = f"{len(found)} {noun}{'' if len(found) == 1 else 's'}"
    text = f"by the mean alone better / equal / worse at {means} of {of}; "
    text += f"after Holm {held.count('better')} better, {held.count('worse')} worse"
    untested = sides.count("not testable")
    return text + (f", not testable at {untested}" if untested else "")


def _power(reader: _Reader) -> list[str]:
    """Says once per metric how far the intervals of all differences to the baseline reach."""
    groups: dict[str, list[Difference]] = {}
    for one in reader.against.values() or reader.steps.values():
        if not isinstance(one.test, NotTestable):
            groups.setdefault(one.metric.title, []).append(one)
    sentences = []
    for title, found in groups.items():
        metric, reach = found[0].metric, [one.test.visible() for one in found]
        sentences.append(
            f"What can be seen: the 95% intervals of these differences reach {span(reach, metric)} "
            f"({title}) to either side; a smaller difference cannot be seen."
        )
    return sentences


def _floor(found: dict[str, Floor]) -> list[str]:
    """Says how many arms were not shown to be better than a predictor that looks at no graph."""
    below = [one.label for one in found.values() if not one.above]
    if not found:
        return []
    named = f" ({MARK}): {listing(below, 12)}" if below else ""
    return [
        f"Not shown to be better than a predictor that looks at no graph, at p < {ALPHA} after Holm: "
        f"{len(below)} of {len(found)} arms{named}."
    ]


Pairs = dict[tuple[str, str], list[tuple[str, Difference]]]


def _collect_pairs(reader: _Reader, dataset: str, layer: str, pairs: Pairs) -> None:
    """Compares the values of each axis that has no scale with its first one, all other settings being the same."""
    for key, values in reader.axes.items():
        if is_numeric(values) or key == "aggregator":
            continue
        seen = set()
        for point in reader.layout.points:
            arm = reader.layout.arm(dataset, layer, point)
            reference = reader.layout.arm(dataset, layer, point | {key: values[0]})
            if arm and reference and arm != reference and arm not in seen:
                seen.add(arm)
                if reader.whole(arm) and reader.whole(reference):
                    found = reader.difference(arm, reference, dataset)
                    pairs.setdefault((key, canonical_json(point[key])), []).append((layer, found))


def _pairwise(pairs: Pairs, reader: _Reader) -> list[str]:
    """Returns a sentence for each value of an axis, p values adjusted over all pairs of the axis."""
    sentences = []
    for axis in dict.fromkeys(key for key, _ in pairs):
        mine = {text: found for (key, text), found in pairs.items() if key == axis}
        family = adjusted([one for found in mine.values() for _, one in found])
        tests, remaining = sum(one.adjusted is not None for one in family), iter(family)
        values = {canonical_json(value): value for value in reader.axes[axis]}
        for text, found in mine.items():
            here = [(layer, next(remaining)) for layer, _ in found]
            by_layer = {layer: [one for name, one in here if name == layer] for layer, _ in here}
            parts = [f"{layer}: {_tally(ones, 'pair')}" for layer, ones in by_layer.items()]
            told = parts if len(parts) > 1 else [_tally([one for _, one in here], "pair")]
            sentences.append(
                f"{setting(axis).capitalize()}, {value_text(values[text])} against {value_text(reader.axes[axis][0])}, "
                f"pairs that differ in nothing else ({TESTED} {tests}): {', '.join(told)}."
            )
    return sentences


def _courses(table: Table, reader: _Reader) -> list[str]:
    """Returns a sentence for each row of the axis table, from its very cells."""
    (key,) = [key for key, values in reader.axes.items() if is_numeric(values)]
    sentences = []
    for row in table.rows:
        cells = {column: cell.text for column, cell in zip(table.columns, row, strict=True)}
        where = ", ".join(cells[column] for column in ("data set", "layer", "with") if column in cells)
        change = f"{where}, along {setting(key)}: change over the axis {cells['change over the axis']}"
        if cells["95% interval"] == "–":
            sentences.append(f"{change}.")
            continue
        text = (
            f"{change} {cells['95% interval']}; means {cells['means']}; trend {cells['trend']}; best at {cells['best']}"
        )
        text += f", smallest within one standard error of it {cells['smallest within 1 SE']}"
        loses = cells["it loses"]
        sentences.append(f"{text}{f' (it loses {loses})' if loses != '–' else ''}.")
    return sentences
