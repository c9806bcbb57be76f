r"""Node tasks of the `"Open Graph Benchmark" <https://arxiv.org/abs/2005.00687>`_, by its own loader: one large graph
each, cut into parts.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

from ssma.data.checks import edge_notes
from ssma.data.graphs import Graphs
from ssma.data.loaded import Loaded
from ssma.data.ogb import PARTS_OF_OGB, check_rows, import_ogb, read_split, without_top_folder
from ssma.data.partition import count_cut_edges, partition
from ssma.data.raw import Origin, allow_graphs, provide, reading
from ssma.errors import StudyError
from ssma.study.ids import file_fingerprint

FEATURES = {
    "ogbn-arxiv": "mean word embedding of title and abstract",
    "ogbn-products": "bag of words of the description, reduced to 100 components",
}
SIZES = {"ogbn-arxiv": (90_941, 29_799, 48_603), "ogbn-products": (196_615, 39_323, 2_213_091)}
CLASSES = {"ogbn-arxiv": 40, "ogbn-products": 47}
SPLIT = {"ogbn-arxiv": "split/time", "ogbn-products": "split/sales_ranking"}
ROWS = {
    "ogbn-arxiv": {"num-node-list": ("node-feat", "node-label", "node_year"), "num-edge-list": ("edge",)},
    "ogbn-products": {"num-node-list": ("node-feat", "node-label"), "num-edge-list": ("edge",)},
}
"""Data set -> what ``ssma.data.ogb.ROWS`` says of the molecules."""
URL = "http://snap.stanford.edu/ogb/data/nodeproppred/{}.zip"


def load(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Reads ``<mirror>/OGB/<name with _ for ->``, or downloads it when there is no mirror, and cuts it into parts.

    ``spec``: ``name``, ``undirected`` (every edge in both directions, once, without self-loops; else the edges are as
    OGB has them), ``parts`` and ``parts_seed`` (see :func:`ssma.data.partition.partition`).

    Raises:
        StudyError: If files are missing or cannot be read, or are not those of the data set, or cannot be cut so.
    """
    name = spec["name"]
    folder = work / name.replace("-", "_")
    tables = [f"raw/{table}" for sizes, others in ROWS[name].items() for table in (sizes, *others)]
    tables += [f"{SPLIT[name]}/{part}" for part in PARTS_OF_OGB.values()]
    # without the release file the loader asks a question at the terminal
    files = ("RELEASE_v1.txt", *(f"{table}.csv.gz" for table in tables))
    downloads = {URL.format(name.removeprefix("ogbn-")): without_top_folder}
    provide(Origin(name, f"OGB/{folder.name}", files, downloads), folder, mirror)
    hashes = {file: file_fingerprint(folder / file) for file in files}
    with reading(name, folder, folder / "processed"):
        import_ogb()
        from ogb.nodeproppred import PygNodePropPredDataset

        allow_graphs()
        check_rows(name, folder, ROWS[name])
        data = PygNodePropPredDataset(name, str(work))[0]
        split = read_split(folder / SPLIT[name])
        whole = Data(x=data.x.float(), edge_index=data.edge_index, y=data.y.flatten())
        graphs, _ = Graphs.from_data_list([whole], "node")
    _check(name, graphs, split)
    graphs, notes = _undirected(graphs) if spec["undirected"] else (graphs, edge_notes(graphs))
    part = partition(graphs.edge_index, graphs.num_nodes, spec["parts"], spec["parts_seed"])
    return Loaded(
        replace(graphs, part=part),
        level="node",
        task="multiclass",
        metric="accuracy",
        num_outputs=CLASSES[name],
        features=FEATURES[name],
        split=split,
        raw_files=hashes,
        parts=_describe(graphs.edge_index, part, spec),
        notes=notes,
    )


def _check(name: str, graphs: Graphs, split: dict[str, list[int]]) -> None:
    found = tuple(map(len, split.values()))
    if found != SIZES[name] or sum(found) != graphs.num_nodes:
        raise StudyError(
            f"data set {name}: got {graphs.num_nodes} nodes, {'/'.join(map(str, found))} of them for "
            f"training/validation/test, but expected {'/'.join(map(str, SIZES[name]))} and no other; the raw files are "
            f"those of another variant or incomplete, fetch them again"
        )
    if set().union(*split.values()) != set(range(graphs.num_nodes)):
        raise StudyError(f"data set {name}: {SPLIT[name]} names a node twice, or one that is none; fetch it again")
    if int(graphs.y.max()) >= CLASSES[name]:
        raise StudyError(
            f"data set {name}: got class {int(graphs.y.max())} but expected 0 to {CLASSES[name] - 1}; fetch the raw "
            f"files again"
        )


def _undirected(graphs: Graphs) -> tuple[Graphs, list[str]]:
    """Returns the graph with every edge in both directions, and notes on what that changed."""
    edges, _ = remove_self_loops(graphs.edge_index)
    both = to_undirected(edges, num_nodes=graphs.num_nodes).flip(0)  # sorted by target, then by source
    note = (
        f"edges: {graphs.num_edges} as they come, {both.size(1)} with both directions of each, once; "
        f"{graphs.num_edges - edges.size(1)} self-loops were left out"
    )
    return replace(graphs, edge_index=both, edge_ptr=torch.tensor([0, both.size(1)])), [note]


def _describe(edge_index: Tensor, part: Tensor, spec: dict[str, Any]) -> dict[str, Any]:
    """Returns what a card says of the parts."""
    sizes = part.bincount()
    return {
        "count": spec["parts"],
        "seed": spec["parts_seed"],
        "nodes": {"min": int(sizes.min()), "max": int(sizes.max())},
        "cut_edges": count_cut_edges(edge_index, part),
    }
