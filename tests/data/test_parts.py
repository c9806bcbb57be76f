"""Batches of parts of one graph, against plain loops over its nodes and edges."""

import pytest
import torch

from ssma.data.graphs import Graphs
from ssma.data.parts import PartBatches, WholeBatch
from ssma.data.walks import return_probabilities
from ssma.errors import StudyError

NODES, PARTS = 30, 5
ITEMS = [4, 0, 11, 29, 17, 8]


def make_graphs(part=None, edge_features=True):
    generator = torch.Generator().manual_seed(3)
    edges = torch.randint(0, NODES, (2, 140), generator=generator)
    part = torch.randint(0, PARTS, (NODES,), generator=generator) if part is None else part
    return Graphs(
        x=torch.arange(NODES).float().unsqueeze(1), edge_index=edges,
        edge_attr=torch.arange(140).float().unsqueeze(1) if edge_features else None, y=torch.arange(NODES) % 7,
        node_ptr=torch.tensor([0, NODES]), edge_ptr=torch.tensor([0, 140]), part=part,
    )  # fmt: skip


def numbers(batch):
    """The nodes' numbers in the graph, which are their only feature here."""
    return batch.x[:, 0].long().tolist()


def expected_edges(graphs, nodes, keep):
    """(source, target, feature) of the edges of a batch, targets in the order of nodes, their edges in the graph's."""
    part, found = graphs.part.tolist(), []
    for target in nodes:
        for (a, b), feature in zip(graphs.edge_index.t().tolist(), graphs.edge_attr[:, 0].tolist(), strict=True):
            if b == target and a in nodes and (keep or part[a] == part[b]):
                found.append((a, b, feature))
    return found


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_batch_is_the_graph_of_its_parts(keep, size):
    graphs = make_graphs()
    batches = list(PartBatches(graphs, list(range(NODES)), size, keep).epoch(torch.Generator().manual_seed(1)))
    assert len(batches) == -(-PARTS // size)
    seen = []
    for batch in batches:
        nodes = numbers(batch)
        seen += nodes
        parts = sorted({int(graphs.part[node]) for node in nodes})
        assert nodes == [node for part in parts for node in range(NODES) if graphs.part[node] == part]
        assert [parts[number] for number in batch.batch.tolist()] == graphs.part[nodes].tolist()
        assert batch.num_graphs == len(parts) == min(size, PARTS) or batch is batches[-1]
        source, target = batch.edge_index.tolist()
        edges = [
            (nodes[a], nodes[b], e) for a, b, e in zip(source, target, batch.edge_attr[:, 0].tolist(), strict=True)
        ]
        assert edges == expected_edges(graphs, nodes, keep)
        assert batch.y.tolist() == [nodes[row] % 7 for row in batch.target.tolist()]
    assert sorted(seen) == list(range(NODES))
    total = sum(batch.edge_index.size(1) for batch in batches)
    assert (total == 140) == (keep and size == PARTS)


def test_nodes_that_are_not_asked_are_there_without_a_label():
    graphs = make_graphs()
    batches = list(PartBatches(graphs, ITEMS, 1, True).epoch())
    assert sorted(numbers(batch)[row] for batch in batches for row in batch.target.tolist()) == sorted(ITEMS)
    assert all(batch.x.size(0) > batch.target.numel() > 0 for batch in batches)


def test_a_batch_without_a_node_that_is_asked_is_left_out():
    part = torch.arange(NODES) // 6
    batches = list(PartBatches(make_graphs(part), [0, 1, 13], 1, True).epoch())
    assert [numbers(batch)[0] for batch in batches] == [0, 12]
    assert len(list(PartBatches(make_graphs(part), [0, 1, 13], 3, True).epoch())) == 1


def test_an_epoch_follows_from_its_generator():
    batches = PartBatches(make_graphs(), list(range(NODES)), 2, True)
    orders = [[numbers(batch) for batch in batches.epoch(torch.Generator().manual_seed(seed))] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


def test_the_whole_graph_in_the_order_of_its_parts():
    graphs = make_graphs()
    (whole,) = WholeBatch(graphs, ITEMS).epoch()
    nodes = numbers(whole)
    assert nodes == graphs.part.argsort(stable=True).tolist()
    assert [nodes[row] for row in whole.target.tolist()] == ITEMS
    assert whole.y.tolist() == [item % 7 for item in ITEMS]
    source, target = whole.edge_index.tolist()
    edges = [(nodes[a], nodes[b], e) for a, b, e in zip(source, target, whole.edge_attr[:, 0].tolist(), strict=True)]
    assert edges == expected_edges(graphs, nodes, keep=True) and len(edges) == 140
    starts = whole.edge_start.tolist()
    assert [target[starts[row] : starts[row + 1]] for row in range(NODES)] == [
        [row] * target.count(row) for row in range(NODES)
    ]


def test_random_walks_stay_in_their_part():
    graphs = make_graphs()
    (whole,) = WholeBatch(graphs, ITEMS, walk_steps=4).epoch()
    for batch in PartBatches(graphs, list(range(NODES)), 1, True, walk_steps=4).epoch():
        nodes = numbers(batch)
        alone = Graphs(
            batch.x, batch.edge_index, None, torch.zeros(len(nodes), dtype=torch.int64),
            torch.tensor([0, len(nodes)]), torch.tensor([0, batch.edge_index.size(1)]),
        )  # fmt: skip
        torch.testing.assert_close(batch.pe, return_probabilities(alone, 4))
        rows = [numbers(whole).index(node) for node in nodes]
        assert whole.pe[rows].equal(batch.pe)
    (plain,), (short,) = (WholeBatch(graphs, ITEMS, walk_steps=steps).epoch() for steps in (0, 2))
    assert plain.pe is None and short.pe.equal(whole.pe[:, :2])
    assert plain.x is short.x is whole.x and plain.edge_index is short.edge_index is whole.edge_index


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (torch.zeros(NODES - 1, dtype=torch.int64), r"part is torch.int64 of shape \[29\]"),
        (torch.zeros(NODES), "part is torch.float32"),
        (torch.arange(NODES) * 2 % 60, r"each has a node, but \[1, 3,"),
        (torch.arange(NODES) - 1, r"but \[-1\] has none"),
    ],
)
def test_wrong_parts_are_refused(part, words):
    with pytest.raises(StudyError, match=words):
        make_graphs(part)
