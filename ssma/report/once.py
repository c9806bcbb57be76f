"""What is worked out of a frame once, however often a report asks for it: for every arm, in every ablation."""

import weakref
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pandas

Found = TypeVar("Found")
Row = dict[str, Any]
"""A row of a frame, None where it has no value."""
READ = {
    "arm", "dataset", "direction", "stage", "trial", "trial_state", "split", "repeat", "status", "validation", "test",
    "epochs", "hidden_channels", "parameters", "budget", "seconds", "device", "fit", "split_hash", "data_hash",
}  # fmt: skip
"""The columns that `rows_of` returns, beside the hyperparameters: all of them would take twice the memory."""


def once(find: "Callable[[pandas.DataFrame], Found]") -> "Callable[[pandas.DataFrame], Found]":
    """Keeps what a function finds in a frame as long as that very frame lives, which is not to be changed meanwhile."""
    known: dict[int, Found] = {}

    @wraps(find)
    def kept(frame: "pandas.DataFrame") -> Found:
        if id(frame) not in known:
            known[id(frame)] = find(frame)
            weakref.finalize(frame, known.pop, id(frame))
        return known[id(frame)]

    return kept


@once
def rows_of(frame: "pandas.DataFrame") -> dict[str, list[Row]]:
    """Returns the rows of every arm, in their order, with the columns ``READ`` and ``hp.*``."""
    names, found = [name for name in frame if name in READ or name.startswith("hp.")], {}
    told = frame[names]
    for values in told.astype(object).where(told.notna(), None).to_numpy():
        row = dict(zip(names, values, strict=True))
        found.setdefault(row["arm"], []).append(row)
    return found


def trial_states(rows: list[Row]) -> Counter[str]:
    """Returns how many trials of an arm's rows ended in which state."""
    return Counter({row["trial"]: row["trial_state"] for row in rows if row["trial_state"] is not None}.values())
