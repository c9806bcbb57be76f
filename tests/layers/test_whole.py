"""A whole graph layer by layer, target by target: the numbers of one forward pass, within a number of edges."""

from types import SimpleNamespace

import pytest
import torch
from made_networks import CARD, EDGE_CARD, EVERY_LAYER, WITH_EDGES, network
from torch_geometric.nn import MessagePassing

from ssma.layers.whole import _chunks, whole_outputs

NODES, HUB = 40, 7
LOCAL = [layer for layer in EVERY_LAYER if layer != "gps"]


def whole(loops=3, hub_edges=39, seed=0):
    """A graph with nodes of many degrees, one of them the neighbour of all, two without edges, and some self-loops."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, NODES - 2, (2, 120), generator=generator)
    edges = edges[:, edges[0] != edges[1]]
    hub = torch.stack([torch.arange(hub_edges) % (NODES - 2), torch.full((hub_edges,), HUB)])
    own = torch.arange(10, 10 + loops).expand(2, -1)
    edges = torch.cat([edges, hub[:, hub[0] != HUB], own], dim=1)
    edges = edges[:, edges[1].argsort(stable=True)]
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), edges[1].bincount(minlength=NODES).cumsum(0)])
    target = torch.randperm(NODES, generator=generator)[:25]
    return SimpleNamespace(
        x=torch.randn(NODES, 7, generator=generator), edge_index=edges, edge_start=starts, target=target, pe=None,
        edge_attr=torch.randn(edges.size(1), 5, generator=generator), batch=torch.zeros(NODES, dtype=torch.int64),
        num_graphs=1,
    )  # fmt: skip


def made(layer, aggregator="sum", edge_features=False, width=8, **model):
    card = (EDGE_CARD if edge_features else CARD) | {"level": "node"}
    net = network(layer, aggregator, card, width=width, **model)
    for module in net.modules():  # batch norms that have seen data
        if isinstance(module, torch.nn.BatchNorm1d):
            torch.nn.init.normal_(module.running_mean)
            torch.nn.init.uniform_(module.running_var, 0.5, 2)
    return net


def compared(net, graph, edges=16, targets=5):
    with torch.no_grad():
        return whole_outputs(net, graph, edges, targets), net(graph)


@pytest.mark.parametrize("aggregator", ["sum", "ssma", "std", "median", "lstm"])
@pytest.mark.parametrize("layer", LOCAL)
def test_it_is_the_plain_forward_pass(layer, aggregator):
    chunked, plain = compared(made(layer, aggregator), whole())
    assert plain.shape == (25, 3) and plain.std(0).min() > 1e-3
    torch.testing.assert_close(chunked, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", ["gcn", "gat", "gatv2"])
@pytest.mark.parametrize("aggregator", ["sum", "ssma"])
def test_with_self_loops_that_the_layer_adds(layer, aggregator):
    chunked, plain = compared(made(layer, aggregator, edge_features=layer != "gcn", self_loops=True), whole())
    torch.testing.assert_close(chunked, plain, rtol=1e-5, atol=1e-6)
    without, _ = compared(made(layer, aggregator, edge_features=layer != "gcn"), whole())
    assert not torch.allclose(chunked, without, atol=1e-3)


@pytest.mark.parametrize("layer", [layer for layer in WITH_EDGES if layer != "gps"])
def test_with_edge_features(layer):
    graph = whole()
    chunked, plain = compared(made(layer, "ssma", edge_features=True), graph)
    torch.testing.assert_close(chunked, plain, rtol=1e-5, atol=1e-6)
    graph.edge_attr = graph.edge_attr.flip(0)
    assert not torch.allclose(compared(made(layer, "ssma", edge_features=True), graph)[0], plain, atol=1e-4)


def test_with_a_positional_encoding():
    graph = whole()
    graph.pe = torch.rand(NODES, 3, generator=torch.Generator().manual_seed(5))
    net = made("gin", positional_encoding="random_walk", walk_steps=3)
    chunked, plain = compared(net, graph)
    torch.testing.assert_close(chunked, plain, rtol=1e-5, atol=1e-6)
    graph.pe = graph.pe.flip(0)
    assert not torch.allclose(compared(net, graph)[0], plain, atol=1e-4)


@pytest.mark.parametrize("layer", LOCAL)
def test_the_fixed_draw_does_not_depend_on_the_chunks(layer):
    net = made(layer, "ssma")
    for module in net.modules():
        if hasattr(module, "selection"):
            module.selection = "random"
    graph = whole()
    _, plain = compared(net, graph)
    for edges, targets in ((1, 1), (16, 5), (64, 40), (1000, 1000)):
        torch.testing.assert_close(compared(net, graph, edges, targets)[0], plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", LOCAL)
def test_no_layer_is_given_more_edges_or_targets_than_the_limit(layer):
    graph, seen = whole(loops=0), []
    real = MessagePassing.propagate

    def watched(self, edge_index, size=None, **propagated):
        out = real(self, edge_index, size=size, **propagated)
        seen.append((edge_index.size(1), out.size(0)))
        return out

    net = made(layer, "ssma")
    convs = [module for module in net.modules() if isinstance(module, MessagePassing)]
    for conv in convs:
        conv.propagate = watched.__get__(conv)
    with torch.no_grad():
        whole_outputs(net, graph, 16, 5)
    assert sum(edges for edges, _ in seen) == 2 * graph.edge_index.size(1)
    assert sum(targets for _, targets in seen) == 2 * NODES
    hubs = [(edges, targets) for edges, targets in seen if edges > 16]
    assert hubs == 2 * [(int(graph.edge_index[1].eq(HUB).sum()), 1)]
    assert max(targets for _, targets in seen) == 5


def test_chunks():
    starts = torch.tensor([0, 2, 2, 9, 10, 10, 10])
    assert list(_chunks(starts, 4, 3)) == [(0, 2, 0, 2), (2, 3, 2, 9), (3, 6, 9, 10)]
    assert list(_chunks(starts, 100, 2)) == [(0, 2, 0, 2), (2, 4, 2, 10), (4, 6, 10, 10)]
    assert list(_chunks(starts, 2, 100)) == [(0, 2, 0, 2), (2, 3, 2, 9), (3, 6, 9, 10)]


def test_attention_among_all_nodes_and_training_are_refused():
    with pytest.raises(ValueError, match="attends among all nodes; evaluate it per part"):
        whole_outputs(made("gps"), whole())
    with pytest.raises(ValueError, match="training mode"):
        whole_outputs(made("gcn").train(), whole())
