"""What is compiled by `torch.compile`, and how: above all what SSMA's product does between its matrix products."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import reduce
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ssma.aggr.opaque import recorded
from ssma.aggr.steps import BLOCK, Buffers, geometric_factor, logarithmic_factor

Number = tuple[Tensor, ...]
"""Real part, and imaginary part unless all are real; ``[rows, frequencies of the first axis, b]`` each."""

# Inputs and modes are checked on every call; that the functions called are still themselves need not be, nor, once
# more, the sizes of all that is in between, and each takes longer. (Before torch 2.8 the former has to be.)
_SKIP = getattr(torch.compiler, "skip_guard_on_globals_unsafe", None)
OPTIONS = {"size_asserts": False} | ({} if _SKIP is None else {"guard_filter_fn": _SKIP})

UNROLLED = 4  # factors: of more, such kernels are made in minutes

_KERNELS: dict[tuple, Callable] = {}
"""What :func:`run` has compiled, by what it is kept for."""


class CompiledSteps:
    """Equals :class:`ssma.aggr.steps.Steps` up to rounding, but for the order of columns: first all real parts."""

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
        options = (far.size(0), 1 if near is None else near.size(2), self.parts, self.logarithmic)
        if recorded():  # torch.compile refuses to work there, also later
            return step(*options, far, near, root, gain, *upper)
        near = None if near is None else near.contiguous()
        return run(step, options, (1, 1, 0, 0, 0)[: 4 + len(upper)], far, near, root, gain, *upper)


def run(function: Callable, options: tuple, dims: tuple, *tensors: Tensor | None) -> Any:
    """Calls ``function(*options, *tensors)`` compiled.

    What is compiled is kept for the function, its options, the dtypes, devices and other sizes of the tensors, and
    which of the varying sizes are equal; it serves any of these above 1. Where it is called first, `torch.compile`
    makes it, which takes seconds.

    Args:
        function: What to compile.
        options: Constants.
        dims: The dimension of each tensor whose size varies from call to call, or None.
        *tensors: Tensors, or None.
    """
    tensors = tuple(None if tensor is None else _plain(tensor) for tensor in tensors)
    varying = [(tensor, dim) for tensor, dim in zip(tensors, dims, strict=True) if not (tensor is None or dim is None)]
    sizes = [tensor.size(dim) for tensor, dim in varying]
    key = (
        function, options, tuple(map(_kind, tensors, dims)), tuple(map(sizes.index, sizes)), torch.get_num_threads(),
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
    )  # fmt: skip
    for tensor, dim in varying:
        torch._dynamo.maybe_mark_dynamic(tensor, dim)
    if key not in _KERNELS:
        if not _KERNELS:
            _discard_cut_off()
        _KERNELS[key] = _kernel(function, options)
    try:
        return _KERNELS[key](*tensors)
    except torch._dynamo.exc.TorchDynamoException as error:
        raise RuntimeError(
            f"SSMAAggregation got compiled=True but torch.compile failed: {error}\nOn a CPU it needs a C++ compiler"
            f" (with conda: cxx-compiler), on a GPU Triton and a C compiler; install it, or leave compiled at its "
            f"default, False"
        ) from error


def _discard_cut_off() -> None:
    """Deletes empty libraries from torch's cache. Processes that were killed while a compiler wrote these left them;
    torch never makes them anew, and loads them in vain."""
    try:
        from torch._inductor.codecache import cache_dir, get_lock_dir  # takes seconds, which a compiler needs as well
        from torch.utils._filelock import FileLock
    except ImportError:  # torch's own affairs, which another version may have elsewhere
        return

    for library in Path(cache_dir()).glob("*/*.so"):
        with suppress(OSError):  # another process may be at it too
            if library.stat().st_size == 0:
                with FileLock(Path(get_lock_dir(), f"{library.name.partition('.')[0]}.lock")):  # of its maker
                    if library.stat().st_size == 0:
                        library.unlink()


def _plain(tensor: Tensor) -> Tensor:
    """Returns a tensor as a compiler expects to see it again: contiguous if it was, at the start of its memory, and not
    the caller's own, which takes marks."""
    if tensor.storage_offset():
        return tensor.clone()
    return tensor if tensor.requires_grad else tensor.view_as(tensor)


def _kind(tensor: Tensor | None, dim: int | None) -> tuple | None:
    """Returns what of a tensor has something compiled of its own: all but a size above 1 in ``dim``."""
    if tensor is None:
        return None
    shape = tuple(min(size, 2) if place == dim else size for place, size in enumerate(tensor.shape))
    return tensor.dtype, tensor.device, tensor.requires_grad, shape


def _kernel(function: Callable, options: tuple) -> Callable:
    def run(*tensors: Tensor | None) -> Any:
        return function(*options, *tensors)

    run.__code__ = run.__code__.replace(co_name=function.__name__)  # its own: torch limits the kernels of a code object
    return torch.compile(run, fullgraph=True, dynamic=False, options=OPTIONS)


def _signal(
    kappa: int, m1: int, parts: int, logarithmic: bool, far: Tensor, near: Tensor | None, root: Tensor, gain: Tensor
) -> Tensor:
    root, gain, signals = root.unsqueeze(2), gain.unsqueeze(2), []
    for blocks in _blocks(kappa, m1, parts, far, near):
        normalised = []
        for block in blocks:
            product = reduce(_times, block)
            normalised.append(_scaled(product, geometric_factor(_square(product), root)[1]))
        signal = reduce(_times, normalised)
        if logarithmic:
            signal = _scaled(signal, logarithmic_factor(_square(signal), root, gain)[1])
        signals.append(signal)
    return _side_by_side(signals)


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
    root, gain, signals, by_slot = root.unsqueeze(2), gain.unsqueeze(2), [], [None] * kappa
    uppers = (part.unflatten(1, (m1, -1)).split(_together(kappa, m1), 1) for part in upper.chunk(parts, 1))
    for blocks, upper in zip(_blocks(kappa, m1, parts, far, near), zip(*uppers, strict=True), strict=True):
        products = [list(accumulate(block, _times)) for block in blocks]
        norms = [geometric_factor(_square(running[-1]), root) for running in products]
        normalised = [_scaled(running[-1], norm[1]) for running, norm in zip(products, norms, strict=True)]
        before = list(accumulate(normalised, _times))
        signal = before[-1]
        if logarithmic:
            norm = logarithmic_factor(_square(signal), root, gain)
            upper = _normalised_backward(signal, norm, upper)
            signal = _scaled(signal, norm[1])
        signals.append(signal)
        for j in range(len(blocks) - 1, -1, -1):
            inner = _normalised_backward(products[j][-1], norms[j], _times(upper, before[j - 1]) if j else upper)
            for i in range(len(blocks[j]) - 1, -1, -1):
                mine, slot = _times(inner, products[j][i - 1]) if i else inner, j * BLOCK + i
                mine = tuple(part.sum(1) for part in mine)
                by_slot[slot] = mine if by_slot[slot] is None else tuple(map(torch.add, by_slot[slot], mine))
                if i:
                    inner = _times(inner, blocks[j][i])
            if j:
                upper = _times(upper, normalised[j])
    return _side_by_side(signals), torch.stack([torch.cat(mine, 1) for mine in by_slot])


def _together(kappa: int, m1: int) -> int:
    """Returns for how many frequencies of the first axis there is one expression. Where each has its own, a compiler
    makes one loop of all, in which nothing between factors and results is written to memory."""
    return 1 if kappa <= UNROLLED else m1


def _blocks(kappa: int, m1: int, parts: int, far: Tensor, near: Tensor | None) -> Iterator[list[list[Number]]]:
    """Yields the factors in blocks, of so many frequencies of the first axis as :func:`_together` says."""
    far = [slot.unsqueeze(1).chunk(parts, 2) for slot in far.unbind(0)]
    for added in [None] if near is None else near.unsqueeze(3).split(_together(kappa, m1), 2):
        factors = far
        if added is not None:
            factors = [tuple(part + added[k, ..., i] for i, part in enumerate(slot)) for k, slot in enumerate(far)]
        yield [factors[start : start + BLOCK] for start in range(0, kappa, BLOCK)]


def _side_by_side(signals: list[Number]) -> Tensor:
    """Puts columns together: all real parts, then all imaginary ones."""
    return torch.cat([part for parts in zip(*signals, strict=True) for part in parts], 1).flatten(1)


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
