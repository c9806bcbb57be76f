"""Every aggregator of the registry inside the message-passing layers of PyG."""

import copy

import pytest
import torch
from torch_geometric.nn import (
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GPSConv,
    PNAConv,
    ResGatedGraphConv,
    SAGEConv,
    TransformerConv,
)

from ssma.aggr import AGGREGATORS, make_aggregation, use_aggregation

WIDTH = 8
DEGREES = torch.tensor([1, 2, 6, 1])
RING = [(i, (i + 1) % 6) for i in range(6)] + [((i + 1) % 6, i) for i in range(6)]
EDGES = torch.tensor([*RING, *((i, 6) for i in range(6)), *((6, i) for i in range(0, 6, 2))]).t()  # a ring and a hub
EDGES = EDGES[:, torch.randperm(EDGES.size(1), generator=torch.Generator().manual_seed(0))]
SORTED = EDGES[:, EDGES[1].argsort(stable=True)]
NODES = 9  # 7 and 8 are isolated


def linear(): return torch.nn.Linear(WIDTH, WIDTH)  # fmt: skip


LAYERS = {
    "gcn": (lambda: GCNConv(WIDTH, WIDTH, add_self_loops=False), 1),
    "gin": (lambda: GINConv(linear()), 1),
    "sage": (lambda: SAGEConv(WIDTH, WIDTH), 1),
    "gat": (lambda: GATConv(WIDTH, WIDTH // 2, heads=2, add_self_loops=False), 2),
    "gatv2": (lambda: GATv2Conv(WIDTH, WIDTH // 2, heads=2, add_self_loops=False), 2),
    "resgated": (lambda: ResGatedGraphConv(WIDTH, WIDTH), 1),
    "transformer": (lambda: TransformerConv(WIDTH, WIDTH // 2, heads=2), 2),
    "gps": (lambda: GPSConv(WIDTH, GCNConv(WIDTH, WIDTH), heads=2, norm=None), 1),
}


def made(layer, name):
    torch.manual_seed(0)
    if layer == "pna":
        aggr = make_aggregation(name, WIDTH // 2, 2, degrees=DEGREES)
        conv = PNAConv(
            WIDTH, WIDTH, ["mean", aggr], ["identity", "amplification"], DEGREES, towers=2, divide_input=True
        )
    else:
        make, heads = LAYERS[layer]
        conv, aggr = make(), make_aggregation(name, WIDTH // heads, heads, degrees=DEGREES)
    return use_aggregation(conv, aggr).eval()


def features():
    return torch.randn(NODES, WIDTH, generator=torch.Generator().manual_seed(1))


def plain_sum(conv):
    """The same layer with a sum in place of its aggregation."""
    other = copy.deepcopy(conv)
    inner = other.conv if isinstance(other, GPSConv) else other
    if isinstance(inner, PNAConv):
        inner.aggr_module.aggr.aggrs[1] = make_aggregation("sum", WIDTH // 2, 2)
    else:
        inner.aggr_module = make_aggregation("sum", WIDTH, 1)
    return other


@pytest.mark.parametrize("layer", [*LAYERS, "pna"])
@pytest.mark.parametrize("name", AGGREGATORS)
def test_edge_order_is_irrelevant_and_the_aggregator_is_used(layer, name):
    conv, x = made(layer, name), features()
    out = conv(x, EDGES)
    assert out.shape == (NODES, WIDTH)
    torch.testing.assert_close(out, conv(x, SORTED), rtol=1e-6, atol=1e-6)
    same_as_sum = torch.allclose(out, plain_sum(conv)(x, EDGES), atol=1e-4)
    assert same_as_sum == (name == "sum")


@pytest.mark.parametrize("layer", [*LAYERS, "pna"])
@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_training_step_under_autocast(layer, name):
    conv, x = made(layer, name).train(), features().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        out = conv(x, EDGES)
    out.float().square().mean().backward()
    assert out.dtype in (torch.bfloat16, torch.float32)
    assert x.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in conv.parameters())


@pytest.mark.parametrize("name", AGGREGATORS)
def test_the_layer_s_value_is_the_aggregator_s(name):
    """A layer that only aggregates: GCN-like messages by hand, then the aggregator called directly."""
    torch.manual_seed(0)
    aggr = make_aggregation(name, WIDTH, degrees=DEGREES)
    conv = use_aggregation(SAGEConv(WIDTH, WIDTH, root_weight=False, bias=False), aggr).eval()
    conv.lin_l.weight.data = torch.eye(WIDTH)
    x = features()
    if name == "ssma":  # called alone it has no target features
        aggr.target_score.weight.data.zero_()
        aggr.target_score.bias.data.zero_()
    torch.testing.assert_close(conv(x, EDGES), aggr(x[EDGES[0]], EDGES[1], dim_size=NODES), rtol=1e-5, atol=1e-6)
