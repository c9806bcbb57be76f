"""The paper's claims, each with what the records say of it."""

from ssma import paper
from ssma.report.checks import chosen_by_test
from ssma.report.claim_checks import CHECKS
from ssma.report.evidence import CONTRADICTED, NOT_RUN, SUPPORTED, UNDECIDED, Comparison, Records, Verdict
from ssma.report.labels import p_text
from ssma.report.table import Cell, Table, table_id
from ssma.statistics.pairs import holm
from ssma.study.cost import counted

ORDER = (CONTRADICTED, SUPPORTED, UNDECIDED, NOT_RUN)
NOT_CHECKABLE = "not checkable from records"
PAIRS = "paper/claims-pairs"
CAPTION = (
    "The paper's claims and what the records of this study say: {counts}. A claim is supported or contradicted only by "
    "the test in its row; with too few cells run, or intervals that are too wide, it is undecided. A cell counts as "
    "run where its arms can be compared: all their fits on the same splits, with the same network and training, and "
    "two differences at least that are not all equal. The arms are those of the tables beside the paper, with their "
    "departures from its treatment; for claims about a setting (A1 to A8, P2, P3) all of the study with the paper's "
    "operator, on the claim's data sets and layers, that differ in it alone, however they were trained. Intervals of "
    "differences are those of the corrected resampled t-test; each claim is judged by itself, and Holm's adjustment is "
    "over its pairs. Intersection-union: all pairs have to reach the level together, which needs no adjustment (Berger "
    "1982). In LaTeX only claims that were judged; the CSV has all."
)
PAIRS_CAPTION = (
    "The comparisons behind the claims: {count} of arms. Gain: mean paired difference, counted so that positive "
    "is better, in the units of the metric, with its 95% interval and two-sided p value against 0 (corrected resampled "
    "t-test), the same adjusted by Holm over the pairs of the claim (for each, where these differ), and the number of "
    "pairs (splits, or seeds where there is one split)."
)


def claim_tables(records: Records) -> tuple[Table, Table]:
    """Returns the table of all claims, and the table of the comparisons behind them."""
    verdicts = {claim.id: CHECKS[claim.id](records) for claim in paper.claims() if claim.id in CHECKS}
    return _claims(records, verdicts), _pairs(records, verdicts)


def _claims(records: Records, verdicts: dict[str, Verdict]) -> Table:
    rows, counts, tests = [], dict.fromkeys((*ORDER, NOT_CHECKABLE), 0), _numbered(verdicts)
    for claim in paper.claims():
        found = verdicts.get(claim.id)
        verdict = found.verdict if found else NOT_CHECKABLE
        counts[verdict] += 1
        evidence, test = Cell(claim.reason), Cell("–")
        if found:
            evidence, test = Cell(found.evidence, link=_link(found)), Cell(tests[found.test], full=found.test)
        row = [verdict, claim.id, claim.section, claim.claim, claim.expected]
        rows.append([*map(Cell, row), evidence, test, Cell(claim.note)])
    rows.sort(key=lambda row: list(counts).index(row[0].text))
    columns = ["verdict", "claim", "section", "what the paper says", "expected", "evidence", "test", "note"]
    judged = {claim: found for claim, found in verdicts.items() if found.verdict != NOT_RUN}
    shown = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    arms = {arm for found in judged.values() for one in found.comparisons for arm in (one.arm, one.reference)}
    arms |= {one.arm["id"] for table in records.tables.values() for one in table.cells.values()} if judged else set()
    return Table(
        "paper/claims",
        CAPTION.format(counts=shown),
        columns,
        rows,
        chosen_by_test(records.plan, list(arms)),
        sentences=True,
        grouped=True,
        footnotes=[f"{number} {test}." for test, number in tests.items()],
        printed=(len(judged), len({found.test for found in judged.values()})),
    )


def _numbered(verdicts: dict[str, Verdict]) -> dict[str, str]:
    """Returns test -> "[T1]", those of judged claims first."""
    ranked = sorted(verdicts.values(), key=lambda found: ORDER.index(found.verdict))
    return {test: f"[T{number}]" for number, test in enumerate(dict.fromkeys(found.test for found in ranked), 1)}


def _link(found: Verdict) -> str | None:
    if found.comparisons:
        return table_id(PAIRS)
    return table_id(found.table) if found.table and found.verdict != NOT_RUN else None


def _pairs(records: Records, verdicts: dict[str, Verdict]) -> Table:
    used: dict[Comparison, dict[str, float]] = {}
    for claim, found in verdicts.items():
        adjusted = holm([one.test.p for one in found.comparisons])
        for one, p in zip(found.comparisons, adjusted, strict=True):
            used.setdefault(one, {})[claim] = p
    rows = []
    for one, claims in used.items():
        arm, reference = records.arms[one.arm], records.arms[one.reference]
        interval = one.metric.interval(one.test.interval, signed=True)
        rows.append(
            [
                Cell(", ".join(claims)),
                Cell(arm["label"], arm=one.arm),
                Cell(reference["label"], arm=one.reference),
                Cell(one.metric.title),
                Cell(f"{one.metric.text(one.gain, signed=True)} {interval}", arm=one.arm),
                Cell(p_text(one.test.p), arm=one.arm),
                Cell(_adjusted(claims), arm=one.arm),
                Cell(str(len(one.gains))),
            ]
        )
    columns = ["claims", "arm", "reference", "metric", "gain [95% interval]", "p", "p (Holm)", "pairs"]
    notes = chosen_by_test(records.plan, [arm for one in used for arm in (one.arm, one.reference)])
    return Table(PAIRS, PAIRS_CAPTION.format(count=counted(len(rows), "pair")), columns, rows, notes, sentences=True)


def _adjusted(claims: dict[str, float]) -> str:
    """Returns "0.24", or "0.24 (G1), 0.31 (B9)" where families differ."""
    groups: dict[str, list[str]] = {}
    for claim, p in claims.items():
        groups.setdefault(p_text(p), []).append(claim)
    if len(groups) == 1:
        return next(iter(groups))
    return ", ".join(f"{text} ({', '.join(names)})" for text, names in groups.items())
