"""Functions with a hand-written gradient that `torch.compile` takes as one operator, without looking inside."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _get_current_dispatch_mode


def transformed() -> bool:
    """Says whether a transform of `torch.func` (grad, vmap, jvp, ...) or `torch.autograd.forward_ad` is at work."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def transparent() -> bool:
    """Says whether someone looks on who sees through torch's own steps only: whoever :func:`transformed` tells of, or
    `torch.jit.trace`."""
    return transformed() or (torch.jit.is_tracing() and not torch.compiler.is_compiling())


def recorded() -> bool:
    """Says whether steps are recorded or replaced (by a compiler, whoever :func:`transparent` tells of, or a dispatch
    mode such as that of fake tensors), so that tensors may have no values."""
    return torch.compiler.is_compiling() or _get_current_dispatch_mode() is not None or transparent()


def full_precision(device: torch.device) -> torch.autocast:
    """Returns a context without autocast; tensors of the meta device, which have shapes only, know none."""
    return torch.autocast("cpu" if device.type == "meta" else device.type, enabled=False)


def opaque(
    name: str,
    forward: Callable[..., Tensor],
    backward: Callable[..., tuple[Tensor, ...]],
    save: Callable[[Any, tuple, Tensor], None],
    gradients: Callable[..., tuple],
    shape: Callable[..., Tensor],
    shapes: Callable[..., tuple[Tensor, ...]],
    plain: Callable[..., Tensor],
) -> Callable[..., Tensor]:
    """Returns ``forward`` with its gradient. Called with ``inline=True``, it lets a compiler look inside.

    Registered operators are what a compiler can leave alone, but calling one costs ten times as much as an
    `autograd.Function`, a millisecond in a small network; so each is used where it belongs.

    Args:
        name: Name of the operator, ``"namespace::name"``.
        forward: The function, with annotated arguments.
        backward: From the gradient of the result, and what was saved, to gradients.
        save: Keeps what backward needs: called with the context, the arguments and the result.
        gradients: From the context, the gradient and ``backward`` to a gradient for each argument.
        shape: Like ``forward``, for tensors without data.
        shapes: Like ``backward``, for tensors without data.
        plain: Like ``forward``, in torch's own steps, for whoever :func:`transparent` tells of.
    """

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Tensor:
            output = forward(*inputs)
            save(ctx, inputs, output)
            return output

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple:
            if torch.is_grad_enabled():
                raise RuntimeError(
                    f"{name} has no second derivatives; call backward or grad without create_graph, or take them with "
                    f"transforms of torch.func"
                )
            if not torch.compiler.is_compiling() and torch._C._functorch.is_legacy_batchedtensor(grad):
                raise RuntimeError(f"{name} takes one gradient at a time; use torch.func.jacrev for several at once")
            with full_precision(grad.device):
                return gradients(ctx, grad.contiguous(), backward)

    operator = torch.library.custom_op(name, forward, mutates_args=())
    operator_backward = torch.library.custom_op(f"{name}_backward", backward, mutates_args=())
    operator.register_fake(shape)
    operator_backward.register_fake(shapes)
    operator.register_autograd(
        lambda ctx, grad: gradients(ctx, grad.contiguous(), operator_backward), setup_context=save
    )

    def call(*inputs: Any, inline: bool = False) -> Tensor:
        if transparent():
            return plain(*inputs)
        return (operator if torch.compiler.is_compiling() and not inline else Function.apply)(*inputs)

    return call
