"""The paper's result tables beside what the records say."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ssma import paper
from ssma.report.checks import chosen_by_test
from ssma.report.gains import Gain, Pair, mean_gain, pair_of, relative_gain
from ssma.report.labels import METRIC_NAMES, listing, of_all
from ssma.report.paper_cells import VPA_TABLE, Match, alike, candidates, match
from ssma.report.sanity import predictor_cell
from ssma.report.statistics import summarise, units_of
from ssma.report.table import Cell, Table, table_id
from ssma.statistics.outcome import NotTestable

if TYPE_CHECKING:
    import pandas

UNITS = {"percent": (100.0, 2, " in %"), "fraction": (1.0, 4, ""), "mae": (1.0, 4, "")}
"""Unit of an entry -> factor from records, decimals of ours, and how a heading says it."""

CAPTION = (
    "Table {number} of the paper ({name}, line {line} of its source): {title}.{baseline} Paper: as printed. Ours: "
    "mean ± sample standard deviation (number of fits), in the paper's unit, with a letter where it was treated "
    "otherwise than in the paper. Difference: (ours - paper) / sqrt(s_p^2 / n_p + s_o^2 / n_o), in standard errors, "
    "with the standard deviations s, n_p the folds or runs of the paper ({counts}) and n_o our splits (seeds where "
    "there is one split); {mark} beyond {far:g} of them whatever the digits that the paper leaves out. It takes these "
    "as independent, which folds are not, so that it overstates. {better} –: not run, or not in the paper. Below a "
    "data set stand predictors that look at no graph, on the same splits."
)
FAR, FAR_MARK = 3.0, "*"
"""Standard errors beyond which a difference to the paper is marked, and its mark."""
RULE = (
    "Where several arms fit an entry, one with results goes first, then the one with the fewest departures from "
    "{whom}, then the one with most fits, then the first of the plan: {cells}."
)
NEVER = (
    "What the authors' code does and no arm here does: widths above the budget; attention of gps across the graphs of "
    "a batch, its earlier version (8 heads, no dropout on attention, no edge features) and its later one (GINE); in "
    "pna the degrees of the first fold for all folds, on ogbn of all nodes inside their parts, and a map of edge "
    "features before those of the towers; in SSMA a bias inside the compressor, 1e-6 added to magnitudes, slots of "
    "zeros for nodes without neighbours, and in gatv2, gps and pna attention scores of other states of a node; on "
    "ZINC embeddings of the 21 atom types of its "
    "training part alone; self-loops of ogbn; several validations in an epoch of ogbg-molhiv, ogbg-molpcba and "
    "ogbn-products; random neighbours drawn for all layers at once, before the first, and anew in each evaluation; the "
    "best epoch of a fit that diverged, as at a batch of ogbn without training nodes; the scores of a chosen "
    "configuration from the fits that chose it (here it is trained again, with other seeds)."
)

Letters = dict[tuple[str, ...], str]
"""Departures of an arm from the paper's treatment -> the letter that stands for them at its cells."""


@dataclass(frozen=True)
class Beside:
    """One table of the paper, and what stands beside its entries.

    ``cells`` maps entries to arms; ``own`` are the entries whose arm stands in no earlier table; ``ratios`` has n_test
    / n_train of each data set's splits.
    """

    source: paper.PaperTable
    cells: dict[paper.Result, Match]
    own: set[paper.Result]
    frame: "pandas.DataFrame"
    ratios: dict[str, float | None]
    gains: dict[paper.Improvement, Gain | None] = field(default_factory=dict)

    @property
    def run(self) -> bool:
        """Says whether an entry was run that no earlier table has: SSMA's own entries are those of table 1 in most."""
        arms = [found.arm["id"] for entry, found in self.cells.items() if entry in self.own]
        rows = summarise(self.frame).loc[arms]
        return bool((rows["missing"] < rows["planned"]).any())

    def pair(self, base: paper.Result, ours: paper.Result) -> Pair | None:
        """Returns the two arms beside two entries; None where they cannot be compared.

        That is if one is not there or lacks fits, their splits differ, they were not treated alike, or the mean of the
        baseline is 0.
        """
        if base not in self.cells or ours not in self.cells:
            return None
        arms = [self.cells[entry].arm for entry in (base, ours)]
        values = [units_of(self.frame).get(arm["id"]) for arm in arms]
        if any(value is None for value in values) or not alike(*arms):
            return None
        direction = summarise(self.frame).loc[arms[1]["id"], "direction"]
        return pair_of(ours.dataset, ours.layer, direction, *values, self.ratios.get(arms[1]["dataset"]))

    def pairs(self, line: paper.Improvement) -> list[Pair]:
        """Returns the pairs behind an improvement value that can be compared; of one data set, on the same units."""
        pairs = [pair for base, ours in _behind(line) if (pair := self.pair(base, ours))]
        units = {pair.dataset: pair.units for pair in reversed(pairs)}
        return [pair for pair in pairs if pair.units == units[pair.dataset]]

    def gain(self, line: paper.Improvement) -> Gain | None:
        """Returns our mean gain over these pairs, None if there are none."""
        if line not in self.gains:
            pairs = self.pairs(line)
            self.gains[line] = mean_gain(pairs) if pairs else None
        return self.gains[line]


def beside(plan: dict[str, Any], frame: "pandas.DataFrame", ratios: dict[str, float | None]) -> dict[str, Beside]:
    """Returns every table of the paper by name, with the arms of the plan for its entries."""
    arms, n = candidates(plan), dict(summarise(frame)["n"])
    tables, seen = {}, set()
    for source in paper.tables():
        own = {entry for entry in paper.results(source.name) if _kind(entry) not in seen}
        seen |= {_kind(entry) for entry in own}
        found = {entry: match(entry, arms, plan, n) for entry in paper.results(source.name) if entry.dataset}
        tables[source.name] = Beside(source, {entry: one for entry, one in found.items() if one}, own, frame, ratios)
    return tables


def paired_entries(name: str) -> list[tuple[paper.Result, paper.Result]]:
    """Returns the pairs of a table: (baseline, SSMA) of one data set and layer, or (constant, learned) affine map.

    Tables with several SSMA entries for a baseline of another layer have none.
    """
    by_place: dict[tuple[str, str], list[paper.Result]] = {}
    for result in paper.results(name):
        by_place.setdefault((result.dataset, result.layer), []).append(result)
    return [
        (base, ours)
        for (dataset, _), entries in by_place.items()
        for base in entries
        for ours in entries
        if dataset and _side(base) in ("baseline", "constant") and _side(ours) in ("ssma", "learnable")
    ]


def results_table(table: Beside, sanity: dict[str, dict[str, Any]] | None = None) -> Table:
    """Returns the entries of a table: a row per data set and layer; paper, ours and difference per kind of arm.

    Args:
        sanity: What predictors that look at no graph reach, by label of the data set; a row below the layers each.
    """
    source = table.source
    entries = [result for result in paper.results(source.name) if result.dataset]
    sides = sorted(dict.fromkeys(map(_side, entries)), key=lambda side: side != "baseline")
    places = {(entry.dataset, entry.layer, _side(entry)): entry for entry in entries}
    notes = [note for note in paper.footnotes() if source.name in note.tables.split()]
    texts: list[str] = []
    letters = _letters(table)
    rows = []
    for dataset in dict.fromkeys(entry.dataset for entry in entries):
        for layer in dict.fromkeys(entry.layer for entry in entries if entry.dataset == dataset):
            here = [places.get((dataset, layer, side)) for side in sides]
            row = [Cell(_heading(next(entry for entry in here if entry))), Cell(layer)]
            for entry in here:
                here_said = _marks(entry, notes) if entry else []
                texts += [text for text in here_said if text not in texts]
                row += _three(entry, [texts.index(text) + 1 for text in here_said], table, letters)
            rows.append(row)
        rows += _predictors(dataset, table, sanity or {}, len(sides))
    columns = ["data set", "layer", *(f"{side}: {part}" for side in sides for part in ("paper", "ours", "difference"))]
    footnotes = [f"[{number}] {text}" for number, text in enumerate(texts, 1)] + [source.note] * bool(source.note)
    return Table(
        f"paper/{source.name}", _caption(source, entries), columns, rows, _departures(table, letters), grouped=True,
        footnotes=footnotes,
    )  # fmt: skip


def improvement_table(table: Beside) -> Table | None:
    """Returns the improvement row of a table, printed, recomputed and ours; None if the table has none."""
    lines = [line for line in paper.improvements() if line.table == table.source.name]
    if not lines:
        return None
    rows, footnotes = [], []
    for line in lines:
        terms, pairs = improvement_terms(line), table.pairs(line)
        there = {(pair.dataset, pair.layer) for pair in pairs}
        same = [gain for place, gain in terms.items() if place in there]
        gain = table.gain(line)
        kind = "data sets" if line.layer else "layers"
        row = [line.dataset or line.layer, line.printed, _percent(_mean(terms.values())), line.check]
        row.append(_percent(_mean(same)) if same else "–")
        ours = Cell(gain_text(gain), link=table_id(f"paper/{table.source.name}")) if gain else Cell("–")
        rows.append([*map(Cell, row), ours, Cell(f"{len(pairs)} of {len(terms)} {kind}")])
        footnotes += [f"{line.dataset or line.layer}: {line.note}"] if line.note else []
    caption = (
        f"The improvement row of table {table.source.number} (line {lines[0].line} of the source), in percent: the "
        "mean over layers (with positional encodings: over data sets) of the relative gain (SSMA - baseline) / "
        "baseline, for errors (baseline - SSMA) / baseline. Recomputed: from the printed entries. Compared: where both "
        "arms have all their fits, on the same splits, with the same network and training; the paper's entries for "
        "these alone stand beside ours. Ours [95% interval, not adjusted]: corrected resampled t, paired by split (by "
        "seed where there is one split)."
    )
    columns = ["row", "printed", "recomputed", "printed value", "recomputed, compared only", "ours", "compared"]
    return Table(f"paper/{table.source.name}-improvement", caption, columns, rows, biased(table), footnotes=footnotes)


def improvement_terms(line: paper.Improvement) -> dict[tuple[str, str], float]:
    """Returns (data set, layer) -> the relative gain in percent of the printed entries behind an improvement value."""
    return {
        (ours.dataset, ours.layer): relative_gain(float(base.mean), float(ours.mean), ours.metric == "mae")
        for base, ours in _behind(line)
    }


def gain_text(gain: Gain) -> str:
    """Returns "6.2 [4.4, 8.1]", or the reason instead of the interval."""
    if isinstance(gain.interval, NotTestable):
        return f"{_percent(gain.mean)} ({gain.interval})"
    return f"{_percent(gain.mean)} [{_percent(gain.interval.low)}, {_percent(gain.interval.high)}]"


def _behind(line: paper.Improvement) -> list[tuple[paper.Result, paper.Result]]:
    return [
        (base, ours)
        for base, ours in paired_entries(line.table)
        if line.dataset in ("", ours.dataset) and line.layer in ("", ours.layer)
    ]


def _predictors(dataset: str, table: Beside, sanity: dict[str, dict[str, Any]], sides: int) -> list[list[Cell]]:
    """Returns a row for each predictor of the data set that the arms beside the paper's entries are trained on."""
    beside = [(entry, found.arm) for entry, found in table.cells.items() if entry.dataset == dataset]
    if not beside or beside[0][1]["dataset"] not in sanity:
        return []
    entry, arm = beside[0]
    record, empty = sanity[arm["dataset"]], Cell("–")
    splits = {split for _, other in beside if other["dataset"] == arm["dataset"] for split in other["splits"]}
    factor, decimals, _ = UNITS[entry.unit]

    def spread(mean: float, std: float) -> str:
        return _mean_and_std(factor * mean, factor * std, decimals)

    return [
        [Cell(_heading(entry)), Cell(name), empty, predictor_cell(record, name, splits, factor, spread)]
        + [empty] * (3 * sides - 2)
        for name in record["predictors"]
    ]


def _mean_and_std(mean: float, std: float, decimals: int) -> str:
    return f"{mean:.{decimals}f}" + ("" if math.isnan(std) else f" ± {std:.{decimals}f}")


def _three(entry: paper.Result | None, marks: list[int], table: Beside, letters: Letters) -> list[Cell]:
    if entry is None:
        return [Cell("–"), Cell("–"), Cell("–")]
    text = f"{entry.mean} ± {entry.std}" if entry.std else entry.mean
    n = paper.protocols()[entry.dataset].units
    numbers = (float(entry.mean), float(entry.std) if entry.std else None, n)
    printed = Cell(" ".join([text, *(f"[{mark}]" for mark in marks)]), numbers=numbers)
    found = table.cells.get(entry)
    return [printed, *(_ours(entry, found, table, letters) if found else (Cell("–"), Cell("–")))]


def _ours(entry: paper.Result, found: Match, table: Beside, letters: Letters) -> tuple[Cell, Cell]:
    arm = found.arm
    row, name = summarise(table.frame).loc[arm["id"]], arm["id"]
    if not row["n"]:
        text = "–" if row["reason"] == "missing" else f"failed: {row['reason']}".removesuffix(": failed")
        return Cell(text, arm=name), Cell("–")
    factor, decimals, _ = UNITS[entry.unit]
    mean, std = factor * float(row["mean"]), factor * float(row["std"])
    text = f"{_mean_and_std(mean, std, decimals)} ({of_all(row['n'], row['planned'])})"
    text += " †" if arm["selection"] == "test" else ""
    text += f" [{letters[tuple(found.departures)]}]" if found.departures else ""
    ours = Cell(text, arm=name, numbers=(mean, None if math.isnan(std) else std, int(row["n"])))
    return ours, Cell(_difference(entry, mean, std, row), arm=name)


def _difference(entry: paper.Result, mean: float, std: float, row: "pandas.Series") -> str:
    if row["n"] < row["planned"]:
        return "not testable: fits are lacking"
    if not entry.std:
        return "not testable: no deviation printed"
    if math.isnan(std):
        return "not testable: one value"
    units, ours = paper.protocols()[entry.dataset].units, std**2 / int(row["units"])
    error = math.sqrt(float(entry.std) ** 2 / units + ours)
    if error == 0:
        return "not testable: no deviation"
    away = mean - float(entry.mean)
    surely, at_most = abs(away) - _rounding(entry.mean), float(entry.std) + _rounding(entry.std)
    far = surely > FAR * math.sqrt(at_most**2 / units + ours)
    return _signed(away / error) + (f" {FAR_MARK}" if far else "")


def _rounding(printed: str) -> float:
    """Returns half a unit of the last digit of a number."""
    return 0.5 * 10 ** -len(printed.partition(".")[2])


def _shown(table: Beside) -> list[Match]:
    """Returns the arms beside entries that have results."""
    return [one for one in table.cells.values() if summarise(table.frame).loc[one.arm["id"], "n"]]


def biased(table: Beside) -> list[str]:
    """Returns the warning for the arms shown in a table that were chosen by the test metric."""
    arms = [one.arm for one in _shown(table)]
    return chosen_by_test({"arms": arms}, [arm["id"] for arm in arms])


def _letters(table: Beside) -> Letters:
    """Returns a letter for each way of treatment that departs from the paper's: a, b, ..., z, aa, ab, ..."""
    different = dict.fromkeys(tuple(one.departures) for one in _shown(table) if one.departures)
    return {lines: _letter(number) for number, lines in enumerate(different)}


def _letter(number: int) -> str:
    higher, own = divmod(number, 26)
    return (_letter(higher - 1) if higher else "") + chr(ord("a") + own)


def _departures(table: Beside, letters: Letters) -> list[str]:
    """Says in what the arms shown were treated otherwise than in the paper, and which arms of several are shown."""
    shown = _shown(table)
    lines = []
    for departures, letter in letters.items():
        arms = listing((one.arm["label"] for one in shown if tuple(one.departures) == departures), most=12)
        lines.append(f"[{letter}] Not as in the paper: {'; '.join(departures)}: {arms}.")
    several = [f"{one.arm['label']} (1 of {one.fitting})" for one in shown if one.fitting > 1]
    vpa = table.source.name == VPA_TABLE
    whom = "the code of VPA's authors" if vpa else "the paper's treatment"
    lines += [RULE.format(whom=whom, cells=listing(several, most=len(several)))] if several else []
    lines += biased(table)
    alike = "The arms shown are treated as in the paper in settings, search, selection, splits and data."
    return lines if vpa else [*([] if letters else [alike]), *lines, NEVER]


def _marks(entry: paper.Result, notes: Iterable[paper.Footnote]) -> list[str]:
    return [
        note.text
        for note in notes
        if (note.dataset, note.aggregator) == (entry.dataset, entry.aggregator) and note.layer in ("", entry.layer)
    ]


def _kind(entry: paper.Result) -> tuple[str, str, str, str]:
    """What an arm is; the constant affine map is that of all other tables."""
    return entry.dataset, entry.layer, entry.aggregator, entry.variant.replace("constant", "")


def _side(entry: paper.Result) -> str:
    return entry.variant or ("ssma" if entry.aggregator == "ssma" else "baseline")


def _baseline(entries: list[paper.Result]) -> str:
    """Says what the baseline is: " Baseline: sum, in pna its mix."; nothing for a table without one."""
    names = list(dict.fromkeys(entry.aggregator for entry in entries if entry.aggregator not in ("ssma", "pna")))
    mix = any(entry.aggregator == "pna" for entry in entries)
    return f" Baseline: {names[0]}{', in pna its mix' if mix else ''}." if names else ""


def _heading(entry: paper.Result) -> str:
    return f"{entry.dataset} ({METRIC_NAMES.get(entry.metric, entry.metric)}{UNITS[entry.unit][2]})"


def _caption(source: paper.PaperTable, entries: list[paper.Result]) -> str:
    counts = {(paper.protocols()[entry.dataset].units, paper.protocols()[entry.dataset].unit) for entry in entries}
    lower = list(dict.fromkeys(entry.dataset for entry in entries if entry.metric == "mae"))
    better = f"Lower is better on {' and '.join(lower)}, else higher." if lower else "Higher is better."
    return CAPTION.format(
        number=source.number, name=source.name, line=source.line, title=source.title, better=better,
        far=FAR, mark=FAR_MARK,
        baseline=_baseline(entries),
        counts=" or ".join(f"{number} {unit}" for number, unit in sorted(counts, reverse=True)),
    )  # fmt: skip


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return math.fsum(values) / len(values)


def _percent(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
