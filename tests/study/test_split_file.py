"""Files with a user's own splits."""

import json
import re

import pytest

from ssma.study.split_file import read_splits

SPLIT = {"train": [4, 0, 1], "validation": [2], "test": [3, 5]}
SORTED = {"train": [0, 1, 4], "validation": [2], "test": [3, 5]}


def test_one_split_or_a_list_of_them(tmp_path):
    path, other = tmp_path / "splits.json", SPLIT | {"test": [3]}
    path.write_text(json.dumps(SPLIT))
    assert read_splits(path) == [SORTED]
    path.write_text("\ufeff" + json.dumps([SPLIT, other]), encoding="utf-8")
    assert read_splits(path) == [SORTED, SORTED | {"test": [3]}]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("{", "cannot be read (Expecting property name enclosed in double quotes: line 1 column 2 (char 1)); expected {"),
        ("[]", 'got no split; expected {"train": [...], "validation": [...], "test": [...]} or a list of such, items '),
        ("[[1, 2]]", "split 0: got a list; expected"),
        ("{}", "split 0: got the keys none; expected"),
        ('{"train": [0], "val": [1], "test": [2]}', "split 0: got the keys train, val, test; expected"),
        ('{"train": [0], "train": [3], "validation": [1], "test": [2]}', "the key 'train' stands twice"),
        (json.dumps([SPLIT, SPLIT | {"test": []}]), "split 1: test is [] but expected a list of at least one item"),
        (json.dumps(SPLIT | {"train": 3}), "split 0: train is 3 but expected a list of at least one item"),
        (json.dumps(SPLIT | {"test": [3, -1]}), "split 0: test names -1 but expected items numbered from 0"),
        (json.dumps(SPLIT | {"test": [3.0]}), "split 0: test names 3.0 but expected"),
        (json.dumps(SPLIT | {"test": [True]}), "split 0: test names true but expected"),
        (json.dumps(SPLIT | {"test": ["3"]}), 'split 0: test names "3" but expected'),
        (json.dumps(SPLIT | {"test": [3, 4]}), "split 0: item 4 stands 2 times in it (in train and test); once is the most"),
        (json.dumps(SPLIT | {"test": [3, 3]}), "split 0: item 3 stands 2 times in it (in test); once is the most"),
        (json.dumps([SPLIT, SPLIT | {"test": [3]}, SORTED]), "split 2 is split 0 again, which would count one result twice; leave it out"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_the_split(tmp_path, written, reason):
    path = tmp_path / "splits.json"
    path.write_text(written)
    with pytest.raises(ValueError, match=re.escape(f"{path}: ") + ".*" + re.escape(reason)):
        read_splits(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(
        ValueError, match=re.escape(f"{tmp_path}/none.json: cannot be read (No such file or directory)")
    ):
        read_splits(tmp_path / "none.json")
