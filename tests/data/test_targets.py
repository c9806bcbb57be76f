"""What is learned of a user's own data: columns of y, and the metrics and losses of each task, by hand."""

import math
import re
from itertools import product

import pytest
import torch
from sklearn.metrics import f1_score
from torch_geometric.data import Data

from ssma.data.checks import _most_f1
from ssma.data.own import check_graphs, load_folder
from ssma.data.prepare import load, prepare
from ssma.errors import StudyError
from ssma.study.ids import data_fingerprint, file_fingerprint

NAN = math.nan
RING = torch.tensor([[0, 1, 2], [1, 2, 0]])


def graph(y, number=0.0):
    return Data(x=torch.tensor([[number], [0.5], [1.0]]), edge_index=RING, y=torch.tensor(y))


def read(graphs, **options):
    return check_graphs(graphs, {"features": "own", "task": None, "metric": None, "loss": None} | options, {})


def prepared(tmp_path, graphs, scheme="shuffle", **options):
    """Returns the card of graphs that are prepared in the folder ``o``, with three folds."""
    path = tmp_path / "g.pt"
    torch.save(graphs, path)
    spec = {"source": "file", "path": str(path), "content": data_fingerprint(path), "features": "own"}
    spec |= {"task": None, "metric": None, "loss": None} | options
    splits = {"scheme": scheme, "folds": 3, "seed": 0}
    return prepare(tmp_path / "o", {"id": "o-1", "label": "o", "spec": spec, "splits": splits}, None)


def folder_of(tmp_path, **texts):
    folder = tmp_path / "mine"
    folder.mkdir(parents=True)
    texts = {"A": "1, 2\n2, 1\n3, 4\n4, 3\n", "graph_indicator": "1\n1\n2\n2\n", "graph_labels": "-1\n1\n"} | texts
    for name, text in texts.items():
        (folder / f"OWN_{name}.txt").write_text(text)
    return {"source": "folder", "path": str(folder), "content": data_fingerprint(folder), "features": "degree"}


@pytest.mark.parametrize(
    ("target", "y", "told"),
    [
        ([1], [[2.5], [NAN], [4.5]], "target: column 1 of 3 is learned"),
        ([0, 1], [[0.5, 2.5], [1.5, NAN], [2.5, 4.5]], "target: columns 0, 1 of 3 are learned"),
    ],
)
@pytest.mark.parametrize("shape", [(3,), (1, 3)])
def test_of_several_columns_those_are_learned_that_are_named(target, y, told, shape):
    rows = [[0.5, 2.5, math.inf], [1.5, NAN, -math.inf], [2.5, 4.5, NAN]]  # the last one could not be learned
    loaded = read([Data(x=torch.ones(2, 1), edge_index=RING[:, :1], y=torch.tensor(row).reshape(shape)) for row in rows], target=target)  # fmt: skip
    assert torch.equal(loaded.graphs.y.nan_to_num(-1), torch.tensor(y).nan_to_num(-1))
    assert (loaded.task, loaded.metric, loaded.num_outputs, loaded.columns) == (
        "regression",
        "mae",
        len(target),
        target,
    )
    assert told in loaded.notes


def test_a_column_may_hold_classes_or_labels():
    rows = [[7, 1, 0], [9, 0, 0], [7, 1, 1]]
    classes = read([graph(row) for row in rows], target=[0])  # as many columns as nodes: a target says that it is none
    assert (classes.task, classes.graphs.y.tolist(), classes.label_mapping) == (
        "multiclass",
        [0, 1, 0],
        {"7": 0, "9": 1},
    )
    labels = read([graph(row) for row in rows], target=[1, 2], task="multilabel")
    assert labels.graphs.y.tolist() == [[1, 0], [0, 0], [1, 1]] and labels.metric == "ap"
    mixed = [[1.0, 0.25], [0.0, NAN], [1.0, 0.75]]
    assert read([graph(row) for row in mixed], target=[0], task="multiclass").graphs.y.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("target", "y", "message"),
    [
        ([1, 5, 6], [0.5, 1.5], "^target: got 5, 6, but y has 2 columns, 0 to 1; name others, or leave target out$"),
        ([1], 0.5, "^target: got 1, but y has one column, 0; name others, or leave target out$"),
    ],
)
def test_a_column_that_is_not_there(target, y, message):
    with pytest.raises(StudyError, match=message):
        read([graph(y), graph(y)], target=target)


def test_classes_in_several_columns_are_told_of_target():
    with pytest.raises(
        StudyError, match="y has 2 values a graph.* name its column as target, or set task to multilabel"
    ):
        read([graph([0, 3]), graph([1, 4])], task="multiclass")


def test_notes_call_columns_as_the_data_have_them(tmp_path):
    rows = [[0.5, 9.0, 1000.5 + number, 2**40 + number / 4, 3.5] for number in range(12)]
    made = [Data(x=torch.tensor([[float(number)]] * 2), edge_index=RING[:, :1], y=torch.tensor(row, dtype=torch.float64)) for number, row in enumerate(rows)]  # fmt: skip
    notes = prepared(tmp_path, made, target=[2, 3, 4], metric="rmse")["notes"]
    assert "target: columns 2, 3, 4 of 5 are learned" in notes
    (lost,) = [note for note in notes if note.startswith("y: different numbers that are one as float32")]
    assert ": 11 of 12 in column 3;" in lost
    (far,) = [note for note in notes if "many standard deviations from 0" in note]
    assert ": 279 in column 2;" in far
    (single,) = [note for note in notes if note.startswith("y: one value alone")]
    assert single.startswith("y: one value alone in column 3, 4; loss and rmse are means over all columns")


def test_one_label_of_several_has_its_share_in_every_fold(tmp_path):
    made = [graph([float(number % 4 == 0), NAN], float(number)) for number in range(24)]
    card = prepared(tmp_path, made, "stratified", task="multilabel", target=[0])
    assert card["labels"] == {"positives": [6], "negatives": [18], "missing": [0]}
    splits = load(tmp_path / "o").splits
    assert [sum(number % 4 == 0 for number in split["test"]) for split in splits] == [2, 2, 2]


@pytest.mark.parametrize(
    ("options", "metric", "loss", "told"),
    [
        ({}, "mae", "l1", None),
        ({"loss": "mse"}, "mae", "mse", None),
        (
            {"metric": "rmse"},
            "rmse",
            "mse",
            "loss: mse, the default with the metric rmse; set loss to l1 if that is meant",
        ),
        ({"metric": "rmse", "loss": "l1"}, "rmse", "l1", None),
        ({"metric": "rmse", "loss": "mse"}, "rmse", "mse", None),
    ],
)
def test_the_loss_of_a_regression_follows_its_metric_unless_it_is_given(tmp_path, options, metric, loss, told):
    card = prepared(tmp_path, [graph(number + 0.5, float(number)) for number in range(6)], **options)
    assert (card["metric"], card["direction"], card["loss"]) == (metric, "minimize", loss)
    assert [note for note in card["notes"] if note.startswith("loss")] == ([told] if told else [])


def test_classes_by_f1(tmp_path):
    y = [0] * 6 + [1] * 6 + [2]
    made = [graph(label, float(number)) for number, label in enumerate(y)]
    card = prepared(tmp_path, made, metric="f1")
    assert (card["task"], card["metric"], card["direction"], card["loss"]) == ("multiclass", "f1", "maximize", "cross_entropy")  # fmt: skip
    (told,) = [note for note in card["notes"] if note.startswith("f1")]
    splits, start = load(tmp_path / "o").splits, "f1 is taken over the classes that a part has, and those that are predicted there: of 3, "  # fmt: skip
    found = [
        f"{len({y[item] for item in split[part]})} in the {part} part of split {number}"
        for number, split in enumerate(splits)
        for part in ("validation", "test")
        if 12 not in split[part]  # the one graph of class 2
    ]
    assert told == start + ", ".join(found) and len(found) == 4


def test_a_metric_of_another_task_is_refused():
    with pytest.raises(StudyError, match="got metric rmse for a multiclass task; its metrics are accuracy, f1; rmse is for task: regression$"):  # fmt: skip
        read([graph(0), graph(1)], metric="rmse")
    with pytest.raises(StudyError, match="got metric f1 for a regression task; its metrics are mae, rmse; f1 is for task: multiclass$"):  # fmt: skip
        read([graph(0.5), graph(1.5)], metric="f1")


@pytest.mark.parametrize(
    ("y", "options", "told"),
    [
        # of pairs: 0.5 and 2.5 are 1 from their mean, 3 and 3 are alike, 1 and 4 are 1.5 away; the root of 6.5 / 6
        ([0.5, 2.5, 3.0, 3.0, 1.0, 4.0], {"metric": "rmse"}, "4 graphs .* has an rmse below 1.04 over all"),
        ([0.5, NAN, 3.0, 3.0, 1.0, 4.0], {"metric": "rmse"}, "2 graphs .* has an rmse below 0.949 over all"),  # 4.5 / 5
        # 0 by the pair of its own and the mixed one: 2 * 3 / (4 + 3); 1 by the pair of its own and that: 6 / 7
        ([0, 0, 0, 1, 1, 1], {"metric": "f1"}, "2 graphs .* has an f1 above 0.857 over all"),
        # 0 by the first pair: 2 * 1 / (2 + 1); 1 by all: 2 * 5 / (6 + 5)
        ([0, 1, 1, 1, 1, 1], {"metric": "f1"}, "2 graphs .* has an f1 above 0.788 over all"),
    ],
)
def test_what_alike_graphs_leave_to_reach(tmp_path, y, options, told):
    made = [graph(target, float(number // 2)) for number, target in enumerate(y)]
    notes = prepared(tmp_path, made, **options)["notes"]
    (found,) = [note for note in notes if "no network that treats them alike" in note]
    assert re.fullmatch(f"y: {told}", found)


def test_no_answers_have_a_larger_f1_than_is_told(tmp_path):
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        groups = [torch.randint(0, 3, (int(size),), generator=generator) for size in torch.randint(1, 5, (5,), generator=generator)]  # fmt: skip
        groups.append(torch.arange(3))
        y = torch.cat(groups)
        best = 0.0
        for answers in product(range(3), repeat=len(groups)):
            predicted = torch.cat([torch.full_like(own, answer) for own, answer in zip(groups, answers, strict=True)])
            best = max(best, f1_score(y, predicted, average="macro", zero_division=0))
        assert best <= _most_f1(groups, 3) + 1e-12 and _most_f1(groups, 3) - best < 0.25


def test_the_attributes_of_graphs_in_a_folder(tmp_path):
    spec = folder_of(tmp_path, graph_attributes="0.5, 7.0, 1.5\n2.5, 8.0, nan\n")
    assert load_folder(spec, tmp_path / "work", None).graphs.y.size() == (2, 3)
    loaded = load_folder(spec | {"target": [0, 2], "metric": "rmse"}, tmp_path / "work", None)
    assert loaded.graphs.y[0].tolist() == [0.5, 1.5] and loaded.graphs.y[1, 0] == 2.5 and loaded.graphs.y[1, 1].isnan()
    assert (loaded.metric, loaded.loss, loaded.num_outputs, loaded.columns) == ("rmse", "mse", 2, [0, 2])
    assert "target: columns 0, 2 of 3 are learned" in loaded.notes
    empty = folder_of(tmp_path / "empty", graph_attributes="0.5, nan, 1.5\n2.5, nan, 3.5\n")
    assert load_folder(empty | {"target": [0, 2]}, tmp_path / "empty", None).graphs.y.tolist() == [
        [0.5, 1.5],
        [2.5, 3.5],
    ]
    with pytest.raises(StudyError, match="^y has no known value in column 1; mend the data set, or name other columns"):
        load_folder(empty | {"target": [1, 2]}, tmp_path / "empty", None)
    with pytest.raises(
        StudyError,
        match="^target: got 3, but OWN_graph_attributes.txt has 3 columns, 0 to 2; name others, or leave target out$",
    ):
        load_folder(spec | {"target": [3]}, tmp_path / "work", None)
    with pytest.raises(
        StudyError, match="got metric f1 for a regression task; .* f1 is for classes, of NAME_graph_labels"
    ):
        load_folder(spec | {"metric": "f1"}, tmp_path / "work", None)


def test_the_classes_of_graphs_in_a_folder(tmp_path):
    spec = folder_of(tmp_path)
    loaded = load_folder(spec | {"metric": "f1"}, tmp_path / "work", None)
    assert (loaded.metric, loaded.direction, loaded.num_outputs, loaded.loss) == ("f1", "maximize", 2, None)
    with pytest.raises(StudyError, match="^target: got 0, but each graph has one class; leave target out$"):
        load_folder(spec | {"target": [0]}, tmp_path / "work", None)
    with pytest.raises(StudyError, match="got loss mse for a multiclass task; loss is for numbers, of NAME_graph_attributes.txt"):  # fmt: skip
        load_folder(spec | {"loss": "mse"}, tmp_path / "work", None)


@pytest.mark.parametrize("source", ["file", "folder"])
def test_a_file_of_splits_counts_graphs_without_nodes_that_are_left_out(tmp_path, source):
    classes = [1, 0, 1, 0, 1]  # of which the second graph has no node
    if source == "folder":
        spec = folder_of(
            tmp_path,
            A="1, 2\n3, 4\n5, 6\n7, 8\n",
            graph_indicator="1\n1\n3\n3\n4\n4\n5\n5\n",
            graph_labels="".join(f"{own}\n" for own in classes),
        )
    else:
        graphs = [graph(own, float(number)) for number, own in enumerate(classes)]
        graphs[1] = Data(x=torch.zeros(0, 1), edge_index=RING[:, :0], y=torch.tensor(0))
        torch.save(graphs, tmp_path / "g.pt")
        spec = {"source": "file", "path": str(tmp_path / "g.pt"), "content": data_fingerprint(tmp_path / "g.pt")}
        spec |= {"features": "own", "task": "multiclass", "metric": None, "loss": None}
    file = tmp_path / "splits.json"
    file.write_text('{"train": [0, 3], "validation": [1, 2], "test": [4]}')
    splits = {"scheme": "file", "file": str(file), "content": file_fingerprint(file)}
    card = prepare(tmp_path / "o", {"id": "o-1", "label": "o", "spec": spec, "splits": splits}, None)
    found = load(tmp_path / "o")
    (split,) = found.splits
    assert [split[part] for part in ("train", "validation", "test")] == [[0, 2], [1], [3]]
    assert found.graphs.y[[*split["train"], *split["test"]]].tolist() == [1, 0, 1]
    assert "splits: 1 of the items in the file left out, as graphs without nodes" in card["notes"]
