"""What a plan will cost: fits, theory experiments, and about how long, before anything runs. Imports no torch."""

import os
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from ssma.errors import StudyError
from ssma.study.paths import Results
from ssma.study.records import read_record
from ssma.study.theory_cost import theory_seconds

# Seconds of a training step with its share of validation, on one core of an AMD EPYC: a constant per layer, and a rate
# per node, layer and channel; that of SSMA is for 4 slots and grows as kappa (kappa + 1), as its arrays do. Least
# squares over logarithms of the fastest epoch of each setting: the cores were shared, and fits of one setting differed
# by up to six times. "sum": 405 fits of gcn and gin with sum, mean or max in 31 settings, of which 211 fits were made
# before the last change of SSMA; "ssma": 187 fits of gcn and gin in 41 settings. Estimate over fastest epoch, 10% and
# 90% quantiles over settings: 0.64 and 1.36, 0.55 and 1.37; over the mean epoch of each fit, on the shared cores: 0.25
# and 1.05, 0.26 and 0.75. "sum" stands for all aggregators but those below, of which only SSMA was measured.
STEP_SECONDS = {"sum": (7.3e-4, 2.2e-8), "ssma": (1.1e-3, 4.8e-7)}
AS_SLOW_AS_SSMA = {"ssma", "lstm", "gru", "pna", "fmean", "deepsets"}
TYPICAL_KAPPA = 4
# Seconds of a layer over those of gcn and gin: medians of 27 fits with SSMA, 3 to 6 a layer, over that of 8 of gcn and
# gin, on nine data sets. They spread by a factor of three about the median. gps: the median of ten data sets in
# reports/every_layer; its attention is quadratic in the size of a graph, and on Peptides-func the factor was 6.3. Other
# aggregators were not measured in these layers.
LAYER_FACTOR = {"gine": 1.4, "gat": 1.2, "gatv2": 1.2, "resgated": 1.0, "pna": 6.7, "gps": 1.3}
TYPICAL_WIDTH = 64
# Seconds of a layer in a step on an NVIDIA H200 with a job to itself, where up to 10,000 nodes a step waits for its
# launches, whatever its size: those of 27 settings in reports/bench/h200/fit.csv are 0.6 to 1.8 times these. Measured
# there were gcn, gin, gat and pna; gps counts as two layers, the others as gcn.
GPU_SECONDS = {"sum": 2.7e-3, "ssma": 1.2e-2}
GPU_FACTOR = {"gat": 1.3, "gatv2": 1.3, "pna": 1.3, "gps": 2.0}
JOB_SECONDS = 3.5  # start-up of a job: Python, torch, PyG, MLflow; an arm has one, and one more to search its space
OFFICIAL_SHARE = 0.8  # of the graphs that train where there is an official split: 0.70 to 0.83
SAMPLE = 200  # records that are read for an estimate, so that a dry run stays quick
SIZES = {  # graphs and mean nodes
    "MUTAG": (188, 17.9), "PTC_MR": (344, 14.3), "ENZYMES": (600, 32.6), "PROTEINS": (1113, 39.1),
    "IMDB-BINARY": (1000, 19.8), "IMDB-MULTI": (1500, 13.0), "NCI1": (4110, 29.9), "COLLAB": (5000, 74.5),
    "REDDIT-BINARY": (2000, 429.6), "REDDIT-MULTI-5K": (4999, 508.5),
    "zinc": (12000, 23.2), "Peptides-func": (15535, 150.9), "Peptides-struct": (15535, 150.9),
    "ogbg-molhiv": (41127, 25.5), "ogbg-molpcba": (437929, 26.0), "ogbn-arxiv": (1, 169343),
    "ogbn-products": (1, 2449029),
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """Number of arms, trials and fits, all seconds on one core, and what is not known."""

    arms: int
    trials: int
    fits: int
    seconds: float
    measured: int
    """Arms whose estimate comes from records of this study."""
    unknown: tuple[str, ...]
    """Data sets of unknown size, which `seconds` leaves out."""
    theory: dict[str, float]
    """Seconds of each theory experiment, which `seconds` counts too."""
    theory_measured: int
    """Theory experiments whose seconds come from their own record."""
    longest: float
    """Seconds of the longest arm or experiment: the jobs of one follow each other, on however many cores."""
    on_gpu: float | None = None
    """Seconds of all arms, one job at a time, on a GPU, by reference steps; None where the study wants none."""


def usable_cores() -> int:
    """Returns the cores that this process may use, which a scheduler or a container may have made fewer."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def plan_cost(plan: dict[str, Any], results: Results) -> Cost:
    """Returns the cost of a whole plan, of what is done already too.

    An arm costs what the finished fits of the same data set, layer and aggregator took on average; without any, the
    steps up to the epoch cap times a reference step: more than fits that end early, give or take half.
    """
    known = _seconds_of_fits(results)
    sizes = {label: _size(dataset, results) for label, dataset in plan["datasets"].items()}
    trials = fits = measured = 0
    longest, seconds, on_gpu, unknown = 0.0, 0.0, 0.0, set()
    for arm in plan["arms"]:
        dataset, size = plan["datasets"][arm["dataset"]], sizes[arm["dataset"]]
        count = arm["trials"] * len(arm["tune_splits"]) + len(arm["splits"]) * arm["repeats"]
        trials, fits = trials + arm["trials"], fits + count
        past = known.get((dataset["id"], arm["layer"], arm["aggregator"]))
        each = sum(past) / len(past) if past else _reference(arm, dataset, size)
        measured += bool(past)
        if each is None:
            unknown.add(arm["dataset"])
        start = JOB_SECONDS * (2 if arm["space"] else 1)
        own = start + count * (each or 0.0)
        longest, seconds = max(longest, own), seconds + own
        on_gpu += start + count * (_reference(arm, dataset, size, gpu=True) or 0.0)
    theory = {name: theory_seconds(experiment, results) for name, experiment in plan["theory"].items()}
    alone = {name: each for name, (each, _) in theory.items()}
    seconds += sum(alone.values())
    recorded = sum(own for _, own in theory.values())
    longest = max([longest, *alone.values()])
    arms, names = len(plan["arms"]), tuple(sorted(unknown))
    shown = None if plan["config"]["device"] == "cpu" else on_gpu
    return Cost(arms, trials, fits, seconds, measured, names, alone, recorded, longest, shown)


def describe(cost: Cost, cores: int) -> str:
    """Returns the cost in two lines, one more where there are theory experiments, and one for a GPU.

    Args:
        cores: How many there are. A job takes one, so that cores beyond the number of jobs make nothing faster.
    """
    cores = min(cores, cost.arms + len(cost.theory))
    left_out = f", not counting {', '.join(cost.unknown)} (size unknown until prepared)" if cost.unknown else ""
    by_fits, by_steps = "by fits of their data set, layer and aggregator", "by reference steps up to the epoch cap"
    basis = _basis(cost.measured, cost.arms, by_fits, by_steps)
    counts = ", ".join(counted(*pair) for pair in ((cost.arms, "arm"), (cost.trials, "trial"), (cost.fits, "fit")))
    everything = max(cost.seconds / cores, cost.longest)
    lines = [counts, f"about {duration(everything)} in all on {counted(cores, 'core')}{left_out} ({basis})"]
    if number := len(cost.theory):
        alone = duration(max(sum(cost.theory.values()) / min(cores, number), *cost.theory.values()))
        told = _basis(cost.theory_measured, number, "by their own records", "by reference steps")
        lines.append(f"of it about {alone} for {counted(number, 'theory experiment')} ({told})")
    if cost.on_gpu is not None:
        alone = duration(cost.on_gpu)
        lines.append(f"the arms on one GPU instead: about {alone}{left_out} (by steps of an NVIDIA H200)")
    return "\n".join(lines)


def _basis(measured: int, number: int, records: str, otherwise: str) -> str:
    """Returns what an estimate rests on: records of so many, something else of the others."""
    if measured in (0, number):
        return records if measured else otherwise
    return f"{measured} of {number} {records}, the others {otherwise}"


def counted(number: int, noun: str) -> str:
    """Returns "1 split" or "3 splits"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """Returns seconds as text, in seconds, minutes or hours."""
    minutes, hours = seconds / 60, seconds / 3600
    if hours >= 2:
        return f"{hours:.1f} h" if hours < 100 else f"{hours:,.0f} h"
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min"


def _seconds_of_fits(results: Results) -> dict[tuple[str, str, str], list[float]]:
    known = defaultdict(list)
    paths = sorted(results.fits.glob("*/*.json"), key=str)
    for path in paths[:: 1 + len(paths) // SAMPLE]:
        try:
            record = read_record(path)
        except StudyError:
            continue  # whoever needs this record says so; an estimate does not
        if record["status"] == "ok":
            spec = record["spec"]
            known[spec["dataset"], spec["layer"], spec["aggregator"]].append(record["seconds"])
    return known


def _reference(
    arm: dict[str, Any], dataset: dict[str, Any], size: tuple[int, float] | None, gpu: bool = False
) -> float | None:
    """Returns the seconds of one fit up to its epoch cap, or None where the data set's size is unknown."""
    if size is None:
        return None
    graphs, nodes = size
    training, model = arm["settings"]["training"], arm["settings"]["model"]
    batch = min(training["batch_size"], graphs)
    like, layer = "ssma" if arm["aggregator"] in AS_SLOW_AS_SSMA else "sum", arm["layer"]
    constant, rate = STEP_SECONDS[like]
    width = model["hidden_channels"] or TYPICAL_WIDTH
    kappa = arm["settings"]["aggregator"].get("kappa", TYPICAL_KAPPA)
    rate *= kappa * (kappa + 1) / (TYPICAL_KAPPA * (TYPICAL_KAPPA + 1))
    each = LAYER_FACTOR.get(layer, 1.0) * (constant + rate * batch * nodes * width)
    if gpu:
        each = GPU_FACTOR.get(layer, 1.0) * GPU_SECONDS[like]
    if "parts" in dataset["spec"]:
        share = 1  # every part has nodes to train on, or nearly
    else:
        share = 1 - 2 / dataset["splits"]["folds"] if "folds" in dataset["splits"] else OFFICIAL_SHARE
    steps = max(1, round(graphs * share / batch))
    return training["max_epochs"] * steps * model["num_layers"] * each


def _size(dataset: dict[str, Any], results: Results) -> tuple[int, float] | None:
    card, spec = results.data(dataset["id"]) / "card.json", dataset["spec"]
    if "parts" in spec:
        return spec["parts"], SIZES[spec["name"]][1] / spec["parts"]
    if card.exists():
        counts = read_record(card)
        return counts["num_graphs"], counts["num_nodes"] / counts["num_graphs"]
    if spec["source"] == "synthetic":
        return spec["num_graphs"] or 1, spec["num_nodes"]
    return SIZES.get(spec.get("name", spec["source"]))
