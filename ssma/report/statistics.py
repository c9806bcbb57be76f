"""What the numbers of a frame say: means with their spread, and the claim one should not make.

The rule for a mean and its spread: first average the repeats (seeds) within a split, then take the mean and the
SAMPLE standard deviation (n - 1) over splits. With a single split, both are over its repeats. Only fits with the status
``ok`` count, and how many were planned is always said beside them.
"""

from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING

from ssma.report.labels import counted, extent
from ssma.statistics.describe import Description, describe
from ssma.tune.select import choose

if TYPE_CHECKING:
    import pandas

BIASED = "biased: chosen by the test metric"


def summarise(frame: "pandas.DataFrame") -> "pandas.DataFrame":
    """Returns one row per arm (the index) over its evaluation rows, in raw units.

    Columns: ``metric``, ``direction``, ``mean``, ``std`` (NaN for a single value), ``units`` (how many values the
    spread is over), ``n`` (fits that count), ``planned``, ``failed`` (made, but not ok), ``missing``, ``over`` (such as
    "3 splits x 2 seeds") and ``reason`` (why there is no mean: "no valid trial", "diverged", "missing", ...; else "").
    """
    import pandas

    rows = frame[frame["stage"] == "evaluate"]
    ok, by_arm = rows[rows["status"] == "ok"], rows.groupby("arm", sort=False)
    arms = pandas.Index(list(by_arm.groups), name="arm")
    several = by_arm["split"].nunique() > 1
    of_splits = ok.groupby(["arm", "split"])["test"].agg(["mean", "size"]).reset_index("split")
    units = pandas.concat([of_splits["mean"], ok.set_index("arm")["test"]], keys=[True, False])
    units = units[several.reindex(units.index.get_level_values(1)).to_numpy() == units.index.get_level_values(0)]
    spread = units.groupby(level=1).agg(["mean", "std", "size"]).reindex(arms)
    seeds = dict(list(of_splits["size"].groupby(level=0)))
    n = ok.groupby("arm").size().reindex(arms, fill_value=0)
    missing = (rows["status"] == "missing").groupby(rows["arm"]).sum().reindex(arms)
    planned = by_arm.size()
    return pandas.DataFrame(
        {
            "metric": by_arm["metric"].first(),
            "direction": by_arm["direction"].first(),
            "mean": spread["mean"],
            "std": spread["std"],
            "units": spread["size"].fillna(0).astype(int),
            "n": n,
            "planned": planned,
            "failed": planned - n - missing,
            "missing": missing,
            "over": [_over(seeds[arm], several[arm]) if n[arm] else "" for arm in arms],
            "reason": ["" if n[arm] else _reason(by_arm.get_group(arm)) for arm in arms],
        },
        index=arms,
    )


def _over(seeds: "pandas.Series", by_split: bool) -> str:
    """Returns what a spread is over; ``seeds`` has the number of good fits of each split that has any."""
    if not by_split:
        return counted(int(seeds.sum()), "seed")
    splits = counted(len(seeds), "split")
    return splits if seeds.max() == 1 else f"{splits} x {extent(seeds)} seeds"


def _reason(rows: "pandas.DataFrame") -> str:
    made = rows[rows["status"] != "missing"]
    if made.empty:
        return "missing"
    status = made["status"].mode().iloc[0]
    reasons = made.loc[made["status"] == status, "reason"].dropna()
    if status != "failed" or reasons.empty:
        return status
    reason = reasons.mode().iloc[0]
    head = reason.split(":")[0]
    return shorten(head if " " in head else reason, 60, placeholder=" ...")  # the name of an exception says too little


def describe_arm(frame: "pandas.DataFrame", arm: str) -> Description | None:
    """Returns an arm's mean, spread and interval over the units of `summarise`, in raw units; None if no fit is ok."""
    rows = frame[(frame["arm"] == arm) & (frame["stage"] == "evaluate")]
    ok = rows[rows["status"] == "ok"]
    return None if ok.empty else describe(_units(rows, ok))


def _units(rows: "pandas.DataFrame", ok: "pandas.DataFrame") -> "pandas.Series":
    """Returns the test metrics that a spread is over: of splits (their seeds averaged), or of one split's seeds."""
    return ok.groupby("split")["test"].mean() if rows["split"].nunique() > 1 else ok["test"]


@dataclass(frozen=True)
class SelectedClaim:
    """What would have been claimed. Never a result: wherever it is shown, `BIASED` stands beside it."""

    trial: int
    mean: float
    std: float
    n: int


def test_selected_claim(frame: "pandas.DataFrame", arm: str) -> SelectedClaim | None:
    """Returns what choosing the complete trial with the best mean TEST metric would have claimed: always biased.

    Mean and sample standard deviation are over the splits that the trial was tuned on. None if no complete trial has
    all its fits.
    """
    rows = frame[(frame["arm"] == arm) & (frame["stage"] == "tune") & (frame["trial_state"] == "complete")]
    whole = rows.groupby("trial").filter(lambda trial: (trial["status"] == "ok").all())
    if whole.empty:
        return None
    scores = {int(trial): dict(zip(part["split"], part["test"], strict=True)) for trial, part in whole.groupby("trial")}
    best = choose(scores, [0], whole["direction"].iloc[0])[0]  # one choice for all splits
    tests = whole.loc[whole["trial"] == best, "test"]
    return SelectedClaim(best, float(tests.mean()), float(tests.std(ddof=1)), len(tests))
