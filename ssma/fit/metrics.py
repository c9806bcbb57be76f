"""Losses and metrics. A metric is always taken over all predictions of a split, never averaged over batches."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

from ssma.data.batches import Batch
from ssma.data.parts import WholeGraph
from ssma.layers.whole import whole_outputs

LOSSES = {
    "cross_entropy": F.cross_entropy,
    "l1": F.l1_loss,
    "mse": F.mse_loss,
    "bce": F.binary_cross_entropy_with_logits,
}

ROUNDING = 1e-5  # of float32 sums in different orders, relative above 1


def loss_terms(loss: str, output: Tensor, y: Tensor) -> tuple[Tensor, int]:
    """Returns the summed loss of the labelled entries and how many there are.

    Args:
        loss: A key of ``LOSSES``.
        output: Network outputs, ``[B, num_outputs]``.
        y: Classes ``[B]`` (``cross_entropy``), or targets ``[B, num_outputs]`` where NaN means missing.

    Raises:
        ValueError: If the shapes do not match; nothing is broadcast.
    """
    _check_shape(output, y, loss == "cross_entropy", f"loss {loss}")
    if loss != "cross_entropy":
        known = ~y.isnan()
        output, y = output[known], y[known]
    return LOSSES[loss](output, y, reduction="sum"), y.numel()


def _check_shape(output: Tensor, y: Tensor, of_classes: bool, what: str) -> None:
    expected = (output.size(0),) if of_classes else tuple(output.shape)
    if tuple(y.shape) != expected:
        raise ValueError(f"labels have the shape {tuple(y.shape)} but expected {expected} for the {what}")


def metric_value(metric: str, output: Tensor, y: Tensor) -> float:
    r"""Returns ``accuracy``, ``f1``, ``mae``, ``rmse``, ``ap`` or ``auroc`` of all predictions of a split.

    ``f1`` is the macro average: of each class 2 TP / (2 TP + FP + FN), and the mean over the classes that the split has
    or that are predicted there, as scikit-learn's ``f1_score(average="macro", zero_division=0)``. One that the split
    lacks counts as 0 if it is predicted, and is left out if not. ``mae`` and ``rmse``, the root of the mean squared
    error, are taken over all entries of all targets at once.

    ``ap`` (average precision) and ``auroc`` (area under the ROC curve) are taken label by label and averaged over
    the labels of which the split has both classes, as the evaluators of the `"Open Graph Benchmark"
    <https://arxiv.org/abs/2005.00687>`_ and of the `"Long Range Graph Benchmark" <https://arxiv.org/abs/2206.08164>`_
    do. Missing (NaN) entries count nowhere.

    Args:
        output: Class scores ``[N, num_outputs]``, real values, or logits of the labels.
        y: Classes ``[N]``, or targets ``[N, num_outputs]``.

    Raises:
        ValueError: If the metric is unknown, or undefined: no target is known, or no label has both classes; or if the
            shapes do not match; nothing is broadcast.
    """
    _check_shape(output, y, metric in ("accuracy", "f1"), f"metric {metric}")
    if metric == "accuracy":
        return (output.argmax(1) == y).double().mean().item()
    if metric == "f1":
        return macro_f1(output.argmax(1), y, output.size(1))
    if metric in ("mae", "rmse"):
        known = ~y.isnan()
        if not known.any():
            raise ValueError(f"{metric} is undefined: no target is known in this split; use other splits")
        errors = (output - y)[known].double()
        return (errors.abs().mean() if metric == "mae" else errors.square().mean().sqrt()).item()
    if metric not in ("ap", "auroc"):
        raise ValueError(f"unknown metric {metric!r}; expected accuracy, f1, mae, rmse, ap or auroc")
    from sklearn.metrics import average_precision_score, roc_auc_score

    score_of = average_precision_score if metric == "ap" else roc_auc_score
    scores = []
    for column in range(y.size(1)):
        known = ~y[:, column].isnan()
        label = y[known, column]
        if 0 < label.sum() < label.numel():
            # in float64: some versions of scikit-learn count, divide and add in the type of the scores
            scores.append(score_of(label.double().numpy(), output[known, column].double().numpy()))
    if not scores:
        raise ValueError(f"{metric} is undefined: no label has both classes in this split; use other splits")
    return float(sum(scores) / len(scores))


def macro_f1(predicted: Tensor, y: Tensor, classes: int) -> float:
    """Returns the mean F1 of the classes that are in ``y`` [N] or ``predicted`` [N]."""
    right, *both = (items.bincount(minlength=classes) for items in (y[predicted == y], predicted, y))
    found = sum(both) > 0
    return (2 * right[found].double() / sum(both)[found]).mean().item()


def is_constant(metric: str, output: Tensor) -> bool:
    """Says whether several items all get one prediction: one class, or equal values but for rounding.

    Args:
        metric: The metric; with ``accuracy`` and ``f1`` the prediction is the class of the highest score.
        output: Network outputs, ``[N, num_outputs]``.
    """
    if output.size(0) < 2:
        return False
    if metric in ("accuracy", "f1"):
        return output.argmax(1).unique().numel() == 1
    spread = output.amax(0) - output.amin(0)
    return bool((spread <= ROUNDING * output.abs().amax(0).clamp(min=1)).all())


def evaluate(
    network: torch.nn.Module, batches: Iterable[Batch | WholeGraph], loss: str, metric: str
) -> dict[str, float]:
    """Returns the mean loss and the metric over all items of the batches, in evaluation mode.

    With them comes ``constant``: whether all items got one prediction. Outputs that are not finite have no metric.
    """
    network.eval()
    outputs, labels, total, count = [], [], 0.0, 0
    with torch.no_grad():
        for batch in batches:
            output = whole_outputs(network, batch) if isinstance(batch, WholeGraph) else network(batch)
            summed, size = loss_terms(loss, output, batch.y)
            total, count = total + summed.item(), count + size
            outputs.append(output.cpu())
            labels.append(batch.y.cpu())
    output = torch.cat(outputs).float()
    if not output.isfinite().all():
        return {"loss": float("nan"), metric: float("nan")}
    value = metric_value(metric, output, torch.cat(labels))
    return {"loss": total / max(count, 1), metric: value, "constant": is_constant(metric, output)}
