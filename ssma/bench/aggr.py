"""The benchmark of the operator: SSMA against the paper's formulation, against other layers, and by stages."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import GATConv, GCNConv, PNAConv
from torch_geometric.nn.aggr import LSTMAggregation

from ssma.aggr import SSMAAggregation, use_aggregation
from ssma.aggr.selection import random_draw, random_slots
from ssma.bench.measure import Limits, Work, available_bytes, interleaved, measure, module_work
from ssma.bench.paper import PaperSSMA
from ssma.bench.stages import WHOLE, shares, stage_work, stages

PASSES = {"forward": False, "forward+backward": True}
SEED = 0
DEGREE = 4
LAYER_KAPPA = 4
COMPILED = ", compiled"
PROBE = 10  # the first forecast of a row of sizes comes from a tenth of the smallest

Row = dict[str, Any]


@dataclass(frozen=True)
class Grid:
    """The cells to measure, and the graph that the draw is timed on."""

    widths: tuple[int, ...] = (32, 64, 128)
    kappas: tuple[int, ...] = (2, 4, 7)
    nodes: tuple[int, ...] = (1250, 10_000, 100_000)
    stages: tuple[tuple[int, int], ...] = ((64, 4), (128, 7))
    stage_nodes: int = 10_000
    draw_nodes: int = 169_343  # ogbn-arxiv, made undirected
    draw_edges: int = 2_315_598
    compiled: bool = False  # also SSMA with compiled=True

    def __len__(self) -> int:
        """Returns the number of cells, on one device."""
        comparisons = len(self.widths) * (len(self.kappas) + 1) * len(PASSES) * len(self.nodes)
        return comparisons + len(self.stages) + 1


QUICK = Grid((32,), (2, 4), (100, 400), ((32, 4),), 400, 2_000, 20_000)


def random_graph(nodes: int, edges: int, device: torch.device, skew: float = 1.0) -> Tensor:
    """Returns the ``edge_index`` of a random graph, sorted by target; the same for the same arguments.

    Args:
        nodes: Number of nodes.
        edges: Number of edges.
        device: Where to put it.
        skew: 1 draws targets uniformly; above 1, the node i of N is a target in proportion to (i/N)^(1/skew - 1).
    """
    generator = torch.Generator().manual_seed(SEED)
    target = (torch.rand(edges, generator=generator, dtype=torch.float64) ** skew * nodes).long().sort().values
    source = torch.randint(nodes, (edges,), generator=generator)
    return torch.stack([source, target]).to(device)


def layers(d: int, edge_index: Tensor, nodes: int, compiled: bool = False) -> dict[str, Module]:
    """Returns the layers to compare, all from width d to d and without self-loops."""
    torch.manual_seed(SEED)
    degrees = edge_index[1].bincount(minlength=nodes).bincount()
    gcn = {"add_self_loops": False}
    aggregators, scalers = ["mean", "max", "min", "std"], ["identity", "amplification", "attenuation"]
    with_ssma = {
        "GCN + SSMA" + name: use_aggregation(GCNConv(d, d, **gcn), SSMAAggregation(d, LAYER_KAPPA, compiled=how))
        for name, how in _ways(compiled)
    }
    return with_ssma | {
        "PNA, 1 tower": PNAConv(d, d, aggregators, scalers, degrees),
        "PNA, 4 towers": PNAConv(d, d, aggregators, scalers, degrees, towers=4),
        "GAT, 8 heads": GATConv(d, d // 8, heads=8, add_self_loops=False),
        "GCN + LSTM (PyG's, padded)": use_aggregation(GCNConv(d, d, **gcn), LSTMAggregation(d, d)),
        "GCN, sum": GCNConv(d, d, **gcn),
    }


def run_aggr(grid: Grid, devices: list[torch.device], limits: Limits) -> Iterator[list[Row]]:
    """Yields the rows of one cell after the other: every repeat, the peak memory, and what was not run and why."""
    for device in devices:
        for d, kappa, name in product(grid.widths, grid.kappas, PASSES):
            make = partial(operator_works, d, kappa, PASSES[name], device, compiled=grid.compiled)
            cell = {"part": "operator", "d": d, "kappa": kappa, "pass": name}
            yield from _sizes(make, grid.nodes, device, limits, cell)
        for d, name in product(grid.widths, PASSES):
            make = partial(layer_works, d, PASSES[name], device, compiled=grid.compiled)
            cell = {"part": "layers", "d": d, "kappa": LAYER_KAPPA, "pass": name}
            yield from _sizes(make, grid.nodes, device, limits, cell)
        for d, kappa in grid.stages:
            yield _stages(d, kappa, grid.stage_nodes, device, limits)
        yield _draw(grid, device, limits)


def operator_works(
    d: int, kappa: int, backward: bool, device: torch.device, nodes: int, compiled: bool = False
) -> dict[str, Work]:
    """Returns SSMA, if asked for also compiled, and the paper's formulation of it, with the same weights, on the same
    messages."""
    aggrs = {}
    for name, how in _ways(compiled):
        torch.manual_seed(SEED)
        aggrs["SSMA" + name] = SSMAAggregation(d, kappa, compiled=how).to(device)
    paper = PaperSSMA(aggrs["SSMA"])
    source, index = random_graph(nodes, nodes * DEGREE, device)
    message = torch.randn(nodes, d, device=device)[source]
    upper = torch.randn(nodes, d, device=device) if backward else None
    works = {name: module_work(aggr, message, index, None, nodes, upper=upper) for name, aggr in aggrs.items()}
    return works | {"paper": module_work(paper, message, index, nodes, upper=upper)}


def layer_works(d: int, backward: bool, device: torch.device, nodes: int, compiled: bool = False) -> dict[str, Work]:
    """Returns the layers on one graph."""
    torch.manual_seed(SEED)
    edge_index = random_graph(nodes, nodes * DEGREE, device)
    x = torch.randn(nodes, d, device=device)
    upper = torch.randn(nodes, d, device=device) if backward else None
    return {
        name: module_work(layer.to(device), x, edge_index, upper=upper)
        for name, layer in layers(d, edge_index, nodes, compiled).items()
    }


def _ways(compiled: bool) -> list[tuple[str, bool]]:
    """Returns name and switch of SSMA, and of SSMA compiled if that is measured too."""
    return [("", False), (COMPILED, True)][: 1 + compiled]


def _sizes(
    make: Callable[[int], dict[str, Work]], sizes: Sequence[int], device: torch.device, limits: Limits, cell: Row
) -> Iterator[list[Row]]:
    """Measures a row of sizes, smallest first, each only where the forecast from the largest one before it fits."""
    sizes = sorted(sizes)
    probe = max(1, sizes[0] // PROBE)
    known = {name: result for name, (result, _) in measure(make(probe), probe, device, budget=0, least=1).items()}
    for nodes in sizes:
        works, place = make(nodes), cell | {"device": device.type, "nodes": nodes, "edges": nodes * DEGREE}
        available = available_bytes(device)
        refusals = {name: limits.refusal(known[name].scaled(nodes), available) for name in works}
        rows = [place | {"method": name, "reason": reason} for name, reason in refusals.items() if reason]
        fitting = {name: work for name, work in works.items() if not refusals[name]}
        for name, (result, times) in measure(fitting, nodes, device, limits.budget).items():
            known[name] = result
            rows += _rows(place | {"method": name}, times, result.bytes)
        yield rows


def _stages(d: int, kappa: int, nodes: int, device: torch.device, limits: Limits) -> list[Row]:
    torch.manual_seed(SEED)
    aggr = SSMAAggregation(d, kappa).to(device)
    source, index = random_graph(nodes, nodes * DEGREE, device)
    message = torch.randn(nodes, d, device=device)[source]
    works = {
        (name, direction): work
        for name, stage in stages(aggr, message, index, nodes)
        for direction, work in stage_work(stage, aggr).items()
    } | shares(aggr, message, index, nodes)
    works |= {
        (WHOLE, name): work for name, work in stage_work(partial(aggr, message, index, dim_size=nodes), aggr).items()
    }
    cell = {"part": "stages", "device": device.type, "d": d, "kappa": kappa, "nodes": nodes}
    cell["edges"] = nodes * DEGREE
    rows = []
    for (name, direction), times in interleaved(works, device, limits.budget).items():
        rows += _rows(cell | {"method": name, "pass": direction}, times)
    return rows


def _draw(grid: Grid, device: torch.device, limits: Limits) -> list[Row]:
    """Times random selection of messages with 64 channels, and the draw in it alone."""
    nodes, edges, d = grid.draw_nodes, grid.draw_edges, 64
    index = random_graph(nodes, edges, device, skew=2.0)[1]
    message = torch.randn(edges, 1, d, device=device)
    works = {
        "draw and slots": Work(partial(random_slots, message, index, nodes, LAYER_KAPPA, training=True)),
        "draw alone": Work(partial(random_draw, index, nodes, LAYER_KAPPA, training=True)),
    }
    cell = {"part": "draw", "device": device.type, "d": d, "kappa": LAYER_KAPPA, "nodes": nodes, "pass": "forward"}
    cell["edges"] = edges
    rows = []
    for name, times in interleaved(works, device, limits.budget).items():
        rows += _rows(cell | {"method": name}, times)
    return rows


def _rows(cell: Row, times: list[float], peak: int | None = None) -> list[Row]:
    return [cell | {"repeat": number, "seconds": taken, "bytes": peak} for number, taken in enumerate(times)]
