"""Embedded tasks made from a seed: labels that mix the features of different neighbours by products.

The signal of a node is a product over ALL its neighbours; a feature has mean 1 and variance 1 and may be negative.
About a quarter of the variance of such a product over four neighbours is linear in their sum, so that a sum-aggregating
network learns something soon, and the rest needs the neighbours' features multiplied.
"""

import inspect
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from ssma.data.graphs import Graphs, owners, pointer
from ssma.data.loaded import Loaded
from ssma.errors import StudyError
from ssma.study.ids import seed_from

LOW, HIGH = 1 - math.sqrt(3), 1 + math.sqrt(3)  # the uniform distribution of mean 1 and variance 1
UNIFORM = "continuous, uniform, mean 1, variance 1"
DIFFERENCE = "product of feature 0 - product of feature 1 over the neighbours"
EDGE_TYPES = 3
TARGETS = 4
MOMENT_GRAPHS = 2000


def load(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Makes the task ``spec["task"]`` with the other entries of ``spec`` as its options; needs neither folder.

    Raises:
        StudyError: If the task is unknown, an option does not belong to it, or the sizes are impossible.
    """
    if spec["task"] not in TASKS:
        raise StudyError(f"synthetic task: got {spec['task']!r}, allowed are {', '.join(TASKS)}")
    make = TASKS[spec["task"]]
    options = {key: value for key, value in spec.items() if key not in ("source", "task") and value is not None}
    allowed = inspect.signature(make).parameters
    for key in options.keys() - allowed.keys():
        raise StudyError(f"synthetic task {spec['task']}: it has no {key}; leave it out (it has {', '.join(allowed)})")
    return make(**options)


def product_classification(
    num_graphs: int = 300, num_nodes: int = 16, num_features: int = 4, degree: int = 4, seed: int = 0
) -> Loaded:
    """Two equal classes: is the mean over nodes v of prod_j x_j[0] - prod_j x_j[1], j in N(v), above the median?"""
    _at_least("num_features", num_features, 2)
    graphs = _random_graphs(num_graphs, num_nodes, num_features, degree, _generator(seed))
    y = _quantile_classes(graph_means(graphs, _difference(graphs)).squeeze(1), 2)
    note = f"label: mean over nodes of ({DIFFERENCE}), above the median of all graphs or not"
    return Loaded(replace(graphs, y=y), "graph", "multiclass", "accuracy", 2, UNIFORM, notes=[note])


def product_regression(
    num_graphs: int = 300, num_nodes: int = 16, num_features: int = 4, degree: int = 4, seed: int = 0
) -> Loaded:
    """The signal of ``product_classification`` as a real target.

    It is standardised by the moments of other graphs of the same make, so that no split leaks into another.
    """
    _at_least("num_features", num_features, 2)
    graphs = _random_graphs(num_graphs, num_nodes, num_features, degree, _generator(seed))
    others = _random_graphs(MOMENT_GRAPHS, num_nodes, 2, degree, _generator(seed_from("moments", seed)))
    reference = graph_means(others, _difference(others))
    y = (graph_means(graphs, _difference(graphs)) - reference.mean()) / reference.std()
    notes = [f"target: mean over nodes of ({DIFFERENCE})"]
    notes += [f"standardised by the mean and deviation of {MOMENT_GRAPHS} other graphs of the same make"]
    return Loaded(replace(graphs, y=y.float()), "graph", "regression", "mae", 1, UNIFORM, notes=notes)


def typed_classification(
    num_graphs: int = 300, num_nodes: int = 16, num_features: int = 4, degree: int = 4, seed: int = 0
) -> Loaded:
    """Three equal classes by the terciles of the mean over nodes v of prod_j w[type_j, type_vj], j in N(v).

    ``num_features`` is the number of node types; ``w`` spreads evenly over the pairs of a node and an edge type.
    """
    _at_least("num_features", num_features, 2)
    generator = _generator(seed)
    plain = _random_graphs(num_graphs, num_nodes, 1, degree, generator)
    x = torch.randint(num_features, (plain.num_nodes, 1), generator=generator)
    edge_attr = _symmetric_types(plain, generator)
    graphs = replace(plain, x=x, edge_attr=edge_attr)
    score = graph_means(graphs, _typed_products(graphs, typed_weights(num_features, seed))).squeeze(1)
    words = f"categorical, {num_features} node types and {EDGE_TYPES} edge types"
    note = "label: tercile of the mean over nodes of the product over the neighbours of a weight of (neighbour type, "
    graphs = replace(graphs, y=_quantile_classes(score, 3))
    return Loaded(graphs, "graph", "multiclass", "accuracy", 3, words, notes=[f"{note}edge type)"])


def node_classification(num_nodes: int = 1000, num_features: int = 4, degree: int = 4, seed: int = 0) -> Loaded:
    """One graph; two equal classes of nodes v: is prod_j x_j[0] - prod_j x_j[1], j in N(v), above the median?"""
    _at_least("num_features", num_features, 2)
    graphs = _random_graphs(1, num_nodes, num_features, degree, _generator(seed))
    y = _quantile_classes(_difference(graphs).squeeze(1), 2)
    note = f"label: {DIFFERENCE}, above the median or not"
    return Loaded(replace(graphs, y=y), "node", "multiclass", "accuracy", 2, UNIFORM, notes=[note])


def multilabel(
    num_graphs: int = 300, num_nodes: int = 16, num_features: int = 4, degree: int = 4, seed: int = 0
) -> Loaded:
    """Four labels t: is the mean over nodes v of prod_j x_j[t], j in N(v), above its median? A quarter is missing."""
    _at_least("num_features", num_features, TARGETS)
    _at_least("num_graphs", num_graphs, 4)
    generator = _generator(seed)
    graphs = _random_graphs(num_graphs, num_nodes, num_features, degree, generator)
    score = graph_means(graphs, neighbour_products(graphs, graphs.x[:, :TARGETS]))
    y = torch.stack([_quantile_classes(column, 2).float() for column in score.unbind(1)], dim=1)
    for target in range(TARGETS):  # a quarter of an evenly halved label leaves both classes
        y[torch.randperm(num_graphs, generator=generator)[: num_graphs // 4], target] = float("nan")
    note = "label t: mean over nodes of the product of feature t over the neighbours, above the median of all graphs or"
    notes = [f"{note} not; a quarter of the labels is missing"]
    return Loaded(replace(graphs, y=y), "graph", "multilabel", "ap", TARGETS, UNIFORM, notes=notes)


TASKS = {
    make.__name__: make
    for make in (product_classification, product_regression, typed_classification, node_classification, multilabel)
}


def neighbour_products(graphs: Graphs, values: Tensor, along_edges: bool = False) -> Tensor:
    """Returns, in float64, each node's product over its neighbours of their ``values`` (or of its edges' values)."""
    source, target = graphs.ends(0), graphs.ends(1)
    rows = values.double() if along_edges else values.double()[source]
    index = target.unsqueeze(1).expand_as(rows)
    return torch.ones(graphs.num_nodes, rows.size(1), dtype=rows.dtype).scatter_reduce(0, index, rows, "prod")


def graph_means(graphs: Graphs, values: Tensor) -> Tensor:
    """Returns the mean of ``values`` [num_nodes, T] over the nodes of each graph, [G, T]."""
    sizes = graphs.node_ptr.diff()
    sums = values.new_zeros(graphs.num_graphs, values.size(1)).index_add(0, owners(graphs.node_ptr), values)
    return sums / sizes.unsqueeze(1)


def typed_weights(node_types: int, seed: int) -> Tensor:
    """Returns w [node_types, EDGE_TYPES]: evenly spread numbers of mean 1 in a random order."""
    pairs = node_types * EDGE_TYPES
    order = torch.randperm(pairs, generator=_generator(seed_from("weights", seed)))
    return torch.linspace(LOW, HIGH, pairs, dtype=torch.float64)[order].view(node_types, EDGE_TYPES)


def _typed_products(graphs: Graphs, weights: Tensor) -> Tensor:
    types = graphs.x[graphs.ends(0), 0]
    return neighbour_products(graphs, weights[types, graphs.edge_attr[:, 0]].unsqueeze(1), along_edges=True)


def _difference(graphs: Graphs) -> Tensor:
    products = neighbour_products(graphs, graphs.x[:, :2])
    return products[:, :1] - products[:, 1:]


def _quantile_classes(score: Tensor, classes: int) -> Tensor:
    rank = torch.empty_like(score, dtype=torch.int64)
    rank[score.argsort(stable=True)] = torch.arange(score.numel())
    return rank * classes // score.numel()


def _random_graphs(num_graphs: int, num_nodes: int, num_features: int, degree: int, generator: Generator) -> Graphs:
    """Returns connected, nearly regular random graphs of ``num_nodes`` nodes give or take a quarter (one: exactly)."""
    _at_least("num_graphs", num_graphs, 1)
    _at_least("degree", degree, 2)
    _at_least("num_nodes", num_nodes, 2 * degree)
    spread = 0 if num_graphs == 1 else num_nodes // 4
    sizes = torch.randint(num_nodes - spread, num_nodes + spread + 1, (num_graphs,), generator=generator)
    edges = [_random_edges(size, degree, generator) for size in sizes.tolist()]
    x = LOW + (HIGH - LOW) * torch.rand(int(sizes.sum()), num_features, generator=generator)
    counts = torch.tensor([edge.size(1) for edge in edges])
    no_y = torch.zeros(num_graphs, dtype=torch.int64)
    return Graphs(x, torch.cat(edges, dim=1), None, no_y, pointer(sizes), pointer(counts))


def _random_edges(size: int, degree: int, generator: Generator) -> Tensor:
    """Overlays degree / 2 random cycles (and a random matching when odd); shared edges count once. Both directions."""
    pairs = []
    for _ in range(degree // 2):
        ring = torch.randperm(size, generator=generator)
        pairs.append(torch.stack([ring, ring.roll(1)]))
    if degree % 2:
        order = torch.randperm(size, generator=generator)[: size // 2 * 2]
        pairs.append(order.view(2, -1))
    forward = torch.cat(pairs, dim=1)
    both = torch.cat([forward, forward.flip(0)], dim=1)
    return torch.unique(both, dim=1)


def _symmetric_types(graphs: Graphs, generator: Generator) -> Tensor:
    """Returns one random edge type per undirected edge, the same in both directions, int64 [E, 1]."""
    low, high = graphs.edge_index.min(dim=0).values, graphs.edge_index.max(dim=0).values
    _, edge = torch.unique(torch.stack([owners(graphs.edge_ptr), low, high]), dim=1, return_inverse=True)
    return torch.randint(EDGE_TYPES, (graphs.num_edges // 2,), generator=generator)[edge].unsqueeze(1)


def _generator(seed: int) -> Generator:
    return Generator().manual_seed(seed)


def _at_least(option: str, value: int, least: int) -> None:
    if value < least:
        raise StudyError(f"synthetic task: {option} is {value}, it must be at least {least}")
