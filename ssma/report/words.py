"""What an ablation found, in sentences with numbers. They say what the records hold, and what they cannot say."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssma.report.align import align, report_options
from ssma.report.axes import axis_table
from ssma.report.encoding import is_numeric
from ssma.report.labels import Metric, listing, metrics_of, point_text, setting, value_text
from ssma.report.layout import Layout, Point, lay_out
from ssma.report.statistics import summarise
from ssma.report.table import Table
from ssma.statistics.outcome import Interval, NotTestable
from ssma.statistics.pairs import corrected_t, paired_differences
from ssma.study.ids import canonical_json
from ssma.study.part import baseline_name, baselines

if TYPE_CHECKING:
    import pandas

PICKED = (
    "The best setting was picked by these very test numbers, so that its difference is a description of them and not "
    "the test of a hypothesis."
)


@dataclass(frozen=True)
class Words:
    """Sentences over all data sets and layers, and one per data set and layer."""

    overall: list[str]
    details: list[str]


@dataclass(frozen=True)
class Difference:
    """A paired difference of two arms in raw units; ``None`` where there are no pairs."""

    mean: float | None
    interval: Interval | NotTestable

    def side(self, metric: Metric) -> str:
        """Returns whether the interval lies on the ``better`` or ``worse`` side, holds 0, or is not testable."""
        if isinstance(self.interval, NotTestable):
            return "not testable"
        if self.interval.low <= 0 <= self.interval.high:
            return "holds 0"
        return "better" if (self.interval.low > 0) == (metric.direction == "maximize") else "worse"

    def better(self, metric: Metric) -> bool:
        """Says whether the mean is on the better side."""
        return self.mean is not None and self.mean != 0 and (self.mean > 0) == (metric.direction == "maximize")

    def text(self, metric: Metric) -> str:
        """Returns "+2.1 [−0.4, +4.6], which holds 0"."""
        if self.mean is None:
            return str(self.interval)
        shown = metric.text(self.mean, signed=True)
        if isinstance(self.interval, NotTestable):
            return f"{shown} ({self.interval})"
        side = self.side(metric)
        told = "which holds 0" if side == "holds 0" else f"all of it {side}"
        return f"{shown} {metric.interval(self.interval, signed=True)}, {told}"


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
        aligned = align(self.frame, [arm, reference], self.missing)
        if not len(aligned.values):
            return Difference(None, NotTestable(aligned.reason))
        differences = paired_differences(*aligned.values.T)
        test: Any = NotTestable(aligned.reason) if aligned.reason else None
        test = test or corrected_t(differences, self.ratios.get(dataset) if aligned.by_split else 0.0)
        interval = test if isinstance(test, NotTestable) else test.interval
        return Difference(float(differences.mean()), interval)


def words(plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame", ratios: dict[str, float | None]) -> Words:
    """Returns what the records say of an ablation: the best setting of each data set and layer, its paired difference
    to the baseline with the corrected 95% interval, how values compare pair by pair, and the course along an axis.

    Args:
        plan: The plan.
        ablation: Its name.
        frame: The records.
        ratios: n_test / n_train of each data set's splits; None if unknown.
    """
    reader = _Reader(plan, ablation, frame, ratios)
    details, not_run, against, pairs = [], [], [], {}
    for dataset in reader.layout.datasets:
        for layer in reader.layout.layers:
            arms, metric = reader.arms(dataset, layer), reader.metrics.get(dataset)
            if not arms:
                continue
            run = [arm for arm in arms if reader.summary.loc[arm, "n"]]
            if not run or metric is None:
                not_run.append(f"{dataset} {layer}")
                continue
            sentence, difference = _place(reader, dataset, layer, arms, run, metric)
            details.append(sentence)
            if difference:
                against.append((layer, difference, metric))
            _count_pairs(reader, dataset, layer, metric, pairs)
    overall = _against_baseline(against) + _pairwise(pairs, reader)
    if against and len(reader.layout.points) > 2:
        overall.append(PICKED)
    table = axis_table(plan, ablation, frame, ratios)
    details += _courses(table, reader) if table else []
    if not_run:
        overall.append(f"Not run: {listing(not_run, 12)}." if details else "Not run: nothing of this ablation.")
    return Words(overall, details)


def _place(
    reader: _Reader, dataset: str, layer: str, arms: dict[str, Point], run: list[str], metric: Metric
) -> tuple[str, Difference | None]:
    """Returns the sentence of a data set and layer, and the difference of its best setting to the baseline, if any."""
    best = reader.best(run, metric)
    row = reader.summary.loc[best]
    count = row["n"] if reader.whole(best) else f"{row['n']} of {row['planned']}"
    of = f"of {len(run)} setting{'s' if len(run) > 1 else ''}" + (
        f" ({len(arms) - len(run)} have no result)" if len(run) < len(arms) else ""
    )
    text = f"{dataset}, {layer}: {of} the best is {point_text(arms[best])}, "
    text += f"{metric.title} {metric.spread(row['mean'], row['std'])} ({count} fits)"
    name = baseline_name(layer)
    ours = reader.best([arm for arm in run if arm in reader.known] or run, metric)
    difference = None
    if ours in reader.known:
        difference = reader.difference(ours, reader.known[ours], dataset)
        subject = "" if ours == best else f"{point_text(arms[ours])}, the best of the others, "
        text += f"; {subject}against {name} {difference.text(metric)}"
    elif any(arm in reader.known for arm in arms):
        text += f"; against {name} not testable: the arms that could be compared have no result"
    else:
        text += f"; no {name} arm with the same network and training is in the study"
    if len(reader.axes) == 1 and "aggregator" not in reader.axes and len(arms) > 1:
        first = next(iter(arms))
        for arm in run if len(arms) == 2 else [best]:
            if arm != first:
                against = reader.difference(arm, first, dataset).text(metric)
                text += f"; {point_text(arms[arm])} against {point_text(arms[first])} {against}"
    return f"{text}.", difference


def _against_baseline(found: list[tuple[str, Difference, Metric]]) -> list[str]:
    if not found:
        return []
    names = " or ".join(sorted({baseline_name(layer) for layer, *_ in found}))
    better = sum(difference.better(metric) for _, difference, metric in found)
    sides = [difference.side(metric) for _, difference, metric in found]
    where = "place (data set and layer)" if len(found) == 1 else "places (data set and layer)"
    count = {side: sides.count(side) for side in ("better", "worse", "holds 0", "not testable")}
    return [
        f"Against {names} in the same network and training, the best other setting has a better mean at {better} of "
        f"{len(found)} {where}. The 95% interval of the paired difference lies on the better side at "
        f"{count['better']}, on the worse side at {count['worse']}, holds 0 at {count['holds 0']}, and is not testable "
        f"at {count['not testable']}."
    ]


def _count_pairs(
    reader: _Reader, dataset: str, layer: str, metric: Metric, pairs: dict[tuple[str, str], list[tuple[str, bool]]]
) -> None:
    """Compares the values of each axis that has no scale with its first one, all other settings being the same."""
    for key, values in reader.axes.items():
        if is_numeric(values) or key == "aggregator":
            continue
        first = values[0]
        seen = set()
        for point in reader.layout.points:
            arm = reader.layout.arm(dataset, layer, point)
            reference = reader.layout.arm(dataset, layer, point | {key: first})
            if arm and reference and arm != reference and arm not in seen:
                seen.add(arm)
                if reader.whole(arm) and reader.whole(reference):
                    better = reader.best([reference, arm], metric) == arm
                    pairs.setdefault((key, canonical_json(point[key])), []).append((layer, better))


def _pairwise(pairs: dict[tuple[str, str], list[tuple[str, bool]]], reader: _Reader) -> list[str]:
    sentences = []
    for (key, text), found in pairs.items():
        values = {canonical_json(value): value for value in reader.axes[key]}
        first, value = value_text(reader.axes[key][0]), value_text(values[text])
        layers = dict.fromkeys(layer for layer, _ in found)
        parts = []
        for layer in layers:
            here = [better for name, better in found if name == layer]
            parts.append(f"{layer} {sum(here)} of {len(here)}")
        by_layer = f" ({', '.join(parts)})" if len(layers) > 1 else ""
        wins = sum(better for _, better in found)
        sentences.append(
            f"{setting(key).capitalize()}: {value} has a better mean than {first} in {wins} of {len(found)} pairs that "
            f"differ in nothing else{by_layer}."
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
