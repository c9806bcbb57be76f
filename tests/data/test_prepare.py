import json

import pytest
import torch

from ssma.data import prepare as module
from ssma.data.graphs import Graphs
from ssma.data.prepare import load, prepare
from ssma.errors import StudyError
from ssma.study.ids import file_fingerprint
from ssma.study.records import read_record


def entry(task, scheme="stratified", **options):
    sizes = {"num_graphs": 30, "num_nodes": 10, "num_features": 4, "degree": 4, "seed": 0}
    return {
        "id": f"{task}-1234",
        "label": task,
        "spec": {"source": "synthetic", "task": task} | sizes | options,
        "splits": {"folds": 3, "scheme": scheme, "seed": 0},
    }


def test_card_splits_and_graphs(tmp_path):
    card = prepare(tmp_path, entry("product_classification"), None)
    assert card == read_record(tmp_path / "card.json")
    prepared = load(tmp_path)
    assert prepared.card == card
    assert card["labels"] == {"counts": [15, 15]}
    assert card["x"] == {"kind": "continuous", "width": 4}
    assert (card["edge_attr"], card["level"], card["direction"], card["num_graphs"]) == (None, "graph", "maximize", 30)
    assert (card["loss"], card["copies"]) == ("cross_entropy", {"graphs": 0, "leaked": [0, 0, 0]})
    assert card["data_hash"] == prepared.graphs.content_hash()
    degrees = prepared.graphs.in_degrees()
    assert card["in_degree"]["max"] == int(degrees.max())
    assert card["in_degree"]["mean"] == pytest.approx(card["num_edges"] / card["num_nodes"])
    record = read_record(tmp_path / "splits.json")
    assert (record["scheme"], record["items"], record["folds"], len(record["splits"])) == ("stratified", "graphs", 3, 3)
    assert prepared.splits == record["splits"]


def test_cards_of_the_other_tasks(tmp_path):
    cards = {
        task: prepare(tmp_path / task, entry(task), None)
        for task in ("product_regression", "typed_classification", "multilabel")
    }
    assert cards["typed_classification"]["x"] == {"kind": "categorical", "cardinalities": [4]}
    assert cards["typed_classification"]["edge_attr"] == {"kind": "categorical", "cardinalities": [3]}
    assert cards["typed_classification"]["labels"] == {"counts": [10, 10, 10]}
    losses = {task: card["loss"] for task, card in cards.items()}
    assert losses == {"product_regression": "l1", "typed_classification": "cross_entropy", "multilabel": "bce"}
    labels = cards["multilabel"]["labels"]
    assert labels["missing"] == [7] * 4
    assert [sum(column) for column in zip(*labels.values(), strict=True)] == [30] * 4
    y = load(tmp_path / "product_regression").graphs.y
    assert cards["product_regression"]["labels"]["mean"] == [pytest.approx(float(y.mean()), abs=1e-6)]
    assert read_record(tmp_path / "product_regression/splits.json")["scheme"] == "shuffle"
    assert any("shuffled" in note for note in cards["product_regression"]["notes"])


def test_splits_of_a_file(tmp_path):
    named = [
        {"train": list(range(20)), "validation": list(range(20, 25)), "test": list(range(25, 30))},
        {"train": list(range(10, 30)), "validation": list(range(5, 10)), "test": list(range(5))},
    ]
    file = tmp_path / "splits.json"
    file.write_text(json.dumps(named))
    splits = {"scheme": "file", "file": str(file), "content": file_fingerprint(file)}
    card = prepare(tmp_path / "graphs", entry("product_classification") | {"splits": splits}, None)
    record = read_record(tmp_path / "graphs/splits.json")
    assert (record["scheme"], record["content"], record["items"]) == ("file", splits["content"], "graphs")
    assert [{part: split[part] for part in named[0]} for split in load(tmp_path / "graphs").splits] == named
    assert "splits: 100% of a test part are in the training or validation part of another split" in card["notes"]
    assert len(card["copies"]["leaked"]) == 2
    file.write_text(json.dumps({"train": [0, 1, 8], "validation": [2, 3], "test": [9]}))
    splits["content"] = file_fingerprint(file)
    nodes = entry("node_classification", num_graphs=None) | {"splits": splits}
    assert (
        "splits: 4 of 10 items in no part of any split of the file" in prepare(tmp_path / "node", nodes, None)["notes"]
    )
    assert load(tmp_path / "node").splits[0]["train"] == [0, 1, 8]


def test_node_level_splits_nodes(tmp_path):
    prepare(tmp_path, entry("node_classification", num_graphs=None, num_nodes=30), None)
    record = read_record(tmp_path / "splits.json")
    assert record["items"] == "nodes"
    first = record["splits"][0]
    assert sorted(first["train"] + first["validation"] + first["test"]) == list(range(30))


def test_twice_is_the_same(tmp_path):
    first = prepare(tmp_path, entry("product_classification"), None)
    files = {path.name: path.read_bytes() for path in tmp_path.glob("*.json")}
    assert prepare(tmp_path, entry("product_classification"), None) == first
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.json")} == files


def test_a_half_done_prepare_does_not_look_done(tmp_path, monkeypatch):
    prepare(tmp_path, entry("product_classification"), None)

    def killed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "write_record", killed)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path, entry("product_classification", seed=1), None)
    assert not (tmp_path / "card.json").exists()
    with pytest.raises(StudyError, match="card.json: missing; the data set is not prepared"):
        load(tmp_path)


def test_load_refuses_other_graphs(tmp_path):
    prepare(tmp_path, entry("product_classification"), None)
    other = module.prepare(tmp_path / "other", entry("product_classification", seed=1), None)
    assert other["data_hash"] != read_record(tmp_path / "card.json")["data_hash"]
    Graphs.load(tmp_path / "other/graphs.pt").save(tmp_path / "graphs.pt")
    with pytest.raises(StudyError, match="not the data that card.json describes"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\0hello" * 50, None])
def test_a_damaged_file_says_what_to_delete(tmp_path, content):
    prepare(tmp_path, entry("product_classification"), None)
    path = tmp_path / "graphs.pt"
    path.write_bytes(path.read_bytes()[:-2000] if content is None else content)
    with pytest.raises(StudyError, match=r"graphs.pt: damaged \(\w+\); delete .* to have it made again$"):
        load(tmp_path)


def test_load_refuses_touched_splits(tmp_path):
    prepare(tmp_path, entry("product_classification"), None)
    path = tmp_path / "splits.json"
    record = json.loads(path.read_text())
    record["splits"][0]["test"].pop()
    path.write_text(json.dumps(record))
    with pytest.raises(StudyError, match="splits.json: changed after it was sealed"):
        load(tmp_path)
    module.write_record(path, record)
    with pytest.raises(StudyError, match="not the splits of this data set"):
        load(tmp_path)


def test_an_official_split_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(StudyError, match="got 'official', but the data set has no official split"):
        prepare(tmp_path, entry("product_regression") | {"splits": {"scheme": "official"}}, None)


def test_unknown_source(tmp_path):
    with pytest.raises(
        StudyError, match="got 'web', allowed are tu, zinc, lrgb, ogbg, ogbn, folder, file, pyg, synthetic"
    ):
        prepare(tmp_path, entry("multilabel", source="web"), None)


def test_graphs_file_holds_plain_tensors(tmp_path):
    prepare(tmp_path, entry("multilabel"), None)
    stored = torch.load(tmp_path / "graphs.pt", weights_only=True)
    assert sorted(stored) == ["edge_attr", "edge_index", "edge_ptr", "node_ptr", "part", "x", "y"]
