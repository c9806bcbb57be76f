"""The figure of what each selection rule would report, a line per arm that has a choice."""

import math
import textwrap
from typing import TYPE_CHECKING, Any

from ssma.report import figures
from ssma.report.labels import counts, extent, listing, metrics_of
from ssma.report.selection_bias import Bias
from ssma.report.statistics import BIASED

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

MOST_ARMS = 30  # of a panel
LINE = 60  # characters of an arm's name; what one is longer stands below, since arms may differ in it alone
LOOKS = {"validation": ("o", "#0173b2", -0.2), "per_split": ("s", "#029e73", 0.0), "test": ("D", "#d55e00", 0.2)}
"""Rule -> marker, colour (seaborn's colour-blind palette), and place beside its arm's line."""


def draw(plan: dict[str, Any], frame: "pandas.DataFrame", found: dict[str, Bias]) -> "Figure | None":
    """Returns the figure, a panel per data set with a line per searched arm; None if no arm has a choice to show."""
    panels = {label: arms[:MOST_ARMS] for label, arms in _panels(plan, found).items()}
    if not panels:
        return None
    import seaborn
    from matplotlib import pyplot

    metrics = metrics_of(frame)
    figures.set_theme("whitegrid", figures.OF_STUDIES)
    names = {label: [_name(arm) for arm, _ in arms] for label, arms in panels.items()}
    heights = [len(arms) for arms in panels.values()]
    lines = max(1 + name.count("\n") for shown in names.values() for name in shown)
    size = (7.2, 0.9 * len(panels) + 0.5 + (0.1 + 0.14 * lines) * sum(heights))
    ratios = [count + 1.5 for count in heights]
    figure, grid = pyplot.subplots(
        len(panels), 1, figsize=size, squeeze=False, layout="constrained", height_ratios=ratios
    )
    for (label, arms), ax in zip(panels.items(), grid[:, 0], strict=True):
        metric = metrics[label]
        for place, (_, bias) in enumerate(arms):
            values = {rule: found.mean * metric.factor for rule, found in bias.outcomes.items() if found.n}
            if {"validation", "test"} <= values.keys():
                ax.plot([values["validation"], values["test"]], [place, place], color="0.7", lw=1.2, zorder=1)
            for rule, value in values.items():
                marker, colour, aside = LOOKS[rule]
                ax.scatter(value, place + aside, marker=marker, color=colour, s=22, linewidths=0, zorder=2)
        ax.set_yticks(range(len(arms)), names[label])
        ax.set_ylim(len(arms) - 0.5, -0.5)
        ax.yaxis.grid(False)
        ax.set_title(label, loc="left", color=figures.INK)
        ax.set_xlabel(f"test {metric.title} {metric.arrow}")
    _legend(figure)
    seaborn.despine(figure, left=True)
    return figure


def caption(plan: dict[str, Any], found: dict[str, Bias], sizes: dict[str, dict[str, Any] | None]) -> str:
    """Returns what the figure shows, in words.

    Args:
        found: What ``biases`` returns of the frame.
        sizes: By data set, what ``split_sizes`` returns of it.
    """
    panels = _panels(plan, found)
    cut = [label for label, arms in panels.items() if len(arms) > MOST_ARMS]
    left_out = f" Of {', '.join(cut)} only the {MOST_ARMS} arms with the largest optimism are shown." if cut else ""
    shown = [(label, bias) for label, arms in panels.items() for _, bias in arms[:MOST_ARMS]]
    tests = [(sizes.get(label), bias.outcomes["validation"].tests.index) for label, bias in shown]
    trials = counts([bias.usable for _, bias in shown], "trial")
    number = counts([len(splits) for _, splits in tests], "tuned split")
    items = [sum(known["splits"][split]["test"] for split in splits) for known, splits in tests if known]
    kinds = listing(known["items"] for known, _ in tests if known)
    behind = f"; a point rests on {extent(items)} test {kinds}" if items else ""
    return (
        f"Mean test metric over the tuned splits of the trial that each rule takes ({number}, {trials} per "
        f"arm{behind}). The test rule is {BIASED}; the line from validation to test is its optimism, the "
        f"largest first in each data set.{left_out}"
    )


def _panels(plan: dict[str, Any], found: dict[str, Bias]) -> dict[str, list[tuple[dict[str, Any], Bias]]]:
    """Returns by data set the arms that have a choice, the largest optimism first, those without one last."""
    panels: dict[str, list[tuple[dict[str, Any], Bias]]] = {}
    for arm in plan["arms"]:
        bias = found.get(arm["id"])
        if arm["trials"] > 1 and bias is not None and any(outcome.n for outcome in bias.outcomes.values()):
            panels.setdefault(arm["dataset"], []).append((arm, bias))

    def place(item: tuple[dict[str, Any], Bias]) -> float:
        return -item[1].optimism if item[1].gains else math.inf

    return {label: sorted(arms, key=place) for label, arms in panels.items()}


def _name(arm: dict[str, Any]) -> str:
    return textwrap.fill(arm["label"].removeprefix(f"{arm['dataset']} / "), LINE)


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
