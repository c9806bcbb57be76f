"""The benchmark of layers and growth: formulas and exponents by hand, and the numbers on the page against the rows."""

import math
from dataclasses import asdict
from itertools import pairwise

import pandas as pd
import pytest
import torch

from ssma.bench import figures, runtime
from ssma.bench.growth import ATTENTION, RANDOM, SUM, Point, limit_exponent, operations
from ssma.bench.measure import Limits
from ssma.bench.runtime import (
    INFERENCE,
    RUNTIME_QUICK,
    TIMED,
    TRAINING,
    RuntimeGrid,
    TimedLayer,
    run_runtime,
    timed_graphs,
    timed_layer,
    training_work,
)
from ssma.bench.runtime_page import RUNTIME_CELL, RUNTIME_COLUMNS, exponents, paper_ms, runtime_page
from ssma.bench.tables import as_frame, summary
from ssma.statistics.exponent import Exponent

CPU = torch.device("cpu")


def test_operations_are_those_of_the_formulas():
    point = Point(nodes=10, edges=30, d=8, kappa=1)  # m = 2 * 8 = 16, of logarithm 4
    assert operations(ATTENTION, point) == 16 * (8 + 4 + 1) * 10 + 16 * 1 * 30
    assert operations(RANDOM, point) == 16 * (8 + 4 + 1) * 10 + 30
    assert operations(SUM, point) == 240


@pytest.mark.parametrize(("method", "limits"), [(ATTENTION, (1, 1, 2, 3)), (RANDOM, (1, 1, 2, 3)), (SUM, (0, 1, 1, 0))])
def test_limits_are_the_exponents_of_the_leading_terms(method, limits):
    found = [limit_exponent(method, name) for name in ("nodes", "edges", "d", "kappa")]
    assert found == pytest.approx(limits, abs=1e-3)


def test_the_large_graph_is_two_of_128_parts_of_arxiv():
    assert RuntimeGrid().arxiv == (round(169_343 * 2 / 128), round(2_315_598 * 2 / 128))
    assert all(len(sizes) >= 3 for grid in (RuntimeGrid(), RUNTIME_QUICK) for sizes in grid.curves.values())
    base = asdict(RuntimeGrid().base)
    assert all(base[name] in sizes for name, sizes in RuntimeGrid().curves.items())


def test_every_layer_maps_width_to_width_with_the_asked_aggregation():
    graphs = timed_graphs(RUNTIME_QUICK, CPU)
    assert [batch.max().item() + 1 for _, batch in graphs.values()] == [1, 4]
    edge_index, batch = graphs["like a batch of PROTEINS"]
    degrees = edge_index[1].bincount(minlength=batch.numel()).bincount()
    x = torch.randn(batch.numel(), 40)
    for name, timed in TIMED.items():
        layer = timed_layer(timed, RUNTIME_QUICK, degrees)
        others = (edge_index, batch) if timed.layer == "gps" else (edge_index,)
        assert layer(x, *others).shape == x.shape
        assert timed.aggregator != "ssma" or f"kappa=2, selection={name.split()[1]}" in repr(layer.aggr_module)
    assert len(TIMED) == 11


def test_a_step_of_training_goes_to_parameters_and_input():
    """The first step of AdamW: decay by 1e-3 * 0.01, then 1e-3 against the sign of the gradient."""
    torch.manual_seed(0)
    linear = torch.nn.Linear(3, 2, bias=False)
    before, x, upper = linear.weight.detach().clone(), torch.randn(4, 3), torch.randn(4, 2)
    work = training_work(linear, x, upper=upper)
    work.reset()
    work.run()
    after = before * (1 - 1e-5) - 1e-3 * (upper.t() @ x).sign()
    torch.testing.assert_close(linear.weight.detach(), after, rtol=0, atol=1e-6)
    leaf = next(
        cell.cell_contents
        for cell in work.run.__closure__
        if isinstance(cell.cell_contents, torch.Tensor) and cell.cell_contents.requires_grad
    )
    torch.testing.assert_close(leaf.grad, upper @ before)


def test_inference_is_in_evaluation_mode_and_training_is_not(monkeypatch):
    seen = []
    make = runtime.timed_layer

    def spied(*arguments):
        layer = make(*arguments)
        layer.register_forward_pre_hook(lambda module, _: seen.append(module.training))
        return layer

    monkeypatch.setattr(runtime, "timed_layer", spied)
    edge_index, batch = timed_graphs(RUNTIME_QUICK, CPU)["like a batch of PROTEINS"]
    for what, mode in ((TRAINING, True), (INFERENCE, False)):
        seen.clear()
        for work in runtime.layer_works(RUNTIME_QUICK, edge_index, batch, what).values():
            work.run()
        assert seen == [mode] * len(TIMED)


def test_the_papers_times():
    training, inference = paper_ms(TRAINING), paper_ms(INFERENCE)
    assert len(training) == len(inference) == 8
    assert (training[TimedLayer("gin", "ssma", "random")], inference[TimedLayer("gat", "ssma", "attention")]) == (
        2.768,
        1.888,
    )
    assert set(training) <= set(TIMED.values())


def rows_of(method, size, seconds, size_bytes, part="growth", **changes):
    cell = {"part": part, "device": "cpu", "pass": "forward+backward", "varied": "edges", "d": 8, "kappa": 1}
    cell |= {"nodes": 10, "edges": size, "method": method} | changes
    return [cell | {"repeat": i, "seconds": each, "bytes": size_bytes} for i, each in enumerate(seconds)]


def made():
    rows = []
    for name, ms in zip(TIMED, range(1, 12), strict=True):
        for what in (TRAINING, INFERENCE):
            change = {"graph": "made", "pass": what, "varied": None}
            rows += rows_of(name, 30, (ms / 1000, ms / 1000, 1.0), 2_000_000, "layers", **change)
    for edges in (10, 20, 40):
        rows += rows_of(ATTENTION, edges, (3e-6 * edges**2,), 100 * edges)
        rows += rows_of(SUM, edges, (1e-6 * edges,), 100)
    return rows


def test_exponents_are_of_medians_beside_those_of_the_formula():
    found = exponents(as_frame(made(), RUNTIME_COLUMNS)).set_index("method")
    assert found["sizes"].tolist() == [[10, 20, 40]] * 2
    assert [found.loc[ATTENTION, name].value for name in ("time", "memory")] == pytest.approx([2, 1])
    assert found.loc[SUM, "memory"] == Exponent(0.0, 0.0, 0.0, 3)
    ends = (2080 + 16 * 40) / (2080 + 16 * 10)  # evenly spaced in logarithms: the middle point has no say in the slope
    assert found.loc[ATTENTION, "formula"] == pytest.approx(math.log(ends) / math.log(4))
    assert found.loc[SUM, "formula"] == pytest.approx(1)


def test_the_papers_formula_goes_through_the_largest_size_in_the_figure():
    frame = as_frame(made(), RUNTIME_COLUMNS)
    growth = summary(frame[frame["part"] == "growth"], RUNTIME_CELL)
    figure = figures._growth(growth.assign(ms=1000 * growth["seconds"]))
    (ax,) = [ax for ax in figure.axes if ax.get_ylabel() == "ms (log scale)"]
    attention, plain = (line.get_ydata() for line in ax.get_lines() if line.get_color() == figures.FAINT)
    counts = [2080 + 16 * edges for edges in (10, 20, 40)]
    assert attention == pytest.approx([4.8 * count / counts[2] for count in counts])  # 3e-6 s times 40^2
    assert plain == pytest.approx([0.01, 0.02, 0.04])


@pytest.mark.parametrize("count", [2, 14])
def test_names_beside_points_do_not_overlap(count):
    names = [f"gat, ssma attention compiled {number}" for number in range(count)]
    part = pd.DataFrame({"arm": names * 2, "s": [1.0] * count + [9.0] * count, "method": ["a"] * count + ["b"] * count})
    (ax,) = figures._points(part, "s", x="s", y="arm", hue="method").axes
    drawn = [list(line.get_xdata()) for line in ax.get_lines()]
    assert [1.0] * count in drawn and [9.0] * count in drawn
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert len(boxes) == count and min(box.x0 for box in boxes) >= 0
    assert all(below.y1 <= above.y0 or above.y1 <= below.y0 for above, below in pairwise(boxes))


def test_the_page_shows_ratios_of_medians_beside_the_papers():
    text = runtime_page(as_frame(made(), RUNTIME_COLUMNS), {"CPU": "fast"}, ["runtime-growth-cpu.png"])
    assert "- CPU: fast\n" in text and text.endswith("![runtime-growth-cpu.png](runtime-growth-cpu.png)\n")
    assert "width 8, κ = 1, compression 0.25" in text and "made (10 nodes, 30 edges)" in text
    assert "| GCN, random SSMA | 5 (5..1,000) | 2.50 | 1.25 | 5.286 | 1.91 | 2 | 3 |" in text  # of 2 and of 4 ms
    assert "| GCN, random SSMA | 5 (5..1,000) | 2.50 | 1.25 | 1.322 | 1.34 | 2 | 3 |" in text
    assert "| GIN, sum | 1 (1..1,000) | 1.00 | 0.25 | – | – | 2 | 3 |" in text
    assert "| PNA | 10 (10..1,000) | – | 2.50 | 6.068 | 2.19 | 2 | 3 |" in text
    assert "| edges | 10, 20, 40 | SSMA, attention | 2.00 [2.00, 2.00] | 0.14 | 1.00 | 1.00 [1.00, 1.00] |" in text
    assert "| edges | 10, 20, 40 | sum | 1.00 [1.00, 1.00] | 1.00 | 1.00 | 0.00 [0.00, 0.00] |" in text
    assert "**Growth over edges** (held: nodes 10, width d 8, slots κ 1)" in text


def test_what_does_not_fit_is_not_called_and_says_so(monkeypatch):
    called = []
    whole = runtime.measure
    monkeypatch.setattr(
        runtime,
        "measure",
        lambda works, nodes, *rest, **named: called.extend([nodes] * len(works)) or whole(works, nodes, *rest, **named),
    )
    rows = [row for cell in run_runtime(RUNTIME_QUICK, [CPU], Limits(seconds=1e-9, budget=0)) for row in cell]
    growth = [row for row in rows if row["part"] == "growth"]
    assert len(growth) == 4 * 3 * 3 and all(row["reason"].startswith("not run: needs about") for row in growth)
    assert set(called) == {200, 152, 10, 20}  # the graphs of the layers, and the probes
    text = runtime_page(as_frame(rows, RUNTIME_COLUMNS), {}, [])
    assert text.count(" (3 not run) | ") == 12 and text.count("| fewer than 3 points |") == 24
    assert "nan" not in text.lower()


def test_the_command_writes_page_numbers_and_figures(quick_bench):
    folder = quick_bench("runtime")
    names = {f"runtime-{part}-cpu.{kind}" for part in ("layers", "growth") for kind in ("png", "pdf")}
    assert {path.name for path in folder.iterdir()} == names | {"runtime.md", "runtime.csv"}
    frame = pd.read_csv(folder / "runtime.csv")
    cells = frame.groupby(["graph", "varied", "pass", "d", "kappa", "nodes", "edges", "method"], dropna=False)
    assert len(cells) == 2 * 2 * 11 + 4 * 3 * 3 and cells["seconds"].count().min() >= 3
    mine = frame.query("varied == 'kappa' and kappa == 4").groupby("method")["seconds"].median()
    text = (folder / "runtime.md").read_text()
    assert f"| 4 | sum | {1000 * mine['sum']:.3g} (" in text
