"""What ``ssma bench aggr`` does: measure, and write the page, the raw numbers and the figures."""

import os
from pathlib import Path

import torch
from tqdm import tqdm

from ssma.bench import figures
from ssma.bench.aggr import QUICK, Grid, run_aggr
from ssma.bench.machine import machine
from ssma.bench.measure import Limits
from ssma.bench.tables import as_frame, page
from ssma.errors import StudyError
from ssma.study.records import write_atomic


def bench_aggr(out: Path, device: str, threads: int | None, quick: bool, limits: Limits) -> None:
    """Writes ``aggr.md``, ``aggr.csv`` (after every cell) and the figures to ``out``.

    Args:
        out: A folder.
        device: ``auto`` (the CPU, and CUDA where there is one), ``cpu`` or ``cuda``.
        threads: Threads of torch, all cores by default.
        quick: Measure a grid of a few seconds.
        limits: What is not measured because it would take too much.

    Raises:
        StudyError: If CUDA is asked for and there is none.
    """
    torch.set_num_threads(threads or os.cpu_count())
    devices, grid, rows = _devices(device), QUICK if quick else Grid(), []
    with tqdm(total=len(grid) * len(devices), unit="cell") as progress:
        for cell in run_aggr(grid, devices, limits):
            rows += cell
            write_atomic(out / "aggr.csv", as_frame(rows).to_csv(index=False).encode())
            progress.set_postfix_str(f"{cell[0]['part']} d={cell[0]['d']} nodes={cell[0]['nodes']}", refresh=False)
            progress.update()
    frame = as_frame(rows)
    images = [path.name for path in figures.draw(frame, out) if path.suffix == ".png"]
    write_atomic(out / "aggr.md", page(frame, machine(devices), images).encode())


def _devices(name: str) -> list[torch.device]:
    if name == "cuda" and not torch.cuda.is_available():
        raise StudyError("bench got --device cuda but there is no CUDA device; use --device cpu")
    names = {"auto": ["cpu"] + ["cuda"] * torch.cuda.is_available()}.get(name, [name])
    return [torch.device(each) for each in names]
