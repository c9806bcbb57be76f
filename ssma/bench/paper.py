"""SSMA step by step as the paper describes it: the yardstick that the operator is timed against and compared with."""

import torch
from torch import Tensor
from torch.nn import Linear, Module, Parameter
from torch_geometric.utils import scatter, softmax

from ssma.aggr import SSMAAggregation

TINY = 1e-30  # a magnitude of zero has no logarithm


class PaperSSMA(Module):
    r"""The formulation of `"Sequential Signal Mixing Aggregation for Message Passing Graph Neural Networks"
    <https://arxiv.org/abs/2409.19414>`_ (section "Practical considerations" and its complexity analysis), with the
    weights of an :class:`ssma.aggr.SSMAAggregation`.

    Every slot is a message :math:`x_k` to its node. It is mapped by a dense affine layer to an array of
    :math:`m_1 \times m_2`, transformed, and multiplied with the other slots of its node in polar form, the magnitudes
    by their geometric mean:

    .. math::
        F_k = \mathrm{FFT}_2(A x_k + a), \quad
        y = \mathrm{Re}\,\mathrm{FFT}_2^{-1} \left( e^{\frac{1}{n} \sum_k \log |F_k|}
        e^{i \sum_k \angle F_k} \right)

    and two linear layers map :math:`y` back to the messages' width. Autograd differentiates all of it. An empty slot
    is no message. Results equal those of the aggregation, but random selection draws on every call, also outside of
    training, as in the authors' code.

    Args:
        aggr: The aggregation whose weights are copied; it has one head and the constant affine map.

    Shapes:
        - **input:** messages :math:`(E, d)`, their target nodes :math:`(E)`, the number of nodes
        - **output:** :math:`(N, d)`

    Raises:
        ValueError: If the aggregation has several heads, learns its affine map, or is one of the ablations.
    """

    def __init__(self, aggr: SSMAAggregation) -> None:
        super().__init__()
        expected = {
            "heads": 1, "learn_affine": False, "mixing": "convolution", "normalisation": "geometric",
            "slots_from": "messages",
        }  # fmt: skip
        for name, value in expected.items():
            if getattr(aggr, name) != value:
                raise ValueError(f"PaperSSMA got {name}={getattr(aggr, name)!r} but expected {value!r}")
        d, self.kappa, self.shape = aggr.in_channels, aggr.kappa, (aggr.m1, aggr.m2)
        self.selection, self.temperature = aggr.selection, aggr.temperature
        affine = torch.zeros(aggr.m1, aggr.m2, d)
        affine[0, torch.arange(d), torch.arange(d)] = -1
        constant = torch.zeros(aggr.m1, aggr.m2)
        constant[1, 0] = 1
        self.register_buffer("affine_weight", affine.flatten(0, 1))  # [m1 * m2, d]
        self.register_buffer("affine_bias", constant.flatten())
        self.squeeze_weight = _copy(aggr.weight.flatten(1))  # [rank, m1 * m2]
        self.expand_weight = None if aggr.expand is None else _copy(aggr.expand)  # [d, rank]
        self.bias = _copy(aggr.bias)
        self.score = None
        if aggr.selection == "attention":
            self.score = Linear(d, aggr.kappa)
            self.score.load_state_dict(aggr.source_score.state_dict())
        self.to(aggr.weight)

    def forward(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        """Aggregates messages ``[E, d]`` to their target nodes ``[E]``: ``[dim_size, d]``."""
        select = self._attention_slots if self.selection == "attention" else self._random_neighbours
        slot, node = select(x, index, dim_size)
        signal = torch.nn.functional.linear(slot, self.affine_weight, self.affine_bias)
        spectrum = torch.fft.fft2(signal.view(-1, *self.shape))
        log_magnitude = scatter(spectrum.abs().clamp(min=TINY).log(), node, dim_size=dim_size, reduce="mean")
        angle = scatter(spectrum.angle(), node, dim_size=dim_size, reduce="sum")
        mixed = torch.fft.ifft2(torch.polar(log_magnitude.exp(), angle)).real.flatten(1)
        out = torch.nn.functional.linear(mixed, self.squeeze_weight)
        if self.expand_weight is not None:
            out = torch.nn.functional.linear(out, self.expand_weight)
        return out + self.bias

    def _attention_slots(self, x: Tensor, index: Tensor, dim_size: int) -> tuple[Tensor, Tensor]:
        """Returns the slots of all nodes with messages, ``[S, d]``, and their nodes, ``[S]``."""
        score = torch.nn.functional.leaky_relu(self.score(x)) / self.temperature
        weight = softmax(score, index, num_nodes=dim_size)  # [E, kappa]
        slots = scatter(weight.unsqueeze(-1) * x.unsqueeze(1), index, dim_size=dim_size, reduce="sum")
        nodes = index.unique()
        return slots[nodes].flatten(0, 1), nodes.repeat_interleave(self.kappa)

    def _random_neighbours(self, x: Tensor, index: Tensor, dim_size: int) -> tuple[Tensor, Tensor]:
        """Returns at most kappa messages of every node, ``[S, d]``, and their nodes, ``[S]``."""
        order = torch.randperm(index.numel(), device=index.device)
        order = order[index[order].argsort(stable=True)]
        sizes = index.bincount(minlength=dim_size)
        place = torch.arange(index.numel(), device=index.device) - (sizes.cumsum(0) - sizes)[index[order]]
        kept = order[place < self.kappa]
        return x[kept], index[kept]


def _copy(weight: Tensor) -> Parameter:
    return Parameter(weight.detach().clone())
