"""What the numbers of a frame say: means with their spread.

The rule for a mean and its spread: first average the repeats (seeds) within a split, then take the mean and the
SAMPLE standard deviation (n - 1) over splits. With a single split, both are over its repeats. Only fits with the status
``ok`` count, and how many were planned is always said beside them.
"""

from textwrap import shorten
from typing import TYPE_CHECKING

from ssma.report.align import HASHES, by_unit, evaluation_fits, several_splits
from ssma.report.labels import counts
from ssma.report.once import once
from ssma.statistics.describe import Description, describe
from ssma.study.cost import counted

if TYPE_CHECKING:
    import pandas

BIASED = "biased: chosen by the test metric"


@once
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


@once
def units_of(frame: "pandas.DataFrame") -> "dict[str, pandas.Series]":
    """Returns of every arm whose planned fits are all ok its unit -> test metric.

    The index of a series holds (split, split hash, data hash), with one split (split, repeat, ...), so that two arms
    pair only on the same partition of the same data.
    """
    values = {}
    for arm, rows in frame[frame["stage"] == "evaluate"].groupby("arm", sort=False):
        if (rows["status"] == "ok").all():
            key = ["split"] if rows["split"].nunique() > 1 else ["split", "repeat"]
            values[str(arm)] = rows.groupby([*key, *HASHES])["test"].mean()
    return values


def _over(seeds: "pandas.Series", by_split: bool) -> str:
    """Returns what a spread is over; ``seeds`` has the number of good fits of each split that has any."""
    if not by_split:
        return counted(int(seeds.sum()), "seed")
    splits = counted(len(seeds), "split")
    return splits if seeds.max() == 1 else f"{splits} x {counts(seeds, 'seed')}"


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


def description_of(frame: "pandas.DataFrame", arm: str) -> Description | None:
    """Returns an arm's mean, spread and interval over the units of `summarise`, in raw units; None if no fit is ok."""
    fits = evaluation_fits(frame).get(arm, {})
    ok = {place: fit["test"] for place, fit in fits.items() if fit["status"] == "ok"}
    return describe(by_unit(ok, several_splits(fits))) if ok else None
