"""SSMA in compiled kernels against SSMA in torch's own operations, which other tests compare with plain loops."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor.codecache import get_lock_dir
from torch.utils._filelock import FileLock
from torch.utils.flop_counter import FlopCounterMode
from torch_geometric.nn import GCNConv, SAGEConv

from ssma.aggr import SSMAAggregation, combine, product, use_aggregation
from ssma.aggr.compiled import _discard_cut_off

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


@pytest.fixture(params=["whole", "steps"])
def way(request, monkeypatch):
    """Small calls are compiled as a whole, others step by step, in chunks of rows."""
    if request.param == "steps":
        monkeypatch.setitem(combine.WHOLE_BYTES, "cpu", 0)
        monkeypatch.setattr(product, "CHUNK_ROWS", 1)
        monkeypatch.setitem(product.CHUNK_BYTES, "cpu", 4096)
    return request.param


@with_compiler
@pytest.mark.parametrize(
    ("kappa", "options"),
    [
        (5, {"normalisation": "log"}),
        (3, {"normalisation": "log"}),
        (2, {"learn_affine": True, "selection": "random", "normalisation": "none", "compression": 1.0}),
        (2, {"mixing": "product", "normalisation": "log", "heads": 2, "temperature": 0.5}),
    ],
)
def test_options_equal_those_of_the_plain_operator(way, kappa, options):
    plain, compiled = pair(4, kappa, torch.float64, **options)
    x, index = messages(9, 4 * plain.heads, torch.float64)
    for mode in (True, False):
        plain.train(mode), compiled.train(mode)
        for targets in (index, index.sort().values):
            torch.manual_seed(1)
            expected = results(plain, x, targets, 9)
            torch.manual_seed(1)
            assert_equal(results(compiled, x, targets, 9), expected, 1e-10)


@with_compiler
@pytest.mark.parametrize("options", [{}, {"selection": "random"}, {"slots_from": "features"}], ids=str)
def test_inside_layers(way, options):
    """With node features of both sides, where a bipartite layer has another number of sources than of targets."""
    torch.manual_seed(0)
    widths = (6, 5)
    plain, compiled = (
        use_aggregation(SAGEConv(widths, 7), SSMAAggregation(6, 3, **options, compiled=how, attention_channels=widths))
        for how in (False, True)
    )
    compiled.load_state_dict(plain.state_dict())
    for sources, targets in ((30, 20), (10, 20), (20, 20)):
        x = torch.randn(sources, 6), torch.randn(targets, 5)
        edges = torch.stack([torch.randint(sources, (60,)), torch.randint(targets, (60,))])
        found = []
        for layer in (plain, compiled):
            layer.zero_grad()
            torch.manual_seed(1)
            leaves = [side.clone().requires_grad_() for side in x]
            out = layer(leaves, edges)
            out.square().sum().backward()
            found.append([out, *(leaf.grad for leaf in leaves), *(parameter.grad for parameter in layer.parameters())])
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@with_compiler
@pytest.mark.parametrize("compression", [0.25, 1.0])
def test_what_is_compiled_serves_any_number_of_rows(monkeypatch, compression):
    """A call as a whole, forward and backward, wherever in memory its inputs lie; one without gradients; each step,
    also in chunks. A single row has kernels of its own."""
    monkeypatch.setattr("ssma.aggr.compiled._KERNELS", {})
    plain, compiled = pair(5, 3, torch.float64, compression=compression)
    counters.clear()

    def compare(*numbers):
        for nodes in numbers:
            x, index = messages(nodes, 5, torch.float64)
            assert_equal(results(compiled, x, index, nodes), results(plain, x, index, nodes), 1e-10)
        return counters["stats"]["unique_graphs"]

    assert compare(9, 30, 2, 0, 5000) == 1
    x, index = messages(50, 5, torch.float64)
    for first in (1, 2, 7):  # rows of larger tensors
        assert_equal(
            results(compiled, x[first:], index[first:], 50), results(plain, x[first:], index[first:], 50), 1e-10
        )
    assert counters["stats"]["unique_graphs"] == 1
    assert not hasattr(index, "_dynamo_weak_dynamic_indices")  # nothing of it stays at the caller's
    with torch.no_grad():
        for nodes in (100, 7):
            x, index = messages(nodes, 5, torch.float64)
            assert_equal([compiled(x, index, dim_size=nodes)], [plain(x, index, dim_size=nodes)], 1e-10)
    assert counters["stats"]["unique_graphs"] == 2
    monkeypatch.setitem(combine.WHOLE_BYTES, "cpu", 0)
    assert compare(9, 30, 2, 0) == 4
    monkeypatch.setattr(product, "CHUNK_ROWS", 1)
    monkeypatch.setitem(product.CHUNK_BYTES, "cpu", 8192)
    assert compare(100) == 4
    x = torch.randn(400, 5, dtype=torch.float64)
    few = torch.randint(10, (400,))  # the other nodes have no messages, and no kernels of fewer slots
    assert_equal(results(compiled, x, few, 100), results(plain, x, few, 100), 1e-10)
    assert counters["stats"]["unique_graphs"] == 4
    assert compare(1) == 6


@with_compiler
def test_gradients_are_the_same_on_every_call():
    """Threads add to a node in no fixed order, where torch.compile is left to itself."""
    _, compiled = pair(8, 2)
    x, index = messages(1000, 8)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        first = results(compiled, x, index.clamp(max=40), 1000)
        for _ in range(3):
            for one, other in zip(results(compiled, x, index.clamp(max=40), 1000), first, strict=True):
                assert torch.equal(one, other)
    finally:
        torch.set_num_threads(threads)


@with_compiler
def test_a_graph_is_walked_once():
    """As that of all that torch.compile makes, which says so."""
    _, compiled = pair(3, 2)
    x, index = messages(8, 3)
    out = compiled(x.requires_grad_(), index, dim_size=8).sum()
    with pytest.raises(RuntimeError, match="retain_graph=False"):
        out.backward(retain_graph=True)


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


def test_libraries_that_a_killed_process_left_empty_are_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    for name in ("ab/cabc.main.so", "xy/cxyz.so", "xy/good.main.so", "xy/cxyz.main.cpp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\x7fELF" if "good" in name else b"")
    _discard_cut_off()
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("[ax]*/*")}
    assert left == {"xy/good.main.so", "xy/cxyz.main.cpp"}


def test_a_torch_that_locks_its_cache_otherwise_is_let_be(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "torch.utils._filelock", None)
    (tmp_path / "ab").mkdir()
    (library := tmp_path / "ab/cabc.main.so").touch()
    _discard_cut_off()
    assert library.exists()


def test_a_library_that_is_just_being_made_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    (folder := tmp_path / "ab").mkdir()
    (library := folder / "cabc.main.so").touch()
    with ThreadPoolExecutor() as pool:
        with FileLock(Path(get_lock_dir()) / "cabc.lock"):
            waits = pool.submit(_discard_cut_off)
            with pytest.raises(TimeoutError):
                waits.result(0.3)
            library.write_bytes(b"\x7fELF")
        waits.result()
    assert library.read_bytes() == b"\x7fELF"


def test_the_switch_is_a_truth_value():
    with pytest.raises(ValueError, match="compiled='yes' but expected True or False"):
        SSMAAggregation(3, compiled="yes")
