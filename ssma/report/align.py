"""Arms side by side on the units that they share, and what is done where fits are not ok."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssma.study.config import Report

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray

KEY = ["split", "repeat"]
HASHES = ("split_hash", "data_hash")
WORST = "A failed fit counts as the worst test metric of the data set in this report (report.missing: worst)."
"""What tables say of ``missing: worst``."""


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


def align(frame: "pandas.DataFrame", arms: Sequence[str], missing: str) -> Aligned:
    """Pairs the evaluation fits of arms of one data set by split, split hash, data hash and seed.

    Where a fit of any arm is not ok, ``missing`` decides. ``not_testable``: the rest is described, not tested.
    ``drop``: the rest is tested. ``worst``: a fit that was made and is not ok counts as the worst test metric among all
    ok evaluation fits of the data set in the frame; one that was not made leaves the arms untested.
    """
    evaluated = frame[frame["stage"] == "evaluate"]
    rows = evaluated[evaluated["arm"].isin(arms)].set_index(["arm", *KEY])
    tables = {part: rows[part].unstack("arm") for part in ("status", "test", *HASHES)}
    planned = tables["status"].reindex(columns=arms).dropna()
    test = tables["test"].reindex(index=planned.index, columns=arms)
    hashes = [tables[part].reindex(index=planned.index, columns=arms).nunique(axis=1) for part in HASHES]
    usable = planned == "ok"
    if missing == "worst":
        made = ~usable & (planned != "missing")
        test = test.mask(made, _worst(evaluated, rows["dataset"].iloc[0]))
        usable |= made
    whole = usable.all(axis=1) & test.notna().all(axis=1)
    for different in hashes:
        whole &= different <= 1
    by_split = planned.index.get_level_values("split").nunique() > 1
    kept = test[whole]
    values = kept.groupby("split").mean() if by_split else kept
    lacking = len(planned) - len(kept)
    return Aligned(values.to_numpy(dtype=float), _reason(lacking, len(planned), missing), by_split)


def _worst(evaluated: "pandas.DataFrame", dataset: str) -> float | None:
    known = evaluated[(evaluated["dataset"] == dataset) & (evaluated["status"] == "ok")]
    if known.empty:
        return None
    return float(known["test"].max() if known["direction"].iloc[0] == "minimize" else known["test"].min())


def _reason(lacking: int, planned: int, missing: str) -> str:
    if lacking == planned:
        return "no fits to pair"
    if not lacking or missing == "drop":
        return ""
    return f"at {lacking} of {planned} splits and seeds a fit is not ok"
