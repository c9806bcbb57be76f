"""K-fold splits: fold f tests, fold f + 1 validates, the rest trains."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from ssma.errors import StudyError
from ssma.study.ids import digest
from ssma.study.records import PARTS

OWN = "those of a data set's own entry, if it has any, come before the study's"
"""Of the splits that an error says to change."""


def make_splits(
    y: Tensor, folds: int, scheme: str, seed: int, label: Callable[[int], str] = str
) -> tuple[str, list[dict[str, Any]]]:
    """Returns the scheme that was used and one ``{"train", "validation", "test", "hash"}`` per fold.

    ``stratified`` keeps the shares of the classes in every fold; it needs one class per item (int64 ``y``), and real
    targets or multiple labels are shuffled instead. ``shuffle`` is the protocol of the paper's authors: Python's
    generator shuffles the numbers, then consecutive blocks of floor(N / folds), the remainder in the last. ``label``
    gives the name of a class, for messages.

    Raises:
        StudyError: If there are fewer than 3 folds, more folds than items, or (stratified) than members of a class.
    """
    items = y.size(0)
    if not 3 <= folds <= items:
        raise StudyError(
            f"splits.folds: {folds} is not possible with {items} items; train, validation and test need at least 3 "
            f"folds, each with an item ({OWN})"
        )
    if scheme == "stratified" and not y.is_floating_point():
        parts = _stratified_folds(y.numpy(), folds, seed, label)
        return "stratified", [_split(parts, fold) for fold in range(folds)]
    if scheme not in ("stratified", "shuffle"):
        raise StudyError(f"splits.scheme: got {scheme!r}, allowed are stratified and shuffle")
    parts = _shuffled_folds(items, folds, seed)
    return "shuffle", [_split(parts, fold) for fold in range(folds)]


def split_hash(split: dict[str, Any]) -> str:
    """Returns the hash of the three lists of a split."""
    return digest([split[part] for part in PARTS], 16)


def _split(parts: list[list[int]], fold: int) -> dict[str, Any]:
    validation = (fold + 1) % len(parts)
    rest = [item for number, part in enumerate(parts) if number not in (fold, validation) for item in part]
    split = {"train": sorted(rest), "validation": sorted(parts[validation]), "test": sorted(parts[fold])}
    return split | {"hash": split_hash(split)}


def _stratified_folds(y: np.ndarray, folds: int, seed: int, label: Callable[[int], str]) -> list[list[int]]:
    from sklearn.model_selection import StratifiedKFold

    for place, count in zip(*np.unique(y, return_counts=True), strict=True):
        if count < folds:
            fewer = f"splits.folds to {count} or less (at least 3), or " if count >= 3 else ""
            raise StudyError(
                f"splits.folds: class {label(int(place))} has {count} members, too few for {folds} stratified folds; "
                f"set {fewer}splits.scheme to shuffle ({OWN})"
            )
    maker = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return [test.tolist() for _, test in maker.split(np.zeros(len(y)), y)]


def _shuffled_folds(items: int, folds: int, seed: int) -> list[list[int]]:
    order = list(range(items))
    random.Random(seed).shuffle(order)
    starts = [fold * (items // folds) for fold in range(folds)] + [items]
    return [order[start:end] for start, end in zip(starts[:-1], starts[1:], strict=True)]
