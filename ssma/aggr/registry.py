"""Aggregations by name, and what is known of each."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch_geometric.nn.aggr import Aggregation

from ssma.aggr.basic import (
    MaxAggregation,
    MeanAggregation,
    MedianAggregation,
    MinAggregation,
    MulAggregation,
    SoftmaxAggregation,
    SumAggregation,
    VPAAggregation,
)
from ssma.aggr.deep_sets import DeepSetsAggregation
from ssma.aggr.f_mean import FMeanAggregation
from ssma.aggr.opaque import recorded
from ssma.aggr.pna import PNAAggregation
from ssma.aggr.power_mean import PowerMeanAggregation
from ssma.aggr.recurrent import GRUAggregation, LSTMAggregation
from ssma.aggr.ssma import SSMAAggregation
from ssma.aggr.std import StdAggregation

BY_WIDTH = ("in_channels", "heads")


@dataclass(frozen=True)
class AggregatorKind:
    """An aggregation and its properties, with default options.

    Args:
        make: The class.
        empty: Value of every feature of a node without neighbours; in words where it is a constant of the weights.
        parameters: From the width of a message (of one head) to the number of trainable parameters; None where that
            depends on options.
        invariant: Whether the order of the neighbours is irrelevant.
        takes: Which of ``in_channels``, ``heads`` and ``degrees`` the class is called with, beside its options.
    """

    make: Callable[..., Aggregation]
    empty: float | str
    parameters: Callable[[int], int] | None
    invariant: bool = True
    takes: tuple[str, ...] = ()


def _none(d: int) -> int:
    return 0


AGGREGATORS = {
    "sum": AggregatorKind(SumAggregation, 0.0, _none),
    "mean": AggregatorKind(MeanAggregation, 0.0, _none),
    "max": AggregatorKind(MaxAggregation, 0.0, _none),
    "min": AggregatorKind(MinAggregation, 0.0, _none),
    "mul": AggregatorKind(MulAggregation, 1.0, _none),
    "std": AggregatorKind(StdAggregation, 0.0, _none),
    "softmax": AggregatorKind(SoftmaxAggregation, 0.0, lambda d: 1),
    "powermean": AggregatorKind(PowerMeanAggregation, 0.0, lambda d: 1),
    "median": AggregatorKind(MedianAggregation, 0.0, _none),
    "lstm": AggregatorKind(LSTMAggregation, 0.0, lambda d: 8 * d * d + 8 * d, invariant=False, takes=BY_WIDTH),
    "gru": AggregatorKind(GRUAggregation, 0.0, lambda d: 6 * d * d + 6 * d, invariant=False, takes=BY_WIDTH),
    "vpa": AggregatorKind(VPAAggregation, 0.0, _none),
    "fmean": AggregatorKind(FMeanAggregation, "inverse of f at 0", lambda d: 43),
    "deepsets": AggregatorKind(DeepSetsAggregation, "rho(0)", lambda d: 4 * (d * d + d), takes=BY_WIDTH),
    "pna": AggregatorKind(PNAAggregation, "bias", lambda d: 12 * d * d + d, takes=(*BY_WIDTH, "degrees")),
    "ssma": AggregatorKind(SSMAAggregation, "compressor(unit impulse)", None, takes=BY_WIDTH),
}
"""Name in a study -> what it is. Of a user's own class none of this is known."""


def make_aggregation(
    name: str, in_channels: int, heads: int = 1, path: str | None = None, degrees: Tensor | None = None, **options: Any
) -> Aggregation:
    """Returns an aggregation for messages of a given width.

    Args:
        name: A key of ``AGGREGATORS``, or the user's name for ``path``.
        in_channels: Width of a message (of one head).
        heads: Heads of a message.
        path: Dotted path of a user's class; it is called with ``in_channels``, ``heads`` and the options, and with
            ``degrees`` if it names it.
        degrees: Histogram of the in-degrees of the training nodes, ``[largest + 1]``; ``pna`` needs it.
        **options: Options of the aggregation.

    Raises:
        ValueError: If there is no such aggregation, or its options or ``degrees`` are wrong, or if a class keeps
            modules where torch does not find them.
        TypeError: If the class does not take these arguments or is no PyG `Aggregation`. One that returns another shape
            than a row for each node, as wide as a message, or numbers of another type than those of the messages,
            raises a `ValueError` when it is called; one whose rows depend on messages of other nodes does so when it
            is first called in evaluation mode.
    """
    given = {"in_channels": in_channels, "heads": heads, "degrees": degrees}
    if path is not None:
        kind = imported(path)
        takes = (*BY_WIDTH, "degrees") if "degrees" in inspect.signature(kind).parameters else BY_WIDTH
        arguments = {key: given[key] for key in takes} | options
        try:
            with _own_defaults():
                aggr = kind(**arguments)
        except TypeError as error:
            if "argument" not in str(error):
                raise
            raise TypeError(
                f"{error} ({path} is made with {', '.join(arguments)}; around one that takes others, as most of PyG's "
                f"do, write a class that takes these)"
            ) from error
        if not isinstance(aggr, Aggregation):
            raise TypeError(f"{path} made a {type(aggr).__name__} but expected a torch_geometric.nn.aggr.Aggregation")
        _check_known(aggr)
        aggr.register_forward_pre_hook(_by_target, with_kwargs=True)
        aggr.register_forward_hook(_check_result, with_kwargs=True)
        return aggr
    if name not in AGGREGATORS:
        raise ValueError(f"unknown aggregation {name!r}; expected one of {', '.join(AGGREGATORS)}")
    kind = AGGREGATORS[name]
    return kind.make(**{key: given[key] for key in kind.takes}, **options)


def imported(path: str) -> Callable[..., Aggregation]:
    """Returns a user's class."""
    module, _, attribute = path.rpartition(".")
    with _own_defaults():
        return getattr(importlib.import_module(module), attribute)


@contextmanager
def _own_defaults() -> Iterator[None]:
    """Keeps torch's defaults, which a user's module or class may change, for the network around it, the GPU that a job
    has taken, and the working directory, from which it may name the files that it writes."""
    dtype, device, with_gradients = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()
    gpu = torch.cuda.current_device() if torch.cuda.is_initialized() else None
    try:
        with chdir("."):
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(with_gradients)
        if gpu is not None:
            torch.cuda.set_device(gpu)
        if torch.get_default_device() != device:
            torch.set_default_device(None if device.type == "cpu" else device)


def _check_known(aggr: Aggregation) -> None:
    """Refuses modules in plain lists and dicts whose weights are not trained, or that act in evaluation as in training.
    Others, such as a ReLU, may lie there."""
    known = set(aggr.modules())
    for name, value in (item for module in aggr.modules() for item in vars(module).items()):
        kept = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        for each in kept:
            if isinstance(each, torch.nn.Module) and each not in known and _has_state(each):
                raise ValueError(
                    f"{type(aggr).__name__} keeps a {type(each).__name__} in the {type(value).__name__} {name}, where "
                    f"torch does not find it: it is neither trained nor switched to evaluation; make {name} a "
                    f"torch.nn.ModuleList or ModuleDict"
                )


def _has_state(module: torch.nn.Module) -> bool:
    """Says whether a module has weights or buffers, or acts otherwise in evaluation, as its code names ``training``."""
    kinds = {kind for part in module.modules() for kind in type(part).__mro__} - {torch.nn.Module}
    code = [own.__code__ for kind in kinds for own in vars(kind).values() if inspect.isfunction(own)]
    return any("training" in each.co_names for each in code) or bool([*module.parameters(), *module.buffers()])


def _by_target(
    aggr: Aggregation, inputs: tuple[Tensor], options: dict[str, Any]
) -> tuple[tuple[Tensor], dict[str, Any]]:
    """Sorts messages by target, those of one in their order, as many of PyG's aggregations want them; a layer puts its
    self-loops behind the edges. What the layer shows of their sources goes along."""
    index = options["index"]
    if index is None or (not recorded() and bool((index[1:] >= index[:-1]).all())):
        return inputs, options
    order = index.argsort(stable=True)
    for each in aggr.modules():
        if isinstance(each, SSMAAggregation) and (shown := each.node_features) is not None:
            each.show(shown._replace(source_index=shown.source_index[order]))
    return (inputs[0].index_select(options["dim"], order),), options | {"index": index[order]}


def _check_result(aggr: Aggregation, inputs: tuple[Tensor], options: dict[str, Any], out: Tensor) -> None:
    """Refuses what a layer would spread over nodes or channels, or train on cut numbers of, without an error."""
    (x,) = inputs
    expected = list(x.shape)
    expected[options["dim"]] = options["dim_size"]
    if not isinstance(out, Tensor) or list(out.shape) != expected:
        shape = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else f"type {type(out).__name__}"
        raise ValueError(
            f"{type(aggr).__name__} made a result of {shape} of messages of shape {tuple(x.shape)} but "
            f"expected {tuple(expected)}: a row for each node, as wide as a message"
        )
    mixed = torch.is_autocast_enabled(x.device.type) and out.is_floating_point()
    if out.dtype != x.dtype and not mixed:
        raise ValueError(
            f"{type(aggr).__name__} made a result of {out.dtype} of messages of {x.dtype} but expected {x.dtype}; "
            f"return out.to(x.dtype), or the real part of complex numbers"
        )
    if not (aggr.training or options["index"] is None or getattr(aggr, "rows_are_checked", False)):
        aggr.rows_are_checked = True
        _check_rows(aggr, x, out.detach(), **{key: options[key] for key in ("index", "dim_size", "dim")})


@torch.no_grad()
def _check_rows(aggr: Aggregation, x: Tensor, out: Tensor, index: Tensor, dim_size: int, dim: int) -> None:
    """Refuses rows that change with the messages of other nodes: the graphs of a batch would see each other.

    What draws at random in evaluation too cannot be asked, nor what needs more of a layer than its messages. Buffers
    and the random state stay as they are.
    """
    if any(getattr(part, "slots_from", None) == "features" for part in aggr.modules()):
        return

    def rows(first: int, end: int) -> Tensor:
        kept = ((first <= index) & (index < end)).nonzero().flatten()
        buffers = {name: buffer.clone() for name, buffer in aggr.named_buffers()}
        call = {"index": index[kept] - first, "dim_size": end - first, "dim": dim}
        with torch.random.fork_rng([x.device] if x.is_cuda else []):
            torch.manual_seed(0)  # so that a number that is drawn for all rows is the same in each call
            return functional_call(aggr, buffers, (x.index_select(dim, kept),), call)

    def same(found: Tensor, expected: Tensor) -> bool:
        bound = 1e-3 * expected.abs().nan_to_num(0, 0, 0).amax().item()
        return torch.allclose(found, expected, rtol=1e-3, atol=bound, equal_nan=True)

    least, most = map(int, index.aminmax()) if out.numel() and len(index) else (0, 0)
    if least == most:
        return
    half = (least + most + 1) // 2  # both parts have messages
    parts = [(0, half), (half, dim_size)]
    *apart, again = [rows(*part) for part in [*parts, (0, dim_size)]]  # all of them last, as it was called
    together = [again.narrow(dim, first, end - first) for first, end in parts]
    if same(again, out) and not all(map(same, apart, together)):
        raise ValueError(
            f"{type(aggr).__name__} made other rows of the same messages once those of other nodes were left out; "
            f"make each row of the messages of its node alone, or the graphs of a batch see each other"
        )
