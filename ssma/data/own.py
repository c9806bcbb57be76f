"""A user's own data: a folder in TU format, a file with a list of PyG graphs, or a PyG data set by its dotted path."""

import inspect
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from numbers import Integral
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Batch, Data, Dataset
from torch_geometric.data.dataset import overrides_method
from torch_geometric.data.hypergraph_data import HyperGraphData

from ssma.data.checks import lost_digits
from ssma.data.features import MADE, made_features
from ssma.data.graphs import Graphs, edges_of
from ssma.data.loaded import Loaded
from ssma.data.opened import files_read, unknown_files
from ssma.data.raw import allow_graphs, check_sums, link, listed_by_name, unattended, whole
from ssma.data.targets import measured_by, read_targets, read_targets_of_nodes
from ssma.data.tu import read_set
from ssma.errors import STOPPED, StudyError
from ssma.study.classes import as_declared, parameters_of
from ssma.study.cost import counted
from ssma.study.datasets import METRICS
from ssma.study.ids import data_fingerprint, file_fingerprint

READ = {"x", "edge_index", "edge_attr", "y", "num_nodes"}
EDGES_ELSEWHERE = ("adj_t", "adj")
ONE_PART = ("split", "train")  # arguments by which PyG's classes are asked for one part of their data
RAW, PROCESSED = "raw", "processed"  # folders of PyG's data sets: what they read, what they make (or processed_...)
NETWORK = ("aiohttp", "http", "requests", "urllib", "urllib3")  # whose errors are those of a download
TASKS = {task: f"task: {task}" for task in METRICS}
OF_FILES = {
    "multiclass": "classes, of NAME_graph_labels.txt without NAME_graph_attributes.txt",
    "regression": "numbers, of NAME_graph_attributes.txt",
}
"""Task -> what makes it the task of a folder."""


def load_folder(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Reads a folder of ``<NAME>_A.txt``, ``<NAME>_graph_indicator.txt``, ``<NAME>_graph_labels.txt`` and so on.

    ``spec``: ``path``, what ``ssma.data.tu.read_set`` takes, and perhaps ``target``, ``metric`` and ``loss``, as those
    of ``check_graphs``. A mirror has no part in it.

    Raises:
        StudyError: If there is not exactly one set in the folder, or with what is wrong in its files.
    """
    path = _unchanged(spec)
    found = sorted(file for file in path.glob("*_A.txt") if not file.name.startswith("."))  # as macOS leaves them
    if len(found) != 1:
        names = f" ({', '.join(file.name for file in found)})" if found else ""
        raise StudyError(
            f"{path}: got {len(found)} files *_A.txt{names} but expected 1, the edges of a set in TU format"
        )
    name = found[0].name.removesuffix("_A.txt")
    link(work / name / "raw", path)
    loaded = read_set(name, work, spec)
    metric, loss, notes = measured_by(loaded.task, spec, OF_FILES)
    loaded = replace(loaded, metric=metric, loss=loss, notes=loaded.notes + notes)
    if (columns := spec.get("target")) and loaded.task != "regression":
        raise StudyError(f"target: got {', '.join(map(str, columns))}, but each graph has one class; leave target out")
    return loaded


def load_file(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Reads a list of ``torch_geometric.data.Data`` that ``torch.save`` wrote; code in the file is never run.

    ``spec``: ``path`` and what ``check_graphs`` takes. Folders and mirror have no part in it.

    Raises:
        StudyError: If the file cannot be read, or with what is wrong in its graphs.
    """
    path = _unchanged(spec)
    allow_graphs()
    try:
        check_sums(path)
        data_list = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes torch.load raise nearly anything
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, UnpicklingError):  # whose own text advises to run the code in the file
            kind = re.search(r"Unsupported global: GLOBAL (\S+)", reason)
            reason = f"it holds other objects, {f'of {kind[1]}' if kind else 'or is damaged'}"
            if kind and kind[1].endswith(".AttrType"):
                reason = "it holds what PyG notes when it changes graphs; save [data.clone() for data in graphs]"
        expected = "a list of torch_geometric.data.Data with tensors and plain values, written by torch.save"
        raise StudyError(f"{path}: cannot be read ({reason}); expected {expected}") from error
    return check_graphs(data_list, spec, {path.name: file_fingerprint(path)})


def load_pyg(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Makes a PyG data set and takes its graphs.

    ``spec``: ``class``, the dotted path; ``arguments`` of the call; and what ``check_graphs`` takes. The class gets a
    folder of the results for its ``root``. A ``root`` among the arguments is read and never written: its files are
    linked there, but for those that the class has processed before. What it downloads into its folder is kept, unless
    the call fails. Random numbers are seeded, folders listed by name, and a network that does not answer ends the call.

    Raises:
        StudyError: If the class cannot be imported or called, or with what is wrong in its graphs.
    """
    dotted, arguments, parameters = spec["class"], dict(spec["arguments"]), {}
    module, _, name = dotted.rpartition(".")
    folder = (work / "pyg").absolute()  # the class may change the working directory
    allow_graphs()  # many classes read what they have processed by torch.load
    try:
        with unattended(), listed_by_name(), whole(folder), files_read(folder) as read:
            seed_everything(0)  # a module may draw too, and has to draw the same when it is imported again
            kind = getattr(import_module(module), name)
            parameters = _parameters(kind)
            if "root" in parameters:
                _link_unprocessed(arguments.get("root"), folder)
                arguments["root"] = str(folder)
            seed_everything(0)  # whatever the imports have drawn
            dataset = kind(**as_declared(arguments, parameters))
            _check_processed(dataset, folder)
            map_style = not hasattr(dataset, "__iter__")  # Python would go on beyond its length
            graphs = (dataset[number] for number in range(len(dataset))) if map_style else iter(dataset)
            data_list = [_copy(data) for data in graphs]
    except StudyError:
        raise
    except (Exception, SystemExit) as error:  # a user's class may raise anything, and ogb ends the process
        if isinstance(error, SystemExit) and error.code == STOPPED:
            raise
        remedy = "mend the class, its arguments or PYTHONPATH"
        if isinstance(error, ConnectionError | TimeoutError) or type(error).__module__.split(".")[0] in NETWORK:
            here = "name a copy of its root, with what it downloads elsewhere, as root in arguments"
            remedy = f"without a network {here if 'root' in parameters else 'let it read files that are here'}"
        told = f"{dotted} with {spec['arguments']}: {type(error).__name__}: {error}"
        raise StudyError(f"{told}; {remedy}") from error
    loaded = check_graphs(data_list, spec, {})
    loaded.notes.extend(unknown_files(read, spec["arguments"]))
    if hasattr(dataset, "get_idx_split"):  # so OGB calls it
        loaded.notes.append("splits: the class has a split of its own (get_idx_split), which is not used")
    for key in ONE_PART:
        default = parameters[key].default if key in parameters.keys() - arguments.keys() else None
        if default not in (None, inspect.Parameter.empty):
            loaded.notes.append(
                f"splits: the class gave the part {key}={default!r} of its data, its default, and that part alone is "
                f"split; name {key} in arguments if it is meant"
            )
    return loaded


def _copy(data: Any) -> Any:
    """Returns a graph of its own: a class may hand out one object for all, and change it each time."""
    return data.clone() if isinstance(data, Data) and "_store" in vars(data) else data


def _link_unprocessed(root: str | None, folder: Path) -> None:
    """Makes ``folder`` hold what ``root`` holds and what was downloaded into it before, but nothing processed."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_symlink():
            path.unlink()
        elif _is_processed(path.relative_to(folder)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if root is None:
        return
    source, within = Path(root).expanduser().resolve(), folder.resolve()
    for place, folders, files in os.walk(source, followlinks=True):  # raw files are often links to shared ones
        here = Path(place)
        around = {within, here.resolve(), *here.resolve().parents}  # to follow a link to these would never end
        below = here.relative_to(source)
        folders[:] = [
            name for name in folders if not _is_processed(below / name) and (here / name).resolve() not in around
        ]
        for name in files:
            if not _is_processed(below / name):
                link(folder / below / name, here / name)


def _is_processed(path: Path) -> bool:
    """Says whether a path below a root is what a class made: of that name, and not among the raw files."""
    return next((part for part in path.parts if part == RAW or part.startswith(PROCESSED)), RAW) != RAW


def _parameters(kind: Any) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a class; where it processes data, those too of the classes that it hands any other
    keyword on to (one that processes nothing, such as PyG's ``FakeDataset``, has other uses for them).
    """
    processes = inspect.isclass(kind) and issubclass(kind, Dataset) and overrides_method(kind, "process")
    return parameters_of(kind) if processes else dict(inspect.signature(kind).parameters)


def _check_processed(dataset: Any, folder: Path) -> None:
    """Refuses a class that keeps what it makes where something older may lie, which it would take for its own."""
    if not isinstance(dataset, Dataset) or not dataset.has_process:
        return
    for place in dataset.processed_paths:
        path, root = Path(place).resolve(), folder.resolve()
        if not (path.is_relative_to(root) and _is_processed(path.relative_to(root))):
            raise StudyError(
                f"{type(dataset).__name__}: it keeps what it processes in {path}, where older data may lie that it "
                f"takes for its own; have it take an argument root, hand that on to PyG, and leave processed_dir to PyG"
            )


def check_graphs(data_list: Any, spec: dict[str, Any], raw_files: dict[str, str]) -> Loaded:
    """Checks graphs of unknown origin.

    Args:
        data_list: The graphs: ``x`` [n, F], ``edge_index`` [2, E], perhaps ``edge_attr`` [E, D], and ``y`` with as many
            values in every graph. Whole numbers in ``x`` and ``edge_attr`` are codes, others are features. With
            ``level`` ``node`` in ``spec``, one graph with a row or number of ``y`` for each node.
        spec: ``features``: ``own``, that is ``x``, or features that ``made_features`` makes. ``task``: ``multiclass``
            (labels of any numbers are mapped to 0..C-1), ``regression``, ``multilabel`` (0 and 1 or -1 and 1; NaN is
            missing), or None: one integer is a class, unless most are rare, and real numbers that are not all whole are
            targets. ``metric`` and ``loss``, or None for those of the task. Perhaps ``target``: the columns of ``y``
            that are learned, from 0; the others are as if they were not there.
        raw_files: Hashes of the files that were read.

    Raises:
        StudyError: With what is wrong; the message names the graph by its number in the list.
    """
    _check_list(data_list)
    _check_contents(data_list)
    kept = [number for number, data in enumerate(data_list) if data.num_nodes]
    if not kept:
        raise StudyError("no graph has a node")
    x, words = _features([data_list[number] for number in kept], kept, spec["features"])
    level, columns = spec.get("level", "graph"), spec.get("target")
    if level == "node":
        if len(data_list) != 1:
            raise StudyError(
                f"level: got node and {len(data_list)} graphs, but targets of nodes are those of one graph; join them, "
                "[Data.from_dict(Batch.from_data_list(graphs).to_dict())], and split the nodes by a file"
            )
        targets = read_targets_of_nodes(data_list[0], spec["task"], columns)
    else:
        targets = read_targets([data_list[number] for number in kept], kept, spec["task"], columns)
    task, y, mapping = targets.task, targets.y, targets.mapping
    metric, loss, told = measured_by(task, spec, TASKS)
    rows = iter(zip(x, [y] if level == "node" else y, strict=True))
    made = []
    for data in data_list:
        own_x, own_y = next(rows) if data.num_nodes else (None, None)
        made.append(Data(own_x, data.edge_index, data.edge_attr, own_y, num_nodes=data.num_nodes))
    graphs, dropped = Graphs.from_data_list(made, level)
    outputs = len(mapping) if mapping else graphs.y.size(1)
    notes = _lost("x", x) + _lost("edge_attr", [data_list[number].edge_attr for number in kept])
    notes += lost_digits("y", y, targets.columns) + targets.notes + told
    if unread := sorted({key for data in data_list for key in data.to_dict()} - READ):
        notes.append(f"not used of the graphs: {', '.join(unread)}")
    return Loaded(
        graphs, level, task, metric, outputs, words, loss,
        label_mapping=mapping, columns=targets.columns, raw_files=raw_files, dropped_graphs=dropped,
        kept=kept if level == "graph" else None, notes=notes,
    )  # fmt: skip


def _unchanged(spec: dict[str, Any]) -> Path:
    """Returns the path of the data, if they are what they were when the plan was made."""
    path = Path(spec["path"]).resolve()
    try:
        content = data_fingerprint(path)
    except ValueError as error:
        raise StudyError(str(error)) from error
    if content != spec["content"]:
        raise StudyError(f"{path}: changed after the plan was made; make the plan again")
    return path


def _check_list(data_list: Any) -> None:
    wanted = "expected a list of torch_geometric.data.Data, as list(dataset) is one"
    if not isinstance(data_list, list | tuple):
        raise StudyError(f"got {type(data_list).__name__} but {wanted}")
    for number, data in enumerate(data_list):
        if not isinstance(data, Data) or isinstance(data, HyperGraphData):  # its edges join nodes to sets
            found = f"{type(data).__name__} in place {number} of a {type(data_list).__name__}"
            raise StudyError(f"got {found} but {wanted}")
        if isinstance(data, Batch):
            raise StudyError(
                f"got a batch of {counted(data.num_graphs, 'graph')} in place {number} of a list but {wanted}; take "
                "its graphs, batch.to_data_list()"
            )
        if "_store" not in vars(data):
            raise StudyError(
                f"graph {number}: a version of PyG before 2 made it, which this one cannot read; make it again, e.g. "
                "by Data.from_dict(vars(data))"
            )


def _check_contents(data_list: Sequence[Data]) -> None:
    for number, data in enumerate(data_list):
        _check_tensors(number, data)
        if data.x is None and "num_nodes" not in data.to_dict():
            raise StudyError(
                f"graph {number}: it has neither x nor num_nodes, so that nodes without edges at its end would be "
                "lost; set x to the features of its nodes, or num_nodes where features makes them"
            )
        if data.x is not None and data.x.size(0) != data.num_nodes:
            raise StudyError(
                f"graph {number}: x has {counted(data.x.size(0), 'row')}, but num_nodes is {int(data.num_nodes)}; mend "
                "one of them"
            )
        if data.x is not None and data.x.is_floating_point() and not bool(data.x.double().isfinite().all()):
            raise StudyError(f"graph {number}: x holds NaN or an infinite value; mend the data set")


def _check_tensors(number: int, data: Data) -> None:
    count = data.to_dict().get("num_nodes", 0)
    whole = isinstance(count, Integral) or (
        isinstance(count, Tensor) and count.numel() == 1 and not count.is_floating_point()
    )
    if count is not None and not (whole and int(count) >= 0):
        raise StudyError(f"graph {number}: num_nodes is {count!r} but expected a whole number from 0")
    if data.edge_index is None and (others := [key for key in EDGES_ELSEWHERE if key in data]):
        raise StudyError(
            f"graph {number}: its edges are in {others[0]} but expected in edge_index [2, E], int64; "
            "convert them, e.g. with torch_geometric.utils.to_edge_index"
        )
    for key in ("x", "edge_attr", "y"):
        value = data.get(key)
        if value is not None and not _is_plain(value, key):
            got = f"{value.layout} {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
            raise StudyError(f"graph {number}: {key} is {got} but expected a dense tensor of real numbers; convert it")
        if key != "y" and value is not None and torch.as_tensor(value).dim() == 0:
            of = "node" if key == "x" else "edge"
            raise StudyError(f"graph {number}: {key} is the number {float(value)} but expected a row for each {of}")


def _is_plain(value: Any, key: str) -> bool:
    try:
        value = value if key == "x" else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        return False
    return (
        isinstance(value, Tensor) and value.layout == torch.strided and not value.is_complex() and not value.is_nested
    )


def _features(data_list: list[Data], numbers: list[int], kind: str) -> tuple[list[Tensor], str]:
    given = list(zip(numbers, data_list, strict=True))
    if kind in MADE:
        return made_features(kind, [edges_of(data, number) for number, data in given], [d.num_nodes for d in data_list])
    missing = [number for number, data in given if data.x is None or not data.x.numel()]
    if missing:
        raise StudyError(f"graph {missing[0]}: it has no x; set features to {', '.join(MADE)}")
    return [data.x for data in data_list], "x of the graphs"


def _lost(name: str, values: Sequence[Any]) -> list[str]:
    """Returns ``lost_digits`` of the features of graphs, of which some may have none."""
    tensors = [torch.as_tensor(own) for own in values if own is not None]
    doubles = [own.reshape(len(own), -1) for own in tensors if own.dtype == torch.float64 and own.numel()]
    return lost_digits(name, torch.cat([own.detach().cpu() for own in doubles])) if doubles else []
