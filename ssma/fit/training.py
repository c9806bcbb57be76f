"""The training loop: AdamW, plateau schedule on the validation loss, the best validation epoch kept."""

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch_geometric import seed_everything

from ssma.data.batches import Batch, Batches
from ssma.data.parts import PartBatches, WholeGraph
from ssma.errors import StudyError
from ssma.fit.metrics import evaluate, loss_terms
from ssma.fit.summaries import check_summaries, has_method
from ssma.study.ids import canonical, seed_from
from ssma.study.records import SIGN

CURVES = ("train_loss", "auxiliary_loss", "validation_loss", "validation_metric", "lr", "seconds")


@dataclass(frozen=True)
class Task:
    """What is measured, from the data card."""

    loss: str
    metric: str
    direction: str


class Training:
    """One training run, epoch by epoch; its state can be saved after each epoch and restored.

    The random numbers of an epoch (batch order, dropout, random selection, what a user's class draws with torch, NumPy
    or Python) follow from the seed and the epoch's number alone, so a restored run continues exactly as it would have.

    What is minimised is the task's loss plus the ``auxiliary_loss()`` of every module that has this method, asked
    for after each forward pass: a scalar tensor, weighted by the module itself. The history holds the two apart.

    Args:
        network: The network, on its device.
        train: Training batches, on the network's device.
        validation: Validation batches, there too.
        task: Loss and metric.
        settings: The ``training`` settings of the arm.
        seed: The fit's seed.
    """

    def __init__(
        self, network: nn.Module, train: Batches | PartBatches, validation: list[Batch | WholeGraph], task: Task,
        settings: dict[str, Any], seed: int,
    ) -> None:  # fmt: skip
        self.network, self.train, self.validation, self.task = network, train, validation, task
        self.settings, self.seed, self.on_gpu = settings, seed, next(network.parameters()).is_cuda
        self.with_auxiliary_loss = [module for module in network.modules() if has_method(module, "auxiliary_loss")]
        self.optimizer = adamw(network, lr=settings["lr"], weight_decay=settings["weight_decay"])
        self.schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self.optimizer, factor=settings["plateau_factor"], patience=settings["plateau_patience"], eps=0.0
        )  # eps: by default rates below 2e-8 would not be cut any more, and never fall below their floor
        self.history: dict[str, list[float | None]] = {name: [] for name in CURVES}
        self.best: dict[str, Any] | None = None
        self.steps = 0
        self.unknown: dict[int, torch.Tensor] | None = {}  # what the last step would have had a gradient for, by id

    @property
    def epochs(self) -> int:
        return len(self.history["lr"])

    def run(self, after_epoch: Callable[["Training"], None]) -> tuple[str, str | None]:
        """Trains until the rate falls below its floor, the epochs are used up, or something goes wrong.

        Returns:
            A status, ``ok``, ``diverged`` or ``timeout``, and its reason.

        Raises:
            ValueError: If the initial rate is below its floor, so that there is nothing to train.
            StudyError: If a module made parameters while it ran, or learns by tensors that are none: they would stay as
                they were drawn, beyond the budget.
        """
        if self.settings["lr"] < self.settings["min_lr"]:
            raise ValueError(f"training.lr is {self.settings['lr']}, below training.min_lr {self.settings['min_lr']}")
        limit, floor = self.settings["max_minutes"], canonical(self.settings["min_lr"])
        while self.epochs < self.settings["max_epochs"] and self._rate() >= floor:
            if limit is not None and sum(self.history["seconds"]) > 60 * limit:
                return "timeout", f"training.max_minutes ({limit}) passed in epoch {self.epochs}"
            reason = self._epoch()
            self._check_parameters()
            if reason is not None:
                return "diverged", reason
            if self.epochs == 1:  # what no record can hold would cost all epochs else
                check_summaries(self.network)
            after_epoch(self)
        return "ok", None

    def _check_parameters(self) -> None:
        known = {id(parameter) for group in self.optimizer.param_groups for parameter in group["params"]}
        new = [name for name, parameter in self.network.named_parameters() if id(parameter) not in known]
        if new:
            raise StudyError(
                f"parameter {new[0]} was made while the network ran, and is neither trained nor within the budget; "
                f"make it in __init__"
            )

    def _check_learnt(self, minimised: torch.Tensor) -> None:
        """Refuses what the loss could be minimised by in two steps and no optimiser knows of, such as a plain tensor;
        one that is made anew in each step is no weight."""
        known = {id(parameter) for parameter in self.network.parameters()}
        found = {id(tensor): tensor for tensor in _leaves(minimised) if id(tensor) not in known}
        for tensor in (found[again] for again in found.keys() & self.unknown.keys()):
            raise StudyError(
                f"a tensor of shape {tuple(tensor.shape)} wants a gradient but is no parameter of the network, so "
                f"that it is neither trained nor within the budget; make it a torch.nn.Parameter"
            )
        self.unknown = found or None

    def _rate(self) -> float:
        """Returns the rate to 12 digits, as settings have: 0.1 times 0.0003 is a little below 3e-5."""
        return float(canonical(self.optimizer.param_groups[0]["lr"]))

    def _epoch(self) -> str | None:
        """Trains and validates once; returns why it diverged, if it did."""
        start, rate = time.perf_counter(), self._rate()
        seed = seed_from(self.seed, "epoch", self.epochs)
        seed_everything(seed)
        order = torch.Generator().manual_seed(seed_from(self.seed, "order", self.epochs))
        self.network.train()
        losses, extras, count = [], [], 0  # read once, at the end: reading a number waits for the device
        for batch in self.train.epoch(order):
            self.optimizer.zero_grad(set_to_none=True)
            loss, size = loss_terms(self.task.loss, self.network(batch), batch.y)
            extra = [_auxiliary_loss(module) for module in self.with_auxiliary_loss]
            minimised = loss / max(size, 1) + sum(extra)
            if self.unknown is not None:
                self._check_learnt(minimised)
            minimised.backward()
            self.optimizer.step()
            losses.append(loss.detach())
            extras.append([value.detach() for value in extra])
            count += size
        check_seed(seed, self.on_gpu)
        steps = len(losses)
        self.steps += steps
        train_loss = sum(loss.item() for loss in losses) / max(count, 1)
        auxiliary_loss = sum(sum(value.item() for value in extra) for extra in extras) / max(steps, 1)
        scores = evaluate(self.network, self.validation, self.task.loss, self.task.metric)
        seconds = time.perf_counter() - start
        values = (train_loss, auxiliary_loss, scores["loss"], scores[self.task.metric], rate, seconds)
        for name, value in zip(CURVES, values, strict=True):
            self.history[name].append(value if math.isfinite(value) else None)
        losses = {"training loss": train_loss, "auxiliary loss": auxiliary_loss, "validation loss": scores["loss"]}
        for name, value in losses.items():
            if not math.isfinite(value):
                return f"the {name} was {value} in epoch {self.epochs}"
        self._keep_best(scores[self.task.metric])
        self.schedule.step(scores["loss"])
        return None

    def _keep_best(self, value: float) -> None:
        """Keeps the state of the best validation metric; of equal ones the later, as the paper's code does."""
        sign = SIGN[self.task.direction]
        if self.best is None or sign * value >= sign * self.best["value"]:
            self.best = {"epoch": self.epochs, "value": value, "state": copy.deepcopy(state_of(self.network))}

    def state(self) -> dict[str, Any]:
        """Returns everything that a continuation needs."""
        return {
            "network": state_of(self.network),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "history": self.history,
            "best": self.best,
            "steps": self.steps,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from a saved state."""
        load_state(self.network, state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.history, self.best, self.steps = state["history"], state["best"], state["steps"]


def check_seed(seed: int, on_gpu: bool = False) -> None:
    """Refuses a user's class that set another seed: layers made after it would start, and drop, alike in all fits.

    Raises:
        StudyError: If torch has not the seed that was set, for the host or, ``on_gpu``, for the GPU.
    """
    found = torch.initial_seed()
    if found == seed and on_gpu:
        found = torch.cuda.initial_seed()
    if found != seed:
        raise StudyError(
            f"torch's seed was set to {found} within a fit, so that fits of all seeds would draw the same from there "
            f"on; leave it out of the class, or draw what is the same in all fits in a torch.random.fork_rng()"
        )


def adamw(network: nn.Module, **options: float) -> torch.optim.AdamW:
    """Returns AdamW of all parameters, which takes its step at once for all of them where torch can."""
    # the fused step takes no complex numbers, and of a parameter with gaps in memory it changes the gaps
    fused = all(value.is_contiguous() and value.is_floating_point() for value in network.parameters())
    return torch.optim.AdamW(network.parameters(), fused=fused, foreach=not fused, **options)


def _leaves(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields the tensors that going backward from one would give a gradient."""
    ahead, seen = [tensor.grad_fn], {None}
    while ahead:
        node = ahead.pop()
        if node not in seen:
            seen.add(node)
            if type(node).__name__ == "AccumulateGrad":
                yield node.variable
            ahead += [before for before, _ in node.next_functions]


def state_of(network: nn.Module) -> dict[str, Any]:
    """Returns what a network has learnt and keeps, also in buffers that its class leaves out of its files."""
    state = network.state_dict()
    state.update((name, buffer.detach()) for name, buffer in network.named_buffers() if name not in state)
    return state


@torch.no_grad()
def load_state(network: nn.Module, state: dict[str, Any]) -> None:
    """Gives a network a state that it had, with the buffers that its modules made, or made anew, while they ran."""
    device, own = next(network.parameters()).device, _tensors(state_of(network))
    kinds = {name: (value.shape, value.dtype) for name, value in own.items() if not is_lazy(value)}
    for name, value in _tensors(state).items():
        if kinds.get(name) != (value.shape, value.dtype):
            module, _, buffer = name.rpartition(".")
            network.get_submodule(module).register_buffer(buffer, value.to(device, copy=True))
    own = network.state_dict()  # with the versions of its modules
    for name in state.keys() - own.keys():
        network.get_buffer(name).copy_(state[name])
    for name in [*own]:
        own[name] = state.get(name)
    network.load_state_dict(own)


def _tensors(state: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}


def _auxiliary_loss(module: nn.Module) -> torch.Tensor:
    value = module.auxiliary_loss()
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        found = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
        raise StudyError(
            f"auxiliary_loss() of {type(module).__name__} returned {found} but expected a tensor of one number"
        )
    return value
