from functools import reduce

import pytest
import torch
from torch_geometric.data import Data

from ssma.data import walks
from ssma.data.graphs import Graphs
from ssma.data.walks import return_probabilities


def random_graphs(sizes):
    """Directed multigraphs with self-loops, repeated edges and nodes without outgoing edges."""
    generator = torch.Generator().manual_seed(0)
    return [
        Data(
            x=torch.ones(size, 1),
            edge_index=torch.randint(size, (2, 2 * size if size > 1 else 0), generator=generator),
            y=torch.tensor([0]),
        )
        for size in sizes
    ]


def dense(data, steps):
    """Walks node by node and edge by edge."""
    out = torch.zeros(data.num_nodes, steps, dtype=torch.float64)
    edges = data.edge_index.t().tolist()
    outgoing = [[t for s, t in edges if s == node] for node in range(data.num_nodes)]
    for start in range(data.num_nodes):
        here = {start: 1.0}
        for step in range(steps):
            there = {}
            for node, probability in here.items():
                for target in outgoing[node]:
                    there[target] = there.get(target, 0.0) + probability / len(outgoing[node])
            here = there
            out[start, step] = here.get(start, 0.0)
    return out


@pytest.mark.parametrize("block", [walks.BLOCK, 40, 5])  # all graphs at once, a few, and columns of one graph
def test_equals_walks_step_by_step(monkeypatch, block):
    monkeypatch.setattr(walks, "BLOCK", block)
    data = random_graphs([4, 1, 7, 2, 1, 9, 3])
    graphs, _ = Graphs.from_data_list(data)
    expected = torch.cat([dense(graph, 6) for graph in data])
    assert (expected > 0).float().mean() > 0.2
    found = return_probabilities(graphs, 6)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-7)


def test_known_values():
    """On a triangle a walk returns with 0, 1/2, 1/4, 3/8; on an edge with 0, 1, 0, 1; an isolated node never does."""
    triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    edges = [triangle, torch.tensor([[0, 1], [1, 0]]), torch.empty(2, 0, dtype=torch.int64)]
    data = [Data(x=torch.ones(3, 1), edge_index=edge, y=torch.tensor([0])) for edge in edges]
    graphs, _ = Graphs.from_data_list(data)
    rows = [[0, 1 / 2, 1 / 4, 3 / 8]] * 3 + [[0, 1, 0, 1]] * 2 + [[0, 0, 0, 0]] * 4
    assert torch.equal(return_probabilities(graphs, 4), torch.tensor(rows, dtype=torch.float32))


def test_blocks_hold_every_graph_once_and_stay_small(monkeypatch):
    monkeypatch.setattr(walks, "BLOCK", 50)
    sizes = [3, 4, 5, 20, 1, 1, 1, 2, 6, 6]
    blocks = list(walks._blocks(sizes))
    assert reduce(lambda end, block: block[1] if block[0] == end else None, blocks, 0) == len(sizes)
    for first, end in blocks:
        assert end - first == 1 or sum(sizes[first:end]) * max(sizes[first:end]) <= 50


def test_refuses_no_steps():
    graphs, _ = Graphs.from_data_list(random_graphs([3]))
    with pytest.raises(ValueError, match="got steps=0 but expected at least 1"):
        return_probabilities(graphs, 0)
