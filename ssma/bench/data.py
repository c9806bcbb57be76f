"""The benchmark of the data path: an epoch of batches, by PyG's loader and by ours."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch_geometric.loader import DataLoader

from ssma.bench.measure import Work, interleaved
from ssma.bench.sets import as_data_list, bench_set
from ssma.data.batches import Batches

Row = dict[str, Any]
ANY_ARM = [("gcn", "sum", {})]


@dataclass(frozen=True)
class DataGrid:
    """The data sets, and the graphs in a batch."""

    names: tuple[str, ...] = ("MUTAG", "PROTEINS", "ZINC", "Peptides-func")
    batch_size: int = 32

    def __len__(self) -> int:
        """Returns the number of cells, on one device."""
        return len(self.names)


DATA_QUICK = DataGrid(("MUTAG",))


def run_data(
    grid: DataGrid, devices: list[torch.device], budget: float, mirror: Path | None, work: Path
) -> Iterator[list[Row]]:
    """Yields the rows of one data set after the other: the seconds of every epoch."""
    for name in grid.names:
        bench = bench_set(name, mirror, work, ANY_ARM, {})
        graphs = bench.prepared.graphs
        cell = {"dataset": name, "origin": bench.origin, "graphs": graphs.num_graphs, "batch_size": grid.batch_size}
        items = list(range(graphs.num_graphs))
        loader = DataLoader(as_data_list(graphs, items), batch_size=grid.batch_size, shuffle=True)
        for device in devices:
            batches = Batches(graphs, items, grid.batch_size, "graph", device)
            works = {"package": Work(partial(_package, batches)), "PyG": Work(partial(_pyg, loader, device))}
            yield [
                cell | {"device": device.type, "method": method, "repeat": number, "seconds": taken}
                for method, times in interleaved(works, device, budget).items()
                for number, taken in enumerate(times)
            ]


def _package(batches: Batches) -> None:
    for _ in batches.epoch(torch.Generator().manual_seed(0)):
        pass


def _pyg(loader: DataLoader, device: torch.device) -> None:
    for batch in loader:
        batch.to(device)
