"""What a layer shows the attention slots, and what a layer cannot do."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from torch.nn.utils.parametrize import register_parametrization
from torch_geometric.nn import (
    ARMAConv,
    EGConv,
    FusedGATConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINEConv,
    HypergraphConv,
    LEConv,
    MessagePassing,
    PNAConv,
    PointNetConv,
    ResGatedGraphConv,
    RGCNConv,
    SAGEConv,
    TransformerConv,
)
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation

from ssma.aggr import SSMAAggregation, use_aggregation
from ssma.aggr.ssma import NodeFeatures

X, EDGES = (
    torch.randn(6, 8, generator=torch.Generator().manual_seed(0)),
    torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]]),
)


def shown(layer, *inputs):
    """What the aggregation of a layer was shown in a call."""
    seen = []
    layer.aggr_module.register_forward_pre_hook(lambda module, _: seen.append(module.node_features))
    layer(*inputs)
    return seen[0]


def test_a_residual_gated_layer_shows_keys_of_targets_and_queries_of_sources():
    torch.manual_seed(0)
    layer = use_aggregation(ResGatedGraphConv(8, 8), SSMAAggregation(8))
    features = shown(layer, X, EDGES)
    torch.testing.assert_close(features.source, layer.lin_query(X))
    torch.testing.assert_close(features.target, layer.lin_key(X))
    torch.testing.assert_close(features.content, layer.lin_value(X))
    assert features.source_index.equal(EDGES[0])
    bipartite = use_aggregation(ResGatedGraphConv((8, 8), 8), SSMAAggregation(8))
    assert bipartite((X, X[:2]), torch.tensor([[0, 5, 4], [0, 1, 1]])).shape == (2, 8)


def test_a_transformer_layer_shows_queries_of_targets_and_keys_of_sources():
    torch.manual_seed(0)
    layer = use_aggregation(TransformerConv(8, 4, heads=2), SSMAAggregation(4, heads=2))
    features = shown(layer, X, EDGES)
    torch.testing.assert_close(features.source.flatten(1), layer.lin_key(X))
    torch.testing.assert_close(features.target.flatten(1), layer.lin_query(X))
    torch.testing.assert_close(features.content.flatten(1), layer.lin_value(X))


class Several(MessagePassing):
    """A layer whose messages take several things of a target and of a source."""

    def forward(self, first, second, third, edge_index):
        return self.propagate(edge_index, a=first, b=second, c=third)

    def message(self, b_i, c_j, a_i, b_j, c_i):
        return b_i * c_j + a_i * b_j + c_i


def test_the_first_of_several_features_is_scored_and_the_last_of_sources_makes_slots():
    features = shown(use_aggregation(Several(), SSMAAggregation(8)), X, 2 * X, 3 * X, EDGES)
    assert features.target.equal(2 * X) and features.source.equal(3 * X) and features.content.equal(2 * X)


def test_names_of_features_do_not_matter():
    torch.manual_seed(0)
    layer = use_aggregation(LEConv(8, 8), SSMAAggregation(8))
    layer(X, EDGES).sum().backward()
    assert layer.aggr_module.target_score.weight.grad.abs().sum() > 0


def test_features_that_a_call_leaves_out_are_not_those_that_are_scored():
    layer = use_aggregation(
        PointNetConv(torch.nn.Linear(3, 8), add_self_loops=False), SSMAAggregation(8, attention_channels=3)
    )
    position = torch.randn(6, 3)
    out = layer(None, position, EDGES)
    aggr, message = layer.aggr_module, layer.local_nn(position[EDGES[0]] - position[EDGES[1]])
    aggr.show(NodeFeatures(position, position, position, EDGES[0]))
    assert torch.equal(out, aggr(message, EDGES[1], dim_size=6))


@pytest.mark.parametrize("copied", [lambda layer: layer, copy.deepcopy])
def test_scores_see_what_a_later_hook_makes_of_edges_and_features(copied):
    torch.manual_seed(0)
    layer = copied(use_aggregation(SAGEConv(8, 8, root_weight=False), SSMAAggregation(8)))
    expected = layer(2 * X, EDGES.flip(0))
    changed = layer.register_propagate_forward_pre_hook(
        lambda _, inputs: (inputs[0].flip(0), inputs[1], {"x": tuple(2 * x for x in inputs[2]["x"])})
    )
    torch.testing.assert_close(layer(X, EDGES), expected)
    changed.remove()
    torch.testing.assert_close(layer(2 * X, EDGES.flip(0)), expected)


@pytest.mark.parametrize("kind", [GATConv, GATv2Conv, GCNConv, SAGEConv])
def test_a_layer_goes_backward_by_a_sparse_adjacency_in_coordinates(kind):
    torch.manual_seed(0)
    layer = use_aggregation(kind(8, 8), SSMAAggregation(8))
    weights = torch.linspace(-1, 1, 48).view(6, 8)
    expected = torch.autograd.grad((layer(X, EDGES) * weights).sum(), list(layer.parameters()), allow_unused=True)
    adjacency = torch.sparse_coo_tensor(EDGES.flip(0), torch.ones(7), (6, 6))
    out = layer(X, adjacency.coalesce())
    found = torch.autograd.grad((out * weights).sum(), list(layer.parameters()), allow_unused=True)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    if kind is SAGEConv:
        with pytest.raises(RuntimeError, match="uncoalesced"):
            layer(X, adjacency)
        assert not adjacency.is_coalesced()


def test_features_that_a_layer_propagates_in_parts():
    layer = use_aggregation(GCNConv(8, 8, decomposed_layers=2), SSMAAggregation(4))
    with pytest.raises(ValueError, match="GCNConv got decomposed_layers=2 but its aggregation sees all features"):
        layer(X, EDGES)
    layer.decomposed_layers = 1
    layer.aggr_module = SSMAAggregation(8)
    assert layer(X, EDGES).shape == (6, 8)
    parts = use_aggregation(GCNConv(8, 8, decomposed_layers=2), SSMAAggregation(4, selection="random"))
    assert parts(X, EDGES).shape == (6, 8)


class Nothing(MessagePassing):
    def forward(self, edge_index, edge_attr):
        return self.propagate(edge_index, edge_attr=edge_attr, size=(6, 6))

    def message(self, edge_attr):
        return edge_attr


def test_a_layer_without_source_features():
    layer = use_aggregation(Nothing(), SSMAAggregation(8))
    with pytest.raises(ValueError, match="propagates edge_attr but no features of source nodes"):
        layer(EDGES, torch.randn(7, 8))
    assert use_aggregation(Nothing(), SSMAAggregation(8, selection="random"))(EDGES, torch.randn(7, 8)).shape == (6, 8)


def test_layers_that_would_ignore_the_aggregation_are_refused():
    with pytest.raises(
        TypeError, match="EGConv, which aggregates in its own way.*use a layer whose messages PyG aggregates"
    ):
        use_aggregation(EGConv(8, 8), SumAggregation())
    fused = FusedGATConv.__new__(FusedGATConv)  # it cannot be made without the library that it calls
    with pytest.raises(TypeError, match="FusedGATConv, which aggregates in its own way"):
        use_aggregation(fused, SumAggregation())
    with pytest.raises(ValueError, match=r"SAGEConv mixes aggregations: build it with aggr=\[\.\.\., aggr\]"):
        use_aggregation(SAGEConv(8, 8, aggr=["mean", "max"]), SSMAAggregation(8))
    pna = PNAConv(8, 8, aggregators=["mean"], scalers=["identity"], deg=torch.tensor([0, 2]))
    with pytest.raises(ValueError, match=r"PNAConv mixes aggregations: build it with aggregators=\[\.\.\., aggr\]"):
        use_aggregation(pna, SSMAAggregation(8))
    with pytest.raises(TypeError, match="Linear but expected a PyG MessagePassing"):
        use_aggregation(torch.nn.Linear(8, 8), SumAggregation())
    with pytest.raises(TypeError, match="type str but expected a PyG Aggregation"):
        use_aggregation(SAGEConv(8, 8), "sum")


def test_a_layer_whose_messages_are_not_in_the_first_dimension():
    layer = use_aggregation(ARMAConv(8, 8, num_stacks=2), SSMAAggregation(8))
    with pytest.raises(ValueError, match=r"shape \(2, 7, 8\) and dim=-2 but expected them in the first dimension"):
        layer(X, EDGES)
    with pytest.raises(ValueError, match=r"called alone, messages \[E, heads, in_channels\] want dim=0"):
        SSMAAggregation(4, heads=2)(torch.ones(3, 2, 4), torch.tensor([0, 1, 1]))


class Lone(MessagePassing):
    """From some nodes to others, with no features of the latter."""

    def forward(self, x, edge_index, targets):
        size = (x.size(0), targets)
        return self.propagate(edge_index, x=x, size=size if self.flow == "source_to_target" else size[::-1])

    def message(self, x_j):
        return x_j


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
@pytest.mark.parametrize("targets", [3, 9])
def test_targets_do_not_borrow_the_features_of_sources(flow, targets):
    torch.manual_seed(0)
    layer = use_aggregation(Lone(flow=flow), SSMAAggregation(8))
    aggr, edges = layer.aggr_module, torch.tensor([[0, 1, 5, 4], [0, targets - 1, 2, 2]])
    out = layer(X, edges if flow == "source_to_target" else edges.flip(0), targets)
    aggr.show(NodeFeatures(X, None, X, edges[0]))
    assert torch.equal(out, aggr(X[edges[0]], edges[1], dim_size=targets))
    assert shown(layer, X, EDGES, 6).target is X  # as many: sources and targets are the same nodes


def test_a_relational_layer_between_two_kinds_of_nodes_scores_its_sources():
    layer = use_aggregation(RGCNConv(8, 8, num_relations=2), SSMAAggregation(8))
    edges, kinds = torch.tensor([[0, 1, 5, 4], [0, 7, 2, 2]]), torch.tensor([0, 1, 0, 1])
    assert shown(layer, (X, torch.randn(8, 8)), edges, kinds).target is None
    assert shown(layer, X, edges.clamp(max=5), kinds).target is X


@pytest.mark.parametrize("explain", [False, True])
def test_threads_that_use_a_layer_at_once_see_their_own_features(explain):
    torch.manual_seed(0)
    layer = use_aggregation(SAGEConv(8, 8), SSMAAggregation(8))
    if explain:
        layer.explain, layer._edge_mask, layer._apply_sigmoid = True, torch.ones(7), False
    inputs = [(X, EDGES), (X.flip(0), EDGES.flip(0))]
    expected = [layer(*graph) for graph in inputs]
    both = Barrier(2, timeout=60)

    def meet(*_):  # both have shown their features
        both.wait()

    layer.register_message_forward_hook(meet)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(layer, *zip(*inputs, strict=True)))
    for ours, alone in zip(found, expected, strict=True):
        assert torch.equal(ours, alone)


@pytest.mark.parametrize("explain", [False, True])
def test_features_do_not_survive_an_exception(explain):
    class Failing(SAGEConv):
        def message(self, x_j):
            raise RuntimeError("no memory")

    layer = use_aggregation(Failing(8, 8), SSMAAggregation(8))
    layer.explain = explain
    with pytest.raises(RuntimeError, match="no memory"):
        layer(X, EDGES)
    assert layer.aggr_module.node_features is None


def test_an_explainer_may_come_and_go():
    torch.manual_seed(0)
    layer = use_aggregation(GCNConv(8, 8), SSMAAggregation(8)).eval()
    expected = layer(X, EDGES)
    layer.explain = True
    layer._edge_mask, layer._loop_mask, layer._apply_sigmoid = torch.ones(7), torch.ones(7, dtype=torch.bool), False
    torch.testing.assert_close(layer(X, EDGES), expected)
    layer.explain = None
    torch.testing.assert_close(layer(X, EDGES), expected)


@pytest.mark.parametrize(("name", "values"), [("explain", (True, None)), ("decomposed_layers", (2, 1))])
def test_a_layer_that_was_explained_or_decomposed_compiles_to_what_it_is(name, values):
    """PyG leaves its own propagate in the layer, and leaves out hooks when it compiles."""
    torch.manual_seed(0)
    layer = use_aggregation(GCNConv(8, 8), SSMAAggregation(8)).eval()
    expected = layer(X, EDGES)
    for value in values:
        setattr(layer, name, value)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="eager")(X, EDGES), expected)


@pytest.mark.parametrize("left", ["message", "update", "aggregation"])
def test_a_compiled_layer_shows_its_features_where_a_part_of_it_is_left_to_python(left):
    """What no compiler takes, such as a message that asks for a number, splits the layer, or all of it is left."""
    torch.manual_seed(0)
    layer = use_aggregation(GCNConv(8, 8), SSMAAggregation(8)).eval()
    expected = [layer(x, EDGES) for x in (X, X.flip(0))]
    owner, name = (layer.aggr_module, "forward") if left == "aggregation" else (layer, left)
    setattr(owner, name, torch.compiler.disable(getattr(owner, name)))
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="eager")
    for x, plain in zip((X, X.flip(0)), expected, strict=True):
        torch.testing.assert_close(compiled(x, EDGES), plain)
        assert layer.aggr_module.node_features is None

    def fail(*inputs, **options):
        raise KeyError("stopped")

    setattr(owner, name, torch.compiler.disable(fail))
    with pytest.raises(KeyError, match="stopped"):
        compiled(X, EDGES)
    assert layer.aggr_module.node_features is None


def test_an_aggregation_that_alone_is_compiled_sees_what_its_layer_shows():
    torch.manual_seed(0)
    layer = use_aggregation(GCNConv(8, 8), SSMAAggregation(8)).eval()
    expected = [layer(x, EDGES) for x in (X, X.flip(0))]
    torch._dynamo.reset()
    layer.aggr_module.compile(fullgraph=True, backend="eager")
    for x, alone in zip((X, X.flip(0)), expected, strict=True):
        torch.testing.assert_close(layer(x, EDGES), alone)


@pytest.mark.parametrize(
    "copied", [lambda layer: layer, copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))]
)
@pytest.mark.parametrize("after", [False, True])
def test_an_explainer_sees_the_messages_of_copies(copied, after):
    torch.manual_seed(0)
    layer = use_aggregation(GCNConv(8, 8, add_self_loops=False, bias=False), SSMAAggregation(8, normalisation="none"))
    other = copied(layer)
    seen = layer if after else other  # a copy changes what PyG knows of the class
    expected = seen(X, EDGES)
    seen.explain = True
    seen._edge_mask, seen._loop_mask, seen._apply_sigmoid = torch.zeros(7), torch.ones(7, dtype=torch.bool), False
    hidden = seen(X, EDGES)
    torch.testing.assert_close(hidden[0], hidden[-1])  # every node's messages are zero
    assert not torch.allclose(hidden, expected)
    seen.explain = None
    torch.testing.assert_close(seen(X, EDGES), expected)


def test_copies_and_pickles_are_layers_of_their_own():
    torch.manual_seed(0)
    layer = use_aggregation(GCNConv(8, 8), SSMAAggregation(8)).eval()
    expected = layer(X, EDGES)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert isinstance(other, GCNConv)
        assert repr(other) == repr(layer)
        torch.testing.assert_close(other(X, EDGES), expected)
        with torch.no_grad():
            other.aggr_module.target_score.weight.add_(1)
        assert not torch.allclose(other(X, EDGES), expected)
        torch.testing.assert_close(layer(X, EDGES), expected)


def test_what_a_layer_says_of_its_pickles_counts():
    """A layer of one's own may leave something out; torch refuses those whose weights it parametrizes."""

    class Leaving(SAGEConv):
        def __getstate__(self):
            return self.__dict__ | {"cache": None}

    layer = use_aggregation(Leaving(8, 8), SSMAAggregation(8))
    layer.cache = lambda: None
    assert copy.deepcopy(layer).cache is None
    layer = use_aggregation(GATConv(8, 8), SSMAAggregation(8)).eval()
    register_parametrization(layer, "att_src", torch.nn.Identity())
    torch.testing.assert_close(copy.deepcopy(layer)(X, EDGES), layer(X, EDGES))
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)


def test_a_second_aggregation_replaces_the_first():
    layer = use_aggregation(use_aggregation(SAGEConv(8, 8), SSMAAggregation(8)), MeanAggregation())
    torch.manual_seed(0)
    plain = SAGEConv(8, 8, aggr="mean")
    plain.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(X, EDGES), plain(X, EDGES))


@pytest.mark.parametrize("make", [lambda: GINEConv(torch.nn.Linear(8, 8)), lambda: SAGEConv(8, 8)])
def test_a_reset_of_the_layer_draws_the_aggregation_too(make):
    """PyG's GINEConv resets its own parameters only."""
    layer = use_aggregation(make(), SSMAAggregation(8))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(9)
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        layer.reset_parameters()
        drawn.append(torch.cat([parameter.detach().flatten().clone() for parameter in layer.parameters()]))
    assert bool((drawn[0] != 9).all())
    assert drawn[0].equal(drawn[1])
    assert not drawn[0].equal(drawn[2])


def test_one_number_of_a_node_is_a_feature_of_width_1():
    """A hypergraph layer propagates, of its targets, their degree only."""
    with pytest.raises(ValueError, match=r"got target features of width 1 but .* build it with attention_channels="):
        use_aggregation(HypergraphConv(8, 8), SSMAAggregation(8))(X, EDGES)
    layer = use_aggregation(HypergraphConv(8, 8), SSMAAggregation(8, attention_channels=(8, 1)))
    assert layer(X, EDGES).isfinite().all()
