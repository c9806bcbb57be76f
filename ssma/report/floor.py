"""Each arm against a predictor that looks at no graph, on the same splits: has it learned anything?"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ssma.report.align import Fits, align, evaluation_fits, report_options
from ssma.report.checks import chosen_by_test
from ssma.report.labels import listing, metrics_of
from ssma.report.layout import lay_out
from ssma.report.paired import (
    TREATED,
    UNTESTED,
    Difference,
    adjusted,
    compare_arms,
    difference_cell,
    p_texts,
    seeds_alone,
    t_texts,
    tests_of,
)
from ssma.report.table import Cell, Table
from ssma.statistics.outcome import ALPHA
from ssma.study.cost import counted
from ssma.study.ids import canonical
from ssma.study.records import SIGN

if TYPE_CHECKING:
    import pandas

MARK = "§"
COLUMNS = ["data set", "arm", "predictor", "difference (pairs)", "95% interval", "half width", "p", "p (Holm)"]
COLUMNS += ["better"]


@dataclass(frozen=True)
class Floor:
    """An arm beside the best predictor of its data set."""

    arm: str
    dataset: str
    label: str
    predictor: str
    difference: Difference

    @property
    def above(self) -> bool:
        """Says whether the arm is better than the predictor at a Holm-adjusted p under 0.05."""
        return self.difference.holds and self.difference.side == "better"

    @property
    def worse(self) -> bool:
        """Says whether the arm is worse than the predictor at such a p."""
        return self.difference.holds and self.difference.side == "worse"


def floors(
    plan: dict[str, Any],
    ablation: str,
    frame: "pandas.DataFrame",
    sanity: dict[str, dict[str, Any]],
    ratios: dict[str, float | None],
) -> dict[str, Floor]:
    """Compares every arm of an ablation that was run with a predictor.

    One whose fits all failed is not testable, unless the worst takes their place (``report.missing``).

    Of several predictors of a data set the one with the best mean on the splits of the arm is taken. The p values are
    adjusted by Holm over all these comparisons.

    Args:
        sanity: What the predictors reach, by data set, as `read_sanity` returns it.
        ratios: n_test / n_train of each data set's splits; None if unknown.
    """
    options, metrics = report_options(plan), metrics_of(frame)
    arms, made = {arm["id"]: arm for arm in plan["arms"]}, []
    evaluated = evaluation_fits(frame)
    for name in dict.fromkeys(cell["arm"] for cell in lay_out(plan, ablation).cells):
        dataset, mine = arms[name]["dataset"], evaluated[name]
        if dataset not in sanity or all(fit["status"] == "missing" for fit in mine.values()):
            continue
        predictor = best_predictor(sanity[dataset], {split for split, _ in mine})
        beside = {predictor: _in_its_place(mine, sanity[dataset]["predictors"][predictor])}
        aligned = align(frame, [name, predictor], options.missing, beside)
        found = compare_arms(aligned, options, metrics.get(dataset), ratios.get(dataset))
        made.append(Floor(name, dataset, arms[name]["label"], predictor, found))
    family = adjusted([one.difference for one in made])
    return {one.arm: replace(one, difference=found) for one, found in zip(made, family, strict=True)}


def best_predictor(record: dict[str, Any], splits: set[int]) -> str:
    """Returns the predictor with the best mean test metric over the splits, of equal ones (to 12 digits) the first."""

    def mean(name: str) -> float:
        rows = [row for row in record["predictors"][name] if row["split"] in splits]
        known = [row["test"] for row in rows if row["test"] is not None]
        return SIGN[record["direction"]] * canonical(sum(known) / len(known)) if known else float("-inf")

    return max(record["predictors"], key=mean)


def _in_its_place(mine: Fits, values: list[dict[str, Any]]) -> Fits:
    """Returns the fits of an arm with a predictor in its place, the same for every seed."""
    known, found = {row["split"]: row for row in values}, {}
    for (split, repeat), fit in mine.items():
        test, split_hash = known[split]["test"], known[split]["split_hash"]
        status = "missing" if test is None else "ok"
        found[split, repeat] = fit | {"test": test, "status": status, "split_hash": split_hash}
    return found


def floor_table(plan: dict[str, Any], ablation: str, found: dict[str, Floor]) -> Table | None:
    """Returns a row for every arm of an ablation that was compared with a predictor; None if there is none."""
    if not found:
        return None
    caption = (
        f"{lay_out(plan, ablation).title}: each arm against the best predictor of its data set that looks at no graph, "
        "paired by split. Columns as in the paired comparison: the 95% interval is not adjusted, p (Holm) is over the "
        f"{tests_of(one.difference for one in found.values())} of this table. Better, worse: at p (Holm) < {ALPHA}. "
        f"{TREATED[report_options(plan).missing]}"
    )
    alone = seeds_alone(plan, found)
    rows, notes = [_row(one) for one in found.values()], chosen_by_test(plan, list(found))
    below = [alone] if alone else []
    return Table(f"{ablation}-sanity", caption, COLUMNS, rows, notes, grouped=True, footnotes=below)


def _row(one: Floor) -> list[Cell]:
    head, difference = [Cell(one.dataset), Cell(one.label, arm=one.arm), Cell(one.predictor)], one.difference
    if isinstance(difference.found, str) or difference.metric is None:
        return [*head, Cell(difference.text), *[Cell("–")] * 5]
    shown = difference_cell(difference.found, difference.metric, one.arm)
    if difference.p is None:
        return [*head, shown, Cell(str(difference.t)), *[Cell("–")] * 4]
    told = "yes" if one.above else "no, worse" if one.worse else "not shown"
    return [*head, shown, *map(Cell, (*t_texts(difference), *p_texts(difference), told))]


def floor_marked(cell: Cell, found: dict[str, Floor]) -> Cell:
    """Returns the cell of an arm, with a mark at its number if it was not shown to be better than the predictor."""
    one = found.get(cell.arm or "")
    return replace(cell, text=f"{cell.text} {MARK}") if one and cell.numbers and not one.above else cell


def floor_notes(found: dict[str, Floor]) -> list[str]:
    """Returns what the mark means, if an arm has it."""
    if all(one.above for one in found.values()):
        return []
    return [f"{MARK} {below_text(found)} (p < {ALPHA} after Holm; see the table against predictors)."]


def below_text(found: dict[str, Floor]) -> str:
    """Returns "Not shown to beat “majority class”: 10 of 18 arms, of them 3 worse, 1 not testable"."""
    below = [one for one in found.values() if not one.above]
    names = sorted({one.predictor for one in found.values()})
    counts = {"worse": sum(one.worse for one in below), UNTESTED: sum(one.difference.p is None for one in below)}
    of_them = listing(f"{count} {what}" for what, count in counts.items() if count)
    text = f"Not shown to beat {f'“{names[0]}”' if len(names) == 1 else 'a predictor that looks at no graph'}: "
    text += f"{len(below)} of {counted(len(found), 'arm')}"
    return text + (f", of them {of_them}" if of_them else "")
