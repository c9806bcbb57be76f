"""A user's own class in place of an aggregation of the package."""

import re
from pathlib import Path

import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv
from torch_geometric.nn.aggr import Aggregation, MLPAggregation, SumAggregation

from ssma.aggr import SSMAAggregation, make_aggregation, use_aggregation


class Reshaped(Aggregation):
    """A user's class whose results have another shape than messages."""

    def __init__(self, in_channels, heads, how):
        super().__init__()
        self.how = how

    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        out = self.reduce(x, index, ptr, dim_size, dim)
        changes = {
            "narrow": out[..., :1],
            "wide": torch.cat([out, out], -1),
            "few": out[:1],
            "same": out,
            "pair": (out, out),
        }
        return changes[self.how]


@pytest.mark.parametrize("layer", ["gcn", "gat"])
@pytest.mark.parametrize(("how", "nodes", "width"), [("narrow", 3, 1), ("wide", 3, 8), ("few", 1, 4)])
def test_a_class_of_the_user_keeps_the_shape_of_the_messages(layer, how, nodes, width):
    heads = [2] if layer == "gat" else []
    kind = GATConv if heads else GCNConv
    x, edge_index = torch.randn(3, 5), torch.tensor([[0, 1, 1], [1, 0, 2]])
    path = f"{Reshaped.__module__}.Reshaped"
    same, other = (make_aggregation("mine", 4, 1, path, how=option) for option in ("same", how))
    assert use_aggregation(kind(5, 4, *heads), same)(x, edge_index).shape == (3, 8 if heads else 4)
    made_shape, expected = ((*rows, *heads, columns) for rows, columns in (((nodes,), width), ((3,), 4)))
    text = rf"Reshaped made a result of shape {re.escape(str(made_shape))} .* but expected {re.escape(str(expected))}: a row"
    with pytest.raises(ValueError, match=text):
        use_aggregation(kind(5, 4, *heads), other)(x, edge_index)


def test_a_class_of_the_user_returns_a_tensor():
    path = f"{Reshaped.__module__}.Reshaped"
    aggr = make_aggregation("mine", 4, 1, path, how="pair")
    with pytest.raises(
        ValueError, match="made a result of type tuple of messages of shape .* but expected .3, 4.: a row"
    ):
        aggr(torch.randn(2, 4), torch.tensor([0, 2]))


class Keeping(Aggregation):
    """A user's class that keeps its modules in something."""

    def __init__(self, in_channels, heads, how):
        super().__init__()
        linear, dropout = torch.nn.Linear(in_channels, in_channels), torch.nn.Dropout()
        self.steps = {
            "list": lambda: [linear, dropout],
            "tuple": lambda: (dropout,),
            "dict": lambda: {"first": linear},
            "buffers": lambda: [torch.nn.BatchNorm1d(in_channels, affine=False)],
            "stateless": lambda: [SumAggregation(), {"relu": torch.nn.ReLU()}, torch.nn.Tanh()],
            "ModuleList": lambda: torch.nn.ModuleList([linear, dropout]),
        }[how]()


@pytest.mark.parametrize(("how", "first"), [("list", "Linear"), ("tuple", "Dropout"), ("dict", "Linear")])
def test_a_class_of_the_user_hides_no_modules_from_torch(how, first):
    path = f"{Keeping.__module__}.Keeping"
    with pytest.raises(ValueError, match=f"Keeping keeps a {first} in the {how} steps, where torch does not find it"):
        make_aggregation("mine", 4, 1, path, how=how)
    with pytest.raises(ValueError, match="Keeping keeps a BatchNorm1d in the list steps"):
        make_aggregation("mine", 4, 1, path, how="buffers")
    assert len(make_aggregation("mine", 4, 1, path, how="stateless").steps) == 3
    kept = make_aggregation("mine", 4, 1, path, how="ModuleList").eval()
    assert [module.training for module in kept.modules()] == [False] * 4


class Retyped(Aggregation):
    """A user's class whose results have another type than messages."""

    def __init__(self, in_channels, heads, dtype):
        super().__init__()
        self.dtype = getattr(torch, dtype)

    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        return self.reduce(x, index, ptr, dim_size, dim).to(self.dtype)


@pytest.mark.parametrize("dtype", ["int64", "bool", "float16", "float64", "complex64"])
def test_a_class_of_the_user_keeps_the_type_of_the_messages(dtype):
    """Whole numbers have no gradient, and a layer takes them without an error."""
    path = f"{Retyped.__module__}.Retyped"
    x, edge_index = torch.randn(3, 4), torch.tensor([[0, 1, 1], [1, 0, 2]])
    same, other = (make_aggregation("mine", 4, 1, path, dtype=option) for option in ("float32", dtype))
    assert use_aggregation(GCNConv(4, 4), same)(x, edge_index).dtype == torch.float32
    with pytest.raises(ValueError, match=f"Retyped made a result of torch.{dtype} of messages of torch.float32 but"):
        use_aggregation(GCNConv(4, 4), other)(x, edge_index)


def test_a_class_of_the_user_may_follow_autocast_in_floating_point_numbers():
    path, messages, index = f"{Retyped.__module__}.Retyped", torch.ones(2, 4), torch.tensor([1, 1])
    follows, whole = (make_aggregation("mine", 4, 1, path, dtype=dtype) for dtype in ("bfloat16", "int64"))
    with torch.autocast("cpu", torch.bfloat16):
        assert follows(messages, index).tolist() == [[0.0] * 4, [2.0] * 4]
        with pytest.raises(ValueError, match="a result of torch.int64 of messages"):
            whole(messages, index)


class Mixing(Aggregation):
    """A user's class that may see the messages of other nodes, draw at random, or count its calls."""

    def __init__(self, in_channels, heads, how="own"):
        super().__init__()
        self.how = how
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        self.calls += 1
        out = self.reduce(x, index, ptr, dim_size, dim, reduce="mean")
        others = {
            "own": lambda: 0, "batch": lambda: x.mean(), "padded": lambda: index.bincount().max(),
            "random": lambda: torch.rand(()), "faint": lambda: torch.rand(()) / 200, "overflow": lambda: torch.inf,
        }  # fmt: skip
        return out + others[self.how]()


@pytest.mark.parametrize(("kind", "heads"), [(GCNConv, ()), (GATConv, (2,))])
@pytest.mark.parametrize("how", ["batch", "padded"])
def test_a_class_of_the_user_whose_rows_see_other_nodes_is_refused_in_evaluation(kind, heads, how):
    graph = torch.randn(6, 5), torch.tensor([[0, 1, 2, 0, 4], [1, 0, 0, 2, 5]])
    layer = use_aggregation(kind(5, 4, *heads), make_aggregation("mine", 4, 1, f"{Mixing.__module__}.Mixing", how=how))
    assert layer(*graph).shape == (6, 8 if heads else 4)
    with pytest.raises(ValueError, match="Mixing made other rows of the same messages .* graphs of a batch see each"):
        layer.eval()(*graph)


@pytest.mark.parametrize("how", ["own", "random", "overflow"])
def test_asking_a_class_of_the_user_for_its_rows_changes_nothing(how):
    aggr = make_aggregation("mine", 4, 1, f"{Mixing.__module__}.Mixing", how=how).eval()
    messages, index = torch.randn(5, 4), torch.tensor([1, 0, 3, 3, 5])
    torch.manual_seed(0)
    found = [aggr(messages, index, dim_size=7) for _ in range(2)]
    torch.manual_seed(0)
    expected = [Mixing(4, 1, how)(messages, index, dim_size=7) for _ in range(2)]
    assert all(map(torch.equal, found, expected))
    assert aggr.calls == 2


def test_a_class_of_the_user_that_draws_little_is_not_taken_for_one_whose_rows_see_other_nodes():
    messages, index = torch.randn(5, 4), torch.tensor([1, 0, 3, 3, 5])
    for seed in range(50):
        torch.manual_seed(seed)
        aggr = make_aggregation("mine", 4, 1, f"{Mixing.__module__}.Mixing", how="faint").eval()
        assert aggr(messages, index, dim_size=7).shape == (7, 4)


def test_the_module_of_a_class_of_the_user_leaves_torch_s_defaults_as_they_were(tmp_path, monkeypatch):
    (tmp_path / "in_doubles.py").write_text(
        "import torch\nfrom torch_geometric.nn.aggr import SumAggregation\n"
        "torch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)\n"
        "class Mine(SumAggregation):\n    def __init__(self, in_channels, heads):\n        super().__init__()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        make_aggregation("mine", 4, 1, "in_doubles.Mine")
        assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)


@pytest.mark.parametrize("when", ["", "        "])
def test_a_class_of_the_user_may_change_the_directory_and_the_job_stays_in_its_own(tmp_path, monkeypatch, when):
    """Fits were written to another folder, if their results were named from where the study was started."""
    name = f"elsewhere_{len(when)}"
    (tmp_path / f"{name}.py").write_text(
        "import os\nfrom torch_geometric.nn.aggr import SumAggregation\n"
        "class Mine(SumAggregation):\n    def __init__(self, in_channels, heads):\n        super().__init__()\n"
        f"{when}os.chdir({str(tmp_path)!r})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    before = Path.cwd()
    make_aggregation("mine", 4, 1, f"{name}.Mine")
    assert Path.cwd() == before


def test_a_class_that_takes_other_arguments_is_told_what_it_is_given():
    told = "SoftmaxAggregation.__init__() got an unexpected keyword argument 'in_channels' (torch_geometric.nn.aggr."
    told += "SoftmaxAggregation is made with in_channels, heads, t; around one that takes others, as most of PyG's do, "
    with pytest.raises(TypeError, match=re.escape(told + "write a class that takes these)")):
        make_aggregation("mine", 4, 1, "torch_geometric.nn.aggr.SoftmaxAggregation", t=2.0)


class Mixed(MLPAggregation):
    """A user's class that wants messages sorted by target, and mixes the first two of a node in their order."""

    def __init__(self, in_channels, heads):
        super().__init__(in_channels, in_channels, 2, num_layers=1)


@pytest.mark.parametrize("training", [True, False])
def test_a_class_of_the_user_gets_messages_that_are_sorted_by_target(training):
    mixed = make_aggregation("mine", 4, 1, f"{Mixed.__module__}.Mixed").train(training)
    layer = use_aggregation(GCNConv(4, 4), mixed)  # self-loops lie behind the edges
    x, edge_index = torch.randn(3, 4, requires_grad=True), torch.tensor([[0, 1, 2], [1, 0, 0]])
    layer(x, edge_index).sum().backward()
    assert x.grad.abs().sum() > 0
    messages, index = torch.randn(5, 4), torch.tensor([2, 0, 2, 0, 2])
    rows = {target: mixed(messages[index == target], index[index == target] * 0)[0] for target in (0, 2)}
    out = mixed(messages, index)
    assert all(torch.allclose(out[target], row, atol=1e-6) for target, row in rows.items())


class Attending(SSMAAggregation):
    """A user's class whose attention slots see the sources of messages."""

    def __init__(self, in_channels, heads, **options):
        super().__init__(in_channels, kappa=2, heads=heads, **options)


@pytest.mark.parametrize("options", [{}, {"slots_from": "features"}, {"selection": "random", "slots_from": "features"}])
def test_a_class_of_the_user_sees_the_sources_of_its_sorted_messages(options):
    x, edge_index = torch.randn(6, 8), torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 4, 1], [1, 0, 3, 2, 5, 4, 3, 1, 1, 4]])
    rows = []
    for name, path, own in (("mine", f"{Attending.__module__}.Attending", {}), ("ssma", None, {"kappa": 2})):
        torch.manual_seed(0)
        aggr = make_aggregation(name, 8, 1, path, **options, **own)
        rows.append(use_aggregation(GCNConv(8, 8), aggr).eval()(x, edge_index))
    torch.testing.assert_close(*rows)
