"""Where the cells of an ablation stand: its points, layers and data sets, in the order of the study."""

from dataclasses import dataclass
from typing import Any

from ssma.errors import StudyError
from ssma.study.ids import canonical_json

Point = dict[str, Any]
Place = tuple[str, str]
"""A data set and a layer; an ablation has its arms beside each other there."""


@dataclass(frozen=True)
class Layout:
    """An ablation laid out for a table."""

    title: str
    cells: list[dict[str, Any]]
    points: list[Point]
    layers: list[str]
    datasets: list[str]
    places: dict[tuple[str, str, str], str]

    def arm(self, dataset: str, layer: str, point: Point) -> str | None:
        """Returns the arm at a place; None if the ablation has none there."""
        return self.places.get((dataset, layer, canonical_json(point)))


def by_place(cells: list[dict[str, Any]]) -> dict[Place, list[dict[str, Any]]]:
    """Returns the cells of an ablation at each place."""
    places: dict[Place, list[dict[str, Any]]] = {}
    for cell in cells:
        places.setdefault((cell["dataset"], cell["layer"]), []).append(cell)
    return places


def lay_out(plan: dict[str, Any], ablation: str) -> Layout:
    """Returns the layout of an ablation.

    Raises:
        StudyError: If a cell's point is not on the axes.
    """
    entry = plan["ablations"][ablation]
    cells = entry["cells"]
    in_order = ({key: cell["point"][key] for key in entry["axes"]} for cell in cells)
    points = {canonical_json(point): point for point in in_order}
    order = {key: [canonical_json(value) for value in values] for key, values in entry["axes"].items()}
    try:
        ranked = sorted(points.values(), key=lambda p: [order[key].index(canonical_json(p[key])) for key in p])
    except ValueError as error:
        raise StudyError(f"plan.json: a cell of ablation {ablation!r} is off its axes ({error}); plan again") from error
    used = {cell["dataset"] for cell in cells}
    return Layout(
        title=" ".join(entry["title"].split()).rstrip("."),  # of several lines in the study file
        cells=cells,
        points=ranked,
        layers=list(dict.fromkeys(cell["layer"] for cell in cells)),
        datasets=[label for label in plan["datasets"] if label in used],
        places={(cell["dataset"], cell["layer"], canonical_json(cell["point"])): cell["arm"] for cell in cells},
    )
