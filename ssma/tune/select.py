"""Which trial is chosen. A pure function of one column of scores per split: validation, or test if a study asks."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from ssma.study.records import SIGN

Scores = Mapping[int, Mapping[int, float]]
"""Trial number -> split -> score."""


def choose(
    scores: Scores, splits: Sequence[int], direction: Literal["maximize", "minimize"], per_split: bool = False
) -> dict[int, int]:
    """Returns the chosen trial of each split; of equally good ones (to 12 digits) the earliest.

    Args:
        scores: Complete trials: a score for each split they were judged on.
        splits: The splits that need a choice.
        direction: Whether a high or a low score is good.
        per_split: Choose for each split by its own score, instead of once by the mean over the splits.

    Raises:
        ValueError: If there is no trial, or no such direction, or if a score is not a finite number.

    Example:
        >>> choose({0: {0: 0.8, 1: 0.6}, 1: {0: 0.7, 1: 0.9}}, [0, 1], "maximize")
        {0: 1, 1: 1}
        >>> choose({0: {0: 0.8, 1: 0.6}, 1: {0: 0.7, 1: 0.9}}, [0, 1], "maximize", per_split=True)
        {0: 0, 1: 1}
    """
    if not scores:
        raise ValueError("there is no complete trial to choose from")
    if direction not in SIGN:
        raise ValueError(f"direction: got {direction!r}, allowed are {', '.join(SIGN)}")
    for trial, of_splits in scores.items():
        for split, score in of_splits.items():
            if not math.isfinite(score):  # NaN is neither above nor below another score: the first one would win
                raise ValueError(f"trial {trial} has the score {score} on split {split}; leave out such a trial")
    sign = SIGN[direction]

    def best(score) -> int:
        return max(sorted(scores), key=lambda trial: sign * score(trial))

    if per_split:
        return {split: best(lambda trial, split=split: mean_score({split: scores[trial][split]})) for split in splits}
    return dict.fromkeys(splits, best(lambda trial: mean_score(scores[trial])))


def mean_score(of_splits: Mapping[int, float]) -> float:
    """Returns the mean over splits to 12 digits, so that rounding decides between no trials: 0.1 and 0.2 are as good
    as 0.15 twice."""
    return float(f"{math.fsum(of_splits.values()) / len(of_splits):.12g}")
