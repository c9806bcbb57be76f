"""Neighbour selection: a neighbourhood of any size becomes at most kappa slots."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag
from torch_geometric.utils import degree, scatter

from ssma.aggr.grouped import head_groups
from ssma.aggr.opaque import opaque, recorded
from ssma.aggr.stable import group_softmax


def position_in_group(index: Tensor, dim_size: int, order: Tensor) -> Tensor:
    """Returns, for each element, how many elements of its group come before it in ``order``.

    Args:
        index: Group of each element, ``[E]``.
        dim_size: Number of groups.
        order: A permutation of the elements, ``[E]``.
    """
    by_group = order[index[order].argsort(stable=True)]
    sizes = degree(index, dim_size, torch.long)
    starts = sizes.cumsum(0) - sizes
    position = torch.empty_like(index)
    position[by_group] = torch.arange(index.numel(), device=index.device) - starts[index[by_group]]
    return position


def random_draw(index: Tensor, dim_size: int, kappa: int, training: bool) -> tuple[Tensor, Tensor]:
    """Draws at most kappa messages of every node, without replacement, each with the same probability.

    Outside of training the draw is fixed: messages at even distances among those of their node, so that a node's
    result depends neither on chance nor on what else is in the batch.

    Args:
        index: Target node of each message, ``[E]``.
        dim_size: Number of nodes.
        kappa: Number of slots.
        training: Whether to draw at random (from torch's default generator).

    Returns:
        The numbers of the messages, ``[kappa, dim_size]``, E where a slot is empty; and how many of a node's slots are
        filled, ``[dim_size]``.
    """
    count = index.numel()
    if training:
        shuffled = torch.randperm(count, device=index.device)
        order = shuffled.gather(0, index.gather(0, shuffled).argsort(stable=True))
    else:
        order = index.argsort(stable=True)
    sizes = degree(index, dim_size, torch.long)
    slot = torch.arange(kappa, device=index.device).unsqueeze(1)
    place = slot if training else torch.where(sizes > kappa, slot * sizes // kappa, slot)
    filled = sizes.clamp(max=kappa)
    chosen = torch.where(slot < filled, sizes.cumsum(0) - sizes + place, count)
    return torch.cat([order, order.new_full((1,), count)])[chosen], filled


def random_slots(message: Tensor, index: Tensor, dim_size: int, kappa: int, training: bool) -> tuple[Tensor, Tensor]:
    """Fills slots with the messages of a :func:`random_draw`, the same for all heads.

    Args:
        message: Messages, ``[E, heads, channels]``.
        index: Target node of each message, ``[E]``.
        dim_size: Number of nodes.
        kappa: Number of slots.
        training: Whether to draw at random.

    Returns:
        The slots ``[kappa, dim_size, heads, channels]``, zero where empty, and how many of a node's are filled,
        ``[dim_size]``.
    """
    chosen, filled = random_draw(index, dim_size, kappa, training)
    padded = torch.cat([message, message.new_zeros(1, *message.shape[1:])])
    return padded.index_select(0, chosen.flatten()).view(kappa, dim_size, *message.shape[1:]), filled


class Groups(NamedTuple):
    """Messages by group; each head of a node is a group of its own."""

    sizes: Tensor
    """Number of messages of each group, ``[G]``."""
    group: Tensor
    """Group of each message, ``[M]``."""
    order: Tensor | None
    """What sorts messages by group, ``[M]``; None if they are."""


def groups_of(index: Tensor, dim_size: int, heads: int) -> Groups:
    """Returns the groups of messages ``[E, heads]``, head by head of each node.

    Args:
        index: Target node of each message, ``[E]``.
        dim_size: Number of nodes.
        heads: Heads of a message.
    """
    group = index if heads == 1 else head_groups(index, heads)
    on_host = group.device.type == "cpu" and not recorded()
    ordered = on_host and bool((group[1:] >= group[:-1]).all())  # as the batches of a study are
    order = None if ordered else group.argsort(stable=True)
    return Groups(degree(group, dim_size * heads, torch.long), group, order)


def attention_slots(message: Tensor, score: Tensor, groups: Groups, inline: bool = False) -> tuple[Tensor, Tensor]:
    """Averages the messages of every group kappa times, each time with attention weights of its own.

    Args:
        message: Messages, ``[M, channels]``.
        score: Attention scores, ``[kappa, M]``; a softmax over the messages of a group makes them weights.
        groups: The groups.
        inline: Let a compiler look inside the sums.

    Returns:
        The slots ``[kappa, G, channels]`` and how many of a group's are filled, ``[G]``: all of them, or none where a
        group has no messages.
    """
    sizes, group, order = groups
    weight = group_softmax(score, group, sizes)
    return _weighted_sums(weight, message, group, sizes, order, inline=inline), (sizes > 0) * score.size(0)


def _sums(weight: Tensor, message: Tensor, group: Tensor, sizes: Tensor, order: Tensor | None) -> Tensor:
    """Sums messages ``[M, channels]`` by group, once for each row of weights ``[kappa, M]``.

    The others are those of :class:`Groups`. Returns ``[kappa, groups, channels]``. No array of kappa times M times
    channels exists, forward or backward.
    """
    kappa, count = weight.shape
    starts = (sizes.cumsum(0) - sizes) + torch.arange(kappa, device=group.device).unsqueeze(1) * count
    if order is None:
        order = torch.arange(count, device=group.device)
    else:
        weight = weight[:, order]
    sums = embedding_bag(
        order.repeat(kappa), message, starts.flatten(), mode="sum", per_sample_weights=weight.flatten()
    )
    return sums.view(kappa, sizes.size(0), message.size(1))


def _sums_backward(grad: Tensor, weight: Tensor, message: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    kappa, count = weight.shape
    rows = group.unsqueeze(1) + torch.arange(kappa, device=group.device) * grad.size(1)
    starts = torch.arange(count, device=group.device) * kappa
    message_grad = embedding_bag(
        rows.flatten(), grad.flatten(0, 1), starts, mode="sum", per_sample_weights=weight.t().flatten()
    )
    weight_grad, taken = torch.empty_like(weight), torch.empty_like(message)
    for slot in range(kappa):
        torch.index_select(grad[slot], 0, group, out=taken)
        weight_grad[slot] = taken.mul_(message).sum(1)
    return weight_grad, message_grad


def _save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:3])


def _gradients(ctx: Any, grad: Tensor, backward: Callable) -> tuple:
    return *backward(grad, *ctx.saved_tensors), None, None, None


def _shape(weight, message, group, sizes, order):
    return weight.new_empty(weight.size(0), sizes.size(0), message.size(1))


def _shapes(grad, weight, message, group):
    return torch.empty_like(weight), torch.empty_like(message)


def _plain(weight, message, group, sizes, order):
    return scatter(weight.unsqueeze(-1) * message, group, 1, sizes.size(0), "sum")


_weighted_sums = opaque("ssma::weighted_sums", _sums, _sums_backward, _save, _gradients, _shape, _shapes, _plain)
