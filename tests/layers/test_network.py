import pytest
import torch
from made_networks import CARD, DEGREES, EDGE_CARD, EVERY_LAYER, MODEL, SSMA, graph, network, settings, with_
from torch.nn import LazyLinear, Parameter

from ssma.aggr import SumAggregation
from ssma.errors import StudyError
from ssma.layers.blocks import Block
from ssma.layers.network import FeatureEncoder, Network, describe
from ssma.layers.width import count_parameters, hidden_channels, largest_width
from ssma.study.config import parse_study
from ssma.study.plan import make_plan
from ssma.study.settings import ONLY_FOR_LAYERS, WIDTH_MULTIPLE_OF, ModelSettings


@pytest.mark.parametrize("encoding", ["none", "random_walk"])
@pytest.mark.parametrize("layer", EVERY_LAYER)
@pytest.mark.parametrize(("aggregator", "options"), [("sum", {}), ("max", {}), ("ssma", SSMA)])
def test_width_is_the_largest_within_the_budget(layer, aggregator, options, encoding):
    budget = 30_000
    arm = settings(options, budget=budget, positional_encoding=encoding, walk_steps=5)
    width = hidden_channels(EDGE_CARD, layer, aggregator, arm)
    step = arm["model"][WIDTH_MULTIPLE_OF[layer]] if layer in WIDTH_MULTIPLE_OF else 1
    networks = [Network(EDGE_CARD, layer, aggregator, arm, w, degrees=DEGREES) for w in (width, width + step)]
    sizes = [count_parameters(item) for item in networks]
    assert width % step == 0
    assert sizes[0] <= budget < sizes[1]
    assert networks[0](graph(steps=5)).shape == (3, 3)


def test_width_by_hand():
    assert largest_width(lambda w: w * w, 99) == 9
    assert largest_width(lambda w: w * w, 100) == 10
    assert largest_width(lambda w: w * w, 100, step=4) == 8
    assert largest_width(lambda w: w * w, 10_000, step=3, above=20) == 99
    assert largest_width(lambda w: w * w, 21 * 21, above=20) == 21
    with pytest.raises(StudyError, match="budget: 3 parameters are too few"):
        largest_width(lambda w: w * w, 3, step=2)
    with pytest.raises(
        StudyError, match=r"budget: 400 parameters are too few, the smallest network \(width 24\) has 576"
    ):
        largest_width(lambda w: w * w, 400, step=4, above=20)


def test_what_makes_no_smaller_network_is_not_named_where_a_budget_is_too_small():
    data = {"d": {"source": "synthetic", "task": "product_regression", "num_graphs": 30}}
    comparison = {"a": {"axes": {"aggregator": ["sum", "ssma"]}}}
    given = {"study": "s", "datasets": data, "layers": ["gcn", "gat"], "ablations": comparison, "model": {"budget": 9}}
    lower = {
        "d / gcn / sum": "num_layers", "d / gcn / ssma": "num_layers or kappa or compression",
        "d / gat / sum": "num_layers or heads", "d / gat / ssma": "num_layers or kappa or compression or heads",
    }  # fmt: skip
    arms = make_plan(parse_study(given))["arms"]
    assert {arm["label"] for arm in arms} == set(lower)
    for arm in arms:
        with pytest.raises(StudyError, match=f"; raise the budget, or lower {lower[arm['label']]}$"):
            hidden_channels(CARD, arm["layer"], arm["aggregator"], arm["settings"])


def test_given_width_is_taken():
    assert hidden_channels(CARD, "gcn", "sum", settings({}, budget=None, hidden_channels=13)) == 13


@pytest.mark.parametrize("layer", WIDTH_MULTIPLE_OF)
def test_a_width_that_does_not_divide_is_refused_not_floored(layer):
    name = WIDTH_MULTIPLE_OF[layer]
    with pytest.raises(ValueError, match=f"{layer} got width 10 but expected a multiple of its 4 {name}"):
        network(layer, width=10, **{name: 4})


@pytest.mark.parametrize("layer", EVERY_LAYER)
def test_arms_differ_in_the_aggregation_only(layer):
    mix = {"pna_mix": "replace"}  # an added aggregation widens the maps behind it
    networks = [network(layer, name, EDGE_CARD, 16, **mix) for name in ("sum", "ssma")]
    names = [{n for n, _ in item.named_parameters() if "aggr_module" not in n} for item in networks]
    assert names[0] == names[1]
    lines = [[line for line in describe(item).splitlines() if "aggr_module" not in line] for item in networks]
    assert lines[0] == lines[1]
    inner = {"gps": "conv.conv.aggr_module", "pna": "conv.aggr_module.aggrs.0"}.get(layer, "conv.aggr_module")
    assert f"blocks.1.{inner}: SSMAAggregation(" in describe(networks[1])


CHANGES = {
    "num_layers": 3, "heads": 2, "towers": 4, "pna_mix": "replace", "readout": "sum",
    "dropout": 0.3, "residual": False, "batch_norm": False, "self_loops": True, "learn_eps": False,
    "edge_features": False, "attention_dropout": 0.1, "outer_block": True, "positional_encoding": "random_walk", "walk_steps": 3,
}  # fmt: skip


def signs_of_life(layer, **model):
    """What a change of a setting may show in: parameters, lines of the description, an output in training mode."""
    item = network(layer, "mean", EDGE_CARD, **model)
    count, text = count_parameters(item), describe(item)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in item.blocks.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    torch.manual_seed(1)
    return count, text, item.train()(graph(steps=model.get("walk_steps", 5))).tolist()


@pytest.mark.parametrize("layer", EVERY_LAYER)
@pytest.mark.parametrize("key", CHANGES)
def test_every_model_setting_changes_the_layers_that_it_is_for_and_no_other(layer, key):
    assert CHANGES.keys() | {"budget", "hidden_channels"} == ModelSettings.model_fields.keys()
    base = {"positional_encoding": "random_walk", "walk_steps": 5} if key == "walk_steps" else {"walk_steps": 5}
    if key == "residual":
        base["outer_block"] = True  # without it gps has its own
    if key == "attention_dropout":
        base["attention_dropout"] = 0.9
    changed = signs_of_life(layer, **base) != signs_of_life(layer, **base | {key: CHANGES[key]})
    assert changed == (layer in ONLY_FOR_LAYERS.get(key, EVERY_LAYER))


class Doubled(torch.nn.Module):
    """In place of a layer."""

    def forward(self, x, edge_index):
        return 2 * x


@pytest.mark.parametrize("batch_norm", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_a_block_by_hand(residual, batch_norm):
    """Layer, batch norm, ReLU, residual, dropout, as in the paper's code."""
    torch.manual_seed(0)
    block = Block(Doubled(), 8, MODEL | {"residual": residual, "batch_norm": batch_norm, "dropout": 0.5})
    x = torch.randn(30, 8, generator=torch.Generator().manual_seed(0))
    out = block(x, None, None, None)
    normed = (2 * x - 2 * x.mean(0)) / (4 * x.var(0, correction=0) + 1e-5).sqrt() if batch_norm else 2 * x
    expected = normed.clamp(min=0) + (x if residual else 0)
    kept = out != 0
    torch.testing.assert_close(out[kept], 2 * expected[kept])
    assert 0.3 < kept[expected != 0].float().mean() < 0.7


@pytest.mark.parametrize(
    ("readout", "pool"), [("sum", lambda x: x.sum(0)), ("mean", lambda x: x.mean(0)), ("max", lambda x: x.amax(0))]
)
def test_the_readout_and_the_head_by_hand(readout, pool):
    item, batch, seen = network("gcn", readout=readout), graph(), []
    for linear in (item.head[0], item.head[2]):
        torch.nn.init.zeros_(linear.bias)  # some units are negative
    item.blocks[-1].register_forward_hook(lambda *call: seen.append(call[-1]))
    out = item(batch)
    first, second, last = (linear for linear in item.head if isinstance(linear, torch.nn.Linear))
    assert [linear.out_features for linear in (first, second, last)] == [4, 2, 3]
    for number in range(3):
        state = pool(seen[0][batch.batch == number])
        state = (second.weight @ (first.weight @ state + first.bias).clamp(min=0) + second.bias).clamp(min=0)
        torch.testing.assert_close(out[number], last.weight @ state + last.bias)


def test_a_largest_state_of_zero_gets_its_whole_gradient():
    states = torch.tensor([[0.0, -1.0], [-2.0, -1.0], [-3.0, 0.0]], requires_grad=True)
    pooled = network("gcn", readout="max").readout(states, torch.tensor([0, 0, 1]), 2)
    pooled.sum().backward()
    assert pooled.tolist() == [[0, -1], [-3, 0]]
    assert states.grad.tolist() == [[1, 0.5], [0, 0.5], [1, 1]]


def test_categorical_features_are_embedded_not_cast():
    encoder = FeatureEncoder({"kind": "categorical", "cardinalities": [3, 2]}, 4)
    codes = torch.tensor([[2, 1], [0, 0]])
    expected = encoder.embeddings[0].weight[[2, 0]] + encoder.embeddings[1].weight[[1, 0]]
    torch.testing.assert_close(encoder(codes), expected)


def test_node_level_outputs_are_those_of_the_target_nodes():
    item = network("gcn", "mean", CARD | {"level": "node"})
    everything = item(graph())
    some = item(with_(graph(), target=torch.tensor([4, 1])))
    torch.testing.assert_close(some, everything[[4, 1]])


@pytest.mark.parametrize("layer", EVERY_LAYER)
def test_the_positional_encoding_stands_beside_narrower_features(layer):
    item = network(layer, positional_encoding="random_walk", walk_steps=3)
    batch, seen = graph(steps=3), []
    item.blocks[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    item.walk_norm.running_mean.fill_(0.5)
    item.walk_norm.running_var.fill_(4)
    item(batch)
    torch.testing.assert_close(seen[0][:, :5], batch.x @ item.encoder.linear.weight.t() + item.encoder.linear.bias)
    torch.testing.assert_close(seen[0][:, 5:], (batch.pe - 0.5) / (4 + 1e-5) ** 0.5)
    plain = network(layer)
    assert item.encoder.linear.out_features == plain.encoder.linear.out_features - 3
    assert count_parameters(item) == count_parameters(plain) - 3 * (7 + 1) + 2 * 3


def test_a_width_without_room_for_the_encoding_is_refused():
    with pytest.raises(ValueError, match="the network got width 8 but expected more than its 8 walk_steps"):
        network("gcn", positional_encoding="random_walk", walk_steps=8)
    network("gcn", positional_encoding="none", walk_steps=8)


def test_the_encoder_of_edges_exists_only_where_it_is_used():
    assert network("gat", card=EDGE_CARD).edge_encoder is not None
    for absent in (
        network("gat"), network("gcn", card=EDGE_CARD), network("gin", card=EDGE_CARD),
        network("gat", card=EDGE_CARD, edge_features=False),
    ):  # fmt: skip
        assert absent.edge_encoder is None
    assert MODEL["edge_features"]


def test_a_number_that_is_not_trained_does_not_count():
    learned, fixed = (
        count_parameters(Network(CARD, "gcn", "softmax", settings({"learn": learn}), 8)) for learn in (True, False)
    )
    assert learned == fixed + 2  # one in each layer


class Curious(SumAggregation):
    """A user's class that reads the numbers that it starts with."""

    def __init__(self, in_channels, heads):
        super().__init__()
        self.weight = Parameter(torch.ones(in_channels))
        if self.weight.sum().item() != in_channels:
            raise ValueError("expected ones")


class Lazy(SumAggregation):
    def __init__(self, in_channels, heads):
        super().__init__()
        self.linear = LazyLinear(in_channels)


def test_a_class_of_the_user_may_read_its_numbers_while_the_width_is_searched():
    arm = settings(budget=3000)
    width, with_one_more = (
        hidden_channels(CARD, "gcn", name, arm, path)
        for name, path in (("sum", None), ("mine", f"{Curious.__module__}.Curious"))
    )
    sizes = [count_parameters(Network(CARD, "gcn", "sum", arm, w)) + 2 * w for w in (with_one_more, with_one_more + 1)]
    assert sizes[0] <= 3000 < sizes[1]
    assert with_one_more < width


def test_a_parameter_without_a_shape_cannot_be_counted():
    text = "parameter blocks.0.conv.aggr_module.linear.weight gets its shape in the first call only"
    with pytest.raises(StudyError, match=text):
        hidden_channels(CARD, "gcn", "mine", settings(budget=3000), f"{Lazy.__module__}.Lazy")
