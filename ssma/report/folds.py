"""What a search has seen of the data that its evaluation is tested on, said of every way of splitting in a plan."""

from typing import Any

from ssma.report.labels import listing, spans
from ssma.study.ids import canonical_json


def seen_in_tuning(plan: dict[str, Any]) -> list[str]:
    """Returns a line for each way of splitting and tuning: which test parts took part in it, and as what.

    Split s of k folds tests fold s, validates fold s + 1 and trains on the rest (`ssma.data.splits`); of splits of a
    file the data card tells what they share.
    """
    groups: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for arm in plan["arms"]:
        if arm["tune_splits"]:
            splits = plan["datasets"][arm["dataset"]]["splits"]
            by_test = arm["selection"] == "test"
            key = canonical_json([splits.get("folds"), arm["tune_splits"], arm["splits"], by_test])
            groups.setdefault(key, (arm, []))[1].append(arm["dataset"])
    lines = []
    for arm, labels in groups.values():
        folds = plan["datasets"][arm["dataset"]]["splits"].get("folds")
        lines.append(f"{listing(labels)}: {_told(arm, folds)}")
    return lines


def _told(arm: dict[str, Any], folds: int | None) -> str:
    if folds is None and len(arm["splits"]) == 1:
        return f"the one split is tuned on and evaluated (trained anew, with other seeds). In tuning, {_scored(arm)}."
    tuned, evaluated = arm["tune_splits"], arm["splits"]
    included = [split for split in evaluated if split in tuned]
    ones = "the tuned one" if len(tuned) == 1 else "the tuned ones"
    which = ones if included == tuned else f"{len(included)} of the {len(tuned)} tuned ones"
    which = f"{'is' if len(evaluated) == 1 else 'include'} {which} (trained anew, with other seeds)"
    which += f". In tuning, {_scored(arm)}"
    if folds is None:
        return (
            f"of the splits of a file, tuned on {_splits(tuned)}, evaluated on {_splits(evaluated)}, which "
            f"{which}. An item that one split tests may train or validate another: the data set's notes tell how many."
        )
    judging = [split for split in evaluated if any(split == (other + 1) % folds for other in tuned)]
    training = [split for split in evaluated if any(split not in (t, (t + 1) % folds) for t in tuned)]
    choose = "" if arm["selection"] == "test" else ", which choose,"
    return (
        f"of {folds} folds, tuned on {_splits(tuned)}, evaluated on {_splits(evaluated)}, which {which}. Yet a "
        f"fold is another part in other splits: the validation parts of tuning{choose} are the test parts of "
        f"{_splits(judging)}, and its training parts hold those of {_splits(training)}. So it is in every search on "
        "folds that is not nested."
    )


def _splits(numbers: list[int]) -> str:
    return f"split{'s' * (len(numbers) > 1)} {spans(numbers)}" if numbers else "no evaluated split"


def _scored(arm: dict[str, Any]) -> str:
    if arm["selection"] == "test":
        return "the test parts are scored and choose the configuration, as the study asks"
    return "the test parts are scored for this comparison only and choose nothing"
