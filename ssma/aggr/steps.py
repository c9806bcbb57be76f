"""What SSMA's product does between its matrix products, with torch's own operations, in as little memory as it can."""

import math
from itertools import accumulate

import torch
from torch import Tensor

from ssma.aggr.opaque import recorded

BLOCK = 4  # factors that are multiplied before they are normalised
FLOOR = {torch.float32: 2e-19, torch.float64: 1e-140}  # below it a product counts as zero; its square is normal
CEILING = 1e16  # of the product of a block whose factors are as large as can be


class Buffers:
    """Memory that the chunks of one call share: touching new pages costs more than the arithmetic on them."""

    def __init__(self, like: Tensor) -> None:
        self.like, self.named = like, {}

    def product(self, name: str, a: Tensor, b: Tensor) -> Tensor:
        """Returns the product of two matrices."""
        if recorded():
            return a @ b
        return torch.mm(a, b, out=self(name, a.size(0), b.size(1)))

    def __call__(self, name: str, *shape: int) -> Tensor:
        size = math.prod(shape)
        if name not in self.named or self.named[name].numel() < size:
            self.named[name] = self.like.new_empty(size)
        return self.named[name][:size].view(shape)


class Steps:
    """The steps for the chunks of one call.

    Complex columns have real and imaginary parts in turn.

    Args:
        buffers: Memory to reuse.
        real: The columns are real.
        logarithmic: As in :func:`ssma.aggr.product.compressed_product`.
    """

    def __init__(self, buffers: Buffers, real: bool, logarithmic: bool) -> None:
        self.buffers, self.real, self.logarithmic = buffers, real, logarithmic

    def signal(self, far: Tensor, near: Tensor | None, root: Tensor, gain: Tensor) -> Tensor:
        """Returns the normalised product of some rows, ``[rows, columns of the factors]``.

        Args:
            far: Images of the slots, ``[kappa, rows, columns]``.
            near: What is added along a first frequency axis, ``[kappa, rows, m1, 2]``, or None.
            root: ``1/n``, ``[rows, 1]``.
            gain: g, ``[rows, 1]``; it counts with ``logarithmic`` alone.
        """
        product = None
        for block in self._blocks(far, near):
            part = block[0]
            for factor in block[1:]:
                part.mul_(factor)
            part.mul_(_geometric(part, root)[1])
            product = part if product is None else product.mul_(part)
        if self.logarithmic:
            product.mul_(_logarithmic(product, root, gain)[1])
        return _as_real(product)

    def gradients(
        self, far: Tensor, near: Tensor | None, root: Tensor, gain: Tensor, upper: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns the normalised product again, and the conjugate gradient of ``far``, by that of the product.

        The arguments are those of :meth:`signal`, and ``upper``, ``[rows, columns of the factors]``.
        """
        blocks = self._blocks(far, near)
        products = [list(accumulate(block, torch.mul)) for block in blocks]
        norms = [_geometric(running[-1], root) for running in products]
        parts = [running[-1] * norm[1] for running, norm in zip(products, norms, strict=True)]
        before = list(accumulate(parts, torch.mul))
        upper, signal = self._numbers(upper).view_as(before[-1]), before[-1]
        if self.logarithmic:
            norm = _logarithmic(signal, root, gain)
            upper = _normalised_backward(signal, norm, upper)
            signal = signal * norm[1]
        far_grad = self.buffers("far_grad", *far.shape)
        by_slot = self._numbers(far_grad)
        for j in range(len(blocks) - 1, -1, -1):
            inner = _normalised_backward(products[j][-1], norms[j], upper * before[j - 1] if j else upper)
            for i in range(len(blocks[j]) - 1, -1, -1):
                mine = inner * products[j][i - 1] if i else inner
                if near is None:
                    by_slot[j * BLOCK + i] = mine
                else:
                    torch.sum(mine, 1, out=by_slot[j * BLOCK + i])
                if i:
                    inner.mul_(blocks[j][i])
            if j:
                upper = upper * parts[j]
        return _as_real(signal), far_grad

    def _blocks(self, far: Tensor, near: Tensor | None) -> list[list[Tensor]]:
        """Returns the factors ``[rows, m1, b]`` (``[rows, columns]``) in blocks."""
        factors = self._numbers(far)
        if near is not None:
            far, near = factors, torch.view_as_complex(near)
            factors = _as_complex(self.buffers("factors", *near.shape, 2 * far.size(2)))
            torch.add(far.unsqueeze(-2), near.unsqueeze(-1), out=factors)
        factors = list(factors.unbind(0))
        return [factors[start : start + BLOCK] for start in range(0, len(factors), BLOCK)]

    def _numbers(self, columns: Tensor) -> Tensor:
        return columns if self.real else _as_complex(columns)


def largest_factor(matrix: Tensor, real: bool) -> Tensor:
    """Returns the largest magnitude that rows with entries up to 1 have under ``matrix``, a scalar, at least 1."""
    columns = (matrix if real else _as_complex(matrix)).abs().sum(0)
    return columns.max().clamp(min=1)


def geometric_factor(square: Tensor, root: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``|P|**2``, the factor ``|P|**(1/n - 1)`` and the exponent of the latter.

    At zero the factor and its gradient are infinite, and count as 0: there ``|P|**2`` is the largest number instead. A
    single factor (exponent 0) keeps its 1.

    Args:
        square: ``|P|**2``.
        root: ``1/n``.
    """
    square, exponent = _nonzero(square), root - 1
    return square, square.log2().mul_(exponent / 2).exp2_(), exponent


def logarithmic_factor(square: Tensor, root: Tensor, gain: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``|N|**2``, the factor ``log(1 + (g |N|)**n) / |N|`` and its logarithmic derivative.

    Zero is treated as in :func:`geometric_factor`.

    Args:
        square: ``|N|**2``.
        root: ``1/n``.
        gain: g.
    """
    n, floor = 1 / root, FLOOR[square.dtype] ** 2
    log = square.clamp(min=floor).log_().mul_(0.5)
    power = (log + gain.log()) * n
    kept = power.clamp(min=-60)  # below, log(1 + z) is z
    magnitude = torch.nn.functional.softplus(kept, threshold=60)
    exponent = n * kept.sigmoid() / magnitude - 1
    scale = torch.where((square > floor) | (root == 1), magnitude * (power - kept - log).exp_(), 0)
    return _nonzero(square), scale, exponent


def _nonzero(square: Tensor) -> Tensor:
    return torch.nn.functional.threshold(square, FLOOR[square.dtype] ** 2, torch.finfo(square.dtype).max)


def _geometric(product: Tensor, root: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return geometric_factor(_square(product), _along(product, root))


def _logarithmic(product: Tensor, root: Tensor, gain: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return logarithmic_factor(_square(product), _along(product, root), _along(product, gain))


def _along(product: Tensor, column: Tensor) -> Tensor:
    """Shapes a number of each row for the product."""
    return column.view(-1, *[1] * (product.dim() - 1))


def _normalised_backward(product: Tensor, norm: tuple[Tensor, Tensor, Tensor], upper: Tensor) -> Tensor:
    """Returns the conjugate gradient of P from that of ``P scale(|P|)``."""
    square, scale, exponent = norm
    work = product * upper
    radial = (work.real * exponent).div_(square)
    return torch.conj_physical(product, out=work).mul_(radial).add_(upper).mul_(scale)


def _square(product: Tensor) -> Tensor:
    if not product.is_complex():
        return product.square()
    squares = torch.view_as_real(product).square()
    return squares[..., 0] + squares[..., 1]  # faster than from the strided parts


def _as_real(signal: Tensor) -> Tensor:
    return torch.view_as_real(signal).flatten(1) if signal.is_complex() else signal


def _as_complex(pairs: Tensor) -> Tensor:
    return torch.view_as_complex(pairs.unflatten(-1, (-1, 2)))
