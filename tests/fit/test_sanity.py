"""Predictors without a network, and networks that are no better: by hand."""

import math
from types import SimpleNamespace

import pytest
import torch
from scipy.stats import binom

from ssma.fit.metrics import evaluate, is_constant
from ssma.fit.sanity import sanity

NAN = float("nan")


def found(metric, y, num_outputs, train, test):
    split = {"train": train, "validation": [], "test": test, "hash": "h"}
    card = {"dataset": "d", "metric": metric, "direction": "any", "data_hash": "x", "num_outputs": num_outputs}
    record = sanity(SimpleNamespace(card=card, graphs=SimpleNamespace(y=y), splits=[split]))
    return {name: rows[0]["test"] for name, rows in record["predictors"].items()}, record


def test_the_majority_is_that_of_the_training_part():
    y = torch.tensor([2, 2, 0, 1, 1, 2, 1, 1])
    values, record = found("accuracy", y, 3, [0, 1, 2], [3, 4, 5, 6, 7])
    assert values == {"majority class": 0.2}
    assert record["predictors"]["majority class"] == [{"split": 0, "split_hash": "h", "test": 0.2, "reason": None}]
    assert found("accuracy", y, 3, [2, 3], [2, 3])[0] == {"majority class": 0.5}  # a tie: the lowest class


def test_the_majority_by_f1():
    y = torch.tensor([2, 2, 0, 1, 1, 2, 1, 1])
    # of the test items one is of class 2, as all are predicted, four of class 1: 2 / (1 + 5) and 0
    assert found("f1", y, 3, [0, 1, 2], [3, 4, 5, 6, 7])[0]["majority class"] == pytest.approx(1 / 6)


def test_classes_by_chance_have_the_expected_f1():
    counts, test = [6, 3, 1], [0] * 20 + [1] * 8 + [2] * 12
    train = [label for label, count in enumerate(counts) for _ in range(count)]
    y = torch.tensor(train + test)
    values, _ = found("f1", y, 3, list(range(10)), list(range(10, 50)))
    expected = []
    for label, count in enumerate(counts):  # of k predictions of a class, of which its share are right
        own, drawn = test.count(label), binom(len(test), count / 10)
        expected.append(sum(drawn.pmf(k) * 2 * k * (own / len(test)) / (k + own) for k in range(len(test) + 1)))
    assert values["random classes"] == pytest.approx(sum(expected) / 3, abs=0.005)
    assert values["random classes"] > values["majority class"] == pytest.approx(2 * 20 / 60 / 3)
    assert found("f1", y, 3, list(range(10)), list(range(10, 50)))[0] == values


def test_mean_and_median_are_taken_target_by_target_without_missing_ones():
    y = torch.tensor([[0.0, 1.0], [1.0, NAN], [8.0, 3.0], [2.0, 2.0], [4.0, NAN]])
    # means 3 and 2, medians 1 and 2; the test items are (2, 2) and (4, missing)
    values, _ = found("mae", y, 2, [0, 1, 2], [3, 4])
    assert values == {
        "training mean": pytest.approx((1 + 0 + 1) / 3),
        "training median": pytest.approx((1 + 0 + 3) / 3),
    }


def test_mean_and_median_by_rmse():
    y = torch.tensor([[0.0, 1.0], [1.0, NAN], [8.0, 3.0], [2.0, 2.0], [4.0, NAN]])
    values, _ = found("rmse", y, 2, [0, 1, 2], [3, 4])
    assert values == {
        "training mean": pytest.approx(math.sqrt((1 + 0 + 1) / 3)),
        "training median": pytest.approx(math.sqrt((1 + 0 + 9) / 3)),
    }


def test_a_target_without_training_labels_has_no_constant_predictor():
    y = torch.tensor([[0.0, NAN], [1.0, NAN], [2.0, 2.0]])
    values, record = found("mae", y, 2, [0, 1], [2])
    assert values == {"training mean": None, "training median": None}
    assert record["predictors"]["training mean"][0]["reason"] == "a target has no training label"


def test_a_constant_score_has_the_share_of_positives_and_one_half():
    y = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, NAN]])
    assert found("ap", y, 2, [0], [0, 1, 2, 3])[0] == {"constant score": pytest.approx((1 / 4 + 1 / 3) / 2)}
    assert found("auroc", y, 2, [0], [0, 1, 2, 3])[0] == {"constant score": 0.5}
    values, record = found("auroc", y, 2, [0], [1])
    assert values == {"constant score": None}
    assert record["predictors"]["constant score"][0]["reason"].startswith("auroc is undefined")


@pytest.mark.parametrize(
    ("metric", "output", "expected"),
    [
        ("accuracy", [[0.9, 0.1], [0.6, 0.4]], True),
        ("accuracy", [[0.9, 0.1], [0.4, 0.6]], False),
        ("accuracy", [[0.5, 0.2, 0.3], [0.5, 0.3, 0.2]], True),
        ("f1", [[0.9, 0.1], [0.6, 0.4]], True),
        ("f1", [[0.9, 0.1], [0.4, 0.6]], False),
        ("rmse", [[0.25, 7.0], [0.25, 7.1]], False),
        ("mae", [[0.25, 7.0], [0.25, 7.0]], True),
        ("mae", [[0.25, 7.0], [0.25, 7.1]], False),
        ("mae", [[100.0], [100.0001]], True),
        ("auroc", [[1e-3], [2e-3]], False),
        ("ap", [[0.5]], False),
    ],
)
def test_constant_predictions(metric, output, expected):
    assert is_constant(metric, torch.tensor(output)) is expected


def test_an_evaluation_says_whether_its_predictions_are_constant():
    batch = SimpleNamespace(y=torch.tensor([0, 1, 1]))

    class Blind(torch.nn.Module):
        def forward(self, batch):
            return torch.tensor([0.0, 1.0]).expand(3, 2)

    scores = evaluate(Blind(), [batch] * 2, "cross_entropy", "accuracy")
    assert (scores["accuracy"], scores["constant"]) == (pytest.approx(2 / 3), True)
    assert scores["loss"] == pytest.approx((math.log(1 + math.e) + 2 * math.log(1 + 1 / math.e)) / 3)
