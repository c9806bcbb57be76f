import pytest
import torch
from raw_sets import SIZES, write_zinc
from torch_geometric.data import Data

from ssma.cli import main
from ssma.data import stats, zinc
from ssma.data.graphs import Graphs
from ssma.data.prepare import count_graphs
from ssma.study.config import parse_study
from ssma.study.plan import make_plan
from ssma.study.records import write_record

STUDY = {
    "study": "s",
    "layers": ["gcn"],
    "datasets": {
        "solubility": {"source": "zinc"},
        "made": {"source": "synthetic", "task": "product_regression", "num_graphs": 12},
        "MUTAG": {"source": "tu"},
    },
    "splits": {"folds": 3},
    "ablations": {"a": {"axes": {"aggregator": ["sum"]}}},
}


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    monkeypatch.setattr(zinc, "SIZES", SIZES)
    write_zinc(tmp_path / "mirror")
    return tmp_path / "mirror"


def cells(text):
    return [[cell for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def test_a_mirror_beside_the_paper(mirror, capsys):
    assert main(["data", "stats", "--mirror", str(mirror)]) == 0
    rows = [[cell.strip() for cell in row] for row in cells(capsys.readouterr().out)]
    at = next(number for number, row in enumerate(rows) if row[0] == "ZINC")
    # 7 graphs, 20 nodes, 16 directed edges; in-degrees 0..2
    assert rows[at] == ["ZINC", "ours", "7*", "2.86*", "2.29*", "0.80*", "0.75*", "1*"]
    assert rows[at + 1] == ["paper", "12000", "23.16", "49.83", "2.15", "0.72", "2"]
    assert ["Peptides-struct", "not in the mirror"] in rows
    assert ["paper", "41127", "25.51", "54.94", "2.15", "0.77", "2"] in rows


def test_a_set_that_cannot_be_read_keeps_the_others_in_the_table(mirror, capsys):
    folder = mirror / "TUDataset/mine/raw"
    folder.mkdir(parents=True)
    (folder / "mine_A.txt").write_text("1, 2\n2, 1\n")
    (mirror / "TUDataset/cut/raw").mkdir(parents=True)
    for part in ("A", "graph_indicator", "graph_labels"):
        (mirror / f"TUDataset/cut/raw/cut_{part}.txt").write_text("1, 2" if part == "A" else "1\n")
    (mirror / "OGB/ogbg_molhiv").mkdir(parents=True)
    assert main(["data", "stats", "--mirror", str(mirror)]) == 2
    told = capsys.readouterr()
    rows = [[cell.strip() for cell in row] for row in cells(told.out)]
    assert ["ZINC", "ours", "7*", "2.86*", "2.29*", "0.80*", "0.75*", "1*"] in rows
    assert ["mine", "cannot be read"] in rows and ["ogbg-molhiv", "cannot be read"] in rows
    first, cut, second = told.err.splitlines()[-3:]
    assert cut.startswith(f"{mirror}/TUDataset/cut/raw/cut_A.txt: the last line has no line end")
    assert first.startswith("ssma: data set ogbg-molhiv: RELEASE_v1.txt is not in")
    assert second.startswith("data set mine: mine_graph_indicator.txt is not in")


def test_a_study_beside_the_paper(tmp_path, mirror, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(mirror.parent))
    monkeypatch.setenv("SSMA_DATA_MIRROR", f"~/{mirror.name}")
    plan = make_plan(parse_study(STUDY))
    write_record(tmp_path / "plan.json", plan)
    for label in ("solubility", "made"):
        assert main(["prepare", str(tmp_path / "plan.json"), label]) == 0
    assert main(["data", "stats", str(tmp_path / "plan.json")]) == 0
    rows = [[cell.strip() for cell in row] for row in cells(capsys.readouterr().out)]
    assert [row[:2] for row in rows if len(row) > 1] == [
        ["data set", "graphs"], ["solubility", "ours"], ["paper", "12000"], ["made", "ours"], ["MUTAG", "not prepared"],
        ["paper", "188"],
    ]  # fmt: skip
    assert rows[3][2] == "12" and not any(cell.endswith("*") for cell in rows[3])


def test_only_differences_in_the_printed_digits_are_marked():
    paper = {
        "num_graphs": 188,
        "num_nodes": 3371,
        "num_edges": 7442,
        "in_degree": {"mean": 2.2076, "std": 0.7442, "median": 2},
    }
    spec = {"source": "tu", "name": "MUTAG"}
    assert stats._rows("MUTAG", paper, spec)[0] == ["MUTAG", "ours", "188", "17.93", "39.59", "2.21", "0.74", "2"]
    other = paper | {"num_edges": 7445}
    assert stats._rows("MUTAG", other, spec)[0][4] == "39.60*"


def test_a_median_between_two_degrees_is_their_mean():
    edges = torch.tensor([[0, 1, 2, 0, 1, 0], [1, 2, 2, 3, 3, 3]])  # in-degrees 0, 1, 2, 3
    graphs, _ = Graphs.from_data_list([Data(torch.ones(4, 1), edges, y=torch.tensor([0]))])
    found = count_graphs(graphs)
    assert found["in_degree"]["median"] == 1.5
    assert stats._rows("mine", found, {"source": "file"})[0][-1] == "1.5"
    assert stats._rows("MUTAG", found, {"source": "tu", "name": "MUTAG"})[0][-1] == "1.5*"


def test_a_folder_that_is_not_there(capsys):
    assert main(["data", "stats", "--mirror", "/no/such/folder"]) == 2
    assert "/no/such/folder: no such folder" in capsys.readouterr().err
