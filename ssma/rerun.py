"""Training fits again, elsewhere, and comparing them with their records."""

import os
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch

from ssma.data.prepare import load
from ssma.errors import StudyError
from ssma.fit.run import check_compiler, pick_device, run_fit
from ssma.gpus import take_gpu
from ssma.study.classes import check_class
from ssma.study.lookup import named_arm
from ssma.study.paths import Results
from ssma.study.records import PARTS, read_record


def records_of(results: Results, plan: dict[str, Any], cell: str) -> list[dict[str, Any]]:
    """Returns the record of a fit by its id, or those of the evaluation fits of an arm by its id or label.

    Raises:
        StudyError: If there is no such fit or arm, or the arm has no evaluation fits.
    """
    if os.path.exists(results.fit(cell)):  # which takes no name amiss, however long
        return [read_record(results.fit(cell))]
    arm = named_arm(plan, cell)["id"]
    if not results.evaluation(arm).exists():
        raise StudyError(f"arm {arm} is not evaluated yet: there is no {results.evaluation(arm)}")
    evaluation = read_record(results.evaluation(arm))
    if not evaluation["fits"]:
        raise StudyError(f"arm {arm} has no evaluation fits: {evaluation['reason']}")
    return [read_record(results.fit(fit["id"])) for fit in evaluation["fits"]]


def rerun(results: Results, records: list[dict[str, Any]], device: str) -> Iterator[dict[str, Any]]:
    """Trains fits again from the specifications in their records and yields the new records; the old ones stay.

    Each fit uses as many threads as its record says, and is compiled if that was. A GPU is taken as by a job.

    Args:
        results: The study's results, for the prepared data.
        records: Fit records.
        device: ``auto``, ``cpu`` or ``cuda``.

    Raises:
        StudyError: If data or class are no longer those of a record, or it was compiled and nothing can be here.
    """
    prepared: dict[str, Any] = {}
    place = pick_device(device)
    if place.type == "cuda":
        take_gpu()
    for record in records:
        spec = record["spec"]
        name = spec["dataset"]
        if name not in prepared:
            prepared[name] = load(results.data(name))
        if prepared[name].card["data_hash"] != spec["data_hash"]:
            raise StudyError(f"fit {record['id']}: {results.data(name)} holds other data than it was trained on")
        if spec["class"]:
            check_class(spec["class"], spec["class_code"])
        torch.set_num_threads(record["threads"])
        compiled = record.get("compiled", False)  # older records lack it
        if compiled:
            check_compiler(place)
        with tempfile.TemporaryDirectory() as folder:
            yield run_fit(Results(Path(folder)), prepared[name], spec, place, compiled)


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Returns a line for each score that differs, the losses too: the same accuracy on a few graphs may come of other
    outputs. None if a fit came out the same."""
    keys = ("status", "best_epoch", "epochs", "parameters")
    lines = [f"{key} was {old[key]}, is {new[key]}" for key in keys if old[key] != new[key]]
    for part, key in product(PARTS, ("loss", old["metric"])):
        one, other = ((record[part] or {}).get(key) for record in (old, new))
        if one != other:
            lines.append(f"{part} {key} was {one}, is {other}")
    return lines


def circumstances(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Returns what a fit that came out otherwise was made by and is not made by now: device, code, versions; and that a
    GPU, if it was there both times, is not deterministic."""
    one, other = ({"device": record["device"], "code": record["code"], **record["versions"]} for record in (old, new))
    found = [f"{key} was {one.get(key)}, is {other[key]}" for key in other if one.get(key) != other[key]]
    return found + ["a GPU is not deterministic"] * (old["device"] == new["device"] != "cpu")
