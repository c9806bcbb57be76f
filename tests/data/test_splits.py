import json
import random
import re

import pytest
import torch

from ssma.data.splits import file_splits, make_splits, split_hash
from ssma.errors import StudyError
from ssma.study.ids import file_fingerprint

LABELS = torch.tensor([0] * 40 + [1] * 20)


def check(splits, items):
    for fold, split in enumerate(splits):
        parts = [set(split[part]) for part in ("train", "validation", "test")]
        assert sum(map(len, parts)) == items
        assert set.union(*parts) == set(range(items))
        assert split["validation"] == splits[(fold + 1) % len(splits)]["test"]
        assert all(split[part] == sorted(split[part]) for part in ("train", "validation", "test"))
        assert split["hash"] == split_hash(split)
    assert sorted(item for split in splits for item in split["test"]) == list(range(items))
    assert len({split["hash"] for split in splits}) == len(splits)


def test_stratified_folds_keep_the_shares():
    scheme, splits = make_splits(LABELS, 10, "stratified", 0)
    assert scheme == "stratified"
    check(splits, 60)
    for split in splits:
        assert torch.bincount(LABELS[split["test"]]).tolist() == [4, 2]
        assert torch.bincount(LABELS[split["train"]]).tolist() == [32, 16]
    assert make_splits(LABELS, 10, "stratified", 0)[1] == splits
    assert make_splits(LABELS, 10, "stratified", 1)[1] != splits


def test_shuffle_is_the_protocol_of_the_authors():
    random.seed(0)
    order = list(range(188))
    random.shuffle(order)
    scheme, splits = make_splits(torch.zeros(188, dtype=torch.int64), 10, "shuffle", 0)
    assert scheme == "shuffle"
    check(splits, 188)
    assert [len(split["test"]) for split in splits] == [18] * 9 + [26]
    assert splits[0]["test"] == sorted(order[:18])
    assert splits[9]["test"] == sorted(order[162:])


def test_real_targets_are_shuffled():
    scheme, splits = make_splits(torch.randn(50, 1), 5, "stratified", 3)
    assert scheme == "shuffle"
    check(splits, 50)


@pytest.mark.parametrize(
    ("labels", "folds", "message"),
    [
        (LABELS, 2, "splits.folds: 2 is not possible with 60 items"),
        (LABELS[:9], 10, "splits.folds: 10 is not possible with 9 items.*those of a data set's own entry"),
        (
            torch.tensor([0] * 30 + [1] * 2),
            10,
            "class 1 has 2 members.*10 stratified folds; set splits.scheme to shuffle .those of a data set's own entry",
        ),
        (torch.tensor([0] * 30 + [1] * 3), 10, "class 1 has 3 members.*splits.folds to 3 or less.*shuffle"),
    ],
)
def test_refuses_folds_that_cannot_be(labels, folds, message):
    with pytest.raises(StudyError, match=message):
        make_splits(labels, folds, "stratified", 0)


def test_a_class_may_have_one_member_a_fold():
    assert {tuple(LABELS[split["test"]].tolist()) for split in make_splits(LABELS, 20, "stratified", 0)[1]} == {
        (0, 0, 1)
    }


@pytest.mark.parametrize("y", [LABELS, torch.randn(60, 1)])
def test_an_unknown_scheme_is_refused(y):
    with pytest.raises(StudyError, match="splits.scheme: got 'stratify', allowed are stratified and shuffle"):
        make_splits(y, 10, "stratify", 0)


def test_a_small_class_may_be_shuffled():
    check(make_splits(torch.tensor([0] * 30 + [1] * 3), 10, "shuffle", 0)[1], 33)


def asked_of(path, splits):
    path.write_text(json.dumps(splits))
    return {"scheme": "file", "file": str(path), "content": file_fingerprint(path)}


def test_the_splits_of_a_file_are_those_that_it_names(tmp_path):
    named = [{"train": [0, 3], "validation": [1], "test": [2]}, {"train": [0, 2], "validation": [1], "test": [3]}]
    splits, notes = file_splits(asked_of(tmp_path / "s.json", named), range(4), 4)
    assert splits == [split | {"hash": split_hash(split)} for split in named]
    assert notes == ["splits: 100% of a test part are in the training or validation part of another split"]
    once, notes = file_splits(asked_of(tmp_path / "s.json", named[0]), range(6), 6)
    assert (once, notes) == (splits[:1], ["splits: 2 of 6 items in no part of any split of the file"])


def test_how_much_of_a_test_part_other_splits_see(tmp_path):
    named = [{"train": [0], "validation": [1], "test": [2, 3, 4]}, {"train": [2], "validation": [0], "test": [1, 4]}]
    _, notes = file_splits(asked_of(tmp_path / "s.json", named), range(5), 5)
    assert notes == [
        "splits: 33 to 50% of a test part are in the training or validation part of another split",
        "splits: 33 to 50% of a test part are in the test part of another split",
    ]
    many = list(range(1000))
    rare = [{"train": [1000], "validation": [1001], "test": many}, {"train": [0], "validation": [1002], "test": [1003]}]
    _, notes = file_splits(asked_of(tmp_path / "s.json", rare), range(1004), 1004)
    assert notes == ["splits: 0 to under 1% of a test part are in the training or validation part of another split"]
    one_test = [{"train": [0], "validation": [1], "test": [2]}, {"train": [1], "validation": [0], "test": [2]}]
    _, notes = file_splits(asked_of(tmp_path / "s.json", one_test), range(3), 3)
    assert notes == ["splits: 100% of a test part are in the test part of another split"]
    apart = [{"train": [0], "validation": [1], "test": [2]}, {"train": [0], "validation": [1], "test": [3]}]
    assert file_splits(asked_of(tmp_path / "s.json", apart), range(4), 4)[1] == []


def test_a_file_counts_the_graphs_that_were_left_out(tmp_path):
    named = {"train": [0, 1, 2], "validation": [3], "test": [4, 5]}
    splits, notes = file_splits(asked_of(tmp_path / "s.json", named), [0, 2, 3, 5], 6)
    parts = {"train": [0, 1], "validation": [2], "test": [3]}
    assert splits == [parts | {"hash": split_hash(parts)}]
    assert notes == ["splits: 2 of the items in the file left out, as graphs without nodes"]


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"train": [0], "validation": [3], "test": [2, 6]}, "split 0: test names item 6, but the data set has 6, numbered from 0 to 5; mend the file"),
        ({"train": [0], "validation": [1], "test": [2]}, "split 0: all items of validation are graphs without nodes; mend the file"),
        ({"train": [0], "validation": [0], "test": [2]}, "split 0: item 0 stands 2 times in it"),
        ([{"train": [0], "validation": [2], "test": [3]}, {"train": [0], "validation": [1, 2], "test": [3, 4]}], "split 1 is split 0 again, but for graphs without nodes"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_the_data(tmp_path, named, message):
    with pytest.raises(StudyError, match=re.escape(message)):
        file_splits(asked_of(tmp_path / "s.json", named), [0, 2, 3, 5], 6)


def test_a_file_that_changed_after_the_plan_was_made(tmp_path):
    asked = asked_of(tmp_path / "s.json", {"train": [0], "validation": [1], "test": [2]})
    asked_of(tmp_path / "s.json", {"train": [0], "validation": [2], "test": [1]})
    with pytest.raises(StudyError, match="s.json: changed after the plan was made; make the plan again"):
        file_splits(asked, range(3), 3)
