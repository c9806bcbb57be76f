"""What a reader of the numbers should know about data and splits: exact copies of graphs, classes never trained on."""

import hashlib
from collections import Counter
from typing import Any

from ssma.data.graphs import Graphs
from ssma.data.loaded import Loaded
from ssma.data.splits import PARTS


def find_copies(loaded: Loaded, splits: list[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Returns how many graphs are exact copies of others, and a note if there are any.

    Two graphs are copies if their node features, edges and edge features are equal in the order in which they are
    stored; their targets may differ, and graphs that are only isomorphic are not found. ``graphs`` counts all that
    have a copy, ``leaked`` the validation and test graphs with a copy in the training part, split by split.
    """
    if loaded.level != "graph":
        return {"graphs": 0, "leaked": [0] * len(splits)}, []
    content = _contents(loaded.graphs)
    many = {digest for digest, count in Counter(content).items() if count > 1}
    graphs = sum(digest in many for digest in content)
    leaked = []
    for split in splits:
        trained = {content[item] for item in split["train"]}
        leaked.append(sum(content[item] in trained for part in PARTS[1:] for item in split[part]))
    found = {"graphs": graphs, "leaked": leaked}
    note = (
        f"{graphs} graphs are exact copies of other graphs, targets aside; up to {max(leaked)} validation and test "
        "graphs of a split have a copy in its training part"
    )
    return found, [note] if graphs else []


def missing_classes(loaded: Loaded, splits: list[dict[str, Any]]) -> list[str]:
    """Returns a note for each class that a training part lacks."""
    if loaded.task != "multiclass":
        return []
    notes = []
    present = [set(loaded.graphs.y[split["train"]].tolist()) for split in splits]
    for label in range(loaded.num_outputs):
        lacking = [number for number, classes in enumerate(present) if label not in classes]
        if lacking:
            notes.append(f"class {label} is missing in the training part of split {', '.join(map(str, lacking))}")
    return notes


def _contents(graphs: Graphs) -> list[bytes]:
    x, edge_index = graphs.x.numpy(), graphs.edge_index.numpy()
    edge_attr = None if graphs.edge_attr is None else graphs.edge_attr.numpy()
    nodes, edges = graphs.node_ptr.tolist(), graphs.edge_ptr.tolist()
    digests = []
    for number in range(graphs.num_graphs):
        own = slice(edges[number], edges[number + 1])
        content = hashlib.sha256(x[nodes[number] : nodes[number + 1]].tobytes())
        content.update(edge_index[:, own].tobytes())
        if edge_attr is not None:
            content.update(edge_attr[own].tobytes())
        digests.append(content.digest())
    return digests
