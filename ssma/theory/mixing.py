r"""Neighbour mixing as the paper defines it (section 3), measured on trained networks, and its bounds for sums.

.. math::
    \mathsf{mix}_{ij}^{(\ell)} = \left\| \frac{\partial^2}{\partial x_i \partial x_j} \gamma^{(\ell)}(x_1, ..., x_n)
    \right\|_2
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from ssma.bench.paper import PaperSSMA
from ssma.theory.training import SetNetwork, draw_sets, sum_of_gram, train

TARGET = "target"
DERIVATIVE_BOUNDS = {
    "tanh": (1.0, 0.769800358919501),  # 4 / (3 sqrt 3)
    "sigmoid": (0.25, 0.09622504486493763),  # 1 / (6 sqrt 3)
    "softplus": (1.0, 0.25),
    "sine": (1.0, 1.0),
}
"""Activation -> the smallest c_1 and c_2 with |f'| <= c_1 and |f''| <= c_2 everywhere (appendix A.1)."""


def run(settings: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Returns a row per trained network, repeat, multiset and pair i < j.

    ``mix`` is that of the network's output; ``representation_mix`` the largest over the entries of what the aggregator
    makes, before the head. Both are in units of the target. For ``sum``, ``bound`` is the right side of proposition
    3.2 at that multiset and pair, and ``weights_bound`` the last line of appendix A.1, where the activation has one.
    Rows of ``target`` are those of SumOfGram itself. A network whose training diverged has one row of that status.

    Args:
        settings: Those of ``ssma.study.theory.Mixing``.
    """
    rows = []
    for repeat in range(settings["seeds"]):
        x = draw_sets(settings, seed, repeat).test[: settings["multisets"]].double()
        target = mixing(lambda sets: sum_of_gram(sets).unsqueeze(1), x)[:, 0]
        rows += _rows(
            {"aggregator": TARGET, "activation": None, "repeat": repeat, "test_l1": 0.0}, settings["n"], target
        )
        for activation in settings["activations"]:
            for name in settings["aggregators"]:
                network, trained = train(settings, name, activation, settings["m"], seed, repeat)
                names = {key: trained[key] for key in ("aggregator", "activation", "repeat", "test_l1")}
                rows += _measured(network, names, x) if trained["status"] == "ok" else [_diverged(names)]
    return rows


def mixing(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Returns all mixing values of a function of multisets, exact to rounding.

    Args:
        function: Maps ``[B, n, d]`` to ``[B, L]``, each multiset by itself, and is twice differentiable by autograd.
        x: Multisets, ``[B, n, d]``.

    Returns:
        ``[B, L, n (n - 1) / 2]``, of the pairs i < j in lexicographic order.
    """
    x = x.detach().requires_grad_()
    sets, n, d = x.shape
    first, second = torch.triu_indices(n, n, 1)
    norms = []
    for output in function(x).unbind(1):
        hessian = x.new_zeros(n * d, sets, n, d)
        (gradient,) = torch.autograd.grad(output.sum(), x, create_graph=True, materialize_grads=True)
        if gradient.requires_grad:  # else the function is linear
            for place, entry in enumerate(gradient.flatten(1).unbind(1)):
                (hessian[place],) = torch.autograd.grad(entry.sum(), x, retain_graph=True, materialize_grads=True)
        blocks = hessian.view(n, d, sets, n, d).permute(2, 0, 3, 1, 4)[:, first, second]  # [B, pairs, d, d]
        norms.append(torch.linalg.matrix_norm(blocks, ord=2))
    return torch.stack(norms, 1).detach()


def twice_differentiable(network: SetNetwork) -> SetNetwork:
    """Returns the network in float64, with SSMA step by step, since the fast operator has no second derivatives."""
    if network.name == "ssma":
        network.aggr = PaperSSMA(network.aggr)
    return network.double()


def bound(network: SetNetwork, x: Tensor) -> Tensor:
    """Returns the right side of proposition 3.2 for a network that sums, ``[B, pairs]``.

    It is the product of the spectral norms of phi's Jacobians at both vectors and of rho's Hessian at the sum.
    """
    jacobian = torch.func.vmap(torch.func.vmap(torch.func.jacrev(network.encode)))(x)  # [B, n, m, d]
    local = torch.linalg.matrix_norm(jacobian, ord=2)
    z = network.encode(x).sum(1)
    hessian = torch.func.vmap(torch.func.hessian(lambda total: network.head(total).squeeze(0)))(z)  # [B, m, m]
    first, second = torch.triu_indices(x.size(1), x.size(1), 1)
    head = torch.linalg.matrix_norm(hessian, ord=2).unsqueeze(1)
    return (local[:, first] * head * local[:, second]).detach()


def weights_bound(network: SetNetwork, activation: str) -> float | None:
    r"""Returns :math:`c_2 c_1^2 \|W_2\| \|W_1\|^2 \|A\|^2`, or None where a derivative of the activation has no bound.

    It is of degree 5 in the weights, although the paper calls it O(|theta|^2).
    """
    if activation not in DERIVATIVE_BOUNDS:
        return None
    c_1, c_2 = DERIVATIVE_BOUNDS[activation]
    parts = (network.head_2, 1), (network.head_1, 2), (network.encoder, 2)
    product = c_2 * c_1**2
    for linear, power in parts:
        product *= torch.linalg.matrix_norm(linear.weight.detach(), ord=2).item() ** power
    return product


def _measured(network: SetNetwork, names: dict[str, Any], x: Tensor) -> list[dict[str, Any]]:
    network = twice_differentiable(network)
    inner = mixing(network.representation, x).amax(1)
    limits, of_weights = None, None
    if network.name == "sum":
        limits, of_weights = bound(network, x), weights_bound(network, names["activation"])
    return _rows(names, x.size(1), mixing(network, x)[:, 0], inner, limits, of_weights)


def _rows(
    names: dict[str, Any],
    n: int,
    mix: Tensor,
    inner: Tensor | None = None,
    limits: Tensor | None = None,
    of_weights: float | None = None,
) -> list[dict[str, Any]]:
    rows = []
    for multiset in range(mix.size(0)):
        for pair, (i, j) in enumerate(combinations(range(n), 2)):
            values = (None if part is None else part[multiset, pair].item() for part in (mix, inner, limits))
            found = dict(zip(("mix", "representation_mix", "bound"), values, strict=True))
            place = {"status": "ok", "multiset": multiset, "i": i, "j": j}
            rows.append(names | place | found | {"weights_bound": of_weights})
    return rows


def _diverged(names: dict[str, Any]) -> dict[str, Any]:
    empty = dict.fromkeys(("multiset", "i", "j", "mix", "representation_mix", "bound", "weights_bound"))
    return names | {"status": "diverged"} | empty
