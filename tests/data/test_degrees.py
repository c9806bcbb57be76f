import dataclasses

import torch

from ssma.data.degrees import degree_histogram
from ssma.data.graphs import Graphs

GRAPHS = Graphs(
    x=torch.zeros(7, 1), edge_index=torch.tensor([[0, 1, 2, 0, 0, 1], [1, 2, 1, 0, 1, 1]]), edge_attr=None,
    y=torch.tensor([0, 1, 0]), node_ptr=torch.tensor([0, 3, 4, 7]), edge_ptr=torch.tensor([0, 3, 4, 6]),
)  # fmt: skip


def test_degrees_of_the_training_graphs_only():
    """In-degrees: graph 0 has 0, 2, 1; graph 1 a self-loop; graph 2 has 0, 2, 0."""
    assert degree_histogram(GRAPHS, [0, 1], "graph").tolist() == [1, 2, 1]
    assert degree_histogram(GRAPHS, [2, 0], "graph").tolist() == [3, 1, 2]
    other = dataclasses.replace(GRAPHS, edge_index=GRAPHS.edge_index.clone())
    other.edge_index[1, 4] = 2  # another test graph
    assert torch.equal(degree_histogram(other, [0, 1], "graph"), degree_histogram(GRAPHS, [0, 1], "graph"))
    assert not torch.equal(degree_histogram(other, [2], "graph"), degree_histogram(GRAPHS, [2], "graph"))


def test_degrees_of_the_training_nodes_only():
    assert degree_histogram(GRAPHS, [1, 5, 0], "node").tolist() == [1, 0, 2]
