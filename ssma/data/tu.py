"""Graph classification and regression sets of the TU Dortmund collection (Morris et al. 2020)."""

from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from ssma.data.features import MADE, made_features
from ssma.data.graphs import Graphs, pointer
from ssma.data.loaded import Loaded
from ssma.data.raw import Origin, provide, reading
from ssma.errors import StudyError
from ssma.study.ids import file_fingerprint


def load(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Reads a TU set from ``<mirror>/TUDataset/<NAME>/raw``, or downloads it when there is no mirror.

    ``spec``: ``name`` and what ``read_set`` takes.

    Raises:
        StudyError: If the files are missing, cannot be downloaded or read, or lack what ``spec`` asks for.
    """
    from torch_geometric.datasets.tu_dataset import TUDataset

    name = spec["name"]
    needed = tuple(f"raw/{name}_{part}.txt" for part in ("A", "graph_indicator"))
    downloads = {f"{TUDataset.url}/{name}.zip": _text_file}
    provide(Origin(name, f"TUDataset/{name}", needed, downloads), work / name, mirror)
    return read_set(name, work, spec)


def read_set(name: str, work: Path, spec: dict[str, Any]) -> Loaded:
    """Reads the files ``<NAME>_*.txt`` in ``<work>/<NAME>/raw``.

    ``spec``: ``node_attributes`` (default false), the continuous attributes that stand in front of the features;
    ``features``: ``labels`` (default), the set's node labels, one-hot (none may be there if there are attributes), or
    features that ``made_features`` makes.

    Edge labels become one-hot ``edge_attr``; continuous edge attributes are left out. Class labels are mapped to
    0..C-1. A set with graph attributes is a regression on them as they are.

    Raises:
        StudyError: If the files cannot be read, or lack what ``spec`` asks for.
    """
    raw = work / name / "raw"
    files = sorted(path for path in raw.glob(f"{name}_*.txt") if "readme" not in path.name.lower())
    for file in files:
        if not file.read_bytes().endswith(b"\n"):
            raise StudyError(f"{file}: the last line has no line end, the reader would lose it; fetch the file again")
    data_list, attributes = _read(work, name)
    use_attributes, features = spec.get("node_attributes", False), spec.get("features", "labels")
    words = _set_features(data_list, attributes, use_attributes, features, name)
    graphs, dropped = Graphs.from_data_list(data_list)
    hashes = {file.name: file_fingerprint(file) for file in files}
    rest = {"features": words, "raw_files": hashes, "dropped_graphs": dropped}
    if graphs.y.is_floating_point():
        return Loaded(
            graphs,
            "graph",
            "regression",
            "mae",
            graphs.y.size(1),
            **rest,
            notes=["targets are the graph attributes as they are, not standardised"],
        )
    labels = sorted({int(line) for line in (raw / f"{name}_graph_labels.txt").read_text().split()})
    mapping = {str(label): number for number, label in enumerate(labels)}
    return Loaded(graphs, "graph", "multiclass", "accuracy", len(labels), label_mapping=mapping, **rest)


def _text_file(member: str) -> str | None:
    return f"raw/{Path(member).name}" if member.endswith(".txt") else None


def _read(work: Path, name: str) -> tuple[list[Data], int]:
    """Returns the graphs and the number of attribute columns, which stand before the label columns in ``x``.

    The graphs are cut here: PyG's own slices are too short when the last graph has no edge.
    """
    from torch_geometric.datasets.tu_dataset import TUDataset
    from torch_geometric.io import read_txt_array

    raw = work / name / "raw"
    with reading(name, raw, work / name / "processed"):
        dataset = TUDataset(str(work), name, use_node_attr=True)
        owner = read_txt_array(str(raw / f"{name}_graph_indicator.txt"), dtype=torch.long) - 1
    whole, sizes = dataset._data, torch.bincount(owner)
    if bool((owner.diff() < 0).any()):
        raise StudyError(f"data set {name}: {name}_graph_indicator.txt is not sorted; sort the nodes by graph")
    if whole.y is None or whole.y.size(0) != sizes.numel():
        found = "no" if whole.y is None else whole.y.size(0)
        raise StudyError(
            f"data set {name}: {found} graph labels for {sizes.numel()} graphs; "
            f"{name}_graph_labels.txt must hold one per graph"
        )
    nodes = pointer(sizes).tolist()
    edges = dataset.slices["edge_index"].tolist()
    edges += [edges[-1]] * (len(nodes) - len(edges))
    data_list = []
    for number, (first, last) in enumerate(zip(nodes[:-1], nodes[1:], strict=True)):
        own = slice(edges[number], edges[number + 1])
        data_list.append(
            Data(
                x=torch.empty(last - first, 0) if whole.x is None else whole.x[first:last],
                edge_index=whole.edge_index[:, own],
                edge_attr=None if whole.edge_attr is None or whole.edge_attr.size(1) == 0 else whole.edge_attr[own],
                y=whole.y[number],
            )
        )
    return data_list, dataset.num_node_attributes


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
