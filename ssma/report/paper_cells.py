"""Which arm of a study is which entry of the paper's tables, and in what it was treated otherwise than in the paper."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ssma.paper import Result, protocols
from ssma.report.labels import setting, value_text
from ssma.study.config import Tune
from ssma.study.datasets import DEFAULT_PARTS
from ssma.study.presets import preset
from ssma.study.settings import GROUPS, ONLY_FOR_LAYERS, SSMAOptions
from ssma.study.space import values_of
from ssma.study.tuning import splits_to_prune, tuning

PAPERS_SSMA = {f"ssma.{key}": value for key, value in SSMAOptions().model_dump().items()}
SEARCHED = ("ssma.kappa", "ssma.compression", "ssma.selection")
OPERATOR = ("ssma.mixing", "ssma.normalisation", "ssma.slots_from")
VPA_TABLE, AFFINE_TABLE = "results_vap", "learn_affine_results"
LEFT_OPEN = {"runtime_measurment": ("ssma.kappa", "ssma.compression")}
AFFINE = {"model.budget": None, "model.hidden_channels": 64}
AFFINE_SPACE = {
    "ssma.compression": [0.25, 0.5, 0.75, 1], "ssma.kappa": [2, 3, 4], "ssma.selection": ["attention", "random"],
}  # fmt: skip
VPA_CODE = {
    "model.num_layers": 4, "model.hidden_channels": 64, "model.readout": "sum", "model.residual": False,
    "model.dropout": 0.5, "model.learn_eps": False, "training.batch_size": 64, "training.max_epochs": 200,
    "training.plateau_patience": 200, "training.weight_decay": 0,
}  # fmt: skip
"""What is known of the protocol behind the table against VPA: it decides which arm is shown, and is no departure."""
UNLIMITED = ("training.max_epochs", "training.max_minutes")
FEATURES = {"IMDB-BINARY": "random"}
IN_TEXT = {
    ("model.residual", False): "yes",
    ("ssma.compression_of", "parameters"): "rank",
    ("features", "random"): "zeros",
}
"""Setting and its value in the authors' code -> what the paper's text says instead."""


Place = tuple[str | None, str | None, str]


@dataclass(frozen=True)
class Match:
    """The arm that stands beside an entry, how many arms fit in all, and its departures from the paper's treatment."""

    arm: dict[str, Any]
    fitting: int
    departures: list[str]


def candidates(plan: dict[str, Any]) -> dict[Place, list[dict[str, Any]]]:
    """Returns the arms of a plan by the data set, layer and aggregator that they have in the paper's tables."""
    found: dict[Place, list[dict[str, Any]]] = {}
    for arm in plan["arms"]:
        dataset = paper_dataset(plan["datasets"][arm["dataset"]]["spec"])
        found.setdefault((dataset, paper_layer(arm), arm["aggregator"]), []).append(arm)
    return found


def match(result: Result, arms: dict[Place, list[dict[str, Any]]], plan: dict, n: dict[str, int]) -> Match | None:
    """Returns the arm for an entry of the paper, None if no arm of the plan fits.

    An arm fits if it has the entry's data set, layer, aggregator, positional encoding, affine map and (where the entry
    is of one) selection, and the paper's operator. Of several the first one is taken in this order: arms with results;
    fewest departures from the paper's treatment (in the table against VPA from the code of its authors); most fits that
    count; the order of the plan.

    Args:
        arms: What ``candidates`` returns.
        n: Arm id -> number of fits that count.
    """
    here = arms.get((result.dataset, result.layer, result.aggregator), [])
    fitting = [arm for arm in here if fits(result, arm)]
    if not fitting:
        return None
    ranked = []
    for arm in fitting:
        found = list(departures(result, arm, plan))
        apart = _unlike_vpa(arm) if result.table == VPA_TABLE else len(found)
        ranked.append((n[arm["id"]] == 0, apart, -n[arm["id"]], len(ranked), found, arm))
    *_, found, arm = min(ranked, key=lambda entry: entry[:4])
    return Match(arm, len(fitting), found)


def fits(result: Result, arm: dict[str, Any]) -> bool:
    """Says whether an arm of an entry's data set, layer and aggregator is that entry, however it was trained."""
    if result.aggregator != "ssma":
        return True
    wanted = {key: PAPERS_SSMA[key] for key in OPERATOR}
    wanted["ssma.learn_affine"] = result.variant == "learnable"
    if result.variant in ("random", "attention"):
        wanted["ssma.selection"] = result.variant
    return not wanted.keys() & arm["space"].keys() and wanted.items() <= ssma_options(arm).items()


def alike(arm: dict[str, Any], other: dict[str, Any]) -> bool:
    """Says whether two arms have the same data, network and training, so that their difference is the aggregation's.

    Compared are the settings that both have, given or searched. How PNA mixes is not: its baseline is the mix alone. In
    arms of two layers those settings are left out that only some layers have.
    """
    if arm["dataset"] != other["dataset"]:
        return False
    first, second = treatment(arm), treatment(other)
    left_out = {"model.pna_mix"}
    if arm["layer"] != other["layer"]:
        left_out |= {f"model.{key}" for key in ONLY_FOR_LAYERS}
    return all(first[key] == second[key] for key in (first.keys() & second.keys()) - left_out)


def treatment(arm: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of an arm's network and training, given or searched, under their full names."""
    searched = arm["space"].items()
    return _given(arm) | {key: ["searched", values] for key, values in searched if key.partition(".")[0] in GROUPS}


def _given(arm: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of an arm's network and training under their full names."""
    older = {"model.outer_block": False} if arm["layer"] == "gps" else {}  # in plans of versions that knew no other
    return older | {f"{group}.{key}": value for group in GROUPS for key, value in arm["settings"][group].items()}


def ssma_options(arm: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of an arm's SSMA under their full names; those that are searched have a stand-in."""
    return PAPERS_SSMA | {f"ssma.{key}": value for key, value in arm["settings"]["aggregator"].items()}


def paper_dataset(spec: dict[str, Any]) -> str | None:
    """Returns the name that the paper's data have in its tables, None for other data."""
    if spec["source"] == "zinc":
        return "ZINC"
    return spec["name"] if spec["source"] in ("tu", "lrgb", "ogbg", "ogbn") else None


def paper_layer(arm: dict[str, Any]) -> str | None:
    """Returns the layer as the paper's tables name it; None with a positional encoding where the paper has none."""
    encoding = arm["settings"]["model"].get("positional_encoding", "none")
    if "model.positional_encoding" in arm["space"]:
        return None
    if encoding == "none":
        return arm["layer"]
    return "gps_pe" if arm["layer"] == "gps" and encoding == "random_walk" else None


def departures(result: Result, arm: dict[str, Any], plan: dict[str, Any]) -> Iterator[str]:
    """Yields what was treated otherwise than in the paper, "learning rate 0.01 (paper: 0.001)".

    Compared are network and training, the options of SSMA, the search, the way of selection, splits and repeats, and
    the features, loss, directions and parts of the data. The table against VPA follows a protocol that the paper does
    not restate: nothing is compared there.
    """
    if result.table == VPA_TABLE:
        return
    dataset = plan["datasets"][arm["dataset"]]
    yield from _settings(result, arm, dataset["spec"])
    if arm["aggregator"] == "ssma":
        yield from _options(result, arm, dataset["spec"])
    yield from _search(result, arm)
    yield from _splits(result, arm, dataset["splits"])
    yield from _data(result, dataset["spec"])


def _unlike_vpa(arm: dict[str, Any]) -> int:
    """Counts the settings of an arm that differ from the code of VPA's authors."""
    given = treatment(arm)
    return sum(given[key] != value for key, value in VPA_CODE.items() if key in given)


def _settings(result: Result, arm: dict[str, Any], spec: dict[str, Any]) -> Iterator[str]:
    expected = preset("paper", spec, arm["layer"]) | {"model.hidden_channels": None, "training.max_minutes": None}
    if result.layer == "gps_pe":
        expected["model.positional_encoding"] = "random_walk"
    if result.table == AFFINE_TABLE:
        expected |= AFFINE
    given = _given(arm)
    for key in sorted(given.keys() & expected.keys()):
        printed = "no limit" if key in UNLIMITED else _papers(key, expected[key])
        if key in arm["space"]:
            yield _line(setting(key), "searched", printed)
        elif given[key] != expected[key]:
            yield _line(setting(key), value_text(given[key]), printed)


def _options(result: Result, arm: dict[str, Any], spec: dict[str, Any]) -> Iterator[str]:
    grid = AFFINE_SPACE if result.table == AFFINE_TABLE else tuning(Tune(), "paper", spec).space
    fixed = ("ssma.selection",) if result.variant in ("random", "attention") else ()
    for key, value in ssma_options(arm).items():
        if key in LEFT_OPEN.get(result.table, ()) or key in fixed:
            continue
        if key in SEARCHED:
            if key not in arm["space"]:
                yield _line(setting(key), value_text(value), "searched")
            elif key in grid and (found := _values(arm["space"][key])) != (papers := _values(grid[key])):
                yield _line(f"{setting(key)} searched in", found, papers)
        elif key in arm["space"]:
            yield _line(setting(key), "searched", _papers(key, PAPERS_SSMA[key]))
        elif key != "ssma.learn_affine" and value != PAPERS_SSMA[key]:
            yield _line(setting(key), value_text(value), _papers(key, PAPERS_SSMA[key]))


def _search(result: Result, arm: dict[str, Any]) -> Iterator[str]:
    ours, papers = max(arm["trials"], 1), 1
    if arm["aggregator"] == "ssma":
        if result.table in LEFT_OPEN:
            return
        searched = protocols()[result.dataset].configurations
        papers = math.prod(map(len, AFFINE_SPACE.values())) if result.table == AFFINE_TABLE else searched
    if ours != papers:
        yield _line("configurations tried", str(ours), str(papers))
    if papers > 1 and ours > 1:
        protocol, judged = protocols()[result.dataset], len(arm["tune_splits"])
        if judged != protocol.units:  # a trial has one fit on each of its splits, the paper's one on each fold or run
            yield _line("fits that judge a configuration", str(judged), str(protocol.units))
        if arm["prune"] and judged >= splits_to_prune():
            yield _line("pruning", "yes", "no")
        if arm["selection"] != "test":
            yield _line("configuration chosen by", arm["selection"].replace("_", " "), "test")


def _values(dimension: list[Any] | dict[str, Any]) -> str:
    values = values_of(dimension)
    if values is None:
        return f"{value_text(dimension['low'])} to {value_text(dimension['high'])}"
    return ", ".join(map(value_text, sorted(values)))


def _splits(result: Result, arm: dict[str, Any], splits: dict[str, Any]) -> Iterator[str]:
    protocol = protocols()[result.dataset]
    if protocol.unit == "folds":
        shown = (
            f"{splits['folds']}, {splits['scheme']}, seed {splits['seed']}"
            if "folds" in splits
            else "none, a file's splits"
        )
        papers = f"{protocol.units}, shuffle, seed 0"
        if shown != papers:
            yield _line("folds", shown, papers)
    used, repeats = (protocol.units, 1) if protocol.unit == "folds" else (1, protocol.units)
    if len(arm["splits"]) != used:
        yield _line("splits evaluated", str(len(arm["splits"])), str(used))
    if arm["repeats"] != repeats:
        yield _line("fits per split", str(arm["repeats"]), str(repeats))


def _data(result: Result, spec: dict[str, Any]) -> Iterator[str]:
    expected = {"node_attributes": False, "features": FEATURES.get(result.dataset, "labels"), "loss": "mse"}
    expected |= {"undirected": True, "parts": DEFAULT_PARTS.get(result.dataset)}
    for key in sorted(expected.keys() & spec.keys()):
        if (key != "loss" or result.dataset == "Peptides-struct") and spec[key] != expected[key]:
            yield _line(key.replace("_", " "), value_text(spec[key]), _papers(key, expected[key]))


def _papers(key: str, value: Any) -> str:
    """Returns "random", or "random in its code, zeros in its text" where these differ."""
    text = IN_TEXT.get((key, value))
    return f"{value_text(value)} in its code, {text} in its text" if text else value_text(value)


def _line(what: str, ours: str, papers: str) -> str:
    return f"{what} {ours} (paper: {papers})"
