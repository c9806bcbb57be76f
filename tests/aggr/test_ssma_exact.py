"""SSMA against its definition over the whole range of kappa, width, heads, degrees and options."""

import copy
import itertools
import math

import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, MessagePassing, SAGEConv

from ssma.aggr import SSMAAggregation, product, use_aggregation
from ssma.aggr.combine import scores
from ssma.aggr.selection import attention_slots, groups_of


def degrees_for(kappa):
    return [0, 1, 2, kappa, kappa + 3]


def graph(kappa):
    """An unsorted index with in-degrees 0, 1, 2, kappa and above kappa."""
    index = torch.tensor([node for node, degree in enumerate(degrees_for(kappa)) for _ in range(degree)])
    return index[torch.randperm(index.numel(), generator=torch.Generator().manual_seed(1))]


def arrays(aggr, slots):
    """The affine map of the slots of a node, ``[slots, m1, m2]``."""
    if aggr.affine_weight is not None:
        return torch.einsum("kd,dac->kac", slots, aggr.affine_weight) + aggr.affine_bias
    out = slots.new_zeros(len(slots), aggr.m1, aggr.m2)
    out[:, 0, : slots.size(1)] = -slots
    out[:, 1, 0] = 1
    return out


def magnitude(aggr, product, factors):
    size = product.abs()
    if aggr.normalisation == "geometric":
        return torch.stack([factor.abs() ** (1 / len(factors)) for factor in factors]).prod(0)
    return torch.log(1 + size) if aggr.normalisation == "log" else size


def signal(aggr, slots):
    """What the compressor sees of a node with these slots, from the definition."""
    mapped = arrays(aggr, slots)
    if aggr.mixing == "sum":
        return mapped.sum(0)
    factors = torch.fft.fft2(mapped) if aggr.mixing == "convolution" else mapped
    product = factors.prod(0)
    phase = torch.where(product.abs() > 0, product / product.abs().clamp(min=torch.finfo(mapped.dtype).tiny), 0)
    mixed = phase * magnitude(aggr, product, factors)
    return torch.fft.ifft2(mixed).real if aggr.mixing == "convolution" else mixed


def neutral(aggr):
    """The signal of a node without slots: the neutral element, normalised like any product."""
    one = torch.zeros(aggr.m1, aggr.m2, dtype=aggr.bias.dtype)
    if aggr.mixing == "convolution":
        one[0, 0] = 1
    elif aggr.mixing == "product":
        one += 1
    return one * (math.log(2) if aggr.normalisation == "log" else 1)


def naive(aggr, messages, index, nodes):
    """SSMA node by node and head by head; messages are ``[E, heads, d]``."""
    weight = aggr.weight if aggr.expand is None else torch.einsum("or,rac->oac", aggr.expand, aggr.weight)
    rows = []
    for node, head in itertools.product(range(nodes), range(aggr.heads)):
        mine = messages[index == node]
        if len(mine) == 0:
            slots = messages.new_zeros(0, aggr.in_channels)
        elif aggr.selection == "random":
            chosen = range(len(mine)) if len(mine) <= aggr.kappa else [
                k * len(mine) // aggr.kappa for k in range(aggr.kappa)
            ]  # fmt: skip
            slots = mine[list(chosen), head]
        else:
            raw = aggr.source_score(mine.flatten(1)).view(len(mine), aggr.heads, aggr.kappa)[:, head]
            score = torch.where(raw > 0, raw, 0.01 * raw) / aggr.temperature
            slots = torch.softmax(score, 0).t() @ mine[:, head]
        mixed = signal(aggr, slots) if len(slots) else neutral(aggr)
        rows.append(torch.einsum("oac,ac->o", weight, mixed) + aggr.bias)
    return torch.stack(rows).view(nodes, aggr.heads, aggr.in_channels)


def gradients(aggr, messages, out, upper):
    parameters = [p for p in aggr.parameters() if p.requires_grad]
    return torch.autograd.grad((out * upper).sum(), [messages, *parameters], allow_unused=True)


def compare(aggr, tolerance, dtype):
    """Compares ``aggr`` in a dtype with its definition in float64, values and all gradients.

    Where a factor of the product is near zero, gradients are so sensitive that one rounding of the messages changes
    them by more than the tolerance; there, a few dozen times that change is allowed.
    """
    index, nodes = graph(aggr.kappa), 5
    messages = torch.randn(index.numel(), aggr.heads, aggr.in_channels, dtype=dtype)
    upper = torch.randn(nodes, aggr.heads, aggr.in_channels, dtype=dtype)

    def run(function, x):
        module, x = aggr.to(x.dtype).eval(), x.requires_grad_()
        out = function(module, x, index, nodes)
        return out.detach().double(), gradients(module, x, out, upper.to(x.dtype))

    aggr = aggr.to(dtype)  # the weights are exact in this dtype
    out, ours = run(lambda module, x, index, nodes: module(x, index, dim_size=nodes, dim=0), messages.clone())
    expected, wanted = run(naive, messages.double())
    noise = torch.finfo(dtype).eps * torch.randn_like(messages, dtype=torch.float64)
    _, moved = run(naive, messages.double() + noise)
    assert relative(out, expected) < tolerance
    floor = 1e-3 * max(float(grad.norm()) for grad in wanted if grad is not None)
    for mine, theirs, other in zip(ours, wanted, moved, strict=True):
        if theirs is None:  # what scores targets: called alone, there are none
            assert not mine.any()
        else:
            assert relative(mine, theirs, floor) < max(tolerance, min(30 * relative(other, theirs, floor), 1e-3))


def relative(ours, theirs, floor=1e-12):
    return float((ours.double() - theirs).norm() / theirs.norm().clamp(min=floor))


CASES = [
    # (d, kappa): every kappa and widths that are odd, even, and make m2 = kappa (d - 1) + 1 prime (*)
    (1, 1), (2, 1), (130, 1), (3, 2), (64, 2), (127, 2), (4, 3), (33, 3), (65, 3),  # 253 = 11 * 23, 97*, 193*
    (1, 4), (5, 4), (130, 4), (2, 5), (31, 5), (3, 6), (17, 6), (7, 7), (128, 7), (4, 8), (9, 8), (50, 8),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("selection", ["attention", "random"])
@pytest.mark.parametrize(("d", "kappa"), CASES)
def test_widths_and_slots(d, kappa, selection, dtype, tolerance):
    torch.manual_seed(d * 10 + kappa)
    compare(SSMAAggregation(d, kappa, selection), tolerance, dtype)


OPTIONS = {
    "selection": ["attention", "random"],
    "heads": [1, 3],
    "compression": [{"compression": 1.0}, {"compression": 0.3}, {"compression": 0.05, "compression_of": "rank"}],
    "learn_affine": [False, True],
    "mixing": [("convolution", "geometric"), ("convolution", "none"), ("convolution", "log"), ("product", "geometric"),
               ("product", "none"), ("product", "log"), ("sum", "geometric")],
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize(tuple(OPTIONS), list(itertools.product(*OPTIONS.values())))
def test_options(selection, heads, compression, learn_affine, mixing, dtype, tolerance):
    torch.manual_seed(3)
    aggr = SSMAAggregation(
        5, 3, selection, heads=heads, learn_affine=learn_affine, temperature=0.7,
        mixing=mixing[0], normalisation=mixing[1], **compression,
    )  # fmt: skip
    if learn_affine:
        aggr.affine_weight.data += 0.3 * torch.randn_like(aggr.affine_weight)
        aggr.affine_bias.data += 0.3 * torch.randn_like(aggr.affine_bias)
    compare(aggr, tolerance, dtype)


@pytest.mark.parametrize(
    "options", [{}, {"learn_affine": True}, {"mixing": "product"}, {"normalisation": "log"}], ids=str
)
@pytest.mark.parametrize("kappa", [3, 9])
def test_chunks_of_rows(kappa, options, monkeypatch):
    """Chunks of one row, of a few with a smaller last one, and all rows at once."""
    torch.manual_seed(0)
    aggr = SSMAAggregation(5, kappa, **options).double()
    messages, index = torch.randn(60, 5, dtype=torch.float64, requires_grad=True), torch.arange(60) % 13
    columns = aggr.m1 * (aggr.m2 // 2 + 1) * 2
    results = []
    monkeypatch.setattr(product, "CHUNK_ROWS", 1)
    for bytes_of_a_factor in (1, 4 * columns * 8, 2**30):
        monkeypatch.setitem(product.CHUNK_BYTES, "cpu", bytes_of_a_factor)
        out = aggr(messages, index)
        results.append(
            (out, *torch.autograd.grad(out.square().sum(), [messages, *aggr.source_score.parameters(), aggr.weight]))
        )
    for result in results[:2]:
        for one, other in zip(result, results[2], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"heads": 2, "learn_affine": True},
        {"normalisation": "none"},
        {"mixing": "product"},
        {"normalisation": "log"},
    ],
    ids=str,
)
def test_empty_slots_are_not_multiplied(options, mode, monkeypatch):
    """In chunks of one row images are made of as many slots as messages fill; at most one filled slot takes none, unless
    its magnitude changes."""
    torch.manual_seed(0)
    kappa, rows, images = 4, [], product._images
    aggr = SSMAAggregation(5, kappa, "random", **options).double().train(mode)
    index, heads = graph(kappa), aggr.heads
    messages = torch.randn(len(index), 5 * heads, dtype=torch.float64, requires_grad=True)
    inputs = [messages, *aggr.parameters()]

    def counted(slots, *others):
        rows.append(slots.size(0) * others[2].numel())
        return images(slots, *others)

    def results():
        torch.manual_seed(1)
        out = aggr(messages, index, dim_size=len(degrees_for(kappa)))
        return out, *torch.autograd.grad(out.square().sum(), inputs)

    at_once = results()
    monkeypatch.setattr(product, "_images", counted)
    monkeypatch.setattr(product, "CHUNK_ROWS", 1)
    monkeypatch.setattr(product, "CHUNK_SLOTS", 0)
    monkeypatch.setitem(product.CHUNK_BYTES, "cpu", 1)
    torch.testing.assert_close(results(), at_once, rtol=1e-12, atol=1e-12)
    made = [max(1, min(degree, kappa)) for degree in degrees_for(kappa)]
    forward = heads * sum(slots for slots in made if slots > 1 or options == {"normalisation": "log"})
    assert sum(rows) == 2 * forward  # backward makes them again
    assert forward < heads * kappa * len(degrees_for(kappa))


def test_rows_with_as_many_filled_slots_are_chunks(monkeypatch):
    """Few rows join those that have more, and many are cut into parts of like size."""

    def chunks(filled, kappa):
        return [(rows.tolist(), most) for rows, most in product._by_filled(torch.tensor(filled), kappa, 4)]

    monkeypatch.setattr(product, "CHUNK_SLOTS", 2)
    filled = [1, 3, 1, 2, 3, 2, 1, 1, 3, 3, 1, 3]
    assert chunks(filled, 3) == [([1, 4, 8, 9], 3), ([11, 3, 5], 3), ([0, 2, 6], 1), ([7, 10], 1)]
    assert chunks([1, 2, 3, 4], 5) == [([3, 2, 1], 4), ([0], 1)]
    assert chunks([4, 1], 4) == [([0], 4), ([1], 1)]
    assert chunks([1, 1], 4) == [([0, 1], 1)]


def polynomial(neighbours):
    """Coefficients ``[a, c]`` of prod_k (t - sum_j x_kj z^j), the power of t first, by schoolbook multiplication."""
    product = {(0, 0): 1.0}
    for x in neighbours:
        factor = {(1, 0): 1.0} | {(0, j): -value for j, value in enumerate(x)}
        following = {}
        for (a, c), first in product.items():
            for (b, e), second in factor.items():
                following[a + b, c + e] = following.get((a + b, c + e), 0.0) + first * second
        product = following
    return product


@pytest.mark.parametrize(("d", "kappa"), [(1, 1), (1, 5), (3, 2), (4, 3), (2, 8), (6, 4)])
def test_enough_slots_give_the_generalised_deepsets_polynomial(d, kappa):
    torch.manual_seed(0)
    m = (kappa + 1) * (kappa * (d - 1) + 1)
    aggr = SSMAAggregation(d, kappa, "random", 1.0, normalisation="none").double().eval()
    messages = torch.randn(kappa, d, dtype=torch.float64)
    expected = torch.zeros(aggr.m1, aggr.m2, dtype=torch.float64)
    for (a, c), value in polynomial(messages.tolist()).items():
        expected[a, c] = value
    assert m == aggr.m1 * aggr.m2
    aggr.bias.data.zero_()
    for start in range(0, m, d):  # the compressor reads d coefficients at a time
        aggr.weight.data.zero_()
        for row, place in enumerate(range(start, min(start + d, m))):
            aggr.weight.data.view(d, -1)[row, place] = 1
        out = aggr(messages, torch.zeros(kappa, dtype=torch.long))[0]
        count = min(d, m - start)
        torch.testing.assert_close(out[:count], expected.flatten()[start : start + count], rtol=1e-10, atol=1e-10)


def test_small_factors_keep_their_geometric_mean():
    """Seven equal one-hot slots: at some frequencies every factor is around 0.01, and the product around 1e-14."""
    aggr = SSMAAggregation(100, 7).eval()
    messages = torch.zeros(1, 1, 100)
    messages[0, 0, 1] = 1
    with torch.no_grad():
        expected = naive(aggr.double(), messages.double(), torch.tensor([0]), 1)
        out = aggr.float()(messages, torch.tensor([0]), dim=0)
    assert relative(out, expected) < 1e-5


@pytest.mark.parametrize("kappa", [4, 8, 20])
@pytest.mark.parametrize(
    ("dtype", "small", "tolerance"),
    [(torch.float32, 3e-5, 4e-3), (torch.float64, 3e-5, 1e-9), (torch.float64, 1e-12, 1e-3)],  # 1 - sum of x rounds
)
def test_a_few_small_factors_keep_their_geometric_mean(kappa, dtype, small, tolerance):
    """Four neighbours that are nearly one-hot in their sum: four small factors at frequency (0, 0), others large."""
    torch.manual_seed(0)
    aggr = SSMAAggregation(4, kappa, "random", 1.0).to(dtype).eval()
    messages = torch.randn(kappa, 1, 4, dtype=dtype)
    messages[:4] = torch.tensor([0.4, 0.3, 0.2, 0.1 - small], dtype=dtype)
    aggr.weight.data.fill_(1.0)  # the sum of all coefficients is the spectrum at (0, 0)
    aggr.bias.data.zero_()
    index = torch.zeros(kappa, dtype=torch.long)
    with torch.no_grad():
        expected = naive(aggr.double(), messages.double(), index, 1)
        out = aggr.to(dtype)(messages, index, dim=0)
    assert relative(out, expected) < tolerance


@pytest.mark.parametrize("kappa", [2, 4, 8, 20])
def test_gradients_stay_moderate_where_one_factor_is_zero(kappa):
    """A one-hot neighbour has a zero factor, where the geometric mean has an infinite slope."""
    torch.manual_seed(0)
    aggr = SSMAAggregation(4, kappa, "random")
    messages = torch.randn(kappa, 4)
    messages[0] = torch.tensor([1.0, 0, 0, 0])
    messages.requires_grad_()
    aggr(messages, torch.zeros(kappa, dtype=torch.long)).sum().backward()
    assert messages.grad.abs().max() < 100


@pytest.mark.parametrize("scale", [1e-30, 1e-5, 1e4, 1e15])
@pytest.mark.parametrize("selection", ["attention", "random"])
def test_values_at_extreme_scales(selection, scale):
    torch.manual_seed(0)
    aggr = SSMAAggregation(9, 4, selection, temperature=1e16 if scale > 1 else 1.0).eval()
    index, messages = graph(4), torch.randn(14, 1, 9) * scale
    with torch.no_grad():
        out = aggr(messages, index, dim_size=5, dim=0)
        expected = naive(aggr.double(), messages.double(), index, 5)
    assert relative(out, expected) < 1e-5


def test_thousands_of_neighbours():
    """A hub, in any order of its edges, with a row of zeros."""
    torch.manual_seed(0)
    for selection in ("attention", "random"):
        aggr = SSMAAggregation(8, 4, selection).eval()
        messages = (torch.randn(5000, 8) * math.sqrt(10)).requires_grad_()
        messages.data[17] = 0
        index = torch.zeros(5000, dtype=torch.long)
        out = aggr(messages, index)
        out.sum().backward()
        assert out.isfinite().all()
        assert messages.grad.isfinite().all()
        if selection == "attention":
            for seed in range(5):
                order = torch.randperm(5000, generator=torch.Generator().manual_seed(seed))
                torch.testing.assert_close(aggr(messages[order], index), out, rtol=1e-4, atol=1e-5)


def test_large_attention_scores():
    torch.manual_seed(0)
    aggr = SSMAAggregation(6, 3)
    aggr.source_score.weight.data *= 1e4
    groups = groups_of(torch.arange(20) % 3, 3, heads=1)
    # averages of ones are the sums of the weights
    x = torch.randn(20, 6)
    sums, _ = attention_slots(
        torch.ones(20, 1), scores(aggr.way(), aggr.recipe(x), x, *aggr.scored(x, groups.group)), groups
    )
    torch.testing.assert_close(sums, torch.ones_like(sums))
    messages = torch.randn(20, 6, requires_grad=True)
    out = aggr(messages, torch.arange(20) % 3)
    out.sum().backward()
    assert out.isfinite().all()
    assert messages.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in aggr.parameters() if p.grad is not None)


@pytest.mark.parametrize("normalisation", ["geometric", "log"])
@pytest.mark.parametrize("mixing", ["convolution", "product"])
@pytest.mark.parametrize("kappa", [1, 5, 9])
def test_options_at_zero(kappa, mixing, normalisation):
    torch.manual_seed(0)
    for rows in (torch.zeros(10, 4), torch.ones(10, 4), torch.eye(4)[torch.arange(10) % 4], torch.randn(10, 4) * 1e-25):
        aggr = SSMAAggregation(4, kappa, mixing=mixing, normalisation=normalisation)
        messages = rows.clone().requires_grad_()
        with torch.autograd.detect_anomaly(check_nan=True):
            out = aggr(messages, torch.arange(10) % 3, dim_size=4)
            out.sum().backward()
        assert out.isfinite().all()
        assert messages.grad.isfinite().all()
        assert all(p.grad.isfinite().all() for p in aggr.parameters() if p.grad is not None)


@pytest.mark.parametrize("scale", [1, 1e-20, 0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_the_logarithm_of_a_single_factor_has_a_slope_of_at_most_1(dtype, tolerance, scale):
    """The learned map is 0 at first but for one row and one place; there log(1 + z) has the slope 1."""
    torch.manual_seed(0)
    aggr = SSMAAggregation(
        3, 1, mixing="product", normalisation="log", learn_affine=True, compression=1.0, temperature=2.0
    ).to(dtype)
    x = (torch.rand(4, 3, dtype=dtype) * scale).requires_grad_()
    aggr(x, torch.arange(4)).sum().backward()
    slope = aggr.weight.sum(0) / (1 + arrays(aggr, x.detach()).abs())
    expected = {
        "x": torch.einsum("nac,dac->nd", slope, aggr.affine_weight),
        "affine_weight": torch.einsum("nac,nd->dac", slope, x),
        "affine_bias": slope.sum(0),
    }
    for name, grad in expected.items():
        found, grad = x.grad if name == "x" else getattr(aggr, name).grad, grad.detach()
        torch.testing.assert_close(found, grad, rtol=tolerance, atol=tolerance * grad.abs().max().item())


@pytest.mark.parametrize("learn_affine", [False, True])
def test_large_messages_beside_tiny_ones(learn_affine):
    """The weight of a large message underflows to 0 in some slots; where such a slot is tiny, its slope is steep."""
    torch.manual_seed(0)
    aggr = SSMAAggregation(3, 4, mixing="product", learn_affine=learn_affine)
    messages = torch.randn(20, 3).clamp(-1, 1)
    messages[::3] *= 1e12
    messages[1::3] *= 1e-30
    messages[2::6] = 0
    index, gradients = torch.randint(5, (20,)), []
    for one in (aggr, copy.deepcopy(aggr).double()):
        leaf = messages.to(one.bias.dtype).clone().requires_grad_()
        one(leaf, index, dim_size=6).sum().backward()
        gradients.append(leaf.grad)
        assert all(p.grad.isfinite().all() for p in one.parameters() if p.grad is not None)
    assert relative(*gradients) < 0.05  # float32 rounds scores of 1e12 to whole numbers


def test_padding_sends_no_gradient():
    """Degrees below kappa; an unrelated hub in the batch changes no other gradient."""
    torch.manual_seed(0)
    for selection in ("attention", "random"):
        aggr = SSMAAggregation(5, 8, selection).double().eval()
        messages = torch.randn(6, 5, dtype=torch.float64)
        index = torch.tensor([0, 1, 1, 2, 2, 2])
        alone = messages.clone().requires_grad_()
        aggr(alone, index)[:3].sum().backward()
        hub = torch.cat([messages, torch.randn(50, 5, dtype=torch.float64)]).requires_grad_()
        aggr(hub, torch.cat([index, torch.full((50,), 3)]))[:3].sum().backward()
        torch.testing.assert_close(hub.grad[:6], alone.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("selection", ["attention", "random"])
@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_slots_from_features(selection, flow):
    """GCN weighs its messages: slots from features are those of a layer that does not."""
    torch.manual_seed(0)
    x, edge_index = torch.randn(9, 6), torch.randint(9, (2, 30))
    edge_index = edge_index if flow == "source_to_target" else edge_index.flip(0)
    raw = SSMAAggregation(6, 3, selection, slots_from="features")
    gcn = use_aggregation(GCNConv(6, 6, add_self_loops=False, bias=False, flow=flow), raw).eval()
    plain = SSMAAggregation(6, 3, selection)
    sage = use_aggregation(SAGEConv(6, 6, root_weight=False, bias=False, flow=flow), plain).eval()
    plain.load_state_dict(raw.state_dict())
    sage.lin_l.weight.data = torch.eye(6)
    torch.testing.assert_close(gcn(x, edge_index), sage(gcn.lin(x), edge_index))
    weighed = SSMAAggregation(6, 3, selection)
    weighed.load_state_dict(raw.state_dict())
    assert not torch.allclose(use_aggregation(gcn, weighed)(x, edge_index), sage(gcn.lin(x), edge_index))


class Doubling(MessagePassing):
    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_j):
        return torch.cat([x_j, x_j], -1)


def test_slots_from_features_need_a_layer_of_the_same_width():
    with pytest.raises(ValueError, match="use_aggregation"):
        SSMAAggregation(4, slots_from="features")(torch.randn(3, 4), torch.tensor([0, 0, 1]))
    layer = use_aggregation(SAGEConv((6, 4), 4), SSMAAggregation(4, slots_from="features", attention_channels=(6, 4)))
    with pytest.raises(ValueError, match="messages of shape .* but expected .* with heads=1 and in_channels=4"):
        layer((torch.randn(3, 6), torch.randn(3, 4)), torch.tensor([[0, 1], [1, 2]]))
    wide = use_aggregation(Doubling(), SSMAAggregation(8, slots_from="features", attention_channels=4))
    with pytest.raises(ValueError, match="source features of width 4 but slots_from='features' expected .* 8"):
        wide(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]))
    conv = use_aggregation(GATConv(4, 4, heads=2), SSMAAggregation(4, heads=2, slots_from="features"))
    assert conv(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]])).shape == (3, 8)


def test_sum_has_nothing_to_normalise():
    with pytest.raises(ValueError, match="normalisation='log' with mixing='sum'"):
        SSMAAggregation(4, mixing="sum", normalisation="log")


COMPILED = [{}, {"learn_affine": True}, {"selection": "random"}, {"mixing": "product"}, {"mixing": "sum"},
            {"normalisation": "log"}, {"slots_from": "features"}]  # fmt: skip


@pytest.mark.parametrize("options", COMPILED, ids=str)
def test_compiled_without_a_graph_break(options):
    """Inside a layer: PyG leaves hooks out when it compiles, and the attention slots must see the features anyway."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    x, edge_index = torch.randn(12, 6), torch.randint(12, (2, 40))
    conv = use_aggregation(GCNConv(6, 6), SSMAAggregation(6, 3, **options)).eval()
    compiled = torch.compile(conv, fullgraph=True, backend="aot_eager")
    parameters = [p for p in conv.parameters() if p.requires_grad]
    expected, out = conv(x, edge_index), compiled(x, edge_index)
    torch.testing.assert_close(out, expected)
    for one, other in zip(
        torch.autograd.grad(out.square().sum(), parameters, allow_unused=True),
        torch.autograd.grad(expected.square().sum(), parameters, allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_operators_satisfy_the_rules_of_torch():
    """Schema, shapes without data, and gradient registration of the two operators, as torch checks them."""
    torch.manual_seed(0)
    weight, message = torch.rand(2, 6, requires_grad=True), torch.randn(6, 3, requires_grad=True)
    group, sizes = torch.tensor([0, 2, 1, 1, 0, 2]), torch.tensor([2, 2, 2, 0])
    for order in (None, group.argsort()):
        torch.library.opcheck(torch.ops.ssma.weighted_sums.default, (weight, message, group, sizes, order))
    slots, scale = torch.randn(3, 5, 4, requires_grad=True), torch.rand(3, 5, 1)
    filled = torch.full((5,), 3)
    near, matrix = torch.randn(3, 5, 4, 2), torch.randn(4, 12)
    root, gain = torch.full((5, 1), 1 / 3), torch.rand(5, 1)
    weight = torch.randn(48, 2, requires_grad=True)
    torch.library.opcheck(
        torch.ops.ssma.compressed_product.default,
        (slots, filled, scale, near, matrix, root, gain, weight, False, False, False),
    )


def test_backward_in_an_autocast_region_runs_in_float32_too():
    torch.manual_seed(0)
    aggr, index = SSMAAggregation(8, 3), torch.randint(7, (30,))
    x = torch.randn(30, 8, requires_grad=True)
    inputs = [x, *(parameter for name, parameter in aggr.named_parameters() if not name.startswith("target"))]
    expected = torch.autograd.grad(aggr(x, index, dim_size=7).square().sum(), inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.autograd.grad(aggr(x, index, dim_size=7).square().sum(), inputs)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
