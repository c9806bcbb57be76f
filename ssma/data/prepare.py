"""From a data set's entry in the plan to a checked folder: graphs, splits, and the card that says what they are."""

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ssma.data.checks import (
    edge_notes,
    find_alike,
    find_copies,
    hard_targets,
    measurable_labels,
    minus_one,
    missing_classes,
    uneven_features,
    untrained_codes,
)
from ssma.data.graphs import Graphs
from ssma.data.loaded import LOSS, Loaded
from ssma.data.splits import file_splits, make_splits, split_hash
from ssma.errors import StudyError
from ssma.study.classes import check_set
from ssma.study.records import PARTS, read_record, write_record

SOURCES = {
    "tu": "ssma.data.tu:load",
    "zinc": "ssma.data.zinc:load",
    "lrgb": "ssma.data.lrgb:load",
    "ogbg": "ssma.data.ogb:load",
    "ogbn": "ssma.data.ogbn:load",
    "folder": "ssma.data.own:load_folder",
    "file": "ssma.data.own:load_file",
    "pyg": "ssma.data.own:load_pyg",
    "synthetic": "ssma.data.synthetic:load",
}
"""Source -> ``module:function`` that takes (spec, work folder, mirror) and returns a ``Loaded``."""

MOST_CODES = 2**24  # an embedding 64 wide is 4 GB then


@dataclass(frozen=True, eq=False)
class Prepared:
    """A data set as ``prepare`` left it; ``splits`` is the list of ``{"train", "validation", "test", "hash"}``."""

    graphs: Graphs
    card: dict[str, Any]
    splits: list[dict[str, Any]]


def prepare(folder: Path, dataset: dict[str, Any], mirror: Path | None) -> dict[str, Any]:
    """Writes ``graphs.pt``, ``splits.json`` and, last, ``card.json`` into ``folder``; returns the card.

    Args:
        folder: The data set's own folder; raw and intermediate files go to ``raw-work`` inside it.
        dataset: The plan's entry: ``{"id", "label", "spec", "splits"}``; ``splits`` is ``{"scheme": "official"}`` for a
            data set that has an official split, and ``{"scheme": "file", "file", "content"}`` for those of a file.
        mirror: A folder with raw files that stands in for the network, or None.

    Raises:
        StudyError: If the data cannot be had, are wrong or not those of the plan, or cannot be split as asked.
    """
    (folder / "card.json").unlink(missing_ok=True)
    spec = dataset["spec"]
    if spec["source"] == "pyg":
        check_set(spec["class"], spec["arguments"], spec["content"])
    loaded = load_source(spec, folder / "raw-work", mirror)
    made, notes = _splits(loaded, dataset["splits"])
    loaded, class_notes = _classes_of_parts(loaded, made["splits"])
    notes += class_notes
    copies, copy_notes = find_copies(loaded, made["splits"])
    alike, alike_notes = find_alike(loaded, made["splits"])
    notes += copy_notes + alike_notes + ([] if loaded.parts else edge_notes(loaded.graphs))
    for check in (missing_classes, untrained_codes, measurable_labels):
        notes += check(loaded, made["splits"])
    notes += minus_one(loaded) + uneven_features(loaded.graphs) + hard_targets(loaded)
    loaded.graphs.save(folder / "graphs.pt")
    record = {"kind": "splits", "dataset": dataset["id"], "items": f"{loaded.level}s"} | made
    write_record(folder / "splits.json", record)
    card = _card(dataset, loaded, {"copies": copies, "alike": alike}, loaded.notes + notes)
    return write_record(folder / "card.json", card)


def load_source(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Reads a data set by the loader of its source.

    Raises:
        StudyError: If there is no such source, or the data cannot be had or are wrong.
    """
    if spec["source"] not in SOURCES:
        raise StudyError(f"source: got {spec['source']!r}, allowed are {', '.join(SOURCES)}")
    module, function = SOURCES[spec["source"]].split(":")
    return getattr(import_module(module), function)(spec, work, mirror)


def load(folder: Path) -> Prepared:
    """Reads a prepared folder.

    Raises:
        StudyError: If it is not prepared, or its files do not belong together.
    """
    card_path, splits_path, graphs_path = (folder / name for name in ("card.json", "splits.json", "graphs.pt"))
    for path in (card_path, splits_path, graphs_path):
        if not path.is_file():
            raise StudyError(f"{path}: missing; the data set is not prepared, which `ssma prepare` does")
    card, record = read_record(card_path), read_record(splits_path)
    graphs = Graphs.load(graphs_path)
    if graphs.content_hash() != card["data_hash"]:
        raise StudyError(f"{graphs_path}: not the data that card.json describes; delete {folder} to have it made again")
    broken = [number for number, split in enumerate(record["splits"]) if split_hash(split) != split["hash"]]
    if broken or record["dataset"] != card["dataset"]:
        raise StudyError(f"{splits_path}: not the splits of this data set; delete {folder} to have it made again")
    return Prepared(graphs, card, record["splits"])


def _splits(loaded: Loaded, asked: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns the splits with how they were made, and notes: the official one, those of a file, or folds."""
    if (asked["scheme"] == "official") != (loaded.split is not None):
        has = "an" if loaded.split is not None else "no"
        raise StudyError(f"splits: got {asked['scheme']!r}, but the data set has {has} official split")
    if loaded.split is not None:
        return {"scheme": "official", "splits": [loaded.split | {"hash": split_hash(loaded.split)}]}, []
    if asked["scheme"] == "file":
        kept = loaded.kept or range(len(loaded.graphs.y))
        splits, notes = file_splits(asked, kept, len(kept) + loaded.dropped_graphs)
        return {"scheme": "file", "content": asked["content"], "splits": splits}, notes
    scheme, splits = make_splits(_strata(loaded), asked["folds"], asked["scheme"], asked["seed"], loaded.label)
    notes = [f"splits: {asked['scheme']} needs one class per item, so the items were shuffled"]
    made = {"scheme": scheme, "seed": asked["seed"], "folds": asked["folds"], "splits": splits}
    return made, notes if scheme != asked["scheme"] else []


def _classes_of_parts(loaded: Loaded, splits: list[dict[str, Any]]) -> tuple[Loaded, list[str]]:
    """Leaves out the classes that no part of any split has, such as that of nodes whose class is not known, with a
    note: they are no outputs, and their numbers come last."""
    if loaded.task != "multiclass" or loaded.split is not None:
        return loaded, []
    y = loaded.graphs.y
    used = y[sorted({item for split in splits for part in PARTS for item in split[part]})].unique()
    unused = torch.tensor([number for number in range(loaded.num_outputs) if number not in used.tolist()])
    if not unused.numel():
        return loaded, []
    mapping = {loaded.label(number): place for place, number in enumerate(used.tolist())}
    names, count = ", ".join(map(loaded.label, unused.tolist())), int(torch.isin(y, unused).sum())
    places = torch.cat([used, unused]).argsort()  # from a class to its place
    loaded = replace(
        loaded, graphs=replace(loaded.graphs, y=places[y]), num_outputs=len(mapping), label_mapping=mapping
    )
    return loaded, [f"labels: no class is {names}, of {count} {loaded.level}s in no part of any split"]


def _strata(loaded: Loaded) -> Tensor:
    """Returns what folds keep the shares of, the class of each item, which one label that all have is too; else the
    targets."""
    y = loaded.graphs.y
    return y.flatten().long() if loaded.task == "multilabel" and y.size(1) == 1 and not y.isnan().any() else y


def count_graphs(graphs: Graphs) -> dict[str, Any]:
    """Returns sizes and degrees as a card holds them."""
    sizes, degrees = graphs.node_ptr.diff(), graphs.in_degrees()
    return {
        "num_graphs": graphs.num_graphs,
        "num_nodes": graphs.num_nodes,
        "num_edges": graphs.num_edges,
        "nodes_per_graph": {"mean": float(sizes.double().mean()), "min": int(sizes.min()), "max": int(sizes.max())},
        "in_degree": {
            "mean": float(degrees.double().mean()),
            "std": float(degrees.double().std(correction=0)),
            "median": float(np.median(degrees.numpy())),  # torch takes the lower of two in the middle
            "max": int(degrees.max()),
            "isolated_nodes": int((degrees + graphs.out_degrees() == 0).sum()),
        },
    }


def _card(dataset: dict[str, Any], loaded: Loaded, repeated: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    graphs = loaded.graphs
    return {
        "kind": "card",
        "dataset": dataset["id"],
        "label": dataset["label"],
        "source": dataset["spec"]["source"],
        "level": loaded.level,
        "task": loaded.task,
        "loss": loaded.loss or LOSS[loaded.task],
        "metric": loaded.metric,
        "direction": loaded.direction,
        "num_outputs": loaded.num_outputs,
        **count_graphs(graphs),
        "x": _columns("x", graphs.x, loaded),
        "edge_attr": None if graphs.edge_attr is None else _columns("edge_attr", graphs.edge_attr, loaded),
        "features": loaded.features,
        "labels": _balance(graphs.y, loaded),
        "label_mapping": loaded.label_mapping,
        **repeated,
        "dropped_graphs": loaded.dropped_graphs,
        "parts": loaded.parts,
        "raw_files": loaded.raw_files,
        "data_hash": graphs.content_hash(),
        "notes": notes,
    }


def _columns(name: str, value: Tensor, loaded: Loaded) -> dict[str, Any]:
    if value.is_floating_point():
        if name in loaded.vocabulary:
            raise StudyError(f"{name}: got real numbers but expected whole ones, codes; fetch the raw files again")
        return {"kind": "continuous", "width": value.size(1)}
    used = [most + 1 for most in value.amax(dim=0).tolist()]
    if sum(used) > MOST_CODES:
        raise StudyError(
            f"{name}: got whole numbers up to {max(used) - 1}; they are codes, each with an embedding of its own, for "
            "which no memory is large enough; number them from 0 without gaps, or make them real if they are no codes"
        )
    known = loaded.vocabulary.get(name, used)
    if len(known) != len(used) or any(most > size for most, size in zip(used, known, strict=True)):
        raise StudyError(
            f"{name}: got columns with up to {used} codes but expected at most {known}; the raw files are those of "
            "another data set, or damaged"
        )
    return {"kind": "categorical", "cardinalities": known}


def _balance(y: Tensor, loaded: Loaded) -> dict[str, Any]:
    """Counts per class; or, per target, its spread, None of one value; or, per label, its positives; missing ones are
    counted apart.
    """
    if loaded.task == "multiclass":
        return {"counts": y.bincount(minlength=loaded.num_outputs)[: loaded.num_outputs].tolist()}
    missing = y.isnan().sum(dim=0).tolist()
    if loaded.task == "multilabel":
        ones, zeros = (y == 1).sum(dim=0), (y == 0).sum(dim=0)
        return {"positives": ones.tolist(), "negatives": zeros.tolist(), "missing": missing}
    known = [column[~column.isnan()].double() for column in y.unbind(dim=1)]
    return {
        "mean": [float(column.mean()) for column in known],
        "std": [float(column.std()) if column.numel() > 1 else None for column in known],
        "min": [float(column.min()) for column in known],
        "max": [float(column.max()) for column in known],
        "missing": missing,
    }
