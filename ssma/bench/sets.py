"""The data sets of the benchmarks: the real ones from a mirror, or random graphs of the same sizes."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from ssma.data.graphs import Graphs
from ssma.data.prepare import Prepared, load, prepare
from ssma.errors import StudyError
from ssma.study.config import parse_study
from ssma.study.plan import make_plan
from ssma.study.presets import preset

log = logging.getLogger("ssma")

Arm = tuple[str, str, dict[str, Any]]
"""Layer, aggregator and options."""


@dataclass(frozen=True)
class Shape:
    """A data set of the paper: how a study names it, and how large it is.

    Args:
        entry: Its entry in a study.
        graphs: Number of graphs.
        nodes: Mean number of nodes.
        edges: Mean number of directed edges.
        x: Columns of node features, and number of codes of a column (categorical) or None (continuous).
        edge_attr: The same of the edges, or None.
        outputs: Real targets, or labels, of a graph; None for two classes.
    """

    entry: dict[str, Any]
    graphs: int
    nodes: int
    edges: int
    x: tuple[int, int | None]
    edge_attr: tuple[int, int | None] | None
    outputs: int | None = None

    @property
    def task(self) -> str:
        return "multiclass" if self.outputs is None else "regression" if self.outputs == 1 else "multilabel"


SHAPES = {
    "MUTAG": Shape({"source": "tu"}, 188, 18, 40, (7, None), (4, None)),
    "PROTEINS": Shape({"source": "tu"}, 1_113, 39, 146, (3, None), None),
    "ZINC": Shape({"source": "zinc"}, 12_000, 23, 50, (1, 28), (1, 4), 1),
    "Peptides-func": Shape({"source": "lrgb", "name": "Peptides-func"}, 15_535, 151, 307, (9, 20), (3, 4), 10),
}
REAL, SYNTHETIC = "real", "random graphs of its sizes"


@dataclass(frozen=True, eq=False)
class BenchSet:
    """A data set that is ready, with its origin and the plan of the arms on it, in the paper's settings."""

    prepared: Prepared
    origin: str
    arms: list[dict[str, Any]]


def bench_set(name: str, mirror: Path | None, work: Path, arms: Sequence[Arm], changes: dict[str, Any]) -> BenchSet:
    """Prepares a data set, as the command ``prepare`` does: the real one where the mirror has it.

    Args:
        name: A key of ``SHAPES``.
        mirror: Folder of raw files, or None.
        work: A folder to write to.
        arms: The arms to plan.
        changes: Settings that replace those of the paper, by dotted name.
    """
    shape = SHAPES[name]
    if mirror is not None:
        try:
            return _ready(name, shape.entry, mirror, work, arms, changes, REAL)
        except StudyError as error:
            log.warning("%s: %s; the benchmark takes %s", name, error, SYNTHETIC)
    work.mkdir(parents=True, exist_ok=True)
    path = work / f"{name}.pt"
    torch.save(random_graphs(shape), path)
    entry = {"source": "file", "path": str(path), "task": shape.task}
    return _ready(name, entry, None, work, arms, changes, SYNTHETIC)


def _ready(
    name: str, entry: dict[str, Any], mirror: Path | None, work: Path, arms: Sequence[Arm], changes: dict[str, Any],
    origin: str,
) -> BenchSet:  # fmt: skip
    settings = preset("paper", {"name": name} | SHAPES[name].entry, "gcn") | changes
    groups: dict[str, dict[str, Any]] = {"model": {}, "training": {}}
    for key, value in settings.items():
        group, _, field = key.partition(".")
        groups[group][field] = value
    ablations = {
        f"arm-{number}": {"layers": [layer], "axes": {"aggregator": [aggregator]}, "fixed": options}
        for number, (layer, aggregator, options) in enumerate(arms)
    }
    layers = sorted({layer for layer, _, _ in arms})
    study = {"study": "bench", "datasets": {name: entry}, "layers": layers, "ablations": ablations} | groups
    plan = make_plan(parse_study(study))
    prepare(work / name, plan["datasets"][name], mirror)
    return BenchSet(load(work / name), origin, plan["arms"])


def random_graphs(shape: Shape) -> list[Data]:
    """Returns as many random graphs of about the same size; the same for the same shape."""
    generator = torch.Generator().manual_seed(0)
    data = []
    for _ in range(shape.graphs):
        nodes = int(torch.randint(shape.nodes - shape.nodes // 2, shape.nodes * 3 // 2 + 1, (1,), generator=generator))
        pairs = torch.randint(nodes, (2, nodes * shape.edges // shape.nodes // 2), generator=generator)
        edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
        data.append(
            Data(
                x=_features(nodes, shape.x, generator),
                edge_index=edge_index,
                edge_attr=None
                if shape.edge_attr is None
                else _features(edge_index.size(1), shape.edge_attr, generator),
                y=_targets(shape.outputs, generator),
            )
        )
    return data


def _features(rows: int, columns: tuple[int, int | None], generator: torch.Generator) -> Tensor:
    width, codes = columns
    if codes is None:
        return torch.rand(rows, width, generator=generator)
    return torch.randint(codes, (rows, width), generator=generator)


def _targets(outputs: int | None, generator: torch.Generator) -> Tensor:
    if outputs == 1:
        return torch.randn(1, 1, generator=generator)
    labels = torch.randint(2, (1, outputs or 1), generator=generator)
    return labels.flatten() if outputs is None else labels.float()


def as_data_list(graphs: Graphs, items: list[int]) -> list[Data]:
    """Returns graphs as PyG's objects, which own their tensors."""
    data = []
    for item in items:
        nodes, edges = (slice(*ptr[item : item + 2].tolist()) for ptr in (graphs.node_ptr, graphs.edge_ptr))
        data.append(
            Data(
                x=graphs.x[nodes].clone(),
                edge_index=graphs.edge_index[:, edges].clone(),
                edge_attr=None if graphs.edge_attr is None else graphs.edge_attr[edges].clone(),
                y=graphs.y[item : item + 1].clone(),
            )
        )
    return data
