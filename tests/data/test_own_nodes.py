"""A graph of one's own whose nodes have the targets."""

import json
import math
import re

import pytest
import torch
from torch_geometric.data import Batch, Data

from ssma.data.batches import Batches
from ssma.data.own import check_graphs
from ssma.data.prepare import load, prepare
from ssma.errors import StudyError
from ssma.study.ids import data_fingerprint, file_fingerprint

NAN = math.nan
RING = torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6])


def graph(y, **others):
    return Data(x=torch.arange(12.0).view(6, 2), edge_index=RING, y=torch.tensor(y), **others)


def read(data_list, **options):
    spec = {"features": "own", "task": None, "metric": None, "loss": None, "level": "node"}
    return check_graphs(data_list, spec | options, {})


def prepared(tmp_path, data, splits, **options):
    path = tmp_path / "graph.pt"
    torch.save([data], path)
    spec = {"source": "file", "path": str(path), "content": data_fingerprint(path), "features": "own", "level": "node"}
    spec |= {"task": None, "metric": None, "loss": None} | options
    prepare(tmp_path / "o", {"id": "o-1", "label": "o", "spec": spec, "splits": splits}, None)
    return load(tmp_path / "o")


def test_classes_of_nodes_are_split_and_batched_as_nodes(tmp_path):
    named = {"train": [5, 0, 3], "validation": [1], "test": [4]}
    file = tmp_path / "splits.json"
    file.write_text(json.dumps(named))
    mask = torch.zeros(6, dtype=torch.bool)
    splits = {"scheme": "file", "file": str(file), "content": file_fingerprint(file)}
    found = prepared(tmp_path, graph([7, 2, 7, 2, 2, 7], train_mask=mask), splits)
    card = found.card
    assert (card["level"], card["task"], card["metric"], card["num_outputs"]) == ("node", "multiclass", "accuracy", 2)
    assert (card["num_graphs"], card["num_nodes"], card["label_mapping"]) == (1, 6, {"2": 0, "7": 1})
    assert card["notes"] == [
        "not used of the graphs: train_mask",
        "splits: 1 of 6 items in no part of any split of the file",
        "edges: of 6, 6 have none that leads back; they are used as they are",
    ]
    (split,) = found.splits
    assert split["train"] == [0, 3, 5]
    (batch,) = Batches(found.graphs, split["train"], 1, "node").epoch(torch.Generator())
    assert (batch.x.size(0), batch.target.tolist(), batch.y.tolist()) == (6, [0, 3, 5], [1, 0, 1])


def test_stratified_folds_of_nodes(tmp_path):
    found = prepared(tmp_path, graph([0, 1, 0, 1, 0, 1]), {"scheme": "stratified", "folds": 3, "seed": 0})
    assert [sorted(found.graphs.y[split["test"]].tolist()) for split in found.splits] == [[0, 1]] * 3
    assert sorted(item for split in found.splits for item in split["test"]) == list(range(6))


def test_numbers_and_labels_of_nodes_may_be_missing():
    numbers = read([graph([[0.5, 1.5], [NAN, 2.5], [0.1, NAN], [0.2, 3.5], [0.3, 4.5], [0.4, 5.5]])])
    assert (numbers.task, numbers.metric, numbers.num_outputs, numbers.level) == ("regression", "mae", 2, "node")
    assert numbers.graphs.y.shape == (6, 2) and numbers.graphs.y[1].isnan().tolist() == [True, False]
    labels = read([graph([[1.0], [0.0], [NAN], [1.0], [0.0], [1.0]])], task="multilabel", metric="auroc")
    assert (labels.metric, labels.num_outputs) == ("auroc", 1)
    assert labels.graphs.y.flatten().nan_to_num(9).tolist() == [1, 0, 9, 1, 0, 1]
    picked = read([graph([[0.5, 1], [NAN, 0], [0.1, 1], [0.2, 0], [0.3, 1], [0.4, 0]])], target=[1], task="multiclass")
    assert picked.graphs.y.tolist() == [1, 0, 1, 0, 1, 0]
    assert picked.notes == ["target: column 1 of 2 is learned"]
    flat = read([graph([0.5, 1.5, 2.5, NAN, 1.0, 2.0])])
    assert (flat.task, flat.graphs.y.shape) == ("regression", (6, 1))


@pytest.mark.parametrize(
    ("data_list", "options", "message"),
    [
        ([graph([0, 1, 0, 1, 0, 1])] * 2, {}, "level: got node and 2 graphs, but targets of nodes are those of one graph; join them, [Data.from_dict(Batch."),
        ([graph([0, 1, 0])], {}, "y has the shape [3], but the graph 6 nodes; with level: node it has a row or number for each node"),
        ([graph(1)], {}, "y has the shape [], but the graph 6 nodes"),
        ([Data(x=torch.ones(6, 1), edge_index=RING)], {}, "y is missing; with level: node every node needs its target"),
        ([graph([0.0, 1.0, NAN, 1.0, 0.0, 1.0])], {"task": "multiclass"}, "node 2: y is [nan], not a target of a multiclass task"),
        ([graph([[0, 1]] * 6)], {"task": "multiclass"}, "y has 2 values a node, a class is one, its number"),
        ([graph([0, 1, 2, 0, 1, 0])], {"task": "multilabel"}, "node 2: y is [2.0], not 0 or 1 as labels are"),
        ([graph([0.1, 0.2, 0.3, math.inf, 0.5, 0.6])], {}, "node 3: y is [inf], not a target of a regression task"),
        ([graph([0, 1, 0, 1, 0, 1])], {"level": "graph", "task": "multiclass"}, "y has a value for each node, but y belongs to graphs by default; set level to node"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(data_list, options, message):
    with pytest.raises(StudyError, match=re.escape(message)):
        read(data_list, **options)


def test_graphs_that_are_joined_as_the_error_says():
    graphs = [graph([0, 1, 0, 1, 0, 1]), graph([2, 1, 2, 1, 2, 1])]
    joined = read([Data.from_dict(Batch.from_data_list(graphs).to_dict())])
    assert joined.graphs.y.tolist() == [0, 1, 0, 1, 0, 1, 2, 1, 2, 1, 2, 1]
    assert sorted(joined.graphs.edge_index.t().tolist()) == [*RING.t().tolist(), *(RING + 6).t().tolist()]


def test_a_number_beyond_float32_is_told_with_its_node():
    y = torch.tensor([0.1, 0.2, 0.3, 0.4, 1e300, 0.6], dtype=torch.float64)
    with pytest.raises(StudyError, match=r"node 4: y holds \[inf\]; allowed are numbers that are finite as float32"):
        read([Data(x=torch.ones(6, 1), edge_index=RING, y=y)])


def test_minus_one_as_a_class_of_nodes_is_noted(tmp_path):
    found = prepared(tmp_path, graph([-1, 0, 1, -1, 0, 1]), {"scheme": "shuffle", "folds": 3, "seed": 0})
    assert (
        "labels: -1 is a class, of 2 nodes, beside 0 to 1; if it stands for a label that is not known, name splits in "
        "a file that leave these nodes out"
    ) in found.card["notes"]


def test_a_class_of_nodes_in_no_part_is_none(tmp_path):
    """As files of partly labelled graphs have it: it was an output beside the others, in parameters and card."""
    file = tmp_path / "splits.json"
    file.write_text('{"train": [1, 2], "validation": [4], "test": [5]}')
    splits = {"scheme": "file", "file": str(file), "content": file_fingerprint(file)}
    found = prepared(tmp_path, graph([-1, 0, 7, -1, 7, 0]), splits)
    assert (found.card["num_outputs"], found.card["label_mapping"]) == (2, {"0": 0, "7": 1})
    assert found.card["labels"] == {"counts": [2, 2]}
    assert found.graphs.y[[1, 2, 4, 5]].tolist() == [0, 1, 1, 0] and found.graphs.y[[0, 3]].tolist() == [2, 2]
    assert [note for note in found.card["notes"] if note.startswith("labels")] == [
        "labels: no class is -1, of 2 nodes in no part of any split"
    ]
    (batch,) = Batches(found.graphs, found.splits[0]["test"], 1, "node").epoch()
    assert batch.y.tolist() == [0]


def test_of_many_splits_a_note_names_the_first(tmp_path):
    pairs = [(one, other) for one in range(6) for other in range(6) if one != other]
    named = [
        {"train": [one], "validation": [other], "test": sorted({*range(6)} - {one, other})} for one, other in pairs
    ]
    file = tmp_path / "splits.json"
    file.write_text(json.dumps(named))
    splits = {"scheme": "file", "file": str(file), "content": file_fingerprint(file)}
    notes = prepared(tmp_path, graph([0, 1, 2, 2, 2, 2]), splits, metric="f1").card["notes"]
    lacking = ", ".join(str(number) for number in range(5, 25))  # of 30, split 0 to 4 train on the node of class 0
    assert f"class 0 is missing in the training part of split {lacking} and 5 more" in notes
    (told,) = (note for note in notes if note.startswith("f1 is taken over"))
    assert told.count(" part of split ") == 20 and told.endswith(" more")


def test_a_column_without_a_value_has_its_number_in_the_users_y():
    y = [[NAN, 0.5, NAN]] * 5 + [[1.5, 2.5, NAN]]
    with pytest.raises(StudyError, match="^y has no known value in column 2; mend the data set, or name other columns"):
        read([graph(y)], target=[1, 2])
    with pytest.raises(StudyError, match="^y has no known value in column 2; mend"):
        read([graph(y)])
    assert read([graph(y)], target=[1]).num_outputs == 1
