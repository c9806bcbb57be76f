"""What a search has seen of the data that its evaluation is tested on, said of every way of splitting in a plan."""

from typing import Any

from ssma.report.labels import listing, spans
from ssma.study.ids import canonical_json


def seen_in_tuning(plan: dict[str, Any]) -> list[str]:
    """Returns a line for each way of splitting and tuning: which test parts took part in it, and as what.

    Split s of k folds tests fold s, validates fold s + 1 and trains on the rest (`ssma.data.splits`).
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
        lines.append(f"{listing(labels)}: {_official(arm) if folds is None else _folds(arm, folds)}")
    return lines


def _official(arm: dict[str, Any]) -> str:
    return f"the one split is tuned on and evaluated (trained anew, with other seeds). In tuning, {_scored(arm)}."


def _folds(arm: dict[str, Any], folds: int) -> str:
    tuned, evaluated = arm["tune_splits"], arm["splits"]
    included = [split for split in evaluated if split in tuned]
    chosen_by = [split for split in evaluated if any(split == (other + 1) % folds for other in tuned)]
    trained_on = [split for split in evaluated if any(split not in (t, (t + 1) % folds) for t in tuned)]
    return (
        f"of {folds} folds, splits {spans(tuned)} are tuned on and splits {spans(evaluated)} evaluated, which include "
        f"{'the tuned ones' if included == tuned else f'{len(included)} of {len(tuned)} tuned ones'} (trained anew, "
        f"with other seeds). In tuning, {_scored(arm)}. Yet a fold of one split is another part of others: the "
        f"validation parts of tuning, which judge, hold the test data of splits {spans(chosen_by) or 'none'}, its "
        f"training parts those of splits {spans(trained_on) or 'none'}. So it is in every search on folds that is not "
        "nested."
    )


def _scored(arm: dict[str, Any]) -> str:
    if arm["selection"] == "test":
        return "the test parts are scored and choose the configuration, as the study asks"
    return "the test parts are scored for this comparison only and choose nothing"
