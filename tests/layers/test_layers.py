"""Every layer with every kind of aggregator: which one is alive, what reaches it, and values against plain loops."""

import math

import pytest
import torch
from made_networks import CARD, DEGREES, EDGE_CARD, EVERY_LAYER, MODEL, SSMA, WITH_EDGES, graph, network, part, with_
from torch_geometric.nn import (
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GPSConv,
    MaxAggregation,
    ResGatedGraphConv,
)

from ssma.aggr import AGGREGATORS, SSMAAggregation, SumAggregation, make_aggregation
from ssma.layers.blocks import TransformerBlock
from ssma.layers.convs import LAYERS, Parts
from ssma.study import settings

WIDTH = 8


def layer_of(name, aggregator="sum", edge_width=None, options=None, **model):
    """A layer by itself, in evaluation mode, with weights that are not special."""
    torch.manual_seed(0)

    def make(channels, heads):
        return make_aggregation(aggregator, channels, heads, degrees=DEGREES, **options or {})

    conv = LAYERS[name].make(Parts(WIDTH, edge_width, MODEL | model, aggregator, make, DEGREES)).eval()
    with torch.no_grad():
        for key, parameter in conv.named_parameters():
            if "aggr_module" not in key:
                parameter.copy_(torch.randn(parameter.shape) / math.sqrt(WIDTH))
    return conv


def states(batch):
    generator = torch.Generator().manual_seed(7)
    edges = torch.randn(batch.edge_index.size(1), WIDTH, generator=generator)
    return torch.randn(batch.x.size(0), WIDTH, generator=generator), edges


def run(name, conv, x, batch, edge_attr=None):
    extra = {} if edge_attr is None else {"edge_attr": edge_attr}
    return conv(x, batch.edge_index, *([batch.batch] if name == "gps" else []), **extra)


def test_the_layers_are_those_that_a_study_can_name():
    assert tuple(LAYERS) == settings.LAYERS
    assert {layer for layers in settings.ONLY_FOR_LAYERS.values() for layer in layers} == set(LAYERS)
    assert settings.ONLY_FOR_LAYERS.keys() | {"budget"} <= settings.ModelSettings.model_fields.keys()


@pytest.mark.parametrize("layer", EVERY_LAYER)
def test_the_requested_aggregator_is_the_live_one(layer):
    item, batch = network(layer, card=EDGE_CARD), graph()
    before, seen = item(batch), []
    probes = [module for module in item.modules() if type(module) is SumAggregation]
    for probe in probes:

        def forward(x, index, ptr=None, dim_size=None, dim=-2):
            seen.append(tuple(x.shape))
            return MaxAggregation()(x, index, ptr, dim_size, dim)

        probe.forward = forward
    after = item(batch)
    edges = batch.edge_index.size(1)
    shape = {"gat": (edges, 4, 2), "gatv2": (edges, 4, 2), "pna": (edges, 2, 8)}.get(layer, (edges, 8))
    assert seen == [shape, shape]  # once in each of the two layers, with heads and towers
    assert (before - after).abs().max() > 1e-3
    other = network(layer, "max", EDGE_CARD)
    other.load_state_dict(item.state_dict())
    torch.testing.assert_close(other(batch), after)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("layer", EVERY_LAYER)
def test_a_node_gets_the_aggregate_of_its_messages_alone_or_the_stated_constant(layer, aggregator):
    """In any order of the edges, with isolated nodes in front, between and behind, and without any edge."""
    options = {"selection": "random", "kappa": 5} if aggregator == "ssma" else {}
    conv, seen = layer_of(layer, aggregator, options=options, pna_mix="replace").double(), {}
    inner, width = conv.conv if layer == "gps" else conv, 2 if layer in ("gat", "gatv2") else WIDTH
    inner.register_message_forward_hook(lambda *call: seen.update(messages=call[-1]))
    inner.register_aggregate_forward_hook(lambda *call: seen.update(rows=call[-1][..., :width]))
    aggr = inner.aggr_module.aggrs[0] if layer == "pna" else inner.aggr_module  # its first scaler is 1
    (kind,) = (kind for kind in AGGREGATORS.values() if kind.make is type(aggr))
    edges, x = torch.tensor([[5, 1, 4, 2, 1, 5, 1], [1, 4, 5, 1, 2, 1, 5]]), torch.randn(7, WIDTH, dtype=torch.float64)
    for edge_index in (edges, edges[:, :0]):
        conv(x, edge_index, *([torch.zeros(7, dtype=torch.int64)] if layer == "gps" else []))
        for node, row in enumerate(seen["rows"].flatten(1)):
            mine = seen["messages"][edge_index[1] == node]
            alone = aggr(mine, torch.zeros(len(mine), dtype=torch.int64), dim_size=1, dim=0)
            torch.testing.assert_close(row, alone.flatten())
            if not len(mine) and isinstance(kind.empty, float):
                assert (row == kind.empty).all()


PLAIN = {
    "gcn": lambda edges: GCNConv(WIDTH, WIDTH, add_self_loops=False),
    "gat": lambda edges: GATConv(WIDTH, 2, 4, add_self_loops=False, edge_dim=edges),
    "gatv2": lambda edges: GATv2Conv(WIDTH, 2, 4, add_self_loops=False, edge_dim=edges),
    "gin": lambda edges: GINConv(mlp(), train_eps=True),
    "gine": lambda edges: (GINConv if edges is None else GINEConv)(mlp(), train_eps=True),
    "resgated": lambda edges: ResGatedGraphConv(WIDTH, WIDTH, edge_dim=edges),
    "gps": lambda edges: GPSConv(WIDTH, ResGatedGraphConv(WIDTH, WIDTH, edge_dim=edges), heads=4),
}


def mlp():
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH), torch.nn.BatchNorm1d(WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH)
    )


@pytest.mark.parametrize("edge_width", [None, WIDTH])
@pytest.mark.parametrize("name", PLAIN)
def test_with_a_sum_it_is_the_plain_layer(name, edge_width):
    edge_width = edge_width if name in WITH_EDGES else None
    conv, plain, batch = layer_of(name, edge_width=edge_width), PLAIN[name](edge_width).eval(), graph()
    plain.load_state_dict(conv.state_dict())
    x, edges = states(batch)
    edges = edges if edge_width else None
    torch.testing.assert_close(run(name, conv, x, batch, edges), run(name, plain, x, batch, edges))


def loop(batch, message):
    """The mean of the messages of each node, 0 without; ``message(edge, source, target)``."""
    rows = []
    for node in range(batch.x.size(0)):
        got = [
            message(edge, source, target)
            for edge, (source, target) in enumerate(batch.edge_index.t().tolist())
            if target == node
        ]
        rows.append(torch.stack(got).mean(0) if got else torch.zeros(WIDTH))
    return torch.stack(rows)


def by_hand(name, conv, batch, x, e):
    """The layer with a mean, edge by edge."""
    degree = torch.bincount(batch.edge_index[1], minlength=x.size(0)).tolist()
    if name == "gcn":
        h = x @ conv.lin.weight.t()
        return loop(batch, lambda k, j, i: h[j] / math.sqrt(degree[i] * degree[j])) + conv.bias
    if name == "gin":
        return conv.nn(loop(batch, lambda k, j, i: x[j]) + (1 + conv.eps) * x)
    if name == "gine":
        return conv.nn(loop(batch, lambda k, j, i: (x[j] + e[k]).relu()) + (1 + conv.eps) * x)
    if name == "resgated":

        def gated(k, j, i):
            own, other = torch.cat([x[i], e[k]]), torch.cat([x[j], e[k]])
            return torch.sigmoid(conv.lin_key(own) + conv.lin_query(other)) * conv.lin_value(other)

        return loop(batch, gated) + conv.lin_skip(x) + conv.bias
    edges = batch.edge_index.t().tolist()
    if name == "gat":
        h = (x @ conv.lin.weight.t()).view(-1, 4, 2)
        f = (e @ conv.lin_edge.weight.t()).view(-1, 4, 2)
        value, score = h, [
            (h[j] * conv.att_src[0] + h[i] * conv.att_dst[0] + f[k] * conv.att_edge[0]).sum(-1)
            for k, (j, i) in enumerate(edges)
        ]  # fmt: skip
        score = [torch.nn.functional.leaky_relu(s, 0.2) for s in score]
    else:
        value, target = conv.lin_l(x).view(-1, 4, 2), conv.lin_r(x).view(-1, 4, 2)
        f = (e @ conv.lin_edge.weight.t()).view(-1, 4, 2)
        score = [
            (torch.nn.functional.leaky_relu(value[j] + target[i] + f[k], 0.2) * conv.att[0]).sum(-1)
            for k, (j, i) in enumerate(edges)
        ]
    total = [sum(score[k].exp() for k, (_, i) in enumerate(edges) if i == node) for node in range(x.size(0))]
    return loop(batch, lambda k, j, i: (value[j] * (score[k].exp() / total[i]).unsqueeze(-1)).flatten()) + conv.bias


@pytest.mark.parametrize("name", ["gcn", "gat", "gatv2", "gin", "gine", "resgated"])
def test_with_a_mean_edge_by_edge(name):
    batch = graph()
    x, edges = states(batch)
    conv = layer_of(name, "mean", WIDTH if name in WITH_EDGES else None)
    out = run(name, conv, x, batch, edges if name in WITH_EDGES else None)
    torch.testing.assert_close(out, by_hand(name, conv, batch, x, edges), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["gcn", "gat", "gatv2"])
def test_a_self_loop_is_a_neighbour_more(name):
    batch, loops = graph(), torch.arange(10).repeat(2, 1)
    x, _ = states(batch)
    looped = with_(batch, edge_index=torch.cat([batch.edge_index, loops], dim=1))
    ours, plain = layer_of(name, "max", self_loops=True), layer_of(name, "max", self_loops=False)
    torch.testing.assert_close(run(name, ours, x, batch), run(name, plain, x, looped))


@pytest.mark.parametrize("name", ["gat", "gatv2"])
def test_a_self_loop_has_the_mean_of_its_node_s_edge_features(name):
    batch, loops = graph(), torch.arange(10).repeat(2, 1)
    x, edges = states(batch)
    looped = with_(batch, edge_index=torch.cat([batch.edge_index, loops], dim=1))
    ours, plain = layer_of(name, "max", WIDTH, self_loops=True), layer_of(name, "max", WIDTH, self_loops=False)
    of_loops = loop(batch, lambda k, j, i: edges[k])
    torch.testing.assert_close(
        run(name, ours, x, batch, edges), run(name, plain, x, looped, torch.cat([edges, of_loops]))
    )


@pytest.mark.parametrize("aggregator", ["sum", "ssma"])
@pytest.mark.parametrize("layer", EVERY_LAYER)
def test_edge_features_reach_the_layers_that_take_them(layer, aggregator):
    batch = graph()
    other = with_(batch, edge_attr=batch.edge_attr.flip(0))
    for wanted in (True, False):
        item = network(layer, aggregator, EDGE_CARD | {"level": "node"}, edge_features=wanted)
        difference = (item(batch) - item(other)).abs().max()
        reached = wanted and layer in WITH_EDGES
        assert (difference > 1e-4) if reached else (difference == 0)


@pytest.mark.parametrize("sizes", [(6, 3, 1), (1, 1), (1,)])
@pytest.mark.parametrize("card", [CARD, EDGE_CARD])
@pytest.mark.parametrize("aggregator", ["sum", "std", "ssma"])
@pytest.mark.parametrize("layer", EVERY_LAYER)
def test_isolated_nodes_graphs_of_one_node_and_no_edges(layer, aggregator, card, sizes):
    for loops in (False, True):
        item, batch = network(layer, aggregator, card, self_loops=loops), graph(sizes)
        whole = item(batch)
        assert whole.shape == (len(sizes), 3)
        whole.sum().backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in item.parameters())
        alone = torch.cat([item(part(batch, number)) for number in range(len(sizes))])
        torch.testing.assert_close(whole, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("card", [CARD, EDGE_CARD])
def test_no_node_attends_to_another_graph(card):
    item, batch = network("gps", card=card), graph((6, 3, 4))
    alone = torch.cat([item(part(batch, number)) for number in range(3)])
    torch.testing.assert_close(item(batch), alone, rtol=1e-5, atol=1e-5)
    far = batch.x.clone()
    far[6:] += 100
    torch.testing.assert_close(item(with_(batch, x=far))[0], alone[0], rtol=1e-5, atol=1e-5)


def test_every_node_attends_to_all_of_its_graph():
    conv, batch = layer_of("gps"), graph((6, 3, 4))
    x, _ = states(batch)
    y = x.clone()
    y[5] += 1  # isolated: only attention can see it
    moved = (run("gps", conv, x, batch) - run("gps", conv, y, batch)).abs().amax(1) > 1e-4
    assert moved.tolist() == [True] * 6 + [False] * 7


def test_the_attention_of_gps_drops_weights_in_training_only():
    conv = layer_of("gps", attention_dropout=0.5)
    assert (conv.attn.dropout, conv.heads, conv.dropout) == (0.5, 4, 0.0)
    batch = graph()
    x, _ = states(batch)
    torch.testing.assert_close(conv(x, batch.edge_index, batch.batch), conv(x, batch.edge_index, batch.batch))
    conv.attn.train()
    outs = [conv(x, batch.edge_index, batch.batch) for _ in range(2)]
    assert (outs[0] - outs[1]).abs().max() > 1e-3


def test_the_gps_block_adds_nothing_but_dropout():
    item, batch = network("gps"), graph()
    block = item.blocks[0]
    x, _ = states(batch)
    torch.testing.assert_close(
        block(x, batch.edge_index, None, batch.batch), block.conv(x, batch.edge_index, batch.batch)
    )
    assert all(norm is not None for norm in (block.conv.norm1, block.conv.norm2, block.conv.norm3))
    assert sum(parameter.numel() for parameter in block.norm.parameters()) == 0
    bare = network("gps", batch_norm=False).blocks[0].conv
    assert (bare.norm1, bare.norm2, bare.norm3) == (None, None, None)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_the_outer_block_of_gps_is_that_of_other_layers(batch_norm, residual):
    item, batch = network("gps", outer_block=True, batch_norm=batch_norm, residual=residual).eval(), graph()
    block = item.blocks[0]
    x, _ = states(batch)
    if batch_norm:
        block.norm.running_mean.normal_()
        block.norm.running_var.uniform_(0.5, 2)
    inside = block.conv(x, batch.edge_index, batch.batch)
    if batch_norm:
        inside = (inside - block.norm.running_mean) / (block.norm.running_var + block.norm.eps).sqrt()
    expected = inside.clamp(min=0) + (x if residual else 0)
    torch.testing.assert_close(block(x, batch.edge_index, None, batch.batch), expected)
    plain = network("gps", batch_norm=batch_norm)
    more = [sum(p.numel() for p in net.parameters()) for net in (item, plain)]
    assert more[0] - more[1] == (2 * WIDTH * len(item.blocks) if batch_norm else 0)


def test_gps_in_a_plan_from_before_its_outer_block_was_an_option_has_none():
    old = {key: value for key, value in settings.ModelSettings().model_dump().items() if key != "outer_block"}
    block, batch = TransformerBlock(layer_of("gps"), WIDTH, old | {"dropout": 0.0}).eval(), graph()
    x, _ = states(batch)
    assert torch.equal(block(x, batch.edge_index, None, batch.batch), block.conv(x, batch.edge_index, batch.batch))


@pytest.mark.parametrize(("layer", "width", "heads"), [("gat", 2, 4), ("gatv2", 2, 4), ("pna", 8, 2), ("gps", 8, 1)])
def test_ssma_shares_its_weights_over_heads_and_towers(layer, width, heads):
    found = [
        module for module in layer_of(layer, "ssma", options=SSMA).modules() if isinstance(module, SSMAAggregation)
    ]
    assert [(aggr.in_channels, aggr.heads) for aggr in found] == [(width, heads)]
    assert found[0].weight.shape[1:] == (3, 2 * (width - 1) + 1)


@pytest.mark.parametrize("aggregator", ["mean", "max", "lstm", "ssma"])
@pytest.mark.parametrize("layer", EVERY_LAYER)
def test_a_training_step_under_autocast(layer, aggregator):
    item, batch = network(layer, aggregator, EDGE_CARD, dropout=0.1).train(), graph((6, 3, 4))
    with torch.autocast("cpu", torch.bfloat16):
        out = item(batch)
    assert out.dtype == torch.bfloat16
    out.float().square().mean().backward()
    grads = [parameter.grad for parameter in item.parameters() if parameter.grad is not None]
    assert all(grad.isfinite().all() for grad in grads)
    assert sum(grad.abs().sum() for grad in grads) > 0
    exact = network(layer, aggregator, EDGE_CARD)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = exact(batch)
    torch.testing.assert_close(rounded.float(), exact(batch), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("loops", [False, True])
def test_gcn_leaves_out_a_node_into_which_no_edge_leads_unless_it_has_a_loop(loops):
    conv = network("gcn", self_loops=loops).blocks[0].conv
    x, tree = torch.randn(3, 8), torch.tensor([[1, 2], [0, 0]])
    changed = x.clone()
    changed[2] += 1
    assert torch.equal(conv(x, tree)[0], conv(changed, tree)[0]) != loops
