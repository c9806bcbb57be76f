"""Arms side by side on the units that they share, and what is done where fits are not ok."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ssma.report.once import Row, once, rows_of
from ssma.study.config import Report

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray

HASHES = ("split_hash", "data_hash")
WORST = "A failed fit counts as the worst test metric of the data set in this report (report.missing: worst)."
"""What tables say of ``missing: worst``."""
Fits = dict[tuple[int, int], Row]
"""The evaluation fits of an arm, planned or made, by split and repeat."""


@dataclass(frozen=True)
class Aligned:
    """Test metrics of some arms in raw units, ``values`` ``[units, arms]``.

    A unit is a split (its seeds averaged), or with one split a seed. ``reason`` says why no test may be made of them,
    "" if one may; ``by_split`` whether units have different training sets, which overlap.
    """

    values: "NDArray"
    reason: str
    by_split: bool


def report_options(plan: dict[str, Any]) -> Report:
    """Returns the plan's report options; a plan from before there were any has the defaults."""
    return Report.model_validate(plan["config"].get("report", {}))


@once
def evaluation_fits(frame: "pandas.DataFrame") -> dict[str, Fits]:
    """Returns those of every arm, in the order of the frame."""
    return {
        arm: {(row["split"], row["repeat"]): row for row in rows if row["stage"] == "evaluate"}
        for arm, rows in rows_of(frame).items()
    }


def by_unit(tests: dict[tuple[int, int], float], by_split: bool) -> list[float]:
    """Returns the test metrics of an arm per unit: the mean of each split's seeds, in the order of the splits, or as
    they are."""
    if not by_split:
        return list(tests.values())
    seeds: dict[int, list[float]] = {}
    for (split, _), test in tests.items():
        seeds.setdefault(split, []).append(test)
    return [math.fsum(seeds[split]) / len(seeds[split]) for split in sorted(seeds)]


def several_splits(places: Iterable[tuple[int, int]]) -> bool:
    """Says whether fits are of more than one split."""
    return len({split for split, _ in places}) > 1


def align(
    frame: "pandas.DataFrame", arms: Sequence[str], missing: str, beside: Mapping[str, Fits] = MappingProxyType({})
) -> Aligned:
    """Pairs the evaluation fits of arms of one data set by split, split hash, data hash and seed.

    Where a fit of any arm is not ok, ``missing`` decides. ``not_testable``: the rest is described, not tested.
    ``drop``: the rest is tested. ``worst``: a fit that was made and is not ok counts as the worst test metric among all
    ok evaluation fits of the data set in the frame; one that was not made leaves the arms untested.

    Args:
        frame: The records.
        arms: Ids of arms.
        missing: As above.
        beside: Fits of what is no arm of the frame, which count among its own.
    """
    import numpy

    known = evaluation_fits(frame)
    fits = [beside.get(arm) or known.get(arm, {}) for arm in arms]
    planned = sorted(set.intersection(*map(set, fits)))
    worst = _worst(frame, fits[0][planned[0]], beside) if missing == "worst" and planned else None
    tests: list[dict[tuple[int, int], float]] = [{} for _ in arms]
    for place in planned:
        here = [each[place] for each in fits]
        scores = [_score(one, worst) for one in here]
        alike = all(len({one[part] for one in here} - {None}) <= 1 for part in HASHES)
        if alike and None not in scores:
            for column, score in zip(tests, scores, strict=True):
                column[place] = score
    by_split, kept = several_splits(planned), len(tests[0])
    values = numpy.array([by_unit(column, by_split) for column in tests], dtype=float).T
    return Aligned(values, _reason(len(planned) - kept, len(planned), missing), by_split)


def _score(fit: Row, worst: float | None) -> float | None:
    """Returns the test metric of a fit that is ok, ``worst`` for one that was made and is not."""
    return fit["test"] if fit["status"] == "ok" else None if fit["status"] == "missing" else worst


def _worst(frame: "pandas.DataFrame", fit: Row, beside: Mapping[str, Fits]) -> float | None:
    """Returns the worst test metric of the data set of ``fit``."""
    tests = [_score(one, None) for fits in beside.values() for one in fits.values()]
    known = [test for test in (*tests, _worst_tests(frame).get(fit["dataset"])) if test is not None]
    return (max if fit["direction"] == "minimize" else min)(known, default=None)


@once
def _worst_tests(frame: "pandas.DataFrame") -> dict[str, float]:
    """Returns the worst test metric of the ok evaluation fits of each data set that has any."""
    ok = frame[(frame["stage"] == "evaluate") & (frame["status"] == "ok")]
    return {
        dataset: rows["test"].max() if rows["direction"].iloc[0] == "minimize" else rows["test"].min()
        for dataset, rows in ok[["dataset", "direction", "test"]].groupby("dataset")
    }


def _reason(lacking: int, planned: int, missing: str) -> str:
    if lacking == planned:
        return "no fits to pair"
    if not lacking or missing == "drop":
        return ""
    return f"at {lacking} of {planned} splits and seeds a fit is not ok"
