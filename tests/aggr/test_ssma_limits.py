"""Where the operator ends: large learned maps, other modes of torch, second derivatives, arguments it refuses."""

import math

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch_geometric.nn import GATConv, GCNConv, HeteroConv, SAGEConv

from ssma.aggr import AGGREGATORS, SSMAAggregation, make_aggregation, use_aggregation
from ssma.aggr.affine import compare_maps
from ssma.aggr.pna import mean_log_degree
from ssma.aggr.spectrum import roots_of_unity

APPLE = torch.device("mps")
INDEX = torch.tensor([0, 0, 1, 1, 1, 3])


def messages(width, dtype=torch.float32):
    return torch.randn(6, width, dtype=dtype, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("factor", [1e-6, 8.0, 1e3, 1e6])
@pytest.mark.parametrize("kappa", [3, 4, 7])
def test_a_learned_map_of_any_size_stays_exact(kappa, factor):
    torch.manual_seed(0)
    aggr = SSMAAggregation(8, kappa, "random", learn_affine=True).eval()
    with torch.no_grad():
        aggr.affine_weight.add_(torch.randn_like(aggr.affine_weight)).mul_(factor)
        aggr.affine_bias.mul_(factor)
    results = []
    for dtype in (torch.float32, torch.float64):
        x = messages(8, dtype=torch.float32).to(dtype).requires_grad_()
        out = aggr.to(dtype)(x, INDEX, dim_size=4)
        results.append((out.detach().double(), torch.autograd.grad(out.sum(), x)[0].double()))
    for ours, exact in zip(*results, strict=True):
        assert (ours - exact).norm() < 1e-4 * exact.norm()


@pytest.mark.parametrize("fake_first", [True, False])
def test_fake_tensors_leave_no_trace(fake_first):
    width = 34 + fake_first  # a size that no other test has asked for tables of
    aggr, real = SSMAAggregation(width, 3, "random"), messages(width)
    expected = None if fake_first else aggr.eval()(real, INDEX, dim_size=4)
    with FakeTensorMode():
        assert SSMAAggregation(width, 3, "random")(torch.randn(6, width), torch.zeros(6).long(), dim_size=4).shape == (
            4,
            width,
        )
    out = aggr.eval()(real, INDEX, dim_size=4)
    assert bool(out.isfinite().all())
    assert expected is None or torch.equal(out, expected)


@pytest.mark.parametrize("name", [name for name in AGGREGATORS if name not in ("lstm", "gru")])
def test_tensors_without_data_have_shapes_and_gradients(name):
    """On the meta device, which has no autocast. (How a recurrent network packs its sequences depends on data.)"""
    with torch.device("meta"):
        layer = use_aggregation(SAGEConv(8, 6), make_aggregation(name, 8, degrees=torch.ones(3, device="cpu")))
        x = torch.empty(5, 8, requires_grad=True)
        out = layer(x, torch.empty(2, 7, dtype=torch.long))
    out.sum().backward()
    assert (out.shape, x.grad.shape) == ((5, 6), (5, 8))
    assert out.is_meta and all(parameter.grad.is_meta for parameter in layer.parameters())


def test_inference_first_and_training_afterwards():
    aggr, x = SSMAAggregation(37, 3), messages(37).requires_grad_()
    with torch.inference_mode():
        first = aggr(x.detach(), INDEX, dim_size=4)
    out = aggr(x, INDEX, dim_size=4)
    out.sum().backward()
    assert torch.equal(out.detach(), first.clone()) and bool(x.grad.isfinite().all())


@pytest.mark.parametrize("selection", ["attention", "random"])
def test_second_derivatives_are_refused(selection):
    x = messages(5).requires_grad_()
    out = SSMAAggregation(5, 2, selection)(x, INDEX, dim_size=4)
    with pytest.raises(RuntimeError, match="no second derivatives; call backward or grad without create_graph"):
        torch.autograd.grad(out.sum(), x, create_graph=True)


def test_several_gradients_at_once_are_refused():
    x = messages(5).requires_grad_()
    out = SSMAAggregation(5, 2)(x, INDEX, dim_size=4)
    with pytest.raises(RuntimeError, match="one gradient at a time; use torch.func.jacrev"):
        torch.autograd.grad(out, x, torch.ones(2, *out.shape), is_grads_batched=True)


OPTIONS = [
    {},
    {"selection": "random"},
    {"kappa": 6, "compression": 1.0},
    {"normalisation": "log", "learn_affine": True},
    {"normalisation": "none"},
    {"mixing": "product"},
    {"mixing": "sum"},
    {"slots_from": "features"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_transforms_of_torch_func(options):
    """Gradients, Jacobians, several inputs and several networks at once, and second derivatives by differences."""
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 0, 0, 0, 2, 4]])
    layer, other = (
        use_aggregation(GATConv(6, 3, heads=2), SSMAAggregation(3, heads=2, **options)).double().eval()
        for _ in range(2)
    )
    x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    weights = {name: weight.detach() for name, weight in layer.named_parameters()}

    def loss(weights, x):
        return torch.func.functional_call(layer, weights, (x, edges)).square().sum()

    expected = torch.autograd.grad(loss({}, x), [x, *layer.parameters()], allow_unused=True, materialize_grads=True)
    by_weight, by_input = torch.func.grad(loss, (0, 1))(weights, x.detach())
    torch.testing.assert_close([by_input, *by_weight.values()], list(expected))

    inputs = torch.stack([x.detach(), 2 * x.detach()])
    torch.testing.assert_close(
        torch.vmap(layer, (0, None))(inputs, edges), torch.stack([layer(one, edges) for one in inputs])
    )
    of_each = torch.vmap(torch.func.grad(loss), (None, 0))(weights, inputs)
    torch.testing.assert_close({name: grad[0] for name, grad in of_each.items()}, by_weight)
    stacked, _ = torch.func.stack_module_state([layer, other])
    together = torch.vmap(lambda own: torch.func.functional_call(layer, own, (x, edges)))(stacked)
    torch.testing.assert_close(together, torch.stack([layer(x, edges), other(x, edges)]))

    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, edges), x)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(transform(lambda x: layer(x, edges))(x.detach()), jacobian)
    step = torch.zeros_like(x)
    step[1, 2] = 1e-6
    hessian = torch.func.hessian(loss, 1)(weights, x.detach())
    ahead, behind = (torch.autograd.grad(loss({}, x + sign * step), x)[0] for sign in (1, -1))
    torch.testing.assert_close(hessian[1, 2], (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS)
def test_an_exported_layer_learns_as_the_layer_does(options):
    torch.manual_seed(0)
    layer = use_aggregation(GATConv(6, 3, heads=2), SSMAAggregation(3, heads=2, **options))
    x, edges, results = torch.randn(9, 6), torch.randint(9, (2, 20)), []
    for module in (layer, torch.export.export(layer, (x, edges)).module()):
        torch.manual_seed(1)
        out, weights = module(x, edges), [*module.parameters()]
        gradients = torch.autograd.grad(out.square().sum(), weights, allow_unused=True, materialize_grads=True)
        results.append([out, *gradients])
    torch.testing.assert_close(*results)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("options", OPTIONS)
def test_a_trace_serves_graphs_of_other_sizes(options, tmp_path):
    torch.manual_seed(0)
    layer = use_aggregation(GATConv(6, 3, heads=2), SSMAAggregation(3, heads=2, **options)).eval()
    torch.jit.trace(layer, (torch.randn(4, 6), torch.randint(4, (2, 9)))).save(tmp_path / "layer.pt")
    traced = torch.jit.load(tmp_path / "layer.pt")
    for nodes, edges in ((1, 1), (3, 2), (20, 70)):
        x, edge_index = torch.randn(nodes, 6), torch.randint(nodes, (2, edges))
        torch.testing.assert_close(traced(x, edge_index), layer(x, edge_index))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", ["ssma", "sum", "lstm"])
def test_a_script_is_refused_in_one_sentence(name):
    layer = use_aggregation(GATConv(6, 3, heads=2), make_aggregation(name, 3, heads=2))
    with pytest.raises(
        RuntimeError, match=r"^\w+Aggregation cannot be scripted by torch.jit.script; use torch.compile$"
    ):
        torch.jit.script(torch.nn.Sequential(layer))


def test_slots_of_features_in_a_layer_are_the_states_before_attention():
    """A node with one neighbour: all slots are that neighbour's state, whatever its attention weight."""
    torch.manual_seed(0)
    aggr = SSMAAggregation(3, 2, heads=2, slots_from="features").double()
    conv = use_aggregation(GATConv(4, 3, heads=2, add_self_loops=False), aggr).double()
    x, edge_index = messages(4, torch.float64)[:2], torch.tensor([[0], [1]])
    state = conv.lin(x[:1])
    alone = SSMAAggregation(3, 2, heads=2).double()
    alone.load_state_dict(aggr.state_dict())
    expected = alone(state, torch.tensor([0]), dim_size=1)[0] + conv.bias
    torch.testing.assert_close(conv(x, edge_index)[1], expected, rtol=1e-12, atol=1e-12)


def test_slots_of_features_have_the_same_gradients_on_every_call_on_several_threads():
    torch.manual_seed(0)
    conv = use_aggregation(GCNConv(16, 16), SSMAAggregation(16, 2, slots_from="features"))
    x, edge_index = torch.randn(500, 16, requires_grad=True), torch.randint(500, (2, 4000))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        first, *others = (torch.autograd.grad(conv(x, edge_index).square().sum(), x)[0] for _ in range(6))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(other, first) for other in others)


def test_every_layer_of_a_heterogeneous_model_is_its_own():
    torch.manual_seed(0)
    layers = {
        ("a", "to", "b"): use_aggregation(SAGEConv((4, 5), 6), SSMAAggregation(4, 2, attention_channels=(4, 5))),
        ("b", "to", "b"): use_aggregation(GCNConv(5, 6), SSMAAggregation(6, 2)),
    }
    x = {"a": messages(4), "b": messages(5)}
    edges = {("a", "to", "b"): torch.tensor([[0, 1, 2], [1, 1, 0]]), ("b", "to", "b"): torch.tensor([[5, 4], [0, 2]])}
    out = HeteroConv(layers)(x, edges)["b"]
    one = layers["a", "to", "b"]((x["a"], x["b"]), edges["a", "to", "b"])
    other = layers["b", "to", "b"](x["b"], edges["b", "to", "b"])
    torch.testing.assert_close(out, one + other)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("name", ["ssma", "mean"])
def test_messages_that_are_no_floating_point_numbers_are_refused(name, dtype):
    with pytest.raises(ValueError, match=f"Aggregation got messages of {dtype} but expected floating point numbers"):
        make_aggregation(name, 3)(torch.ones(6, 3, dtype=dtype), INDEX, dim_size=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": "1"}, "temperature='1' but expected a finite number above 0"),
        ({"temperature": None}, "temperature=None but expected a finite number above 0"),
        ({"compression": "a"}, "compression='a' but expected 0 < compression <= 1"),
        ({"learn_affine": "no"}, "learn_affine='no' but expected True or False"),
        ({"attention_channels": (8,)}, r"attention_channels=\(8,\) but expected a whole number, at least 1, or two"),
        ({"attention_channels": 0}, "attention_channels=0 but expected a whole number, at least 1, or two"),
        ({"attention_channels": "8"}, "attention_channels='8' but expected a whole number, at least 1, or two"),
    ],
)
def test_wrong_options_get_one_clear_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        SSMAAggregation(8, **options)


def test_numbers_of_numpy_are_numbers():
    sizes = {"in_channels": np.int64(8), "kappa": np.int32(3), "heads": np.int64(2)}
    aggr = SSMAAggregation(**sizes, compression=np.float32(0.5), temperature=np.float64(2))
    plain = SSMAAggregation(8, 3, heads=2, compression=0.5, temperature=2.0)
    assert repr(aggr) == repr(plain)
    assert [p.shape for p in aggr.parameters()] == [p.shape for p in plain.parameters()]


@pytest.mark.parametrize("name", ["lstm", "gru", "deepsets", "ssma"])
def test_sizes_of_numpy_become_those_of_python(name):
    """LSTM and GRU of torch refuse others, and torch.compile stops at them."""
    x, index = torch.randn(6, 8), torch.tensor([0, 0, 1, 1, 2, 2])
    aggr = make_aggregation(name, np.int64(4), np.int64(2)).eval()
    assert [type(size) for size in (aggr.in_channels, aggr.heads)] == [int, int]
    torch.manual_seed(0)
    aggr.reset_parameters()
    plain = make_aggregation(name, 4, 2).eval()
    torch.manual_seed(0)
    plain.reset_parameters()
    assert torch.equal(aggr(x, index, dim_size=3), plain(x, index, dim_size=3))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lstm", {"in_channels": True}, "in_channels=True but expected a whole number, at least 1"),
        ("softmax", {"t": float("nan")}, "t=nan but expected a finite number"),
        ("softmax", {"learn": "no"}, "learn='no' but expected True or False"),
        ("powermean", {"p": "2"}, "p='2' but expected a finite exponent above 0"),
        ("powermean", {"p": True}, "p=True but expected a finite exponent above 0"),
        ("powermean", {"learn": None}, "learn=None but expected True or False"),
        ("pna", {"degrees": [1, 2]}, "degrees of type list but expected a tensor of counts of degree 0, 1, 2"),
        ("pna", {"degrees": torch.tensor([1, math.nan])}, r"degrees \[1.0, nan\] but expected a tensor of counts"),
        ("fmean", {"inversion_weight": float("inf")}, "inversion_weight=inf but expected a finite number, at least 0"),
    ],
)
def test_wrong_options_of_others_too(name, options, message):
    with pytest.raises(ValueError, match=message):
        make_aggregation(name, **{"in_channels": 4} | options)


class Apple(TorchFunctionMode):
    """A device that holds no float64; what is asked for there is on the host."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        asked = [*args, *(kwargs or {}).values()]
        args = [torch.device("cpu") if value is APPLE else value for value in args]
        kwargs = {key: torch.device("cpu") if value is APPLE else value for key, value in (kwargs or {}).items()}
        made = function(*args, **kwargs)
        if any(value is APPLE for value in asked) and made.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        return made


class OnApple(torch.Tensor):
    """A tensor of such a device."""

    def cpu(self):
        return self.as_subclass(torch.Tensor)

    def double(self):
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype")


def test_what_is_counted_in_float64_where_there_is_none():
    given, learned, degrees = torch.zeros(2, 2, 1), torch.ones(2, 2, 1), torch.tensor([1, 0, 3])
    assert compare_maps(given.as_subclass(OnApple), learned.as_subclass(OnApple)) == compare_maps(given, learned)
    assert mean_log_degree(degrees.as_subclass(OnApple)).item() == mean_log_degree(degrees).item()


def test_roots_of_unity_where_there_is_no_float64():
    with Apple():
        there = roots_of_unity(7, torch.float32, APPLE)
    assert there.equal(roots_of_unity(7, torch.float32, torch.device("cpu")))
