"""A user's own data: a folder in TU format, a file with a list of PyG graphs, or a PyG data set by its dotted path."""

import inspect
import os
import re
import shutil
from collections.abc import Sequence
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
from ssma.data.tu import read_set
from ssma.errors import STOPPED, StudyError
from ssma.study.classes import as_declared, parameters_of
from ssma.study.ids import data_fingerprint, file_fingerprint

READ = {"x", "edge_index", "edge_attr", "y", "num_nodes"}
EDGES_ELSEWHERE = ("adj_t", "adj")
ONE_PART = ("split", "train")  # arguments by which PyG's classes are asked for one part of their data
RAW, PROCESSED = "raw", "processed"  # folders of PyG's data sets: what they read, what they make (or processed_...)
NETWORK = ("aiohttp", "http", "requests", "urllib", "urllib3")  # whose errors are those of a download
METRICS = {"multiclass": ("accuracy",), "regression": ("mae",), "multilabel": ("ap", "auroc")}


def load_folder(spec: dict[str, Any], work: Path, mirror: Path | None) -> Loaded:
    """Reads a folder of ``<NAME>_A.txt``, ``<NAME>_graph_indicator.txt``, ``<NAME>_graph_labels.txt`` and so on.

    ``spec``: ``path`` and what ``ssma.data.tu.read_set`` takes. A mirror has no part in it.

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
    return read_set(name, work, spec)


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
            values in every graph. Whole numbers in ``x`` and ``edge_attr`` are codes, others are features.
        spec: ``features``: ``own``, that is ``x``, or features that ``made_features`` makes. ``task``: ``multiclass``
            (labels of any numbers are mapped to 0..C-1), ``regression``, ``multilabel`` (0 and 1 or -1 and 1; NaN is
            missing), or None: one integer is a class, unless most are rare, and real numbers that are not all whole are
            targets. ``metric`` and ``loss``, or None for those of the task.
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
    task, y, mapping = _targets([data_list[number] for number in kept], kept, spec["task"])
    metric, loss = spec["metric"] or METRICS[task][0], spec["loss"]
    if metric not in METRICS[task]:
        other = next(other for other, metrics in METRICS.items() if metric in metrics)
        raise StudyError(
            f"got metric {metric} for a {task} task; its metrics are {', '.join(METRICS[task])}, "
            f"{metric} is for task: {other}"
        )
    if loss and task != "regression":
        raise StudyError(f"got loss {loss} for a {task} task; loss is for task: regression")
    rows = iter(zip(x, y, strict=True))
    made = []
    for data in data_list:
        own_x, own_y = next(rows) if data.num_nodes else (None, None)
        made.append(Data(own_x, data.edge_index, data.edge_attr, own_y, num_nodes=data.num_nodes))
    graphs, dropped = Graphs.from_data_list(made)
    outputs = len(mapping) if mapping else graphs.y.size(1)
    notes = _lost("x", x) + _lost("edge_attr", [data_list[number].edge_attr for number in kept]) + lost_digits("y", y)
    if unread := sorted({key for data in data_list for key in data.to_dict()} - READ):
        notes.append(f"not used of the graphs: {', '.join(unread)}")
    return Loaded(
        graphs, "graph", task, metric, outputs, words, loss,
        label_mapping=mapping, raw_files=raw_files, dropped_graphs=dropped, kept=kept, notes=notes,
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
                f"got a batch of {data.num_graphs} graphs in place {number} of a list but {wanted}; take its graphs, "
                "batch.to_data_list()"
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
                f"graph {number}: x has {data.x.size(0)} rows, but num_nodes is {int(data.num_nodes)}; mend one of them"
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


def _targets(data_list: list[Data], numbers: list[int], task: str | None) -> tuple[str, Tensor, dict[str, int] | None]:
    """Returns the task, the targets of the graphs, and the mapping of class labels."""
    y: list[Tensor] = []
    for number, data in zip(numbers, data_list, strict=True):
        if data.y is None or not torch.as_tensor(data.y).numel():
            raise StudyError(f"graph {number}: it has no y; every graph needs its target")
        y.append(torch.as_tensor(data.y).reshape(-1))
        if y[-1].numel() != y[0].numel():
            raise StudyError(
                f"graph {number}: y has {y[-1].numel()} values, but {y[0].numel()} in the first graph; targets belong "
                "to graphs, as many to each"
            )
    values = torch.stack([row.double() for row in y])
    shapes = [torch.as_tensor(data.y).shape for data in data_list]
    sizes = [data.num_nodes for data in data_list]
    told = "but only graphs have targets in data of your own (node tasks: source ogbn); if they are a graph's,"
    in_rows = all(shape and shape[0] == n < shape.numel() for shape, n in zip(shapes, sizes, strict=True))
    if in_rows and max(sizes) > 1:
        raise StudyError(f"y has a row for each node, {told} make y [1, {values.size(1)}]")
    of_nodes = all(shape.numel() == n for shape, n in zip(shapes, sizes, strict=True))
    in_a_row = y[0].is_floating_point() and any(shape[:1] == (1,) for shape in shapes)
    if of_nodes and values.size(1) > 1 and not in_a_row and task in (None, "multiclass"):
        raise StudyError(f"y has a value for each node, {told} set task to multilabel or regression")
    task = task or _guess(values, all(not row.is_floating_point() for row in y))
    bad = values.isinf()
    if task != "regression":
        bad |= ~values.isnan() & (values != values.round())
    if task == "multiclass":
        if values.size(1) != 1:
            raise StudyError(
                f"y has {values.size(1)} values a graph, a class is one, its number; make it that (of one-hot values "
                f"y.argmax()), or set task to multilabel or regression"
            )
        bad |= values.isnan()
    _refuse(bad, values, numbers, f"not a target of a {task} task")
    if task == "regression":
        return task, values, None
    if task == "multiclass":
        labels = [int(row.item()) for row in y]  # of the tensors themselves: a double has no labels beyond 2**53 apart
        mapping = {str(label): place for place, label in enumerate(sorted(set(labels)))}
        return task, torch.tensor([mapping[str(label)] for label in labels]), mapping
    if sorted(set(values[~values.isnan()].tolist())) == [-1, 1]:
        values = values.clamp(min=0)
    unknown = ~values.isnan() & (values != 0) & (values != 1)
    _refuse(unknown, values, numbers, "not 0 or 1 as labels are (or -1 and 1 throughout; NaN is missing)")
    return task, values, None


def _guess(values: Tensor, whole: bool) -> str:
    if whole and values.size(1) == 1 and 3 * values.unique().numel() <= max(len(values), 30):  # others may be counts
        return "multiclass"
    labels = values == values.round() if values.size(1) == 1 else (values == 0) | (values == 1)
    if whole or bool((labels | values.isnan()).all()):
        raise StudyError("y could be labels or numbers; set task to multiclass, multilabel or regression")
    return "regression"


def _refuse(bad: Tensor, values: Tensor, numbers: list[int], why: str) -> None:
    if bool(bad.any()):
        row = int(bad.any(dim=1).nonzero()[0])
        raise StudyError(f"graph {numbers[row]}: y is {values[row].tolist()}, {why}; mend the data set, or its task")
