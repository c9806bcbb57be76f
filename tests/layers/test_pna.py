"""PNA: the mix, its scalers and towers, against plain loops and PyG."""

import math

import pytest
import torch
from made_networks import SSMA, graph, network, with_
from torch_geometric.nn import PNAConv, SumAggregation

from ssma.aggr import MeanAggregation, SSMAAggregation, StdAggregation
from ssma.layers.pna import DegreeScaledMix, PNATowersConv, plain_mix
from ssma.layers.width import count_parameters

WIDTH, TOWERS = 8, 2
DEGREES = torch.tensor([0, 3, 0, 1])
SCALERS = ["identity", "amplification", "attenuation"]


def columns(values):
    mean = sum(values) / len(values)
    return [mean, max(values), min(values), math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))]


def test_the_mean_degree_is_that_of_nodes_not_of_counts():
    mix = DegreeScaledMix(plain_mix(), DEGREES)
    for _ in range(2):
        assert float(mix.delta) == pytest.approx((3 * math.log(2) + math.log(4)) / 4)
        mix.delta.fill_(9)  # as memory that a module without data is moved to may hold
        mix.reset_parameters()


def test_the_mix_value_by_value():
    index = torch.tensor([0, 0, 0, 1, 3, 3] + [4] * 50)  # node 2 has none; the degrees 2 and 50 are unseen
    x = torch.randn(56, TOWERS, 3, generator=torch.Generator().manual_seed(0))
    mix = DegreeScaledMix([*plain_mix(), SumAggregation()], DEGREES)
    out = mix(x, index, dim_size=5, dim=0)
    delta = (3 * math.log(2) + math.log(4)) / 4
    expected = torch.zeros(5, TOWERS, mix.factor * 3)
    for node in (0, 1, 3, 4):
        for tower in range(TOWERS):
            for channel in range(3):
                values = x[index == node, tower, channel].tolist()
                row = [*columns(values), sum(values)]
                log = math.log(len(values) + 1)
                for number, value in enumerate(
                    [*row, *(v * log / delta for v in row), *(v * delta / log for v in row)]
                ):
                    expected[node, tower, number * 3 + channel] = value
    assert mix.factor == 15
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)


def test_a_constant_of_an_empty_neighbourhood_is_scaled_as_in_pyg():
    aggr = SSMAAggregation(3, heads=TOWERS, **SSMA).eval()
    x = torch.randn(2, TOWERS, 3, generator=torch.Generator().manual_seed(0))
    out = DegreeScaledMix([aggr], DEGREES)(x, torch.tensor([0, 0]), dim_size=2, dim=0)[1]
    constant = aggr(x, torch.tensor([0, 0]), dim_size=2, dim=0)[1]
    delta = (3 * math.log(2) + math.log(4)) / 4
    assert constant.abs().max() > 0.01
    torch.testing.assert_close(out, torch.cat([constant, 0 * constant, constant * delta / math.log(2)], dim=-1))


def test_every_way_to_call_the_mix():
    mix, index, x = DegreeScaledMix(plain_mix(), DEGREES), torch.tensor([0, 0, 1, 3, 3, 3]), torch.randn(6, 2, 4)
    expected = mix(x, index, dim_size=4, dim=0)
    borders = torch.tensor([0, 2, 3, 3, 6])
    for call in ({"ptr": borders}, {"ptr": borders, "index": index}, {"index": index.int()}):
        torch.testing.assert_close(mix(x, **call, dim=0), expected)
    torch.testing.assert_close(mix(x, dim=0), mix(x, torch.zeros(6, dtype=torch.int64), dim=0))


@pytest.mark.parametrize("degrees", [None, torch.tensor([5]), torch.tensor([5, 0])])
def test_a_histogram_without_edges_is_refused(degrees):
    with pytest.raises(ValueError, match="got (no degrees|degrees)"):
        DegreeScaledMix(plain_mix(), degrees)


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("aggregators", [["mean", "max", "min"], ["mean", "max", "min", StdAggregation()], ["sum"]])
def test_it_computes_what_the_layer_of_pyg_does(aggregators, edges):
    torch.manual_seed(0)
    theirs = PNAConv(WIDTH, WIDTH, aggregators, SCALERS, DEGREES, WIDTH if edges else None, TOWERS).eval()
    ours = PNATowersConv(WIDTH, 3 * len(aggregators), TOWERS, WIDTH if edges else None).eval()
    ours.aggr_module = DegreeScaledMix(list(theirs.aggr_module.aggr.aggrs), DEGREES)
    state = {"lin.weight": theirs.lin.weight, "lin.bias": theirs.lin.bias, "aggr_module.delta": ours.aggr_module.delta}
    state["pre.weight"] = torch.cat([tower[0].weight for tower in theirs.pre_nns])
    state["pre.bias"] = torch.cat([tower[0].bias for tower in theirs.pre_nns])
    for number, tower in enumerate(theirs.post_nns):
        state |= {f"post.{number}.weight": tower[0].weight, f"post.{number}.bias": tower[0].bias}
    ours.load_state_dict(state)
    batch = graph()
    x = torch.randn(10, WIDTH, generator=torch.Generator().manual_seed(1))
    extra = {}
    if edges:  # theirs maps edge states twice
        theirs.edge_encoder.weight.data, theirs.edge_encoder.bias.data = torch.eye(WIDTH), torch.zeros(WIDTH)
        extra["edge_attr"] = torch.randn(batch.edge_index.size(1), WIDTH, generator=torch.Generator().manual_seed(2))
    out = ours(x, batch.edge_index, **extra)
    torch.testing.assert_close(out, theirs(x, batch.edge_index, **extra), rtol=1e-4, atol=1e-5)


def test_edge_states_that_do_not_fit_are_refused():
    x, edge_index = torch.zeros(2, WIDTH), torch.tensor([[0], [1]])
    with pytest.raises(ValueError, match=f"got no edge_attr but expected edge_channels={WIDTH}"):
        PNATowersConv(WIDTH, 12, TOWERS, WIDTH)(x, edge_index)
    with pytest.raises(ValueError, match=r"got edge_attr of shape \(1, 8\) but expected edge_channels=None"):
        PNATowersConv(WIDTH, 12, TOWERS)(x, edge_index, torch.zeros(1, WIDTH))


def mix_of(aggregator, **model):
    return network("pna", aggregator, **model).blocks[0].conv.aggr_module


def test_the_requested_aggregator_joins_the_mix_or_replaces_it_and_pna_is_the_mix():
    kinds = {
        ("pna", "add"): ["Mean", "Max", "Min", "Std"],
        ("ssma", "add"): ["Mean", "Max", "Min", "Std", "SSMA"],
        ("sum", "add"): ["Mean", "Max", "Min", "Std", "Sum"],
        ("ssma", "replace"): ["SSMA"],
        ("sum", "replace"): ["Sum"],
    }
    for (aggregator, pna_mix), expected in kinds.items():
        found = [type(aggr).__name__ for aggr in mix_of(aggregator, pna_mix=pna_mix).aggrs]
        assert found == [f"{kind}Aggregation" for kind in expected]
    assert isinstance(mix_of("pna").aggrs[3], StdAggregation)


def test_towers_share_the_aggregation_and_nothing_else():
    two, four = (network("pna", "ssma", towers=towers) for towers in (2, 4))
    aggrs = [item.blocks[0].conv.aggr_module.aggrs[4] for item in (two, four)]
    assert [aggr.heads for aggr in aggrs] == [2, 4]
    assert aggrs[0].weight.shape == aggrs[1].weight.shape
    assert [len(item.blocks[0].conv.post) for item in (two, four)] == [2, 4]
    pre = [item.blocks[0].conv.pre.weight for item in (two, four)]
    assert [tuple(weight.shape) for weight in pre] == [(16, 16), (32, 16)]
    assert count_parameters(four) > count_parameters(two)


def test_a_degree_that_training_did_not_have():
    item = network("pna", "ssma")
    hub = torch.stack([torch.arange(1, 51), torch.zeros(50, dtype=torch.int64)])
    x = torch.randn(51, 7, generator=torch.Generator().manual_seed(0))
    star = with_(graph(), x=x, edge_index=hub, batch=torch.zeros(51, dtype=torch.int64), num_graphs=1)
    assert item(star).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_degree_is_counted_in_float32_whatever_the_layer_has(dtype):
    mix = DegreeScaledMix([MeanAggregation()], torch.tensor([0, 1])).to(dtype)
    mix.delta.fill_(0.75)
    out = mix(torch.ones(261, 1, dtype=dtype), torch.zeros(261, dtype=torch.int64))  # 261 is 260 in bfloat16
    ratio = math.log(262) / 0.75
    assert out.tolist() == [torch.tensor([1, ratio, 1 / ratio]).to(dtype).tolist()]
