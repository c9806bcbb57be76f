"""Colour refinement against a plain one, on graphs by hand and by chance."""

import pytest
import torch
from torch_geometric.data import Data

from ssma.data.colours import refine
from ssma.data.graphs import Graphs


def plain(data_list):
    """The stable colours of all graphs together, as lists of numbers."""
    nodes = [(number, node) for number, data in enumerate(data_list) for node in range(data.num_nodes)]
    colours = {(number, node): tuple(data_list[number].x[node].tolist()) for number, node in nodes}
    while True:
        senders = {key: [] for key in nodes}
        for number, data in enumerate(data_list):
            edge_attr = [()] * data.num_edges if data.edge_attr is None else data.edge_attr.tolist()
            for (source, target), edge in zip(data.edge_index.t().tolist(), edge_attr, strict=True):
                senders[number, target].append((colours[number, source], tuple(edge)))
        found = {key: (colours[key], tuple(sorted(senders[key]))) for key in nodes}
        names = {colour: place for place, colour in enumerate(sorted(set(found.values()), key=repr))}
        done = len(names) == len(set(colours.values()))
        colours = {key: (names[found[key]],) for key in nodes}
        if done:
            sets = [sorted(colours[n, v] for v in range(data.num_nodes)) for n, data in enumerate(data_list)]
            return [sets.index(one) for one in sets]


def classes(data_list):
    made = [Data(d.x, d.edge_index, d.edge_attr, torch.tensor([0]), num_nodes=d.num_nodes) for d in data_list]
    numbers = refine(Graphs.from_data_list(made)[0]).tolist()
    return [numbers.index(number) for number in numbers]


def undirected(x, pairs, edge_attr=None):
    edges = torch.tensor(pairs + [(b, a) for a, b in pairs]).t()
    return Data(torch.as_tensor(x), edges, None if edge_attr is None else torch.as_tensor(edge_attr).repeat(2, 1))


def reordered(data, generator):
    """The same graph with its nodes and edges stored in another order."""
    order = torch.randperm(data.num_nodes, generator=generator)
    edges = torch.randperm(data.num_edges, generator=generator)
    place = order.argsort()
    edge_attr = None if data.edge_attr is None else data.edge_attr[edges]
    return Data(data.x[order], place[data.edge_index[:, edges]], edge_attr)


@pytest.mark.parametrize("real", [False, True])
def test_isomorphic_graphs_are_alike_and_one_difference_tells_graphs_apart(real):
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(12, (2, 30), generator=generator)
    x, edge_attr = (torch.randint(3, (rows, 2), generator=generator) for rows in (12, 30))
    if real:
        x, edge_attr = x / 2 - 0.5, edge_attr / 2 - 0.5
    one = Data(x, edge_index, edge_attr)
    others = [reordered(one, generator) for _ in range(3)]
    node, edge, end = (reordered(one, generator) for _ in range(3))
    node.x[3, 1] += 1
    edge.edge_attr[7, 0] += 1
    end.edge_index[0, 5] = (end.edge_index[0, 5] + 1) % 12
    assert classes([one, *others, node, edge, end]) == [0, 0, 0, 0, 4, 5, 6]


def test_graphs_by_hand():
    six, ring = torch.zeros(6, 1), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]
    hexagon, triangles = undirected(six, ring), undirected(six, [*ring[:2], (2, 0), *ring[3:5], (5, 3)])
    assert classes([hexagon, triangles, undirected(six, ring[:5]), undirected(-six, ring)]) == [0, 0, 2, 0]
    bonds = ([0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0], [0, 0, 0, 1, 1, 1])
    assert classes([undirected(six, ring, torch.tensor(own).unsqueeze(1)) for own in bonds]) == [0, 0, 2]
    pair = torch.zeros(2, 1)
    there, back = (Data(pair, torch.tensor(edge)) for edge in ([[0], [1]], [[1], [0]]))
    assert classes([there, back, undirected(pair, [(0, 1)])]) == [0, 0, 2]


def test_what_differs_far_away_is_found():
    """Two marks on paths of 60 nodes: 20, 20 and 19 steps from an end, each other, and the other end, or 20, 21, 18."""
    pairs = [(node, node + 1) for node in range(59)]
    x = torch.zeros(3, 60, 1, dtype=torch.int64)
    x[0, [20, 41]], x[1, [20, 40]], x[2, [39, 18]] = 1, 1, 1
    assert classes([undirected(own, pairs) for own in x]) == [0, 1, 0]


def test_equals_a_plain_refinement():
    generator = torch.Generator().manual_seed(1)
    graphs = []
    for _ in range(150):
        nodes = int(torch.randint(1, 6, (1,), generator=generator))
        edges = int(torch.randint(0, 6, (1,), generator=generator))
        x, edge_attr = (torch.randint(2, (rows, 1), generator=generator) for rows in (nodes, edges))
        graphs.append(Data(x, torch.randint(nodes, (2, edges), generator=generator), edge_attr))
    found = classes(graphs)
    assert found == plain(graphs) and 30 < len(set(found)) < 150
