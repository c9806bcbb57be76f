r"""How large representations are, and bounds grow: what the paper gives formulas for, counted and measured.

The paper's representation of n vectors of width d has :math:`(n + 1)(n (d - 1) + 1) = O(n^2 d)` entries (section 4.2),
the moments that a sum needs in DeepSets :math:`\binom{n + d}{d}`, and :math:`\Theta(n d)` is the least (section 2). For
sums it says that the bound of mixing is :math:`O(|\theta|^2)` with typical networks (section 3).
"""

import math
from itertools import product
from typing import Any

import torch
from torch import Generator

from ssma.aggr import SSMAAggregation
from ssma.study.ids import seed_from
from ssma.theory.mixing import bound, mixing, weights_bound
from ssma.theory.separation import polynomial
from ssma.theory.training import SetNetwork

ZERO = 1e-13  # of the largest coefficient: transforms leave up to 2e-15 where there is none; the smallest may be 1e-10


def run(settings: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Returns a row per quantity and place.

    Sizes, per n and d: ``size``, entries of SSMA's representation; ``not zero``, those of a random multiset's
    polynomial that are not zero, and ``box``, the entries of the smallest array with all of them in its corner;
    ``rank``, that of the polynomial's derivative there, which is how many numbers any representation needs nearby;
    ``moments``, the binomial of DeepSets. Bounds, per activation, draw and scale, of an untrained sum with all
    parameters multiplied by the scale, in the mean over multisets and pairs: ``mixing``, ``bound`` (proposition 3.2)
    and ``weights bound`` (appendix A.1, last line).

    Args:
        settings: Those of ``ssma.study.theory.Growth``.
    """
    rows = []
    for n, d in product(settings["n"], settings["d"]):
        empty = {"activation": None, "draw": None, "scale": None}
        rows += [
            {"quantity": name, "n": n, "d": d, **empty, "value": value} for name, value in sizes(n, d, seed).items()
        ]
    n, d = min(settings["n"]), min(settings["d"])
    for draw, activation in product(range(settings["draws"]), settings["activations"]):
        torch.manual_seed(seed_from("theory growth", seed, draw))
        network = SetNetwork("sum", d, n, settings["m"], activation).double()
        x = torch.randn(settings["multisets"], n, d, dtype=torch.float64)
        place = {"n": n, "d": d, "activation": activation, "draw": draw}
        weights = {name: weight.clone() for name, weight in network.state_dict().items()}
        for scale in settings["scales"]:
            network.load_state_dict({name: scale * weight for name, weight in weights.items()})
            found = {
                "mixing": mixing(network, x).mean().item(),
                "bound": bound(network, x).mean().item(),
                "weights bound": weights_bound(network, activation),
            }
            rows += [{"quantity": name, **place, "scale": scale, "value": value} for name, value in found.items()]
    return rows


def sizes(n: int, d: int, seed: int) -> dict[str, int]:
    """Returns the sizes of representations of n vectors of width d, see :func:`run`."""
    generator = Generator().manual_seed(seed_from("theory sizes", seed, n, d))
    x = torch.randn(n, d, dtype=torch.float64, generator=generator)
    aggr = SSMAAggregation(d, n)
    coefficients = polynomial(x[None]).view(aggr.m1, aggr.m2)
    there = coefficients.abs() > ZERO * coefficients.abs().max()
    rows, columns = (int(places.max()) + 1 for places in there.nonzero(as_tuple=True))
    derivative = torch.func.jacrev(lambda vectors: polynomial(vectors[None])[0])(x).flatten(1)  # [m1 * m2, n * d]
    return {
        "size": aggr.m1 * aggr.m2,
        "not zero": int(there.sum()),
        "box": rows * columns,
        "rank": int(torch.linalg.matrix_rank(derivative)),
        "moments": math.comb(n + d, d),
    }
