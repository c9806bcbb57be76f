import copy
import gc
import weakref

import pytest
import torch
from made_networks import EDGE_CARD, graph, network
from torch_geometric.nn import GATConv, GCNConv, GINConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from ssma.aggr import SumAggregation, use_aggregation
from ssma.layers import lean as lean_module
from ssma.layers.dropout import Dropout
from ssma.layers.lean import lean, neighbour_sum

NODES, TARGETS, EDGES = 40, 25, 300


def edges(seed=0):
    generator = torch.Generator().manual_seed(seed)
    sources = torch.randint(NODES - 5, (EDGES,), generator=generator)  # the last nodes have none
    return torch.stack([sources, torch.randint(TARGETS - 5, (EDGES,), generator=generator)])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sum_over_neighbours_and_its_gradient_in_a_python_loop(dtype, weighted):
    edge_index = edges()
    weight = torch.rand(EDGES).to(dtype) if weighted else None
    x = torch.randn(NODES, 3, dtype=dtype, requires_grad=True)
    upper = torch.randn(TARGETS, 3, dtype=dtype)
    out = neighbour_sum(x, edge_index, TARGETS, weight)
    (gradient,) = torch.autograd.grad(out, x, upper)
    by_hand, gradient_by_hand = torch.zeros(TARGETS, 3, dtype=dtype), torch.zeros(NODES, 3, dtype=dtype)
    for number, (source, target) in enumerate(edge_index.t().tolist()):
        scale = 1 if weight is None else weight[number]
        by_hand[target] += scale * x[source].detach()
        gradient_by_hand[source] += scale * upper[target]
    exact = 1e-5 if dtype == torch.float32 else 1e-13
    torch.testing.assert_close(out.detach(), by_hand, rtol=exact, atol=exact)
    torch.testing.assert_close(gradient, gradient_by_hand, rtol=exact, atol=exact)
    assert (out[-5:] == 0).all()
    assert (gradient[-5:] == 0).all()


def test_without_edges_or_nodes_sums_are_zero():
    none = torch.empty(2, 0, dtype=torch.int64)
    x = torch.randn(4, 3, requires_grad=True)
    out = neighbour_sum(x, none, 5, torch.empty(0))
    assert torch.equal(out, torch.zeros(5, 3))
    assert torch.equal(torch.autograd.grad(out.sum(), x)[0], torch.zeros(4, 3))
    assert neighbour_sum(torch.empty(0, 3), none, 0).shape == (0, 3)


def test_edges_that_change_in_place_or_meet_other_nodes_are_sorted_again():
    edge_index, x = edges(), torch.eye(NODES)
    adjacency = neighbour_sum(x, edge_index, TARGETS)
    assert adjacency.sum() == EDGES
    assert torch.equal(neighbour_sum(x, edge_index, TARGETS + 2)[:TARGETS], adjacency)
    assert torch.equal(neighbour_sum(torch.eye(NODES + 1), edge_index, TARGETS)[:, :NODES], adjacency)
    assert torch.equal(neighbour_sum(x, edge_index, TARGETS), adjacency)  # what it is known by is what is asked next
    edge_index.copy_(edges(seed=1))
    changed = neighbour_sum(x, edge_index, TARGETS)
    assert torch.equal(changed, neighbour_sum(x, edges(seed=1), TARGETS))
    assert not torch.equal(changed, adjacency)
    with torch.inference_mode():  # where tensors do not count their changes
        edge_index = edges()
        assert torch.equal(neighbour_sum(x, edge_index, TARGETS), adjacency)
        edge_index.copy_(edges(seed=1))
        assert torch.equal(neighbour_sum(x, edge_index, TARGETS), changed)


@pytest.mark.parametrize("improved", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_layers_normalise_edges_once_and_anew_where_they_differ(loops, improved, monkeypatch):
    calls = []
    monkeypatch.setattr(lean_module, "gcn_norm", lambda *given: calls.append(given) or gcn_norm(*given))
    plain, quick = plain_and_quick(lambda: GCNConv(3, 4, improved=improved, add_self_loops=loops))
    edge_index, x = edges(), torch.randn(NODES, 3)
    for _ in range(3):
        torch.testing.assert_close(quick(x, edge_index), plain(x, edge_index))
    assert len(calls) == 1
    edge_index.copy_(edges(seed=1))
    torch.testing.assert_close(quick(x, edge_index), plain(x, edge_index))
    more = torch.randn(NODES + 1, 3)
    torch.testing.assert_close(quick(more, edge_index), plain(more, edge_index))
    quick.add_self_loops = plain.add_self_loops = not loops
    torch.testing.assert_close(quick(more, edge_index), plain(more, edge_index))
    quick.improved = plain.improved = not improved
    torch.testing.assert_close(quick(more, edge_index), plain(more, edge_index))
    quick, plain, more = quick.double(), plain.double(), more.double()
    torch.testing.assert_close(quick(more, edge_index), plain(more, edge_index))
    assert len(calls) == 6


@pytest.mark.parametrize("loops", [False, True])
def test_what_layers_know_of_edges_goes_with_them_and_serves_training_after_inference(loops):
    plain, quick = plain_and_quick(lambda: GCNConv(3, 4, add_self_loops=loops))
    edge_index, x = edges(), torch.randn(NODES, 3)
    with torch.inference_mode():
        quick(x, edge_index)
    gradients = [torch.autograd.grad(layer(x, edge_index).sum(), list(layer.parameters())) for layer in (plain, quick)]
    torch.testing.assert_close(*gradients)
    kept = weakref.ref(edge_index)
    del edge_index
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sum_over_neighbours_has_higher_derivatives(weighted):
    edge_index = edges()[:, :20] % 4
    weight = torch.rand(20, dtype=torch.float64) if weighted else None
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: neighbour_sum(x, edge_index, 4, weight).pow(3), x)


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_edge_of_a_node_that_is_not_there_is_refused(dtype, end):
    edge_index = torch.zeros(2, 1, dtype=torch.int64)
    edge_index[end] = 5
    with pytest.raises(IndexError, match="edge_index got node 5 but expected one below 1"):
        neighbour_sum(torch.ones(1, 3, dtype=dtype), edge_index, 1)


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("layer", ["gcn", "gin"])
def test_a_sum_gives_what_it_gives_by_messages(layer, loops):
    batch = graph()
    quick = network(layer, self_loops=loops)
    watched, seen = copy.deepcopy(quick), []
    for block in watched.blocks:
        block.conv.aggr_module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
    outputs = [item(batch) for item in (quick, watched)]
    torch.testing.assert_close(*outputs, rtol=1e-5, atol=1e-6)
    assert seen == [(16 + 10 * (loops and layer == "gcn"), 8)] * 2
    gradients = [
        torch.autograd.grad(output.square().sum(), list(item.parameters()))
        for item, output in zip((quick, watched), outputs, strict=True)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", ["gcn", "gin"])
def test_an_explainer_sees_the_messages_of_a_sum(layer):
    batch = graph()
    GCNConv(2, 2), GINConv(torch.nn.Linear(2, 2))  # PyG prepares a class with its first layer
    conv = network(layer).blocks[0].conv
    x = torch.randn(10, 8)
    before = conv(x, batch.edge_index)
    conv.explain, seen = True, []
    conv.explain_message = lambda inputs, dim_size: seen.append(inputs.shape) or inputs
    torch.testing.assert_close(conv(x, batch.edge_index), before)
    assert seen == [(16, 8)]


@pytest.mark.parametrize("part", ["propagate", "message", "aggregate", "update"])
@pytest.mark.parametrize("layer", ["gcn", "gin"])
def test_a_step_put_in_the_place_of_a_layers_own_is_taken(layer, part):
    conv, batch, calls = network(layer).blocks[0].conv, graph(), []
    own, expected = getattr(conv, part), conv(torch.ones(10, 8), batch.edge_index)
    setattr(conv, part, lambda *given, **named: calls.append(part) or own(*given, **named))
    torch.testing.assert_close(conv(torch.ones(10, 8), batch.edge_index), expected)
    assert calls == [part]


def test_a_hook_of_a_layer_that_brings_its_sum_is_called():
    calls = []
    conv = lean(GCNConv(8, 4, aggr=SumAggregation()))
    conv.register_propagate_forward_pre_hook(lambda *_: calls.append(1))
    conv(torch.ones(10, 8), graph().edge_index)
    assert calls == [1]


@pytest.mark.parametrize("layer", ["gcn", "gin"])
def test_several_gradients_are_taken_at_once(layer):
    conv, batch, x = network(layer).blocks[0].conv, graph(), torch.randn(10, 8, requires_grad=True)
    out = conv(x, batch.edge_index)
    upper = torch.randn(3, *out.shape)
    expected = torch.stack([torch.autograd.grad(out, x, each, retain_graph=True)[0] for each in upper])
    at_once = torch.func.vmap(lambda each: torch.autograd.grad(out, x, each, retain_graph=True)[0])(upper)
    torch.testing.assert_close(at_once, expected)
    torch.testing.assert_close(torch.autograd.grad(out, x, upper, is_grads_batched=True)[0], expected)


def plain_and_quick(make):
    """A layer of PyG that sums, and the lean one with the same weights."""
    plain = make()
    return [use_aggregation(item, SumAggregation()) for item in (plain, lean(copy.deepcopy(plain)))]


def gin(**options):
    return GINConv(torch.nn.Linear(8, 4), **options)


@pytest.mark.parametrize(
    "make",
    [lambda: GCNConv(8, 4, bias=False), lambda: GCNConv(8, 4, normalize=False), lambda: GCNConv(8, 4, cached=True),
     lambda: GCNConv(8, 4, flow="target_to_source"), lambda: gin(flow="target_to_source")],
)  # fmt: skip
def test_options_of_pyg_keep_their_meaning(make):
    edge_index, x = edges() % 10, torch.randn(10, 8)
    plain, quick = plain_and_quick(make)
    torch.testing.assert_close(plain(x, edge_index), quick(x, edge_index))
    torch.testing.assert_close(plain(x, edge_index[:, :50]), quick(x, edge_index[:, :50]))  # cached: the first edges


@pytest.mark.parametrize("make", [lambda: GCNConv(8, 4, add_self_loops=False), gin])
def test_inputs_of_pyg_keep_their_meaning(make):
    plain, quick = plain_and_quick(make)
    edge_index, x = edges() % 10, torch.randn(10, 8)
    adjacency = torch.zeros(10, 10).index_put_((edge_index[1], edge_index[0]), torch.ones(())).to_sparse_coo()
    further = (10, 10) if make is gin else torch.rand(EDGES)
    for inputs in ((adjacency,), (edge_index, further)):
        torch.testing.assert_close(plain(x, *inputs), quick(x, *inputs))
    torch.testing.assert_close(plain(x.expand(2, 10, 8), edge_index), quick(x.expand(2, 10, 8), edge_index))
    if make is gin:
        torch.testing.assert_close(plain((x, None), edge_index), quick((x, None), edge_index))


@pytest.mark.parametrize("hook", ["propagate_forward_pre", "propagate_forward", "message_forward_pre",
                                  "message_forward", "aggregate_forward_pre", "aggregate_forward"])  # fmt: skip
@pytest.mark.parametrize("layer", ["gcn", "gin"])
def test_hooks_of_a_layer_are_called(layer, hook):
    conv, batch, calls = network(layer).blocks[0].conv, graph(), []
    handle = getattr(conv, f"register_{hook}_hook")(lambda *_: calls.append(hook))
    before = conv(torch.ones(10, 8), batch.edge_index)
    assert calls == [hook]
    handle.remove()
    torch.testing.assert_close(conv(torch.ones(10, 8), batch.edge_index), before)
    assert calls == [hook]


@pytest.mark.filterwarnings("ignore")  # torch's, of traces
@pytest.mark.parametrize("layer", ["gcn", "gin"])
def test_a_sum_can_be_compiled_traced_and_transformed(layer):
    batch, x = graph(), torch.randn(10, 8)
    conv = network(layer).blocks[0].conv.requires_grad_(False)
    expected, others = conv(x, batch.edge_index), batch.edge_index[:, :6]
    compiled = torch.compile(conv, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, batch.edge_index), expected)
    traced = torch.jit.trace(conv, (x, batch.edge_index), check_trace=False)
    torch.testing.assert_close(traced(x, others), conv(x, others))
    by_column = torch.func.vmap(lambda x: conv(x, others))(x.expand(2, 10, 8))
    torch.testing.assert_close(by_column[1], conv(x, others))
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(conv(x, others).square().sum(), x)
    torch.testing.assert_close(torch.func.grad(lambda x: conv(x, others).square().sum())(x.detach()), gradient)


@pytest.mark.parametrize(
    ("options", "edge_width"),
    [({"dropout": 0.5, "edge_dim": 5}, 5), ({"edge_dim": 1}, None), ({}, 5), ({"edge_dim": 5, "residual": True}, 5)],
)
def test_options_of_attention_keep_their_meaning(options, edge_width):
    torch.manual_seed(0)
    plain = GATConv(8, 2, heads=4, **options)
    batch, x, outputs = graph(), torch.randn(10, 8), []
    edge_attr = batch.edge_attr if edge_width else batch.edge_attr[:, 0]
    for conv in (plain, lean(copy.deepcopy(plain))):
        torch.manual_seed(1)
        outputs.append(conv(x, batch.edge_index, edge_attr))
    torch.testing.assert_close(*outputs)


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("with_edges", [False, True])
def test_attention_is_that_of_pyg(with_edges, loops):
    torch.manual_seed(0)
    options = {"heads": 4, "edge_dim": 5 if with_edges else None, "add_self_loops": loops}
    plain = GATConv(8, 2, **options)
    quick = lean(copy.deepcopy(plain))
    assert type(quick) is not type(plain)
    batch, x = graph(), torch.randn(10, 8)
    attention, gradients = [], []
    for conv in (quick, plain):
        edge_attr = batch.edge_attr if with_edges else None
        out, (_, weights) = conv(x, batch.edge_index, edge_attr, return_attention_weights=True)
        attention.append(weights)
        gradients.append(torch.autograd.grad(out.square().sum(), list(conv.parameters())))
    torch.testing.assert_close(*attention, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_edge_features_reach_attention():
    batch = graph()
    item = network("gat", card=EDGE_CARD)
    before = item(batch)
    batch.edge_attr = batch.edge_attr.flip(0)
    assert not torch.allclose(item(batch), before)


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dropout_drops_and_scales(p, dtype):
    x = torch.rand(999, 333, dtype=dtype) + 1
    x.requires_grad_()
    torch.manual_seed(0)
    out = Dropout(p)(x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    kept = out != 0
    part = 1 - round(p * 2**16) / 2**16
    assert abs(part - (1 - p)) <= 2**-17
    torch.testing.assert_close(out[kept], (x / part)[kept], rtol=1e-6, atol=0)
    torch.testing.assert_close(gradient, kept.to(dtype) / part, rtol=1e-6, atol=0)
    deviation = (p * (1 - p) / x.numel()) ** 0.5
    assert abs(kept.to(dtype).mean() - (1 - p)) < 5 * deviation
    lanes = kept.flatten()[: x.numel() // 4 * 4].view(-1, 4).double()  # four numbers share a draw
    assert ((lanes.mean(0) - (1 - p)).abs() < 10 * deviation).all()
    correlation = torch.corrcoef(lanes.t()) - torch.eye(4)
    assert correlation.abs().max() < 5 * (4 / x.numel()) ** 0.5


def test_dropout_follows_the_seed_and_rests_in_evaluation():
    x, dropout = torch.ones(70, 30), Dropout(0.5)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(dropout(x))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], dropout(x))
    assert dropout.eval()(x) is x
    assert torch.equal(Dropout(0.0)(x), x)
    assert Dropout(0.5)(torch.empty(0, 3)).shape == (0, 3)
    torch.manual_seed(0)
    rare = Dropout(1e-6)(torch.ones(4000, 1000))  # below a 65,536th it is torch's own
    assert 0 < (rare == 0).sum() < 20


def test_dropout_can_be_compiled():
    compiled = torch.compile(Dropout(0.5), backend="aot_eager", fullgraph=True)
    out = compiled(torch.ones(100, 100))
    assert set(out.unique().tolist()) == {0, 2}
