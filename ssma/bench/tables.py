"""The pages of the benchmarks, from their frames."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ssma.bench.measure import TURN_SECONDS
from ssma.bench.stages import FUSED, PRODUCT, SPECTRA, SQUEEZE, WHOLE
from ssma.report.table import Cell, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

COLUMNS = [
    "part", "device", "pass", "d", "kappa", "nodes", "edges", "method", "repeat", "seconds", "bytes", "reason",
]  # fmt: skip
CELL = ["part", "device", "pass", "d", "kappa", "nodes"]
MEASURED = ["method", "repeat", "seconds", "bytes", "reason"]
DATA_CELL = ["device", "dataset", "origin", "graphs", "batch_size"]
FIT_CELL = ["device", "dataset", "origin", "layer", "aggregator", "selection", "width", "parameters"]
OF_MEMORY = "memory: the peak of tensor memory in a call beyond its inputs, gradients included, in a pass of its own"


def as_frame(rows: list[dict], columns: list[str] = COLUMNS) -> pd.DataFrame:
    """Returns the raw rows as a frame: one per repeat, and one with a reason for what was not run."""
    frame = pd.DataFrame(rows, columns=columns)
    whole = {"repeat": "Int64", "bytes": "Int64", "edges": "Int64"}
    kinds = whole | {"seconds": "float64", "reason": "object"}
    return frame.astype({name: kind for name, kind in kinds.items() if name in columns})


def summary(frame: pd.DataFrame, cell: list[str] = CELL) -> pd.DataFrame:
    """Returns a row per cell and method: median, smallest and largest seconds, repeats, bytes, reason; in order."""
    groups = frame.groupby([*cell, "method"], sort=False, dropna=False)
    return groups.agg(
        seconds=("seconds", "median"), low=("seconds", "min"), high=("seconds", "max"), n=("seconds", "count"),
        bytes=("bytes", "max"), reason=("reason", "first"),
    ).reset_index()  # fmt: skip


def ratios(frame: pd.DataFrame, method: str = "SSMA") -> pd.DataFrame:
    """Returns a method's gain over the paper's formulation in each cell where both ran: ``time`` and ``memory``."""
    part = summary(frame).query("part == 'operator' and n > 0")
    wide = part.set_index([*CELL[1:], "method"])[["seconds", "bytes"]].astype(float).unstack("method")
    wide = wide.reindex(columns=pd.MultiIndex.from_product([["seconds", "bytes"], [method, "paper"]])).dropna()
    return pd.DataFrame(
        {
            "time": wide["seconds", "paper"] / wide["seconds", method],
            "memory": wide["bytes", "paper"] / wide["bytes", method],
        }
    ).reset_index()


def page(frame: pd.DataFrame, machine: dict[str, str], figures: list[str]) -> str:
    """Returns ``aggr.md``."""
    notes = [
        of_repeats(frame, CELL, "aggr.csv"),
        "graphs: random, four edges per node on average, sorted by target; layers add no self-loops; float32",
        OF_MEMORY,
    ]
    return written("Benchmark of the operator", machine, notes, by_device(frame, _tables), figures)


def data_page(frame: pd.DataFrame, machine: dict[str, str], figures: list[str]) -> str:
    """Returns ``data.md``."""
    notes = [
        of_repeats(frame, DATA_CELL, "data.csv"),
        "an epoch: every graph of the data set once, in batches and in random order; nothing is computed on them",
        "PyG: `DataLoader` without workers over a list of `Data` in memory; package: `ssma.data.batches`",
    ]
    rows = []
    for cell, pair in _pairs(frame, DATA_CELL):
        texts = [cell["device"], cell["dataset"], cell["origin"], f"{cell['graphs']:,}", str(cell["batch_size"])]
        rows.append([Cell(text) for text in [*texts, *_compared(pair, 1000)]])
    columns = ["device", "data set", "graphs are", "graphs", "batch", "package, ms", "PyG, ms", "ratio", "repeats"]
    table = Table("data", "**An epoch of batches**", columns, rows)
    return written("Benchmark of the data path", machine, notes, [table.markdown()], figures)


def fit_page(frame: pd.DataFrame, machine: dict[str, str], figures: list[str]) -> str:
    """Returns ``fit.md``."""
    notes = [
        of_repeats(frame, FIT_CELL, "fit.csv"),
        "an epoch: training and validation of the first split in the paper's settings; of each method a few steps "
        "with as large a part of the validation were timed, in a row as in a fit, and their seconds divided by their "
        "share of the epoch (a step is the least, so that a small share has more than its part of what an epoch costs "
        "once)",
        "PyG: the same network at the same width in PyG's layers with `DataLoader` and the paper's formulation of "
        "SSMA, neighbours drawn node by node; package: what a study runs",
        "attention scores: PyG's see the message of a head, those of the package all heads of both ends of an edge",
        "pna with the aggregator pna is the layer's own mix; ssma joins it",
        "compiled: the package's SSMA with compiled kernels",
    ]
    scaled, rows = of_epochs(frame), []
    shares = frame.groupby([*FIT_CELL, "method"])["share"].first()
    for cell, pair in _pairs(scaled, FIT_CELL):
        aggregator = f"{cell['aggregator']} {cell['selection']}".strip()
        texts = [cell["device"], cell["dataset"], cell["origin"], cell["layer"], aggregator, str(cell["width"])]
        texts.append(f"{cell['parameters']:,}")
        texts += [f"{shares[*cell.values(), method]:.0%}" for method in ("package", "PyG")]
        rows.append([Cell(text) for text in [*texts, *_compared(pair, 1)]])
    columns = [
        "device", "data set", "graphs are", "layer", "aggregator", "width", "parameters", "share, package",
        "share, PyG", "package, s", "PyG, s", "ratio", "repeats",
    ]  # fmt: skip
    table = Table("fit", "**Seconds per epoch**", columns, rows)
    return written("Benchmark of a fit", machine, notes, [table.markdown()], figures)


def of_epochs(frame: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of fits with the seconds of an epoch: those of the steps that were run, by their share of it."""
    return frame.assign(seconds=frame["seconds"] / frame["share"])


def written(title: str, machine: dict[str, str], notes: list[str], body: list[str], figures: list[str]) -> str:
    """Returns a page: its heading, the machine and the notes as points, the body, and the figures."""
    points = [*(f"{name}: {text}" for name, text in machine.items()), *notes]
    lines = [f"# {title}", "", *(f"- {point}" for point in points), "", *body]
    return "\n".join([*lines, *(f"![{name}]({name})\n" for name in figures)])


def by_device(frame: pd.DataFrame, tables_of: "Callable[[pd.DataFrame], Iterable[Table]]") -> list[str]:
    """Returns the lines of a section with tables for each device."""
    lines = []
    for device, mine in frame.groupby("device", sort=False):
        lines += [f"## {device.upper()}", "", *(table.markdown() for table in tables_of(mine))]
    return lines


def of_repeats(frame: pd.DataFrame, cell: list[str], numbers: str) -> str:
    """Returns what the times of a page are, in words; ``numbers`` is the file that has them all."""
    counts = summary(frame, cell)["n"]
    return (
        f"repeats and order: medians of at least {counts[counts > 0].min()} repeats after one warm-up, the methods of "
        f"a cell in turns; a repeat is the mean of as many calls in a row as take {TURN_SECONDS} s, at least one; in "
        f"brackets the fastest and the slowest. `{numbers}` has every repeat"
    )


def _pairs(frame: pd.DataFrame, cell: list[str]) -> "Iterator[tuple[dict, pd.DataFrame]]":
    """Yields each cell, and its summary by method."""
    for values, part in summary(frame, cell).groupby(cell, sort=False):
        yield dict(zip(cell, values, strict=True)), part.set_index("method")


def _compared(pair: pd.DataFrame, scale: int) -> list[str]:
    """Returns ours, PyG's, their ratio and the repeats; ``scale`` units are a second."""
    ours, pyg = pair.loc["package"], pair.loc["PyG"]
    ratio = f"{pyg['seconds'] / ours['seconds']:.1f}" if pyg["n"] else ""
    return [time_text(ours, scale), time_text(pyg, scale), ratio, f"{ours['n']}"]


def _tables(frame: pd.DataFrame) -> "Iterator[Table]":
    whole = summary(frame)
    operator = whole[whole["part"] == "operator"]
    for method in operator.loc[operator["method"] != "paper", "method"].unique():
        gains = ratios(frame, method)
        for name in operator["pass"].unique():
            yield _operator(operator[operator["pass"] == name], gains[gains["pass"] == name], name, method)
    for name in whole.loc[whole["part"] == "layers", "pass"].unique():
        yield _layers(whole.query("part == 'layers' and `pass` == @name"), name)
    yield _stages(whole[whole["part"] == "stages"])
    yield _draw(whole[whole["part"] == "draw"], frame)


def _operator(whole: pd.DataFrame, gains: pd.DataFrame, name: str, method: str) -> Table:
    rows = []
    for (d, kappa, nodes), cell in whole.groupby(["d", "kappa", "nodes"], sort=False):
        by_method = cell.set_index("method")
        ours, paper = by_method.loc[method], by_method.loc["paper"]
        gain = gains[(gains["d"] == d) & (gains["kappa"] == kappa) & (gains["nodes"] == nodes)]
        pair = [f"{gain[what].iloc[0]:.1f}" if len(gain) else "" for what in ("time", "memory")]
        texts = [str(d), str(kappa), f"{nodes:,}", time_text(ours), time_text(paper), pair[0], megabytes(ours)]
        rows.append([Cell(text) for text in [*texts, megabytes(paper), pair[1], f"{ours['n']}"]])
    both = [f"{name}, {unit}" for unit in ("ms", "MB") for name in (method, "paper")]
    columns = ["d", "κ", "nodes", *both[:2], "ratio", *both[2:], "ratio", "repeats"]
    notes = [
        f"{what.capitalize()}, paper / {method}, over {len(gains)} cells: geometric mean "
        f"{np.exp(np.log(gains[what]).mean()):.1f}, smallest {gains[what].min():.1f}, largest {gains[what].max():.1f}."
        for what in ("time", "memory")
        if len(gains)
    ]
    caption = f"**{method} against the paper's formulation, {name}** (attention slots, compression 0.25, equal results)"
    return Table(f"{method}-{name}", caption, columns, rows, notes)


def _layers(whole: pd.DataFrame, name: str) -> Table:
    rows = []
    for (d, nodes), cell in whole.groupby(["d", "nodes"], sort=False):
        ours = cell.set_index("method").loc["GCN + SSMA", "seconds"]
        for _, line in cell.iterrows():
            ratio = "" if np.isnan(ours / line["seconds"]) else f"{ours / line['seconds']:.2f}"
            rows.append([Cell(text) for text in (str(d), f"{nodes:,}", line["method"], time_text(line), ratio,
                                                 megabytes(line), str(line["n"]))])  # fmt: skip
    columns = ["d", "nodes", "layer", "ms", "GCN + SSMA takes × this", "MB", "repeats"]
    return Table(f"layers-{name}", f"**Layers side by side, {name}** (SSMA: attention slots, κ = 4)", columns, rows)


def _stages(whole: pd.DataFrame) -> Table:
    rows = []
    for (d, kappa, nodes), cell in whole.groupby(["d", "kappa", "nodes"], sort=False):
        times = cell.pivot(index="method", columns="pass", values="seconds").loc[cell["method"].unique()]
        times = _with_product(times)
        share = times.sum(axis=1) / times.loc[WHOLE].sum()
        for stage, line in times.iterrows():
            texts = [str(d), str(kappa), f"{nodes:,}", stage]
            texts += [_number(1000 * line["forward"]), _number(1000 * line["backward"]), f"{share[stage]:.0%}"]
            rows.append([Cell(text) for text in texts])
    columns = ["d", "κ", "nodes", "stage", "forward, ms", "backward, ms", "share of the whole"]
    return Table(
        "stages",
        "**Where SSMA's time goes** (medians of each stage alone and of the whole, which the parts add up to about; "
        "the backward pass computes spectra and product again)",
        columns,
        rows,
    )


def _with_product(times: pd.DataFrame) -> pd.DataFrame:
    """Returns the stages in order, with the product: what the fused call takes beyond its matrix products."""
    product = times.loc[FUSED] - times.loc[SPECTRA] - times.loc[SQUEEZE]
    inside = pd.DataFrame([times.loc[SPECTRA], product, times.loc[SQUEEZE]], [SPECTRA, PRODUCT, SQUEEZE])
    after = times.index.get_loc(FUSED) + 1
    whole = times.drop([SPECTRA, SQUEEZE])
    return pd.concat([whole.iloc[:after], inside, whole.iloc[after:]])


def _draw(whole: pd.DataFrame, frame: pd.DataFrame) -> Table:
    edges = frame.loc[frame["part"] == "draw", "edges"].max()
    rows = [
        [Cell(text) for text in (f"{line['nodes']:,}", f"{edges:,}", line["method"], time_text(line), str(line["n"]))]
        for _, line in whole.iterrows()
    ]
    caption = "**Random selection on one large graph** with skewed degrees (κ = 4, 64 channels, forward)"
    return Table("draw", caption, ["nodes", "edges", "what", "ms", "repeats"], rows)


def time_text(line: pd.Series, scale: int = 1000) -> str:
    """Returns a summary line's median with its range, or why it was not run; ``scale`` units are a second."""
    if not line["n"]:
        return line["reason"]
    middle, low, high = (_number(scale * line[name]) for name in ("seconds", "low", "high"))
    return f"{middle} ({low}..{high})"


def megabytes(line: pd.Series) -> str:
    """Returns a summary line's peak memory, empty where none is known."""
    return "" if pd.isna(line["bytes"]) else _number(line["bytes"] / 1e6)


def _number(value: float) -> str:
    """Returns a number with three digits: 0.0123, 45.6, 7,890."""
    return f"{float(f'{value:.3g}'):,.12g}"
