"""The benchmark of a fit: seconds per epoch at the paper's budget, beside the same network in plain PyG."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ssma.bench.measure import Limits, Measured, Work, available_bytes, interleaved, peak_bytes, seconds_of
from ssma.bench.plain import PlainNetwork, plain_epoch
from ssma.bench.sets import Arm, as_data_list, bench_set
from ssma.data.batches import Batches
from ssma.data.degrees import degree_histogram
from ssma.data.prepare import Prepared
from ssma.fit.training import Task, Training
from ssma.layers.network import Network, compile_products
from ssma.layers.width import count_parameters, hidden_channels

SEED = 0
PROBE = 2  # graphs: the forecast of a step comes from a step on so many
CALL_SECONDS = 2.0  # as many steps of a method are timed as it takes in this time, but at least one

Row = dict[str, Any]
ARMS = (
    ("gcn", "sum", {}),
    ("gcn", "ssma", {}),
    ("gcn", "ssma", {"ssma.selection": "random"}),
    ("gin", "sum", {}),
    ("gin", "ssma", {}),
    ("gat", "sum", {}),
    ("gat", "ssma", {}),
    ("pna", "pna", {}),
    ("pna", "ssma", {}),
)


@dataclass(frozen=True)
class FitGrid:
    """The data sets, the arms on each, and the most training steps that stand for an epoch."""

    names: tuple[str, ...] = ("MUTAG", "PROTEINS", "ZINC")
    arms: tuple[Arm, ...] = ARMS
    changes: dict[str, Any] = field(default_factory=dict)
    steps: int = 8
    compiled: bool = False  # also SSMA in compiled kernels

    def __len__(self) -> int:
        """Returns the number of cells, on one device."""
        return len(self.names) * (len(self.arms) + self.compiled * sum(arm[1] == "ssma" for arm in self.arms))


FIT_QUICK = FitGrid(("MUTAG",), (*ARMS[:3], ARMS[6]), {"model.budget": 20_000, "model.num_layers": 2})


def run_fit_bench(
    grid: FitGrid, devices: list[torch.device], limits: Limits, mirror: Path | None, work: Path
) -> Iterator[list[Row]]:
    """Yields the rows of one arm after the other: every repeat, and what was not run and why.

    ``seconds`` are those of the steps that a method ran; ``share`` is their part of an epoch: training and validation.
    """
    for name in grid.names:
        bench = bench_set(name, mirror, work, grid.arms, grid.changes)
        for device in devices:
            for arm in bench.arms:
                for compiled in (False, True) if grid.compiled and arm["aggregator"] == "ssma" else (False,):
                    cell = {"device": device.type, "dataset": name, "origin": bench.origin}
                    yield _cell(cell, Sample.of(bench.prepared, arm, grid.steps, compiled), limits, device)


@dataclass(frozen=True, eq=False)
class Sample:
    """An arm on a part of the first split: some batches of training graphs, and as large a share of validation."""

    prepared: Prepared
    arm: dict[str, Any]
    train: list[int]
    validation: list[int]
    width: int
    degrees: Tensor
    compiled: bool

    @classmethod
    def of(cls, prepared: Prepared, arm: dict[str, Any], steps: int, compiled: bool = False) -> "Sample":
        """Returns the sample of so many steps; of a whole epoch, if that has no more."""
        settings, split = arm["settings"], prepared.splits[0]
        train = split["train"][: steps * settings["training"]["batch_size"]]
        validation = split["validation"][: max(1, round(len(split["validation"]) * len(train) / len(split["train"])))]
        width = hidden_channels(prepared.card, arm["layer"], arm["aggregator"], settings)
        degrees = degree_histogram(prepared.graphs, split["train"], prepared.card["level"])
        return cls(prepared, arm, train, validation, width, degrees, compiled)

    @property
    def steps(self) -> int:
        """Training steps."""
        return math.ceil(len(self.train) / self.arm["settings"]["training"]["batch_size"])

    @property
    def share(self) -> float:
        """Part of the training graphs of the split."""
        return len(self.train) / len(self.prepared.splits[0]["train"])

    def first(self, steps: int) -> "Sample":
        """Returns the sample of the first of these steps: of so many, but at least of one."""
        return Sample.of(self.prepared, self.arm, min(max(1, steps), self.steps), self.compiled)

    def ours(self, device: torch.device) -> tuple[Network, Work]:
        """Returns the network of a study, and the call that trains and validates as a fit does."""
        card, settings = self.prepared.card, self.arm["settings"]
        network = Network(
            card, self.arm["layer"], self.arm["aggregator"], settings, self.width, degrees=self.degrees
        ).to(device)
        if self.compiled:
            compile_products(network)
        size, graphs = settings["training"]["batch_size"], self.prepared.graphs
        train, validation = (Batches(graphs, items, size, "graph", device) for items in (self.train, self.validation))
        task = Task(card["loss"], card["metric"], card["direction"])
        endless = settings["training"] | {"min_lr": 0.0, "max_epochs": 0}
        training = Training(network, train, list(validation.epoch()), task, endless, SEED)

        def one_more() -> None:
            endless["max_epochs"] = training.epochs + 1

        def epoch() -> None:
            status, reason = training.run(lambda _: None)
            if status != "ok":
                raise RuntimeError(f"the epoch to time ended as {status}: {reason}")

        return network, Work(epoch, one_more)

    def plain(self, device: torch.device, items: list[int]) -> Work:
        """Returns the call that trains the plain network on ``items`` and validates it."""
        card, settings, layer = self.prepared.card, self.arm["settings"], self.arm["layer"]
        network = PlainNetwork(card, layer, self.arm["aggregator"], settings, self.width, self.degrees).to(device)
        graphs = self.prepared.graphs
        validation = as_data_list(graphs, self.validation[: len(items)])
        return Work(
            plain_epoch(network, as_data_list(graphs, items), validation, card["loss"], settings["training"], device)
        )

    def nodes(self, items: list[int]) -> int:
        """Returns the nodes of graphs."""
        return int(self.prepared.graphs.node_ptr.diff()[torch.tensor(items)].sum())


def _cell(cell: Row, sample: Sample, limits: Limits, device: torch.device) -> list[Row]:
    torch.manual_seed(SEED)
    arm, settings = sample.arm, sample.arm["settings"]
    step = _forecast(sample, device)
    samples = {
        method: sample.first(int(CALL_SECONDS / seconds))
        for method, seconds in (("package", _own_step(sample, device)), ("PyG", step.seconds))
    }
    network, ours = samples["package"].ours(device)
    cell |= {
        "layer": arm["layer"],
        "aggregator": arm["aggregator"],
        "selection": settings["aggregator"].get("selection", "") + " compiled" * sample.compiled,
        "width": sample.width,
        "parameters": count_parameters(network),
    }
    works, rows = {"package": ours}, []
    reason = limits.refusal(step, available_bytes(device))
    if reason:
        rows.append(cell | {"method": "PyG", "share": samples["PyG"].share, "reason": reason})
    else:
        works["PyG"] = samples["PyG"].plain(device, samples["PyG"].train)
    for method, times in interleaved(works, device, limits.budget).items():
        row = cell | {"method": method, "share": samples[method].share}
        rows += [row | {"repeat": number, "seconds": each} for number, each in enumerate(times)]
    return rows


def _own_step(sample: Sample, device: torch.device) -> float:
    """Returns what a step of the package takes, after one that warms up and may compile."""
    _, work = sample.first(1).ours(device)
    seconds_of(work, device)
    return seconds_of(work, device)


def _forecast(sample: Sample, device: torch.device) -> Measured:
    """Returns what a step of the plain network takes, from one on fewer graphs."""
    probe, batch = sample.train[:PROBE], sample.train[: sample.arm["settings"]["training"]["batch_size"]]
    work = sample.plain(device, probe)
    taken = Measured(sample.nodes(probe), peak_bytes(work, device), seconds_of(work, device))
    return taken.scaled(sample.nodes(batch))
