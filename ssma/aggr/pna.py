"""The mix of Principal Neighbourhood Aggregation, as one aggregation."""

import torch
from torch import Tensor
from torch.nn import Linear
from torch_geometric.utils import degree

from ssma.aggr.grouped import GroupedAggregation, apply_linear, group_extremum, group_mean
from ssma.aggr.std import group_std


class PNAAggregation(GroupedAggregation):
    r"""The mix of `"Principal Neighbourhood Aggregation for Graph Nets" <https://arxiv.org/abs/2004.05718>`_ (eq. 8),
    with a linear map back to the width of a message: four aggregations times three scalers of the degree n,

    .. math::
        W \left( \begin{bmatrix} 1 \\ \log(n + 1) / \delta \\ \delta / \log(n + 1) \end{bmatrix} \otimes
        \begin{bmatrix} \mathrm{mean} \\ \mathrm{max} \\ \mathrm{min} \\ \mathrm{std} \end{bmatrix} \right) + b, \qquad
        \delta = \frac{1}{N} \sum_{v=1}^{N} \log(n_v + 1)

    where :math:`\delta` is a mean over the N nodes of the training data, kept in the state as a buffer. Degrees that
    the training data do not have are no problem. A node without neighbours gets the bias b.

    Args:
        in_channels: Width :math:`d` of a message (of one head).
        degrees: Histogram of the in-degrees of the training nodes: how many have 0, 1, 2, ... incoming edges.
        heads: Heads of a message; each is aggregated by itself, with shared weights.

    Raises:
        ValueError: If there is no histogram, or no node with an edge in it.
    """

    def __init__(self, in_channels: int, degrees: Tensor | None, heads: int = 1) -> None:
        super().__init__(in_channels, heads)
        self.register_buffer("delta", mean_log_degree(degrees))
        self.initial_delta = self.delta.item()
        self.linear = Linear(12 * in_channels, in_channels)

    def reset_parameters(self) -> None:
        """Draws new weights, and puts the mean degree back to that of the given degrees."""
        self.delta.fill_(self.initial_delta)
        self.linear.reset_parameters()

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        mix = torch.cat(
            [
                group_mean(x, index, dim_size),
                group_extremum(x, index, dim_size, "amax"),
                group_extremum(x, index, dim_size, "amin"),
                group_std(x, index, dim_size),
            ],
            dim=1,
        )
        count = degree(index, dim_size, x.dtype).unsqueeze(1)
        return apply_linear(self.linear, scaled_by_degree(mix, count, self.delta.to(x.dtype)))


def scaled_by_degree(mix: Tensor, count: Tensor, delta: Tensor) -> Tensor:
    r"""Returns the mix under PNA's three scalers, side by side in the last dimension.

    Args:
        mix: Aggregates, with the width in the last dimension.
        count: The nodes' numbers of messages, in a shape that multiplies ``mix``. A node without messages is divided
            as if it had one.
        delta: The mean :math:`\delta` of :func:`mean_log_degree`.
    """
    amplify, attenuate = count.log1p() / delta, delta / count.clamp(min=1).log1p()
    return torch.cat([mix, mix * amplify.to(mix.dtype), mix * attenuate.to(mix.dtype)], dim=-1)


def mean_log_degree(degrees: Tensor | None) -> Tensor:
    r"""Returns :math:`\delta`, the mean of log(degree + 1), of a histogram of degrees.

    Raises:
        ValueError: If there is no histogram, or no node with an edge in it.
    """
    if degrees is None:
        raise ValueError("PNAAggregation got no degrees but expected a histogram of the training nodes' in-degrees")
    if not isinstance(degrees, Tensor) or degrees.dim() != 1 or not bool((degrees >= 0).all()):
        given = degrees.tolist() if isinstance(degrees, Tensor) else f"of type {type(degrees).__name__}"
        raise ValueError(f"PNAAggregation got degrees {given} but expected a tensor of counts of degree 0, 1, 2, ...")
    counts = degrees.cpu().double()  # Apple's GPUs hold no float64
    if not counts[1:].sum() > 0:
        raise ValueError(
            f"PNAAggregation got degrees {degrees.tolist()}, where no node has an incoming edge; its scalers divide by "
            f"the mean of log(degree + 1), so it needs training data with edges"
        )
    log_degree = torch.arange(counts.numel(), device=counts.device, dtype=counts.dtype).log1p()
    return ((counts * log_degree).sum() / counts.sum()).to(degrees.device, torch.get_default_dtype())
