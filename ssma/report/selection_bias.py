"""What the way of choosing is worth: three selection rules on the same trials, at no extra training.

``validation`` takes the trial with the best mean validation metric, ``per_split`` for every split the trial that its
own validation part prefers, ``test`` the trial with the best mean test metric: the paper's rule, which is biased.
A maximum is never below another element of its set, so that the optimism of ``test`` over ``validation`` is 0 or more
by construction, whatever the data: how large it is says something, that it is positive does not.
"""

import math
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ssma.report import figures
from ssma.report.folds import seen_in_tuning
from ssma.report.labels import Metric, listing, metrics_of, point_text
from ssma.report.statistics import BIASED, summarise
from ssma.report.table import Cell, Table
from ssma.statistics.describe import SMALLEST
from ssma.statistics.outcome import Interval, NotTestable
from ssma.statistics.pairs import corrected_t, paired_differences
from ssma.tune.select import SIGN, Scores, choose, mean_score

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

RULES = ("validation", "per_split", "test")
NAME = "selection_bias"
MOST_ARMS = 30  # of a panel
LOOKS = {"validation": ("o", "#0173b2", -0.2), "per_split": ("s", "#029e73", 0.0), "test": ("D", "#d55e00", 0.2)}
"""Rule -> marker, colour (seaborn's colour-blind palette), and place beside its arm's line."""


@dataclass(frozen=True)
class Outcome:
    """What a rule would report: the test metric on each tuned split, of the trial that the rule takes there."""

    trials: dict[int, int]
    tests: "pandas.Series"

    @property
    def mean(self) -> float:
        return float(self.tests.mean())

    @property
    def std(self) -> float:
        return float(self.tests.std(ddof=1))

    @property
    def n(self) -> int:
        return int(self.tests.notna().sum())


@dataclass(frozen=True)
class Bias:
    """The rules on one arm's trials.

    ``gains`` are the flattery of ``test`` over ``validation`` on each split that has a test metric of both, in raw
    units; ``usable`` counts the complete trials that have all their records; ``shared`` says for ``validation`` and
    ``test`` how many of them share the best mean, to 12 digits.
    """

    outcomes: dict[str, Outcome]
    gains: tuple[float, ...]
    states: dict[str, int]
    usable: int
    shared: dict[str, int]

    @property
    def optimism(self) -> float:
        """The mean of the gains, NaN if there are none."""
        return math.fsum(self.gains) / len(self.gains) if self.gains else math.nan


def selection_bias(rows: "pandas.DataFrame") -> Bias:
    """Returns what each rule would report of one arm; a rule that has no trial to take is left out.

    Only complete trials can be chosen, by ``test`` only those with a test metric on every split. Where the one that
    ``validation`` takes lacks some, it is not among them, and only then can the optimism be below 0.

    Args:
        rows: The arm's tuning rows of the frame.
    """
    import pandas

    states = rows.drop_duplicates("trial")["trial_state"].value_counts().to_dict()
    complete = rows[rows["trial_state"] == "complete"]
    splits = sorted(int(split) for split in complete["split"].dropna().unique())
    by_validation = _whole(complete, "validation", splits)
    by_test = {trial: scores for trial, scores in _whole(complete, "test", splits).items() if trial in by_validation}
    tests = {int(trial): part.set_index("split")["test"] for trial, part in complete.groupby("trial")}

    def outcome(scores: Scores, per_split: bool = False) -> Outcome:
        trials = choose(scores, splits, complete["direction"].iloc[0], per_split)
        return Outcome(trials, pandas.Series([tests[trials[s]][s] for s in splits], index=splits, dtype=float))

    outcomes, shared, gains = {}, {}, ()
    if by_validation:
        outcomes = {"validation": outcome(by_validation), "per_split": outcome(by_validation, per_split=True)}
        shared["validation"] = _sharing_the_best(by_validation, complete["direction"].iloc[0])
    if by_test:
        outcomes["test"] = outcome(by_test)
        shared["test"] = _sharing_the_best(by_test, complete["direction"].iloc[0])
        gains = _gains(outcomes["validation"].tests, outcomes["test"].tests, complete["direction"].iloc[0])
    return Bias(outcomes, gains, states, len(by_validation), shared)


def _gains(by_validation: "pandas.Series", by_test: "pandas.Series", direction: str) -> tuple[float, ...]:
    both = by_validation.notna() & by_test.notna()
    if not both.any():
        return ()
    return tuple(float(SIGN[direction] * gain) for gain in paired_differences(by_test[both], by_validation[both]))


def _sharing_the_best(scores: Scores, direction: str) -> int:
    means = [SIGN[direction] * mean_score(of_splits) for of_splits in scores.values()]
    return means.count(max(means))


def biases(frame: "pandas.DataFrame") -> dict[str, Bias]:
    """Returns the rules on the trials of every arm that has any."""
    return {arm: selection_bias(rows) for arm, rows in frame[frame["stage"] == "tune"].groupby("arm", sort=False)}


def _whole(complete: "pandas.DataFrame", column: str, splits: list[int]) -> Scores:
    """Returns trial -> split -> score, of trials that have it on every split."""
    scores = {
        int(trial): {int(row.split): float(row.score) for row in part.rename(columns={column: "score"}).itertuples()}
        for trial, part in complete.dropna(subset=["split", column]).groupby("trial")
    }
    return {trial: of_splits for trial, of_splits in scores.items() if sorted(of_splits) == splits}


CAPTION = (
    "Selection bias: what each rule would report, from the same tuning fits. Validation: the complete trial with "
    "the best mean validation metric; per split: for every split the trial that its own validation part prefers; "
    f"test: the best mean test metric, the paper's rule, {BIASED}. Test metric, mean ± sample standard deviation "
    "over the tuned splits (their number). Share the best: how many of the complete trials have the best mean, to "
    "12 digits; the earliest of them is taken. Optimism: test minus validation in the units of the "
    "metric, positive where it flatters. Where no test metric lacks it is never below 0, as the best test metric of "
    "some trials is not below that of another one of them: its size says something, its sign does not, nor is its "
    "mean evidence by itself. 95% interval: corrected resampled t-test over the tuned splits, paired (Nadeau and "
    "Bengio 2003); both trials were picked by numbers of the same fits, so that it describes them and tests nothing. "
    "An arm with one configuration has nothing to choose and shows its evaluation fits, over the evaluation splits."
)
SHARED = ("validation", "test")
COLUMNS = ["data set", "layer", "aggregator", "fixed settings", "trials planned", "complete", "pruned", "failed",
           "validation", "per split", "test † (biased)", "share the best validation", "share the best test",
           "optimism of test", "95% interval of optimism"]  # fmt: skip


def table(
    plan: dict[str, Any], frame: "pandas.DataFrame", found: dict[str, Bias], ratios: dict[str, float | None]
) -> Table:
    """Returns a row per arm: what each rule would report, and the optimism of ``test``; its mean per aggregator below.

    Args:
        plan: The plan.
        frame: The records.
        found: What ``biases`` returns of the frame.
        ratios: n_test / n_train of each data set's splits; None if unknown.
    """
    summary, metrics, rows, untested = summarise(frame), metrics_of(frame), [], []
    for arm in plan["arms"]:
        facts = [arm["dataset"], arm["layer"], arm["aggregator"], point_text(arm["fixed"]), str(arm["trials"])]
        bias, metric = found.get(arm["id"]), metrics.get(arm["dataset"])
        if arm["trials"] == 0:
            numbers = [*map(Cell, "–––"), *_one_configuration(summary.loc[arm["id"]], metric)]
        elif bias is None or metric is None:
            numbers = [Cell("–")] * (len(COLUMNS) - len(facts))
        else:
            numbers = [*map(Cell, _counts(bias)), *(_cell(bias, rule, metric) for rule in RULES)]
            numbers += [
                Cell(f"{bias.shared[rule]} of {bias.usable}" if rule in bias.shared else "–") for rule in SHARED
            ]
            numbers += _optimism(arm, bias, metric, ratios.get(arm["dataset"]), untested)
        rows.append([replace(cell, arm=arm["id"]) for cell in [*map(Cell, facts), *numbers]])
    below = _reasons(untested) + _means(plan, found, metrics)
    return Table(NAME, CAPTION, COLUMNS, rows, seen_in_tuning(plan), grouped=True, footnotes=below)


def _counts(bias: Bias) -> list[str]:
    complete = bias.states.get("complete", 0)
    whole = str(complete) if bias.usable == complete else f"{bias.usable}/{complete} with all records"
    return [whole, *(str(bias.states.get(state, 0)) for state in ("pruned", "failed"))]


def _one_configuration(result: "pandas.Series", metric: Metric | None) -> list[Cell]:
    nothing = [Cell("–"), Cell("–"), Cell("nothing to choose"), Cell("–")]
    if metric is None or not result["n"]:
        return [*map(Cell, "–––"), *nothing]
    text = f"{metric.spread(result['mean'], result['std'])} ({result['n']})"
    return [Cell(text, numbers=_numbers(result["mean"], result["std"], result["n"], metric))] * 3 + nothing


def _cell(bias: Bias, rule: str, metric: Metric) -> Cell:
    found = bias.outcomes.get(rule)
    if found is None or not found.n:
        return Cell("–")
    count = str(found.n) if found.n == len(found.tests) else f"{found.n}/{len(found.tests)}"
    text = f"{metric.spread(found.mean, found.std)} ({count})" + (" †" if rule == "test" else "")
    return Cell(text, numbers=_numbers(found.mean, found.std, found.n, metric))


def _optimism(
    arm: dict[str, Any], bias: Bias, metric: Metric, ratio: float | None, untested: list[str]
) -> tuple[Cell, Cell]:
    """Returns the entries of the optimism and of its interval; a reason why there is none is added to ``untested``."""
    if not bias.gains:
        return Cell("–"), Cell("–")
    n, splits = len(bias.gains), len(bias.outcomes["test"].tests)
    text = _signed(bias.optimism, metric) + ("" if n == splits else f" (on {n} of {splits} splits)")
    text += " (nothing to choose)" if arm["trials"] == 1 else " (one trial is left)" if bias.usable == 1 else ""
    optimism = Cell(text, numbers=(bias.optimism * metric.factor, None, n))
    interval = _interval(bias, ratio)
    if isinstance(interval, NotTestable):
        untested.append(interval.reason)
        return optimism, Cell("not testable")
    ends = (interval.low * metric.factor, interval.high * metric.factor)
    return replace(optimism, interval=ends), Cell(metric.interval(interval, signed=True))


def _interval(bias: Bias, ratio: float | None) -> Interval | NotTestable:
    """Returns the interval of the mean gain over the tuned splits, by the corrected resampled t-test."""
    if bias.outcomes["test"].trials == bias.outcomes["validation"].trials:
        return NotTestable("both rules take the same trial")
    if len(bias.gains) < SMALLEST:
        return NotTestable(f"{len(bias.gains)} of the {SMALLEST} splits that an interval needs")
    found = corrected_t(bias.gains, ratio)
    return found if isinstance(found, NotTestable) else found.interval


def _reasons(untested: list[str]) -> list[str]:
    """Returns a line that says why there are intervals that cannot be had."""
    counts = {reason: untested.count(reason) for reason in untested}
    told = "; ".join(f"{reason} ({count} arm{'' if count == 1 else 's'})" for reason, count in counts.items())
    return [f"Not testable, which never means that there is no optimism: {told}."] if told else []


def _means(plan: dict[str, Any], found: dict[str, Bias], metrics: dict[str, Metric]) -> list[str]:
    """Returns a line per aggregator and metric: the mean optimism over the arms that have a choice."""
    groups: dict[tuple[str, Metric], list[tuple[dict[str, Any], Bias]]] = {}
    for arm in plan["arms"]:
        bias = found.get(arm["id"])
        if bias is not None and bias.usable > 1 and bias.gains:
            groups.setdefault((arm["aggregator"], metrics[arm["dataset"]]), []).append((arm, bias))
    return [
        f"Optimism of test with {name}, {metric.title}: mean {_mean(arms, metric)}"
        for (name, metric), arms in groups.items()
    ]


def _mean(arms: list[tuple[dict[str, Any], Bias]], metric: Metric) -> str:
    values = [bias.optimism for _, bias in arms]
    same = sum(bias.outcomes["test"].trials == bias.outcomes["validation"].trials for _, bias in arms)
    places = f"{listing(arm['dataset'] for arm, _ in arms)}; {listing(arm['layer'] for arm, _ in arms)}"
    usable = sorted({bias.usable for _, bias in arms})
    trials = str(usable[0]) if len(usable) == 1 else f"{usable[0]} to {usable[-1]}"
    return (
        f"{_signed(math.fsum(values) / len(values), metric)} over n = {len(arms)} arms ({places}), from "
        f"{_signed(min(values), metric)} to {_signed(max(values), metric)}, best of {trials} trials each; both rules "
        f"take the same trial in {same} of {len(arms)}."
    )


def _signed(value: float, metric: Metric) -> str:
    return metric.text(value, signed=True) if abs(value) > 1e-12 else metric.text(0.0)  # equal but for rounding


def _numbers(mean: float, std: float, n: int, metric: Metric) -> tuple[float, float | None, int]:
    return float(mean) * metric.factor, None if math.isnan(std) else float(std) * metric.factor, int(n)


def draw(plan: dict[str, Any], frame: "pandas.DataFrame", found: dict[str, Bias]) -> "Figure | None":
    """Returns the figure, a panel per data set with a line per searched arm; None if no arm has a choice to show."""
    panels = {label: arms[:MOST_ARMS] for label, arms in _panels(plan, found).items()}
    if not panels:
        return None
    import matplotlib
    import seaborn

    matplotlib.use("Agg")
    from matplotlib import pyplot

    metrics = metrics_of(frame)
    seaborn.set_theme(style="whitegrid", context="paper", rc=figures.STYLE)
    heights = [len(arms) for arms in panels.values()]
    size = (7.2, 0.9 * len(panels) + 0.5 + 0.24 * sum(heights))
    ratios = [count + 1.5 for count in heights]
    figure, grid = pyplot.subplots(
        len(panels), 1, figsize=size, squeeze=False, layout="constrained", height_ratios=ratios
    )
    for (label, arms), ax in zip(panels.items(), grid[:, 0], strict=True):
        metric = metrics[label]
        for place, (_, bias) in enumerate(arms):
            values = {rule: found.mean * metric.factor for rule, found in bias.outcomes.items() if found.n}
            ax.plot([min(values.values()), max(values.values())], [place, place], color="0.8", lw=1, zorder=1)
            for rule, value in values.items():
                marker, colour, aside = LOOKS[rule]
                ax.scatter(value, place + aside, marker=marker, color=colour, s=22, linewidths=0, zorder=2)
        ax.set_yticks(range(len(arms)), [textwrap.shorten(_name(arm), 60) for arm, _ in arms])
        ax.set_ylim(len(arms) - 0.5, -0.5)
        ax.yaxis.grid(False)
        ax.set_title(label, loc="left", color=figures.INK)
        ax.set_xlabel(f"test {metric.title} {metric.arrow}")
    _legend(figure)
    seaborn.despine(figure, left=True)
    return figure


def caption(plan: dict[str, Any], found: dict[str, Bias]) -> str:
    """Returns what the figure shows, in words."""
    cut = [label for label, arms in _panels(plan, found).items() if len(arms) > MOST_ARMS]
    left_out = f" Of {', '.join(cut)} only the {MOST_ARMS} arms with the largest optimism are shown." if cut else ""
    return (
        "Mean test metric over the tuned splits of the trial that each rule takes, the largest optimism of the test "
        f"rule first. The test rule is {BIASED}; the distance from validation to test is its optimism.{left_out}"
    )


def _panels(plan: dict[str, Any], found: dict[str, Bias]) -> dict[str, list[tuple[dict[str, Any], Bias]]]:
    """Returns by data set the arms that have a choice, the largest optimism first, those without one last."""
    panels: dict[str, list[tuple[dict[str, Any], Bias]]] = {}
    for arm in plan["arms"]:
        bias = found.get(arm["id"])
        if arm["trials"] > 1 and bias is not None and any(outcome.n for outcome in bias.outcomes.values()):
            panels.setdefault(arm["dataset"], []).append((arm, bias))
    return {label: sorted(arms, key=lambda item: -_or_lowest(item[1].optimism)) for label, arms in panels.items()}


def _or_lowest(optimism: float) -> float:
    return -math.inf if math.isnan(optimism) else optimism


def _name(arm: dict[str, Any]) -> str:
    return arm["label"].removeprefix(f"{arm['dataset']} / ")


def _legend(figure: "Figure") -> None:
    from matplotlib.lines import Line2D

    names = {"validation": "validation", "per_split": "per split", "test": "test (biased)"}
    handles = [
        Line2D([], [], ls="none", marker=marker, color=colour, mec="white", label=names[rule])
        for rule, (marker, colour, _) in LOOKS.items()
    ]
    figure.legend(
        handles=handles, title="chosen by", loc="outside upper left", ncols=3, frameon=False, alignment="left"
    )
