"""K-fold splits, of which fold f tests, fold f + 1 validates and the rest trains, and those of a file."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ssma.errors import StudyError
from ssma.study.cost import counted
from ssma.study.ids import file_fingerprint
from ssma.study.records import PARTS
from ssma.study.split_file import read_splits, split_hash

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
            f"splits.folds: {folds} is not possible with {counted(items, 'item')}; train, validation and test need at "
            f"least 3 folds, each with an item ({OWN})"
        )
    if scheme == "stratified" and not y.is_floating_point():
        parts = _stratified_folds(y.numpy(), folds, seed, label)
        return "stratified", [_split(parts, fold) for fold in range(folds)]
    if scheme not in ("stratified", "shuffle"):
        raise StudyError(f"splits.scheme: got {scheme!r}, allowed are stratified and shuffle")
    parts = _shuffled_folds(items, folds, seed)
    return "shuffle", [_split(parts, fold) for fold in range(folds)]


def file_splits(asked: dict[str, Any], numbers: Sequence[int], items: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the splits that a file names, as :func:`make_splits` does, and notes.

    Args:
        asked: ``file`` and ``content``, its SHA-256 when the plan was made.
        numbers: The item, as the file counts them, that each item of the data set is.
        items: How many the file counts: with those that the data set left out.

    Raises:
        StudyError: If the file is not what it was, names an item that there is not, or a part has only such as the data
            set left out, or two splits differ in such only.
    """
    path = Path(asked["file"]).absolute()
    try:
        if file_fingerprint(path) != asked["content"]:
            raise StudyError(f"{path}: changed after the plan was made; make the plan again")
        named = read_splits(path)
    except ValueError as error:
        raise StudyError(str(error)) from error
    place = {number: own for own, number in enumerate(numbers)}
    splits, seen, unused, lost = [], {}, set(range(items)), set()
    for number, split in enumerate(named):
        made = {part: [place[item] for item in split[part] if item in place] for part in PARTS}
        for part in PARTS:
            if split[part][-1] >= items:
                raise StudyError(
                    f"{path}: split {number}: {part} names item {split[part][-1]}, but the data set has {items}, "
                    f"numbered from 0 to {items - 1}; mend the file"
                )
            if not made[part]:
                raise StudyError(f"{path}: split {number}: all items of {part} are graphs without nodes; mend the file")
            unused -= set(split[part])
            lost |= set(split[part]) - place.keys()
        splits.append(made | {"hash": split_hash(made)})
        if (first := seen.setdefault(splits[-1]["hash"], number)) < number:
            raise StudyError(
                f"{path}: split {number} is split {first} again, but for graphs without nodes, which would count one "
                "result twice; leave it out"
            )
    notes = _seen_elsewhere(splits)
    if unused:
        notes.append(f"splits: {len(unused)} of {counted(items, 'item')} in no part of any split of the file")
    if lost:
        notes.append(f"splits: {len(lost)} of the items in the file left out, as graphs without nodes")
    return splits, notes


def _seen_elsewhere(splits: list[dict[str, Any]]) -> list[str]:
    """Says how much of the test parts other splits train or validate on, and how much they test too."""
    times = Counter(item for split in splits for item in split["test"])
    seen = {
        "training or validation": set().union(*(split[part] for split in splits for part in ("train", "validation"))),
        "test": {item for item, tested in times.items() if tested > 1},
    }
    notes = []
    for where, items in seen.items():
        shares = [100 * len(items.intersection(split["test"])) / len(split["test"]) for split in splits]
        ends = ("under 1" if 0 < share < 0.5 else f"{share:.0f}" for share in (min(shares), max(shares)))
        if any(shares):
            extent = " to ".join(dict.fromkeys(ends))
            notes.append(f"splits: {extent}% of a test part are in the {where} part of another split")
    return notes


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
                f"splits.folds: class {label(int(place))} has {counted(count, 'member')}, too few for {folds} "
                f"stratified folds; set {fewer}splits.scheme to shuffle ({OWN})"
            )
    maker = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return [test.tolist() for _, test in maker.split(np.zeros(len(y)), y)]


def _shuffled_folds(items: int, folds: int, seed: int) -> list[list[int]]:
    order = list(range(items))
    random.Random(seed).shuffle(order)
    starts = [fold * (items // folds) for fold in range(folds)] + [items]
    return [order[start:end] for start, end in zip(starts[:-1], starts[1:], strict=True)]
