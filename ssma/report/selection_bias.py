"""What the way of choosing is worth: three selection rules on the same trials, at no extra training.

``validation`` takes the trial with the best mean validation metric, ``per_split`` for every split the trial that its
own validation part prefers, ``test`` the trial with the best mean test metric: the paper's rule, which is biased.
A maximum is never below another element of its set, so that the optimism of ``test`` over ``validation`` is 0 or more
by construction, whatever the data: how large it is says something, that it is positive does not.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssma.report.once import Row, rows_of, trial_states
from ssma.statistics.pairs import paired_differences
from ssma.study.records import SIGN
from ssma.tune.select import Scores, choose, mean_score

if TYPE_CHECKING:
    import pandas


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
    states: Counter[str]
    usable: int
    shared: dict[str, int]

    @property
    def optimism(self) -> float:
        """The mean of the gains, NaN if there are none."""
        return math.fsum(self.gains) / len(self.gains) if self.gains else math.nan


def selection_bias(rows: list[Row]) -> Bias:
    """Returns what each rule would report of one arm; a rule that has no trial to take is left out.

    Only complete trials can be chosen, by ``test`` only those with a test metric on every split. Where the one that
    ``validation`` takes lacks some, it is not among them, and only then can the optimism be below 0.

    Args:
        rows: The arm's tuning rows of the frame.
    """
    import pandas

    complete = [row for row in rows if row["trial_state"] == "complete"]
    splits = sorted({row["split"] for row in complete})
    by_validation = _whole(complete, "validation", splits)
    by_test = {trial: scores for trial, scores in _whole(complete, "test", splits).items() if trial in by_validation}
    tests = {(row["trial"], row["split"]): row["test"] for row in complete}

    def outcome(scores: Scores, per_split: bool = False) -> Outcome:
        trials = choose(scores, splits, complete[0]["direction"], per_split)
        return Outcome(trials, pandas.Series([tests[trials[s], s] for s in splits], index=splits, dtype=float))

    outcomes, shared, gains = {}, {}, ()
    if by_validation:
        outcomes = {"validation": outcome(by_validation), "per_split": outcome(by_validation, per_split=True)}
        shared["validation"] = _sharing_the_best(by_validation, complete[0]["direction"])
    if by_test:
        outcomes["test"] = outcome(by_test)
        shared["test"] = _sharing_the_best(by_test, complete[0]["direction"])
        gains = _gains(outcomes["validation"].tests, outcomes["test"].tests, complete[0]["direction"])
    return Bias(outcomes, gains, trial_states(rows), len(by_validation), shared)


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
    tuned = {arm: [row for row in rows if row["stage"] == "tune"] for arm, rows in rows_of(frame).items()}
    return {arm: selection_bias(rows) for arm, rows in tuned.items() if rows}


def _whole(complete: list[Row], column: str, splits: list[int]) -> Scores:
    """Returns trial -> split -> score, of trials that have it on every split."""
    scores: dict[int, dict[int, float]] = {}
    for row in complete:
        if row[column] is not None:
            scores.setdefault(row["trial"], {})[row["split"]] = row[column]
    return {trial: of_splits for trial, of_splits in scores.items() if sorted(of_splits) == splits}
