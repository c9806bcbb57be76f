"""How a claim of the paper is decided from records: one small function per claim, or per kind of claim."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ssma import paper
from ssma.report.evidence import (
    CONTRADICTED,
    NOT_RUN,
    SUPPORTED,
    UNDECIDED,
    Comparison,
    Records,
    Verdict,
    every_gain,
    no_loss,
    significant,
)
from ssma.report.paper_tables import gain_text, improvement_terms, paired_entries
from ssma.statistics.outcome import ALPHA, Interval, NotTestable
from ssma.statistics.pairs import holm, mean_difference
from ssma.study.cost import counted
from ssma.study.presets import preset

Check = Callable[[Records], Verdict]

MACRO = ("results_tu_zinc", "results_lrgb_ogbn")
AGGREGATORS = tuple(f"results_tu_zinc_{name}" for name in ("lstm", "max", "mean", "min", "mul"))
SELECTION_SETS, COMPRESSION_SETS = ("ogbn-arxiv", "PROTEINS"), ("ogbn-arxiv", "ZINC")
LAYERS = ("gcn", "gat", "gin")
KAPPAS = range(2, 8)
WIDTH_SETS, WIDTH_LAYERS = ("IMDB-BINARY", "MUTAG"), ("gcn", "gat", "gps")
BUDGETS = [100_000 * 2**power for power in range(6)]
SMALL_RATE, WELL_BELOW_ONE = 0.1, 0.5
NOT_HERE = ("esan",)


def entries(tables: Sequence[str], datasets: Sequence[str] = (), layer: str = "") -> list[tuple]:
    """Returns the (baseline, SSMA) entries of tables, of these data sets and this layer if any are given."""
    pairs = [pair for name in tables for pair in paired_entries(name)]
    return [
        (base, ours) for base, ours in pairs if (not datasets or ours.dataset in datasets) and layer in ("", ours.layer)
    ]


def in_every_cell(tables: Sequence[str], datasets: Sequence[str] = (), layer: str = "", scope: str = "") -> Check:
    """Returns the check that SSMA is better in every cell of these tables; ``scope`` says what it leaves untested."""

    def check(records: Records) -> Verdict:
        pairs = entries(tables, datasets, layer)
        found = every_gain(_compared(records, pairs), len(pairs), missing=_missing(ours.layer for _, ours in pairs))
        return replace(found, test=found.test + scope)

    return check


def narrower_and_better(records: Records) -> Verdict:
    """G3: at equal budget the SSMA net is narrower than the sum net, and better."""
    pairs = [pair for pair in entries(MACRO) if pair[0].aggregator == "sum"]
    found = [one for one in _compared(records, pairs) if records.arms[one.arm]["settings"]["model"].get("budget")]
    judged = every_gain(found, len(pairs), missing=_missing(ours.layer for _, ours in pairs))
    widths = [(_width(records, one.arm), _width(records, one.reference)) for one in found]
    wider = sum(ours >= base for ours, base in widths)
    verdict = CONTRADICTED if wider else judged.verdict
    evidence = f"{judged.evidence}; {len(widths) - wider} of {len(widths)} narrower" if found else judged.evidence
    return Verdict(verdict, evidence, f"widths of all fits; {judged.test}", found)


def within_budget(records: Records) -> Verdict:
    """G4: no SSMA net has more parameters than the paper's budget."""
    test = "parameters of every evaluation fit against the paper's budget, exactly"
    pairs, over, run = entries(MACRO), [], 0
    for base, ours in pairs:
        found = records.tables[base.table].cells.get(ours)
        if not found or not records.whole(found.arm["id"]):
            continue
        spec = records.plan["datasets"][found.arm["dataset"]]["spec"]
        budget = preset("paper", spec, found.arm["layer"])["model.budget"]
        if found.arm["settings"]["model"].get("budget") != budget:
            continue
        run += 1
        if records.frame.loc[records.frame["arm"] == found.arm["id"], "parameters"].max() > budget:
            over.append(found.arm["label"])
    missing = _missing(ours.layer for _, ours in pairs)
    evidence = f"{run} of {len(pairs)} cells run at the paper's budget{missing}: {len(over)} above it"
    verdict = CONTRADICTED if over else SUPPORTED if run == len(pairs) else UNDECIDED if run else NOT_RUN
    return Verdict(verdict, evidence, test, table="arms")


def largest_on_imdb(records: Records) -> Verdict:
    """B1: the mean relative improvement on IMDB-BINARY exceeds that on every other data set of tables 1 and 2."""
    test = (
        "95% intervals (corrected resampled t) of the improvements over the layers of this package: that of "
        "IMDB-BINARY above all others"
    )
    intervals: dict[str, Interval | NotTestable] = {}
    texts = []
    lines = [line for line in paper.improvements() if line.table in MACRO]
    for line in lines:
        table = records.tables[line.table]
        gain, layers = table.gain(line), sum(layer not in NOT_HERE for _, layer in improvement_terms(line))
        if gain and len(table.pairs(line)) == layers:
            intervals[line.dataset] = gain.interval
            texts.append(f"{line.dataset} {gain_text(gain)}")
    evidence = f"{len(texts)} of {len(lines)} data sets with all layers" + (f": {'; '.join(texts)}" if texts else "")
    mine = intervals.pop("IMDB-BINARY", None)
    known = [interval for interval in intervals.values() if isinstance(interval, Interval)]
    verdict = UNDECIDED if texts else NOT_RUN
    if isinstance(mine, Interval):
        if any(other.low > mine.high for other in known):
            verdict = CONTRADICTED
        elif len(known) == len(lines) - 1 and all(other.high < mine.low for other in known):
            verdict = SUPPORTED
    return Verdict(verdict, evidence, test, table="arms")


def better_than_pna_and_gps(records: Records) -> Verdict:
    """B5: every SSMA entry of the runtime table is above those of PNA and GraphGPS."""
    rows = [entry for entry in paper.results("runtime_measurment") if entry.dataset]
    pairs = [
        (base, ours)
        for ours in rows
        for base in rows
        if ours.variant and not base.variant and base.dataset == ours.dataset
    ]
    return every_gain(_compared(records, pairs), len(pairs))


def geometric_mean_stabilises(records: Records) -> Verdict:
    """P2: fewer fits diverge with the geometric mean of magnitudes than with the plain product."""
    from scipy.stats import binomtest

    test = (
        "pairs of fits that differ in ssma.normalisation only, exact McNemar test at 0.05 (one test: nothing to adjust)"
        ", which takes them as independent: those of one data set are not, so that it finds too much"
    )
    known = paper.protocols()
    arms = records.ssma_arms(known, (*LAYERS, "gatv2", "gps", "pna", "gps_pe"), varied="ssma.normalisation")
    only_plain = only_geometric = pairs = 0
    for group in records.series(arms, "ssma.normalisation"):
        if "geometric" in group and "none" in group:
            for geometric, plain in _outcomes(records, group["geometric"]["id"], group["none"]["id"]):
                pairs += 1
                only_plain += plain and not geometric
                only_geometric += geometric and not plain
    evidence = (
        f"{counted(pairs, 'pair')} of fits: {only_plain} diverged without it alone, {only_geometric} with it alone"
    )
    if not pairs:
        return Verdict(NOT_RUN, evidence, test)
    differ = only_plain + only_geometric
    decided = differ and binomtest(only_plain, differ).pvalue < ALPHA
    verdict = UNDECIDED if not decided else SUPPORTED if only_plain > only_geometric else CONTRADICTED
    return Verdict(verdict, evidence, test, table="arms")


def random_holds_up(records: Records) -> Verdict:
    """A1: with random selection SSMA is not below the sum, at any kappa."""
    arms = [arm for arm in _selection_arms(records, LAYERS) if _selection(arm) == "random"]
    found, named = _against_sum(records, arms), len(SELECTION_SETS) * len(LAYERS) * len(KAPPAS)
    return no_loss(found, named, records.places(found, "ssma.kappa"))


def attention_mostly_better(records: Records) -> Verdict:
    """A2: attention is better than random selection in most cells."""
    from scipy.stats import binomtest

    test = (
        "number of cells with the better mean, exact two-sided binomial test against one half at 0.05 (one test: "
        "nothing to adjust), which takes cells as independent: those of one data set are not, so that it finds too much"
    )
    found, named = _attention_against_random(records, LAYERS), len(SELECTION_SETS) * len(LAYERS) * len(KAPPAS)
    cells = records.cells(found, "ssma.kappa").values()
    gains, run = [mean_difference([one.gain for one in cell]) for cell in cells], len(cells)
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    evidence = f"{run} of {named} cells run: attention has the better mean in {better}, the worse in {worse}"
    decided = run == named and better + worse and binomtest(better, better + worse).pvalue < ALPHA
    verdict = NOT_RUN if not found else UNDECIDED if not decided else SUPPORTED if better > worse else CONTRADICTED
    return Verdict(verdict, evidence, test, found)


def no_attention_gain_in_gat(records: Records) -> Verdict:
    """A4: in gat attention slots gain nothing over random selection."""
    test = (
        "corrected resampled t-test, paired by split: every pair below the margin (the region of practical "
        "equivalence) at p < 0.05 (intersection-union) in all cells; one gain at Holm-adjusted p < 0.05 contradicts"
    )
    found, named = _attention_against_random(records, ("gat",)), len(SELECTION_SETS) * len(KAPPAS)
    gains = significant(found, lambda one: 0.0, below=False)
    none = significant(found, lambda one: one.margin, below=True)
    run = records.places(found, "ssma.kappa")
    told = f"a gain in {gains} of {counted(len(found), 'pair')}, below the margin {none}"
    evidence = f"{run} of {named} cells run: after Holm {told}"
    supported = run == named and all(one.high < one.margin for one in found)
    verdict = NOT_RUN if not found else CONTRADICTED if gains else SUPPORTED if supported else UNDECIDED
    return Verdict(verdict, evidence, test, found)


def more_slots_not_always_better(records: Records) -> Verdict:
    """A3: somewhere fewer slots beat the most slots."""
    arms, named = _selection_arms(records, LAYERS), 2 * len(SELECTION_SETS) * len(LAYERS)
    test = (
        "corrected resampled t-test, paired by split, kappa below 7 against 7: one gain at Holm-adjusted p < 0.05; "
        "all losses at p < 0.05 (intersection-union) in all cells contradict"
    )
    judged = [_series(records, group, 7, lambda kappa: kappa < 7) for group in records.series(arms, "ssma.kappa")]
    judged = [found for found in judged if _made(found)]
    flat = [one for found in judged for one in _made(found)]
    gains = significant(flat, lambda one: 0.0, below=False)
    always, run = sum(map(_lost_by_all, judged)), records.places(flat, "ssma.selection")
    told = f"a gain in {gains} of {counted(len(flat), 'pair')}; kappa 7 is best in {always} series"
    evidence = f"{run} of {named} cells run: after Holm {told}"
    contradicted = run == named and always == len(judged)
    verdict = NOT_RUN if not judged else SUPPORTED if gains else CONTRADICTED if contradicted else UNDECIDED
    return Verdict(verdict, evidence, test, flat)


def best_when_compressed(records: Records) -> Verdict:
    """A8: the best compression rate is well below 1, on every data set and layer."""
    arms = records.ssma_arms(COMPRESSION_SETS, LAYERS)
    series, named = records.series(arms, "ssma.compression"), len(COMPRESSION_SETS) * len(LAYERS)
    test = (
        "corrected resampled t-test, paired by split: in every series a rate of 0.5 or less beats 1 at Holm-adjusted "
        "p < 0.05; a series where 1 beats all of them (intersection-union: the largest p, Holm-adjusted over the "
        "series) at p < 0.05 contradicts"
    )
    judged = [_series(records, group, 1, lambda rate: rate <= WELL_BELOW_ONE) for group in series]
    judged = [found for found in judged if _made(found)]
    best = sum(significant(_made(found), lambda one: 0.0, below=False) > 0 for found in judged)
    lost = holm([max(one.test.p for one in _made(found)) if _lost_by_all(found) else 1.0 for found in judged])
    full, flat = sum(p < ALPHA for p in lost), [one for found in judged for one in _made(found)]
    run = records.places(flat)
    evidence = (
        f"{run} of {named} cells run: after Holm a rate of 0.5 or less is better in {best} series, 1 is best in {full}"
    )
    supported = run == named and best == len(judged)
    verdict = NOT_RUN if not judged else CONTRADICTED if full else SUPPORTED if supported else UNDECIDED
    return Verdict(verdict, evidence, test, flat)


def compressed_without_loss(records: Records) -> Verdict:
    """A7 and P3: the smallest rates, 0.1 and below, lose nothing against 1."""
    series = records.series(records.ssma_arms(COMPRESSION_SETS, LAYERS), "ssma.compression")
    found = _made([one for group in series for one in _series(records, group, 1, lambda rate: rate <= SMALL_RATE)])
    return no_loss(found, len(COMPRESSION_SETS) * len(LAYERS), records.places(found))


def better_at_every_width(records: Records) -> Verdict:
    """A5: SSMA is above the sum at every budget."""
    arms = records.ssma_arms(WIDTH_SETS, WIDTH_LAYERS)
    arms = [arm for arm in arms if arm["settings"]["model"].get("budget") in BUDGETS]
    swept = [arm for group in records.series(arms, "model.budget") for arm in group.values()]
    found, named = _against_sum(records, swept), len(WIDTH_SETS) * len(WIDTH_LAYERS) * len(BUDGETS)
    return every_gain(found, named, records.places(found, "model.budget"))


def improvement(line: paper.Improvement) -> Check:
    """Returns the check of one printed improvement value."""

    def check(records: Records) -> Verdict:
        test = (
            "95% interval (corrected resampled t, paired by split) holds the printed value and lies above 0; one "
            "without it contradicts"
        )
        table = records.tables[line.table]
        terms, pairs = improvement_terms(line), table.pairs(line)
        place = "data sets" if line.layer else "layers"
        evidence = f"{len(pairs)} of {len(terms)} {place} run{_missing(layer for _, layer in terms)}"
        gain = table.gain(line)
        if gain is None:
            return Verdict(NOT_RUN, evidence, test)
        same = [terms[pair.dataset, pair.layer] for pair in pairs]
        evidence += f": ours {gain_text(gain)}, the paper's entries for these {sum(same) / len(same):.2f}"
        verdict = UNDECIDED
        if len(pairs) == len(terms) and isinstance(gain.interval, Interval):
            holds = gain.interval.low <= float(line.printed) <= gain.interval.high
            verdict = CONTRADICTED if not holds else SUPPORTED if gain.interval.low > 0 else UNDECIDED
        return Verdict(verdict, evidence, test, table=f"paper/{line.table}" if table.run else "arms")

    return check


CHECKS: dict[str, Check] = {
    "G1": in_every_cell(MACRO),
    "G3": narrower_and_better,
    "G4": within_budget,
    "P2": geometric_mean_stabilises,
    "P3": compressed_without_loss,
    "B1": largest_on_imdb,
    "B2": in_every_cell(
        MACRO, ("Peptides-func", "Peptides-struct"), scope=" (of the gains; their cause is not tested)"
    ),
    "B3": in_every_cell(MACRO, ("ogbn-arxiv", "ogbn-products"), scope=" (of the gains; attention is not tested)"),
    "B5": better_than_pna_and_gps,
    "B6": in_every_cell(("results_vap",)),
    "B7": in_every_cell(("results_tu_zinc_gen_agg",)),
    "B8": in_every_cell(("gps_pe_exp",), layer="gps_pe"),
    "B9": in_every_cell(AGGREGATORS),
    "A1": random_holds_up,
    "A2": attention_mostly_better,
    "A3": more_slots_not_always_better,
    "A4": no_attention_gain_in_gat,
    "A5": better_at_every_width,
    "A7": compressed_without_loss,
    "A8": best_when_compressed,
    "A9": in_every_cell(("learn_affine_results",)),
    **{line.claim: improvement(line) for line in paper.improvements()},
}
"""Id of a claim -> what decides it from records."""


def _arms(records: Records, base: paper.Result, ours: paper.Result) -> tuple[str, str] | None:
    """Returns the arms beside two entries as (SSMA, baseline), None if one is not in the plan."""
    cells = records.tables[base.table].cells
    return (cells[ours].arm["id"], cells[base].arm["id"]) if base in cells and ours in cells else None


def _compared(records: Records, pairs: Sequence[tuple[paper.Result, paper.Result]]) -> list[Comparison]:
    return _made([records.compare(*arms) for base, ours in pairs if (arms := _arms(records, base, ours))])


def _against_sum(records: Records, arms: Sequence[dict]) -> list[Comparison]:
    return _made([records.compare(arm["id"], other["id"]) for arm in arms if (other := records.sum_of(arm))])


def _missing(layers: Iterable[str]) -> str:
    """Says how many of these layers of the paper's cells nobody can run here."""
    layers = list(layers)
    absent = sum(layer in NOT_HERE for layer in layers)
    verb = "is" if absent == 1 else "are"
    return f" ({absent} of the {len(layers)} {verb} esan, which this package does not have)" if absent else ""


def _width(records: Records, arm: str) -> int:
    rows = records.frame[(records.frame["arm"] == arm) & (records.frame["stage"] == "evaluate")]
    return int(rows["hidden_channels"].max())


def _outcomes(records: Records, one: str, other: str) -> list[tuple[bool, bool]]:
    """Returns for the fits that both arms have whether they diverged; a fit that is missing or failed tells nothing."""
    rows = records.frame[records.frame["stage"] == "evaluate"]
    known = rows[rows["status"].isin(["ok", "diverged"])].set_index(["split", "repeat"])
    first, second = (known.loc[known["arm"] == arm, "status"] == "diverged" for arm in (one, other))
    return [(bool(first[key]), bool(second[key])) for key in first.index if key in second.index]


def _selection(arm: dict) -> str | None:
    return None if "ssma.selection" in arm["space"] else arm["settings"]["aggregator"].get("selection", "attention")


def _selection_arms(records: Records, layers: Sequence[str]) -> list[dict]:
    """Returns the SSMA arms that fix a selection and a kappa of the paper's sweep, at the paper's temperature."""
    return [
        arm
        for arm in records.ssma_arms(SELECTION_SETS, layers, fixed=("ssma.temperature",))
        if _selection(arm) and "ssma.kappa" not in arm["space"] and arm["settings"]["aggregator"].get("kappa") in KAPPAS
    ]


def _attention_against_random(records: Records, layers: Sequence[str]) -> list[Comparison]:
    groups = records.series(_selection_arms(records, layers), "ssma.selection")
    pairs = [(group["attention"]["id"], group["random"]["id"]) for group in groups if len(group) == 2]
    return _made([records.compare(*pair) for pair in pairs])


def _series(records: Records, group: dict, end: float, smaller: Callable[[float], bool]) -> list[Comparison | None]:
    """Compares the arms of a series whose value is ``smaller`` with the one at its end; None where that cannot be."""
    if end not in group:
        return []
    return [records.compare(arm["id"], group[end]["id"]) for value, arm in group.items() if smaller(value)]


def _made(found: Sequence[Comparison | None]) -> list[Comparison]:
    return [one for one in found if one]


def _lost_by_all(found: Sequence[Comparison | None]) -> bool:
    """Says whether every arm of a series is worse than the one at its end; one that cannot be compared may not be."""
    return all(one is not None and one.high < 0 for one in found)
