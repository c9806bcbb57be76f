"""Graph classification and regression sets of the TU Dortmund collection (Morris et al. 2020)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from ssma.data.features import MADE, made_features
from ssma.data.graphs import Graphs
from ssma.data.loaded import Loaded
from ssma.data.raw import Origin, provide
from ssma.data.targets import check_known, picked
from ssma.data.tu_files import read_text_set
from ssma.errors import StudyError
from ssma.study.cost import counted
from ssma.study.ids import file_fingerprint

NEEDED = ("A", "graph_indicator")
FEATURES = {
    "MUTAG": ("node_labels", "edge_labels"),
    "PTC_MR": ("node_labels", "edge_labels"),
    "NCI1": ("node_labels",),
    "ENZYMES": ("node_labels", "node_attributes"),
    "PROTEINS": ("node_labels", "node_attributes"),
}
"""Set of the paper -> its files of features. Of another set, what is not there is not known to be missing."""


def load(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Reads a TU set from ``<mirror>/TUDataset/<NAME>/raw``, or downloads it when there is no mirror.

    ``spec``: ``name`` and what ``read_set`` takes.

    Raises:
        StudyError: If the files are missing, cannot be downloaded or read, or lack what ``spec`` asks for.
    """
    from torch_geometric.datasets.tu_dataset import TUDataset

    name = spec["name"]
    origin = Origin(name, f"TUDataset/{name}", (), {f"{TUDataset.url}/{name}.zip": _text_file})

    def need(parts: Sequence[str]) -> None:
        files = tuple(f"raw/{name}_{part}.txt" for part in parts)
        provide(replace(origin, files=files), work / name, mirror)

    unused = set() if spec.get("node_attributes") else {"node_attributes"}
    unused |= set() if _takes_labels(spec) else {"node_labels"}
    need((*NEEDED, *(part for part in FEATURES.get(name, ()) if part not in unused)))
    if not (work / name / "raw" / f"{name}_graph_attributes.txt").is_file():
        need((*NEEDED, "graph_labels"))
    return read_set(name, work, spec)


def read_set(name: str, work: Path, spec: dict[str, Any]) -> Loaded:
    """Reads the files ``<NAME>_*.txt`` in ``<work>/<NAME>/raw``, by :func:`ssma.data.tu_files.read_text_set`.

    ``spec``: ``node_attributes`` (default false), the continuous attributes that stand in front of the features;
    ``features``: ``labels`` (default), the set's node labels, one-hot (none may be there if there are attributes), or
    features that ``made_features`` makes, without a look at the labels; ``target``: the columns of graph attributes
    that are learned (default all).

    Edge labels become one-hot ``edge_attr``; continuous edge attributes are left out. Class labels are mapped to
    0..C-1. A set with graph attributes is a regression on them as they are.

    Raises:
        StudyError: If the files cannot be read, or lack what ``spec`` asks for.
    """
    raw = (work / name / "raw").resolve()  # the user's folder, which errors name
    given = sorted(path for path in raw.glob("*.txt") if path.name.startswith(f"{name}_"))
    files = [path for path in given if "readme" not in path.name.lower()]
    last = {file: file.read_bytes()[-1:] for file in files}
    ended = [file for file, byte in last.items() if byte == b"\n"]
    for file, byte in last.items():
        if not byte:
            raise StudyError(
                f"{file}: there is no line in it, so the file may be cut off; fetch it again, or put an empty line in "
                "it if there is nothing to list"
            )
        if ended and file not in ended:  # where no file has one, its writer leaves them out
            raise StudyError(
                f"{file}: the last line has no line end, as that of {ended[0].name} has, so the file may be cut off; "
                "fetch it again, or add the line end"
            )
    use_attributes, features = spec.get("node_attributes", False), spec.get("features", "labels")
    text = read_text_set(raw, name, use_attributes, _takes_labels(spec))
    words = _set_features(text.data_list, text.attributes, use_attributes, features, name)
    columns, real = spec.get("target"), text.data_list[0].y.is_floating_point()
    picks = []
    if columns and real:
        picks.append(picked(columns, text.data_list[0].y.numel(), f"{name}_graph_attributes.txt"))
        for data in text.data_list:
            data.y = data.y[..., columns]
        check_known(torch.stack([data.y.flatten() for data in text.data_list if data.num_nodes]), columns)
    graphs, dropped = Graphs.from_data_list(text.data_list)
    hashes = {file.name: file_fingerprint(file) for file in files}
    kept = [number for number, data in enumerate(text.data_list) if data.num_nodes]
    rest = {"features": words, "raw_files": hashes, "dropped_graphs": dropped, "kept": kept}
    notes = text.notes + _left_out(text.attributes, use_attributes, files, text.read)
    if real:
        notes += ["targets are the graph attributes as they are, not standardised", *picks]
        return Loaded(graphs, "graph", "regression", "mae", graphs.y.size(1), columns=columns, **rest, notes=notes)
    mapping = {str(label): number for number, label in enumerate(text.labels)}
    classes = len(mapping)
    return Loaded(graphs, "graph", "multiclass", "accuracy", classes, label_mapping=mapping, **rest, notes=notes)


def _takes_labels(spec: dict[str, Any]) -> bool:
    return spec.get("features", "labels") == "labels"


def _left_out(attributes: int, use_attributes: bool, files: list[Path], read: set[str]) -> list[str]:
    """Returns notes on the node attributes and on the files that are there and not used."""
    notes = []
    if attributes and not use_attributes:
        notes.append(f"node attributes: {counted(attributes, 'column')} left out; node_attributes: true adds them")
    unread = [file.name for file in files if file.name not in read]
    return notes + ([f"files that are not read: {', '.join(unread)}"] if unread else [])


def _text_file(member: str) -> str | None:
    return f"raw/{Path(member).name}" if member.endswith(".txt") else None


def _set_features(data_list: list[Data], attributes: int, use_attributes: bool, features: str, name: str) -> str:
    """Replaces every ``x`` by the wanted columns; returns in words what they are."""
    if use_attributes and attributes == 0:
        raise StudyError(f"data set {name}: node_attributes is true, but the set has none; set it to false")
    parts = [f"{attributes} node attributes"] if use_attributes else []
    labels = data_list[0].x.size(1) - attributes
    if features == "labels" and labels:
        parts.append("node labels (one-hot)")
    elif features == "labels" and not use_attributes:
        also = " or node_attributes to true" if attributes else ""
        raise StudyError(
            f"data set {name}: features is 'labels', but the set has no node labels; set features to "
            f"degree, constant, zeros or random{also}"
        )
    elif features not in ("labels", *MADE):
        raise StudyError(f"data set {name}: features is {features!r}, allowed are labels, {', '.join(MADE)}")
    if features in MADE:
        sizes = [data.x.size(0) for data in data_list]
        made, words = made_features(features, [data.edge_index for data in data_list], sizes)
        parts.append(words)
    else:
        made = [data.x[:, attributes:] for data in data_list]
    for data, columns in zip(data_list, made, strict=True):
        data.x = torch.cat([data.x[:, : attributes if use_attributes else 0], columns], dim=1)
    return " and ".join(parts)
