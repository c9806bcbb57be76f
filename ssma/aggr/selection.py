"""Neighbour selection: a neighbourhood of any size becomes at most kappa slots."""

import torch
from torch import Tensor
from torch_geometric.utils import softmax

_MIX = 0x9E3779B97F4A7C15 - 2**64  # the golden ratio in 64 bits: an odd constant whose multiples spread evenly


def position_in_group(index: Tensor, dim_size: int, order: Tensor) -> Tensor:
    """Returns, for each element, how many elements of its group come before it in ``order``.

    Args:
        index: Group of each element, ``[E]``.
        dim_size: Number of groups.
        order: A permutation of the elements, ``[E]``.
    """
    by_group = order[index[order].argsort(stable=True)]
    sizes = index.bincount(minlength=dim_size)
    starts = sizes.cumsum(0) - sizes
    position = torch.empty_like(index)
    position[by_group] = torch.arange(index.numel(), device=index.device) - starts[index[by_group]]
    return position


def random_slots(message: Tensor, index: Tensor, dim_size: int, kappa: int, training: bool) -> tuple[Tensor, Tensor]:
    """Draws at most kappa messages of every node, without replacement, each with the same probability.

    Outside of training the draw is a fixed function of a message's place among those of its node, so that a node's
    result depends neither on chance nor on what else is in the batch.

    Args:
        message: Messages, ``[E, heads, channels]``.
        index: Target node of each message, ``[E]``.
        dim_size: Number of nodes.
        kappa: Number of slots.
        training: Whether to draw at random (from torch's default generator).

    Returns:
        The slots ``[dim_size, kappa, heads, channels]``, zero where empty, and how many of a node's are filled,
        ``[dim_size]``.
    """
    place = position_in_group(index, dim_size, torch.arange(index.numel(), device=index.device))
    key = torch.rand(index.numel(), device=index.device) if training else (place + 1) * _MIX
    rank = position_in_group(index, dim_size, key.argsort(stable=True))
    kept = rank < kappa
    slots = message.new_zeros(dim_size * kappa, *message.shape[1:])
    slots = slots.index_copy(0, index[kept] * kappa + rank[kept], message[kept])
    filled = index.bincount(minlength=dim_size).clamp(max=kappa)
    return slots.view(dim_size, kappa, *message.shape[1:]), filled


def attention_slots(message: Tensor, score: Tensor, index: Tensor, dim_size: int) -> tuple[Tensor, Tensor]:
    """Averages the messages of every node kappa times, each time with attention weights of its own.

    Args:
        message: Messages, ``[E, heads, channels]``.
        score: Attention scores, ``[E, heads, kappa]``; a softmax over the messages of a node makes them weights.
        index: Target node of each message, ``[E]``.
        dim_size: Number of nodes.

    Returns:
        The slots ``[dim_size, kappa, heads, channels]`` and how many of a node's are filled, ``[dim_size]``: all
        of them, or none where a node has no messages.
    """
    weight = softmax(score, index, num_nodes=dim_size, dim=0).transpose(1, 2)  # [E, kappa, heads]
    weighted = weight.unsqueeze(-1) * message.unsqueeze(1)  # [E, kappa, heads, channels]
    slots = weighted.new_zeros(dim_size, *weighted.shape[1:]).index_add(0, index, weighted)
    filled = (index.bincount(minlength=dim_size) > 0) * score.size(-1)
    return slots, filled
