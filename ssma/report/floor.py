"""Each arm against a predictor that looks at no graph, on the same splits: has it learned anything?"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ssma.report.align import report_options
from ssma.report.labels import Metric, listing, metrics_of, p_text
from ssma.report.layout import lay_out
from ssma.report.paired import UNTESTED, compare_arms, difference_cell, missing_text, visible_text
from ssma.report.table import Cell, Table
from ssma.statistics.outcome import ALPHA, NotTestable
from ssma.statistics.pairs import PairComparison, holm

if TYPE_CHECKING:
    import pandas

MARK = "§"
COLUMNS = ["data set", "arm", "predictor", "difference (pairs)", "95% interval", "half width", "p", "p (Holm)"]
COLUMNS += ["better"]


@dataclass(frozen=True)
class Floor:
    """An arm beside the best predictor of its data set: the comparison, or why there is none, and Holm's p."""

    arm: str
    dataset: str
    label: str
    predictor: str
    metric: Metric
    found: PairComparison | str
    adjusted: float | None = None

    @property
    def above(self) -> bool:
        """Says whether the arm is better than the predictor at a Holm-adjusted p under 0.05."""
        if isinstance(self.found, str) or self.adjusted is None:
            return False
        return self.adjusted < ALPHA and (self.found.difference.mean > 0) == (self.metric.direction == "maximize")

    @property
    def text(self) -> str:
        """Returns "MUTAG / gin / mean (+7.0, p 0.152)"."""
        if isinstance(self.found, str):
            return f"{self.label} (not testable: {self.found})"
        shown = self.metric.text(self.found.difference.mean, signed=True)
        told = UNTESTED if self.adjusted is None else f"p {p_text(self.adjusted)}"
        return f"{self.label} ({shown}, {told})"


def floors(
    plan: dict[str, Any],
    ablation: str,
    frame: "pandas.DataFrame",
    sanity: dict[str, dict[str, Any]],
    ratios: dict[str, float | None],
) -> dict[str, Floor]:
    """Compares every arm of an ablation that has results with a predictor; arms without one are left out.

    Of several predictors of a data set the one with the best mean on the splits of the arm is taken. The p values are
    adjusted by Holm over all these comparisons.

    Args:
        plan: The plan.
        ablation: Its name.
        frame: The records.
        sanity: What the predictors reach, by data set, as `read_sanity` returns it.
        ratios: n_test / n_train of each data set's splits; None if unknown.
    """
    options, metrics = report_options(plan), metrics_of(frame)
    arms, made = {arm["id"]: arm for arm in plan["arms"]}, []
    evaluated = {name: rows for name, rows in frame[frame["stage"] == "evaluate"].groupby("dataset", sort=False)}
    for name in dict.fromkeys(cell["arm"] for cell in lay_out(plan, ablation).cells):
        dataset = arms[name]["dataset"]
        rows = evaluated[dataset]
        mine = rows[rows["arm"] == name]
        if dataset not in sanity or not (mine["status"] == "ok").any():
            continue
        predictor = _best(sanity[dataset], set(mine["split"]))
        beside = _rows(mine, sanity[dataset]["predictors"][predictor], predictor)
        metric = metrics[dataset]
        found = compare_arms(_joined(rows, beside), name, predictor, options, metric, ratios.get(dataset))
        made.append(Floor(name, dataset, arms[name]["label"], predictor, metric, found))
    adjusted = holm([_p(one.found) for one in made])
    return {one.arm: replace(one, adjusted=p) for one, p in zip(made, adjusted, strict=True)}


def _best(record: dict[str, Any], splits: set[int]) -> str:
    """Returns the predictor with the best mean test metric over the splits, the first of equal ones."""
    sign = 1 if record["direction"] == "maximize" else -1

    def mean(name: str) -> float:
        rows = [row for row in record["predictors"][name] if row["split"] in splits]
        known = [row["test"] for row in rows if row["test"] is not None]
        return sign * sum(known) / len(known) if known else float("-inf")

    return max(record["predictors"], key=mean)


def _rows(mine: "pandas.DataFrame", values: list[dict[str, Any]], predictor: str) -> "pandas.DataFrame":
    """Returns the fits of an arm with the predictor in its place, the same for every seed."""
    known = {row["split"]: row for row in values}
    test = mine["split"].map(lambda split: known[split]["test"]).astype(float)
    return mine.assign(
        arm=predictor,
        test=test,
        status=test.notna().map({True: "ok", False: "missing"}),
        split_hash=mine["split"].map(lambda split: known[split]["split_hash"]),
    )


def _joined(rows: "pandas.DataFrame", beside: "pandas.DataFrame") -> "pandas.DataFrame":
    import pandas

    columns = ["stage", "dataset", "arm", "split", "repeat", "split_hash", "status", "test", "direction"]
    return pandas.concat([rows[columns], beside[columns]], ignore_index=True)


def _p(found: PairComparison | str) -> float | None:
    return None if isinstance(found, str) or isinstance(found.corrected_t, NotTestable) else found.corrected_t.p


def floor_table(plan: dict[str, Any], ablation: str, found: dict[str, Floor]) -> Table | None:
    """Returns a row for every arm of an ablation that was compared with a predictor; None if there is none."""
    if not found:
        return None
    tested, options = sum(one.adjusted is not None for one in found.values()), report_options(plan)
    caption = (
        f"{lay_out(plan, ablation).title}: each arm against a predictor that looks at no graph, paired on the same "
        "splits (the best of the predictors of the data set). Difference, 95% interval and p: as in the paired "
        f"comparison (corrected resampled t-test). Holm: p adjusted for the {tested} comparisons of this table. "
        f"Better: whether the arm is better at an adjusted p < {ALPHA}. {missing_text(options)}"
    )
    for dataset in dict.fromkeys(one.dataset for one in found.values()):
        here = [one for one in found.values() if one.dataset == dataset]
        if power := visible_text([one.found for one in here], here[0].metric, tested):
            caption += f" {dataset}, {here[0].metric.title}: {power}."
    return Table(f"{ablation}-sanity", caption, COLUMNS, [_row(one) for one in found.values()], grouped=True)


def _row(one: Floor) -> list[Cell]:
    head = [Cell(one.dataset), Cell(one.label, arm=one.arm), Cell(one.predictor)]
    if isinstance(one.found, str):
        return [*head, Cell(f"not testable: {one.found}"), *[Cell("–")] * 5]
    t, difference = one.found.corrected_t, difference_cell(one.found, one.metric, one.arm)
    if isinstance(t, NotTestable) or one.adjusted is None:
        return [*head, difference, Cell(str(t)), *[Cell("–")] * 4]
    interval, width = one.metric.interval(t.interval, signed=True), f"±{one.metric.text(t.visible())}"
    told = "yes" if one.above else "not shown"
    return [*head, difference, *map(Cell, (interval, width, p_text(t.p), p_text(one.adjusted), told))]


def floor_marked(cell: Cell, found: dict[str, Floor]) -> Cell:
    """Returns the cell of an arm, with a mark if it was not shown to be better than the predictor."""
    one = found.get(cell.arm or "")
    return replace(cell, text=f"{cell.text} {MARK}") if one and not one.above else cell


def floor_notes(found: dict[str, Floor]) -> list[str]:
    """Returns a line for each predictor that some arms were not shown to be better than, with their numbers."""
    groups: dict[str, list[str]] = {}
    for one in found.values():
        if not one.above:
            groups.setdefault(one.predictor, []).append(one.text)
    tested = sum(one.adjusted is not None for one in found.values())
    test = f"corrected resampled t-test on the same splits, Holm-adjusted over {tested} arms, p < {ALPHA}"
    return [
        f"{MARK} not shown to be better than “{predictor}” ({test}): {listing(arms, 12)}."
        for predictor, arms in groups.items()
    ]
