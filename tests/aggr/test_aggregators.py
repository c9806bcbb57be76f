"""Every aggregator of the registry against plain loops over nodes and neighbours, and what the registry says of it."""

import copy
import inspect
import math
import pickle
import re
from functools import partial
from pathlib import Path

import pytest
import torch
import torch_geometric
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.nn.utils import prune, spectral_norm, weight_norm
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_geometric.nn import GATConv, SAGEConv

import ssma.aggr
from ssma.aggr import (
    AGGREGATORS,
    FMeanAggregation,
    PNAAggregation,
    PowerMeanAggregation,
    make_aggregation,
    recurrent,
    use_aggregation,
)
from ssma.aggr.pna import mean_log_degree
from ssma.aggr.power_mean import EPS
from ssma.study.settings import AGGREGATORS as OPTIONS

D = 3
DEGREES = torch.tensor([1, 4, 2, 0, 1])
INDEX = torch.tensor([4, 2, 3, 1, 4, 3, 2, 4, 4, 3, 4])  # unsorted; nodes 0 and 5 have no neighbour
NODES = 6
NAMES = list(AGGREGATORS)
OWN = [name for name in NAMES if name != "ssma"]  # ssma has its own tests
WIDE = [name for name in OWN if "in_channels" in AGGREGATORS[name].takes]
INVARIANT = [name for name in NAMES if AGGREGATORS[name].invariant]


def made(name, d=D, heads=1, **options):
    torch.manual_seed(1)
    aggr = make_aggregation(name, d, heads, degrees=DEGREES, **options).double()
    for parameter in aggr.parameters():  # away from their start values, where much is 0 or 1
        parameter.data += 0.1 * torch.randn_like(parameter)
    return aggr.eval()


def messages(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def mean(values):
    return sum(values) / len(values) if values else 0.0


def std(values):
    return math.sqrt(mean([(v - mean(values)) ** 2 for v in values])) if values else 0.0


def median(values):
    return sorted(values)[(len(values) - 1) // 2] if values else 0.0


def softmax(values, t):
    weights = [math.exp(t * v) for v in values]
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights) if values else 0.0


def power(x, p):
    return x * max(abs(x), EPS) ** (p - 1)


def root(y, p):
    return y / EPS ** (p - 1) if abs(y) < EPS**p else math.copysign(abs(y) ** (1 / p), y)


def mish(x):
    return x * math.tanh(math.log1p(math.exp(x)))


def chain(layers, values):
    for number, layer in enumerate(layers):
        weight, bias = layer.weight.tolist(), layer.bias.tolist()
        values = [sum(w * v for w, v in zip(row, values, strict=True)) + b for row, b in zip(weight, bias, strict=True)]
        values = values if number == len(layers) - 1 else [mish(v) for v in values]
    return values


def f_mean(aggr, values):
    a, b, n = aggr.a.item(), aggr.b.item(), max(1, len(values))
    mapped = [chain(aggr.f, [v - b * mean(values)]) for v in values]
    total = [n ** (a - 1) * sum(m[k] for m in mapped) for k in range(4)]
    return chain(aggr.f_inverse, total)[0]


BY_FEATURE = {
    "sum": lambda aggr, v: sum(v),
    "mean": lambda aggr, v: mean(v),
    "max": lambda aggr, v: max(v, default=0.0),
    "min": lambda aggr, v: min(v, default=0.0),
    "mul": lambda aggr, v: math.prod(v),
    "std": lambda aggr, v: std(v),
    "softmax": lambda aggr, v: softmax(v, aggr.t.item()),
    "powermean": lambda aggr, v: root(
        mean([power(x, math.exp(aggr.log_p.item())) for x in v]), math.exp(aggr.log_p.item())
    ),
    "median": lambda aggr, v: median(v),
    "vpa": lambda aggr, v: sum(v) / math.sqrt(max(1, len(v))),
    "fmean": f_mean,
}


def lstm(aggr, rows):
    rnn, h, c = aggr.rnn, torch.zeros(D).double(), torch.zeros(D).double()
    for row in rows:
        gates = rnn.weight_ih_l0 @ row + rnn.bias_ih_l0 + rnn.weight_hh_l0 @ h + rnn.bias_hh_l0
        i, f, g, o = gates.view(4, D)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return h


def gru(aggr, rows):
    rnn, h = aggr.rnn, torch.zeros(D).double()
    for row in rows:
        a = (rnn.weight_ih_l0 @ row + rnn.bias_ih_l0).view(3, D)
        b = (rnn.weight_hh_l0 @ h + rnn.bias_hh_l0).view(3, D)
        r, z = (a[0] + b[0]).sigmoid(), (a[1] + b[1]).sigmoid()
        h = (1 - z) * (a[2] + r * b[2]).tanh() + z * h
    return h


def deep_sets(aggr, rows):
    total = sum((aggr.phi_2(aggr.phi_1(row).relu()) for row in rows), torch.zeros(D).double())
    return aggr.rho_2(aggr.rho_1(total).relu())


def pna(aggr, rows):
    columns = [[row[k].item() for row in rows] for k in range(D)]
    mix = [
        f(column)
        for f in (mean, lambda v: max(v, default=0.0), lambda v: min(v, default=0.0), std)
        for column in columns
    ]
    log_degree, delta = math.log(max(1, len(rows)) + 1), aggr.delta.item()
    scaled = [scale * value for scale in (1, log_degree / delta, delta / log_degree) for value in mix]
    return aggr.linear(torch.tensor(scaled, dtype=torch.float64))


BY_ROW = {"lstm": lstm, "gru": gru, "deepsets": deep_sets, "pna": pna}


def by_loop(name, aggr, x, index, nodes):
    out = []
    for node in range(nodes):
        rows = [row for row, target in zip(x, index.tolist(), strict=True) if target == node]
        if name in BY_ROW:
            out.append(BY_ROW[name](aggr, rows))
        else:
            columns = [[row[k].item() for row in rows] for k in range(x.size(1))]
            out.append(torch.tensor([BY_FEATURE[name](aggr, column) for column in columns], dtype=torch.float64))
    return torch.stack(out)


def close(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OWN)
def test_every_aggregator_equals_a_plain_loop(name):
    aggr = made(name)
    for seed in range(20):
        index = torch.randint(NODES, (12,), generator=torch.Generator().manual_seed(seed))
        x = messages(12, D, seed=seed)
        for part in (x, -x.abs()):  # all negative: a default of 0 would show
            close(aggr(part, index, dim_size=NODES), by_loop(name, aggr, part, index, NODES))


@pytest.mark.parametrize("name", NAMES)
def test_every_way_of_calling_gives_the_same(name):
    aggr, order = made(name), INDEX.argsort(stable=True)
    x = messages(INDEX.numel(), D)
    expected = aggr(x, INDEX, dim_size=NODES)
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), INDEX.bincount(minlength=NODES).cumsum(0)])
    close(aggr(x[order], ptr=ptr), expected)
    close(aggr(x[order], INDEX[order], dim_size=NODES), expected)
    close(aggr(x, INDEX), expected[:5])
    close(aggr(x, INDEX, None, NODES, 0), expected)
    close(aggr(x, INDEX, dim_size=9)[6:], expected[5:].expand(3, D))


@pytest.mark.parametrize("name", NAMES)
def test_heads_are_a_loop_over_heads(name):
    heads, x = 2, messages(INDEX.numel(), 2, D)
    aggr, one = made(name, heads=heads), made(name)
    if name == "ssma":
        aggr, one = (make_aggregation("ssma", D, h, selection="random", kappa=5).double().eval() for h in (heads, 1))
    one.load_state_dict(aggr.state_dict())
    expected = torch.stack([one(x[:, head], INDEX, dim_size=NODES) for head in range(heads)], 1)
    close(aggr(x, INDEX, dim_size=NODES, dim=0), expected)
    close(aggr(x, INDEX, dim_size=NODES, dim=-3), expected)
    close(aggr(x.flatten(1), INDEX, dim_size=NODES), expected.flatten(1))


def test_the_mean_is_that_of_pyg_in_every_bit():
    x = messages(INDEX.numel(), 2, D).float()
    ours, theirs = make_aggregation("mean", D, 2), torch_geometric.nn.aggr.MeanAggregation()
    assert torch.equal(ours(x, INDEX, dim_size=NODES, dim=0), theirs(x, INDEX, dim_size=NODES, dim=0))
    assert torch.equal(ours(x[:, 0], INDEX), theirs(x[:, 0], INDEX))


@pytest.mark.parametrize("name", ["max", "min"])
def test_extrema_and_their_gradients_are_those_of_pyg_in_every_bit(name):
    theirs = getattr(torch_geometric.nn.aggr, f"{name.capitalize()}Aggregation")()
    results = []
    for aggr in (make_aggregation(name, D, 2), theirs):
        x = messages(INDEX.numel(), 2, D).float().round().requires_grad_()  # with ties
        out = aggr(x, INDEX, dim_size=NODES, dim=0)
        out.square().sum().backward()
        results.append((out, x.grad))
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_the_gradient_of_a_maximum_by_int32_indices_by_hand():
    x = torch.tensor([[1.0], [3.0], [2.0], [2.0]], requires_grad=True)
    make_aggregation("max", 1)(x, torch.tensor([1, 1, 0, 0], dtype=torch.int32), dim_size=2)[:, 0].dot(
        torch.tensor([10.0, 20.0])
    ).backward()
    assert x.grad.flatten().tolist() == [0, 20, 5, 5]


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_gradient_of_an_extremum_at_zero_is_shared_by_messages_alone(name):
    x = torch.tensor([[0.0], [0.0], [0.0], [-1.0 if name == "max" else 1.0]], requires_grad=True)
    make_aggregation(name, 1)(x, torch.tensor([0, 2, 2, 2]), dim_size=3).sum().backward()
    assert x.grad.flatten().tolist() == [1, 0.5, 0.5, 0]


def test_the_gradient_of_the_mix_of_pna_at_zero():
    """All weight on the unscaled maximum and minimum, each of which is the one message itself."""
    aggr, x = made("pna", 1), torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    aggr.linear.weight.data = torch.tensor([[0, 2.0, 3.0, *[0] * 9]], dtype=torch.float64)
    aggr(x, torch.tensor([0])).backward()
    assert x.grad.item() == 5


@pytest.mark.parametrize("name", INVARIANT)
def test_invariant_ones_do_not_depend_on_the_order(name):
    aggr, x = made(name), messages(INDEX.numel(), D)
    for seed in range(5):
        order = torch.randperm(INDEX.numel(), generator=torch.Generator().manual_seed(seed))
        close(aggr(x[order], INDEX[order], dim_size=NODES), aggr(x, INDEX, dim_size=NODES))


def test_those_said_to_depend_on_the_order_do():
    assert set(NAMES) - set(INVARIANT) == {"lstm", "gru"}
    for name in ("lstm", "gru"):
        aggr, x = made(name), messages(2, D)
        index = torch.zeros(2, dtype=torch.int64)
        assert (aggr(x, index) - aggr(x.flip(0), index)).abs().max() > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_alone_equals_the_graph_in_a_batch(name):
    aggr = made(name)
    parts = [
        (messages(n, D, seed=n), torch.randint(3, (n,), generator=torch.Generator().manual_seed(n)))
        for n in (4, 0, 9, 1, 30)
    ]
    for order in (range(5), reversed(range(5))):
        chosen = [parts[k] for k in order]
        x, index = torch.cat([p[0] for p in chosen]), torch.cat([p[1] + 3 * k for k, p in enumerate(chosen)])
        together = aggr(x, index, dim_size=15)
        close(together, torch.cat([aggr(*part, dim_size=3) for part in chosen]))


def constant_of(name, aggr):
    """The stated value of a node without neighbours."""
    empty = AGGREGATORS[name].empty
    if isinstance(empty, float):
        return torch.full((D,), empty, dtype=torch.float64)
    if empty == "inverse of f at 0":
        return torch.full((D,), chain(aggr.f_inverse, [0.0] * 4)[0], dtype=torch.float64)
    if empty == "rho(0)":
        return aggr.rho_2(aggr.rho_1(torch.zeros(D).double()).relu())
    if empty == "bias":
        return aggr.linear.bias
    assert empty == "compressor(unit impulse)"
    weight = aggr.weight[:, 0, 0]
    return (weight if aggr.expand is None else aggr.expand @ weight) + aggr.bias


@pytest.mark.parametrize("name", NAMES)
def test_a_node_without_neighbours_gets_the_stated_constant(name):
    aggr, x = made(name), messages(INDEX.numel(), D)
    close(aggr(x, INDEX, dim_size=NODES)[[0, 5]], constant_of(name, aggr).expand(2, D))
    first = aggr(x[:0], INDEX[:0], dim_size=1)
    close(first, constant_of(name, aggr).expand(1, D))
    for _ in range(50):
        assert torch.equal(aggr(x[:0], INDEX[:0], dim_size=1), first)
    assert aggr(x[:0], INDEX[:0], dim_size=0).shape == (0, D)


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_goes_backward_through_a_graph_without_edges(name):
    x = messages(0, D).requires_grad_()
    made(name)(x, INDEX[:0], dim_size=2).sum().backward()
    assert x.grad.shape == (0, D)


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in NAMES]
    + [
        ("ssma", {"selection": "random"}),
        ("ssma", {"mixing": "sum"}),
        ("ssma", {"learn_affine": True, "compression": 1}),
    ],
)
def test_every_parameter_has_a_gradient_in_a_graph_without_edges(name, options):
    """Where one has none, torch's DistributedDataParallel stops."""
    layer = use_aggregation(SAGEConv(D, D), made(name, **options)).double().train()
    layer(messages(2, D), torch.empty(2, 0, dtype=torch.int64)).sum().backward()
    lacking = [key for key, value in layer.named_parameters() if value.requires_grad and value.grad is None]
    assert lacking == [] and all(bool(value.grad.isfinite().all()) for value in layer.parameters())


@pytest.mark.parametrize("mixing", ["convolution", "sum"])
def test_every_parameter_has_a_gradient_where_targets_have_no_features(mixing):
    x = messages(INDEX.numel(), D)
    alone = made("ssma", mixing=mixing)
    alone(x, INDEX, dim_size=NODES).square().sum().backward()
    layer = use_aggregation(GATConv((D, D), D, add_self_loops=False), made("ssma", mixing=mixing)).double()
    layer((x, None), torch.stack([INDEX, INDEX.flip(0)]), size=(len(x), NODES)).square().sum().backward()
    for aggr in (alone, layer.aggr_module):
        assert all(bool(value.grad.any()) != key.startswith("target") for key, value in aggr.named_parameters())


@pytest.mark.parametrize("d", [1, 4, 7])
@pytest.mark.parametrize("name", NAMES)
def test_the_parameter_formula(name, d):
    formula = AGGREGATORS[name].parameters
    counts = [
        sum(p.numel() for p in make_aggregation(name, d, heads, degrees=DEGREES).parameters() if p.requires_grad)
        for heads in (1, 3)
    ]
    if name == "ssma":
        assert formula is None
    else:
        assert counts == [formula(d)] * 2


def test_options_that_freeze_a_parameter():
    for name in ("softmax", "powermean"):
        assert not any(p.requires_grad for p in make_aggregation(name, D, learn=False).parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_half_precision(name, dtype):
    x = messages(INDEX.numel(), D).to(dtype)
    exact = made(name)
    expected = exact(x.double(), INDEX, dim_size=NODES)
    for aggr in (copy.deepcopy(exact).float(), copy.deepcopy(exact).to(dtype)):
        out = aggr(x, INDEX, dim_size=NODES)
        assert out.dtype == dtype
        torch.testing.assert_close(out.double(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", ["mean", "vpa", "std"])
def test_half_precision_neither_overflows_nor_saturates(name):
    """10 x 1e4 is infinite in float16, and 1 + 1 + ... stops at 256 in bfloat16."""
    x = torch.full((10, 1), 1e4, dtype=torch.float16)
    expected = {"mean": 1e4, "vpa": 1e4 * math.sqrt(10), "std": 0.0}[name]
    assert make_aggregation(name, 1)(x, torch.zeros(10).long()).item() == pytest.approx(expected, rel=1e-3)
    many = torch.ones(3000, 1, dtype=torch.bfloat16)
    expected = {"mean": 1.0, "vpa": math.sqrt(3000), "std": 0.0}[name]
    assert make_aggregation(name, 1)(many, torch.zeros(3000).long()).item() == pytest.approx(expected, rel=1e-2)


HARD = {
    "zeros": torch.zeros(11, D),
    "constants": torch.full((11, D), 0.1),
    "tiny": 1e-30 * torch.randn(11, D, generator=torch.Generator().manual_seed(0)),
    "small": 1e-6 * torch.randn(11, D, generator=torch.Generator().manual_seed(1)),
    "large": 1e4 * torch.randn(11, D, generator=torch.Generator().manual_seed(2)),
    "factor 0": torch.arange(33.0).view(11, D) % 3,
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_are_finite(name, case):
    torch.manual_seed(0)
    aggr = make_aggregation(name, D, degrees=DEGREES)
    x = HARD[case].clone().requires_grad_()
    with torch.autograd.set_detect_anomaly(True):
        out = aggr(x, INDEX, dim_size=NODES)
        out.sum().backward()
    assert out.isfinite().all()
    assert x.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in aggr.parameters())


@pytest.mark.parametrize(
    "name", ["softmax", "powermean", "std", "fmean", "mul", "vpa", "deepsets", "pna", "lstm", "gru"]
)
def test_gradients_are_those_of_finite_differences(name):
    aggr, x = made(name), messages(INDEX.numel(), D).requires_grad_()
    parameters = list(aggr.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: aggr(x, INDEX, dim_size=NODES), (x, *parameters))


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_that_go_forward_and_several_inputs_at_once(name):
    """torch's product by index takes its derivative for 0 there, and its recurrent networks know no transforms."""
    aggr, x = made(name), messages(INDEX.numel(), D)
    x[0, 0] = x[2:4, 1] = 0  # no factor may be divided out again

    def of(x):
        return aggr(x, INDEX, dim_size=NODES)

    jacobian = torch.autograd.functional.jacobian(of, x)
    for transform in (torch.func.jacfwd, torch.func.jacrev):
        torch.testing.assert_close(transform(of)(x), jacobian)
    with forward_ad.dual_level():
        out = forward_ad.unpack_dual(of(forward_ad.make_dual(x, messages(*x.shape, seed=1))))
        torch.testing.assert_close(out.tangent, (jacobian * messages(*x.shape, seed=1)).sum((2, 3)))
        torch.testing.assert_close(out.primal, of(x))
    inputs = torch.stack([x, 2 * x])
    torch.testing.assert_close(torch.vmap(of)(inputs), torch.stack([of(one) for one in inputs]))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_trace_serves_other_graphs(name):
    """Of `lstm` and `gru` it kept the number of nodes with messages, and without any it ended the process."""
    layer = use_aggregation(SAGEConv((D, D), D), made(name)).double().eval()
    first = messages(NODES, D), torch.stack([INDEX.flip(0), INDEX])
    trace = torch.jit.trace(layer, first, check_trace=False)
    generator = torch.Generator().manual_seed(0)
    for nodes, count in ((NODES, INDEX.numel()), (4, 0), (1, 3), (20, 200), (300, 30)):
        x, edge_index = messages(nodes, D), torch.randint(nodes, (2, count), generator=generator)
        torch.testing.assert_close(trace(x, edge_index), layer(x, edge_index))


@pytest.mark.parametrize("name", ["mul", "lstm", "gru", "ssma"])
def test_second_derivatives_by_transforms(name):
    aggr, x, step = made(name), messages(INDEX.numel(), D), torch.zeros(INDEX.numel(), D, dtype=torch.float64)
    step[4, 1] = 1e-6
    if name == "mul":
        x[[0, 4], 1] = x[1, 0] = 0  # two factors of one node, and one of another

    def loss(x):
        return aggr(x, INDEX, dim_size=NODES).square().sum()

    ahead, behind = (torch.func.grad(loss)(x + sign * step) for sign in (1, -1))
    torch.testing.assert_close(torch.func.hessian(loss)(x)[4, 1], (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", INVARIANT)
def test_gradients_are_the_same_on_every_call_on_several_threads(name):
    """Threads add to a row in no fixed order in the gradient of ``x[index]``; not so in that of `index_select`."""
    aggr, index = made(name, 16).float(), torch.randint(300, (20000,), generator=torch.Generator().manual_seed(0))
    x = messages(20000, 16).float()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        first = gradients(aggr, x, index, 300)
        for _ in range(8):
            assert all(map(torch.equal, gradients(aggr, x, index, 300), first))
    finally:
        torch.set_num_threads(threads)


def gradients(aggr, x, index, nodes):
    used = [p for name, p in aggr.named_parameters() if not name.startswith("target_score")]
    return torch.autograd.grad(aggr(x.requires_grad_(), index, dim_size=nodes).square().sum(), [x, *used])


@pytest.mark.parametrize("name", NAMES)
def test_a_neighbour_that_is_no_number_shows_in_its_node_and_in_no_other(name):
    """A median left it out as the largest, so that a network that had diverged went on."""
    aggr, x = made(name), messages(INDEX.numel(), D)
    expected = aggr(x, INDEX, dim_size=NODES)
    for message in (0, 4, 10):  # the first, a middle and the last one of node 4
        spoilt = x.index_fill(0, torch.tensor([message]), math.nan)
        out = aggr(spoilt, INDEX, dim_size=NODES)
        assert out[4].isnan().all()
        others = torch.arange(NODES) != 4
        torch.testing.assert_close(out[others], expected[others])


def test_std_of_a_large_offset_and_of_equal_values():
    x = 1e4 + 1e-2 * torch.randn(100, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x, index = x.float(), torch.zeros(100).long()
    assert make_aggregation("std", 1)(x, index).item() == pytest.approx(x.double().std(correction=0).item(), rel=1e-5)
    equal = torch.tensor([[0.3], [0.1], [0.1], [0.1]], requires_grad=True)
    out = make_aggregation("std", 1)(equal, torch.tensor([0, 1, 1, 1]))
    out.sum().backward()
    assert out.tolist() == [[0.0], [0.0]]
    assert equal.grad.tolist() == [[0.0]] * 4


@pytest.mark.parametrize("p", [0.05, 0.5, 1.0, 2.0, 10.0, 60.0])
def test_power_mean_of_zeros_negatives_and_any_exponent(p):
    x = torch.tensor([[0.0], [-3.0], [2.0], [1e-5], [5.0], [-5.0], [1e4], [-7.0]], requires_grad=True)
    index = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
    aggr = PowerMeanAggregation(p)
    out = aggr(x, index)
    out.sum().backward()
    assert x.grad.isfinite().all() and aggr.log_p.grad.isfinite()
    wide = PowerMeanAggregation(p).double()
    torch.testing.assert_close(out.double(), by_loop("powermean", wide, x.double(), index, 3), rtol=2e-4, atol=1e-5)
    assert out[1] == 0


def test_power_mean_starts_as_the_mean_in_every_bit_and_refuses_other_exponents():
    x = 1e3 * torch.randn(11, D, generator=torch.Generator().manual_seed(0))
    assert torch.equal(PowerMeanAggregation()(x, INDEX), make_aggregation("mean", D)(x, INDEX))
    for p in (0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="expected a finite exponent above 0"):
            PowerMeanAggregation(p)


def test_f_mean_starts_near_the_mean_and_its_networks_are_inverse():
    for seed in range(5):
        torch.manual_seed(seed)
        aggr = FMeanAggregation()
        x = torch.rand(11, D) * 6 - 3
        assert (aggr(x, INDEX) - make_aggregation("mean", D)(x, INDEX)).abs().max() < 0.02 * 3
        assert 0 < aggr.auxiliary_loss() < 1e-3


def test_f_mean_auxiliary_loss_by_hand_and_its_sample():
    aggr, x = made("fmean", inversion_weight=0.5), messages(INDEX.numel(), D)
    with pytest.raises(RuntimeError, match="run the network in training mode first"):
        aggr.auxiliary_loss()
    aggr.train()(x, INDEX, dim_size=NODES)
    errors = []
    for row, node in zip(x, INDEX, strict=True):
        for k in range(D):
            z = (row[k] - aggr.b * x[node == INDEX][:, k].mean()).item()
            errors.append((chain(aggr.f_inverse, chain(aggr.f, [z]))[0] - z) ** 2)
    assert aggr.auxiliary_loss().item() == pytest.approx(0.5 * mean(errors), rel=1e-10)
    aggr.auxiliary_loss().backward()
    assert all(p.grad is not None for p in [*aggr.f.parameters(), *aggr.f_inverse.parameters()]) and aggr.a.grad is None
    same = pickle.loads(pickle.dumps(copy.deepcopy(aggr)))
    assert torch.equal(same.auxiliary_loss(), aggr.auxiliary_loss())
    assert "sample" not in aggr.state_dict()
    averaged = torch.optim.swa_utils.AveragedModel(aggr, use_buffers=True)
    averaged.update_parameters(aggr)
    aggr(messages(5000, D), torch.zeros(5000).long())
    averaged.update_parameters(aggr)  # the sample has another size
    assert 2048 <= aggr.sample.numel() <= 4096 and aggr.sample.size(1) == D
    aggr(x[:0], INDEX[:0], dim_size=1)
    assert aggr.auxiliary_loss() == 0


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated:FutureWarning")
@pytest.mark.parametrize(
    ("change", "parts"),
    [(weight_norm, "gv"), (spectral_norm, ["orig"]), (partial(prune.l1_unstructured, amount=0.5), ["orig"])],
)
@pytest.mark.parametrize("name", [*WIDE, "fmean", "ssma"])
def test_weights_that_torch_makes_before_each_call(name, change, parts):
    aggr, x = made(name), messages(INDEX.numel(), D)
    paths = [path for path, weight in aggr.named_parameters() if weight.dim() == 2 and "." in path]
    places = [(aggr.get_submodule(path.rpartition(".")[0]), path.rpartition(".")[2]) for path in paths]
    for module, weight in places:
        change(module, weight)
    for _ in range(2):  # what made a weight for the last call is gone with its gradient
        out = aggr(x, INDEX, dim_size=NODES)
        aggr.zero_grad()
        out.square().sum().backward()
        learning = {path for path, parameter in aggr.named_parameters() if parameter.grad is not None}
        assert {f"{path}_{part}" for path in paths for part in parts if "target" not in path} <= learning
        with torch.no_grad():
            for parameter in aggr.parameters():
                parameter.mul_(1.5)
    out = aggr(x, INDEX, dim_size=NODES)
    plain = made(name)
    kept = {path: value for path, value in aggr.state_dict().items() if path in plain.state_dict()}
    made_now = {path: getattr(*place) for path, place in zip(paths, places, strict=True)}
    plain.load_state_dict(kept | made_now)
    close(out, plain(x, INDEX, dim_size=NODES))
    assert paths and not torch.equal(made_now[paths[0]], made(name).get_parameter(paths[0]))


class Adapted(torch.nn.Module):
    """A layer and what an adapter adds to it; its weights are those of the layer, as in the libraries that do so."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.added = layer, torch.nn.Linear(layer.in_features, layer.out_features)
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x):
        return self.layer(x) + self.added(x)


@pytest.mark.parametrize(("name", "part"), [("ssma", "source_score"), ("deepsets", "phi_1"), ("pna", "linear")])
def test_what_an_adapter_would_add_to_a_layer_is_not_left_out(name, part):
    aggr = made(name)
    setattr(aggr, part, Adapted(getattr(aggr, part)))
    with pytest.raises(TypeError, match=r"^Adapted stands in the place of a layer of torch inside an aggregation"):
        aggr(messages(INDEX.numel(), D), INDEX, dim_size=NODES)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without its distributed package")
@pytest.mark.filterwarnings("ignore:.*returned a view tensor:UserWarning")
def test_a_layer_that_is_sharded_alone_is_refused():
    """Its weights are together in its own calls only. An aggregation that is sharded as a whole has them."""
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        aggr, x = made("deepsets"), messages(INDEX.numel(), D)
        expected = aggr(x, INDEX, dim_size=NODES)
        close(fully_shard(aggr, mesh=mesh)(x, INDEX, dim_size=NODES), expected)
        aggr = made("deepsets")
        fully_shard(aggr.phi_1, mesh=mesh)
        with pytest.raises(TypeError, match=r"^FSDPLinear stands in the place of a layer of torch inside"):
            aggr(x, INDEX, dim_size=NODES)
    finally:
        torch.distributed.destroy_process_group()


def test_a_median_of_a_number_of_messages_that_a_compiler_does_not_know():
    """As in a GCN, which leaves out self-loops before it adds its own."""
    aggr, x = made("median"), messages(INDEX.numel(), D)

    def loopless(x, index):
        kept = index != 2
        return aggr(x[kept], index[kept], dim_size=NODES)

    compiled = torch.compile(loopless, backend="eager", fullgraph=True)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert torch.equal(compiled(x, INDEX), loopless(x, INDEX))


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_sequences_are_independent_of_other_nodes_and_shuffled_in_training_only(name):
    aggr, x = made(name), messages(INDEX.numel(), D)
    alone = aggr(x, INDEX, dim_size=5)
    crowd = messages(40, D, seed=3)
    close(aggr(torch.cat([crowd, x]), torch.cat([torch.full((40,), 5), INDEX]), dim_size=6)[:5], alone)
    assert torch.equal(aggr(x, INDEX, dim_size=5), alone)
    aggr.train()
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(aggr(x, INDEX, dim_size=5))
    assert torch.equal(drawn[0], drawn[1]) and not torch.allclose(drawn[0], drawn[2])
    close(drawn[0][1], alone[1])  # one neighbour has one order
    rows = list(x[INDEX == 2])  # two have two
    seen = {BY_ROW[name](aggr, order).detach()[0].item() for order in (rows, rows[::-1])}
    assert min(abs(drawn[0][2, 0].item() - value) for value in seen) < 1e-10


class Counted(TorchDispatchMode):
    """Counts the numbers in the results of all operators."""

    numbers = 0

    def __torch_dispatch__(self, function, types, inputs=(), options=None):
        out = function(*inputs, **(options or {}))
        self.numbers += sum(each.numel() for each in tree_leaves(out) if isinstance(each, torch.Tensor))
        return out


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_long_sequences_give_what_torch_gives_in_time_that_grows_with_their_length(name, monkeypatch):
    aggr = make_aggregation(name, D)
    counts = []
    for length in (100, 400):
        index = torch.tensor([2] * length + [0] * 40 + [3] * 39)
        results = []
        for short in (recurrent.SHORT, length):  # all by torch then
            monkeypatch.setattr(recurrent, "SHORT", short)
            aggr.zero_grad()
            x = torch.randn(len(index), D, generator=torch.Generator().manual_seed(0), requires_grad=True)
            torch.manual_seed(0)
            out = aggr(x, index, dim_size=4)
            with Counted() as counted:
                out.square().sum().backward()
            counts.append(counted.numbers)
            results.append([out, x.grad, *(weight.grad.clone() for weight in aggr.parameters())])
        assert not results[0][0][1].any()
        for mine, torchs in zip(*results, strict=True):
            torch.testing.assert_close(mine, torchs, rtol=1e-6, atol=1e-6)
        monkeypatch.undo()
    assert counts[2] < 5 * counts[0]  # of four times as long ones


def test_pna_scale_by_hand_and_unseen_degrees():
    delta = mean_log_degree(torch.tensor([0, 3, 0, 1]))
    assert delta.item() == pytest.approx((3 * math.log(2) + math.log(4)) / 4, rel=1e-6)
    aggr = PNAAggregation(2, torch.tensor([0, 3, 1, 0, 1]))
    assert aggr(torch.randn(50, 2), torch.zeros(50).long(), dim_size=2).isfinite().all()
    assert "delta" in aggr.state_dict()
    delta = aggr.delta.clone()
    aggr.delta.fill_(9)  # as memory that a module without data is moved to may hold
    aggr.reset_parameters()
    assert torch.equal(aggr.delta, delta)
    for degrees, problem in (
        (None, "got no degrees"),
        ([4], "no node has an incoming edge"),
        ([2, -1], "expected a tensor of counts"),
    ):
        with pytest.raises(ValueError, match=problem):
            PNAAggregation(2, degrees if degrees is None else torch.tensor(degrees))


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("shape", [(11, D + 1), (11, 3, D), (11, 2, D + 1), (11, D), (11, 2, 1, D)])
def test_another_width_is_one_clear_error(name, shape):
    aggr = make_aggregation(name, D, 2, degrees=DEGREES)
    with pytest.raises(
        ValueError, match="got messages of shape .* expected .E, heads . in_channels. .* with heads=2 and in_channels=3"
    ):
        aggr(torch.randn(shape), INDEX, dim=0)


@pytest.mark.parametrize("name", NAMES)
def test_reset_copy_state_and_repr(name):
    torch.manual_seed(0)
    aggr = make_aggregation(name, D, degrees=DEGREES)
    start = {key: value.clone() for key, value in aggr.state_dict().items()}
    for parameter in aggr.parameters():
        parameter.data.fill_(9.0)
    aggr.reset_parameters()
    assert all((parameter != 9).all() for parameter in aggr.parameters())
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        aggr.reset_parameters()
        drawn.append(
            torch.cat([torch.zeros(1), *(parameter.detach().flatten().clone() for parameter in aggr.parameters())])
        )
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2]) == (name not in (*BY_ROW, "fmean", "ssma"))
    aggr.load_state_dict(start)
    x = torch.randn(INDEX.numel(), D)
    for other in (copy.deepcopy(aggr), pickle.loads(pickle.dumps(aggr))):
        assert torch.equal(other.eval()(x, INDEX), aggr.eval()(x, INDEX))
    assert re.fullmatch(r"\w+Aggregation\(.*\)", repr(aggr))
    assert type(aggr).__name__ in ssma.aggr.__all__


def test_study_and_registry_know_the_same_aggregators_with_the_same_defaults():
    assert list(OPTIONS) == NAMES
    for name, model in OPTIONS.items():
        arguments = inspect.signature(AGGREGATORS[name].make.__init__).parameters
        for option, value in model().model_dump().items():
            assert arguments[option].default == value, f"{name}.{option}"
    with pytest.raises(ValueError, match="unknown aggregation 'summ'; expected one of sum, mean"):
        make_aggregation("summ", 2)


def test_the_guide_says_what_the_registry_says():
    text = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    section = text.split("## Aggregators", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (yes|no) \|", section, re.MULTILINE)
    shown = {name: (f"{kind.empty:g}" if isinstance(kind.empty, float) else kind.empty, "no" if kind.invariant else "yes")
             for name, kind in AGGREGATORS.items()}  # fmt: skip
    assert {name: (empty, order) for name, empty, order in rows} == shown


def test_power_mean_with_a_large_exponent_is_the_largest_magnitude():
    index = torch.zeros(3, dtype=torch.long)
    for p in (64.0, 110.0, 200.0):
        out = PowerMeanAggregation(p)(torch.tensor([[1.0], [0.5], [-0.25]]), index)
        assert out.item() == pytest.approx((1 / 3) ** (1 / p), rel=1e-4)
    assert PowerMeanAggregation(110.0)(torch.ones(1, 1), index[:1]).item() == pytest.approx(1)


@pytest.mark.parametrize("name", ["sum", "mean", "median", "lstm", "std"])
def test_an_index_of_another_length_is_refused(name):
    aggr = make_aggregation(name, 4)
    with pytest.raises(ValueError, match="got an index of length 4 but expected 5, the number of messages"):
        aggr(torch.randn(5, 4), torch.tensor([0, 0, 1, 1]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
@pytest.mark.parametrize("name", NAMES)
def test_whole_numbers_of_any_size_are_an_index(name, dtype):
    results = []
    for index in (INDEX, INDEX.to(dtype)):
        aggr, x = made(name), messages(INDEX.numel(), D).requires_grad_()
        out = aggr(x, index, dim_size=NODES)
        out.square().sum().backward()
        results.append((out, x.grad))
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_an_index_of_other_numbers_or_more_dimensions_is_refused(name):
    aggr, x, ptr = made(name), messages(INDEX.numel(), D), torch.tensor([0.0, INDEX.numel()])
    for wrong, text in ((INDEX.float(), "torch.float32 and shape (11,)"), (INDEX.bool(), "torch.bool and shape (11,)"),
                        (INDEX.unsqueeze(1), "torch.int64 and shape (11, 1)")):  # fmt: skip
        with pytest.raises(ValueError, match=f"got index of {re.escape(text)} but expected whole numbers in one dim"):
            aggr(x, wrong, dim_size=NODES)
    with pytest.raises(ValueError, match="got ptr of torch.float32 and shape .2,. but expected whole numbers"):
        aggr(x, ptr=ptr)


def test_sums_in_half_precision_are_summed_in_float32():
    ones = torch.ones(3000, 1, dtype=torch.bfloat16)
    out = make_aggregation("sum", 1)(ones, torch.zeros(3000, dtype=torch.long))
    assert out.item() == torch.tensor(3000.0).bfloat16().item()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_whole_numbers_of_any_size_are_borders(dtype):
    x = messages(5, D)
    out = made("sum")(x, ptr=torch.tensor([0, 2, 2, 5], dtype=dtype))
    torch.testing.assert_close(out, torch.stack([x[:2].sum(0), 0 * x[0], x[2:].sum(0)]))


def test_borders_without_values_pass():
    with FakeTensorMode():
        assert made("sum")(torch.randn(5, D), ptr=torch.tensor([0, 2, 5])).shape == (2, D)


@pytest.mark.parametrize("borders", [[0, 2, 9], [0, 4, 2, 5], [1, 4, 5], [0, 2]])
@pytest.mark.parametrize("name", ["sum", "lstm", "ssma"])
def test_borders_that_do_not_cover_the_messages_are_refused(name, borders):
    with pytest.raises(
        ValueError, match=f"got ptr from {borders[0]} to {borders[-1]} but expected borders that rise from 0 to 5"
    ):
        made(name)(messages(5, D), ptr=torch.tensor(borders))
