"""arxiv and products, on tiny files in the format of the real ones."""

import builtins
import gzip
import sys
import time
from types import SimpleNamespace

import pymetis
import pytest
import torch
from raw_sets import OGBN_EDGES, OGBN_NODES, OGBN_SIZES, OGBN_SPLIT, directed, write_ogbn, write_tables

from ssma.cli import main
from ssma.data import ogbn
from ssma.data.partition import partition
from ssma.data.prepare import load, prepare
from ssma.errors import StudyError
from ssma.study.ids import file_fingerprint

SPEC = {"source": "ogbn", "name": "ogbn-arxiv", "undirected": True, "parts": 6, "parts_seed": 0}


@pytest.fixture(autouse=True)
def tiny_sizes(monkeypatch):
    monkeypatch.setattr(ogbn, "SIZES", dict.fromkeys(ogbn.SIZES, OGBN_SIZES))


@pytest.fixture
def mirror(tmp_path):
    for name in ("ogbn_arxiv", "ogbn_products"):
        write_ogbn(tmp_path / "mirror", name)
    return tmp_path / "mirror"


def read(tmp_path, mirror, **spec):
    return ogbn.load(SPEC | spec, tmp_path / "work", mirror)


def edges_of(graphs):
    return sorted(map(tuple, graphs.edge_index.t().tolist()))


@pytest.mark.parametrize("name", ["ogbn-arxiv", "ogbn-products"])
def test_every_edge_has_both_directions_once(tmp_path, mirror, name):
    loaded = read(tmp_path, mirror, name=name)
    graphs = loaded.graphs
    assert edges_of(graphs) == directed(OGBN_EDGES)
    assert graphs.edge_index[1].diff().min() == 0  # sorted by target
    assert graphs.x.tolist() == [[n / 8, -1.5, float(n % 5 == 0)] for n in range(OGBN_NODES)]
    assert (graphs.x.dtype, graphs.y.tolist()) == (torch.float32, [n % 5 for n in range(OGBN_NODES)])
    assert loaded.split == dict(zip(("train", "validation", "test"), OGBN_SPLIT.values(), strict=True))
    assert (loaded.task, loaded.metric, loaded.direction, loaded.level) == (
        "multiclass",
        "accuracy",
        "maximize",
        "node",
    )
    assert loaded.num_outputs == {"ogbn-arxiv": 40, "ogbn-products": 47}[name]
    folder = mirror / "OGB" / name.replace("-", "_")
    assert loaded.raw_files["raw/edge.csv.gz"] == file_fingerprint(folder / "raw/edge.csv.gz")
    assert len(loaded.raw_files) == {"ogbn-arxiv": 10, "ogbn-products": 9}[name]
    assert not (tmp_path / "work" / folder.name / "processed").exists()
    words = {"ogbn-arxiv": ("44 as they come", "1 self-loops"), "ogbn-products": ("84 as they come", "0 self-loops")}
    assert all(word in loaded.notes[0] for word in (*words[name], "84 with both directions"))


def test_edges_as_ogb_has_them(tmp_path, mirror):
    loaded = read(tmp_path, mirror, undirected=False)
    assert edges_of(loaded.graphs) == sorted([*OGBN_EDGES, (0, 1), (5, 5)])
    targets = {target for _, target in edges_of(loaded.graphs)}
    silent = {source for source, _ in edges_of(loaded.graphs)} - targets
    assert loaded.notes == [
        "edges: of 44, 41 have none that leads back, 1 are self-loops; they are used as they are",  # (1, 0) has (0, 1)
        f"nodes: {len(silent)} have edges to others and none into them; gcn normalises by the edges into both ends, so "
        "that it leaves their messages out unless model.self_loops is true",
    ]
    loaded = read(tmp_path, mirror, name="ogbn-products", undirected=False)
    assert edges_of(loaded.graphs) == directed(OGBN_EDGES)  # OGB itself adds the other directions
    assert loaded.notes == []


def test_the_parts_are_the_groups(tmp_path, mirror):
    dataset = {"id": "a-1", "label": "a", "spec": SPEC, "splits": {"scheme": "official"}}
    card = prepare(tmp_path / "a", dataset, mirror)
    assert card["parts"] == {"count": 6, "seed": 0, "nodes": {"min": 4, "max": 4}, "cut_edges": 12}
    assert card["x"] == {"kind": "continuous", "width": 3}
    assert (card["num_graphs"], card["num_nodes"], card["num_edges"], card["loss"]) == (1, 24, 84, "cross_entropy")
    stored = load(tmp_path / "a")
    groups = stored.graphs.part.view(6, 4)
    assert groups.eq(groups[:, :1]).all() and sorted(groups[:, 0].tolist()) == list(range(6))
    assert stored.splits[0]["train"] == OGBN_SPLIT["train"]


def test_parts_are_part_of_the_data(tmp_path, mirror):
    hashes = {read(tmp_path, mirror, parts=parts).graphs.content_hash() for parts in (1, 2, 6, 6)}
    assert len(hashes) == 3
    assert read(tmp_path, mirror, parts=1).parts["cut_edges"] == 0


def test_the_seed_of_the_parts():
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(0, 900, (4000,), generator=generator)
    edges = torch.stack([source, (source + torch.randint(1, 30, (4000,), generator=generator)) % 900])
    parts = [partition(edges, 900, 12, seed) for seed in (0, 0, 1, 2)]
    assert parts[0].equal(parts[1])
    assert not any(parts[a].equal(parts[b]) for a, b in ((0, 2), (0, 3), (2, 3)))
    assert parts[0].equal(partition(edges.flip(0), 900, 12, 0))  # directions make no difference
    sizes = parts[0].bincount()
    assert sizes.numel() == 12 and sizes.max() <= 1.1 * 75
    cut = (parts[0][edges[0]] != parts[0][edges[1]]).sum()
    assert cut < 0.5 * 4000  # at random, 11 of 12 edges are cut


def test_too_many_parts(tmp_path, mirror, monkeypatch):
    with pytest.raises(StudyError, match="parts: got 13 for 24 nodes, a part needs two; use at most 12"):
        read(tmp_path, mirror, parts=13)
    monkeypatch.setattr(pymetis, "part_graph", lambda *args, **options: SimpleNamespace(vertex_part=[0] * 23 + [1]))
    with pytest.raises(StudyError, match="METIS made 3 parts, one with 0 nodes; a part needs two, use fewer parts"):
        read(tmp_path, mirror, parts=3)
    with pytest.raises(StudyError, match="METIS made 2 parts, one with 1 node;"):
        read(tmp_path, mirror, parts=2)


def test_without_metis(tmp_path, mirror, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(StudyError, match="pip install pymetis, or set parts to 1"):
        read(tmp_path, mirror)
    assert read(tmp_path, mirror, parts=1).graphs.part.sum() == 0


def test_another_variant_is_refused(tmp_path, mirror, monkeypatch):
    monkeypatch.setattr(ogbn, "SIZES", {"ogbn-arxiv": (90_941, 29_799, 48_603)})
    with pytest.raises(StudyError, match="got 24 nodes, 12/4/8 of them .* but expected 90941/29799/48603"):
        read(tmp_path, mirror)
    monkeypatch.setattr(ogbn, "SIZES", {"ogbn-arxiv": OGBN_SIZES})
    monkeypatch.setattr(ogbn, "CLASSES", {"ogbn-arxiv": 4})
    with pytest.raises(StudyError, match="got class 4 but expected 0 to 3"):
        read(tmp_path, mirror)


def test_a_node_in_two_parts_of_the_split_is_refused(tmp_path, mirror):
    numbers = "".join(f"{number}\n" for number in OGBN_SPLIT["train"][:8])
    (mirror / "OGB/ogbn_arxiv/split/time/test.csv.gz").write_bytes(gzip.compress(numbers.encode()))
    with pytest.raises(StudyError, match="split/time names a node twice"):
        read(tmp_path, mirror)


@pytest.mark.parametrize(
    "file", ["RELEASE_v1.txt", "raw/node_year.csv.gz", "raw/node-label.csv.gz", "split/time/valid.csv.gz"]
)
def test_a_missing_file_is_named_soon_and_nothing_is_asked(tmp_path, mirror, monkeypatch, file):
    monkeypatch.setattr(builtins, "input", lambda *args: pytest.fail("a question was asked"))
    (mirror / "OGB/ogbn_arxiv" / file).unlink()
    folder, _, name = f"OGB/ogbn_arxiv/{file}".rpartition("/")
    start = time.monotonic()
    with pytest.raises(StudyError, match=f"{name} is not in {mirror}/{folder};.*nodeproppred/arxiv.zip.*data.mirror"):
        read(tmp_path, mirror)
    assert time.monotonic() - start < 1


@pytest.mark.parametrize(
    ("table", "rows", "sizes"),
    [("raw/edge", OGBN_EDGES, "num-edge-list.csv.gz says 44"), ("raw/node-label", [(0,)] * 25, "num-node-list")],
)
def test_a_table_of_another_length_is_refused(tmp_path, mirror, table, rows, sizes):
    write_tables(mirror / "OGB/ogbn_arxiv", {table: rows})
    with pytest.raises(StudyError, match=f"{table[4:]}.csv.gz has {len(rows)} rows but {sizes}.*arxiv/raw are incompl"):
        read(tmp_path, mirror)


def test_the_split_is_that_of_the_files_which_are_hashed(tmp_path, mirror):
    numbers = {"train": torch.arange(12), "valid": torch.arange(12, 16), "test": torch.arange(16, 24)}
    torch.save(numbers, mirror / "OGB/ogbn_arxiv/split/time/split_dict.pt")  # which OGB's loader prefers
    assert list(read(tmp_path, mirror).split.values()) == list(OGBN_SPLIT.values())


def test_a_damaged_file_is_one_error(tmp_path, mirror):
    (mirror / "OGB/ogbn_arxiv/raw/edge.csv.gz").write_bytes(b"\0")
    with pytest.raises(StudyError, match=f"ogbn-arxiv: the files in {mirror}/OGB/ogbn_arxiv cannot be read"):
        read(tmp_path, mirror)


def test_both_stand_beside_the_paper(mirror, capsys):
    assert main(["data", "stats", "--mirror", str(mirror)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    at = next(number for number, row in enumerate(rows) if row[0] == "ogbn-arxiv")
    assert rows[at] == ["ogbn-arxiv", "ours", "1", "24*", "44*", "1.83*", "1.5*", "1.5*"]
    assert rows[at + 1] == ["paper", "1", "169343", "1166243", "6.89", "67.6", "1"]
    at = next(number for number, row in enumerate(rows) if row[0] == "ogbn-products")
    assert rows[at][:5] == ["ogbn-products", "ours", "1", "24*", "84*"]
