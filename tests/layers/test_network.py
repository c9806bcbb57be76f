from types import SimpleNamespace

import pytest
import torch

from ssma.errors import StudyError
from ssma.layers.network import FeatureEncoder, Network, describe
from ssma.layers.width import count_parameters, hidden_channels, largest_width

MODEL = {
    "num_layers": 2, "budget": 5000, "hidden_channels": None, "heads": 4, "readout": "max", "dropout": 0.0,
    "residual": True, "batch_norm": True, "self_loops": False,
}  # fmt: skip
CARD = {"x": {"kind": "continuous", "width": 7}, "edge_attr": None, "level": "graph", "num_outputs": 3}
SSMA = {"kappa": 2, "selection": "attention", "compression": 0.25}
torch.manual_seed(0)
GRAPH = SimpleNamespace(
    x=torch.randn(5, 7), edge_index=torch.tensor([[0, 1, 0, 2, 1, 2, 3, 4], [1, 0, 2, 0, 2, 1, 4, 3]]), edge_attr=None,
    batch=torch.tensor([0, 0, 0, 1, 1]), num_graphs=2, target=None,
)  # fmt: skip


def settings(options, **model):
    return {"aggregator": options, "model": MODEL | model}


@pytest.mark.parametrize("layer", ["gcn", "gin", "gat"])
@pytest.mark.parametrize(("aggregator", "options"), [("sum", {}), ("mean", {}), ("max", {}), ("ssma", SSMA)])
def test_width_is_the_largest_within_the_budget(layer, aggregator, options):
    arm = settings(options)
    width = hidden_channels(CARD, layer, aggregator, arm)
    step = 4 if layer == "gat" else 1
    sizes = [count_parameters(Network(CARD, layer, aggregator, arm, w)) for w in (width, width + step)]
    assert width % step == 0
    assert sizes[0] <= 5000 < sizes[1]
    network = Network(CARD, layer, aggregator, arm, width)
    assert network(GRAPH).shape == (2, 3)


def test_width_by_hand():
    assert largest_width(lambda w: w * w, 99) == 9
    assert largest_width(lambda w: w * w, 100) == 10
    assert largest_width(lambda w: w * w, 100, step=4) == 8
    with pytest.raises(StudyError, match="budget: 3 parameters are too few"):
        largest_width(lambda w: w * w, 3, step=2)


def test_given_width_is_taken():
    assert hidden_channels(CARD, "gcn", "sum", settings({}, budget=None, hidden_channels=13)) == 13


@pytest.mark.parametrize("layer", ["gcn", "gin", "gat"])
def test_arms_differ_in_the_aggregation_only(layer):
    networks = [Network(CARD, layer, name, settings(options), 16) for name, options in (("sum", {}), ("ssma", SSMA))]
    names = [{n for n, _ in network.named_parameters() if "aggr_module" not in n} for network in networks]
    assert names[0] == names[1]
    lines = [[line for line in describe(network).splitlines() if "aggr_module" not in line] for network in networks]
    assert lines[0] == lines[1]
    assert "blocks.1.conv.aggr_module: SSMAAggregation(" in describe(networks[1])


def test_every_model_setting_changes_the_network():
    base = Network(CARD, "gat", "sum", settings({}), 8)
    for key, value in {"num_layers": 3, "batch_norm": False}.items():
        assert count_parameters(Network(CARD, "gat", "sum", settings({}, **{key: value}), 8)) != count_parameters(base)
    torch.manual_seed(0)
    base.eval()
    out = base(GRAPH)
    for key, value in {"readout": "sum", "residual": False, "self_loops": True, "heads": 2}.items():
        other = Network(CARD, "gat", "sum", settings({}, **{key: value}), 8).eval()
        state = {k: v.reshape(other.state_dict()[k].shape) for k, v in base.state_dict().items()}
        other.load_state_dict(state)
        assert not torch.allclose(other(GRAPH), out), key
    assert {block.dropout.p for block in Network(CARD, "gcn", "sum", settings({}, dropout=0.3), 8).blocks} == {0.3}


def test_categorical_features_are_embedded_not_cast():
    encoder = FeatureEncoder({"kind": "categorical", "cardinalities": [3, 2]}, 4)
    codes = torch.tensor([[2, 1], [0, 0]])
    expected = encoder.embeddings[0].weight[[2, 0]] + encoder.embeddings[1].weight[[1, 0]]
    torch.testing.assert_close(encoder(codes), expected)


def test_edge_features_reach_gat_only():
    card = CARD | {"edge_attr": {"kind": "categorical", "cardinalities": [4]}}
    graph = SimpleNamespace(**vars(GRAPH) | {"edge_attr": torch.arange(8).view(8, 1) % 4})
    other = SimpleNamespace(**vars(graph) | {"edge_attr": torch.arange(8, 0, -1).view(8, 1) % 4})
    for layer, reached in (("gat", True), ("gcn", False)):
        torch.manual_seed(0)
        network = Network(card, layer, "sum", settings({}), 8).eval()
        assert torch.equal(network(graph), network(other)) != reached


def test_node_level_outputs_are_those_of_the_target_nodes():
    network = Network(CARD | {"level": "node"}, "gcn", "mean", settings({}), 8).eval()
    everything = network(GRAPH)
    some = network(SimpleNamespace(**vars(GRAPH) | {"target": torch.tensor([4, 1])}))
    torch.testing.assert_close(some, everything[[4, 1]])
