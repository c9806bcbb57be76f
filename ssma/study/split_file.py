"""A file with a user's own splits."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from ssma.study.ids import digest
from ssma.study.records import PARTS

FORM = 'expected {"train": [...], "validation": [...], "test": [...]} or a list of such, items numbered from 0'


def read_splits(path: Path) -> list[dict[str, list[int]]]:
    """Returns the splits of a JSON file, the items of each part in order.

    Raises:
        ValueError: If it cannot be read; a split has other keys than its three parts, or an empty part; an item is no
            whole number from 0 or stands twice in a split; or two splits are the same.
    """
    try:
        found = json.loads(path.read_bytes(), object_pairs_hook=_once)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{path}: cannot be read ({reason}); {FORM}") from error
    splits = found if isinstance(found, list) else [found]
    if not splits:
        raise ValueError(f"{path}: got no split; {FORM}")
    made: list[dict[str, list[int]]] = []
    seen: dict[str, int] = {}
    for number, split in enumerate(splits):
        if reason := _wrong(split):
            raise ValueError(f"{path}: split {number}: {reason}")
        made.append({part: sorted(split[part]) for part in PARTS})
        if (first := seen.setdefault(split_hash(made[-1]), number)) < number:
            raise ValueError(
                f"{path}: split {number} is split {first} again, which would count one result twice; leave it out"
            )
    return made


def split_hash(split: dict[str, Any]) -> str:
    """Returns the hash of the three lists of a split."""
    return digest([split[part] for part in PARTS], 16)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if twice := [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]:
        raise ValueError(f"the key '{twice[0]}' stands twice")
    return dict(pairs)


def _wrong(split: Any) -> str | None:
    """Says what is wrong with a split, if anything is."""
    if not isinstance(split, dict) or sorted(split) != sorted(PARTS):
        got = f"the keys {', '.join(split) or 'none'}" if isinstance(split, dict) else f"a {type(split).__name__}"
        return f"got {got}; {FORM}"
    for part in PARTS:
        items = split[part]
        if not isinstance(items, list) or not items:
            return f"{part} is {json.dumps(items)[:50]} but expected a list of at least one item"
        for item in items:
            if type(item) is not int or item < 0:
                return f"{part} names {json.dumps(item)[:50]} but expected items numbered from 0"
    parts = [(item, part) for part in PARTS for item in split[part]]
    for item, times in Counter(item for item, _ in parts).items():
        if times > 1:
            places = dict.fromkeys(part for other, part in parts if other == item)
            return f"item {item} stands {times} times in it (in {' and '.join(places)}); once is the most"
    return None
