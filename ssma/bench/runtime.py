"""The benchmark of layers, as in the paper's table of times, and of the growth of SSMA's time and memory."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.aggr import SumAggregation

from ssma.aggr import SSMAAggregation, make_aggregation
from ssma.bench.aggr import random_graph
from ssma.bench.growth import ATTENTION, RANDOM, SUM, Point, operations
from ssma.bench.measure import Limits, Measured, Work, available_bytes, measure, module_work
from ssma.bench.sets import SHAPES, random_graphs
from ssma.data.batches import Batches
from ssma.data.graphs import Graphs
from ssma.fit.training import adamw
from ssma.layers.convs import LAYERS, Parts
from ssma.study.presets import preset
from ssma.study.settings import ModelSettings

SEED = 0
PROBE = 10  # the first forecast of a curve comes from a tenth of its smallest point's nodes and edges
BASE = Point(nodes=16_000, edges=128_000, d=64, kappa=4)
TRAINING, INFERENCE = "training", "inference"

Row = dict[str, Any]
Results = dict[str, tuple[Measured, list[float]]]


@dataclass(frozen=True)
class TimedLayer:
    """A layer of the paper's table of times, or one of our own beside it; ``selection`` is that of SSMA."""

    layer: str
    aggregator: str
    selection: str = ""


TIMED = {
    f"{layer.upper()}, {word}": TimedLayer(layer, aggregator, selection)
    for word, aggregator, selection in (
        ("sum", "sum", ""),
        ("random SSMA", "ssma", "random"),
        ("attention SSMA", "ssma", "attention"),
    )
    for layer in ("gin", "gcn", "gat")
} | {"PNA": TimedLayer("pna", "pna"), "GraphGPS, sum": TimedLayer("gps", "sum")}


@dataclass(frozen=True)
class RuntimeGrid:
    """What is measured.

    Args:
        width: Width of the layers, a multiple of the heads of GAT and GraphGPS and of the towers of PNA.
        kappa: Slots of SSMA in the layers.
        arxiv: Nodes and edges of a random graph as large as the paper's batch of ogbn-arxiv (two of 128 parts) and as
            dense as all of it.
        proteins: Number of random graphs of the sizes of PROTEINS in a batch.
        base: The sizes that are held while another one varies.
        nodes: Sizes of the curves, at least three of each.
        edges: As ``nodes``.
        d: As ``nodes``.
        kappas: As ``nodes``.
    """

    width: int = 80
    kappa: int = 4
    arxiv: tuple[int, int] = (2_646, 36_181)
    proteins: int = 32
    base: Point = BASE
    nodes: tuple[int, ...] = (4_000, 8_000, 16_000, 32_000, 64_000)
    edges: tuple[int, ...] = (32_000, 64_000, 128_000, 256_000, 512_000)
    d: tuple[int, ...] = (16, 32, 64, 128, 256)
    kappas: tuple[int, ...] = (2, 3, 4, 6, 8)

    @property
    def curves(self) -> dict[str, tuple[int, ...]]:
        """The sizes that vary, by the field of the point, smallest first."""
        sizes = {"nodes": self.nodes, "edges": self.edges, "d": self.d, "kappa": self.kappas}
        return {name: tuple(sorted(values)) for name, values in sizes.items()}

    def __len__(self) -> int:
        """Returns the number of cells, on one device."""
        return 2 * len((TRAINING, INFERENCE)) + sum(map(len, self.curves.values()))


RUNTIME_QUICK = RuntimeGrid(
    40, 2, (200, 800), 4, Point(200, 800, 16, 2), (100, 200, 400), (400, 800, 1600), (8, 16, 32), (2, 3, 4)
)


def run_runtime(grid: RuntimeGrid, devices: list[torch.device], limits: Limits) -> Iterator[list[Row]]:
    """Yields the rows of one cell after the other: every repeat, the peak memory, and what was not run and why."""
    for device in devices:
        for name, (edge_index, batch) in timed_graphs(grid, device).items():
            for what in (TRAINING, INFERENCE):
                works = layer_works(grid, edge_index, batch, what)
                cell = {"part": "layers", "device": device.type, "graph": name, "pass": what, "d": grid.width}
                cell |= {"kappa": grid.kappa, "nodes": batch.numel(), "edges": edge_index.size(1)}
                yield _rows(cell, measure(works, cell["nodes"], device, limits.budget))
        for varied, sizes in grid.curves.items():
            points = [replace(grid.base, **{varied: size}) for size in sizes]
            yield from _curve(varied, points, device, limits)


def timed_graphs(grid: RuntimeGrid, device: torch.device) -> dict[str, tuple[Tensor, Tensor]]:
    """Returns the edges, ``[2, E]``, and the graph of each node, ``[N]``, of the graphs that layers are timed on."""
    nodes, edges = grid.arxiv
    one = random_graph(nodes, edges, device, skew=2.0), torch.zeros(nodes, dtype=torch.int64, device=device)
    graphs, _ = Graphs.from_data_list(random_graphs(SHAPES["PROTEINS"])[: grid.proteins])
    (batch,) = Batches(graphs, list(range(grid.proteins)), grid.proteins, "graph", device).epoch()
    return {"like a batch of ogbn-arxiv": one, "like a batch of PROTEINS": (batch.edge_index, batch.batch)}


def timed_layer(timed: TimedLayer, grid: RuntimeGrid, degrees: Tensor) -> Module:
    """Returns a layer as the paper's settings for PROTEINS make it, without edge features.

    Args:
        grid: Its width and kappa.
        degrees: Histogram of the in-degrees.
    """
    values = preset("paper", {"source": "tu", "name": "PROTEINS"}, timed.layer)
    fields = {key.removeprefix("model."): value for key, value in values.items() if key.startswith("model.")}
    model = ModelSettings(**fields).model_dump()
    options = {"kappa": grid.kappa, "selection": timed.selection} if timed.aggregator == "ssma" else {}
    torch.manual_seed(SEED)
    make = partial(_aggregation, timed.aggregator, degrees, options)
    return LAYERS[timed.layer].make(Parts(grid.width, None, model, timed.aggregator, make, degrees))


def _aggregation(name: str, degrees: Tensor, options: dict[str, Any], channels: int, heads: int) -> Module:
    return make_aggregation(name, channels, heads, None, degrees, **options)


def layer_works(grid: RuntimeGrid, edge_index: Tensor, batch: Tensor, what: str) -> dict[str, Work]:
    """Returns a step of training, or a forward pass in evaluation mode, of every layer on one graph."""
    torch.manual_seed(SEED)
    device, nodes = edge_index.device, batch.numel()
    x, upper = (torch.randn(nodes, grid.width, device=device) for _ in range(2))
    degrees = edge_index[1].bincount(minlength=nodes).bincount().cpu()
    works = {}
    for name, timed in TIMED.items():
        layer = timed_layer(timed, grid, degrees).to(device)
        others = (edge_index, batch) if timed.layer == "gps" else (edge_index,)
        if what == TRAINING:
            works[name] = training_work(layer.train(), x, *others, upper=upper)
        else:
            works[name] = module_work(layer.eval(), x, *others)
    return works


def training_work(layer: Module, x: Tensor, *others: Tensor, upper: Tensor) -> Work:
    """Returns forward pass, backward pass (to parameters and input) and a step of a fit's optimiser, AdamW.

    Args:
        layer: What is trained.
        x: Its input.
        *others: Further arguments.
        upper: Gradient of the result.
    """
    leaf = x.detach().clone().requires_grad_()
    optimizer = adamw(layer)

    def reset() -> None:
        leaf.grad = None
        optimizer.zero_grad(set_to_none=True)

    def step() -> None:
        layer(leaf, *others).backward(upper)
        optimizer.step()

    return Work(step, reset)


def growth_works(point: Point, device: torch.device) -> dict[str, Work]:
    """Returns forward and backward pass of the aggregations alone, on the same messages of a random graph."""
    torch.manual_seed(SEED)
    source, index = random_graph(point.nodes, point.edges, device)
    message = torch.randn(point.nodes, point.d, device=device)[source]
    upper = torch.randn(point.nodes, point.d, device=device)
    methods = {
        ATTENTION: SSMAAggregation(point.d, point.kappa, selection="attention"),
        RANDOM: SSMAAggregation(point.d, point.kappa, selection="random"),
        SUM: SumAggregation(),
    }
    return {
        name: module_work(aggr.to(device), message, index, None, point.nodes, upper=upper)
        for name, aggr in methods.items()
    }


def _curve(varied: str, points: list[Point], device: torch.device, limits: Limits) -> Iterator[list[Row]]:
    """Measures the points of a curve, smallest first, each where the forecast from the one before it fits.

    The forecast is linear in the paper's count of operations.
    """
    smallest = points[0]
    probe = replace(smallest, nodes=max(1, smallest.nodes // PROBE), edges=max(1, smallest.edges // PROBE))
    known = _by_operations(measure(growth_works(probe, device), probe.nodes, device, budget=0, least=1), probe)
    for point in points:
        works, available = growth_works(point, device), available_bytes(device)
        cell = {"part": "growth", "device": device.type, "varied": varied, "pass": "forward+backward"} | asdict(point)
        refusals = {name: limits.refusal(known[name].scaled(operations(name, point)), available) for name in works}
        refused = [cell | {"method": name, "reason": reason} for name, reason in refusals.items() if reason]
        fitting = {name: work for name, work in works.items() if not refusals[name]}
        results = measure(fitting, point.nodes, device, limits.budget)
        known |= _by_operations(results, point)
        yield refused + _rows(cell, results)


def _by_operations(results: Results, point: Point) -> dict[str, Measured]:
    """Returns what was measured with the count of operations for its size."""
    return {name: replace(result, size=operations(name, point)) for name, (result, _) in results.items()}


def _rows(cell: Row, results: Results) -> list[Row]:
    return [
        cell | {"method": name, "repeat": number, "seconds": taken, "bytes": result.bytes}
        for name, (result, times) in results.items()
        for number, taken in enumerate(times)
    ]
