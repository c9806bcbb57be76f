"""The test metric of every arm per unit: a split (its seeds averaged), or a seed where there is one split."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssma.report.align import HASHES
from ssma.report.statistics import summarise

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Units:
    """``summary`` is that of `summarise`; ``values`` maps an arm whose planned fits are all ok to unit -> test metric.

    The index of a series holds (split, split hash, data hash), with one split (split, repeat, ...), so that two arms
    pair only on the same partition of the same data.
    """

    summary: "pandas.DataFrame"
    values: dict[str, "pandas.Series"]


def units_of(frame: "pandas.DataFrame") -> Units:
    """Returns the units of all arms of a frame."""
    values = {}
    for arm, rows in frame[frame["stage"] == "evaluate"].groupby("arm", sort=False):
        if (rows["status"] == "ok").all():
            key = ["split"] if rows["split"].nunique() > 1 else ["split", "repeat"]
            values[str(arm)] = rows.groupby([*key, *HASHES])["test"].mean()
    return Units(summarise(frame), values)
