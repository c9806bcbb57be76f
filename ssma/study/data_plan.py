"""A data set's entry in the plan: what it is read from, how it is split, and its id."""

from pathlib import Path
from typing import Any

from ssma.study.classes import set_fingerprint
from ssma.study.config import Study
from ssma.study.cost import counted
from ssma.study.datasets import DEFAULT_PARTS
from ssma.study.ids import data_fingerprint, digest, file_fingerprint, slug
from ssma.study.presets import SPLIT_SCHEME
from ssma.study.split_file import read_splits


def plan_dataset(study: Study, label: str) -> tuple[dict[str, Any], list[str]]:
    """Returns ``{"id", "label", "spec", "splits", "use"}``, ``use`` the number of splits that are used, and errors.

    The id does not tell where data of one's own lie, but what they are.
    """
    data = study.datasets[label]
    spec = data.model_dump(mode="json", exclude={"fixed", "splits"})
    if spec["source"] == "tu":
        spec["name"] = spec["name"] or label
    if spec["source"] == "ogbn":
        spec["parts"] = spec["parts"] or DEFAULT_PARTS[spec["name"]]
    splits, use, errors = _splits(study, label)
    if spec["source"] in ("folder", "file", "pyg"):
        key = "class" if spec["source"] == "pyg" else "path"
        spec["content"] = None
        try:
            spec["content"] = _content(spec)
        except ValueError as error:
            errors.insert(0, f"datasets.{label}.{key}: {error}")
    identity = {"spec": _placeless(spec, "path"), "splits": _placeless(splits, "file")}
    entry = {"id": f"{slug(label)}-{digest(identity)}", "label": label, "spec": spec, "splits": splits, "use": use}
    return entry, errors


def _placeless(entry: dict[str, Any], place: str) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != place}


def _content(spec: dict[str, Any]) -> str:
    """Returns what one's own data are known by, wherever they lie: a hash of the files, or of the class and the files
    that its arguments name."""
    if spec["source"] == "pyg":
        return set_fingerprint(spec["class"], spec["arguments"])
    return data_fingerprint(Path(spec["path"]).absolute())  # which says where it was looked for


def _splits(study: Study, label: str) -> tuple[dict[str, Any], int, list[str]]:
    """Returns how a data set is split, how many splits are used, and errors."""
    data, errors = study.datasets[label], []
    path = f"datasets.{label}.splits" if data.splits else "splits"
    if data.has_official_split:
        errors = [f"{path}: must be left out, the data set has an official split"] if data.splits else []
        return {"scheme": "official"}, 1, errors
    given = data.splits or study.splits
    splits, count, kind = given.model_dump(include={"folds", "scheme", "seed"}), given.folds, "folds"
    if study.protocol and "scheme" not in given.model_fields_set:
        splits["scheme"] = SPLIT_SCHEME[study.protocol]
    if given.file is not None:
        try:
            file = Path(given.file).absolute()
            count, kind = len(read_splits(file)), "splits"
            splits = {"scheme": "file", "file": given.file, "content": file_fingerprint(file)}
        except ValueError as error:
            return splits, 1, [f"{path}.file: {error}"]
    elif data.source == "synthetic" and count > (items := data.num_graphs or data.num_nodes):
        told = f"got {count}, but {label} has {counted(items, 'item')}, and each fold needs one"
        return splits, 1, [f"{path}.folds: {told}"]
    use = given.use or count
    if use > count:
        errors.append(f"{path}.use: got {use}, allowed is at most {count}, the number of {kind}")
    if study.tune.splits and study.tune.splits > use:
        errors.append(f"tune.splits: got {study.tune.splits}, but {label} has {counted(use, 'split')}")
    return splits, use, errors
