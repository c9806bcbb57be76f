"""The real data sets, where a mirror has them: their sizes, targets and splits are those that are published."""

import os
from pathlib import Path

import pytest

from ssma.data.prepare import count_graphs, load_source
from ssma.data.splits import make_splits
from ssma.data.stats import _rows

MIRROR = Path(os.environ.get("SSMA_DATA_MIRROR", Path(__file__).parents[2] / "../shared/data"))


def needs(folder):
    there = (MIRROR / folder).is_dir()
    return pytest.mark.skipif(
        not there, reason=f"no {folder} in {MIRROR} (set SSMA_DATA_MIRROR to a folder that has it)"
    )


def read(tmp_path, **spec):
    loaded = load_source({"features": "labels", "loss": None} | spec, tmp_path, MIRROR)
    differing = [cell for cell in _rows("", count_graphs(loaded.graphs), spec)[0] if cell.endswith("*")]
    assert differing == []  # from the paper's table
    return loaded


TU = [
    # name, features, node and edge columns, graphs, nodes, directed edges, members of the classes
    ("MUTAG", "labels", 7, 4, 188, 3371, 7442, [63, 125]),
    ("PTC_MR", "labels", 18, 4, 344, 4915, 10108, [192, 152]),
    ("ENZYMES", "labels", 3, None, 600, 19580, 74564, [100] * 6),
    ("PROTEINS", "labels", 3, None, 1113, 43471, 162088, [663, 450]),
    ("IMDB-BINARY", "random", 32, None, 1000, 19773, 193062, [500, 500]),
    ("IMDB-MULTI", "zeros", 1, None, 1500, 19502, 197806, [500] * 3),
    ("NCI1", "labels", 37, None, 4110, 122747, 265506, [2053, 2057]),
]


@pytest.mark.parametrize(
    ("name", "features", "width", "edge_width", "graphs", "nodes", "edges", "classes"),
    [pytest.param(*row, marks=needs(f"TUDataset/{row[0]}"), id=row[0]) for row in TU],
)
def test_tu(tmp_path, name, features, width, edge_width, graphs, nodes, edges, classes):
    loaded = read(tmp_path, source="tu", name=name, features=features)
    found = loaded.graphs
    assert (found.num_graphs, found.num_nodes, found.num_edges) == (graphs, nodes, edges)
    assert (found.x.size(1), None if found.edge_attr is None else found.edge_attr.size(1)) == (width, edge_width)
    assert found.y.bincount().tolist() == classes
    if name == "MUTAG":
        assert loaded.label_mapping == {"-1": 0, "1": 1}
    if name == "IMDB-BINARY":  # the folds of the paper's authors, known by their positives
        _, splits = make_splits(found.y, 10, "shuffle", 0)
        counts = [found.y[split["test"]].bincount().tolist() for split in splits]
        assert [56, 48, 51, 51, 39, 46, 46, 54, 54, 55] in [list(column) for column in zip(*counts, strict=True)]


@needs("ZINC")
def test_zinc(tmp_path):
    loaded = read(tmp_path, source="zinc")
    graphs = loaded.graphs
    assert {part: len(items) for part, items in loaded.split.items()} == {
        "train": 10_000,
        "validation": 1_000,
        "test": 1_000,
    }
    assert graphs.y[loaded.split["train"]].std().item() == pytest.approx(2.0109, abs=1e-4)
    assert graphs.y[loaded.split["train"]].mean().item() == pytest.approx(0.0153, abs=1e-4)
    assert (graphs.x.unique().numel(), int(graphs.x.max())) == (21, 20)
    assert graphs.edge_attr.unique().tolist() == [1, 2, 3]


@needs("LRGB/peptides-func")
def test_peptides_func(tmp_path):
    loaded = read(tmp_path, source="lrgb", name="Peptides-func")
    graphs = loaded.graphs
    assert (graphs.num_graphs, graphs.num_nodes, graphs.num_edges) == (15_535, 2_344_859, 4_773_974)
    assert [len(items) for items in loaded.split.values()] == [10_873, 2_331, 2_331]
    assert graphs.y.shape == (15_535, 10) and set(graphs.y.unique().tolist()) == {0, 1}


@needs("OGB/ogbg_molhiv")
def test_molhiv(tmp_path):
    loaded = read(tmp_path, source="ogbg", name="ogbg-molhiv")
    graphs = loaded.graphs
    assert [len(items) for items in loaded.split.values()] == [32_901, 4_113, 4_113]
    assert graphs.y.shape == (41_127, 1) and graphs.y.sum() == 1_443
    columns = graphs.x.max(dim=0).values + 1, graphs.edge_attr.max(dim=0).values + 1
    for used, known in zip(columns, (loaded.vocabulary["x"], loaded.vocabulary["edge_attr"]), strict=True):
        assert all(a <= b for a, b in zip(used.tolist(), known, strict=True))
