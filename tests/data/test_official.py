"""Data sets with an official split, on tiny files in the formats of the real ones."""

import builtins
import gzip
import io
import shutil
import socket
import sys
import time
import zipfile

import pytest
import torch
from raw_sets import ORDER, SHAPES, SIZES, change_a_bit, directed, write_lrgb, write_ogb, write_tables, write_zinc

from ssma.data import lrgb, ogb, raw, zinc
from ssma.data.prepare import load, prepare
from ssma.errors import StudyError
from ssma.study.ids import file_fingerprint
from ssma.study.records import read_record

PCBA = [[(None, 1, 0)[(graph + task) % 3] for task in range(128)] for graph in range(7)]
HIV = [[graph % 2] for graph in range(7)]
SPLIT = {"train": [0, 1, 2], "validation": [3, 4], "test": [5, 6]}


@pytest.fixture(autouse=True)
def tiny_sizes(monkeypatch):
    monkeypatch.setattr(zinc, "SIZES", SIZES)
    monkeypatch.setattr(lrgb, "SIZES", SIZES)
    monkeypatch.setattr(ogb, "SIZES", dict.fromkeys(ogb.SIZES, SIZES))


@pytest.fixture
def mirror(tmp_path):
    return tmp_path / "mirror"


def read(module, tmp_path, mirror, **spec):
    return module.load({"loss": None, **spec}, tmp_path / "work", mirror)


def prepared(folder, mirror, spec, splits=None):
    """Returns the card of a data set that is prepared in a folder."""
    entry = {"id": "d-1", "label": "d", "spec": spec, "splits": splits or {"scheme": "official"}}
    return prepare(folder, entry, mirror)


def edges_of(graphs, number):
    own = slice(graphs.edge_ptr[number], graphs.edge_ptr[number + 1])
    return own, sorted(map(tuple, graphs.edge_index[:, own].t().tolist()))


def check_structure(loaded):
    graphs = loaded.graphs
    assert loaded.split == SPLIT
    assert graphs.num_graphs == 7
    for place, number in enumerate(ORDER):
        nodes, edges = SHAPES[number]
        own = slice(graphs.node_ptr[place], graphs.node_ptr[place + 1])
        assert graphs.x[own, 0].tolist() == [number + node for node in range(nodes)]
        assert edges_of(graphs, place)[1] == directed(edges)


def test_zinc(tmp_path, mirror):
    write_zinc(mirror)
    loaded = read(zinc, tmp_path, mirror)
    check_structure(loaded)
    graphs = loaded.graphs
    assert graphs.x.dtype == torch.int64
    assert graphs.y.tolist() == [[number + 0.5] for number in ORDER]
    for place in range(7):
        own, _ = edges_of(graphs, place)
        a, b = graphs.edge_index[:, own]
        assert graphs.edge_attr[own, 0].tolist() == (1 + (a + b) % 3).tolist()
    assert (loaded.task, loaded.metric, loaded.direction, loaded.num_outputs) == ("regression", "mae", "minimize", 1)
    assert loaded.vocabulary == {"x": [28], "edge_attr": [4]}
    assert loaded.raw_files["raw/val.pickle"] == file_fingerprint(mirror / "ZINC/raw/val.pickle")
    assert len(loaded.raw_files) == 6
    assert loaded.notes == ["variant: the 12k subset with its official split"]


@pytest.mark.parametrize(
    ("name", "outputs", "loss", "words"),
    [
        ("Peptides-func", 10, None, ("multilabel", "ap", "maximize", "bce")),
        ("Peptides-struct", 11, None, ("regression", "mae", "minimize", "l1")),
        ("Peptides-struct", 11, "mse", ("regression", "mae", "minimize", "mse")),
    ],
)
def test_lrgb(tmp_path, mirror, name, outputs, loss, words):
    write_lrgb(mirror, name.lower(), outputs)
    spec = {"source": "lrgb", "name": name, "loss": loss}
    loaded = lrgb.load(spec, tmp_path / "work", mirror)
    check_structure(loaded)
    graphs = loaded.graphs
    if outputs == 10:
        assert graphs.y.tolist() == [[(task + number) % 2 for task in range(10)] for number in ORDER]
    else:
        assert graphs.y.tolist() == [[task + number / 4 for task in range(11)] for number in ORDER]
    own, _ = edges_of(graphs, 5)  # the triangle
    a, b = graphs.edge_index[:, own]
    assert graphs.edge_attr[own].tolist() == torch.stack([b % 2, a % 3, torch.ones_like(a)], dim=1).tolist()
    card = prepared(tmp_path / "p", mirror, spec)
    assert (card["task"], card["metric"], card["direction"], card["loss"]) == words
    assert card["num_outputs"] == outputs
    assert card["x"] == {"kind": "categorical", "cardinalities": [119, 5, 12, 12, 10, 6, 6, 2, 2]}
    assert card["edge_attr"] == {"kind": "categorical", "cardinalities": [5, 6, 2]}


def test_ogb_with_missing_labels(tmp_path, mirror):
    write_ogb(mirror, "ogbg_molpcba", PCBA)
    loaded = read(ogb, tmp_path, mirror, name="ogbg-molpcba")
    check_structure(loaded)
    y = [[None if label != label else label for label in row] for row in loaded.graphs.y.tolist()]
    assert y == [PCBA[number] for number in ORDER]
    own, _ = edges_of(loaded.graphs, 5)
    pairs = loaded.graphs.edge_index[:, own]
    assert loaded.graphs.edge_attr[own].tolist() == [[min(a, b), max(a, b), 0] for a, b in pairs.t().tolist()]
    assert (loaded.task, loaded.metric, loaded.num_outputs) == ("multilabel", "ap", 128)
    assert len(loaded.raw_files) == 10


@pytest.mark.parametrize(("table", "rows"), [("edge", 9), ("edge-feat", 7), ("node-feat", 21)])
def test_ogb_with_a_table_of_another_length(tmp_path, mirror, table, rows):
    write_ogb(mirror, "ogbg_molhiv", HIV)
    width = {"edge": 2, "edge-feat": 3, "node-feat": 9}[table]
    write_tables(mirror / "OGB/ogbg_molhiv", {f"raw/{table}": [(0,) * width] * rows})
    sizes = "num-node-list.csv.gz says 20" if table == "node-feat" else "num-edge-list.csv.gz says 8"
    with pytest.raises(StudyError, match=f"ogbg-molhiv: {table}.csv.gz has {rows} rows but {sizes}"):
        read(ogb, tmp_path, mirror, name="ogbg-molhiv")


def test_ogb_with_a_table_that_has_an_empty_line_or_no_last_end_of_one(tmp_path, mirror):
    write_ogb(mirror, "ogbg_molhiv", HIV)
    for table, more in (("edge", "\n\n"), ("edge-feat", "")):
        path = mirror / f"OGB/ogbg_molhiv/raw/{table}.csv.gz"
        text = gzip.decompress(path.read_bytes()).decode().rstrip() + more
        path.write_bytes(gzip.compress(text.encode()))
    check_structure(read(ogb, tmp_path, mirror, name="ogbg-molhiv"))


def test_codes_that_were_written_as_real_numbers_are_refused(tmp_path, mirror):
    write_ogb(mirror, "ogbg_molhiv", HIV)
    write_tables(mirror / "OGB/ogbg_molhiv", {"raw/node-feat": [(float(node), *[0.0] * 8) for node in range(20)]})
    with pytest.raises(StudyError, match="x: got real numbers but expected whole ones, codes"):
        prepared(tmp_path / "a", mirror, {"source": "ogbg", "name": "ogbg-molhiv"})


def test_ogb_with_another_split_beside_the_text_files(tmp_path, mirror):
    write_ogb(mirror, "ogbg_molhiv", HIV)
    numbers = {"train": torch.arange(3), "valid": torch.arange(3, 5), "test": torch.arange(5, 7)}
    torch.save(numbers, mirror / "OGB/ogbg_molhiv/split/scaffold/split_dict.pt")  # which OGB's loader prefers
    assert read(ogb, tmp_path, mirror, name="ogbg-molhiv").graphs.y.flatten().tolist() == [n % 2 for n in ORDER]


def test_ogb_twice_and_without_its_look_for_a_newer_version(tmp_path, mirror):
    write_ogb(mirror, "ogbg_molhiv", HIV)
    for _ in range(2):
        loaded = read(ogb, tmp_path, mirror, name="ogbg-molhiv")
        assert loaded.graphs.y.tolist() == [[number % 2] for number in ORDER]
        assert (loaded.metric, loaded.num_outputs) == ("auroc", 1)
    assert sys.modules["ogb.version"].check_outdated is None
    assert not (tmp_path / "work/ogbg_molhiv/processed").exists()
    assert sorted(path.name for path in (mirror / "OGB/ogbg_molhiv").iterdir()) == ["RELEASE_v1.txt", "raw", "split"]


def test_changed_raw_files_are_read_again(tmp_path, mirror):
    write_ogb(mirror, "ogbg_molhiv", [[0]] * 6 + [[1]])
    assert read(ogb, tmp_path, mirror, name="ogbg-molhiv").graphs.y.sum() == 1
    shutil.rmtree(mirror)
    write_ogb(mirror, "ogbg_molhiv", [[1]] * 7)
    cache = tmp_path / "work/ogbg_molhiv/processed"
    cache.mkdir()
    (cache / "geometric_data_processed.pt").write_bytes(b"left by a job that was killed")
    assert read(ogb, tmp_path, mirror, name="ogbg-molhiv").graphs.y.sum() == 7


def test_prepare_keeps_the_official_split(tmp_path, mirror):
    write_zinc(mirror)
    card = prepared(tmp_path / "z", mirror, {"source": "zinc"})
    record = read_record(tmp_path / "z/splits.json")
    assert (record["scheme"], record["items"], len(record["splits"])) == ("official", "graphs", 1)
    assert "folds" not in record and "seed" not in record
    assert {part: record["splits"][0][part] for part in SPLIT} == SPLIT
    assert load(tmp_path / "z").splits == record["splits"]
    assert (card["x"]["cardinalities"], card["edge_attr"]["cardinalities"], card["loss"]) == ([28], [4], "l1")


@pytest.mark.parametrize("scheme", ["stratified", "shuffle"])
def test_folds_of_an_official_split_are_refused(tmp_path, mirror, scheme):
    write_zinc(mirror)
    splits = {"scheme": scheme, "folds": 3, "seed": 0}
    with pytest.raises(StudyError, match=f"got '{scheme}', but the data set has an official split"):
        prepared(tmp_path / "z", mirror, {"source": "zinc"}, splits)


def test_codes_beyond_the_vocabulary_are_refused(tmp_path, mirror, monkeypatch):
    write_zinc(mirror)
    monkeypatch.setattr(zinc, "ATOM_TYPES", 10)
    with pytest.raises(StudyError, match=r"x: got columns with up to \[11\] codes but expected at most \[10\]"):
        prepared(tmp_path / "z", mirror, {"source": "zinc"})


def test_a_graph_without_nodes_is_left_out_of_graphs_and_split(tmp_path, mirror):
    write_lrgb(mirror, "peptides-func", 10)
    path = mirror / "LRGB/peptides-func/raw/train.pt"
    graphs = torch.load(path)
    nothing = [torch.empty(shape, dtype=torch.int64) for shape in ((0, 9), (0, 3), (2, 0))]
    torch.save([graphs[0], (*nothing, torch.zeros(1, 10)), graphs[2]], path)
    loaded = read(lrgb, tmp_path, mirror, name="Peptides-func")
    assert loaded.dropped_graphs == 1
    assert loaded.split == {"train": [0, 1], "validation": [2, 3], "test": [4, 5]}
    assert loaded.graphs.y[loaded.split["test"]].tolist() == [
        [(task + number) % 2 for task in range(10)] for number in (3, 4)
    ]


def test_another_variant_is_refused(tmp_path, mirror, monkeypatch):
    write_zinc(mirror)
    monkeypatch.setattr(zinc, "SIZES", (10_000, 1_000, 1_000))
    with pytest.raises(StudyError, match="got 3/2/2 graphs for training/validation/test but expected 10000/1000/1000"):
        read(zinc, tmp_path, mirror)


def test_a_changed_bit_in_a_raw_file_is_refused(tmp_path, mirror):
    """torch looks at no check sum: it was another feature."""
    write_lrgb(mirror, "peptides-func", 10)
    change_a_bit(mirror / "LRGB/peptides-func/raw/val.pt")
    with pytest.raises(
        StudyError, match=r"cannot be read \(BadZipFile: Bad CRC-32 for file 'val/data/.*fetch them again"
    ):
        read(lrgb, tmp_path, mirror, name="Peptides-func")


def test_targets_of_the_other_peptides_are_refused(tmp_path, mirror):
    write_lrgb(mirror, "peptides-struct", 10)
    with pytest.raises(StudyError, match=r"targets of shape \[7, 10\] but expected 11 columns"):
        read(lrgb, tmp_path, mirror, name="Peptides-struct")


def test_a_graph_in_two_parts_is_refused(tmp_path, mirror):
    write_ogb(mirror, "ogbg_molhiv", [[1]] * 7)
    folder = mirror / "OGB/ogbg_molhiv/split/scaffold"
    shutil.copy(folder / "test.csv.gz", folder / "valid.csv.gz")
    with pytest.raises(StudyError, match="the split in .* names a graph twice"):
        read(ogb, tmp_path, mirror, name="ogbg-molhiv")


@pytest.mark.parametrize("module", [zinc, lrgb])
def test_one_file_for_two_parts_is_refused(tmp_path, mirror, module):
    """Validation copied over test: as many graphs, but each epoch would be chosen by the test part."""
    if module is zinc:
        write_zinc(mirror)
        names, options = ("val.pickle", "test.pickle"), {}
    else:
        write_lrgb(mirror, "peptides-func", 10)
        names, options = ("val.pt", "test.pt"), {"name": "Peptides-func"}
    (first,) = mirror.rglob(names[0])
    shutil.copy(first, first.with_name(names[1]))
    if module is zinc:
        shutil.copy(first.with_name("val.index"), first.with_name("test.index"))
    with pytest.raises(StudyError, match=f"raw/{names[0]} and raw/{names[1]} are the same, so that one part of the"):
        read(module, tmp_path, mirror, **options)


CASES = {
    "zinc": (zinc, {}, write_zinc, "ZINC/raw/val.index", "dropbox.com.*val.index"),
    "lrgb": (
        lrgb, {"name": "Peptides-func"}, lambda mirror: write_lrgb(mirror, "peptides-func", 10),
        "LRGB/peptides-func/raw/test.pt", "dropbox.com.*peptidesfunc.zip",
    ),
    "ogb": (
        ogb, {"name": "ogbg-molpcba"}, lambda mirror: write_ogb(mirror, "ogbg_molpcba", PCBA),
        "OGB/ogbg_molpcba/raw/num-edge-list.csv.gz", "snap.stanford.edu.*/pcba.zip",
    ),
    "ogb without a release": (
        ogb, {"name": "ogbg-molhiv"}, lambda mirror: write_ogb(mirror, "ogbg_molhiv", PCBA),
        "OGB/ogbg_molhiv/RELEASE_v1.txt", "snap.stanford.edu.*/hiv.zip",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("module", "spec", "write", "file", "origin"), CASES.values(), ids=CASES)
def test_a_missing_file_is_named_soon_and_nothing_is_asked(
    tmp_path, mirror, monkeypatch, module, spec, write, file, origin
):
    monkeypatch.setattr(builtins, "input", lambda *args: pytest.fail("a question was asked"))
    write(mirror)
    (mirror / file).unlink()
    folder, _, name = file.rpartition("/")
    start = time.monotonic()
    with pytest.raises(StudyError, match=f"{name} is not in {mirror}/{folder};.*{origin}.*data.mirror"):
        read(module, tmp_path, mirror, **spec)
    assert time.monotonic() - start < 1


@pytest.mark.parametrize(("module", "spec", "write", "file", "origin"), CASES.values(), ids=CASES)
def test_a_damaged_file_is_one_error(tmp_path, mirror, module, spec, write, file, origin):
    write(mirror)
    if file.endswith("RELEASE_v1.txt"):
        file = "OGB/ogbg_molhiv/raw/edge.csv.gz"
    (mirror / file).write_bytes(b"\0")
    with pytest.raises(StudyError, match=f"the files in {(mirror / file).parents[1]} cannot be read"):
        read(module, tmp_path, mirror, **spec)


@pytest.mark.parametrize("kind", ["zinc", "lrgb", "ogb"])
def test_without_network_and_mirror(tmp_path, monkeypatch, kind):
    module, spec, _, _, origin = CASES[kind]

    def unreachable(*args, **kwargs):
        raise OSError("network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    start = time.monotonic()
    with pytest.raises(StudyError, match=f"is not in {tmp_path}/work/.*{origin}.*could not be downloaded.*unreachable"):
        read(module, tmp_path, None, **spec)
    assert time.monotonic() - start < 5
    assert not list((tmp_path / "work").glob("*"))


@pytest.mark.parametrize("kind", ["zinc", "lrgb", "ogb"])
def test_downloads_once(tmp_path, mirror, monkeypatch, kind):
    module, spec, write, _, _ = CASES[kind]
    write(mirror)
    top = mirror / {"zinc": "ZINC/raw", "lrgb": "LRGB/peptides-func/raw", "ogb": "OGB/ogbg_molpcba"}[kind]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(top.rglob("*")):
            if not path.name.endswith(".index"):
                file.write(path, f"top/{path.relative_to(top)}")
        file.writestr("top/../../outside.pickle", "")
    asked = []

    def answer(url, timeout):
        asked.append(url)
        name = url.rpartition("/")[2]
        return (top / name).open("rb") if name.endswith(".index") else io.BytesIO(archive.getvalue())

    monkeypatch.setattr(raw, "urlopen", answer)
    for _ in range(2):
        check_structure(read(module, tmp_path, None, **spec))
    assert len(asked) == (4 if kind == "zinc" else 1)
    assert not list(tmp_path.glob("outside*")) and not list((tmp_path / "work").glob("outside*"))
    assert not list((tmp_path / "work").glob("*.partial"))
    check_structure(read(module, tmp_path, mirror, **spec))  # a mirror that comes later is used
    assert len(asked) == (4 if kind == "zinc" else 1)
