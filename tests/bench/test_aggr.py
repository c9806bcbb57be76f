"""The benchmark from the command line to the page, and the numbers on the page against those in the CSV file."""

import re
from dataclasses import replace

import pandas as pd
import pytest
import torch

from ssma.aggr import SSMAAggregation
from ssma.bench.aggr import QUICK, Grid, layers, operator_works, random_graph, run_aggr
from ssma.bench.measure import Limits
from ssma.bench.stages import stages
from ssma.bench.tables import as_frame, page, ratios, summary
from ssma.cli import main

CPU = torch.device("cpu")


def line(method, seconds, size, nodes=100, name="forward", reason=None, repeat=0):
    return {
        "part": "operator", "device": "cpu", "pass": name, "d": 8, "kappa": 2, "nodes": nodes, "edges": 4 * nodes,
        "method": method, "repeat": repeat, "seconds": seconds, "bytes": size, "reason": reason,
    }  # fmt: skip


def test_ratios_are_of_medians_and_only_where_both_ran():
    rows = [line("SSMA", seconds, 100, repeat=i) for i, seconds in enumerate((1.0, 2.0, 9.0))]
    rows += [line("paper", seconds, 450, repeat=i) for i, seconds in enumerate((6.0, 5.0, 40.0))]
    rows += [
        line("SSMA", 3.0, 200, 1000),
        {**line("paper", None, None, 1000, reason="not run: too large"), "repeat": None},
    ]
    gains = ratios(as_frame(rows))
    assert gains[["nodes", "time", "memory"]].to_numpy().tolist() == [[100, 3.0, 4.5]]
    shown = summary(as_frame(rows)).set_index(["nodes", "method"])
    assert shown.loc[(100, "SSMA"), ["seconds", "low", "high", "n"]].tolist() == [2.0, 1.0, 9.0, 3]
    assert shown.loc[(1000, "paper"), "n"] == 0


def test_what_does_not_fit_is_not_called_and_says_so(monkeypatch):
    grid = replace(QUICK, widths=(8,), kappas=(2,), nodes=(40, 400), stages=(), draw_nodes=50, draw_edges=100)
    called = []
    from ssma.bench import aggr

    whole = aggr.measure
    monkeypatch.setattr(
        aggr,
        "measure",
        lambda works, nodes, *rest, **named: called.append((list(works), nodes)) or whole(works, nodes, *rest, **named),
    )
    rows = [row for cell in run_aggr(grid, [CPU], Limits(seconds=1e-9, budget=0.01)) for row in cell]
    assert {nodes for works, nodes in called if works} == {4}  # the probe
    skipped = [row for row in rows if row["part"] in ("operator", "layers")]
    assert len(skipped) == 2 * 2 * (2 + 6)
    assert all(re.fullmatch(r"not run: needs about \S+ GB / \S+ s", row["reason"]) for row in skipped)
    text = page(as_frame(rows), {}, [])
    assert text.count("not run: needs about") == len(skipped)
    assert "nan" not in text.lower()


def test_the_grid_counts_its_cells():
    grid = replace(QUICK, nodes=(20,), kappas=(2,), widths=(8,))
    assert len(list(run_aggr(grid, [CPU], Limits(budget=0.001)))) == len(grid)
    assert len(Grid()) == 3 * 3 * 3 * 2 + 3 * 3 * 2 + 2 + 1


def test_compiled_is_measured_and_compared_where_it_is_asked_for():
    works = operator_works(4, 2, False, CPU, 9, compiled=True)
    assert list(works) == ["SSMA", "SSMA, compiled", "paper"]
    names = list(layers(16, random_graph(30, 120, CPU), 30, compiled=True))
    assert names[:2] == ["GCN + SSMA", "GCN + SSMA, compiled"]
    rows = [line(name, seconds, 10 * seconds) for name, seconds in zip(works, (4, 2, 12), strict=True)]
    frame = as_frame(rows)
    assert ratios(frame)["time"].tolist() == [3] and ratios(frame, "SSMA, compiled")["time"].tolist() == [6]
    shown = page(frame, {}, [])
    assert "Time, paper / SSMA, over 1 cells: geometric mean 3.0" in shown
    assert "Time, paper / SSMA, compiled, over 1 cells: geometric mean 6.0" in shown


def test_graph_is_sorted_by_target_and_the_same_every_time():
    edge_index = random_graph(1000, 4000, CPU)
    assert torch.equal(edge_index, random_graph(1000, 4000, CPU))
    assert edge_index.shape == (2, 4000)
    assert bool((edge_index[1].diff() >= 0).all())
    assert int(edge_index.min()) >= 0 and int(edge_index.max()) < 1000
    degrees = edge_index[1].bincount(minlength=1000)
    assert 0 < int((degrees == 0).sum()) < 40  # 1000 exp(-4) = 18
    assert random_graph(1000, 4000, CPU, skew=2.0)[1].bincount()[0] > 5 * degrees.max()


def test_layers_map_width_to_width():
    edge_index = random_graph(30, 120, CPU)
    for layer in layers(16, edge_index, 30).values():
        assert layer(torch.randn(30, 16), edge_index).shape == (30, 16)


def test_operator_works_have_equal_results():
    """What is timed is what was compared: the same messages, weights and gradient."""
    works = operator_works(16, 3, True, CPU, 50)
    grads = []
    for work in works.values():
        work.reset()
        work.run()
        leaf = next(
            cell.cell_contents
            for cell in work.run.__closure__
            if isinstance(cell.cell_contents, torch.Tensor) and cell.cell_contents.requires_grad
        )
        grads.append(leaf.grad)
    assert (grads[0] - grads[1]).norm() <= 1e-5 * grads[1].norm()


def test_stages_one_after_the_other_are_the_operator():
    torch.manual_seed(0)
    aggr = SSMAAggregation(8, 3)
    index = torch.arange(10).repeat_interleave(3)
    message = torch.randn(30, 8)
    calls = stages(aggr, message, index, 10)
    torch.testing.assert_close(calls[-1][1](), aggr(message, index, dim_size=10), rtol=1e-5, atol=1e-6)


def test_the_command_writes_page_numbers_and_figures(quick_bench):
    folder = quick_bench("aggr")
    names = {f"aggr-{part}-cpu.{kind}" for part in ("operator", "layers") for kind in ("png", "pdf")}
    assert {path.name for path in folder.iterdir()} == names | {"aggr.md", "aggr.csv"}
    frame = pd.read_csv(folder / "aggr.csv")
    counts = frame.dropna(subset="seconds").groupby(["part", "pass", "d", "kappa", "nodes", "method"]).size()
    assert counts.min() >= 3
    text = (folder / "aggr.md").read_text()
    assert "- threads: 1\n" in text
    mine = frame.query("part == 'operator' and `pass` == 'forward' and kappa == 4 and nodes == 400")
    medians = mine.groupby("method")["seconds"].median()
    row = next(part for part in text.splitlines() if part.startswith("| 32 | 4 | 400 |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[3].startswith(f"{1000 * medians['SSMA']:.3g} (")
    assert cells[5] == f"{medians['paper'] / medians['SSMA']:.1f}"


@pytest.mark.parametrize("options", [["--memory-share", "0"], ["--memory-share", "some"], ["--time-cap", "0"]])
def test_wrong_options_are_refused(options, capsys):
    with pytest.raises(SystemExit):
        main(["bench", "aggr", *options])
    assert "expected a" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_where_there_is_none_is_refused(tmp_path, capsys):
    assert main(["bench", "aggr", "--quick", "--device", "cuda", "--out", str(tmp_path)]) == 2
    assert "there is no CUDA device" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
