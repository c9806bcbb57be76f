"""What the way of choosing is worth: three selection rules on the same trials, at no extra training.

``validation`` takes the trial with the best mean validation metric, ``per_split`` for every split the trial that its
own validation part prefers, ``test`` the trial with the best mean test metric: the paper's rule, which is biased.
"""

import math
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ssma.report import figures
from ssma.report.labels import Metric, metrics_of, point_text
from ssma.report.statistics import BIASED, summarise
from ssma.report.table import Cell, Table
from ssma.tune.select import SIGN, Scores, choose

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

    ``optimism`` is that of ``test`` over ``validation``, positive where it flatters; ``usable`` counts the complete
    trials that have all their records.
    """

    outcomes: dict[str, Outcome]
    optimism: float
    states: dict[str, int]
    usable: int


def selection_bias(rows: "pandas.DataFrame") -> Bias:
    """Returns what each rule would report of one arm; a rule that has no trial to take is left out.

    Only complete trials can be chosen, by ``test`` only those with a test metric on every split. ``optimism`` is the
    mean difference over the splits on which both rules have a test metric, in raw units, NaN if there is none.

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

    outcomes = {}
    if by_validation:
        outcomes = {"validation": outcome(by_validation), "per_split": outcome(by_validation, per_split=True)}
    optimism = math.nan
    if by_test:
        outcomes["test"] = outcome(by_test)
        gain = outcomes["test"].tests - outcomes["validation"].tests
        optimism = float(SIGN[complete["direction"].iloc[0]] * gain.mean())
    return Bias(outcomes, optimism, states, len(by_validation))


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


COLUMNS = ["data set", "layer", "aggregator", "fixed settings", "trials planned", "complete", "pruned", "failed",
           "validation", "per split", "test † (biased)", "optimism of test"]  # fmt: skip


def table(plan: dict[str, Any], frame: "pandas.DataFrame", found: dict[str, Bias]) -> Table:
    """Returns a row per arm: what each rule would report, and the optimism of ``test``.

    Args:
        found: What ``biases`` returns of the frame.
    """
    summary, metrics, rows = summarise(frame), metrics_of(frame), []
    for arm in plan["arms"]:
        facts = [arm["dataset"], arm["layer"], arm["aggregator"], point_text(arm["fixed"]), str(arm["trials"])]
        bias, metric = found.get(arm["id"]), metrics.get(arm["dataset"])
        if arm["trials"] == 0:
            numbers = [*map(Cell, "–––"), *_one_configuration(summary.loc[arm["id"]], metric)]
        elif bias is None or metric is None:
            numbers = [Cell("–")] * 7
        else:
            numbers = [*map(Cell, _counts(bias)), *(_cell(bias, rule, metric) for rule in RULES)]
            numbers.append(_optimism(arm, bias, metric))
        rows.append([replace(cell, arm=arm["id"]) for cell in [*map(Cell, facts), *numbers]])
    caption = (
        "Selection bias: what each rule would report, from the same tuning fits. Validation: the complete trial with "
        "the best mean validation metric; per split: for every split the trial that its own validation part prefers; "
        f"test: the best mean test metric, the paper's rule, {BIASED}. Test metric, mean ± sample standard deviation "
        "over the tuned splits (their number). Optimism: test minus validation in the units of the metric, positive "
        "where it flatters. An arm with one configuration has nothing to choose and shows its evaluation fits."
    )
    return Table(NAME, caption, COLUMNS, rows, grouped=True)


def _counts(bias: Bias) -> list[str]:
    complete = bias.states.get("complete", 0)
    whole = str(complete) if bias.usable == complete else f"{bias.usable}/{complete} with all records"
    return [whole, *(str(bias.states.get(state, 0)) for state in ("pruned", "failed"))]


def _one_configuration(result: "pandas.Series", metric: Metric | None) -> list[Cell]:
    nothing = Cell("0 (nothing to choose)", numbers=(0.0, None, int(result["n"])))
    if metric is None or not result["n"]:
        return [*map(Cell, "–––"), nothing]
    text = f"{metric.spread(result['mean'], result['std'])} ({result['n']})"
    return [Cell(text, numbers=_numbers(result["mean"], result["std"], result["n"], metric))] * 3 + [nothing]


def _cell(bias: Bias, rule: str, metric: Metric) -> Cell:
    found = bias.outcomes.get(rule)
    if found is None or not found.n:
        return Cell("–")
    count = str(found.n) if found.n == len(found.tests) else f"{found.n}/{len(found.tests)}"
    text = f"{metric.spread(found.mean, found.std)} ({count})" + (" †" if rule == "test" else "")
    return Cell(text, numbers=_numbers(found.mean, found.std, found.n, metric))


def _optimism(arm: dict[str, Any], bias: Bias, metric: Metric) -> Cell:
    if math.isnan(bias.optimism):
        return Cell("–")
    text = metric.text(bias.optimism, signed=True) if bias.optimism else "0"
    why = " (nothing to choose)" if arm["trials"] == 1 else " (one trial is left)" if bias.usable == 1 else ""
    return Cell(text + why, numbers=(bias.optimism * metric.factor, None, bias.outcomes["test"].n))


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
