"""What every source of data hands to ``prepare``."""

from dataclasses import dataclass, field
from typing import Any

from ssma.data.graphs import Graphs

DIRECTION = {
    "accuracy": "maximize", "f1": "maximize", "ap": "maximize", "auroc": "maximize", "mae": "minimize",
    "rmse": "minimize",
}  # fmt: skip
LOSS = {"multiclass": "cross_entropy", "regression": "l1", "multilabel": "bce"}
"""Task -> the loss that trains it, unless the data set says otherwise."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """A data set in memory.

    Args:
        graphs: The graphs, with targets as the task needs them.
        level: ``graph`` or ``node``: what ``y`` labels.
        task: ``multiclass``, ``regression`` or ``multilabel``.
        metric: A key of ``DIRECTION``.
        num_outputs: Classes, or real targets, or labels.
        features: How ``x`` was made, in words.
        loss: Loss instead of the task's own.
        split: The official split, ``{"train", "validation", "test"}``, of a data set that has one.
        vocabulary: ``x`` and ``edge_attr`` -> number of codes of each categorical column, where it is known from
            elsewhere than the data at hand.
        label_mapping: Label in the raw files -> class number, where labels were mapped.
        columns: The columns of the user's ``y`` that are the targets, where a study names them.
        raw_files: Name -> SHA-256 of every raw file that was read.
        dropped_graphs: Graphs without nodes that were left out.
        kept: The others, as the raw files number them from 0, of data that a user may split; None for nodes.
        parts: Of a graph that is cut into parts: how many, how made, their sizes, and the edges between them.
        notes: What a reader of the numbers should know.
    """

    graphs: Graphs
    level: str
    task: str
    metric: str
    num_outputs: int
    features: str
    loss: str | None = None
    split: dict[str, list[int]] | None = None
    vocabulary: dict[str, list[int]] = field(default_factory=dict)
    label_mapping: dict[str, int] | None = None
    columns: list[int] | None = None
    raw_files: dict[str, str] = field(default_factory=dict)
    dropped_graphs: int = 0
    kept: list[int] | None = None
    parts: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)

    def label(self, number: int) -> str:
        """Returns the name that a class has in the raw files."""
        names = {place: name for name, place in (self.label_mapping or {}).items()}
        return names.get(number, str(number))

    def column(self, number: int) -> int:
        """Returns the number that a target has in the user's ``y``."""
        return self.columns[number] if self.columns else number

    @property
    def direction(self) -> str:
        return DIRECTION[self.metric]
