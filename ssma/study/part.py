"""One ablation of a plan: its arms, and the arms with a sum that it is read against."""

from typing import Any

from ssma.study.ids import canonical_json
from ssma.study.settings import GROUPS


def baseline_name(layer: str) -> str:
    """Returns the aggregator that SSMA is read against in a layer: the sum, in pna its own mix."""
    return "pna" if layer == "pna" else "sum"


def baselines(plan: dict[str, Any], ablation: str) -> dict[str, str]:
    """Returns for each arm of an ablation the arm of the study that has the baseline's aggregator and is else the same.

    Data set, layer, network, training, the search of these, splits and repeats must agree, in whichever ablation the
    baseline is. Arms without one, and those that are one, are left out.
    """
    arms = {arm["id"]: arm for arm in plan["arms"]}
    known = {_treatment(arm): arm["id"] for arm in reversed(plan["arms"]) if _is_baseline(arm)}
    used = dict.fromkeys(cell["arm"] for cell in plan["ablations"][ablation]["cells"])
    found = {arm: known.get(_treatment(arms[arm])) for arm in used if not _is_baseline(arms[arm])}
    return {arm: baseline for arm, baseline in found.items() if baseline}


def compares(plan: dict[str, Any], ablation: str) -> bool:
    """Says whether an ablation has settings, or a baseline, beside each other: what has neither makes no figure."""
    axes = plan["ablations"][ablation]["axes"]
    return any(len(values) > 1 for values in axes.values()) or bool(baselines(plan, ablation))


def arms_of(plan: dict[str, Any], ablation: str) -> list[str]:
    """Returns the ids of an ablation's arms and of their baselines, in the order of the plan."""
    used = {cell["arm"] for cell in plan["ablations"][ablation]["cells"]} | set(baselines(plan, ablation).values())
    return [arm["id"] for arm in plan["arms"] if arm["id"] in used]


def part(plan: dict[str, Any], ablation: str) -> dict[str, Any]:
    """Returns a plan of nothing but one ablation."""
    used = set(arms_of(plan, ablation))
    arms = [arm for arm in plan["arms"] if arm["id"] in used]
    labels = {arm["dataset"] for arm in arms}
    return plan | {
        "datasets": {label: dataset for label, dataset in plan["datasets"].items() if label in labels},
        "arms": arms,
        "ablations": {ablation: plan["ablations"][ablation]},
        "theory": {},
    }


def _is_baseline(arm: dict[str, Any]) -> bool:
    return arm["aggregator"] == baseline_name(arm["layer"])


def _treatment(arm: dict[str, Any]) -> str:
    """Returns one text for what arms of different aggregators must share."""
    settings = {group: dict(arm["settings"][group]) for group in GROUPS}
    settings["model"].pop("pna_mix", None)  # how an aggregation stands in pna is part of it
    searched = {key: values for key, values in arm["space"].items() if key.split(".")[0] in GROUPS}
    return canonical_json([arm["dataset"], arm["layer"], settings, searched, arm["splits"], arm["repeats"]])
