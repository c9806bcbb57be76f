import pytest
import torch
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.data import Data

from ssma.bench.measure import Work, peak_bytes
from ssma.data import batches as batches_module
from ssma.data.batches import Batches
from ssma.data.graphs import Graphs
from ssma.data.walks import return_probabilities


def random_graphs(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    data = []
    for number in range(count):
        nodes = int(torch.randint(1, 6, (1,), generator=generator))
        edges = int(torch.randint(0, 9, (1,), generator=generator))
        data.append(
            Data(
                x=torch.randn(nodes, 3, generator=generator),
                edge_index=torch.randint(nodes, (2, edges), generator=generator),
                edge_attr=torch.randint(4, (edges, 2), generator=generator),
                y=torch.tensor([number]),
            )
        )
    return data


def assert_equals_pyg(ours, data):
    """The same numbers of the same types; PyG's edges, put in the order of their targets."""
    theirs = PyGBatch.from_data_list(data)
    order = theirs.edge_index[1].argsort(stable=True)
    theirs.edge_index, theirs.edge_attr = theirs.edge_index[:, order], theirs.edge_attr[order]
    for name in ("x", "edge_index", "edge_attr", "batch", "y"):
        mine, expected = getattr(ours, name), getattr(theirs, name)
        assert mine.dtype == expected.dtype and torch.equal(mine, expected), name
    assert (ours.num_graphs, ours.target, ours.pe) == (len(data), None, None)


@pytest.mark.parametrize("segment", [batches_module.SEGMENT_BYTES, 700, 1])  # one gather, a few, one for each batch
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_equals_pyg(monkeypatch, segment, seed):
    monkeypatch.setattr(batches_module, "SEGMENT_BYTES", segment)
    data = random_graphs(20)
    graphs, _ = Graphs.from_data_list(data)
    items = [7, 3, 19, 0, 11, 5, 4, 2]
    generator, again = (None if seed is None else torch.Generator().manual_seed(seed) for _ in range(2))
    batches = list(Batches(graphs, items, 3, "graph").epoch(generator))
    order = items if seed is None else [items[i] for i in torch.randperm(8, generator=again)]
    assert [batch.num_graphs for batch in batches] == [3, 3, 2]
    for number, batch in enumerate(batches):
        assert_equals_pyg(batch, [data[i] for i in order[3 * number : 3 * number + 3]])


def test_batches_without_edges_and_without_edge_attributes():
    graphs, _ = Graphs.from_data_list(graphs_of_sizes([2, 1, 3]))
    first, second = Batches(graphs, [2, 1, 0], 2, "graph").epoch()
    assert (first.x.shape, first.edge_index.shape, first.edge_attr) == ((4, 1), (2, 0), None)
    assert first.edge_index.dtype == torch.int64
    assert (first.batch.tolist(), second.batch.tolist()) == ([0, 0, 0, 1], [0, 0])


def test_positional_encodings_follow_their_nodes(monkeypatch):
    calls = []
    real = batches_module.return_probabilities
    monkeypatch.setattr(
        batches_module, "return_probabilities", lambda *arguments: calls.append(arguments) or real(*arguments)
    )
    graphs, _ = Graphs.from_data_list(random_graphs(20))
    encoding, ptr = return_probabilities(graphs, 4), graphs.node_ptr
    for items in ([7, 3, 19], [5]):
        (batch,) = Batches(graphs, items, 8, "graph", walk_steps=4).epoch()
        assert torch.equal(batch.pe, torch.cat([encoding[ptr[i] : ptr[i + 1]] for i in items]))
    assert len(calls) == 1  # computed once for all parts and fits
    (plain,), (short,) = (Batches(graphs, [5], 8, "graph", walk_steps=steps).epoch() for steps in (0, 2))
    assert plain.pe is None and torch.equal(short.pe, batch.pe[:, :2])  # as for arms that differ in their walks
    tables = [Batches(graphs, [5], 8, "graph", "meta", steps).table for steps in (4, 0, 2)]
    assert all(table.x is tables[0].x and table.edge_index is tables[0].edge_index for table in tables)


def test_an_epoch_of_large_data_is_gathered_in_small_parts(monkeypatch):
    monkeypatch.setattr(batches_module, "SEGMENT_BYTES", 20_000)
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(20, (2, 50), generator=generator)
    graphs, _ = Graphs.from_data_list([Data(x=torch.ones(20, 30), edge_index=edges, y=torch.tensor([0]))] * 1000)
    batches = Batches(graphs, list(range(1000)), 4, "graph")
    stored = graphs.x.nbytes + graphs.edge_index.nbytes

    def epoch():
        for _ in batches.epoch():
            pass

    assert peak_bytes(Work(epoch), torch.device("cpu")) < 200_000 < stored / 10


@pytest.mark.parametrize(
    ("count", "size", "shuffled", "expected"),
    [
        (33, 32, True, [32, 1]),
        (33, 32, False, [32, 1]),
        (34, 32, True, [32, 2]),
        (65, 32, True, [32, 32, 1]),
        (64, 32, True, [32, 32]),
        (1, 32, True, [1]),
        (3, 32, False, [3]),
    ],
)
def test_boundaries(count, size, shuffled, expected):
    graphs, _ = Graphs.from_data_list(graphs_of_sizes([2] * count))
    generator = torch.Generator().manual_seed(0) if shuffled else None
    batches = list(Batches(graphs, list(range(count)), size, "graph").epoch(generator))
    assert [batch.num_graphs for batch in batches] == expected
    assert [batch.y.numel() for batch in batches] == expected
    seen = torch.cat([batch.y for batch in batches]).tolist()
    assert sorted(seen) == list(range(count))
    assert (seen == list(range(count))) is (not shuffled or count == 1)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([1, 1, 1], [3]), ([3, 3, 3], [1, 1, 1]), ([1, 3, 3], None), ([1], [1])],
)
def test_a_batch_of_one_node_joins_another_in_training(sizes, expected):
    """Batch norm cannot train on one row."""
    graphs, _ = Graphs.from_data_list(graphs_of_sizes(sizes))
    epoch = Batches(graphs, list(range(len(sizes))), 1, "graph")
    for seed in range(5):
        batches = list(epoch.epoch(torch.Generator().manual_seed(seed)))
        assert sorted(torch.cat([batch.y for batch in batches]).tolist()) == list(range(len(sizes)))
        if len(sizes) > 1:
            assert min(batch.x.size(0) for batch in batches) > 1
        if expected:
            assert [batch.num_graphs for batch in batches] == expected
    assert [batch.num_graphs for batch in epoch.epoch()] == [1] * len(sizes)


def graphs_of_sizes(sizes):
    empty = torch.empty(2, 0, dtype=torch.long)
    return [Data(x=torch.ones(size, 1), edge_index=empty, y=torch.tensor([i])) for i, size in enumerate(sizes)]


@pytest.mark.parametrize("generator", [None, torch.Generator()])
def test_no_items_make_no_batches(generator):
    graphs, _ = Graphs.from_data_list(random_graphs(3))
    assert list(Batches(graphs, [], 2, "graph").epoch(generator)) == []


def test_the_generator_decides_the_order():
    graphs, _ = Graphs.from_data_list(random_graphs(12))
    batches = Batches(graphs, [1, 3, 5, 7, 9, 11], 4, "graph")
    orders = [
        torch.cat([batch.y for batch in batches.epoch(torch.Generator().manual_seed(seed))]).tolist()
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == [1, 3, 5, 7, 9, 11]


def test_missing_labels_stay_in_their_row():
    data = random_graphs(4)
    for number, graph in enumerate(data):
        graph.y = torch.tensor([float(number), 1.0 if number == 3 else float("nan")])
    graphs, _ = Graphs.from_data_list(data)
    (batch,) = Batches(graphs, [2, 0], 8, "graph").epoch()
    assert batch.y.shape == (2, 2)
    assert batch.y[:, 0].tolist() == [2, 0]
    assert batch.y[:, 1].isnan().all()


def test_node_level_is_one_whole_batch():
    data = Data(x=torch.randn(5, 2), edge_index=torch.tensor([[0, 4], [4, 1]]), y=torch.tensor([0, 1, 2, 3, 4]))
    graphs, _ = Graphs.from_data_list([data], level="node")
    (batch,) = Batches(graphs, [4, 1], 1, "node").epoch(torch.Generator())
    assert torch.equal(batch.x, data.x)
    assert batch.edge_index.tolist() == [[4, 0], [1, 4]]
    assert (batch.target.tolist(), batch.y.tolist()) == ([4, 1], [4, 1])
    (other,) = Batches(graphs, [0], 1, "node").epoch()
    assert (other.target.tolist(), other.y.tolist()) == ([0], [0])
    assert other.x is batch.x and other.edge_index is batch.edge_index  # parts and fits hold the graph once
    assert batch.batch.tolist() == [0] * 5
