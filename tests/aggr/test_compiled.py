"""SSMA in compiled kernels against SSMA in torch's own operations, which other tests compare with plain loops."""

import os
import shutil
import subprocess
import sys

import pytest
import torch
from torch._dynamo.utils import counters
from torch.utils.flop_counter import FlopCounterMode
from torch_geometric.nn import GCNConv

from ssma.aggr import SSMAAggregation, product, use_aggregation

COMPILER = os.environ.get("CXX", "g++")
with_compiler = pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"there is no C++ compiler ({COMPILER})")


def pair(d, kappa, dtype=torch.float32, **options):
    """The two operators, with the same weights."""
    torch.manual_seed(0)
    plain = SSMAAggregation(d, kappa, **options).to(dtype)
    compiled = SSMAAggregation(d, kappa, **options, compiled=True).to(dtype)
    compiled.load_state_dict(plain.state_dict())
    return plain, compiled


def messages(nodes, width, dtype=torch.float32):
    """Messages of four neighbours on average; some rows are 0, tiny or large."""
    x = torch.randn(4 * nodes, width, dtype=dtype)
    x[::5], x[1::5], x[2::5] = 0, 1e-30 * x[1::5], 1e4 * x[2::5]
    return x, torch.randint(max(nodes, 1), (4 * nodes,))


def results(aggr, x, index, nodes):
    """What comes out, and the gradients of the messages and of all parameters."""
    aggr.zero_grad()
    leaf = x.clone().requires_grad_()
    out = aggr(leaf, index, dim_size=nodes)
    out.backward(torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out))
    gradients = [parameter.grad for parameter in aggr.parameters() if parameter.grad is not None]
    return [out.detach(), leaf.grad, *gradients]


def assert_equal(ours, theirs, tolerance):
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).norm() <= tolerance * other.norm() + 1e-30


@with_compiler
@pytest.mark.parametrize(
    ("kappa", "options"),
    [
        (5, {"normalisation": "log"}),
        (2, {"learn_affine": True, "selection": "random"}),
        (2, {"mixing": "product", "normalisation": "log", "heads": 2}),
    ],
)
def test_options_equal_those_of_the_plain_operator(kappa, options):
    plain, compiled = pair(4, kappa, torch.float64, **options)
    x, index = messages(9, 4 * plain.heads, torch.float64)
    for mode in (True, False):
        plain.train(mode), compiled.train(mode)
        torch.manual_seed(1)
        expected = results(plain, x, index, 9)
        torch.manual_seed(1)
        assert_equal(results(compiled, x, index, 9), expected, 1e-10)


@with_compiler
def test_one_kernel_each_way_serves_any_number_of_rows(monkeypatch):
    """Also in chunks, without gradients, and inside a compiled layer. A single row takes kernels of its own."""
    plain, compiled = pair(5, 6)
    counters.clear()
    for nodes in (9, 30, 2, 0):
        x, index = messages(nodes, 5)
        assert_equal(results(compiled, x, index, nodes), results(plain, x, index, nodes), 1e-5)
    monkeypatch.setitem(product.CHUNK_BYTES, "cpu", 8192)
    x, index = messages(100, 5)
    assert_equal(results(compiled, x, index, 100), results(plain, x, index, 100), 1e-5)
    with torch.no_grad():
        assert_equal([compiled(x, index, dim_size=100)], [plain(x, index, dim_size=100)], 1e-5)
    assert counters["stats"]["unique_graphs"] == 2
    x, index = messages(1, 5)
    assert_equal(results(compiled, x, index, 1), results(plain, x, index, 1), 1e-5)
    assert counters["stats"]["unique_graphs"] == 4


@with_compiler
@torch._dynamo.config.patch(recompile_limit=1, accumulated_recompile_limit=1)
def test_more_widths_and_numbers_of_threads_than_torch_compiles_one_function_for():
    """A long search meets hundreds of widths, and torch takes 256 kernels of a function, 8 of them beside another."""
    threads = torch.get_num_threads()
    try:
        for width, number in ((2, threads), (4, threads), (4, threads + 1)):
            torch.set_num_threads(number)
            plain, compiled = pair(width, 1)
            for nodes in (9, 1):
                x, index = messages(nodes, width)
                assert_equal([compiled(x, index, dim_size=nodes)], [plain(x, index, dim_size=nodes)], 1e-6)
    finally:
        torch.set_num_threads(threads)


@with_compiler
def test_inside_a_compiled_layer():
    plain, compiled = (use_aggregation(GCNConv(5, 5), aggr) for aggr in pair(5, 2))
    plain.load_state_dict(compiled.state_dict())
    x, edge_index = torch.randn(12, 5), torch.randint(12, (2, 40))
    outs = torch.compile(compiled, fullgraph=True, backend="aot_eager")(x, edge_index), plain(x, edge_index)
    torch.testing.assert_close(*outs)
    ours, theirs = (torch.autograd.grad(out.square().sum(), layer.lin.weight)
                    for out, layer in zip(outs, (compiled, plain), strict=True))  # fmt: skip
    torch.testing.assert_close(ours, theirs)


@with_compiler
def test_who_counts_the_steps_sees_them_and_spoils_nothing():
    plain, compiled = pair(3, 2)
    x, index = messages(8, 3)
    counts = []
    for aggr in (plain, compiled):
        with FlopCounterMode(display=False) as counter:
            results(aggr, x, index, 8)
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0
    assert_equal(results(compiled, x, index, 8), results(plain, x, index, 8), 1e-5)


def test_without_a_compiler(tmp_path):
    code = (
        "import torch; from ssma.aggr import SSMAAggregation; "
        "SSMAAggregation(3, 2, compiled=True)(torch.randn(4, 3), torch.tensor([0, 0, 1, 2]), dim_size=3)"
    )
    environment = os.environ | {"CXX": str(tmp_path / "none"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "RuntimeError: SSMAAggregation got compiled=True but torch.compile failed" in done.stderr
    assert done.stderr.rstrip().endswith("install it, or leave compiled at its default, False")


def test_the_switch_is_a_truth_value():
    with pytest.raises(ValueError, match="compiled='yes' but expected True or False"):
        SSMAAggregation(3, compiled="yes")
