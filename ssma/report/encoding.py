"""Which axis of an ablation becomes a place, which a colour, which a row of panels."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ssma.report.labels import acts, point_text
from ssma.study.ids import canonical_json

Colour = tuple[float, float, float]
MARKERS = "osD^vPX<>*"
LOG_FROM = 10  # a numeric axis that spans more than this factor gets a logarithmic scale
CROWDED = 20  # places whose closest two are a smaller part of the axis would hide each other


@dataclass(frozen=True)
class Encoding:
    """How the cells of one ablation are drawn. ``places`` and ``colours`` go by the canonical text of a value."""

    axes: dict[str, list]
    x: str
    hue: str | None
    rest: list[str]
    scale: str
    """What a reader must know of the x axis: "log scale", "not to scale", or nothing."""
    places: dict[str, float]
    colours: dict[str, Colour]
    cells: list[dict[str, Any]]
    across: list[dict[str, Any]]
    """Cells that no other axis acts on, as a sum beside `ssma.kappa`: a line across the panel."""

    @property
    def numeric(self) -> bool:
        return is_numeric(self.axes[self.x])

    @property
    def gap(self) -> float:
        """The smallest distance of two places: what a group of marks may fill."""
        ordered = sorted(self.places.values())
        return min((right - left for left, right in pairwise(ordered)), default=1.0)

    @property
    def levels(self) -> list[str]:
        return [canonical_json(value) for value in self.axes[self.hue]] if self.hue else [""]

    def level(self, cell: dict[str, Any]) -> int:
        return self.levels.index(canonical_json(cell["point"][self.hue])) if self.hue else 0

    def place(self, cell: dict[str, Any]) -> float:
        """Returns the x position of a cell: its value's place, moved aside so that levels do not hide each other."""
        aside = self.level(cell) - (len(self.levels) - 1) / 2
        return self.places[canonical_json(cell["point"][self.x])] + aside * self.step

    @property
    def step(self) -> float:
        """The room of one mark; on a numeric axis marks stay closer to their value."""
        return (0.4 if self.numeric else 0.7) * self.gap / len(self.levels)

    def colour(self, cell: dict[str, Any]) -> Colour:
        told = self.hue or ("aggregator" if "aggregator" in self.axes else None)
        return self.colours[canonical_json(cell["point"][told])] if told else self.colours[""]

    def row(self, cell: dict[str, Any]) -> str:
        extra = point_text({key: cell["point"][key] for key in self.rest})
        return f"{cell['layer']}, {extra}" if extra else cell["layer"]


def encode(plan: dict[str, Any], ablation: str) -> Encoding:
    """Chooses the encoding of an ablation.

    A numeric axis goes along x before a categorical one, and of equals the one with more values; the next is told by
    colour and marker; others make rows. An aggregator has the same colour in every figure of a study.
    """
    axes, cells, across = _grid(plan["ablations"][ablation])
    x, *others = sorted(axes, key=lambda key: (not is_numeric(axes[key]), -len(axes[key])))
    hue, rest = (others[0] if others else None), others[1:]
    scale, places = _scale(axes[x])
    return Encoding(axes, x, hue, rest, scale, places, _colours(plan, axes, cells, hue), cells, across)


def _scale(values: list[Any]) -> tuple[str, dict[str, float]]:
    """Returns the scale of an axis in words, and the places of its values.

    Numbers that would hide each other, as 0, 0.0001, 0.01, where 0 allows no logarithmic scale, stand side by side.
    """
    if not is_numeric(values):
        return "", {canonical_json(value): float(place) for place, value in enumerate(values)}
    if is_wide(values):
        return "log scale", {canonical_json(value): math.log10(value) for value in values}
    ordered = sorted(values)
    gap = min(right - left for left, right in pairwise(ordered))
    if ordered[-1] - ordered[0] > gap * max(CROWDED, 2 * (len(values) - 1)):
        return "not to scale", {canonical_json(value): float(ordered.index(value)) for value in values}
    return "", {canonical_json(value): float(value) for value in values}


def _grid(entry: dict[str, Any]) -> tuple[dict[str, list], list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the axes and cells to be laid out, and the cells of aggregators on which no other axis acts."""
    axes = entry["axes"]
    others = axes.keys() - {"aggregator"}
    left_out = [name for name in axes.get("aggregator", []) if others and not any(acts(key, name) for key in others)]
    kept = [name for name in axes.get("aggregator", []) if name not in left_out]
    if not left_out or not kept:
        return axes, entry["cells"], []
    axes = {key: kept if key == "aggregator" else values for key, values in axes.items()}
    if len(kept) == 1:
        del axes["aggregator"]
    cells, across = [], {}
    for cell in entry["cells"]:
        if cell["point"]["aggregator"] in kept:
            cells.append(cell)
        else:
            across.setdefault((cell["dataset"], cell["layer"], cell["arm"]), cell)
    return axes, cells, list(across.values())


def is_numeric(values: list[Any]) -> bool:
    """Says whether an axis has a scale: two values or more, all of them numbers."""
    return len(values) > 1 and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def is_wide(values: list[Any]) -> bool:
    """Says whether a numeric axis spans so much that its scale is logarithmic."""
    return min(values) > 0 and max(values) / min(values) > LOG_FROM


def aggregator_colours(plan: dict[str, Any]) -> dict[str, Colour]:
    """Returns the colour of every aggregator that a study trains, in arms or in theory experiments."""
    import seaborn

    trained = [arm["aggregator"] for arm in plan["arms"]]
    for experiment in plan.get("theory", {}).values():  # older plans have none
        trained += experiment["settings"].get("aggregators", [])
    names = list(dict.fromkeys(trained))
    palette = seaborn.color_palette("colorblind" if len(names) <= 10 else "husl", len(names))
    return dict(zip(names, palette, strict=True))


def _colours(
    plan: dict[str, Any], axes: dict[str, list], cells: list[dict[str, Any]], hue: str | None
) -> dict[str, Colour]:
    import seaborn

    fixed = {canonical_json(name): colour for name, colour in aggregator_colours(plan).items()}
    if hue == "aggregator" or (hue is None and "aggregator" in axes):
        return fixed
    if hue:
        values = axes[hue]  # the yellow end of the map is too pale on white
        shades = seaborn.color_palette("viridis", len(values) + 1)[: len(values)]
        return dict(zip(map(canonical_json, values), shades, strict=True))
    ids = {cell["arm"] for cell in cells}
    used = {arm["aggregator"] for arm in plan["arms"] if arm["id"] in ids}
    return {"": fixed[canonical_json(used.pop())] if len(used) == 1 else (0.3, 0.3, 0.3)}
