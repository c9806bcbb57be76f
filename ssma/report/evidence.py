"""What a claim rests on: arms compared split by split, and the rules by which comparisons become a verdict."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ssma.report.align import report_options
from ssma.report.labels import Metric, metrics_of
from ssma.report.paired import rope_of
from ssma.report.paper_cells import OPERATOR, PAPERS_SSMA, alike, paper_dataset, paper_layer, ssma_options, treatment
from ssma.report.paper_tables import Beside
from ssma.report.statistics import units_of
from ssma.statistics.outcome import ALPHA, NotTestable
from ssma.statistics.pairs import CorrectedT, corrected_t, holm, mean_difference, paired_differences
from ssma.study.cost import counted
from ssma.study.ids import canonical_json
from ssma.study.space import IDLE

if TYPE_CHECKING:
    import pandas

SUPPORTED, CONTRADICTED, UNDECIDED, NOT_RUN = "supported", "contradicted", "undecided", "not run"
"""Verdicts."""


@dataclass(frozen=True)
class Comparison:
    """An arm against a reference by the corrected resampled t-test: a gain in raw units, where positive is better.

    ``gains`` holds one per unit. ``margin`` is half the region of practical equivalence, in the same units.
    """

    arm: str
    reference: str
    metric: Metric
    gains: tuple[float, ...]
    test_train_ratio: float
    test: CorrectedT
    margin: float

    @property
    def gain(self) -> float:
        return mean_difference(self.gains)

    @property
    def low(self) -> float:
        return self.test.interval.low

    @property
    def high(self) -> float:
        return self.test.interval.high

    def p_against(self, gain: float) -> float:
        """Returns the two-sided p value of the hypothesis that the gain is ``gain``."""
        found = corrected_t([one - gain for one in self.gains], self.test_train_ratio)
        return found.p if isinstance(found, CorrectedT) else 1.0  # beside ``gain`` they differ by rounding only


@dataclass(frozen=True)
class Verdict:
    """What the records say of a claim, with the numbers, the test and the comparisons behind it."""

    verdict: str
    evidence: str
    test: str
    comparisons: list[Comparison] = field(default_factory=list)
    table: str = ""


@dataclass(frozen=True)
class Records:
    """A study's plan and frame, and the paper's tables beside them.

    ``ratios`` has n_test / n_train of each data set's splits, None if unknown.
    """

    plan: dict[str, Any]
    frame: "pandas.DataFrame"
    ratios: dict[str, float | None]
    tables: dict[str, Beside]
    compared: dict[tuple[str, str], Comparison | None] = field(default_factory=dict)

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        return metrics_of(self.frame)

    @cached_property
    def arms(self) -> dict[str, dict[str, Any]]:
        return {arm["id"]: arm for arm in self.plan["arms"]}

    def place(self, arm: dict[str, Any]) -> tuple[str | None, str | None]:
        """Returns data set and layer of an arm as the paper names them."""
        return paper_dataset(self.plan["datasets"][arm["dataset"]]["spec"]), paper_layer(arm)

    def whole(self, arm: str) -> bool:
        """Says whether an arm has all its planned fits."""
        return arm in units_of(self.frame)

    def compare(self, arm: str, reference: str) -> Comparison | None:
        """Compares two arms; None where that cannot be done.

        That is if fits are lacking, their splits differ, network or training were not alike, or there is no interval
        (one pair, or no spread).
        """
        if (arm, reference) not in self.compared:
            self.compared[arm, reference] = self._compare(arm, reference)
        return self.compared[arm, reference]

    def _compare(self, arm: str, reference: str) -> Comparison | None:
        ours, base = (units_of(self.frame).get(name) for name in (arm, reference))
        if ours is None or base is None or not alike(self.arms[arm], self.arms[reference]):
            return None
        if set(ours.index) != set(base.index):
            return None
        dataset = self.arms[arm]["dataset"]
        metric = self.metrics[dataset]
        better, worse = (ours, base) if metric.higher_is_better else (base, ours)
        gains = paired_differences(better.loc[ours.index], worse.loc[ours.index])
        ratio = 0.0 if "repeat" in ours.index.names else self.ratios.get(dataset)
        test = corrected_t(gains, ratio)
        if ratio is None or isinstance(test, NotTestable):
            return None
        margin = rope_of(metric, base.to_numpy(), report_options(self.plan))
        return Comparison(arm, reference, metric, tuple(map(float, gains)), ratio, test, margin)

    def ssma_arms(
        self, datasets: Iterable[str], layers: Iterable[str], varied: str = "", fixed: Iterable[str] = ()
    ) -> list[dict[str, Any]]:
        """Returns the SSMA arms on the paper's data sets and layers, of its operator in all options but ``varied``, and
        with its values of further options, ``fixed``.
        """
        wanted = {(dataset, layer) for dataset in datasets for layer in layers}
        found = [arm for arm in self.plan["arms"] if arm["aggregator"] == "ssma" and self.place(arm) in wanted]
        papers = {key: PAPERS_SSMA[key] for key in (*OPERATOR, "ssma.learn_affine", *fixed) if key != varied}
        known = [arm for arm in found if not papers.keys() & arm["space"].keys()]
        return [arm for arm in known if papers.items() <= ssma_options(arm).items()]

    def cells(self, comparisons: Iterable[Comparison], *keys: str) -> dict[tuple, list[Comparison]]:
        """Groups comparisons by the cell that they fall into: data set, layer, and these settings of their arms."""
        cells: dict[tuple, list[Comparison]] = {}
        for one in comparisons:
            arm = self.arms[one.arm]
            options = ssma_options(arm) | {"model.budget": arm["settings"]["model"].get("budget")}
            cells.setdefault((*self.place(arm), *(options[key] for key in keys)), []).append(one)
        return cells

    def places(self, comparisons: Iterable[Comparison], *keys: str) -> int:
        """Counts the cells that comparisons fall into."""
        return len(self.cells(comparisons, *keys))

    def series(self, arms: Iterable[dict[str, Any]], axis: str) -> list[dict[Any, dict[str, Any]]]:
        """Groups arms that differ in one setting only; each group maps its values to arms, in rising order.

        An arm lacks the settings that its value makes idle, as random selection does the temperature: it is in the
        group of every value that they have in other arms. Where others search them, these are in no group.
        """
        groups: dict[str, dict[str, dict[Any, dict[str, Any]]]] = {}
        group, _, key = axis.partition(".")
        idle = [name for name, (other, _) in IDLE.items() if other == axis]
        for arm in arms:
            if arm["space"].keys() & {axis, *idle}:
                continue
            value = ssma_options(arm)[axis] if group == "ssma" else arm["settings"][group].get(key)
            rest = {f"ssma.{name}": item for name, item in arm["settings"]["aggregator"].items()} | treatment(arm)
            rest |= {name: ["searched", values] for name, values in arm["space"].items()}
            rest.pop(axis, None)
            apart = {name: rest.pop(name) for name in idle if name in rest}
            same = [arm[name] for name in ("dataset", "layer", "aggregator", "splits", "repeats", "selection")]
            groups.setdefault(canonical_json([*same, rest]), {}).setdefault(canonical_json(apart), {})[value] = arm
        found = []
        for parts in groups.values():
            shared = parts.pop(canonical_json({}), {})
            found += [part | shared for part in parts.values()] or [shared]
        return [dict(sorted(values.items())) for values in found if len(values) > 1]

    def sum_of(self, arm: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the arm with a sum and the same data, layer, network and training; one with results first."""
        same = [
            other
            for other in self.plan["arms"]
            if (other["layer"], other["aggregator"]) == (arm["layer"], "sum") and alike(arm, other)
        ]
        return min(same, key=lambda other: not self.whole(other["id"]), default=None)


def significant(comparisons: Sequence[Comparison], against: Callable[[Comparison], float], below: bool) -> int:
    """Counts comparisons whose gain is below (or above) ``against`` at a Holm-adjusted p under 0.05."""
    adjusted = holm([one.p_against(against(one)) for one in comparisons])
    return sum(
        p < ALPHA and (one.gain < against(one) if below else one.gain > against(one))
        for p, one in zip(adjusted, comparisons, strict=True)
    )


EVERY = (
    "corrected resampled t-test, paired by split: every pair at p < 0.05 (intersection-union) in all cells; one on the "
    "other side at Holm-adjusted p < 0.05 contradicts"
)
"""The test of a claim about every cell."""


def every_gain(comparisons: Sequence[Comparison], named: int, run: int | None = None, missing: str = "") -> Verdict:
    """Judges the claim that all comparisons in ``named`` cells are gains.

    Supported if all cells were run (``run``, by default one for each comparison) and each 95% interval lies above 0;
    contradicted if one comparison is a loss at a Holm-adjusted p under 0.05; else undecided.
    """
    run = len(comparisons) if run is None else run
    if not comparisons:
        return Verdict(NOT_RUN, f"0 of {named} cells run{missing}", EVERY)
    means = [sum(one.gain > 0 for one in comparisons), sum(one.gain < 0 for one in comparisons)]
    better, worse = (significant(comparisons, lambda one: 0.0, below=below) for below in (False, True))
    evidence = (
        f"{run} of {named} cells run{missing}: mean gain above 0 in {means[0]} and below in {means[1]} of "
        f"{counted(len(comparisons), 'pair')}; after Holm {better} better, {worse} worse"
    )
    supported = run == named and all(one.low > 0 for one in comparisons)
    verdict = CONTRADICTED if worse else SUPPORTED if supported else UNDECIDED
    return Verdict(verdict, evidence, EVERY, list(comparisons))


def no_loss(comparisons: Sequence[Comparison], named: int, run: int) -> Verdict:
    """Judges the claim that no comparison in ``named`` cells, ``run`` of them run, loses more than the margin.

    Supported if all cells were run and each 95% interval lies above minus the margin; contradicted if one comparison
    lies below it at a Holm-adjusted p under 0.05; else undecided.
    """
    test = f"against minus the margin (the region of practical equivalence): {EVERY}"
    if not comparisons:
        return Verdict(NOT_RUN, f"0 of {named} cells run", test)
    kept, lost = (significant(comparisons, lambda one: -one.margin, below=below) for below in (False, True))
    told = f"no loss beyond the margin in {kept} of {counted(len(comparisons), 'pair')}, a loss beyond it in {lost}"
    evidence = f"{run} of {named} cells run: after Holm {told}"
    supported = run == named and all(one.low > -one.margin for one in comparisons)
    verdict = CONTRADICTED if lost else SUPPORTED if supported else UNDECIDED
    return Verdict(verdict, evidence, test, list(comparisons))
