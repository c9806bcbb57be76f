"""A fit: from a specification to a sealed record. Interrupted fits continue, finished ones are not repeated."""

import logging
import math
import os
import platform
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from torch_geometric import seed_everything

import ssma
from ssma.aggr import SSMAAggregation
from ssma.data.batches import Batches
from ssma.data.degrees import degree_histogram
from ssma.data.parts import PartBatches, WholeBatch
from ssma.data.prepare import Prepared
from ssma.data.raw import check_sums
from ssma.errors import STOPPED, StudyError, printable
from ssma.fit.metrics import evaluate
from ssma.fit.spec import fit_id
from ssma.fit.summaries import module_summaries
from ssma.fit.training import Task, Training, check_seed, load_state
from ssma.layers.network import Network, compile_products, describe, walk_steps
from ssma.layers.width import count_parameters, hidden_channels
from ssma.study.ids import code_fingerprint, git_commit, seed_from
from ssma.study.locks import exclusive
from ssma.study.paths import Results
from ssma.study.records import PARTS, read_record, write_atomic, write_record

CHECKPOINT_SECONDS = 1.0  # a kill loses the current epoch, or this much of shorter ones
RETRY_SECONDS = 60.0  # after a checkpoint that could not be written
ROUNDING = tuple(product(("cuda", "mkldnn"), ("matmul", "rnn", "conv")))
MATMUL = {None: "highest", "tf32": "high", "bf16": "medium"}  # torch's words for products of matrices

log = logging.getLogger("ssma.fit")
_traced: set[str] = set()  # errors whose traceback this process has shown: once is enough


def pick_device(name: str) -> torch.device:
    """Returns the device for ``auto``, ``cpu`` or ``cuda``.

    Raises:
        StudyError: If CUDA is asked for and absent.
    """
    if name == "cuda" and not torch.cuda.is_available():
        built_for = torch.version.cuda or torch.version.hip
        mend = "install a CUDA build"
        if built_for:  # a newer one would find none either
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            shown_by, of = ("nvidia-smi", "CUDA") if torch.version.cuda else ("rocm-smi", "ROCm")
            mend = f"see that {shown_by} shows one and a driver for {of} {built_for}"
            mend += "" if visible is None else f", and that CUDA_VISIBLE_DEVICES={visible} names it"
        raise StudyError(f"device: cuda was asked for but torch finds no GPU; use 'cpu' or 'auto', or {mend}")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def check_compiler(device: torch.device) -> None:
    """Compiles the smallest product of SSMA.

    Raises:
        StudyError: If that fails.
    """
    try:
        aggr = SSMAAggregation(1, 1, compiled=True).to(device)
        aggr(torch.ones(1, 1, device=device), torch.zeros(1, dtype=torch.long, device=device), dim_size=1)
    except RuntimeError as error:
        raise StudyError(f"compiled: true was asked for; {error}") from error


def run_fit(
    results: Results, prepared: Prepared, spec: dict[str, Any], device: torch.device, compiled: bool = False
) -> dict[str, Any]:
    """Returns the record of a fit, from disk if it has finished before; ``compiled`` as in a study.

    An exception inside the training becomes a record of status ``failed`` with its text, so that it costs one fit.

    Raises:
        StudyError: If the exception left a GPU on which this process can train no other fit.
    """
    path = results.fit(fit_id(spec))
    with exclusive(path.with_suffix(".lock")):  # arms that run side by side may share a fit
        record = read_record(path) if path.exists() else None
        return record if record and record["status"] != "failed" else _fit(path, prepared, spec, device, compiled)


def _fit(path: Path, prepared: Prepared, spec: dict[str, Any], device: torch.device, compiled: bool) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    checkpoint, on_gpu = path.with_suffix(".ckpt"), device.type == "cuda"
    name = torch.cuda.get_device_name(device) if on_gpu else "cpu"  # later a GPU may not answer
    try:
        with _deterministic(not on_gpu and spec["class"] is not None):
            outcome = _train(prepared, spec, device, compiled, checkpoint, now)
    except (Exception, SystemExit) as error:  # a user's class may end the process, as one that reads its arguments does
        if isinstance(error, SystemExit) and error.code == STOPPED:
            raise
        reason = str(error) if isinstance(error, StudyError) else f"{type(error).__name__}: {error}"
        traced = None if isinstance(error, StudyError) or reason in _traced else True
        _traced.add(reason)
        log.error("fit %s failed: %s", path.stem, reason, exc_info=traced)  # a name of it would keep the fit's memory
        outcome = {"status": "failed", "reason": printable(reason)[:1000]}
    card = prepared.card
    empty = dict.fromkeys(
        ("best_epoch", "epochs", "train", "validation", "test", "history", "hidden_channels", "parameters", "model",
         "modules", "seconds", "seconds_per_step", "peak_memory_mb")
    )  # fmt: skip
    record = empty | {
        "kind": "fit",
        "id": path.stem,
        "spec": spec,
        "metric": card["metric"],
        "direction": card["direction"],
        "budget": spec["settings"]["model"]["budget"],
        "device": name,
        "threads": torch.get_num_threads(),
        "compiled": compiled,
        "deterministic": not on_gpu,
        "versions": _versions(),
        "code": code_fingerprint(),
        "git_commit": git_commit(),
        "started": now,
        **outcome,
    }
    record = write_record(path, record)
    checkpoint.unlink(missing_ok=True)
    if on_gpu and record["status"] == "failed":
        _check_usable(device, record)
    return record


def _check_usable(device: torch.device, record: dict[str, Any]) -> None:
    """Refuses to go on with a GPU that a failed assertion or a wrong access of a kernel made useless to this process:
    all fits to come would fail of it, and a search would be left with the trials before."""
    try:
        torch.cuda.synchronize(device)
    except RuntimeError as error:
        reason, said = (text.partition("\n")[0] for text in (record["reason"], str(error)))
        raise StudyError(
            f"fit {record['id']} failed ({reason}) and left a GPU on which this process can train no other ({said}); "
            f"mend the cause and start the study again"
        ) from error


@contextmanager
def _deterministic(wanted: bool) -> Iterator[None]:
    """Lets torch add in a fixed order on several threads.

    The gradient of ``x[index]`` in a user's class comes out otherwise each time without it. The aggregations and layers
    of this package do not index so.
    """
    before = torch.get_deterministic_debug_mode()
    if wanted:
        torch.set_deterministic_debug_mode("warn")  # of an operation that has no fixed order
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


@contextmanager
def _in_float32() -> Iterator[None]:
    """Lets products keep all digits, whoever let them round to TF32 or bfloat16: torch does so for cuDNN's recurrent
    networks, NVIDIA's containers (``TORCH_ALLOW_TF32_CUBLAS_OVERRIDE``) for the others, and a user's module may, on a
    CPU too. Arms would be trained less exactly than what they are compared with, here or on another machine."""
    before = _rounding()
    _let_round(dict.fromkeys(before))
    try:
        yield
    finally:
        _let_round(before)


def _rounding() -> dict[tuple[str, str], str | None]:
    """Returns what torch may round factors to, by backend and operation; None where it does not."""
    if hasattr(torch._C, "_get_fp32_precision_getter"):
        # where a setting has its newer name, asking by its older one may be an error; that of rnn is hidden by a module
        found = {place: torch._C._get_fp32_precision_getter(*place) for place in ROUNDING}
        return {place: name if name in MATMUL else None for place, name in found.items()}
    matmul = {name: rounded for rounded, name in MATMUL.items()}[torch.get_float32_matmul_precision()]
    of_cuda = ("tf32" if matmul else None, *["tf32" if torch.backends.cudnn.allow_tf32 else None] * 2)
    return dict(zip(ROUNDING, (*of_cuda, matmul, None, None), strict=True))


def _let_round(allowed: dict[tuple[str, str], str | None]) -> None:
    torch.set_float32_matmul_precision(MATMUL[allowed["mkldnn", "matmul"] or allowed["cuda", "matmul"]])
    torch.backends.cudnn.allow_tf32 = allowed["cuda", "rnn"] is not None
    if hasattr(torch._C, "_set_fp32_precision_setter"):  # else what is set for all backends would hold
        for place, name in allowed.items():
            torch._C._set_fp32_precision_setter(*place, name or "ieee")


def _train(
    prepared: Prepared, spec: dict[str, Any], device: torch.device, compiled: bool, checkpoint: Path, now: str
) -> dict[str, Any]:
    card, settings = prepared.card, spec["settings"]
    task = Task(card["loss"], card["metric"], card["direction"])
    width = hidden_channels(card, spec["layer"], spec["aggregator"], settings, spec["class"])
    split = prepared.splits[spec["split"]]
    degrees = degree_histogram(prepared.graphs, split["train"], card["level"])

    def make() -> Network:
        return Network(card, spec["layer"], spec["aggregator"], settings, width, spec["class"], degrees)

    other = make() if spec["class"] else None
    seed_everything(spec["seed"])
    network = make()
    check_seed(spec["seed"])
    shared = {} if other is None else _shared(network, other)
    network.to(device)
    compiled = compiled and compile_products(network)
    described = describe(network)
    train, parts = _batches(prepared, split, settings, device)
    validation = list(parts["validation"].epoch())
    training = Training(network, train, validation, task, settings["training"], spec["seed"])
    made_by = {
        "code": code_fingerprint(),
        "device": device.type,
        "threads": torch.get_num_threads(),
        "compilation": compiled,
        "versions": _versions(),
    }
    started = _restore(training, checkpoint, made_by) or now
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    scores, modules = dict.fromkeys(parts), None
    with _in_float32():  # a user's class is imported and made by now
        saver = _Saver(checkpoint, {"made_by": made_by, "started": started})
        status, reason = training.run(lambda training: _check_unchanged(shared, other) or saver(training))
        _check_unchanged(shared, other)  # in an epoch that diverged, too
        if status == "ok":
            load_state(network, training.best["state"])
            seed_everything(seed_from(spec["seed"], "end"))  # for a user's class that draws in evaluation too
            for name, batches in parts.items():
                found = evaluate(network, batches.epoch(), task.loss, task.metric)
                scores[name] = {key: value if math.isfinite(value) else None for key, value in found.items()}
            if scores["validation"][task.metric] is None:  # it was a number in that epoch
                status = "diverged"
                reason = (
                    f"the validation {task.metric} of the best epoch was not finite when it was taken again at the end"
                )
                scores = dict.fromkeys(parts)
            else:
                modules = module_summaries(network)
                _warn_of_change(checkpoint.stem, scores["validation"][task.metric], training, device)
    seconds = sum(training.history["seconds"])
    return scores | {
        "status": status,
        "reason": reason,
        "started": started,
        "compiled": compiled,
        "best_epoch": training.best["epoch"] if training.best else None,
        "epochs": training.epochs,
        "history": training.history,
        "hidden_channels": width,
        "parameters": count_parameters(network),
        "model": described,
        "modules": modules,
        "seconds": seconds,
        "seconds_per_step": seconds / max(training.steps, 1),
        "peak_memory_mb": _peak_memory(device),
    }


def _warn_of_change(fit: str, found: float, training: Training, device: torch.device) -> None:
    """Warns if the best epoch has another validation metric than it had, but for rounding, which is another one where a
    fit went on on another kind of CPU; on a GPU sums may differ each time."""
    if device.type == "cpu" and not math.isclose(found, training.best["value"], rel_tol=1e-5):
        log.warning(
            "fit %s: the validation %s of its best epoch was %g, and is %g with the weights and buffers of that epoch; "
            "keep what lasts from call to call in buffers (a class that draws in evaluation differs so, too)",
            fit, training.task.metric, training.best["value"], found,
        )  # fmt: skip


def _shared(network: Network, other: Network) -> dict[str, torch.Tensor]:
    """Returns what :func:`_kept` says of tensors that are those of both networks.

    Raises:
        StudyError: If both train the same weights: a fit would begin with what the ones before it have learnt.
    """
    known = {id(parameter) for parameter in other.parameters()}
    for name, parameter in network.named_parameters():
        if id(parameter) in known and parameter.requires_grad:
            raise StudyError(
                f"parameter {name} is one and the same in every network, so that a fit would begin with what others "
                f"have learnt; make it in __init__, where a default such as act=PReLU() is made once for all"
            )
    known = {id(tensor) for tensor in _kept(other).values()}
    return {name: tensor.detach().cpu().clone() for name, tensor in _kept(network).items() if id(tensor) in known}


def _kept(network: Network) -> dict[str, torch.Tensor]:
    """Returns the buffers of a network, and tensors that are attributes of its classes, by what they are called."""
    kinds = {kind for module in network.modules() for kind in type(module).__mro__}
    attributes = {f"attribute {kind.__name__}.{name}": value for kind in kinds for name, value in vars(kind).items()}
    tensors = {name: value for name, value in attributes.items() if isinstance(value, torch.Tensor)}
    return tensors | {f"buffer {name}": buffer for name, buffer in network.named_buffers()}


def _check_unchanged(shared: dict[str, torch.Tensor], other: Network | None) -> None:
    """Refuses a fit that changes what another network keeps, which the fits after it would begin with."""
    now = _kept(other) if shared else {}
    for name, before in shared.items():
        found = now[name].detach().cpu()
        if found.shape != before.shape or bool(((found != before) & ~(found.isnan() & before.isnan())).any()):
            raise StudyError(
                f"{name} is one and the same in every network, and a fit changes it, so that others would begin with "
                f"what it has left; make it in __init__, as a buffer, and not as a default or an attribute of the "
                f"class, of which there is one for all"
            )


def _batches(
    prepared: Prepared, split: dict[str, Any], settings: dict[str, Any], device: torch.device
) -> tuple[Batches | PartBatches, dict[str, Batches | PartBatches | WholeBatch]]:
    """Returns the training batches, and those that each part of the split is evaluated on."""
    graphs, training, steps = prepared.graphs, settings["training"], walk_steps(settings["model"])
    items, size = {name: split[name] for name in PARTS}, training["batch_size"]
    if graphs.part is None:
        level = prepared.card["level"]
        parts = {name: Batches(graphs, own, size, level, device, steps) for name, own in items.items()}
        return parts["train"], parts
    keep = training.get("keep_cut_edges", False)  # without meaning where a batch is one part
    train = PartBatches(graphs, items["train"], size, keep, device, steps)
    if training["evaluation"] == "whole":
        return train, {name: WholeBatch(graphs, own, device, steps) for name, own in items.items()}
    return train, {name: PartBatches(graphs, own, size, False, device, steps) for name, own in items.items()}


def _restore(training: Training, checkpoint: Path, made_by: dict[str, Any]) -> str | None:
    """Continues from a checkpoint, if there is a readable one that was made as this fit is; returns when it started.

    Other code, threads, versions or device would make other numbers, and the record names those at its end alone.
    """
    if not checkpoint.exists():
        return None
    try:
        check_sums(checkpoint)
        # to the CPU: what belongs on a GPU is copied there
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes torch.load raise nearly anything
        log.warning("%s cannot be read (%s); the fit starts from its first epoch", checkpoint, error)
        return None
    before = state.pop("made_by", {})
    if other := [name for name in made_by if before.get(name) != made_by[name]]:
        log.warning("%s was made by other %s; the fit starts from its first epoch", checkpoint, ", ".join(other))
        return None
    started = state.pop("started")
    training.restore(state)
    log.info("continuing fit %s after epoch %d", checkpoint.stem, training.epochs)
    return started


class _Saver:
    """Saves a training's state after an epoch, atomically, not more often than ``CHECKPOINT_SECONDS``.

    Where it cannot be written, the training goes on, and what was saved before stays.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path, self.about, self.next = path, about, time.monotonic() + CHECKPOINT_SECONDS

    def __call__(self, training: Training) -> None:
        if time.monotonic() < self.next:
            return
        file, wait = BytesIO(), CHECKPOINT_SECONDS
        torch.save(training.state() | self.about, file)
        try:
            write_atomic(self.path, file.getvalue())
        except StudyError as error:
            wait = RETRY_SECONDS
            log.warning("%s; the fit goes on, a kill would cost more epochs", error)
        self.next = time.monotonic() + wait


def _peak_memory(device: torch.device) -> float:
    """Returns the peak memory in MB: of the fit on a GPU, of the process (a fit's upper bound) on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes on macOS, else KB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _versions() -> dict[str, str]:
    return {
        "ssma": ssma.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # its own type is not one that a checkpoint may hold
        "torch_geometric": torch_geometric.__version__,
    }
