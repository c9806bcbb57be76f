"""Deep sets: a network before the sum, another one behind it."""

from torch import Tensor
from torch.nn import Linear
from torch_geometric.utils import scatter

from ssma.aggr.grouped import GroupedAggregation, apply_linear


class DeepSetsAggregation(GroupedAggregation):
    r"""The aggregation of `"Deep Sets" <https://arxiv.org/abs/1703.06114>`_, with which any function of a set can be
    written.

    .. math::
        \rho\left( \sum_i \varphi(x_i) \right), \qquad
        \varphi, \rho = \mathrm{Linear} \circ \mathrm{ReLU} \circ \mathrm{Linear}

    all of width :math:`d`. A node without neighbours gets :math:`\rho(0)`, a constant of the weights.

    Args:
        in_channels: Width :math:`d` of a message (of one head).
        heads: Heads of a message; each is aggregated by itself, with shared weights.
    """

    def __init__(self, in_channels: int, heads: int = 1) -> None:
        super().__init__(in_channels, heads)
        self.phi_1, self.phi_2, self.rho_1, self.rho_2 = (Linear(in_channels, in_channels) for _ in range(4))

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for layer in (self.phi_1, self.phi_2, self.rho_1, self.rho_2):
            layer.reset_parameters()

    def aggregate(self, x: Tensor, index: Tensor, dim_size: int) -> Tensor:
        mapped = apply_linear(self.phi_2, apply_linear(self.phi_1, x).relu())
        total = scatter(mapped, index, 0, dim_size, "sum")
        return apply_linear(self.rho_2, apply_linear(self.rho_1, total).relu())
