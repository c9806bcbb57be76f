"""The generalised f-mean, with a learned f and a learned inverse."""

import math

import torch
from torch import Tensor
from torch.nn import Linear, ModuleList, Parameter
from torch.nn.functional import mish
from torch_geometric.utils import scatter

from ssma.aggr.grouped import GroupedAggregation, apply_linear, group_mean, group_sizes, is_number

WIDTHS = (1, 2, 2, 4)
SCALE = 0.1  # of the first weight at the start: small arguments stay where the networks are nearly linear
SLOPE = 1.2  # of mish(z) - mish(-z) at z = 0
SAMPLE = 4096  # scalars of the last training messages that are kept for the auxiliary loss


class FMeanAggregation(GroupedAggregation):
    r"""GenAgg from `"Generalised f-Mean Aggregation for Graph Neural Networks" <https://arxiv.org/abs/2306.13826>`_
    (NeurIPS 2023), feature by feature:

    .. math::
        f^{-1}\left( n^{a - 1} \sum_i f(x_i - b \, \bar x) \right)

    with learned numbers a and b and a learned f, a small network from a scalar through 2 and 2 hidden units (Mish) to 4
    numbers. The network back, 4-2-2-1, is an inverse only as far as it is trained to be one: add
    :meth:`auxiliary_loss` to the loss that is minimised (the study's training loop does). A node without neighbours
    gets :math:`f^{-1}(0)`, a constant of the weights.

    As in the paper a = b = 0 at the start. Its random networks start far from being inverse to each other; here they
    start as nearly linear maps that are, so that the aggregation starts within 0.06 of the plain mean for features
    up to 3 in magnitude, and training moves it from there. The batch norms of the authors' code are left out: with them
    a node's value depends on the rest of the batch. So is their comparison of magnitudes in the auxiliary loss, |z|
    with the magnitude of what comes back: here the sign counts too.

    Args:
        inversion_weight: Factor of the auxiliary loss.
    """

    def __init__(self, inversion_weight: float = 1.0) -> None:
        super().__init__()
        if not is_number(inversion_weight) or not 0 <= inversion_weight < math.inf:
            raise ValueError(
                f"FMeanAggregation got inversion_weight={inversion_weight!r} but expected a finite number, at least 0"
            )
        self.inversion_weight = inversion_weight
        self.a = Parameter(torch.empty(()))
        self.b = Parameter(torch.empty(()))
        back = WIDTHS[::-1]
        self.f, self.f_inverse = (
            ModuleList(Linear(*pair) for pair in zip(widths[:-1], widths[1:], strict=True)) for widths in (WIDTHS, back)
        )
        self.sample: Tensor | None = None  # no buffer: its size changes, and buffers are averaged and sent to others
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Puts a and b back to 0 and the networks to near-linear maps, along a new random direction in the 4 numbers.

        Hidden units come in pairs, z and -z, whose difference is odd and has the slope 1.2 at 0.
        """
        self.a.zero_()
        self.b.zero_()
        pair = torch.tensor([[1.0], [-1.0]], device=self.a.device)
        direction = torch.randn(WIDTHS[-1], 1, device=self.a.device)
        direction = direction / direction.norm()
        starts = (
            (self.f, (SCALE * pair, pair @ pair.t(), direction @ pair.t())),
            (self.f_inverse, (pair @ direction.t(), pair @ pair.t(), pair.t() / (SCALE * SLOPE**4))),
        )
        for layers, weights in starts:
            for layer, weight in zip(layers, weights, strict=True):
                layer.weight.copy_(weight)
                layer.bias.zero_()
        self.sample = None

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        z = x - self.b.to(x.dtype) * group_mean(x, index, dim_size).index_select(0, index)
        if self.training:
            rows = max(1, SAMPLE // max(1, z.shape[1:].numel()))
            self.sample = z.detach()[:: -(-max(1, z.size(0)) // rows)].clone()
        total = scatter(_network(self.f, z.unsqueeze(-1)), index, 0, dim_size, "sum")
        size = group_sizes(index, dim_size, total)
        return _network(self.f_inverse, size.pow(self.a.to(x.dtype) - 1) * total).squeeze(-1)

    def auxiliary_loss(self) -> Tensor:
        r"""Returns ``inversion_weight`` times the mean of :math:`(f^{-1}(f(z)) - z)^2`.

        It is taken over (at most 4096) arguments of f in the last call in training mode, as constants: its gradient
        reaches the two networks only. Without messages in that call it is 0.

        Raises:
            RuntimeError: If there was no such call.
        """
        if self.sample is None:
            raise RuntimeError(
                "FMeanAggregation.auxiliary_loss() was called before any message came; run the network in training "
                "mode first"
            )
        error = _network(self.f_inverse, _network(self.f, self.sample.unsqueeze(-1))).squeeze(-1) - self.sample
        return self.inversion_weight * error.square().sum() / max(1, error.numel())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(inversion_weight={self.inversion_weight})"


def _network(layers: ModuleList, x: Tensor) -> Tensor:
    for layer in layers[:-1]:
        x = mish(apply_linear(layer, x))
    return apply_linear(layers[-1], x)
