"""Losses and metrics against plain loops, and against the evaluators that define them."""

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.metrics
import torch

from ssma.data.ogb import import_ogb
from ssma.fit.metrics import evaluate, loss_terms, metric_value

NAN = math.nan


def labels_and_scores(tasks, missing, seed=0, graphs=60):
    generator = torch.Generator().manual_seed(seed)
    y = (torch.rand(graphs, tasks, generator=generator) < 0.3).float()
    y[torch.rand(graphs, tasks, generator=generator) < missing] = NAN
    scores = torch.randn(graphs, tasks, generator=generator).mul(4).round() / 4  # with ties
    return y, scores


@pytest.mark.parametrize(
    ("name", "metric", "key", "tasks"), [("ogbg-molpcba", "ap", "ap", 128), ("ogbg-molhiv", "auroc", "rocauc", 1)]
)
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_equal_to_the_evaluators_of_ogb(name, metric, key, tasks, missing):
    import_ogb()
    from ogb.graphproppred import Evaluator

    y, scores = labels_and_scores(tasks, missing)
    if tasks > 1:
        y[:, 3] = NAN  # no label at all
        y[:, 5] = torch.where(y[:, 5].isnan(), y[:, 5], torch.ones(()))  # one class
        y[:, 7] = torch.where(y[:, 7].isnan(), y[:, 7], torch.zeros(()))
    expected = Evaluator(name).eval({"y_true": y.numpy(), "y_pred": scores.numpy()})[key]
    assert metric_value(metric, scores, y) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("name", "classes"), [("ogbn-arxiv", 40), ("ogbn-products", 47)])
def test_equal_to_the_node_evaluators_of_ogb(name, classes):
    import_ogb()
    from ogb.nodeproppred import Evaluator

    generator = torch.Generator().manual_seed(0)
    y, scores = torch.randint(0, classes, (500,), generator=generator), torch.rand(500, classes, generator=generator)
    scores[:200, :] += torch.nn.functional.one_hot(y[:200], classes)
    truth, predicted = y.unsqueeze(1).numpy(), scores.argmax(1, keepdim=True).numpy()
    expected = Evaluator(name).eval({"y_true": truth, "y_pred": predicted})["acc"]
    assert 0.4 < expected < 0.5
    assert metric_value("accuracy", scores, y) == expected


def average_precision(y, scores):
    """The sum over thresholds of precision times the growth of recall."""
    found, before = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        taken = [label for label, score in zip(y, scores, strict=True) if score >= threshold]
        recall = sum(taken) / sum(y)
        found, before = found + (recall - before) * sum(taken) / len(taken), recall
    return found


def area_under_roc(y, scores):
    """The share of pairs of a positive and a negative that are in order; a tie is half a pair."""
    pairs = [(p, n) for p, a in zip(scores, y, strict=True) if a for n, b in zip(scores, y, strict=True) if not b]
    return sum((p > n) + (p == n) / 2 for p, n in pairs) / len(pairs)


@pytest.mark.parametrize(("metric", "reference"), [("ap", average_precision), ("auroc", area_under_roc)])
def test_macro_average_over_ten_labels(metric, reference):
    y, scores = labels_and_scores(10, 0.0, seed=1)
    columns = zip(y.t().tolist(), scores.t().tolist(), strict=True)
    expected = np.mean([reference(*column) for column in columns])
    assert metric_value(metric, scores, y) == pytest.approx(expected, abs=1e-9)
    assert metric_value(metric, scores.sigmoid(), y) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("metric", "function"), [("ap", "average_precision_score"), ("auroc", "roc_auc_score")])
def test_areas_are_summed_in_float64_whatever_the_type_of_the_scores(monkeypatch, metric, function):
    """A version of scikit-learn that works in the type of the scores would give other digits."""
    real = getattr(sklearn.metrics, function)
    monkeypatch.setattr(sklearn.metrics, function, lambda y, scores: scores.dtype.type(real(y, scores)))
    y, scores = labels_and_scores(1, 0.0, graphs=997)
    expected = real(y[:, 0].double().numpy(), scores[:, 0].double().numpy())
    assert float(np.float32(expected)) != expected
    assert metric_value(metric, scores, y) == expected


@pytest.mark.parametrize("classes", [2, 5])
def test_macro_f1_as_scikit_learn_has_it(classes):
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        y = torch.randint(0, classes, (8,), generator=generator)  # of which some parts lack a class
        scores = torch.randn(8, classes, generator=generator)
        expected = sklearn.metrics.f1_score(y, scores.argmax(1), average="macro", zero_division=0)
        assert metric_value("f1", scores, y) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("predicted", "y", "expected"),
    [
        ([0, 0, 1, 1], [0, 0, 1, 2], (1 + 2 / 3 + 0) / 3),
        ([0, 0, 1, 1], [0, 0, 1, 1], 1.0),  # class 2 is neither there nor predicted
        ([0, 0, 1, 2], [0, 0, 1, 1], (1 + 2 / 3 + 0) / 3),  # it is predicted, and not there
        ([2, 2, 2, 2], [0, 0, 1, 1], 0.0),
        ([0, 0, 0, 0], [0, 0, 0, 1], (6 / 7 + 0) / 2),
    ],
)
def test_macro_f1_by_hand(predicted, y, expected):
    scores = torch.nn.functional.one_hot(torch.tensor(predicted), 3).float()
    assert metric_value("f1", scores, torch.tensor(y)) == pytest.approx(expected, abs=1e-12)


def test_the_root_of_the_mean_squared_error_over_all_that_is_known():
    output, y = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.tensor([[0.0, NAN], [1.0, 9.0]])
    assert metric_value("rmse", output, y) == pytest.approx(math.sqrt((1 + 4 + 16) / 3), abs=1e-12)
    generator = torch.Generator().manual_seed(0)
    output, y = torch.randn(40, 3, generator=generator), torch.randn(40, 3, generator=generator)
    expected = sklearn.metrics.root_mean_squared_error(y.flatten(), output.flatten())
    assert metric_value("rmse", output, y) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("loss", "metric"), [("mse", "rmse"), ("cross_entropy", "f1")])
def test_a_metric_is_taken_over_all_batches_at_once(loss, metric):
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(7, 1, generator=generator) if metric == "rmse" else torch.randint(0, 3, (7,), generator=generator)
    outputs = torch.randn(7, 1 if metric == "rmse" else 3, generator=generator)

    class Known(torch.nn.Module):
        def forward(self, batch):
            return batch.output

    batches = [SimpleNamespace(y=y[part], output=outputs[part]) for part in (slice(0, 2), slice(2, 7))]
    scores = evaluate(Known(), batches, loss, metric)
    assert scores[metric] == metric_value(metric, outputs, y)
    if metric == "rmse":
        assert scores["rmse"] == pytest.approx(math.sqrt(scores["loss"]), rel=1e-6)
    apart = [metric_value(metric, batch.output, batch.y) for batch in batches]
    assert abs(scores[metric] - (2 * apart[0] + 5 * apart[1]) / 7) > 0.01


def test_undefined_and_unknown_metrics():
    for metric in ("ap", "auroc"):
        with pytest.raises(ValueError, match=f"{metric} is undefined"):
            metric_value(metric, torch.zeros(3, 1), torch.ones(3, 1))
    for metric in ("mae", "rmse"):
        with pytest.raises(
            ValueError, match=f"{metric} is undefined: no target is known in this split; use other splits"
        ):
            metric_value(metric, torch.zeros(3, 1), torch.full((3, 1), torch.nan))
    with pytest.raises(ValueError, match="unknown metric 'f2'; expected accuracy, f1, mae, rmse, ap or auroc"):
        metric_value("f2", torch.zeros(3, 1), torch.ones(3, 1))


@pytest.mark.parametrize("metric", ["accuracy", "f1", "mae", "rmse", "ap", "auroc"])
def test_no_metric_broadcasts_labels(metric):
    output, y = torch.tensor([[0.0], [1.0], [1.0]]), torch.tensor([0.0, 1.0, 1.0])
    of_classes = metric in ("accuracy", "f1")
    fits, *others = (y.long(), y.long()[:, None]) if of_classes else (y[:, None], y)
    scores = torch.cat([1 - output, output], dim=1) if of_classes else output
    assert metric_value(metric, scores, fits) == (0 if metric in ("mae", "rmse") else 1)
    for other in (*others, y[None], y[:1]):
        told = f"labels have the shape {tuple(other.shape)} but expected {tuple(fits.shape)} for the metric {metric}"
        with pytest.raises(ValueError, match=re.escape(told)):
            metric_value(metric, scores, other)


@pytest.mark.parametrize(
    ("loss", "term"),
    [
        ("l1", lambda output, y: abs(output - y)),
        ("mse", lambda output, y: (output - y) ** 2),
        (
            "bce",
            lambda output, y: (
                -y * math.log(1 / (1 + math.exp(-output))) - (1 - y) * math.log(1 / (1 + math.exp(output)))
            ),
        ),
    ],
)
def test_losses_sum_over_what_is_known(loss, term):
    output, y = torch.tensor([[0.5, -1.0], [2.0, 0.25]]), torch.tensor([[1.0, NAN], [0.0, 1.0]])
    value, count = loss_terms(loss, output, y)
    expected = sum(term(a, b) for a, b in zip(output.flatten().tolist(), y.flatten().tolist(), strict=True) if b == b)
    assert (value.item(), count) == (pytest.approx(expected, rel=1e-6), 3)


def test_cross_entropy_by_hand():
    value, count = loss_terms("cross_entropy", torch.tensor([[0.0, 0.0], [math.log(3), 0.0]]), torch.tensor([1, 0]))
    assert (value.item(), count) == (pytest.approx(math.log(2) + math.log(4 / 3)), 2)
    with pytest.raises(ValueError, match=r"the shape \(2, 1\) but expected \(2,\) for the loss cross_entropy"):
        loss_terms("cross_entropy", torch.zeros(2, 2), torch.zeros(2, 1))
