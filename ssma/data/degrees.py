"""How many neighbours the training nodes of a split have."""

import torch
from torch import Tensor

from ssma.data.graphs import Graphs, owners


def degree_histogram(graphs: Graphs, items: list[int], level: str) -> Tensor:
    """Returns how many nodes have 0, 1, 2, ... incoming edges, int64 [largest + 1].

    Self-loops that a layer adds are not counted.

    Args:
        graphs: All graphs of the data set.
        items: Graph numbers (level ``graph``: all nodes of these graphs count) or node numbers (level ``node``) of the
            part, normally the training part of a split.
        level: ``graph`` or ``node``.
    """
    degrees, chosen = graphs.in_degrees(), torch.tensor(items, dtype=torch.int64)
    if level == "graph":
        chosen = torch.isin(owners(graphs.node_ptr), chosen)
    return degrees[chosen].bincount()
