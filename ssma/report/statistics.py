"""What the numbers of a frame say: means with their spread, and the claim one should not make.

The rule for a mean and its spread: first average the repeats (seeds) within a split, then take the mean and the
SAMPLE standard deviation (n - 1) over splits. With a single split, both are over its repeats. Only fits with the status
``ok`` count, and how many were planned is always said beside them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssma.report.labels import counted, extent
from ssma.statistics.describe import Description, describe

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

    columns = ["metric", "direction", "mean", "std", "units", "n", "planned", "failed", "missing", "over", "reason"]
    groups = _evaluation(frame).groupby("arm", sort=False)
    table = pandas.DataFrame([_summary(rows) for _, rows in groups], columns=columns, index=list(groups.groups))
    return table.rename_axis("arm")


def _evaluation(frame: "pandas.DataFrame") -> "pandas.DataFrame":
    return frame[frame["stage"] == "evaluate"]


def _summary(rows: "pandas.DataFrame") -> dict:
    ok = rows[rows["status"] == "ok"]
    values = _units(rows, ok)
    missing = int((rows["status"] == "missing").sum())
    known = rows[["metric", "direction"]].dropna()
    return {
        "metric": known["metric"].iloc[0] if len(known) else None,
        "direction": known["direction"].iloc[0] if len(known) else None,
        "mean": values.mean(),
        "std": values.std(ddof=1),
        "units": len(values),
        "n": len(ok),
        "planned": len(rows),
        "failed": len(rows) - len(ok) - missing,
        "missing": missing,
        "over": _over(ok, rows["split"].nunique() > 1),
        "reason": "" if len(ok) else _reason(rows),
    }


def _over(ok: "pandas.DataFrame", by_split: bool) -> str:
    if ok.empty:
        return ""
    if not by_split:
        return counted(len(ok), "seed")
    repeats = ok.groupby("split").size()
    if repeats.max() == 1:
        return counted(len(repeats), "split")
    return f"{counted(len(repeats), 'split')} x {extent(repeats)} seeds"


def _reason(rows: "pandas.DataFrame") -> str:
    made = rows[rows["status"] != "missing"]
    if made.empty:
        return "missing"
    status = made["status"].mode().iloc[0]
    reasons = made.loc[made["status"] == status, "reason"].dropna()
    if status != "failed" or reasons.empty:
        return status
    return reasons.mode().iloc[0].split(":")[0][:60]


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
    """What would have been claimed. Never a result: ``label`` says why, wherever it is shown."""

    trial: int
    mean: float
    std: float
    n: int
    label: str = BIASED


def test_selected_claim(frame: "pandas.DataFrame", arm: str) -> SelectedClaim | None:
    """Returns what choosing the complete trial with the best mean TEST metric would have claimed: always biased.

    Mean and sample standard deviation are over the splits that the trial was tuned on. None if no complete trial has
    all its fits.
    """
    rows = frame[(frame["arm"] == arm) & (frame["stage"] == "tune") & (frame["trial_state"] == "complete")]
    whole = rows.groupby("trial").filter(lambda trial: (trial["status"] == "ok").all())
    if whole.empty:
        return None
    tests = whole.groupby("trial")["test"].agg(["mean", "std", "size"])
    smaller = whole["direction"].iloc[0] == "minimize"
    best = tests["mean"].idxmin() if smaller else tests["mean"].idxmax()
    return SelectedClaim(int(best), *map(float, tests.loc[best, ["mean", "std"]]), int(tests.loc[best, "size"]))
