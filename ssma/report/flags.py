"""What of a study as a whole is unequal or has no effect, each in one sentence: epochs, spaces, seconds, pruning."""

import json
import math
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from ssma.report.labels import counts, extent, listing
from ssma.report.layout import Place, by_place
from ssma.report.once import Row, rows_of
from ssma.study.cost import counted
from ssma.study.ids import canonical_json
from ssma.study.part import baselines
from ssma.study.space import Space, count, is_finite
from ssma.study.tuning import LARGEST_GRID, splits_to_prune

if TYPE_CHECKING:
    import pandas

APART = 2
"""How many times the seconds of the cheapest arm of its place an arm may take without a word."""
MOST = 30  # names in a sentence


def flags(plan: dict[str, Any], frame: "pandas.DataFrame") -> list[str]:
    """Returns a sentence for each thing that a reader must know of the study's budget, with its numbers."""
    found = (repeated(plan), epoch_cap(plan, frame), coverage(plan), seconds_apart(plan, frame), idle_pruning(plan))
    found += (alike(plan, frame),)
    return [line for line in found if line]


def repeated(plan: dict[str, Any]) -> str:
    """Says how many comparisons with the baseline stand in several ablations, which adjust p values each for itself."""
    inside: dict[tuple[str, str], list[str]] = {}
    for name, ablation in plan["ablations"].items():
        for pair in baselines(plan, name).items():
            inside.setdefault(pair, []).append(f"“{' '.join(ablation['title'].split())}”")
    shared = {pair: titles for pair, titles in inside.items() if len(titles) > 1}
    if not shared:
        return ""
    labels = {arm["id"]: arm["label"] for arm in plan["arms"]}
    (arm, other), titles = max(shared.items(), key=lambda item: len(item[1]))
    return (
        f"Several ablations compare {len(shared)} of {counted(len(inside), 'pair')} of an arm and its baseline; "
        f"{labels[arm]} and {labels[other]} are in most of them: {listing(titles, MOST)}. What holds of one pair is "
        "one finding, however often it is told, and p values are adjusted within an ablation, not over all of them."
    )


def epoch_cap(plan: dict[str, Any], frame: "pandas.DataFrame") -> str:
    """Says how many ok fits trained ``max_epochs`` instead of ending by their learning rate; "" if none did."""
    ok = frame[(frame["status"] == "ok") & frame["epochs"].notna()].drop_duplicates("fit")
    cap = ok["arm"].map({arm["id"]: arm["settings"]["training"]["max_epochs"] for arm in plan["arms"]})
    if "hp.training.max_epochs" in ok:
        cap = ok["hp.training.max_epochs"].fillna(cap)
    ok = ok.assign(cap=cap, cut=(ok["epochs"] >= cap).astype(bool))
    if not ok["cut"].any():
        return ""
    evaluated, tuning = (ok[ok["stage"] == stage] for stage in ("evaluate", "tune"))
    by_name = dict(iter(evaluated.groupby("aggregator", sort=False)["cut"]))
    shares = listing((f"{cut.sum()} of {len(cut)} with {name}" for name, cut in by_name.items()), MOST)
    unlike = f" ({shares})" if len({cut.mean() for cut in by_name.values()}) > 1 else ""
    last = evaluated["cut"] & (evaluated["best_epoch"] == evaluated["epochs"])
    caps = (str(int(value)) for value in sorted(ok.loc[ok["cut"], "cap"].unique()))
    told = f"{evaluated['cut'].sum()} of {counted(len(evaluated), 'evaluation fit')}{unlike}"
    told += f" and in {tuning['cut'].sum()} of {counted(len(tuning), 'tuning fit')}" if len(tuning) else ""
    return (
        f"Training was cut off at max_epochs ({listing(caps, MOST)}) in {told}; in {last.sum()} of these evaluation "
        "fits the last epoch is the best one by validation. They may be undertrained."
    )


def coverage(plan: dict[str, Any]) -> str:
    """Says which shares of their search spaces arms of one place try, if these differ anywhere; else ""."""
    shares: dict[tuple[int, int | None], list[str]] = {}
    unequal: set[Place] = set()
    for place, arms in _beside(plan):
        tried = [(arm["trials"], space_size(arm["space"]), arm["aggregator"]) for arm in arms if arm["space"]]
        if len({trials / size if size else 0.0 for trials, size, _ in tried}) > 1:
            unequal.add(place)
            for trials, size, name in tried:
                shares.setdefault((trials, size), []).append(name)
    if not unequal:
        return ""
    parts = "; ".join(f"{_of(*key)} with {listing(names, MOST)}" for key, names in shares.items())
    return (
        f"Unequal coverage of search spaces at {_of_places(unequal, plan)}, in trials planned: {parts}. As many trials "
        "search a larger space more thinly."
    )


@cache
def _size_of(text: str) -> int | None:
    space = json.loads(text)
    return count(space, LARGEST_GRID + 1) if is_finite(space) else None


def space_size(space: Space) -> int | None:
    """Returns how many configurations a space has, ``LARGEST_GRID + 1`` if they are more; None if infinitely many."""
    return _size_of(canonical_json(space))


def size_text(size: int | None) -> str:
    """Returns what ``space_size`` returns in words: "12 configurations"."""
    if size is None:
        return "infinitely many configurations"
    return f"more than {LARGEST_GRID:,} configurations" if size > LARGEST_GRID else counted(size, "configuration")


def _of(trials: int, size: int | None) -> str:
    share = f" ({100 * trials / size:.3g}%)" if size and size <= LARGEST_GRID else ""
    return f"{trials} of {size_text(size)}{share}"


def seconds_apart(plan: dict[str, Any], frame: "pandas.DataFrame") -> str:
    """Says which aggregators took more than ``APART`` times the seconds of the cheapest arm of a place; "" if none.

    Compared are arms whose evaluation fits are all ok, others may have ended early, and that ran on one kind of device:
    the CPU, or GPUs of one name.
    """
    spent = {arm: found for arm, rows in rows_of(frame).items() if (found := _spent(rows))}
    ratios: dict[str, dict[Place, float]] = {}
    worst: tuple[float, str] = (0.0, "")
    for place, arms in _beside(plan):
        for kind in dict.fromkeys(spent[arm["id"]][0] for arm in arms if arm["id"] in spent):
            here = [(spent[arm["id"]][1], arm) for arm in arms if spent.get(arm["id"], ("",))[0] == kind]
            least, cheapest = min(here, key=lambda item: item[0])
            for seconds, arm in here:
                if seconds > APART * least > 0:
                    found = ratios.setdefault(arm["aggregator"], {})
                    found[place] = max(found.get(place, 0.0), seconds / least)
                    told = f"{seconds:.1f} s ({kind}) of {arm['label']} against {least:.1f} s of {cheapest['label']}"
                    worst = max(worst, (seconds / least, told))
    if not ratios:
        return ""
    unequal = {place for found in ratios.values() for place in found}
    parts = [f"{name} at {len(found)} ({extent(found.values(), '.1f')} times)" for name, found in ratios.items()]
    return (
        f"Unequal seconds: at {_of_places(unequal, plan)} an arm took more than {APART} times those of the cheapest "
        f"arm beside it: {listing(parts, MOST)}; the largest ratio is {worst[1]}. Seconds on the clock, of tuning and "
        "evaluation together, with other load of the machine in them."
    )


def _spent(rows: list[Row]) -> tuple[str, float] | None:
    """Returns the kind of device that all fits of an arm ran on, and their seconds; None where that says nothing."""
    if any(row["stage"] == "evaluate" and row["status"] != "ok" for row in rows):
        return None
    kinds, seconds = {row["device"] for row in rows if row["seconds"]}, math.fsum(seconds_of(rows).values())
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind and ("CPU" if kind == "cpu" else kind, seconds)


def seconds_of(rows: list[Row]) -> dict[str, float]:
    """Returns the seconds that an arm's fits, each counted once, trained on a CPU and on a GPU."""
    seconds: dict[str, dict[str, float]] = {"CPU": {}, "GPU": {}}
    for row in rows:
        if row["device"] is not None:
            seconds["CPU" if row["device"] == "cpu" else "GPU"].setdefault(row["fit"], row["seconds"] or 0.0)
    return {kind: math.fsum(of_fits.values()) for kind, of_fits in seconds.items()}


def idle_pruning(plan: dict[str, Any]) -> str:
    """Says in how many arms trials are to be pruned on fewer splits than the test needs; "" if in none."""
    pruned, need = [arm for arm in plan["arms"] if arm["prune"]], splits_to_prune()
    idle = [arm for arm in pruned if len(arm["tune_splits"]) < need]
    if not idle:
        return ""
    return (
        f"Pruning is on but cannot act in {len(idle)} of {counted(len(pruned), 'arm')}, with "
        f"{counts((len(arm['tune_splits']) for arm in idle), 'tuned split')}: it needs {need}."
    )


def alike(plan: dict[str, Any], frame: "pandas.DataFrame") -> str:
    """Says which arms beside each other came out the same, to the last digit, in all of their evaluation fits; "" if
    none did. The losses count, since a few graphs may have the same accuracy by other outputs; older frames lack them.

    Whether data have edge features, or a batch takes all graphs of them, is known only where they are prepared. Arms
    with a fit that is not ok, or that makes a constant prediction, are left out: these may agree by chance.
    """
    compared = ["split", "repeat", "seed", "train", "validation", "test", "best_epoch", "epochs", "parameters"]
    compared += [name for name in ("test_loss",) if name in frame]
    evaluated = frame[frame["stage"] == "evaluate"].assign(good=lambda rows: rows["status"] == "ok")
    evaluated["good"] &= ~evaluated["constant"].fillna(False).astype(bool)
    outcomes = {
        arm: rows[compared].to_csv(index=False)
        for arm, rows in evaluated.groupby("arm", sort=False)[[*compared, "good"]]
        if rows["good"].all()
    }
    found: dict[tuple[str, ...], None] = {}
    for _, arms in _beside(plan):
        same: dict[str, list[str]] = {}
        for arm in arms:
            if arm["id"] in outcomes:
                same.setdefault(outcomes[arm["id"]], []).append(arm["label"])
        found |= dict.fromkeys(tuple(labels) for labels in same.values() if len(labels) > 1)
    if not found:
        return ""
    return (
        f"The same to the last digit in every evaluation fit, so that what they differ in had no effect: "
        f"{'; '.join(listing(labels, MOST) for labels in found)}."
    )


def _beside(plan: dict[str, Any]) -> Iterator[tuple[Place, list[dict[str, Any]]]]:
    """Yields the arms that stand beside each other: those of an ablation at one place."""
    arms = {arm["id"]: arm for arm in plan["arms"]}
    for ablation in plan["ablations"].values():
        for place, cells in by_place(ablation["cells"]).items():
            yield place, [arms[arm] for arm in dict.fromkeys(cell["arm"] for cell in cells)]


def _of_places(some: set[Place], plan: dict[str, Any]) -> str:
    return f"{len(some)} of {counted(len({place for place, _ in _beside(plan)}), 'place')} (data set and layer)"
