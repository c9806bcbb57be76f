"""Sealed records: JSON files that are written whole or not at all, and say when they were changed."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from ssma.errors import StudyError
from ssma.study.ids import canonical_json

SEAL = "seal"
PLACES = {
    "arms/*/chosen.json": ("chosen", "arm_id"),
    "arms/*/evaluation.json": ("evaluation", "arm_id"),
    "data/*/card.json": ("card", "dataset"),
    "data/*/sanity.json": ("sanity", "dataset"),
    "data/*/splits.json": ("splits", "dataset"),
    "fits/??/*.json": ("fit", "id"),
    "theory/*-*.json": ("theory", "id"),
}
"""Where records lie in results -> their kind, and the key that has the name of the file or of its folder.

A study or an ablation may be called as one of these folders: its plan, or what its folder holds, is none of them.
"""
PARTS = ("train", "validation", "test")
"""Parts of a split, and what a fit is measured on."""
SIGN = {"maximize": 1, "minimize": -1}
"""Direction of a metric -> what makes the better value the higher one."""


def write_atomic(path: Path, data: bytes) -> None:
    """Writes ``data`` to ``path`` through a temporary file in the same folder and a rename.

    If that fails, ``path`` is as before and the temporary file is gone: on a full disk it would take what is left.

    Raises:
        StudyError: If it cannot be written: the disk is full, the folder is read-only, ...
    """
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if temporary.exists():
            temporary.unlink()
        raise StudyError(f"{path}: cannot be written ({error.strerror})") from error


def write_record(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Seals ``record`` (a SHA-256 of its canonical JSON under ``seal``) and writes it; returns it sealed.

    Raises:
        ValueError: If the record holds NaN or infinity: say ``None`` and give the reason instead.
    """
    body = {key: value for key, value in record.items() if key != SEAL}
    sealed = body | {SEAL: _seal(body)}
    write_atomic(path, (json.dumps(sealed, indent=1, allow_nan=False) + "\n").encode())
    return sealed


def read_record(path: Path) -> dict[str, Any]:
    """Reads a sealed record.

    Raises:
        StudyError: If the file cannot be read, is not JSON, was changed after it was sealed, or is another one's copy.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict):
            raise ValueError("no table of keys")
        if SEAL not in record:
            raise StudyError(f"{path}: has no seal, so that it is none of the records that are written here")
        broken = _seal({key: value for key, value in record.items() if key != SEAL}) != record[SEAL]
    except OSError as error:
        raise StudyError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:  # no JSON, NaN, which is none, or brackets without end
        raise StudyError(f"{path}: not a sealed record ({error}); delete it to have it made again") from error
    if broken:
        raise StudyError(f"{path}: changed after it was sealed; delete it to have it made again")
    if belongs := foreign(path, record):
        raise StudyError(f"{path}: holds another record than {belongs}; delete it to have it made again")
    return record


def foreign(path: Path, record: dict[str, Any]) -> str | None:
    """Returns what belongs at a path in results if a record is of something else, as a copy that was put over it."""
    for place, (kind, key) in PLACES.items():
        if path.match(place):
            name = path.stem if key == "id" else path.parent.name
            if record.get("kind", kind) != kind or record.get(key, name) != name:
                return f"the {kind} of {name}"
    return None


def _seal(body: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(body).encode()).hexdigest()
