"""A GPU that computes on the CPU: its tensors say that they are on ``cuda:0``, and none goes with one of the host."""

from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

GPU = torch.device("cuda:0")
ANSWERS = {
    "cuda.is_available": True, "cuda._lazy_init": None, "cuda.is_current_stream_capturing": False,
    "cuda.get_device_name": "pretended", "cuda.reset_peak_memory_stats": None, "cuda.max_memory_allocated": 3 * 2**20,
    "cuda.current_stream": SimpleNamespace(synchronize=lambda: None), "cuda.synchronize": None,
}  # fmt: skip


class OnGPU(torch.Tensor):
    """Holds a tensor of the host. To torch it is one of the meta device, for which it goes backward without a GPU."""

    device, is_cuda, is_cpu, is_meta = GPU, True, False, False
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held):
        empty = torch.empty_strided(held.size(), held.stride(), dtype=held.dtype, device="meta")
        made = torch.Tensor._make_subclass(cls, empty)
        made.held = held
        return made

    def __deepcopy__(self, memo):
        return OnGPU(self.held.clone())

    def __reduce_ex__(self, protocol):  # as torch.load to the host gives it back
        return self.held.__reduce_ex__(protocol)

    def tolist(self):
        return self.held.tolist()

    def numpy(self):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return computed(function, args, kwargs or {})


class _Everywhere(TorchDispatchMode):
    """So that what is made without a tensor, as by ``torch.arange``, is made there too."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return computed(function, args, kwargs or {})


def computed(function, args, kwargs):
    """Returns what a function gives, on the device that torch would give it on.

    Raises:
        RuntimeError: If tensors of both devices meet, but for single numbers, copies, and an index of the host.
    """
    name, tensors = str(function), [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, OnGPU)]
    on_gpu, copies = bool(there), name.startswith(("aten._to_copy", "aten.copy_"))
    if name.startswith("aten.index") and "Tensor" in name and there and isinstance(args[0], OnGPU):
        tensors = [args[0], *args[2:3]]
    elif name.startswith("aten.copy_"):
        on_gpu = isinstance(args[0], OnGPU)
    if there and not copies and any(tensor.dim() and not isinstance(tensor, OnGPU) for tensor in tensors):
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, but found cuda:0 and cpu")
    if kwargs.get("device") is not None:  # autograd asks for the meta device
        on_gpu = kwargs["device"].type in ("cuda", "meta")
        kwargs = kwargs | {"device": torch.device("cpu")}
    if on_gpu and kwargs.get("generator") is not None:
        raise RuntimeError(f"{name}: expected a generator of cuda:0, but found one of cpu")
    args, kwargs = tree_map(lambda leaf: leaf.held if isinstance(leaf, OnGPU) else leaf, (args, kwargs))
    out, known = function(*args, **kwargs), {id(tensor.held): tensor for tensor in there}
    if not on_gpu:
        return tree_map(lambda leaf: leaf.clone() if id(leaf) in known else leaf, out)
    return tree_map(lambda leaf: known.get(id(leaf), OnGPU(leaf)) if isinstance(leaf, torch.Tensor) else leaf, out)


@contextmanager
def pretended_gpu():
    """Torch with such a GPU; modules go there by ``to``, whose parameters change places with those of the GPU."""
    to = torch.nn.Module.to

    def swapping(module, device):
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return to(module, device)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    seeds = [0]  # the last one counts; the numbers are drawn by the generator of the host
    with ExitStack() as stack:
        for name, answer in ANSWERS.items():
            stack.enter_context(patch(f"torch.{name}", lambda *a, answer=answer, **k: answer))
        for name in ("initial_seed", "get_rng_state"):
            stack.enter_context(patch(f"torch.cuda.{name}", lambda *a: seeds[-1]))
        for name in ("manual_seed", "manual_seed_all", "set_rng_state"):
            stack.enter_context(patch(f"torch.cuda.{name}", lambda seed, *a: seeds.append(seed)))
        stack.enter_context(patch.object(torch.nn.Module, "to", swapping))
        stack.enter_context(patch("ssma.aggr.opaque._get_current_dispatch_mode", lambda: None))  # nobody records
        stack.enter_context(_Everywhere())
        stack.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor makes its numbers on the host and copies them
        yield GPU
