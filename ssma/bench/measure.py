"""Time and peak memory of calls, on a CPU and on a CUDA device, and a forecast of both."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import psutil
import torch
from torch import Tensor
from torch.nn import Module

TURN_SECONDS = 0.1  # of calls in a row, as in training: each finds caches and heap as the one before left them


@dataclass(frozen=True)
class Work:
    """A call to measure; ``reset`` comes before every call and is not measured."""

    run: Callable[[], Any]
    reset: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Measured:
    """What a call took at some size."""

    size: float
    bytes: int
    seconds: float

    def scaled(self, size: float) -> "Measured":
        """Returns the forecast for another size: linear in it."""
        factor = size / self.size
        return Measured(size, round(self.bytes * factor), self.seconds * factor)


@dataclass(frozen=True)
class Limits:
    """What a call may take: a share of the available memory, seconds of a call, and seconds of a cell's repeats."""

    memory_share: float = 0.6
    seconds: float = 60.0
    budget: float = 10.0

    def refusal(self, forecast: Measured, available: int) -> str | None:
        """Returns why a call with this forecast is not run, or None if it fits."""
        if forecast.bytes <= self.memory_share * available and forecast.seconds <= self.seconds:
            return None
        return f"not run: needs about {forecast.bytes / 1e9:.2g} GB / {forecast.seconds:.2g} s"


def module_work(module: Module, x: Tensor, *others: Any, upper: Tensor | None = None) -> Work:
    """Returns the forward pass of ``module(x, *others)`` without gradients; with ``upper``, forward and backward.

    Args:
        module: What is called.
        x: Its input; the backward pass goes to it and to the module's parameters.
        *others: Further arguments.
        upper: Gradient of the result.
    """
    if upper is None:
        return Work(lambda: _without_gradients(module, x, *others))
    leaf = x.detach().clone().requires_grad_()

    def reset() -> None:
        leaf.grad = None
        module.zero_grad(set_to_none=True)

    return Work(lambda: module(leaf, *others).backward(upper), reset)


@torch.no_grad()
def _without_gradients(module: Module, *inputs: Any) -> None:
    module(*inputs)


def seconds_of(work: Work, device: torch.device) -> float:
    """Returns the seconds of one call: by the clock on a CPU, by events on a CUDA device."""
    work.reset()
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        start.record()
        work.run()
        end.record()
        torch.cuda.synchronize(device)
        return start.elapsed_time(end) / 1000
    begin = time.perf_counter()
    work.run()
    return time.perf_counter() - begin


def interleaved(
    works: dict[Any, Work], device: torch.device, budget: float, least: int = 3, most: int = 50
) -> dict[Any, list[float]]:
    """Times calls in turns (A, B, A, B, ...), so that a slow moment of the machine hits all of them. A turn is so many
    calls in a row as take ``TURN_SECONDS``, at least one.

    Args:
        works: The calls by name. Each is called once before, to warm up and to count the rounds.
        device: Where they run.
        budget: Seconds that all rounds together should take.
        least: At least so many rounds, even over the budget.
        most: At most so many rounds.

    Returns:
        The mean seconds of a call in every round, by name.
    """
    once = sum(max(seconds_of(work, device), TURN_SECONDS) for work in works.values())
    rounds = min(max(int(budget / once), least), most)
    taken: dict[Any, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            taken[name].append(_turn(work, device))
    return taken


def _turn(work: Work, device: torch.device) -> float:
    spent, calls = seconds_of(work, device), 1
    while spent < TURN_SECONDS:
        spent, calls = spent + seconds_of(work, device), calls + 1
    return spent / calls


def peak_bytes(work: Work, device: torch.device) -> int:
    """Returns the most bytes of tensors that a call holds at once, beyond those that are there before it.

    On a CPU this is the peak of the running sum of the profiler's allocations and frees, exact for tensors; what
    libraries allocate past torch (a transform's work space) is not in it.
    """
    work.reset()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        start = torch.cuda.memory_allocated(device)
        work.run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - start
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler says on stderr whenever it starts or stops
    with torch.autograd.profiler.profile(profile_memory=True) as profiler:
        # Without operators only allocations are recorded: a million of them take seconds, not minutes and gigabytes.
        torch.autograd._enable_record_function(False)
        try:
            work.run()
        finally:
            torch.autograd._enable_record_function(True)
    held = peak = 0
    for event in profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def available_bytes(device: torch.device) -> int:
    """Returns the memory that is free for tensors."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available


def measure(
    works: dict[str, Work], size: float, device: torch.device, budget: float, least: int = 3
) -> dict[str, tuple[Measured, list[float]]]:
    """Returns memory (a pass of its own), median and every repeat of each call."""
    if not works:
        return {}
    memory = {name: peak_bytes(work, device) for name, work in works.items()}
    times = interleaved(works, device, budget, least)
    return {name: (Measured(size, memory[name], median(times[name])), times[name]) for name in works}
