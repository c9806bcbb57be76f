"""A set of three graphs by hand: a path 1-2-3, an edge 4-5, a lone node 6 at the end."""

import io
import socket
import time
import zipfile

import pytest
import torch

from ssma.data import raw as raw_files
from ssma.data import tu
from ssma.errors import StudyError

EDGES = "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n"
FILES = {
    "A": EDGES,
    "graph_indicator": "1\n1\n1\n2\n2\n3\n",
    "graph_labels": "5\n1\n2\n",
    "node_labels": "3\n4\n3\n4\n3\n5\n",
    "node_attributes": "0.5, 1\n1.5, 2\n2.5, 3\n3.5, 4\n4.5, 5\n5.5, 6\n",
    "edge_labels": "0\n0\n1\n1\n2\n2\n",
    "edge_attributes": "9\n9\n8\n8\n7\n7\n",
}


def write_set(folder, name="TINY", **changed):
    """Writes the files with these texts in place of theirs; one of None is left out."""
    raw = folder / "TUDataset" / name / "raw"
    raw.mkdir(parents=True)
    for part, text in (FILES | changed).items():
        if text is not None:
            (raw / f"{name}_{part}.txt").write_text(text)
    return folder


def read(tmp_path, mirror, name="TINY", **options):
    return tu.load({"source": "tu", "name": name, **options}, tmp_path / "work", mirror)


def test_values_by_hand(tmp_path):
    loaded = read(tmp_path, write_set(tmp_path / "mirror"))
    graphs = loaded.graphs
    assert graphs.x.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert graphs.node_ptr.tolist() == [0, 3, 5, 6]
    assert graphs.edge_ptr.tolist() == [0, 4, 6, 6]
    assert graphs.edge_index.tolist() == [[1, 0, 2, 1, 1, 0], [0, 1, 1, 2, 0, 1]]
    assert graphs.edge_attr.argmax(dim=1).tolist() == [0, 0, 1, 1, 2, 2]
    assert graphs.y.tolist() == [2, 0, 1]
    assert loaded.label_mapping == {"1": 0, "2": 1, "5": 2}
    assert (loaded.num_outputs, loaded.features, loaded.task) == (3, "node labels (one-hot)", "multiclass")
    assert len(loaded.raw_files) == 7 and len(loaded.raw_files["TINY_A.txt"]) == 64
    assert not (tmp_path / "mirror/TUDataset/TINY/processed").exists()


def test_a_writer_that_leaves_out_the_last_line_end(tmp_path):
    (tmp_path / "without").mkdir()
    expected = read(tmp_path, write_set(tmp_path / "mirror")).graphs
    joined = {part: text.strip() for part, text in FILES.items()}
    graphs = read(tmp_path / "without", write_set(tmp_path / "joined", **joined)).graphs
    for name in ("x", "edge_index", "edge_attr", "y", "node_ptr", "edge_ptr"):
        assert torch.equal(getattr(graphs, name), getattr(expected, name))


def test_labels_of_two_signs(tmp_path):
    loaded = read(tmp_path, write_set(tmp_path / "mirror", graph_labels="1\n-1\n1\n"))
    assert (loaded.graphs.y.tolist(), loaded.label_mapping, loaded.num_outputs) == ([1, 0, 1], {"-1": 0, "1": 1}, 2)


def test_the_label_of_a_graph_that_is_dropped_is_no_class(tmp_path):
    files = {"graph_indicator": "1\n1\n1\n3\n3\n4\n", "graph_labels": "7\n3\n5\n7\n"}
    loaded = read(tmp_path, write_set(tmp_path / "mirror", **files))
    assert (loaded.graphs.y.tolist(), loaded.dropped_graphs) == ([1, 0, 1], 1)
    assert (loaded.label_mapping, loaded.num_outputs) == ({"5": 0, "7": 1}, 2)


@pytest.mark.parametrize(
    ("node_attributes", "leave_out", "width", "edge_width"),
    [
        (False, (), 3, 3),
        (True, (), 5, 3),
        (True, ("node_labels", "edge_labels"), 2, None),
        (False, ("node_attributes", "edge_attributes"), 3, 3),
    ],
)
def test_widths_follow_the_switch(tmp_path, node_attributes, leave_out, width, edge_width):
    mirror = write_set(tmp_path / "mirror", **dict.fromkeys(leave_out))
    graphs = read(tmp_path, mirror, node_attributes=node_attributes).graphs
    assert graphs.x.size(1) == width
    assert (None if graphs.edge_attr is None else graphs.edge_attr.size(1)) == edge_width
    if node_attributes:
        assert graphs.x[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]


def test_repeated_edges_are_one_with_all_labels_and_self_loops_are_left_out(tmp_path):
    listed = "1, 2\n2, 1\n1, 2\n3, 3\n2, 1\n4, 5\n5, 4\n5, 4\n"
    changed = {"A": listed, "edge_labels": "0\n0\n0\n2\n0\n1\n1\n0\n"}
    mirror = write_set(tmp_path / "mirror", node_attributes=None, edge_attributes=None, **changed)
    loaded = read(tmp_path, mirror)
    assert loaded.graphs.edge_index.tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    assert loaded.graphs.edge_attr.tolist() == [[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    assert loaded.notes == ["edges: 1 self-loops and 3 repeated edges were left out"]


def test_attributes_that_are_left_out_are_noted(tmp_path):
    mirror = write_set(tmp_path / "mirror")
    edges = "files that are not read: TINY_edge_attributes.txt"
    left_out = "node attributes: 2 columns left out; node_attributes: true adds them"
    assert read(tmp_path, mirror).notes == [left_out, edges]
    assert read(tmp_path, mirror, node_attributes=True).notes == [edges]
    for name in ("TINY_node_label.txt", "TINY_label_readme.txt"):
        (mirror / "TUDataset/TINY/raw" / name).write_text("1\n")
    (mirror / "TUDataset/TINY/raw/TINY_graph_attributes.txt").write_text("0.5\n1\n2\n")
    unread = f"{edges}, TINY_graph_labels.txt, TINY_node_label.txt"
    assert read(tmp_path, mirror, node_attributes=True).notes[0] == unread


def test_a_set_without_an_edge_and_files_of_other_systems(tmp_path):
    changed = {name: f"\ufeff{text}\n".replace("\n", "\r\n") for name, text in (FILES | {"A": ""}).items()}
    mirror = write_set(tmp_path / "mirror", **changed | {"edge_labels": None, "edge_attributes": None})
    loaded = read(tmp_path, mirror, node_attributes=True)
    assert loaded.graphs.edge_ptr.tolist() == [0, 0, 0, 0] and loaded.graphs.edge_attr is None
    assert loaded.graphs.x[:, :3].tolist()[0] == [0.5, 1, 1] and loaded.graphs.y.tolist() == [2, 0, 1]


def test_made_features_and_no_stale_cache(tmp_path):
    mirror = write_set(tmp_path / "mirror", node_labels=None, node_attributes=None)
    degree = read(tmp_path, mirror, features="degree")
    assert degree.graphs.x.tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0]]
    for features, value in (("constant", 1), ("zeros", 0)):
        made = read(tmp_path, mirror, features=features)
        assert made.graphs.x.tolist() == [[value]] * 6
        assert made.features == f"constant {value}"
    for seed in (1, 2):
        torch.manual_seed(seed)
        random = read(tmp_path, mirror, features="random").graphs.x
        vector = torch.randn(32, generator=torch.Generator().manual_seed(0))
        assert torch.equal(random, vector.expand(6, -1))
    assert "degree" in degree.features


def test_labels_that_made_features_replace_are_not_read(tmp_path):
    changes_in_time = "0, 1, 4, 0\n0, 1\n0, 1\n0, 0\n0, 1, 2, 0\n0, 1\n"  # as sets of temporal graphs have them
    mirror = write_set(tmp_path / "mirror", node_attributes=None, edge_attributes=None, node_labels=changes_in_time)
    loaded = read(tmp_path, mirror, features="degree")
    assert loaded.graphs.x.argmax(dim=1).tolist() == [1, 2, 1, 1, 1, 0]
    assert loaded.notes == ["files that are not read: TINY_node_labels.txt"]
    with pytest.raises(StudyError, match="TINY_node_labels.txt: cannot be read .line 2 is '0, 1'"):
        read(tmp_path, mirror)


def test_a_degree_counts_the_edges_that_lead_to_a_node(tmp_path):
    mirror = write_set(tmp_path / "mirror", edge_labels=None, edge_attributes=None, A="1, 2\n3, 2\n4, 5\n")
    degree = read(tmp_path, mirror, features="degree").graphs.x
    assert degree.argmax(dim=1).tolist() == [0, 2, 0, 0, 1, 0]


def test_changed_raw_files_are_read_again(tmp_path):
    first, second = write_set(tmp_path / "one"), write_set(tmp_path / "two", graph_labels="7\n7\n8\n")
    assert read(tmp_path, first).graphs.y.tolist() == [2, 0, 1]
    assert read(tmp_path, second).graphs.y.tolist() == [0, 0, 1]


def test_whole_numbers_may_be_written_as_numpy_writes_them(tmp_path):
    plain = read(tmp_path / "a", write_set(tmp_path / "a/mirror")).graphs
    real = {
        part: "".join(
            ", ".join(f"{float(number):.18e}" for number in line.split(",")) + "\n" for line in text.splitlines()
        )
        for part, text in FILES.items()
        if part != "node_attributes"
    }
    assert real["A"].startswith("1.000000000000000000e+00, 2.0")
    assert read(tmp_path / "b", write_set(tmp_path / "b/mirror", **real)).graphs.content_hash() == plain.content_hash()


def test_many_degrees_share_the_last_column(tmp_path):
    leaves = range(2, 72)
    star = "".join(f"1, {leaf}\n{leaf}, 1\n" for leaf in leaves)
    files = dict.fromkeys(FILES) | {"A": star, "graph_indicator": "1\n" * 71 + "2\n", "graph_labels": "0\n1\n"}
    mirror = write_set(tmp_path / "mirror", **files)
    x = read(tmp_path, mirror, features="degree").graphs.x
    assert x.shape == (72, 65)
    assert x.argmax(dim=1).tolist() == [64] + [1] * 70 + [0]


def test_attributes_that_float32_does_not_tell_apart_are_noted(tmp_path):
    times = "".join(f"1600000000{number}.5\n" for number in range(6))
    mirror = write_set(tmp_path / "mirror", edge_attributes=None, node_attributes=times)
    told = (
        "TINY_node_attributes.txt: different numbers that are one as float32: 5 of 6 in column 0; subtract a constant"
    )
    notes = read(tmp_path, mirror, node_attributes=True).notes
    assert notes == [f"{told} to keep them apart"]


def test_graph_attributes_are_real_targets(tmp_path):
    mirror = write_set(tmp_path / "mirror", graph_attributes="0.5, 1\n1.5, 2\n2.5, 3\n")
    loaded = read(tmp_path, mirror)
    assert loaded.graphs.y.tolist() == [[0.5, 1], [1.5, 2], [2.5, 3]]
    assert (loaded.task, loaded.metric, loaded.num_outputs, loaded.label_mapping) == ("regression", "mae", 2, None)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"node_labels": None, "node_attributes": None}, "no node labels; set features to degree, constant, zeros or random$"),
        ({"node_labels": None}, "no node labels.*or node_attributes to true"),
        ({"graph_labels": "5\n1\n"}, "TINY_graph_labels.txt: got 2 lines but expected 3, .* of the graphs"),
        ({"graph_labels": "0.5\n1.5\n0.5\n"}, r"TINY_graph_labels.txt: line 1 is \[0.5\], not whole"),
        ({"graph_labels": "5\nnan\n1\n"}, r"TINY_graph_labels.txt: line 2 is \[nan\], not whole"),
        ({"graph_labels": "5\n1\n1e300\n"}, r"TINY_graph_labels.txt: line 3 is \[1e\+300\], not whole"),
        ({"graph_labels": f"5\n{2**53 + 1}\n{2**53}\n"}, r"TINY_graph_labels.txt: line 2 is .*, not whole"),
        ({"graph_labels": "1, 0\n0, 1\n1, 1\n"}, "TINY_graph_labels.txt: got 2 numbers in a line but expected 1"),
        ({"graph_labels": None}, r"TINY_graph_labels.txt is not in .*/TINY/raw; .* come from https:.*/TINY.zip\)"),
        ({"node_labels": "3\n4\n3\n4\n3\n"}, "TINY_node_labels.txt: got 5 lines but expected 6, .* the nodes"),
        ({"node_labels": FILES["node_labels"] + "3\n"}, "TINY_node_labels.txt: got 7 lines but expected 6"),
        ({"node_attributes": "1\n2\n"}, "TINY_node_attributes.txt: got 2 lines but expected 6"),
        ({"graph_labels": None, "graph_attributes": "1, nan\n2, 3\n4, 1e39\n"}, r"TINY_graph_attributes.txt: line 3 holds 1e\+39, which is not finite as float32; mend the data set$"),
        ({"edge_labels": "0\n0\n1\n"}, "TINY_edge_labels.txt: got 3 lines but expected 6, .* of the edges"),
        ({"A": "\n"}, "TINY_edge_labels.txt: got 6 lines but expected 0, one for each of the edges"),
        ({"A": EDGES.strip()}, "TINY_A.txt: the last line has no line end, as that of TINY_edge_.*; .* or add the line end"),
        ({"A": ""}, "TINY_A.txt: there is no line in it, .*; fetch it again, or put an empty line in it if .*$"),
        ({"edge_labels": None, "A": EDGES + "3, 4\n"}, "TINY_A.txt: line 7 is the edge 3, 4; .* two nodes of one graph"),
        ({"A": EDGES.replace("5", "7")}, "TINY_A.txt: line 5 is the edge 4, 7; .* the nodes are 1 to 6"),
        ({"A": EDGES.replace("1", "0")}, "TINY_A.txt: line 1 is the edge 0, 2; .* the nodes are 1 to 6"),
        ({"edge_labels": None, "A": EDGES.replace("4", "1").replace("5", "2")}, "TINY_A.txt: all edges are of the first graph, .*; number the nodes over all graphs, not from 1 in each"),
        ({"graph_indicator": "0\n0\n0\n1\n1\n2\n"}, "TINY_graph_indicator.txt: it must number .* from 1"),
        ({"graph_indicator": "1\n2\n1\n2\n2\n3\n"}, "not sorted"),
        ({"graph_indicator": "1\n1\n1\n2\n2\n9000000000000\n"}, "TINY_graph_labels.txt: got 3 lines but expected 9000000000000"),
        ({"node_labels": "3\n4\n3\n4\n3\n4000000000\n"}, "TINY_node_labels.txt: got labels from 3 to 4000000000; .* for 6 nodes; number the labels from 0 without"),
        ({"A": "1, 2\n2, x\n"}, r"TINY_A.txt: cannot be read \(line 2 is '2, x'\); it must hold whole numbers with commas"),
        ({"A": "1 2\n2 1\n"}, r"TINY_A.txt: cannot be read \(line 1 is '1 2'\)"),
        ({"A": "1, 2\n\n\n2, 1, 3\n"}, r"TINY_A.txt: cannot be read \(line 4 is '2, 1, 3'\)"),
        ({"A": "1, 2\n2_0, 1\n"}, r"TINY_A.txt: cannot be read \(line 2 is '2_0, 1'\)"),
        ({"edge_labels": None, "A": f"\n{EDGES}\n3, 4\n"}, "TINY_A.txt: line 9 is the edge 3, 4;"),
        ({"graph_labels": "5\n\n0.5\n1\n"}, r"TINY_graph_labels.txt: line 3 is \[0.5\], not whole"),
        ({"graph_indicator": None}, "TINY_graph_indicator.txt is not in"),
        ({"A": None}, "TINY_A.txt is not in .*data.mirror.*SSMA_DATA_MIRROR"),
    ],
)  # fmt: skip
def test_one_clear_error(tmp_path, changed, message):
    with pytest.raises(StudyError, match=message):
        read(tmp_path, write_set(tmp_path / "mirror", **changed))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (None, "node_attributes is true, but the set has none"),
        ("1\n\n2\nnan\n4\n5\n6\n", "TINY_node_attributes.txt: line 4 holds nan, which is not finite as float32"),
    ],
)
def test_attributes_that_cannot_be_features_are_refused(tmp_path, attributes, message):
    with pytest.raises(StudyError, match=message):
        read(tmp_path, write_set(tmp_path / "mirror", node_attributes=attributes), node_attributes=True)


@pytest.mark.parametrize(("name", "part"), [("MUTAG", "edge_labels"), ("ENZYMES", "node_attributes")])
def test_a_file_of_a_known_set_is_missed(tmp_path, name, part):
    """Without the labels of MUTAG's edges its layers had no edge features, and nothing was said."""
    mirror = write_set(tmp_path / "mirror", name, edge_attributes=None)
    assert read(tmp_path, mirror, name=name).graphs.num_graphs == 3
    (mirror / f"TUDataset/{name}/raw/{name}_{part}.txt").unlink()
    start = time.monotonic()
    with pytest.raises(StudyError, match=f"{name}_{part}.txt is not in {mirror}/TUDataset/{name}/raw;.*/{name}.zip"):
        read(tmp_path, mirror, name=name, node_attributes=True)
    assert time.monotonic() - start < 1


def test_attributes_of_a_known_set_are_not_missed_where_nothing_takes_them(tmp_path):
    mirror = write_set(tmp_path / "mirror", "ENZYMES", edge_attributes=None, node_attributes=None)
    assert read(tmp_path, mirror, name="ENZYMES").graphs.x.size(1) == 3


def test_labels_of_a_known_set_are_not_missed_where_nothing_takes_them(tmp_path):
    mirror = write_set(tmp_path / "mirror", "MUTAG", node_labels=None)
    assert read(tmp_path, mirror, name="MUTAG", features="constant").graphs.x.tolist() == [[1]] * 6
    with pytest.raises(StudyError, match="MUTAG_node_labels.txt is not in"):
        read(tmp_path, mirror, name="MUTAG")


def test_unknown_features_are_refused(tmp_path):
    with pytest.raises(StudyError, match="features is 'colour', allowed are labels, degree, constant, zeros, random"):
        read(tmp_path, write_set(tmp_path / "mirror"), features="colour")


def test_without_network_and_mirror(tmp_path, monkeypatch):
    def unreachable(*args, **kwargs):
        raise OSError("network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    start = time.monotonic()
    with pytest.raises(StudyError, match="TINY_A.txt is not in .*work/TINY/raw.*data.mirror.*SSMA_DATA_MIRROR"):
        read(tmp_path, None)
    assert time.monotonic() - start < 30
    assert not (tmp_path / "work/TINY/raw").exists()


def test_downloads_once(tmp_path, monkeypatch):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in FILES.items():
            file.writestr(f"TINY/TINY_{name}.txt", text)
    asked = []

    def answer(url, timeout):
        asked.append(url)
        return io.BytesIO(archive.getvalue())

    monkeypatch.setattr(raw_files, "urlopen", answer)
    for _ in range(2):
        assert read(tmp_path, None).graphs.y.tolist() == [2, 0, 1]
    assert len(asked) == 1 and asked[0].endswith("/TINY.zip")


def test_an_archive_that_was_damaged_on_its_way_leaves_nothing(tmp_path, monkeypatch):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("TINY/TINY_A.txt", EDGES * 50)
    content = bytearray(archive.getvalue())
    content[55] ^= 255  # within the compressed data
    monkeypatch.setattr(raw_files, "urlopen", lambda url, timeout: io.BytesIO(bytes(content)))
    with pytest.raises(StudyError, match="could not be downloaded .*decompressing"):
        read(tmp_path, None)
    assert not list((tmp_path / "work").glob("*"))


@pytest.mark.parametrize(
    ("name", "reason"), [("TINY", "TINY_A.txt' is encrypted"), ("MÜTAG", "'ascii' codec can't encode")]
)
def test_an_archive_or_an_address_that_cannot_be_used(tmp_path, monkeypatch, name, reason):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("TINY/TINY_A.txt", EDGES)
        file.infolist()[0].flag_bits |= 1
    if name == "TINY":
        monkeypatch.setattr(raw_files, "urlopen", lambda url, timeout: io.BytesIO(archive.getvalue()))
    with pytest.raises(
        StudyError, match=f"{name}_A.txt is not in .*could not be downloaded .*{reason}.*check the name"
    ):
        tu.load({"name": name}, tmp_path / "work", None)
    assert not list((tmp_path / "work").glob("*"))
