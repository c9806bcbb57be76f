"""What an ablation's figure shows beside its marks: lines of baselines, the data behind it, and its caption."""

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssma.report.encoding import Encoding, encode
from ssma.report.labels import Metric, acting, listing, metrics_of, point_text, value_text
from ssma.report.layout import lay_out
from ssma.report.statistics import summarise
from ssma.report.tables import spread_over
from ssma.study.cost import counted
from ssma.study.ids import canonical_json
from ssma.study.part import baseline_name, baselines

if TYPE_CHECKING:
    import pandas

LEVELS, COUNTS = ("mean", "std", "low", "high"), ("units", "fits", "planned", "reason")
"""Columns of the data behind a figure."""


@dataclass(frozen=True)
class Line:
    """A baseline of a panel: its aggregator, and place on the x axis -> arm; of all levels alike, or of one."""

    name: str
    level: int | None
    arms: dict[float, str]

    @property
    def single(self) -> str | None:
        """The arm, if it is the same at every place."""
        different = set(self.arms.values())
        return different.pop() if len(different) == 1 else None


def lines_of(
    axes: dict[str, list], known: dict[str, str], encoding: Encoding, panel: list[dict[str, Any]]
) -> list[Line]:
    """Returns the baselines of the cells of one panel, which share data set and layer.

    These are the cells that no other axis acts on, and the baseline: of the study, or where aggregators stand side by
    side their own.

    Args:
        axes: Those of the ablation.
        known: Its baselines in the study, as `ssma.study.part.baselines` returns them.
        encoding: How it is drawn.
        panel: The cells.
    """
    place = (panel[0]["dataset"], panel[0]["layer"])
    here = [cell for cell in encoding.across if (cell["dataset"], cell["layer"]) == place]
    everywhere = list(encoding.places.values())
    found = [Line(cell["point"]["aggregator"], None, dict.fromkeys(everywhere, cell["arm"])) for cell in here]
    name = baseline_name(place[1])
    if name in axes.get("aggregator", []):
        if encoding.x == "aggregator" and not encoding.hue:
            mine = [cell["arm"] for cell in panel if cell["point"]["aggregator"] == name]
            found += [Line(name, None, dict.fromkeys(everywhere, arm)) for arm in mine]
        return found
    by_level: dict[int, dict[float, str]] = {}
    for cell in panel:
        if cell["arm"] in known:
            at = encoding.places[canonical_json(cell["point"][encoding.x])]
            by_level.setdefault(encoding.level(cell), {})[at] = known[cell["arm"]]
    alike = len({canonical_json(sorted(arms.items())) for arms in by_level.values()}) == 1
    for level, arms in by_level.items():
        found.append(Line(name, None if alike else level, dict(sorted(arms.items()))))
        if alike:
            break
    return found


def arm_text(arm: dict[str, Any], result: "pandas.Series") -> str:
    """Returns what is said of an arm when one points at it: value, number of fits, label and id."""
    if not result["n"]:
        value = result["reason"] or "missing"
    else:
        value = Metric(result["metric"], result["direction"]).spread(result["mean"], result["std"])
    return f"{value}; n = {result['n']} of {counted(result['planned'], 'fit')}; {arm['label']}; {arm['id']}"


def data_csv(plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame") -> str:
    """Returns the data behind an ablation's figure: a row per mark and one per baseline, in the units of the figure.

    ``mean``, ``std`` (sample, over ``units``), ``low`` and ``high`` (mean minus and plus std) are empty where nothing
    is drawn, and ``reason`` then says why; ``fits`` of ``planned`` count.
    """
    entry, summary = plan["ablations"][ablation], summarise(frame)
    used = {cell["arm"] for cell in entry["cells"]}
    rows = [
        [cell["dataset"], cell["layer"], "arm", *_values(cell["point"], entry["axes"]), *_numbers(cell["arm"], summary)]
        for cell in entry["cells"]
    ]
    arms = {arm["id"]: arm for arm in plan["arms"]}
    for arm in dict.fromkeys(baselines(plan, ablation).values()):
        if arm not in used:
            of = arms[arm]
            values = _values({"aggregator": of["aggregator"]}, entry["axes"])
            rows.append([of["dataset"], of["layer"], f"baseline {of['aggregator']}", *values, *_numbers(arm, summary)])
    header = ["dataset", "layer", "what", *entry["axes"], "arm", "metric", *LEVELS, *COUNTS]
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([header, *dict.fromkeys(map(tuple, rows))])
    return buffer.getvalue()


def _values(point: dict[str, Any], axes: dict[str, list]) -> list[str]:
    point = acting(point)
    return [_in_full(point[key]) if key in point else "" for key in axes]


def _in_full(value: Any) -> str:
    """Returns a setting's value for programs, to which 100k is no number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.12g}" if isinstance(value, float) else str(value)
    return value_text(value)


def _numbers(arm: str, summary: "pandas.DataFrame") -> list[Any]:
    row = summary.loc[arm]
    counts = [int(row["units"]), int(row["n"]), int(row["planned"]), row["reason"]]
    metric = Metric(row["metric"], row["direction"])
    if not row["n"]:
        return [arm, metric.title if isinstance(metric.name, str) else None, *[None] * len(LEVELS), *counts]
    mean, std, _ = metric.numbers(row["mean"], row["std"], row["n"])
    spread = [None] * 3 if std is None else [std, mean - std, mean + std]
    return [arm, metric.title, mean, *spread, *counts]


def caption(plan: dict[str, Any], ablation: str, frame: "pandas.DataFrame") -> str:
    """Returns what the figure shows, in words, and what the paper says of it where the study file does."""
    encoding, layout = encode(plan, ablation), lay_out(plan, ablation)
    shape = "line and band" if encoding.numeric and not encoding.hue else "large marker and bar"
    known = baselines(plan, ablation)
    names = {cell["point"]["aggregator"] for cell in encoding.across}
    names |= {baseline_name(cell["layer"]) for cell in encoding.cells if cell["arm"] in known}
    beside = encoding.hue or encoding.x != "aggregator"
    parts = [
        f"{layout.title}. Faint points: one per fit, in the order of the splits; {shape}: mean ± sample standard "
        "deviation, the numbers of the table."
    ]
    if names and not (beside and names & set(encoding.axes.get("aggregator", []))):
        parts.append(f"Dashed: {listing(sorted(names))}, with the same network and training, and its deviation.")
    parts.append("Each panel has its own vertical scale.")
    parts.append(spread_over(plan, layout.cells, layout.datasets, metrics_of(frame)))
    if claim := claim_of(plan, ablation):
        parts.append(f"The paper: {claim}")
    return " ".join(parts)


def claim_of(plan: dict[str, Any], ablation: str) -> str | None:
    """Returns what the study file says that the paper says of an ablation; a plan of older code has none."""
    return plan["config"].get("ablations", {}).get(ablation, {}).get("claim")


def notes(plan: dict[str, Any], cells: list[dict], summary: "pandas.DataFrame") -> str:
    """Returns what is left out of a figure, and whether its numbers are biased."""
    gaps = []
    for cell in cells:
        row = summary.loc[cell["arm"]]
        if row["n"] < row["planned"]:
            name = f"{cell['dataset']} {cell['layer']} {point_text(cell['point'])}"
            why = row["reason"] or "failed or missing"
            gaps.append(f"{name} ({row['planned'] - row['n']} of {counted(row['planned'], 'fit')}: {why})")
    chosen = {arm["id"] for arm in plan["arms"] if arm["selection"] == "test"}
    biased = any(cell["arm"] in chosen for cell in cells)
    lines = [f"Left out: {listing(gaps, 6)}."] if gaps else []
    return " ".join(lines + (["Biased: configurations chosen by the test metric."] if biased else []))
