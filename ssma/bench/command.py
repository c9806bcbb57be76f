"""What ``ssma bench`` does: measure, and write a page, the raw numbers and figures."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tqdm import tqdm

from ssma.bench import figures, tables
from ssma.bench.aggr import QUICK, Grid, run_aggr
from ssma.bench.data import DATA_QUICK, DataGrid, run_data
from ssma.bench.fit import FIT_QUICK, FitGrid, run_fit_bench
from ssma.bench.machine import machine
from ssma.bench.measure import Limits
from ssma.bench.runtime import RUNTIME_QUICK, RuntimeGrid, run_runtime
from ssma.bench.runtime_page import RUNTIME_COLUMNS, runtime_page
from ssma.errors import StudyError
from ssma.study.cost import usable_cores
from ssma.study.records import write_atomic

Rows = list[dict[str, Any]]


def bench_aggr(out: Path, device: str, threads: int | None, quick: bool, limits: Limits, compiled: bool) -> None:
    """Writes ``aggr.md``, ``aggr.csv`` (after every cell) and the figures to ``out``.

    Args:
        out: A folder.
        device: ``auto`` (the CPU, and CUDA where there is one), ``cpu`` or ``cuda``.
        threads: Threads of torch, all cores by default.
        quick: Measure a grid of a few seconds.
        limits: What is not measured because it would take too much.
        compiled: Measure SSMA also with ``compiled=True``.

    Raises:
        StudyError: If CUDA is asked for and there is none.
    """
    devices, grid = _start(device, threads), replace(QUICK if quick else Grid(), compiled=compiled)
    cells, count = run_aggr(grid, devices, limits), len(grid) * len(devices)
    frame = _measured(cells, count, out / "aggr.csv", tables.COLUMNS, _what)
    images = _images(figures.draw(frame, out))
    write_atomic(out / "aggr.md", tables.page(frame, machine(devices), images).encode())


def bench_data(out: Path, device: str, threads: int | None, quick: bool, budget: float, mirror: Path | None) -> None:
    """Writes ``data.md``, ``data.csv`` and the figures to ``out``, like :func:`bench_aggr`.

    Args:
        out: A folder.
        device: As in :func:`bench_aggr`.
        threads: Threads of torch, all cores by default.
        quick: Take one small data set only.
        budget: Seconds of a cell's repeats.
        mirror: Folder of raw data sets; random graphs of their sizes stand in for those that are not there.
    """
    devices, grid = _start(device, threads), DATA_QUICK if quick else DataGrid()
    columns = [*tables.DATA_CELL, *tables.MEASURED]
    with tempfile.TemporaryDirectory() as work:
        cells, count = run_data(grid, devices, budget, mirror, Path(work)), len(grid) * len(devices)
        frame = _measured(cells, count, out / "data.csv", columns, lambda row: row["dataset"])
    images = _images(figures.draw_data(frame, out))
    write_atomic(out / "data.md", tables.data_page(frame, machine(devices), images).encode())


def bench_fit(
    out: Path, device: str, threads: int | None, quick: bool, limits: Limits, compiled: bool, mirror: Path | None
) -> None:
    """Writes ``fit.md``, ``fit.csv`` and the figures to ``out``, like :func:`bench_aggr`.

    Args:
        out: A folder.
        device: As in :func:`bench_aggr`.
        threads: Threads of torch, all cores by default.
        quick: Take small networks on one small data set only.
        limits: What is not measured because it would take too much.
        compiled: As in :func:`bench_aggr`.
        mirror: As in :func:`bench_data`.
    """
    devices, grid = _start(device, threads), replace(FIT_QUICK if quick else FitGrid(), compiled=compiled)
    columns = [*tables.FIT_CELL, *tables.MEASURED]
    with tempfile.TemporaryDirectory() as work:
        cells, count = run_fit_bench(grid, devices, limits, mirror, Path(work)), len(grid) * len(devices)
        what = "{dataset} {layer} {aggregator}"
        frame = _measured(cells, count, out / "fit.csv", columns, lambda row: what.format(**row))
    images = _images(figures.draw_fit(frame, out))
    write_atomic(out / "fit.md", tables.fit_page(frame, machine(devices), images).encode())


def bench_runtime(out: Path, device: str, threads: int | None, quick: bool, limits: Limits) -> None:
    """Writes ``runtime.md``, ``runtime.csv`` and the figures to ``out``, like :func:`bench_aggr`.

    Args:
        out: A folder.
        device: As in :func:`bench_aggr`.
        threads: Threads of torch, all cores by default.
        quick: Take small graphs and three small points of each curve.
        limits: What is not measured of the curves because it would take too much.
    """
    devices, grid = _start(device, threads), RUNTIME_QUICK if quick else RuntimeGrid()
    cells, count = run_runtime(grid, devices, limits), len(grid) * len(devices)
    frame = _measured(cells, count, out / "runtime.csv", RUNTIME_COLUMNS, _what)
    images = _images(figures.draw_runtime(frame, out))
    write_atomic(out / "runtime.md", runtime_page(frame, machine(devices), images).encode())


def _start(device: str, threads: int | None) -> list[torch.device]:
    """Sets torch's threads and returns the devices to measure."""
    torch.set_num_threads(threads or usable_cores())
    if device == "cuda" and not torch.cuda.is_available():
        raise StudyError("bench got --device cuda but there is no CUDA device; use --device cpu")
    names = [device] if device != "auto" else ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    return [torch.device(name) for name in names]


def _measured(
    cells: Iterator[Rows], count: int, path: Path, columns: list[str], name: Callable[[dict[str, Any]], str]
) -> pd.DataFrame:
    """Runs all cells; writes the numbers after each, and says on stderr how far it is."""
    rows: Rows = []
    with tqdm(total=count, unit="cell") as progress:
        for cell in cells:
            rows += cell
            write_atomic(path, tables.as_frame(rows, columns).to_csv(index=False).encode())
            progress.set_postfix_str(name(cell[0]), refresh=False)
            progress.update()
    return tables.as_frame(rows, columns)


def _what(row: dict[str, Any]) -> str:
    return f"{row['part']} d={row['d']} nodes={row['nodes']}"


def _images(paths: list[Path]) -> list[str]:
    return [path.name for path in paths if path.suffix == ".png"]
