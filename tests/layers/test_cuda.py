"""On a CUDA device every aggregation and layer gives what it gives on the CPU, forward and backward."""

import copy
from itertools import product

import pytest
import torch
from made_networks import DEGREES, EDGE_CARD, EVERY_LAYER, graph, network
from torch_geometric.nn import GCNConv

from ssma.aggr import AGGREGATORS, SSMAAggregation, make_aggregation, use_aggregation
from ssma.aggr.selection import random_draw
from ssma.bench.aggr import random_graph
from ssma.layers.lean import neighbour_sum

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
OPTIONS = [
    {},
    {"selection": "random"},
    {"learn_affine": True},
    {"mixing": "product"},
    {"mixing": "sum"},
    {"normalisation": "none"},
    {"normalisation": "log"},
    {"compression": 1.0, "kappa": 6},
    {"kappa": 1},
    {"compiled": True, "kappa": 6},
    {"compiled": True, "learn_affine": True, "normalisation": "log"},
    {"compiled": True, "mixing": "product"},
]


def outcome(module, x, device, index, nodes):
    """The result, and the gradients of input and parameters."""
    module, leaf = copy.deepcopy(module).to(device), x.to(device, copy=True).requires_grad_()
    out = module(leaf, index.to(device), dim_size=nodes, dim=0)
    out.square().sum().backward()
    return [out, leaf.grad, *(p.grad for p in module.parameters() if p.grad is not None)]


def assert_same(module, x, index, nodes, tolerance):
    """Equal up to rounding, whose share of a gradient through products of float32 is larger than elsewhere."""
    pair = (outcome(module, x, device, index, nodes) for device in ("cuda", "cpu"))
    for ours, theirs in zip(*pair, strict=True):
        error = (ours.detach().cpu() - theirs.detach()).norm() / theirs.detach().norm().clamp(min=1e-30)
        assert float(error) < tolerance


@pytest.fixture(autouse=True)
def exact_products():
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.float64, 1e-10)])
@pytest.mark.parametrize("options", OPTIONS)
def test_ssma(options, dtype, tolerance):
    torch.manual_seed(0)
    aggr = SSMAAggregation(**{"in_channels": 21, "kappa": 4} | options).to(dtype).eval()
    index = random_graph(300, 1500, torch.device("cpu"), skew=2.0)[1]
    assert_same(aggr, torch.randn(1500, 21, dtype=dtype), index, 300, tolerance)


@pytest.mark.parametrize("name", AGGREGATORS)
def test_aggregators(name):
    torch.manual_seed(0)
    aggr = make_aggregation(name, 6, 2, degrees=DEGREES).double().eval()
    index = random_graph(40, 160, torch.device("cpu"))[1]
    assert_same(aggr, 1 + torch.rand(160, 2, 6, dtype=torch.float64), index, 40, 1e-9)


@pytest.mark.parametrize(("layer", "aggregator"), list(product(EVERY_LAYER, ["sum", "lstm", "ssma"])))
def test_networks(layer, aggregator):
    net, batch = network(layer, aggregator, EDGE_CARD).double(), graph()
    tensors = {k: v for k, v in vars(batch).items() if isinstance(v, torch.Tensor)}
    outs = []
    for device in ("cpu", "cuda"):
        on = {k: v.to(device, torch.float64 if v.is_floating_point() else None) for k, v in tensors.items()}
        outs.append(copy.deepcopy(net).to(device)(type(batch)(**vars(batch) | on)).cpu())
    torch.testing.assert_close(outs[1], outs[0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_neighbours_come_out_the_same_on_every_call(weighted):
    torch.manual_seed(0)
    edge_index, x = random_graph(300, 6000, torch.device("cpu"), skew=2.0), torch.randn(300, 33)
    weight = torch.rand(6000) if weighted else None
    outs = []
    for device in ("cpu", "cuda", "cuda"):
        leaf, edges = x.to(device, copy=True).requires_grad_(), edge_index.to(device)
        out = neighbour_sum(leaf, edges, 300, None if weight is None else weight.to(device))
        out.square().sum().backward()
        outs.append((out.detach().cpu(), leaf.grad.cpu()))
    for ours, again, theirs in zip(*outs[1:], outs[0], strict=True):
        assert torch.equal(ours, again)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_keeps_the_inner_part_in_float32(dtype):
    torch.manual_seed(0)
    edge_index, x = random_graph(50, 200, torch.device("cuda")), torch.randn(50, 16, device="cuda")
    conv = use_aggregation(GCNConv(16, 16), SSMAAggregation(8, heads=2)).cuda()
    with torch.autocast("cuda", dtype):
        out = conv(x, edge_index)
    assert out.dtype == dtype
    assert (out.float() - conv(x, edge_index)).norm() < 0.05 * out.float().norm()


def test_random_draw_in_training_is_uniform():
    torch.manual_seed(0)
    nodes = torch.arange(4000, device="cuda")
    chosen, filled = random_draw(nodes.repeat_interleave(5), 4000, 2, training=True)
    assert bool((filled == 2).all()) and bool((chosen[0] != chosen[1]).all())
    assert torch.equal(chosen // 5, nodes.expand(2, -1))
    counts = (chosen % 5).flatten().bincount()
    assert bool(((counts - 1600).abs() < 155).all())  # five standard deviations of 4000 draws with probability 2/5
