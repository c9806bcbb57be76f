"""SumOfGram, and networks on multisets that are trained on it."""

import math
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Linear, Module

from ssma.aggr import make_aggregation
from ssma.study.ids import seed_from

ACTIVATIONS = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": torch.nn.functional.softplus,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "sine": torch.sin,
    "square": torch.square,
}


def sum_of_gram(x: Tensor) -> Tensor:
    r"""Returns the sum of all entries of the Gram matrix, :math:`\sum_{ij} x_i^\top x_j`, ``[B, n, d]`` to ``[B]``.

    It equals :math:`\|\sum_i x_i\|^2`, see :func:`exact_solution`.
    """
    return (x @ x.transpose(1, 2)).sum((1, 2))


def exact_solution(x: Tensor) -> Tensor:
    r"""Returns :math:`\rho(\sum_i \varphi(x_i))` with the identity as phi and the squared norm as rho, ``[B]``.

    A sum aggregator can be this, so that what a trained one misses is not a matter of its representation.
    """
    return x.sum(1).square().sum(1)


def signal_width(m: int, n: int) -> int:
    """Returns the largest width w of n vectors whose convolution, (n + 1) (n (w - 1) + 1) entries, is not above m."""
    return (m // (n + 1) - 1) // n + 1


class SetNetwork(Module):
    r"""A network on multisets, ``[B, n, d]`` to ``[B, 1]``.

    .. math::
        \rho \left( \mathrm{aggr}_k\, \sigma(A x_k + b) \right), \qquad
        \rho(z) = W_2\, \sigma(W_1 z + \beta_1) + \beta_2

    as in appendix A.1 of the paper. A and W_1 have m rows with every aggregator but ``ssma``, whose representation is
    the convolution of n vectors of width :func:`signal_width`, with a full linear compressor back to that width.

    Args:
        name: Aggregator, as in a study.
        d: Width of a vector.
        n: Vectors of a multiset.
        m: Size of the representation.
        activation: A key of ``ACTIVATIONS``.
    """

    def __init__(self, name: str, d: int, n: int, m: int, activation: str) -> None:
        super().__init__()
        self.width = signal_width(m, n) if name == "ssma" else m
        options = {"kappa": n, "selection": "random", "compression": 1.0} if name == "ssma" else {}
        degrees = torch.eye(n + 1, dtype=torch.int64)[n]  # every multiset has n vectors
        self.name, self.activation = name, ACTIVATIONS[activation]
        self.encoder = Linear(d, self.width)
        self.aggr = make_aggregation(name, self.width, degrees=degrees, **options)
        self.head_1, self.head_2 = Linear(self.width, m), Linear(m, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the prediction."""
        return self.head(self.representation(x))

    def representation(self, x: Tensor) -> Tensor:
        """Returns what the aggregator makes of a multiset, ``[B, width]``."""
        sets, n, _ = x.shape
        index = torch.arange(sets, device=x.device).repeat_interleave(n)
        return self.aggr(self.encode(x).flatten(0, 1), index, dim_size=sets)

    def encode(self, x: Tensor) -> Tensor:
        """Returns phi of each vector."""
        return self.activation(self.encoder(x))

    def head(self, z: Tensor) -> Tensor:
        """Returns rho of a representation."""
        return self.head_2(self.activation(self.head_1(z)))


class Sets(NamedTuple):
    """The multisets of a repeat, ``[B, n, d]`` each: the same for every aggregator."""

    train: Tensor
    validation: Tensor
    test: Tensor


def draw_sets(settings: dict[str, Any], seed: int, repeat: int) -> Sets:
    """Draws the multisets of a repeat."""
    generator = torch.Generator().manual_seed(seed_from("theory data", seed, repeat))
    sizes = (settings["train_sets"], settings["test_sets"], settings["test_sets"])
    return Sets(*(torch.randn(size, settings["n"], settings["d"], generator=generator) for size in sizes))


def train(
    settings: dict[str, Any], name: str, activation: str, m: int, seed: int, repeat: int
) -> tuple[SetNetwork, dict[str, Any]]:
    """Trains one network by the L1 error on the standardised target, with the learning rate that validates best.

    Returns:
        The network and its row: its names and sizes, L1 errors on all training and test multisets in units of the
        target (None where every training diverged), and status ``ok`` or ``diverged``.
    """
    sets = draw_sets(settings, seed, repeat)
    tried = []
    for lr in settings["lr"]:
        torch.manual_seed(seed_from("theory weights", seed, repeat))
        network = SetNetwork(name, settings["d"], settings["n"], m, activation)
        _optimise(network, sets.train, lr, settings)
        error = l1(network, sets.validation)
        tried.append((error if math.isfinite(error) else math.inf, lr, network))
    _, lr, network = min(tried, key=itemgetter(0))
    errors = {"train_l1": l1(network, sets.train), "test_l1": l1(network, sets.test)}
    finite = all(math.isfinite(error) for error in errors.values())
    row = {
        "aggregator": name,
        "activation": activation,
        "m": m,
        "repeat": repeat,
        "width": network.width,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "lr": lr,
        "status": "ok" if finite else "diverged",
    }
    return network, row | (errors if finite else dict.fromkeys(errors))


@torch.no_grad()
def l1(network: SetNetwork, x: Tensor) -> float:
    """Returns the mean absolute error on multisets."""
    return (network(x).squeeze(1) - sum_of_gram(x)).abs().mean().item()


def _optimise(network: SetNetwork, x: Tensor, lr: float, settings: dict[str, Any]) -> None:
    """Trains on standardised targets, then gives the head the target's units, so that derivatives are in them."""
    targets = sum_of_gram(x)
    mean, std = targets.mean(), targets.std()
    y = (targets - mean) / std
    optimiser = torch.optim.Adam(network.parameters(), lr=lr)
    steps = settings["epochs"] * math.ceil(len(x) / settings["batch_size"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    auxiliary = getattr(network.aggr, "auxiliary_loss", None)
    for _ in range(settings["epochs"]):
        for batch in torch.randperm(len(x)).split(settings["batch_size"]):
            loss = (network(x[batch]).squeeze(1) - y[batch]).abs().mean()
            optimiser.zero_grad()
            (loss if auxiliary is None else loss + auxiliary()).backward()
            optimiser.step()
            schedule.step()
    with torch.no_grad():
        network.head_2.weight *= std
        network.head_2.bias.copy_(network.head_2.bias * std + mean)
    network.eval()
