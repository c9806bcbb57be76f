"""What an ablation found, in sentences with numbers. They say what the records hold, and what they cannot say."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssma.report.align import report_options
from ssma.report.axes import axis_table
from ssma.report.checks import chosen_by_test
from ssma.report.encoding import is_numeric
from ssma.report.floor import MARK, Floor, below_text
from ssma.report.labels import SHARES, Metric, counts, listing, metrics_of, point_text, setting, value_text
from ssma.report.layout import Layout, Point, lay_out
from ssma.report.paired import TREATED, UNTESTED, Difference, compare_family, seeds_alone, tests_of
from ssma.report.statistics import summarise
from ssma.report.table import Table
from ssma.statistics.outcome import ALPHA
from ssma.study.cost import counted
from ssma.study.ids import canonical
from ssma.study.part import baseline_name, baselines
from ssma.study.records import SIGN

if TYPE_CHECKING:
    import pandas

PICKED = (
    "The best and the worst setting of a place were picked by these very test numbers, so that their differences "
    "describe them; the p values count every comparison, not the picked ones alone."
)
BEST_PICKED = "The best was picked by these test numbers."
TESTED = (
    "Differences are paired by split and seed and tested by the corrected resampled t-test; 95% intervals are not "
    "adjusted, p is (Holm)."
)
ALL_FAILED = "all fits that were made failed, diverged or ran out of time"
MOST_NAMED = 4
"""Settings of a place that are all named in words; of more, the best and the worst are."""


@dataclass(frozen=True)
class Words:
    """The result in short, sentences over all places (data set and layer), and one or more per place."""

    summary: str
    overall: list[str]
    details: list[str]


class _Reader:
    """One ablation with its records."""

    def __init__(
        self, plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame", ratios: dict[str, float | None]
    ) -> None:
        self.plan, self.frame, self.ratios = plan, frame, ratios
        self.layout: Layout = lay_out(plan, ablation)
        self.axes = plan["ablations"][ablation]["axes"]
        self.known = baselines(plan, ablation)
        self.summary, self.metrics = summarise(frame), metrics_of(frame)
        self.against = self._family(lambda arm, first: self.known.get(arm))
        stepped = len(self.axes) == 1 and "aggregator" not in self.axes
        self.steps = self._family(lambda arm, first: first if arm != first else None) if stepped else {}
        self.biased = {arm["id"] for arm in plan["arms"] if arm["selection"] == "test"}
        self.names = " or ".join(sorted({baseline_name(layer) for layer in self.layout.layers}))
        self.where = {
            arm: (f"{dataset} {layer}", point_text(point))
            for dataset, layer in self.places()
            for arm, point in self.arms(dataset, layer).items()
        }

    def _family(self, reference: Callable[[str, str], str | None]) -> dict[str, Difference]:
        """Compares arms with their references, adjusted over all places.

        An arm that was not run is left out; one that was, and has no result, is not: it counts as not testable, unless
        the worst takes the place of its fits (``report.missing``).
        """
        references = {}
        for dataset, layer in self.places():
            arms = self.arms(dataset, layer)
            for arm in arms:
                if other := reference(arm, next(iter(arms))):
                    references[arm] = other
        return {arm: one for arm, one in self.family(references).items() if self.made(arm)}

    def family(self, references: dict[str, str]) -> dict[str, Difference]:
        return compare_family(self.plan, self.frame, references, self.ratios)

    @property
    def compared(self) -> tuple[dict[str, Difference], str]:
        """The differences to the baseline, else to the first value of the axis, and what they are to; "" if none."""
        if self.against:
            return self.against, self.names
        return self.steps, point_text(self.layout.points[0]) if self.steps else ""

    @property
    def picked(self) -> bool:
        """Says whether some place has more comparisons than words name."""
        families = ([arm for arm, one in found.items() if one.valued] for found in (self.against, self.steps))
        counts = (Counter(self.where[arm][0] for arm in found) for found in families)
        return any(count > MOST_NAMED for by_place in counts for count in by_place.values())

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

    @property
    def shown(self) -> set[str]:
        """The arms of the ablation and those that they are compared with."""
        return {*self.where, *self.known.values()}

    def mean(self, arm: str) -> float:
        return canonical(float(self.summary.loc[arm, "mean"]))  # to 12 digits, so that ties are ties

    def standing(self, arm: str, metric: Metric) -> float:
        """Returns the mean of an arm, turned such that higher is better; the lowest of all without results."""
        return SIGN[metric.direction] * self.mean(arm) if self.summary.loc[arm, "n"] else -math.inf

    def mark(self, arm: str) -> str:
        return " †" if arm in self.biased else ""

    def made(self, arm: str) -> bool:
        """Says whether any planned fit of an arm was made, or failed before it."""
        return bool(self.summary.loc[arm, "missing"] < self.summary.loc[arm, "planned"])

    def whole(self, arm: str) -> bool:
        """Says whether all planned fits of an arm are ok."""
        return bool(self.summary.loc[arm, "n"] and self.summary.loc[arm, "n"] == self.summary.loc[arm, "planned"])


def words(
    plan: dict[str, Any],
    ablation: str,
    frame: "pandas.DataFrame",
    ratios: dict[str, float | None],
    found: dict[str, Floor] | None = None,
) -> Words:
    """Returns what the records say of an ablation: every setting against the baseline in numbers of places, with what
    holds after Holm and how large a difference has to be for that; the best setting of each data set and layer, how
    values compare pair by pair, and the course along an axis.

    Args:
        ratios: n_test / n_train of each data set's splits; None if unknown.
        found: The arms against predictors that look at no graph, as `floors` returns it.
    """
    reader = _Reader(plan, ablation, frame, ratios)
    details, not_run, failed = [], [], []
    for dataset in reader.layout.datasets:
        for layer in reader.layout.layers:
            arms, metric = reader.arms(dataset, layer), reader.metrics.get(dataset)
            if not arms:
                continue
            run = [arm for arm in arms if reader.summary.loc[arm, "n"]]
            if not run or metric is None:
                (failed if any(map(reader.made, arms)) else not_run).append(f"{dataset} {layer}")
                continue
            details.append(_place(reader, dataset, layer, arms, run, metric))
    if not details:
        return Words(f"No result: {ALL_FAILED}." if failed else "Not run: nothing of this ablation.", [], [])
    overall = [*_tests(reader), *_pairwise(reader)]
    if len(reader.layout.points) > 2:
        overall.append(PICKED if reader.picked else BEST_PICKED)
    table = axis_table(plan, ablation, frame, ratios)
    details += _courses(table, reader) if table else []
    if failed:
        overall.append(f"No result on {listing(failed, 12)}: {ALL_FAILED}.")
    if not_run:
        overall.append(f"Not run: {listing(not_run, 12)}.")
    return Words(_summary(reader, found or {}), overall, details)


def _place(reader: _Reader, dataset: str, layer: str, arms: dict[str, Point], run: list[str], metric: Metric) -> str:
    """Returns the sentence of a data set and layer: its best mean, and its settings against the baseline."""
    best = max(run, key=lambda arm: reader.standing(arm, metric))
    row = reader.summary.loc[best]
    count = counted(row["n"], "fit") if reader.whole(best) else f"{row['n']} of {row['planned']} fits"
    lacking = f" ({len(arms) - len(run)} without a result)" if len(run) < len(arms) else ""
    of = f"of {counted(len(arms), 'setting')}{lacking}"
    text = f"{dataset}, {layer}: " + (f"{of} the best is " if len(arms) > 1 else "")
    value = f"{metric.spread(row['mean'], row['std'])} ({count}){reader.mark(best)}"
    text += f"{point_text(arms[best])}, {metric.title} {value}"
    if equal := [point_text(arms[arm]) for arm in run if arm != best and reader.mean(arm) == reader.mean(best)]:
        text += f", and {listing(equal)} {'has' if len(equal) == 1 else 'have'} the same mean"
    name = baseline_name(layer)
    if others := [arm for arm in arms if arm in reader.against]:
        text += f"; against {name}: {_compared(reader, others, arms, reader.against, metric)}"
    elif any(arm in reader.known for arm in arms):
        text += f"; against {name} not testable: the arms that could be compared have no result"
    else:
        text += f"; no {name} arm with the same network and training is in the study"
    if others := [arm for arm in arms if arm in reader.steps]:
        first = point_text(next(iter(arms.values())))
        text += f"; against {first}: {_compared(reader, others, arms, reader.steps, metric)}"
    return f"{text}."


def _compared(
    reader: _Reader, others: list[str], arms: dict[str, Point], found: dict[str, Difference], metric: Metric
) -> str:
    """Returns "mean +1.5 [...], p 1 (Holm), not told apart; ssma ..."; of many with results the best and the worst."""
    valued = [arm for arm in others if found[arm].valued]
    if len(valued) <= MOST_NAMED:
        return "; ".join(f"{point_text(arms[arm])} {found[arm].text}{reader.mark(arm)}" for arm in others)
    ranked = sorted(valued, key=lambda arm: reader.standing(arm, metric), reverse=True)
    return "; ".join(
        f"the {which} of {len(valued)}, {point_text(arms[arm])}, {found[arm].text}{reader.mark(arm)}"
        for which, arm in (("best", ranked[0]), ("worst", ranked[-1]))
    )


def _summary(reader: _Reader, floors: dict[str, Floor]) -> str:
    """Returns the result in short: what holds after Holm, what the means alone say, and who is above the floor."""
    found, reference = reader.compared
    if not reference and reader.known:
        none = f"No difference from {reader.names} could be tested"
        sentences = [f"{none}: the arms that could be compared have no result."]
    elif not reference:
        sentences = [f"No {reader.names} arm with the same network and training is in the study."]
    else:
        sentences = [_held(reader, found, reference), _means(reader, found)]
    if floors:
        sentences.append(f"{below_text(floors)} ({MARK}).")
    missing = report_options(reader.plan).missing
    if missing != "not_testable" and any(reader.made(arm) and not reader.whole(arm) for arm in reader.shown):
        sentences.append(TREATED[missing])
    sentences += chosen_by_test(reader.plan, list(reader.where))
    return " ".join(sentences)


def _held(reader: _Reader, found: dict[str, Difference], reference: str) -> str:
    """Returns "Differences from sum that hold after Holm: none of 12, over 6 places (data set and layer), ..."."""
    tested = {arm: one for arm, one in found.items() if one.p is not None}
    if not tested:
        return f"No difference from {reference} could be tested."
    places = len({reader.where[arm][0] for arm in tested})
    held = [f"{reader.where[arm][1]} {one.side} on {reader.where[arm][0]}" for arm, one in tested.items() if one.holds]
    text = f"Differences from {reference} that hold after Holm: {len(held) or 'none'} of {len(tested)}, "
    text += f"over {counted(places, 'place')} (data set and layer), "
    text += f"{counts((one.found.difference.n for one in tested.values()), 'pair')} each"
    text += f": {listing(held)}." if held else "."
    return f"{text} {alone}" if (alone := seeds_alone(reader.plan, tested)) else text


def _means(reader: _Reader, found: dict[str, Difference]) -> str:
    groups: dict[str, list[Difference]] = {}
    for arm, one in found.items():
        groups.setdefault(reader.where[arm][1], []).append(one)
    if len(groups) > MOST_NAMED:
        return f"By the means alone the {len(groups)} settings are {_sides(list(found.values()), 'comparison')}."
    return f"By the means alone: {'; '.join(f'{name} {_sides(ones)}' for name, ones in groups.items())}."


def _sides(found: list[Difference], noun: str = "place") -> str:
    """Returns "better at 2, worse at 4 of 6 places"."""
    sides = [one.side for one in found]
    text = f"better at {sides.count('better')}, worse at {sides.count('worse')}"
    rest = "".join(f", {side} at {sides.count(side)}" for side in ("equal", UNTESTED) if side in sides)
    return f"{text}{rest} of {counted(len(found), noun)}"


def _tests(reader: _Reader) -> list[str]:
    """Says how differences were tested, and how large an observed one has to be, per metric."""
    found, _ = reader.compared
    tested = {arm: one for arm, one in found.items() if one.p is not None}
    if not tested:
        return []
    groups: dict[str, list[Difference]] = {}
    for one in tested.values():
        groups.setdefault(one.metric.title, []).append(one)
    family, sentences = len(tested), [TESTED]
    for title, ones in groups.items():
        text = f"An observed mean difference ({title}, by place) needs to exceed {_span(ones, 1)} to reach "
        text += f"p < {ALPHA} alone"
        text += f", and {_span(ones, family)} to be the first to hold after Holm over {family}" if family > 1 else ""
        sentences.append(f"{text}.")
    return [" ".join(sentences)]


def _span(found: list[Difference], family: int) -> str:
    """Returns "3.1 to 14.0", or one number if all are written alike; and how many no difference can exceed."""
    needed, metric = [one.t.needed(family) for one in found], found[0].metric
    low, high = (metric.text(value) for value in (min(needed), max(needed)))
    text = low if low == high else f"{low} to {high}"
    beyond = sum(value >= 1 for value in needed) if metric.name in SHARES else 0
    beside = f" (no difference can, at {beyond} of {len(needed)}: they end at {metric.text(1.0)})"
    return text + (beside if beyond else "")


def _pairwise(reader: _Reader) -> list[str]:
    """Returns a sentence for each value of each axis without a scale, against the first one, all else being the same.

    The p values are adjusted over all pairs of an axis. How they are tested, and of which data sets pairs are seeds
    alone, is said where the comparisons with a baseline have not said it.
    """
    sentences: list[str] = []
    tested: set[str] = set()
    for key, values in reader.axes.items():
        if is_numeric(values) or key == "aggregator":
            continue
        references: dict[str, str] = {}
        groups: dict[str, dict[str, list[str]]] = {}
        for dataset, layer in reader.places():
            for point in reader.layout.points:
                arm = reader.layout.arm(dataset, layer, point)
                reference = reader.layout.arm(dataset, layer, point | {key: values[0]})
                if not (arm and reference) or arm == reference or arm in references:
                    continue
                if reader.whole(arm) and reader.whole(reference):
                    references[arm] = reference
                    groups.setdefault(value_text(point[key]), {}).setdefault(layer, []).append(arm)
        found, name = reader.family(references), setting(key)
        tested |= _tested(found)
        name = name if "." in name else name[0].upper() + name[1:]  # an option of one's own class stays as it is
        for value, by_layer in groups.items():
            told = [(layer, _tally([found[arm] for arm in arms])) for layer, arms in by_layer.items()]
            parts = [f"{layer}: {text}" if len(told) > 1 else text for layer, text in told]
            sentences.append(
                f"{name}, {value} against {value_text(values[0])}, pairs that differ in nothing "
                f"else (Holm over {tests_of(found.values())}): {', '.join(parts)}."
            )
    before, alone = _tested(reader.compared[0]), seeds_alone(reader.plan, tested)
    if tested and not before:
        sentences.insert(0, TESTED)
    if alone and alone != seeds_alone(reader.plan, before):
        sentences.append(alone)
    return sentences


def _tested(found: dict[str, Difference]) -> set[str]:
    """Returns the arms whose difference could be tested."""
    return {arm for arm, one in found.items() if one.p is not None}


def _tally(found: list[Difference]) -> str:
    held = [one.side for one in found if one.holds]
    after = f"after Holm {held.count('better')} better, {held.count('worse')} worse"
    return f"by the mean alone {_sides(found, 'pair')}; {after}"


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
