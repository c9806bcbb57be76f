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
WHERE = "{part} d={d} nodes={nodes}"


def bench_aggr(out: Path, device: str, threads: int | None, quick: bool, limits: Limits, compiled: bool) -> None:
    """Writes ``aggr.md``, ``aggr.csv`` (after every cell) and the figures to ``out``.

    Args:
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
    _write(out / "aggr", devices, cells, count, WHERE, tables.COLUMNS, figures.draw, tables.page)


def bench_data(out: Path, device: str, threads: int | None, quick: bool, budget: float, mirror: Path | None) -> None:
    """Writes ``data.md``, ``data.csv`` and the figures to ``out``; other arguments are those of :func:`bench_aggr`.

    Args:
        budget: Seconds of a cell's repeats.
        mirror: Folder of raw data sets; random graphs of their sizes stand in for those that are not there.
    """
    devices, grid = _start(device, threads), DATA_QUICK if quick else DataGrid()
    columns = [*tables.DATA_CELL, *tables.MEASURED]
    with tempfile.TemporaryDirectory() as work:
        cells, count = run_data(grid, devices, budget, mirror, Path(work)), len(grid) * len(devices)
        _write(out / "data", devices, cells, count, "{dataset}", columns, figures.draw_data, tables.data_page)


def bench_fit(
    out: Path, device: str, threads: int | None, quick: bool, limits: Limits, compiled: bool, mirror: Path | None
) -> None:
    """Writes ``fit.md``, ``fit.csv`` and the figures to ``out``; arguments are as in the others."""
    devices, grid = _start(device, threads), replace(FIT_QUICK if quick else FitGrid(), compiled=compiled)
    columns = [*tables.FIT_CELL, "share", *tables.MEASURED]
    with tempfile.TemporaryDirectory() as work:
        cells, count = run_fit_bench(grid, devices, limits, mirror, Path(work)), len(grid) * len(devices)
        what = "{dataset} {layer} {aggregator}"
        _write(out / "fit", devices, cells, count, what, columns, figures.draw_fit, tables.fit_page)


def bench_runtime(out: Path, device: str, threads: int | None, quick: bool, limits: Limits) -> None:
    """Writes ``runtime.md``, ``runtime.csv`` and the figures to ``out``; arguments are as in the others."""
    devices, grid = _start(device, threads), RUNTIME_QUICK if quick else RuntimeGrid()
    cells, count = run_runtime(grid, devices, limits), len(grid) * len(devices)
    _write(out / "runtime", devices, cells, count, WHERE, RUNTIME_COLUMNS, figures.draw_runtime, runtime_page)


def _start(device: str, threads: int | None) -> list[torch.device]:
    """Sets torch's threads and returns the devices to measure."""
    torch.set_num_threads(threads or usable_cores())
    if device == "cuda" and not torch.cuda.is_available():
        raise StudyError("bench got --device cuda but there is no CUDA device; use --device cpu")
    names = [device] if device != "auto" else ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    return [torch.device(name) for name in names]


def _write(
    path: Path,
    devices: list[torch.device],
    cells: Iterator[Rows],
    count: int,
    what: str,
    columns: list[str],
    draw: Callable[[pd.DataFrame, Path], list[Path]],
    page: Callable[[pd.DataFrame, dict[str, str], list[str]], str],
) -> None:
    """Runs all cells, writes the numbers after each, and says on stderr how far it is; then writes figures and page.

    Args:
        path: The files' path, without their endings.
        devices: What is measured.
        cells: The rows of one cell after the other.
        count: How many cells there are.
        what: What a row is of, as a template of its entries.
        columns: Columns of the numbers.
        draw: Writes the figures of the numbers to a folder; returns their paths.
        page: Makes the page of the numbers, what they ran on, and the names of the figures.
    """
    rows: Rows = []
    with tqdm(total=count, unit="cell") as progress:
        for cell in cells:
            rows += cell
            write_atomic(path.with_suffix(".csv"), tables.as_frame(rows, columns).to_csv(index=False).encode())
            progress.set_postfix_str(what.format_map(cell[0]), refresh=False)
            progress.update()
    frame = tables.as_frame(rows, columns)
    images = [image.name for image in draw(frame, path.parent) if image.suffix == ".png"]
    write_atomic(path.with_suffix(".md"), page(frame, machine(devices), images).encode())
