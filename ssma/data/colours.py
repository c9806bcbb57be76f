"""Graphs that message passing does not tell apart, by colour refinement."""

import numpy as np
from torch import Tensor

from ssma.data.graphs import Graphs, owners


def refine(graphs: Graphs) -> np.ndarray:
    """Returns a number for each graph, uint64 [G]: equal for graphs that no message passing tells apart.

    The first colour of a node are its features, the next one its colour and those of the nodes and edges that send to
    it, each as often as it occurs, and so on until no more nodes are told apart. Graphs are alike if they have the same
    colours equally often. Isomorphic ones are, in whatever order their nodes are stored, and few others. Source:
    Weisfeiler and Leman (1968); Morris et al., "Weisfeiler and Leman Go Neural" (2019) on networks.

    Colours are hashes of 64 bits. Graphs that are told apart from all others are left out of further rounds.
    """
    source, target = graphs.ends(0).numpy(), graphs.ends(1).numpy()
    owner = owners(graphs.node_ptr).numpy()
    colour = _of_rows(graphs.x)
    edge = np.zeros(len(source), np.uint64) if graphs.edge_attr is None else _of_rows(graphs.edge_attr)
    found = np.zeros(graphs.num_graphs, np.uint64)
    while True:
        of_graphs = _sums(_mixed(colour), owner, graphs.num_graphs)
        found[owner] = of_graphs[owner]
        _, place, count = np.unique(found, return_inverse=True, return_counts=True)
        kept = count[place[owner]] > 1
        of_edges, number = kept[target], kept.cumsum() - 1
        source, target, edge = number[source[of_edges]], number[target[of_edges]], edge[of_edges]
        owner, colour = owner[kept], colour[kept]
        colours = np.unique(colour).size
        sent = _mixed(_mixed(colour[source]) + edge)
        colour = _mixed(_mixed(colour) + _sums(sent, target, len(colour)))
        if np.unique(colour).size == colours:
            return found


def _of_rows(values: Tensor) -> np.ndarray:
    """Returns a hash of each row of float32 or int64 values; -0 is 0."""
    table = values.numpy() + 0
    found = np.zeros(len(table), np.uint64)
    for column in table.T:
        bits = np.ascontiguousarray(column).view(f"uint{8 * column.itemsize}")
        found = _mixed(found + bits.astype(np.uint64) + np.uint64(1))
    return found


def _sums(values: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """Returns the sums, modulo 2^64, of the values of each place."""
    found = np.zeros(size, np.uint64)
    np.add.at(found, places, values)
    return found


def _mixed(values: np.ndarray) -> np.ndarray:
    """Returns hashes of 64-bit numbers, one to one, by the last steps of the generator SplitMix64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
