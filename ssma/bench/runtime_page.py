"""The page of the benchmark of layers and growth, from its frame."""

from typing import TYPE_CHECKING

import pandas as pd

from ssma import paper
from ssma.bench.growth import FORMULAS, Point, limit_exponent, operations
from ssma.bench.runtime import INFERENCE, TIMED, TRAINING, TimedLayer
from ssma.bench.tables import (
    CELL,
    MEASURED,
    OF_MEMORY,
    by_device,
    megabytes,
    of_repeats,
    summary,
    time_text,
    written,
)
from ssma.report.table import Cell, Table
from ssma.statistics.exponent import Exponent, fit_exponent

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNTIME_CELL = [*CELL[:2], "graph", "varied", *CELL[2:], "edges"]
RUNTIME_COLUMNS = [*RUNTIME_CELL, *MEASURED]
SIZES = {"nodes": "nodes", "edges": "edges", "d": "width d", "kappa": "slots κ"}
PAPERS = {TRAINING: "train_ms", INFERENCE: "inference_ms"}
COMMON = TimedLayer("gin", "ssma", "random")  # the one row of the paper's table that others are divided by


def runtime_page(frame: pd.DataFrame, machine: dict[str, str], figures: list[str]) -> str:
    """Returns ``runtime.md``."""
    layers = frame[frame["part"] == "layers"]
    graphs = [
        f"{graph} ({nodes:,} nodes, {edges:,} edges)"
        for (graph, nodes, edges), _ in layers.groupby(["graph", "nodes", "edges"], sort=False)
    ]
    notes = [
        of_repeats(frame, RUNTIME_CELL, "runtime.csv"),
        f"layers: width {layers['d'].iloc[0]}, κ = {layers['kappa'].iloc[0]}, compression 0.25, the paper's settings "
        "for PROTEINS, no edge features, no self-loops; the layer alone, with GIN's and GraphGPS's own MLP",
        f"graphs: random; {'; '.join(graphs)}. The large one is as dense as ogbn-arxiv, its targets are skewed",
        "training: forward pass, backward pass to input and parameters, AdamW's step; inference: a forward pass in "
        "evaluation mode",
        "the paper: its table `runtime_measurment`, on another machine and a graph, width and κ that it does not name. "
        "It times no layer with a sum but GraphGPS, so its times are divided by those of GIN with random SSMA, as ours "
        "are beside them: only these ratios can be compared",
        "growth: forward and backward pass of the aggregation alone on one random graph; one size varies, the others "
        "stay. Exponents: least squares in logarithms with the 95% interval of Student's t over the points",
        "the paper's formulas (appendix “Complexity analysis”), m = (κ + 1)(κ (d − 1) + 1): "
        + "; ".join(f"{name}: O({formula})" for name, formula in FORMULAS.items())
        + ". Each has an exponent at the points that were measured (all constants 1, logarithm of base 2) and one in "
        "the limit of a large size; in the figure it is grey and goes through the largest size. The paper's “standard” "
        "cost O(m d |V| + m |E|) is that of a sum of width m between two linear layers; the plain sum here is its "
        "second term with d for m. For memory the paper has no formula",
        "attention slots are averages of messages of width d, which takes κ d |E|: the paper's m κ |E| is an upper "
        "bound",
        OF_MEMORY,
    ]
    return written("Benchmark of layers and growth", machine, notes, by_device(frame, _tables), figures)


def _tables(frame: pd.DataFrame) -> "Iterator[Table]":
    whole = summary(frame, RUNTIME_CELL)
    for (graph, what), part in whole[whole["part"] == "layers"].groupby(["graph", "pass"], sort=False):
        yield _layers(part.set_index("method"), graph, what)
    yield _exponents(frame)
    for varied, part in whole[whole["part"] == "growth"].groupby("varied", sort=False):
        yield _curve(part, varied)


def paper_ms(what: str) -> dict[TimedLayer, float]:
    """Returns the printed milliseconds of ``training`` or ``inference`` by layer."""
    return {
        TimedLayer(row.layer, row.aggregator, row.variant): float(row.mean)
        for row in paper.results("runtime_measurment")
        if row.metric == PAPERS[what]
    }


def _layers(part: pd.DataFrame, graph: str, what: str) -> Table:
    """Returns the layers on one graph, beside the paper's."""
    names = {timed: name for name, timed in TIMED.items()}
    printed, common = paper_ms(what), part.loc[names[COMMON], "seconds"]
    rows = []
    for name, line in part.iterrows():
        own = names.get(TimedLayer(TIMED[name].layer, "sum"))
        texts = [name, time_text(line), f"{line['seconds'] / part.loc[own, 'seconds']:.2f}" if own else "–"]
        texts.append(f"{line['seconds'] / common:.2f}")
        theirs = printed.get(TIMED[name])
        texts += ["–", "–"] if theirs is None else [f"{theirs:g}", f"{theirs / printed[COMMON]:.2f}"]
        rows.append([Cell(text) for text in [*texts, megabytes(line), str(line["n"])]])
    columns = [
        "layer",
        "ms",
        "× the layer with a sum",
        "× GIN, random SSMA",
        "the paper, ms",
        "the paper, × GIN, random SSMA",
    ]
    caption = f"**A layer, {what}, {graph}** (the paper: another machine, an unnamed graph; –: not in its table)"
    return Table(f"layers-{graph}-{what}", caption, [*columns, "MB", "repeats"], rows)


def exponents(frame: pd.DataFrame) -> pd.DataFrame:
    """Returns a row per device, varied size and method.

    ``time`` and ``memory`` are an ``Exponent`` of the medians, or None below three points; ``formula`` that of the
    paper's formula at the same points, ``limit`` that for a large size.
    """
    whole = summary(frame[frame["part"] == "growth"], RUNTIME_CELL)
    rows = []
    for (device, varied, method), part in whole.groupby(["device", "varied", "method"], sort=False):
        ran = part[part["n"] > 0]
        points = [Point(*values) for values in ran[["nodes", "edges", "d", "kappa"]].itertuples(index=False)]
        sizes, counts = ran[varied].tolist(), [operations(method, point) for point in points]
        formula = fit_exponent(sizes, counts)
        rows.append(
            {"device": device, "varied": varied, "method": method, "sizes": sizes, "refused": len(part) - len(ran),
             "time": fit_exponent(sizes, ran["seconds"].tolist()), "memory": fit_exponent(sizes, ran["bytes"].tolist()),
             "formula": formula and formula.value, "limit": limit_exponent(method, varied)}
        )  # fmt: skip
    return pd.DataFrame(rows)


def _exponents(frame: pd.DataFrame) -> Table:
    rows = []
    for line in exponents(frame).itertuples():
        points = ", ".join(f"{size:,}" for size in line.sizes) + (f" ({line.refused} not run)" if line.refused else "")
        formula = "–" if line.formula is None else f"{line.formula:.2f}"
        texts = [SIZES[line.varied], points, line.method, _exponent(line.time), formula, f"{line.limit:.2f}"]
        rows.append([Cell(text) for text in [*texts, _exponent(line.memory)]])
    columns = ["what grows", "points", "aggregation", "time", "the paper's formula there", "in the limit", "memory"]
    caption = "**Exponents of growth** b in y ∝ x^b, with 95% intervals (fixed costs flatten the small sizes)"
    return Table("exponents", caption, columns, rows, grouped=True)


def _exponent(found: Exponent | None) -> str:
    return "fewer than 3 points" if found is None else str(found)


def _curve(part: pd.DataFrame, varied: str) -> Table:
    rows = [
        [Cell(text) for text in (f"{line[varied]:,}", line["method"], time_text(line), megabytes(line), str(line["n"]))]
        for _, line in part.iterrows()
    ]
    first = part.iloc[0]
    held = ", ".join(f"{SIZES[name]} {first[name]:,}" for name in SIZES if name != varied)
    caption = f"**Growth over {SIZES[varied]}** (held: {held})"
    return Table(f"growth-{varied}", caption, [SIZES[varied], "aggregation", "ms", "MB", "repeats"], rows, grouped=True)
