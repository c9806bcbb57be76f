"""Losses and metrics. A metric is always taken over all predictions of a split, never averaged over batches."""

import torch
from torch import Tensor
from torch.nn import functional as F


def loss_terms(task: str, output: Tensor, y: Tensor) -> tuple[Tensor, int]:
    """Returns the summed loss of the labelled entries and how many there are.

    Args:
        task: ``multiclass`` (cross-entropy), ``regression`` (L1) or ``multilabel`` (binary cross-entropy).
        output: Network outputs, ``[B, num_outputs]``.
        y: Classes ``[B]``, or targets ``[B, num_outputs]`` where NaN means missing.

    Raises:
        ValueError: If the shapes do not match; nothing is broadcast.
    """
    expected = (output.size(0),) if task == "multiclass" else tuple(output.shape)
    if tuple(y.shape) != expected:
        raise ValueError(f"labels have the shape {tuple(y.shape)} but expected {expected} for {task}")
    if task == "multiclass":
        return F.cross_entropy(output, y, reduction="sum"), y.numel()
    known = ~y.isnan()
    output, y = output[known], y[known]
    loss = F.l1_loss if task == "regression" else F.binary_cross_entropy_with_logits
    return loss(output, y, reduction="sum"), y.numel()


def metric_value(metric: str, output: Tensor, y: Tensor) -> float:
    """Returns ``accuracy``, ``mae`` or ``ap`` of all predictions of a split.

    ``ap`` is the average precision of each label, averaged over the labels of which the split has both classes;
    missing (NaN) entries count nowhere.

    Raises:
        ValueError: If the metric is unknown, or undefined because no label has both classes.
    """
    if metric == "accuracy":
        return (output.argmax(1) == y).double().mean().item()
    if metric == "mae":
        known = ~y.isnan()
        return (output - y)[known].double().abs().mean().item()
    if metric != "ap":
        raise ValueError(f"unknown metric {metric!r}; expected accuracy, mae or ap")
    from sklearn.metrics import average_precision_score

    scores = []
    for column in range(y.size(1)):
        known = ~y[:, column].isnan()
        label = y[known, column]
        if 0 < label.sum() < label.numel():
            scores.append(average_precision_score(label.numpy(), output[known, column].numpy()))
    if not scores:
        raise ValueError("ap is undefined: no label has both classes in this split; use fewer folds")
    return float(sum(scores) / len(scores))


def evaluate(network: torch.nn.Module, batches: list, task: str, metric: str) -> dict[str, float]:
    """Returns the mean loss and the metric over all items of the batches, in evaluation mode."""
    network.eval()
    outputs, labels, total, count = [], [], 0.0, 0
    with torch.no_grad():
        for batch in batches:
            output = network(batch)
            loss, size = loss_terms(task, output, batch.y)
            total, count = total + loss.item(), count + size
            outputs.append(output.cpu())
            labels.append(batch.y.cpu())
    output = torch.cat(outputs).float()
    if not output.isfinite().all():
        return {"loss": float("nan"), metric: float("nan")}
    return {"loss": total / max(count, 1), metric: metric_value(metric, output, torch.cat(labels))}
