"""The benchmark of the data path, and what it stands on: the data sets and the plain lists of graphs."""

import pandas as pd
import pytest
import torch

from ssma.bench.data import DATA_QUICK, run_data
from ssma.bench.sets import REAL, SHAPES, SYNTHETIC, as_data_list, bench_set, random_graphs
from ssma.bench.tables import DATA_CELL, MEASURED, as_frame, data_page
from ssma.data.graphs import Graphs

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", ["MUTAG", "PROTEINS"])
def test_random_graphs_have_the_sizes_of_the_set(name):
    shape = SHAPES[name]
    data = random_graphs(shape)
    graphs, _ = Graphs.from_data_list(data)
    assert len(data) == shape.graphs
    assert graphs.num_nodes / shape.graphs == pytest.approx(shape.nodes, rel=0.05)
    assert graphs.num_edges / shape.graphs == pytest.approx(shape.edges, rel=0.05)
    assert graphs.x.size(1) == shape.x[0]
    assert (graphs.edge_attr is None) is (shape.edge_attr is None)
    again = random_graphs(shape)
    assert all(torch.equal(one.edge_index, other.edge_index) for one, other in zip(data, again, strict=True))


def test_graphs_become_the_same_list_again():
    data = random_graphs(SHAPES["MUTAG"])[:9]
    graphs, _ = Graphs.from_data_list(data)
    for found, item in zip(as_data_list(graphs, [4, 0, 8]), (4, 0, 8), strict=True):
        order = data[item].edge_index[1].argsort(stable=True)
        assert torch.equal(found.x, data[item].x) and torch.equal(found.y, data[item].y)
        assert torch.equal(found.edge_index, data[item].edge_index[:, order])
        assert torch.equal(found.edge_attr, data[item].edge_attr[order])
        assert found.x.untyped_storage().nbytes() == found.x.nbytes  # no view of the whole


def test_a_set_that_is_not_there_is_replaced_and_says_so(tmp_path, caplog):
    bench = bench_set("MUTAG", tmp_path / "nothing", tmp_path / "work", [("gcn", "sum", {})], {"model.budget": 999})
    assert (bench.origin, bench.prepared.graphs.num_graphs) == (SYNTHETIC, 188)
    assert "the benchmark takes random graphs of its sizes" in caplog.text
    (arm,) = bench.arms
    settings = arm["settings"]
    assert (arm["layer"], arm["aggregator"], settings["model"]["budget"]) == ("gcn", "sum", 999)
    assert (settings["model"]["num_layers"], settings["training"]["batch_size"]) == (6, 32)  # the paper's


def test_every_epoch_is_in_the_rows(tmp_path):
    ((*rows,),) = run_data(DATA_QUICK, [CPU], 0.01, None, tmp_path)
    frame = as_frame(rows, [*DATA_CELL, *MEASURED])
    assert frame.groupby("method")["repeat"].apply(list).to_dict() == {"PyG": [0, 1, 2], "package": [0, 1, 2]}
    assert (frame["seconds"] > 0).all()


def test_the_page_shows_medians_and_their_ratio():
    cell = {"device": "cpu", "dataset": "MUTAG", "origin": REAL, "graphs": 1188, "batch_size": 32}
    times = {"package": (0.001, 0.002, 0.009), "PyG": (0.03, 0.02, 0.01)}
    rows = [
        cell | {"method": method, "repeat": number, "seconds": each}
        for method, values in times.items()
        for number, each in enumerate(values)
    ]
    text = data_page(as_frame(rows, [*DATA_CELL, *MEASURED]), {"CPU": "fast"}, ["data-cpu.png"])
    assert "| cpu | MUTAG | real | 1,188 | 32 | 2 (1..9) | 20 (10..30) | 10.0 | 3 |" in text
    assert "- CPU: fast\n" in text and text.endswith("![data-cpu.png](data-cpu.png)\n")


def test_the_command_writes_page_numbers_and_figure(quick_bench):
    folder = quick_bench("data")
    names = {"data.md", "data.csv", "data-cpu.png", "data-cpu.pdf"}
    assert {path.name for path in folder.iterdir()} == names
    frame = pd.read_csv(folder / "data.csv")
    medians = 1000 * frame.groupby("method")["seconds"].median()
    (row,) = [line for line in (folder / "data.md").read_text().splitlines() if line.startswith("| cpu |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:5] == ["MUTAG", SYNTHETIC, "188", "32"]
    assert cells[5].startswith(f"{medians['package']:.3g} (") and cells[6].startswith(f"{medians['PyG']:.3g} (")
    assert cells[7] == f"{medians['PyG'] / medians['package']:.1f}"
    assert medians["PyG"] > 2 * medians["package"]
