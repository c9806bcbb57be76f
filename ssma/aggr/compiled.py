"""What SSMA's product does between its matrix products, compiled: one kernel forward, one backward."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ssma.aggr.opaque import recorded
from ssma.aggr.steps import BLOCK, Buffers, geometric_factor, logarithmic_factor

Number = tuple[Tensor, ...]
"""Real part, and imaginary part unless all are real; ``[rows, m1, b]`` each."""


class CompiledSteps:
    """Equals :class:`ssma.aggr.steps.Steps` up to rounding, but for the order of columns: first all real parts.

    The kernels are those of a width, a kappa, a dtype, a device and a number of threads; one serves any number of rows
    but a single one, which has its own. Where they are called first, `torch.compile` makes them, which takes seconds.
    """

    def __init__(self, buffers: Buffers, real: bool, logarithmic: bool) -> None:
        self.parts, self.logarithmic = 1 if real else 2, logarithmic

    def signal(self, far: Tensor, near: Tensor | None, root: Tensor, gain: Tensor) -> Tensor:
        """As :meth:`ssma.aggr.steps.Steps.signal`."""
        return self._run(_signal, far, near, root, gain)

    def gradients(
        self, far: Tensor, near: Tensor | None, root: Tensor, gain: Tensor, upper: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As :meth:`ssma.aggr.steps.Steps.gradients`."""
        return self._run(_gradients, far, near, root, gain, upper)

    def _run(self, step: Callable, far: Tensor, near: Tensor | None, root: Tensor, gain: Tensor, *upper: Tensor) -> Any:
        near = None if near is None else torch.view_as_real(near.contiguous())  # kernels are for fixed strides
        options = (far.size(0), 1 if near is None else near.size(2), self.parts, self.logarithmic)
        if recorded():  # torch.compile refuses to work there, also later
            return step(*options, far, near, root, gain, *upper)
        for tensor, dim in ((far, 1), (near, 1), *((rows, 0) for rows in (root, gain, *upper))):
            if tensor is not None:
                torch._dynamo.maybe_mark_dynamic(tensor, dim)
        kernel = _kernel(step, options, far.size(2), far.dtype, far.device, far.size(1) == 1, torch.get_num_threads())
        try:
            return kernel(far, near, root, gain, *upper)
        except torch._dynamo.exc.TorchDynamoException as error:
            raise RuntimeError(
                f"SSMAAggregation got compiled=True but torch.compile failed: {error}\nOn a CPU it needs a C++ compiler"
                f" (with conda: cxx-compiler), on a GPU Triton; install it, or leave compiled at its default, False"
            ) from error


@cache
def _kernel(step: Callable, options: tuple, *others: object) -> Callable:
    """Returns the compiled step; ``others`` tell apart what has a kernel of its own."""

    def run(*tensors: Tensor | None) -> Any:
        return step(*options, *tensors)

    run.__code__ = run.__code__.replace(co_name=step.__name__)  # its own: torch limits the kernels of a code object
    return torch.compile(run, fullgraph=True, dynamic=False)


def _signal(
    kappa: int, m1: int, parts: int, logarithmic: bool, far: Tensor, near: Tensor | None, root: Tensor, gain: Tensor
) -> Tensor:
    root, gain = root.unsqueeze(2), gain.unsqueeze(2)
    normalised = []
    for block in _blocks(kappa, parts, far, near):
        product = _running_products(block)[-1]
        normalised.append(_scaled(product, geometric_factor(_square(product), root)[1]))
    signal = _running_products(normalised)[-1]
    if logarithmic:
        signal = _scaled(signal, logarithmic_factor(_square(signal), root, gain)[1])
    return torch.stack(signal, 1).flatten(1)


def _gradients(
    kappa: int,
    m1: int,
    parts: int,
    logarithmic: bool,
    far: Tensor,
    near: Tensor | None,
    root: Tensor,
    gain: Tensor,
    upper: Tensor,
) -> tuple[Tensor, Tensor]:
    root, gain = root.unsqueeze(2), gain.unsqueeze(2)
    blocks = _blocks(kappa, parts, far, near)
    products = [_running_products(block) for block in blocks]
    norms = [geometric_factor(_square(running[-1]), root) for running in products]
    normalised = [_scaled(running[-1], norm[1]) for running, norm in zip(products, norms, strict=True)]
    before = _running_products(normalised)
    upper = tuple(upper.unflatten(1, (parts, m1, -1)).unbind(1))
    signal = before[-1]
    if logarithmic:
        norm = logarithmic_factor(_square(signal), root, gain)
        upper = _normalised_backward(signal, norm, upper)
        signal = _scaled(signal, norm[1])
    by_slot = []
    for j in range(len(blocks) - 1, -1, -1):
        inner = _normalised_backward(products[j][-1], norms[j], _times(upper, before[j - 1]) if j else upper)
        for i in range(len(blocks[j]) - 1, -1, -1):
            mine = _times(inner, products[j][i - 1]) if i else inner
            by_slot.append(torch.cat([part.sum(1) for part in mine], 1))
            if i:
                inner = _times(inner, blocks[j][i])
        if j:
            upper = _times(upper, normalised[j])
    return torch.stack(signal, 1).flatten(1), torch.stack(by_slot[::-1])


def _blocks(kappa: int, parts: int, far: Tensor, near: Tensor | None) -> list[list[Number]]:
    far = far.unflatten(2, (parts, 1, -1))
    factors = []
    for k in range(kappa):
        factor = [far[k, :, part] for part in range(parts)]
        if near is not None:
            factor = [term + near[k, :, :, part].unsqueeze(2) for part, term in enumerate(factor)]
        factors.append(tuple(factor))
    return [factors[start : start + BLOCK] for start in range(0, kappa, BLOCK)]


def _running_products(factors: list[Number]) -> list[Number]:
    products = factors[:1]
    for factor in factors[1:]:
        products.append(_times(products[-1], factor))
    return products


def _times(a: Number, b: Number) -> Number:
    if len(a) == 1:
        return (a[0] * b[0],)
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _scaled(number: Number, scale: Tensor) -> Number:
    return tuple(part * scale for part in number)


def _square(number: Number) -> Tensor:
    return sum(part.square() for part in number)


def _normalised_backward(product: Number, norm: tuple[Tensor, Tensor, Tensor], upper: Number) -> Number:
    """Returns the conjugate gradient of P from that of ``P scale(|P|)``."""
    square, scale, exponent = norm
    radial = _times(product, upper)[0] * exponent / square
    conjugate = product[:1] if len(product) == 1 else (product[0], -product[1])
    return tuple((part * radial + above) * scale for part, above in zip(conjugate, upper, strict=True))
