"""Do untrained representations tell multisets apart, and how stably (appendix "On the stability ...")?"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from ssma.aggr import AGGREGATORS, make_aggregation
from ssma.study.ids import seed_from

Representation = Callable[[Tensor], Tensor]
GRID = 2.0**-20  # values are multiples of it, so that sums of a few have no rounding in float64
SMALLEST_STEP = 1e-3
LIMIT = "limit"


def run(settings: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Returns a row per representation, draw and pair of multisets: their Wasserstein and representation distance.

    Kinds of pairs: ``random``, two independent ones; ``near``, one and the same moved by noise of 0.001 to 1 in size;
    ``equal sum``, likewise, with noise that sums to zero; ``limit``, the construction of the proposition. Both
    distances are L1. Representations are all aggregators of the registry with default options (SSMA with a slot per
    vector) at random weights, and two that have no weights: ``polynomial``, the coefficients of the theorem, and
    ``normalised``, the same with geometric means of magnitudes, which is what SSMA compresses. Weights and values are
    float64.

    Args:
        settings: Those of ``ssma.study.theory.Separation``.
    """
    rows = []
    for draw in range(settings["draws"]):
        pairs = dict(draw_pairs(settings, seed_from("theory pairs", seed, draw)))
        torch.manual_seed(seed_from("theory representations", seed, draw))
        distances = {kind: [wasserstein(*pair) for pair in zip(*both, strict=True)] for kind, both in pairs.items()}
        for name, represent in representations(settings["n"], settings["d"]):
            invariant = name not in AGGREGATORS or AGGREGATORS[name].invariant
            for kind, (x, y) in pairs.items():
                moved = (represent(x) - represent(y)).abs().sum(1).tolist()
                for pair, (distance, far) in enumerate(zip(moved, distances[kind], strict=True)):
                    names = {"representation": name, "invariant": invariant, "draw": draw, "kind": kind, "pair": pair}
                    rows.append(names | {"wasserstein": far, "distance": distance})
    return rows


def wasserstein(x: Tensor, y: Tensor) -> float:
    """Returns the 1-Wasserstein distance of two multisets of n vectors, ``[n, d]`` each, with the L1 norm; exact."""
    from scipy.optimize import linear_sum_assignment

    cost = torch.cdist(x, y, p=1).numpy()
    return float(cost[linear_sum_assignment(cost)].mean())


def draw_pairs(settings: dict[str, Any], seed: int) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """Yields each kind of pairs with its multisets, ``[P, n, d]`` twice."""
    generator = Generator().manual_seed(seed)
    shape = (settings["pairs"], settings["n"], settings["d"])
    yield "random", (_normal(shape, generator), _normal(shape, generator))
    for kind in ("near", "equal sum"):
        x, noise = _normal(shape, generator), _normal(shape, generator)
        noise = noise * SMALLEST_STEP ** torch.rand(shape[0], 1, 1, generator=generator, dtype=torch.float64)
        noise = _on_grid(noise)
        if kind == "equal sum":
            noise[:, -1] = -noise[:, :-1].sum(1)
        yield kind, (x, x + noise)
    yield LIMIT, approaching(settings["d"], settings["halvings"], generator)


def approaching(d: int, halvings: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Returns the multisets {x + h v, x - h v} and {x, x} of the proposition, ``[halvings, 2, d]`` each.

    h is 1/2, 1/4, ...; v has the L1 norm 1, so that their Wasserstein distance is h.
    """
    centre = _normal((1, 1, d), generator)
    direction = torch.rand(d, generator=generator, dtype=torch.float64)
    direction = _on_grid(direction / direction.sum())
    direction[0] += 1 - direction.sum()
    h = 0.5 ** torch.arange(1, halvings + 1, dtype=torch.float64)
    step = h.view(-1, 1) * direction
    return centre + torch.stack([step, -step], 1), centre.expand(halvings, 2, d)


def representations(n: int, d: int) -> Iterator[tuple[str, Representation]]:
    """Yields every representation with its name; weights are drawn from torch's global generator."""
    degrees = torch.eye(n + 1, dtype=torch.int64)[n]
    for name in AGGREGATORS:
        options = {"kappa": n} if name == "ssma" else {}
        yield name, _aggregated(make_aggregation(name, d, degrees=degrees, **options).double().eval())
    yield "polynomial", polynomial
    yield "normalised", lambda x: polynomial(x, normalise=True)


def polynomial(x: Tensor, normalise: bool = False) -> Tensor:
    """Returns the coefficients of prod_k (t - sum_j x_kj z^(j-1)) as the paper computes them, by 2D transforms.

    Args:
        x: Multisets, ``[B, n, d]``.
        normalise: Put the geometric mean of the factors' magnitudes in place of their product.

    Returns:
        ``[B, (n + 1) (n (d - 1) + 1)]``, of t^k z^l with k slow and l fast.
    """
    sets, n, d = x.shape
    arrays = x.new_zeros(sets, n, n + 1, n * (d - 1) + 1)
    arrays[:, :, 0, :d] = -x
    arrays[:, :, 1, 0] = 1
    spectrum = torch.fft.fft2(arrays)
    product = spectrum.prod(1)
    if normalise:
        product = torch.polar(spectrum.abs().log().mean(1).exp(), product.angle())
    return torch.fft.ifft2(product).real.flatten(1)


def _aggregated(aggr: torch.nn.Module) -> Representation:
    @torch.no_grad()
    def represent(x: Tensor) -> Tensor:
        index = torch.arange(len(x)).repeat_interleave(x.size(1))
        return aggr(x.flatten(0, 1), index, dim_size=len(x))

    return represent


def _normal(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return _on_grid(torch.randn(shape, generator=generator, dtype=torch.float64))


def _on_grid(values: Tensor) -> Tensor:
    return (values / GRID).round() * GRID
