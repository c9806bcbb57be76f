"""What is learned of a user's own data: columns of ``y``, the task that their values make, and how it is measured."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from ssma.data.loaded import LOSS
from ssma.errors import StudyError
from ssma.study.cost import counted
from ssma.study.datasets import METRICS

LOSS_OF_METRIC = {"rmse": "mse"}
"""Metric -> the loss that has the same best predictions, where the task's own has others."""


class Targets(NamedTuple):
    """The task, ``y`` as the task needs it, the classes of labels, the columns if some are picked, and notes."""

    task: str
    y: Tensor
    mapping: dict[str, int] | None
    columns: list[int] | None
    notes: list[str]


def measured_by(task: str, spec: dict[str, Any], tasks: dict[str, str]) -> tuple[str, str | None, list[str]]:
    """Returns the metric, the loss if it is not the task's own, and notes.

    Without a ``loss``, the metric ``rmse`` is trained by the squared error: the absolute one has the median as its best
    prediction, which another metric is for.

    Args:
        spec: ``metric`` and ``loss``, which may be None or missing.
        tasks: The tasks that these data could have, each with what would make it theirs.

    Raises:
        StudyError: If metric or loss are those of another task.
    """
    metric, loss = spec.get("metric") or METRICS[task][0], spec.get("loss")
    if metric not in METRICS[task]:
        other = next(tasks[other] for other, metrics in METRICS.items() if metric in metrics)
        known = ", ".join(METRICS[task])
        raise StudyError(f"got metric {metric} for a {task} task; its metrics are {known}; {metric} is for {other}")
    if loss and task != "regression":
        raise StudyError(f"got loss {loss} for a {task} task; loss is for {tasks['regression']}")
    if loss or metric not in LOSS_OF_METRIC:
        return metric, loss, []
    loss = LOSS_OF_METRIC[metric]
    told = f"loss: {loss}, the default with the metric {metric}; set loss to {LOSS[task]} if that is meant"
    return metric, loss, [told]


def picked(columns: list[int], width: int, of: str) -> str:
    """Returns a note on the columns that are learned of so many.

    Args:
        of: What has the columns.

    Raises:
        StudyError: If there is no such column.
    """
    if unknown := ", ".join(str(column) for column in columns if column >= width):
        has = f"{width} columns, 0 to {width - 1}" if width > 1 else "one column, 0"
        raise StudyError(f"target: got {unknown}, but {of} has {has}; name others, or leave target out")
    names = ", ".join(map(str, columns))
    return f"target: column{'s' if columns[1:] else ''} {names} of {width} {'are' if columns[1:] else 'is'} learned"


def check_known(values: Tensor, columns: list[int] | None) -> None:
    """Refuses targets ``[items, targets]`` of which one has no value.

    Args:
        columns: The numbers of the targets in messages, from 0 by default.

    Raises:
        StudyError: With the columns that have none.
    """
    unknown = values.isnan().all(dim=0).nonzero().flatten().tolist()
    if unknown:
        names = ", ".join(str(columns[place] if columns else place) for place in unknown)
        raise StudyError(f"y has no known value in column {names}; mend the data set, or name other columns as target")


def read_targets(data_list: list[Data], numbers: list[int], task: str | None, columns: list[int] | None) -> Targets:
    """Reads ``y`` of graphs of unknown origin.

    Args:
        data_list: The graphs, which have nodes.
        numbers: What they are called in messages.
        task: ``multiclass``, ``regression`` or ``multilabel``; None where the values tell.
        columns: Those of ``y`` that are learned, or None for all.

    Raises:
        StudyError: With what is wrong, and the number of the graph.
    """
    y = _rows(data_list, numbers)
    _refuse_targets_of_nodes(data_list, y[0].numel(), task, columns)
    return _targets_of(y, "graph", numbers, task, columns)


def read_targets_of_nodes(data: Data, task: str | None, columns: list[int] | None) -> Targets:
    """Reads ``y`` of one graph as :func:`read_targets` does, but a row or number for each of its nodes.

    Raises:
        StudyError: With what is wrong, and the number of the node.
    """
    if data.y is None:
        raise StudyError("y is missing; with level: node every node needs its target")
    y = torch.as_tensor(data.y)
    if y.dim() not in (1, 2) or y.size(0) != data.num_nodes or not y.numel():
        raise StudyError(
            f"y has the shape {list(y.shape)}, but the graph {counted(data.num_nodes, 'node')}; with level: node it "
            "has a row or number for each node"
        )
    return _targets_of(list(y.reshape(len(y), -1)), "node", range(len(y)), task, columns)


def _targets_of(
    y: list[Tensor], item: str, numbers: Sequence[int], task: str | None, columns: list[int] | None
) -> Targets:
    values = torch.stack([row.double() for row in y])
    notes: list[str] = []
    if columns:
        notes.append(picked(columns, values.size(1), "y"))
        values, y = values[:, columns], [row[columns] for row in y]
    check_known(values, columns)
    task = task or _guess(values, all(not row.is_floating_point() for row in y))
    bad = values.isinf()
    if task != "regression":
        bad |= ~values.isnan() & (values != values.round())
    if task == "multiclass":
        if values.size(1) != 1:
            raise StudyError(
                f"y has {values.size(1)} values a {item}, a class is one, its number; make it that (of one-hot values "
                f"y.argmax()), name its column as target, or set task to multilabel or regression"
            )
        bad |= values.isnan()
    _refuse(bad, values, item, numbers, f"not a target of a {task} task")
    if task == "regression":
        return Targets(task, values, None, columns, notes)
    if task == "multiclass":
        labels = [int(row.item()) for row in y]  # of the tensors themselves: a double has no labels beyond 2**53 apart
        mapping = {str(label): place for place, label in enumerate(sorted(set(labels)))}
        classes = torch.tensor([mapping[str(label)] for label in labels])
        return Targets(task, classes, mapping, columns, notes)
    if sorted(set(values[~values.isnan()].tolist())) == [-1, 1]:
        values = values.clamp(min=0)
    unknown = ~values.isnan() & (values != 0) & (values != 1)
    _refuse(unknown, values, item, numbers, "not 0 or 1 as labels are (or -1 and 1 throughout; NaN is missing)")
    return Targets(task, values, None, columns, notes)


def _rows(data_list: list[Data], numbers: list[int]) -> list[Tensor]:
    y: list[Tensor] = []
    for number, data in zip(numbers, data_list, strict=True):
        if data.y is None or not torch.as_tensor(data.y).numel():
            raise StudyError(f"graph {number}: it has no y; every graph needs its target")
        y.append(torch.as_tensor(data.y).reshape(-1))
        if y[-1].numel() != y[0].numel():
            raise StudyError(
                f"graph {number}: y has {counted(y[-1].numel(), 'value')}, but {y[0].numel()} in the first graph; "
                "targets belong to graphs, as many to each"
            )
    return y


def _refuse_targets_of_nodes(data_list: list[Data], width: int, task: str | None, columns: list[int] | None) -> None:
    shapes = [torch.as_tensor(data.y).shape for data in data_list]
    sizes = [data.num_nodes for data in data_list]
    told = "but y belongs to graphs by default; set level to node, or if the values are a graph's,"
    in_rows = all(shape and shape[0] == n < shape.numel() for shape, n in zip(shapes, sizes, strict=True))
    if in_rows and max(sizes) > 1:
        raise StudyError(f"y has a row for each node, {told} make y [1, {width}]")
    of_nodes = all(shape.numel() == n for shape, n in zip(shapes, sizes, strict=True))
    in_a_row = torch.as_tensor(data_list[0].y).is_floating_point() and any(shape[:1] == (1,) for shape in shapes)
    if of_nodes and width > 1 and not (in_a_row or columns) and task in (None, "multiclass"):
        raise StudyError(f"y has a value for each node, {told} set task to multilabel or regression")


def _guess(values: Tensor, whole: bool) -> str:
    if whole and values.size(1) == 1 and 3 * values.unique().numel() <= max(len(values), 30):  # others may be counts
        return "multiclass"
    labels = values == values.round() if values.size(1) == 1 else (values == 0) | (values == 1)
    if whole or bool((labels | values.isnan()).all()):
        raise StudyError("y could be labels or numbers; set task to multiclass, multilabel or regression")
    return "regression"


def _refuse(bad: Tensor, values: Tensor, item: str, numbers: Sequence[int], why: str) -> None:
    if bool(bad.any()):
        row = int(bad.any(dim=1).nonzero()[0])
        raise StudyError(f"{item} {numbers[row]}: y is {values[row].tolist()}, {why}; mend the data set, or its task")
