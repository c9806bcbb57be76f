"""Neighbours as a sequence: LSTM and GRU, without padding."""

import torch
from torch import Tensor
from torch.nn import GRU, LSTM
from torch.nn.functional import linear
from torch_geometric.utils import degree, scatter

from ssma.aggr.grouped import GroupedAggregation, prepared
from ssma.aggr.opaque import recorded, transformed
from ssma.aggr.selection import position_in_group

SHORT = 16
"""Steps that a CPU leaves to torch, which goes backward through as many arrays of all rows as there are steps."""
LONG = 2**16 - 1
"""Steps that a GPU leaves to torch; cuDNN takes no more."""


class RecurrentAggregation(GroupedAggregation):
    """What :class:`LSTMAggregation` and :class:`GRUAggregation` share: the packing of neighbourhoods into sequences.

    Args:
        in_channels: Width of a message (of one head), and of the hidden state.
        heads: Heads of a message; each is a sequence of its own, with shared weights.
    """

    network: type[LSTM] | type[GRU]
    states: int
    """States that a step hands on."""

    def __init__(self, in_channels: int, heads: int = 1) -> None:
        super().__init__(in_channels, heads)
        self.rnn = self.network(self.in_channels, self.in_channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.rnn.reset_parameters()

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        if not torch.jit.is_tracing():
            return self._aggregated(x, index, dim_size)
        # a trace serves graphs without messages too, but cannot ask: one of zeros goes to a node behind the last
        x, index = torch.cat([x, x.new_zeros(1, x.size(1))]), torch.cat([index, index.new_full((1,), dim_size)])
        return self._aggregated(x, index, dim_size + 1)[:-1]

    def _aggregated(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        count = index.numel()
        if count == 0:  # zeros through which a loss can go backward, to messages and weights
            nothing = sum(weight[:0].sum() for weight in self._weights(x.dtype))
            return scatter(x, index, 0, dim_size, "sum") + nothing
        order = torch.randperm(count, device=x.device) if self.training else torch.arange(count, device=x.device)
        step = position_in_group(index, dim_size, order)
        sizes = degree(index, dim_size, torch.long)
        nodes = sizes.argsort(descending=True, stable=True)  # the longest first
        rank = torch.empty_like(nodes)
        rank[nodes] = torch.arange(dim_size, device=x.device)
        packed = x[(step * dim_size + rank[index]).argsort()]
        batch_sizes = step.bincount().cpu()
        last = self._last_state(packed, batch_sizes)
        return x.new_zeros(dim_size, self.in_channels).index_copy(0, nodes[: last.size(0)], last)

    def _last_state(self, packed: Tensor, batch_sizes: Tensor) -> Tensor:
        """Returns the hidden state after the last step of each sequence, ``[sequences, channels]``.

        Args:
            packed: Rows by step, within a step by rank of their sequence, the longest first, as in PyTorch's
                `PackedSequence`.
            batch_sizes: Sequences that have a step, step by step, on the CPU.
        """
        weights, state = self._weights(packed.dtype), torch.zeros_like(packed[: batch_sizes[0]])
        most = SHORT if packed.device.type == "cpu" else LONG
        if (recorded() or batch_sizes.numel() <= most) and not transformed():  # transforms know no networks of torch
            return self._run(packed, batch_sizes, state.unsqueeze(0), weights)[0]
        of_input, of_state, input_bias, state_bias = weights
        states, ended = (state,) * self.states, []
        for step in linear(packed, of_input, input_bias).split(batch_sizes.tolist()):
            ended.append(states[0][step.size(0) :])
            states = tuple(state[: step.size(0)] for state in states)
            states = self._step(step, linear(states[0], of_state, state_bias), *states)
        return torch.cat([states[0], *reversed(ended)])

    def _run(self, packed: Tensor, batch_sizes: Tensor, start: Tensor, weights: list[Tensor]) -> Tensor:
        """Returns what :meth:`_last_state` does by torch, ``[1, sequences, channels]``, from ``start``, as large."""
        raise NotImplementedError

    def _step(self, of_input: Tensor, of_state: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        """Returns the states after a step, as torch has them but for the rounding of a float32 LSTM, from the linear
        maps of the input and of the first state."""
        raise NotImplementedError

    # The networks always run as in training: there is no dropout, and CUDA can go backward in no other mode.

    def _weights(self, dtype: torch.dtype) -> list[Tensor]:
        return [weight.to(dtype) for weight in prepared(self.rnn).all_weights[0]]


class LSTMAggregation(RecurrentAggregation):
    r"""The LSTM aggregation of GraphSAGE, `"Inductive Representation Learning on Large Graphs"
    <https://arxiv.org/abs/1706.02216>`_: an LSTM reads the neighbours one by one, and its last hidden state is the
    result. 0 without neighbours.

    In training the neighbours come in a random order, drawn anew in every call from PyTorch's default generator; in
    evaluation in the order of the edges. PyG's `LSTMAggregation` needs edges that are sorted by target, and reads on
    over the padding, so that a node's value depends on the largest degree in the batch; neither is so here.

    .. warning::
        The result depends on the order of the neighbours.

    Args:
        in_channels: Width :math:`d` of a message (of one head), and of the hidden state.
        heads: Heads of a message; each is a sequence of its own, with shared weights.
    """

    network, states = LSTM, 2

    def _run(self, packed: Tensor, batch_sizes: Tensor, start: Tensor, weights: list[Tensor]) -> Tensor:
        return torch.lstm(packed, batch_sizes, (start, start), weights, True, 1, 0.0, True, False)[1]

    def _step(self, of_input: Tensor, of_state: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        taken, kept, new, shown = (of_state + of_input).chunk(4, 1)
        cell = kept.sigmoid() * states[1] + taken.sigmoid() * new.tanh()
        return shown.sigmoid() * cell.tanh(), cell


class GRUAggregation(RecurrentAggregation):
    r"""A gated recurrent unit, `"Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine
    Translation" <https://arxiv.org/abs/1406.1078>`_, reads the neighbours one by one; its last hidden state is the
    result. 0 without neighbours.

    In training the neighbours come in a random order, drawn anew in every call from PyTorch's default generator; in
    evaluation in the order of the edges, which need not be sorted by target.

    .. warning::
        The result depends on the order of the neighbours.

    Args:
        in_channels: Width :math:`d` of a message (of one head), and of the hidden state.
        heads: Heads of a message; each is a sequence of its own, with shared weights.
    """

    network, states = GRU, 1

    def _run(self, packed: Tensor, batch_sizes: Tensor, start: Tensor, weights: list[Tensor]) -> Tensor:
        return torch.gru(packed, batch_sizes, start, weights, True, 1, 0.0, True, False)[1]

    def _step(self, of_input: Tensor, of_state: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        reset, kept, _ = (of_state + of_input).chunk(3, 1)
        new = (of_input.chunk(3, 1)[2] + of_state.chunk(3, 1)[2] * reset.sigmoid()).tanh()
        return ((states[0] - new) * kept.sigmoid() + new,)
