"""What is said of folds, beside the partitions that are made."""

import torch

from ssma.data.splits import make_splits
from ssma.report.folds import seen_in_tuning


def lines(fabric):
    return seen_in_tuning(fabric.plan())


def test_folds_are_told_by_the_part_that_they_are_in_tuning(fabric):
    arms = {"space": {"training.lr": [1, 2]}, "tune_splits": [0, 1]}
    fabric.arm("MUTAG-gcn-sum", **arms)
    fabric.arm("PROTEINS-gcn-sum", **arms)
    fabric.arm("PROTEINS-gcn-mean", tune_splits=[])
    (line,) = lines(fabric)
    assert line == (
        "MUTAG, PROTEINS: of 3 folds, tuned on splits 0, 1, evaluated on splits 0 to 2, which include the tuned ones "
        "(trained anew, with other seeds). In tuning, the test parts are scored for this comparison only and choose "
        "nothing. Yet a fold is another part in other splits: the validation parts of tuning, which choose, are the "
        "test parts of splits 1, 2, and its training parts hold those of splits 0, 2. So it is in every search on "
        "folds that is not nested."
    )
    _, splits = make_splits(torch.zeros(12, dtype=torch.int64), 3, "shuffle", 0)
    for part, told in (("validation", {1, 2}), ("train", {0, 2})):
        seen = {item for tuned in (0, 1) for item in splits[tuned][part]}
        assert {number for number, split in enumerate(splits) if set(split["test"]) <= seen} == told
        assert not any(seen & set(splits[number]["test"]) for number in {0, 1, 2} - told)


def test_one_tuned_split_of_few_evaluated_ones(fabric):
    fabric.arm("MUTAG-gcn-sum", splits=1, tune_splits=[0])
    (line,) = lines(fabric)
    assert "tuned on split 0, evaluated on split 0, which is the tuned one (trained anew" in line
    assert "are the test parts of no evaluated split, and its training parts hold those of no evaluated split." in line


def test_splits_of_a_file_are_no_folds(fabric):
    fabric.arm("MUTAG-gcn-sum", tune_splits=[0, 1])
    plan = fabric.plan()
    plan["datasets"]["MUTAG"]["splits"] = {"scheme": "file", "file": "splits.json", "content": "0123"}
    assert seen_in_tuning(plan) == [
        "MUTAG: of the splits of a file, tuned on splits 0, 1, evaluated on splits 0 to 2, which include the tuned "
        "ones (trained anew, with other seeds). In tuning, the test parts are scored for this comparison only and "
        "choose nothing. An item that one split tests may train or validate another: the data set's notes tell how "
        "many."
    ]


def test_a_choice_by_test_and_an_official_split_are_told_as_such(fabric):
    fabric.arm("MUTAG-gcn-sum", tune_splits=[0], selection="test")
    fabric.arm("ZINC-gcn-sum", splits=1, tune_splits=[0])
    by_test, official = lines(fabric)
    assert "the test parts are scored and choose the configuration, as the study asks" in by_test
    assert "which choose," not in by_test
    assert official == (
        "ZINC: the one split is tuned on and evaluated (trained anew, with other seeds). In tuning, the test parts are "
        "scored for this comparison only and choose nothing."
    )
