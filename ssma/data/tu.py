"""Graph classification and regression sets of the TU Dortmund collection (Morris et al. 2020)."""

import hashlib
import io
import shutil
import zipfile
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import torch
from torch import Tensor
from torch_geometric.data import Data

from ssma.data.graphs import Graphs, pointer
from ssma.data.loaded import Loaded
from ssma.errors import StudyError

TIMEOUT = 8  # seconds per network operation: a job without a network must say so soon
DEGREE_CAP = 64
RANDOM_WIDTH = 32  # of the paper authors' code


def load(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Reads a TU set from ``<mirror>/TUDataset/<NAME>/raw``, or downloads it when there is no mirror.

    ``spec``: ``name``; ``node_attributes`` (default false), the continuous attributes that stand in front of the
    features; ``features``, one of

    - ``labels`` (default): the set's node labels, one-hot (none may be there if there are attributes);
    - ``degree``: the in-degree, one-hot; degrees from 64 on share the last column;
    - ``constant``: 1;
    - ``random``: the same random normal vector of length 32 for every node, as in the paper authors' code.

    Edge labels become one-hot ``edge_attr``; continuous edge attributes are left out. Class labels are mapped to
    0..C-1. A set with graph attributes is a regression on them as they are.

    Raises:
        StudyError: If the files are missing, cannot be downloaded or read, or lack what ``spec`` asks for.
    """
    name = spec["name"]
    raw = work / name / "raw"
    _provide(raw, name, mirror)
    files = sorted(path for path in raw.glob(f"{name}_*.txt") if "readme" not in path.name.lower())
    for file in files:
        if not file.read_bytes().endswith(b"\n"):
            raise StudyError(f"{file}: the last line has no line end, the reader would lose it; fetch the file again")
    data_list, attributes = _read(work, name)
    use_attributes, features = spec.get("node_attributes", False), spec.get("features", "labels")
    words = _set_features(data_list, attributes, use_attributes, features, name)
    graphs, dropped = Graphs.from_data_list(data_list)
    hashes = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
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


def _provide(raw: Path, name: str, mirror: Path | None) -> None:
    needed = f"{name}_A.txt"
    if mirror is not None:
        source = (Path(mirror) / "TUDataset" / name / "raw").resolve()
        if not (source / needed).is_file():
            raise StudyError(
                f"data set {name}: {needed} is not in {source}; put the set's raw files there, or point "
                "data.mirror (or SSMA_DATA_MIRROR) to the folder that holds TUDataset/, or unset both to "
                "download the set"
            )
        if raw.is_symlink():
            raw.unlink()
        elif raw.exists():
            shutil.rmtree(raw)
        raw.parent.mkdir(parents=True, exist_ok=True)
        raw.symlink_to(source, target_is_directory=True)
    elif raw.is_symlink() or not (raw / needed).is_file():
        if raw.is_symlink():
            raw.unlink()
        _download(raw, name, needed)


def _download(raw: Path, name: str, needed: str) -> None:
    """Fetches and unpacks the zip of a set; the folder appears whole or not at all.

    PyG's own download has no timeout, so that a node without a network would hang.
    """
    from torch_geometric.datasets.tu_dataset import TUDataset

    url = f"{TUDataset.url}/{name}.zip"
    partial = raw.with_name("raw.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        with urlopen(url, timeout=TIMEOUT) as response, zipfile.ZipFile(io.BytesIO(response.read())) as archive:
            for member in archive.namelist():
                if member.endswith(".txt"):
                    (partial / Path(member).name).write_bytes(archive.read(member))
        if not (partial / needed).is_file():
            raise FileNotFoundError(f"the archive holds no {needed}")
    except (OSError, zipfile.BadZipFile) as error:
        shutil.rmtree(partial)
        raise StudyError(
            f"data set {name}: {needed} is not in {raw} and {url} could not be downloaded ({error}); "
            "check the name, or point data.mirror (or SSMA_DATA_MIRROR) to a folder that holds "
            f"TUDataset/{name}/raw/{needed}"
        ) from error
    shutil.rmtree(raw, ignore_errors=True)
    partial.replace(raw)


def _read(work: Path, name: str) -> tuple[list[Data], int]:
    """Returns the graphs and the number of attribute columns, which stand before the label columns in ``x``.

    The graphs are cut here: PyG's own slices are too short when the last graph has no edge.
    """
    from torch_geometric.datasets.tu_dataset import TUDataset
    from torch_geometric.io import read_txt_array

    raw = work / name / "raw"
    try:
        dataset = TUDataset(str(work), name, force_reload=True, use_node_attr=True)
        owner = read_txt_array(str(raw / f"{name}_graph_indicator.txt"), dtype=torch.long) - 1
    except (OSError, ValueError, RuntimeError, IndexError) as error:
        raise StudyError(f"data set {name}: the files in {raw} cannot be read as a TU set ({error})") from error
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
            f"degree, constant or random{also}"
        )
    degrees = [torch.bincount(data.edge_index[1], minlength=data.x.size(0)) for data in data_list]
    width = min(int(torch.cat(degrees).max()), DEGREE_CAP) + 1
    vector = torch.randn(RANDOM_WIDTH, generator=torch.Generator().manual_seed(0))
    made = {
        "labels": (lambda x, degree: x[:, attributes:], None),
        "degree": (
            lambda x, degree: _one_hot(degree, width),
            f"in-degree (one-hot, the last column is {width - 1} or more)",
        ),
        "constant": (lambda x, degree: torch.ones(x.size(0), 1), "constant 1"),
        "random": (
            lambda x, degree: vector.expand(x.size(0), -1),
            f"one random normal vector of {RANDOM_WIDTH} for all nodes",
        ),
    }
    if features not in made:
        raise StudyError(f"data set {name}: features is {features!r}, allowed are {', '.join(made)}")
    columns, words = made[features]
    for data, degree in zip(data_list, degrees, strict=True):
        front = data.x[:, : attributes if use_attributes else 0]
        data.x = torch.cat([front, columns(data.x, degree)], dim=1)
    return " and ".join(parts + ([words] if words else []))


def _one_hot(degree: Tensor, width: int) -> Tensor:
    return torch.nn.functional.one_hot(degree.clamp(max=width - 1), width).float()
