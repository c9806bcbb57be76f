from dataclasses import replace

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from ssma.data.graphs import Graphs
from ssma.errors import StudyError


def graph(nodes, edges, y=0, width=2, **more):
    return Data(x=torch.arange(nodes * width).view(nodes, width).float(), edge_index=edges, y=torch.tensor([y]), **more)


PAIR = torch.tensor([[0, 1], [1, 0]])


def test_collates_with_local_node_numbers():
    graphs, dropped = Graphs.from_data_list([graph(2, PAIR, 1), graph(3, torch.tensor([[2], [0]]), 0)])
    assert dropped == 0
    assert graphs.node_ptr.tolist() == [0, 2, 5]
    assert graphs.edge_ptr.tolist() == [0, 2, 3]
    assert graphs.edge_index.tolist() == [[1, 0, 2], [0, 1, 0]]
    assert graphs.y.tolist() == [1, 0]
    assert graphs.in_degrees().tolist() == [1, 1, 1, 0, 0]
    assert graphs.x.shape == (5, 2)


def test_edges_lie_in_the_order_of_their_targets_and_those_of_one_target_keep_their_order():
    edges = torch.tensor([[2, 0, 1, 0, 2], [1, 2, 1, 2, 0]])
    attributes = torch.tensor([10, 11, 12, 13, 14])
    data = [graph(2, PAIR, edge_attr=torch.tensor([5, 6])), graph(3, edges, edge_attr=attributes)]
    graphs, _ = Graphs.from_data_list(data)
    assert graphs.edge_index.tolist() == [[1, 0, 2, 2, 1, 0, 0], [0, 1, 0, 1, 1, 2, 2]]
    assert graphs.edge_attr.flatten().tolist() == [6, 5, 14, 10, 12, 11, 13]
    assert edges.tolist() == [[2, 0, 1, 0, 2], [1, 2, 1, 2, 0]]  # the caller's own are as they were
    again = replace(graphs, y=graphs.y + 1)
    assert again.edge_index is graphs.edge_index


@pytest.mark.parametrize("empty", [[], torch.empty(0), torch.empty(2, 0), torch.tensor([]), None])
def test_repairs_the_edge_list_of_an_edgeless_graph(empty):
    wrong = Data(x=torch.ones(1, 2), y=torch.tensor([1]))
    wrong.edge_index = empty
    graphs, _ = Graphs.from_data_list([graph(2, PAIR), wrong, graph(2, PAIR)])
    assert graphs.edge_index.dtype == torch.int64
    assert graphs.edge_ptr.tolist() == [0, 2, 2, 4]


def test_edges_that_pyg_says_more_of_become_a_plain_tensor():
    known = EdgeIndex(torch.tensor([[0, 0, 1], [1, 2, 0]]), sparse_size=(3, 3), sort_order="row").fill_cache_()
    graphs, _ = Graphs.from_data_list([graph(3, known), graph(3, known)])
    assert type(graphs.edge_index) is torch.Tensor
    assert graphs.edge_index.tolist() == [[1, 0, 0, 1, 0, 0], [0, 1, 2, 0, 1, 2]]


def test_an_edgeless_graph_may_lack_edge_attributes():
    attributed = graph(2, PAIR, edge_attr=torch.tensor([3, 4]))
    graphs, _ = Graphs.from_data_list([graph(1, torch.empty(2, 0)), attributed])
    assert graphs.edge_attr.tolist() == [[4], [3]]


def test_drops_and_counts_graphs_without_nodes():
    nothing = Data(x=torch.empty(0, 2), edge_index=torch.empty(2, 0, dtype=torch.int64), y=torch.tensor([1]))
    graphs, dropped = Graphs.from_data_list([graph(2, PAIR, 4), nothing, graph(1, [], 2)])
    assert (dropped, graphs.num_graphs, graphs.y.tolist()) == (1, 2, [4, 2])


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (graph(2, torch.tensor([[0], [2]])), r"graph 2: edge_index spans 0\.\.2.*0\.\.1"),
        (graph(2, torch.tensor([[-1], [0]])), "graph 2: edge_index spans -1"),
        (graph(2, torch.tensor([[0.0], [1.0]])), "graph 2: edge_index is torch.float32"),
        (graph(2, PAIR, width=3), r"graph 2: x is torch.float32 of shape \[2, 3\].*\[2, 2\]"),
        (Data(edge_index=PAIR, num_nodes=2, y=torch.tensor([0])), "graph 2: x is missing"),
        (Data(x=torch.ones(2, 2), edge_index=PAIR), "graph 2: y is missing"),
        (Data(x=torch.ones(2, 2), edge_index=PAIR, y=torch.tensor([0, 1])), "graph 2: y is torch.int64"),
        (graph(2, [], edge_attr=torch.ones(2, 2)), "graph 2: it has edge_attr but no edge; mend the data set's edges"),
    ],
)
def test_refuses_and_names_the_graph(second, message):
    nothing = Data(x=torch.empty(0, 2), edge_index=torch.empty(2, 0), y=torch.tensor([0]))
    with pytest.raises(StudyError, match=message):
        Graphs.from_data_list([graph(2, PAIR), nothing, second])


@pytest.mark.parametrize("shape", [(3,), (1, 3)])
def test_real_targets_become_one_row_per_graph(shape):
    data = [
        Data(x=torch.ones(1, 1), edge_index=[], y=torch.tensor([1.0, nan, i]).view(shape))
        for i, nan in enumerate([float("nan"), 7])
    ]
    graphs, _ = Graphs.from_data_list(data)
    assert (graphs.y.shape, graphs.y.dtype) == ((2, 3), torch.float32)
    assert graphs.y[:, 2].tolist() == [0, 1]
    assert graphs.y[0, 1].isnan() and graphs.y[1, 1] == 7


def test_node_level_labels():
    data = Data(x=torch.tensor([[3], [1], [0]]), edge_index=PAIR, y=torch.tensor([[0], [1], [2]]))
    graphs, _ = Graphs.from_data_list([data], level="node")
    assert graphs.y.tolist() == [0, 1, 2]
    assert graphs.x.dtype == torch.int64


def test_refuses_a_target_that_could_broadcast():
    graphs, _ = Graphs.from_data_list([graph(2, PAIR), graph(2, PAIR)])
    with pytest.raises(StudyError, match="y is torch.float32"):
        replace(graphs, y=torch.zeros(2))
    with pytest.raises(StudyError, match="y is torch.int64"):
        replace(graphs, y=torch.zeros(2, 1, dtype=torch.int64))


def test_targets_that_are_infinite_are_named():
    y = torch.tensor([0.5, 1e39], dtype=torch.float64)  # which float32 has no number for
    with pytest.raises(StudyError, match=r"graph 1: y holds \[inf\]; allowed are numbers that are finite as float32"):
        Graphs.from_data_list([Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0), y=value) for value in y])


def test_refuses_a_target_without_any_value():
    graphs, _ = Graphs.from_data_list([graph(2, PAIR), graph(2, PAIR)])
    with pytest.raises(StudyError, match="graphs: y has no known value in column 1; mend"):
        replace(graphs, y=torch.tensor([[1, float("nan")], [1, float("nan")]]))


def test_refuses_a_number_that_is_not_finite():
    graphs, _ = Graphs.from_data_list([graph(2, PAIR), graph(2, PAIR)])
    x = graphs.x.clone()
    x[3, 1] = float("nan")
    with pytest.raises(StudyError, match="graph 1: x holds"):
        replace(graphs, x=x)


def test_save_load_and_hash(tmp_path):
    graphs, _ = Graphs.from_data_list([graph(2, PAIR, edge_attr=torch.tensor([0.5, 1])), graph(1, [])])
    graphs.save(tmp_path / "graphs.pt")
    again = Graphs.load(tmp_path / "graphs.pt")
    assert again.content_hash() == graphs.content_hash()
    assert again.edge_attr.tolist() == [[1.0], [0.5]]
    x = graphs.x.clone()
    x[0, 0] = 9
    assert replace(graphs, x=x).content_hash() != graphs.content_hash()
    assert replace(graphs, edge_attr=None).content_hash() != graphs.content_hash()
    assert replace(graphs, y=graphs.y + 1).content_hash() != graphs.content_hash()
