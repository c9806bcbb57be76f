"""SSMA against its definition, written here as plain loops over nodes, neighbours and frequencies."""

import cmath
import copy
import math
from functools import partial

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
from torch_geometric.nn.aggr import MultiAggregation

from ssma.aggr import SSMAAggregation, use_aggregation
from ssma.aggr.selection import random_draw, random_slots


def constant_map(x, m1, m2):
    array = torch.zeros(m1, m2, dtype=torch.float64)
    array[0, : len(x)] = -x
    array[1, 0] = 1
    return array


def dft(array):
    """2D DFT from its definition: two loops over frequencies, two over places."""
    m1, m2 = array.shape
    out = torch.zeros(m1, m2, dtype=torch.complex128)
    for s in range(m1):
        for b in range(m2):
            for a in range(m1):
                for c in range(m2):
                    if array[a, c] != 0:
                        out[s, b] += complex(array[a, c]) * cmath.exp(-2j * math.pi * (s * a / m1 + b * c / m2))
    return out


def inverse_dft(array):
    return dft(array.conj()).conj() / array.numel()


def definition(aggr, slots_of_node):
    """The signal of one node, before the compressor."""
    product = torch.ones(aggr.m1, aggr.m2, dtype=torch.complex128)
    magnitude = torch.ones(aggr.m1, aggr.m2, dtype=torch.float64)
    for slot in slots_of_node:
        if aggr.affine_weight is None:
            mapped = constant_map(slot, aggr.m1, aggr.m2)
        else:
            mapped = torch.einsum("d,dac->ac", slot, aggr.affine_weight.detach()) + aggr.affine_bias.detach()
        factor = dft(mapped)
        product *= factor
        magnitude *= factor.abs() ** (1 / len(slots_of_node))
    phase = torch.where(product.abs() > 0, product / product.abs(), 0)
    return inverse_dft(phase * magnitude).real


def compressed(aggr, signal):
    weight = (
        aggr.weight.detach() if aggr.expand is None else torch.einsum("or,rac->oac", aggr.expand, aggr.weight).detach()
    )
    return torch.einsum("oac,ac->o", weight, signal) + aggr.bias.detach()


def attention_loop(aggr, messages, scores):
    """Slots of one node and head: a softmax over its messages for each slot."""
    slots = []
    for k in range(aggr.kappa):
        weight = torch.softmax(torch.stack([score[k] for score in scores]), 0)
        slots.append(sum(w * m for w, m in zip(weight, messages, strict=True)))
    return slots


DEGREES = [0, 1, 2, 3, 5]
INDEX = torch.tensor([4, 2, 3, 1, 4, 3, 2, 4, 4, 3, 4])  # unsorted; in-degrees 0, 1, 2, 3, 5


@pytest.mark.parametrize("learn_affine", [False, True])
@pytest.mark.parametrize(("compression", "compression_of"), [(1.0, "parameters"), (0.3, "parameters"), (0.05, "rank")])
@pytest.mark.parametrize(("d", "kappa"), [(1, 1), (3, 1), (2, 2), (4, 3), (5, 2)])
def test_random_selection_equals_the_definition(d, kappa, compression, compression_of, learn_affine):
    torch.manual_seed(0)
    aggr = SSMAAggregation(
        d, kappa, "random", compression, learn_affine=learn_affine, compression_of=compression_of
    ).double()
    if learn_affine:
        aggr.affine_weight.data += 0.1 * torch.randn_like(aggr.affine_weight)
    messages = torch.randn(INDEX.numel(), d, dtype=torch.float64)
    out = aggr.eval()(messages, INDEX, dim_size=5)
    for node, degree in enumerate(DEGREES):
        mine = messages[node == INDEX]
        if degree <= kappa:
            torch.testing.assert_close(
                out[node], compressed(aggr, definition(aggr, list(mine))), rtol=1e-10, atol=1e-10
            )
        else:
            subsets = torch.combinations(torch.arange(degree), kappa)
            candidates = [compressed(aggr, definition(aggr, list(mine[subset]))) for subset in subsets]
            assert min((out[node] - candidate).abs().max() for candidate in candidates) < 1e-10


@pytest.mark.parametrize("learn_affine", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_attention_slots_equal_the_definition(heads, learn_affine):
    torch.manual_seed(0)
    d, kappa = 3, 2
    aggr = SSMAAggregation(d, kappa, heads=heads, learn_affine=learn_affine, temperature=0.5).double()
    messages = torch.randn(INDEX.numel(), heads, d, dtype=torch.float64)
    out = aggr(messages, INDEX, dim_size=5, dim=0)
    raw = messages.flatten(1) @ aggr.source_score.weight.t() + aggr.source_score.bias
    scores = (torch.where(raw > 0, raw, 0.01 * raw) / 0.5).view(-1, heads, kappa).detach()
    for node in range(5):
        for head in range(heads):
            mine = node == INDEX
            slots = attention_loop(aggr, list(messages[mine, head]), list(scores[mine, head])) if mine.any() else []
            torch.testing.assert_close(
                out[node, head], compressed(aggr, definition(aggr, slots)), rtol=1e-10, atol=1e-10
            )


def test_attention_in_a_layer_scores_source_and_target_features():
    torch.manual_seed(0)
    x = torch.randn(5, 4, dtype=torch.float64)
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 1, 1, 0, 2]])
    aggr = SSMAAggregation(4, 2).double()
    conv = use_aggregation(SAGEConv(4, 4, root_weight=False, bias=False), aggr).double()
    conv.lin_l.weight.data = torch.eye(4, dtype=torch.float64)
    out = conv(x, edge_index)
    for node in range(5):
        sources = [int(j) for j, i in edge_index.t() if i == node]
        scores = []
        for j in sources:
            raw = aggr.source_score(x[j]) + aggr.target_score(x[node])
            scores.append(torch.where(raw > 0, raw, 0.01 * raw).detach())
        slots = attention_loop(aggr, [x[j] for j in sources], scores) if sources else []
        torch.testing.assert_close(out[node], compressed(aggr, definition(aggr, slots)), rtol=1e-10, atol=1e-10)


def test_enough_slots_and_no_normalisation_give_polynomial_coefficients():
    """One neighbour: the geometric mean is the magnitude itself, so the signal is the mapped neighbour."""
    x = torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64)
    aggr = SSMAAggregation(3, 2, "random", 1.0).double().eval()
    aggr.weight.data.zero_()
    aggr.bias.data.zero_()
    aggr.weight.data[0, 0, 1], aggr.weight.data[1, 1, 0], aggr.weight.data[2, 0, 2] = 1, 1, 1
    out = aggr(x.view(1, 3), torch.tensor([0]))
    torch.testing.assert_close(out[0], torch.tensor([2.0, 1.0, -3.0], dtype=torch.float64))


@pytest.mark.parametrize(
    ("rate", "measure", "rank"), [(0.5, "parameters", 28), (0.5, "rank", 191), (1.0, "parameters", None)]
)
def test_rank_of_the_compressor(rate, measure, rank):
    """The numbers for d=64, kappa=2 are worked out in the authors' settings: 28 by their code, 191 by the text."""
    assert SSMAAggregation(64, 2, compression=rate, compression_of=measure).rank == rank


@pytest.mark.parametrize("rate", [0.125, 0.25, 0.5, 0.75])
@pytest.mark.parametrize(("d", "kappa"), [(1, 1), (9, 1), (8, 2), (3, 3), (16, 4), (127, 2)])
def test_the_compressor_has_the_share_that_was_asked_for_and_not_a_rank_more(d, kappa, rate):
    m = (kappa + 1) * (kappa * (d - 1) + 1)
    for measure, size, of in (("parameters", m + d, m * d), ("rank", 1, m)):
        aggr = SSMAAggregation(d, kappa, "random", rate, compression_of=measure)
        assert (aggr.rank - 1) * size < rate * of <= aggr.rank * size
        assert sum(p.numel() for p in aggr.parameters()) == aggr.rank * (m + d) + d


@pytest.mark.parametrize("selection", ["attention", "random"])
def test_order_of_messages_does_not_matter(selection):
    torch.manual_seed(0)
    aggr = SSMAAggregation(6, 5, selection).double().eval()
    messages = torch.randn(INDEX.numel(), 6, dtype=torch.float64)
    order = torch.randperm(INDEX.numel())
    torch.testing.assert_close(aggr(messages, INDEX), aggr(messages[order], INDEX[order]), rtol=1e-12, atol=1e-12)


def test_a_node_does_not_see_the_rest_of_the_batch():
    torch.manual_seed(0)
    for selection in ("attention", "random"):
        aggr = SSMAAggregation(4, 2, selection).double().eval()
        messages = torch.randn(INDEX.numel(), 4, dtype=torch.float64)
        together = aggr(messages, INDEX, dim_size=5)
        for node in range(5):
            alone = aggr(messages[node == INDEX], torch.zeros(DEGREES[node], dtype=torch.long), dim_size=1)
            torch.testing.assert_close(together[node], alone[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("selection", ["attention", "random"])
@pytest.mark.parametrize("learn_affine", [False, True])
def test_gradients(selection, learn_affine):
    torch.manual_seed(1)
    aggr = SSMAAggregation(3, 2, selection, learn_affine=learn_affine).double().eval()
    messages = torch.randn(INDEX.numel(), 3, dtype=torch.float64, requires_grad=True)
    parameters = tuple(aggr.parameters())
    assert torch.autograd.gradcheck(lambda m, *_: aggr(m, INDEX, dim_size=5), (messages, *parameters))


@pytest.mark.parametrize("selection", ["attention", "random"])
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1.0, 1e15])
@pytest.mark.parametrize("kappa", [1, 4, 8, 20])
def test_finite_forward_and_backward_at_extremes(selection, scale, kappa):
    torch.manual_seed(0)
    one_hot = torch.eye(6)[torch.randint(6, (40,))]  # sums to one: a factor is exactly zero at frequency (0, 0)
    for rows in (one_hot, torch.ones(40, 6), torch.randn(40, 6)):
        aggr = SSMAAggregation(6, kappa, selection)
        messages = (rows * scale).requires_grad_()
        with torch.autograd.detect_anomaly(check_nan=True):
            out = aggr(messages, torch.arange(40) % 3)
            out.sum().backward()
        assert out.isfinite().all()
        assert messages.grad.isfinite().all()
        assert all(p.grad.isfinite().all() for p in aggr.parameters() if p.grad is not None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtype_of_the_result_is_that_of_the_messages(dtype):
    aggr = SSMAAggregation(4, 2).to(torch.float64 if dtype == torch.float64 else torch.float32)
    messages = torch.randn(INDEX.numel(), 4).to(dtype)
    out = aggr(messages, INDEX)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), aggr.float()(messages.float(), INDEX), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("selection", ["attention", "random"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_cast_module_and_inputs_of_another_dtype(selection, dtype):
    messages = torch.randn(INDEX.numel(), 4)
    module = SSMAAggregation(4, 2, selection).eval()
    expected = module(messages, INDEX)
    out = module(messages.to(dtype), INDEX)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), expected, rtol=5e-2, atol=5e-2)
    cast = module.to(dtype)(messages.to(dtype), INDEX)
    assert cast.dtype == dtype
    torch.testing.assert_close(cast.float(), expected, rtol=5e-2, atol=5e-2)


def test_sparse_adjacency_and_features_of_two_widths():
    torch.manual_seed(0)
    x, edge_index = torch.randn(6, 8), torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]])
    conv = use_aggregation(GCNConv(8, 8), SSMAAggregation(8))
    adjacency = torch.sparse_coo_tensor(edge_index.flip(0), torch.ones(7), (6, 6)).to_sparse_csr()
    torch.testing.assert_close(conv(x, adjacency), conv(x, edge_index))
    sage = use_aggregation(SAGEConv((8, 16), 8), SSMAAggregation(8, attention_channels=(8, 16)))
    assert sage((torch.randn(6, 8), torch.randn(6, 16)), edge_index).shape == (6, 8)
    narrow = use_aggregation(SAGEConv((8, 16), 8), SSMAAggregation(8))
    with pytest.raises(ValueError, match="got target features of width 16"):
        narrow((torch.randn(6, 8), torch.randn(6, 16)), edge_index)


def test_every_way_to_call():
    torch.manual_seed(0)
    aggr = SSMAAggregation(4, 2).eval()
    index, ptr = torch.tensor([0, 0, 2, 2, 2]), torch.tensor([0, 2, 2, 5, 5])
    x = torch.randn(5, 4)
    expected = aggr(x, index, dim_size=4)
    for out in (aggr(x, ptr=ptr), aggr(x, index, ptr, 4, -2), aggr(x, index, dim_size=4, dim=0)):
        torch.testing.assert_close(out, expected)
    torch.testing.assert_close(MultiAggregation([aggr, "sum"])(x, index, dim_size=4)[:, :4], expected)
    with pytest.raises(ValueError, match=r"got messages of shape \(5, 3\)"):
        aggr(torch.randn(5, 3), index)
    with pytest.raises(ValueError, match="dim=-2"):
        aggr(torch.randn(5, 2, 4), index)


def test_random_selection_draws_without_replacement_and_without_bias():
    torch.manual_seed(0)
    aggr = SSMAAggregation(1, 2, "random", 1.0).train()
    counts = torch.zeros(5)
    for _ in range(4000):
        slots, filled = random_slots(torch.arange(1.0, 6).view(5, 1, 1), torch.zeros(5, dtype=torch.long), 1, 2, True)
        chosen = slots.flatten().long()
        assert filled.item() == 2
        assert chosen[0] != chosen[1]
        counts[chosen - 1] += 1
    assert ((counts / 4000 - 0.4).abs() < 0.03).all()
    messages, index = torch.randn(20, 1), torch.zeros(20, dtype=torch.long)
    assert not torch.equal(aggr(messages, index), aggr(messages, index))
    aggr.eval()
    assert torch.equal(aggr(messages, index), aggr(messages, index))


def test_a_draw_takes_all_sets_of_messages_alike_whatever_other_nodes_draw():
    torch.manual_seed(0)
    nodes, degree, kappa = 20_000, 5, 2
    chosen, filled = random_draw(torch.arange(degree * nodes) % nodes, nodes, kappa, True)
    assert (filled == kappa).all() and (chosen % nodes == torch.arange(nodes)).all()
    sets = (2 ** (chosen // nodes)).sum(0)
    for drawn, kinds in ((sets, 10), (sets[:-1] * 32 + sets[1:], 100)):
        counts = drawn.unique(return_counts=True)[1]
        assert len(counts) == kinds
        assert ((counts - nodes / kinds).abs() < 5 * (nodes / kinds) ** 0.5).all()


def mlp(channels):
    return torch.nn.Linear(channels, channels)


LAYERS = {
    "gcn": (lambda: GCNConv(8, 8), 8, 1),
    "gin": (lambda: GINConv(mlp(8)), 8, 1),
    "sage": (lambda: SAGEConv(8, 8), 8, 1),
    "gat": (lambda: GATConv(8, 4, heads=2), 4, 2),
    "res_gated": (lambda: ResGatedGraphConv(8, 8), 8, 1),
    "transformer": (lambda: TransformerConv(8, 4, heads=2), 4, 2),
}


@pytest.mark.parametrize("selection", ["attention", "random"])
@pytest.mark.parametrize("name", LAYERS)
def test_drop_in(name, selection):
    torch.manual_seed(0)
    make, width, heads = LAYERS[name]
    x, edge_index = torch.randn(10, 8), torch.randint(10, (2, 40))
    conv = use_aggregation(make(), SSMAAggregation(width, 3, selection, heads=heads)).eval()
    out = conv(x, edge_index)
    assert out.shape == (10, 8)
    by_target = edge_index[:, edge_index[1].argsort(stable=True)]
    torch.testing.assert_close(conv(x, by_target), out, rtol=1e-5, atol=1e-6)
    out.sum().backward()
    trained = [n for n, p in conv.aggr_module.named_parameters() if p.grad is None]
    assert trained == []
    if selection == "attention":
        assert conv.aggr_module.target_score.weight.grad.abs().sum() > 0


def test_drop_in_gps_and_pna():
    torch.manual_seed(0)
    x, edge_index = torch.randn(10, 8), torch.randint(10, (2, 40))
    gps = use_aggregation(GPSConv(8, GCNConv(8, 8), heads=2), SSMAAggregation(8))
    assert gps(x, edge_index).shape == (10, 8)
    aggr = SSMAAggregation(8)
    pna = PNAConv(8, 8, aggregators=["mean", aggr], scalers=["identity"], deg=torch.tensor([0, 2, 3]))
    assert use_aggregation(pna, aggr)(x, edge_index).shape == (10, 8)
    assert aggr.node_features is None
    with pytest.raises(ValueError, match="aggregators="):
        use_aggregation(PNAConv(8, 8, ["mean"], ["identity"], torch.tensor([0, 2])), aggr)


def test_flow_and_bipartite():
    torch.manual_seed(0)
    x, edge_index = torch.randn(10, 8), torch.randint(10, (2, 40))
    for make in (partial(kind, 8, 8) for kind in (GCNConv, SAGEConv, GATv2Conv, TransformerConv)):
        conv = use_aggregation(make(), SSMAAggregation(8))
        reverse = use_aggregation(make(flow="target_to_source"), SSMAAggregation(8))
        reverse.load_state_dict(conv.state_dict())
        torch.testing.assert_close(conv(x, edge_index), reverse(x, edge_index.flip(0)))
    edges = torch.tensor([[0, 1, 1, 0], [0, 1, 3, 3]])
    for conv, width, heads in ((SAGEConv(8, 8), 8, 1), (GATConv((8, 8), 4, heads=2, add_self_loops=False), 4, 2)):
        use_aggregation(conv, SSMAAggregation(width, heads=heads))
        assert conv((torch.randn(2, 8), torch.randn(4, 8)), edges).shape == (4, 8)


def test_copy_state_dict_and_reset(tmp_path):
    torch.manual_seed(0)
    x, edge_index = torch.randn(10, 8), torch.randint(10, (2, 40))
    conv = use_aggregation(GCNConv(8, 8), SSMAAggregation(8, learn_affine=True))
    out = conv(x, edge_index)
    torch.testing.assert_close(copy.deepcopy(conv)(x, edge_index), out)
    torch.save(conv, tmp_path / "conv.pt")
    torch.testing.assert_close(torch.load(tmp_path / "conv.pt", weights_only=False)(x, edge_index), out)
    for parameter in conv.parameters():
        torch.nn.init.constant_(parameter, 9)
    conv.reset_parameters()
    assert all((parameter != 9).all() for parameter in conv.parameters())
    assert "kappa=4" in repr(conv.aggr_module)
    with torch.no_grad():
        assert conv(x, edge_index).isfinite().all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"kappa": 0}, "kappa=0"), ({"compression": 0.0}, "compression=0.0"), ({"selection": "atention"}, "atention"),
     ({"temperature": 0.0}, "temperature"), ({"in_channels": 0}, "in_channels=0")],
)  # fmt: skip
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        SSMAAggregation(**({"in_channels": 4} | arguments))


def test_wrong_width_names_what_mends_it():
    conv = use_aggregation(GCNConv(8, 6), SSMAAggregation(8))
    with pytest.raises(ValueError, match="in_channels=8"):
        conv(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]]))
