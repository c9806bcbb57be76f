"""What the aggregations of this package share: any accepted shape of messages becomes rows that belong to groups."""

import math
from numbers import Integral, Real

import torch
from torch import Tensor
from torch.nn import Linear, Module
from torch.nn.functional import linear
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.utils import degree, scatter

from ssma.aggr.opaque import full_precision, recorded, transformed


def refuse_script(aggr: Aggregation) -> None:
    """Ends `torch.jit.script`, which calls it for each module before it reads any code, with a `RuntimeError`."""
    raise RuntimeError(f"{type(aggr).__name__} cannot be scripted by torch.jit.script; use torch.compile")


class GroupedAggregation(Aggregation):
    r"""Base class: hands messages to :meth:`aggregate` as rows that belong to groups, and shapes the result back.

    Without ``in_channels`` the rows are the messages as they are, aggregated in any dimension. With it, messages have
    a fixed width, and each head of a node is a group of its own, so that all heads share the weights.

    Half-precision messages (also under autocast) are aggregated in float32: a count saturates in bfloat16, a sum
    overflows in float16. The result has the dtype of the messages.

    Args:
        in_channels: Width :math:`d` of a message (of one head), or None for any shape.
        heads: Heads (GAT) or towers (PNA) of a message.

    Shapes:
        - **input:** messages :math:`(E, d)`, :math:`(E, heads \cdot d)` or :math:`(E, heads, d)`
        - **output:** as the input, with the number of nodes in place of :math:`E`
    """

    def __init__(self, in_channels: int | None = None, heads: int = 1) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("heads", heads)):
            if value is not None and not is_width(value):
                raise ValueError(f"{type(self).__name__} got {name}={value!r} but expected a whole number, at least 1")
        # LSTM and torch.compile refuse numbers of NumPy
        self.in_channels = None if in_channels is None else int(in_channels)
        self.heads = int(heads)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        """Aggregates messages.

        Args:
            x: Messages.
            index: Target node of each message, in any order, ``[E]``, whole numbers of any type; this or ``ptr`` is
                needed.
            ptr: Borders of the nodes in messages that are sorted by target, ``[dim_size + 1]``.
            dim_size: Number of nodes.
            dim: Dimension of the messages.

        Raises:
            ValueError: If the messages are not floating point numbers, or have another width than the aggregation, or
                another number than the index; or if ``index`` or ``ptr`` is no row of whole numbers.
        """
        if self.in_channels is not None:
            check_width(self, x, dim)
        index = targets_of(self, x, index, ptr, dim)
        rows = x.movedim(dim, 0)
        shape, groups = (dim_size, *rows.shape[1:]), dim_size
        if self.in_channels is not None:
            rows, index, groups = fold_heads(rows, index, dim_size, self.heads)
        with full_precision(x.device):
            out = self.aggregate(rows if rows.dtype == torch.float64 else rows.float(), index, groups)
        return out.to(x.dtype).view(shape).movedim(0, dim)

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        """Returns the aggregate of each group, ``[dim_size, ...]``, of rows ``[M, ...]`` in float32 or float64."""
        raise NotImplementedError

    __prepare_scriptable__ = refuse_script

    def __repr__(self) -> str:
        heads = "" if self.heads == 1 else f", heads={self.heads}"
        return f"{type(self).__name__}({'' if self.in_channels is None else self.in_channels}{heads})"


def is_width(value: object) -> bool:
    """Says whether a value is a whole number (of Python or NumPy), at least 1."""
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= 1


def is_number(value: object) -> bool:
    """Says whether a value is a real number (of Python or NumPy)."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_switch(aggr: Aggregation, name: str, value: object) -> None:
    """Raises a `ValueError` for an option that is neither True nor False."""
    if not isinstance(value, bool):
        raise ValueError(f"{type(aggr).__name__} got {name}={value!r} but expected True or False")


def targets_of(aggr: Aggregation, x: Tensor, index: Tensor | None, ptr: Tensor | None, dim: int) -> Tensor:
    """Returns the target node of each message, ``[E]``, int64.

    Args:
        aggr: The aggregation that got the messages, for the errors.
        x: Messages.
        index: The target nodes, or None.
        ptr: Borders of the nodes in messages that are sorted by target, which count before ``index``, or None.
        dim: Dimension of the messages.

    Raises:
        ValueError: If the messages are not floating point numbers, whose result would be rounded or cut, if ``index``
            or ``ptr`` is no row of whole numbers, if there is another number of targets, or if ``ptr`` does not lead
            from 0 to the number of messages (asked on the CPU only, since a GPU would have to be waited for).
    """
    if not x.is_floating_point():
        raise ValueError(f"{type(aggr).__name__} got messages of {x.dtype} but expected floating point numbers")
    name, given = ("index", index) if ptr is None else ("ptr", ptr)
    if given.dim() != 1 or given.dtype == torch.bool or given.is_floating_point() or given.is_complex():
        raise ValueError(
            f"{type(aggr).__name__} got {name} of {given.dtype} and shape {tuple(given.shape)} but expected whole "
            f"numbers in one dimension"
        )
    if ptr is None:
        index = index.long()  # torch's scatter has wrong gradients by int32, and takes uint8 for a mask
    else:
        ptr = ptr.long()
        on_host = ptr.device.type == "cpu" and not recorded()
        if on_host and (ptr[0] != 0 or ptr[-1] != x.size(dim) or bool((ptr[1:] < ptr[:-1]).any())):
            raise ValueError(
                f"{type(aggr).__name__} got ptr from {int(ptr[0])} to {int(ptr[-1])} but expected borders that rise "
                f"from 0 to {x.size(dim)}, the number of messages"
            )
        nodes = torch.arange(ptr.numel() - 1, device=x.device)
        index = nodes.repeat_interleave(ptr.diff(), output_size=x.size(dim))
    if index.numel() != x.size(dim):
        got = f"{type(aggr).__name__} got an index of length {index.numel()}"
        raise ValueError(f"{got} but expected {x.size(dim)}, the number of messages")
    return index


def check_width(aggr: Aggregation, x: Tensor, dim: int) -> None:
    """Raises a `ValueError` for messages of another shape than ``heads`` times ``in_channels`` of an aggregation."""
    allowed = {2: (aggr.heads * aggr.in_channels,), 3: (aggr.heads, aggr.in_channels)}
    if dim % x.dim() != 0:
        raise ValueError(
            f"{type(aggr).__name__} got messages of shape {tuple(x.shape)} and dim={dim} but expected them in the "
            f"first dimension; it cannot stand in a layer of several stacks (ARMAConv) or see several states of a node "
            f"at once, [B, N, F]: give a layer one of them at a time; called alone, messages [E, heads, in_channels] "
            f"want dim=0"
        )
    if tuple(x.shape[1:]) != allowed.get(x.dim()):
        raise ValueError(
            f"{type(aggr).__name__} got messages of shape {tuple(x.shape)} but expected [E, heads * "
            f"in_channels] or [E, heads, in_channels] with heads={aggr.heads} and in_channels={aggr.in_channels}; "
            f"build it with the heads and the width of the layer's messages"
        )


def fold_heads(x: Tensor, index: Tensor, dim_size: int, heads: int) -> tuple[Tensor, Tensor, int]:
    """Makes each head of a node a group of its own.

    Args:
        x: Messages, ``[E, heads * d]`` or ``[E, heads, d]``.
        index: Target node of each message, ``[E]``.
        dim_size: Number of nodes.
        heads: Heads of a message.

    Returns:
        Rows ``[E * heads, d]``, the group of each, and the number of groups; group ``node * heads + head``.
    """
    width = x.shape[1:].numel() // heads
    return x.reshape(x.size(0) * heads, width), head_groups(index, heads), dim_size * heads


def head_groups(index: Tensor, heads: int) -> Tensor:
    """Returns the group of each head of each message, ``node * heads + head``, ``[E * heads]``."""
    return (index.unsqueeze(1) * heads + torch.arange(heads, device=index.device)).flatten()


def group_mean(x: Tensor, index: Tensor, dim_size: int) -> Tensor:
    """Returns the mean of each group of rows, 0 where a group is empty."""
    return scatter(x, index, 0, dim_size, "mean")


def group_extremum(x: Tensor, index: Tensor, dim_size: int, reduce: str) -> Tensor:
    """Returns the largest (``"amax"``) or smallest (``"amin"``) of each group of rows, 0 where a group is empty.

    Equal ones share the gradient. It starts from infinities, since of zeros torch would give these a share wherever the
    result is 0, though it leaves them out of the result. PyG's `scatter` leaves this, and products, to torch-scatter on
    a GPU where that is installed, which gives one of equal extrema all of the gradient, and a factor of 0 none.
    """
    rows = index.view(-1, *[1] * (x.dim() - 1))
    start = x.new_full((dim_size, *x.shape[1:]), -math.inf if reduce == "amax" else math.inf)
    found = start.scatter_reduce(0, rows.expand_as(x), x, reduce)
    empty = degree(index, dim_size, torch.long) == 0
    return found.masked_fill(empty.view(-1, *rows.shape[1:]), 0)


def group_product(x: Tensor, index: Tensor, dim_size: int) -> Tensor:
    """Returns the product of each group of rows, 1 where a group is empty.

    Going forward, as transforms of `torch.func` do, torch has no derivative of it and takes 0 without a word. There it
    is the last running product of each group, of twice as many rows with each step.
    """
    if not transformed():
        rows = index.view(-1, *[1] * (x.dim() - 1)).expand_as(x)
        return x.new_ones(dim_size, *x.shape[1:]).scatter_reduce_(0, rows, x, "prod")
    order, step = index.argsort(stable=True), 1
    group, running = index[order], x[order]
    while step < index.numel():
        same = (group[step:] == group[:-step]).view(-1, *[1] * (x.dim() - 1))
        running = torch.cat([running[:step], running[step:] * torch.where(same, running[:-step], 1)])
        step *= 2
    sizes = degree(index, dim_size, torch.long)
    running = torch.cat([running, x.new_ones(1, *x.shape[1:])])  # its last row is for empty groups
    return running[torch.where(sizes > 0, sizes.cumsum(0) - 1, index.numel())]


def group_sizes(index: Tensor, dim_size: int, ref: Tensor) -> Tensor:
    """Returns the number of rows of each group, at least 1, in the dtype of ``ref`` and shaped to divide its groups."""
    sizes = degree(index, dim_size, ref.dtype).clamp_(min=1)
    return sizes.view(-1, *[1] * (ref.dim() - 1))


def prepared(layer: Module) -> Module:
    """Returns a layer whose weights are used without calling it, after what torch's pruning, and its older weight and
    spectral norm, make of them before each call.

    Raises:
        TypeError: If what was put in its place, such as an adapter or a quantised layer, computes something else, or
            holds a part of its weights between calls (`fully_shard` of the layer alone).
    """
    kind = type(layer)
    plain = kind.forward.__module__.startswith(("torch.nn.modules.", "torch_geometric.nn."))
    if not plain or kind.__module__.startswith("torch.distributed."):
        raise TypeError(
            f"{type(layer).__name__} stands in the place of a layer of torch inside an aggregation, which uses the "
            f"weights of its layers without calling them; merge it into the weights, or leave out this layer"
        )
    for hook in layer._forward_pre_hooks.values():
        if type(hook).__module__.startswith("torch.nn.utils."):
            hook(layer, ())
    return layer


def apply_linear(layer: Linear, x: Tensor) -> Tensor:
    """Applies a linear map in the dtype of its input."""
    prepared(layer)
    return linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))
