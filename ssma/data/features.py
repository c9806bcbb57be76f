"""Node features for graphs that have none."""

import torch
from torch import Tensor
from torch.nn.functional import one_hot

MADE = ("degree", "constant", "zeros", "random")
DEGREE_CAP = 64
RANDOM_WIDTH = 32  # of the paper authors' code


def made_features(kind: str, edge_index: list[Tensor], num_nodes: list[int]) -> tuple[list[Tensor], str]:
    """Returns the features of every graph's nodes, [n, F] float32, and says in words what they are.

    Args:
        kind: ``degree``: the in-degree, one-hot, degrees from 64 on share the last column; ``constant``: 1; ``zeros``:
            0, the zero vector of the paper's text; ``random``: the same random normal vector of length 32 for every
            node, as in the paper authors' code.
        edge_index: The edges of every graph.
        num_nodes: The number of nodes of every graph.
    """
    if kind == "degree":
        degrees = [torch.bincount(edges[1], minlength=n) for edges, n in zip(edge_index, num_nodes, strict=True)]
        last = min(max(int(degree.max()) for degree in degrees if degree.numel()), DEGREE_CAP)
        words = f"in-degree (one-hot, the last column is {last} or more)"
        return [one_hot(degree.clamp(max=last), last + 1).float() for degree in degrees], words
    vector, words = {
        "constant": (torch.ones(1), "constant 1"),
        "zeros": (torch.zeros(1), "constant 0"),
        "random": (
            torch.randn(RANDOM_WIDTH, generator=torch.Generator().manual_seed(0)),
            f"one random normal vector of {RANDOM_WIDTH} for all nodes",
        ),
    }[kind]
    return [vector.expand(n, -1) for n in num_nodes], words
