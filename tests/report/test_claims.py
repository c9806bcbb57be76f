import pytest

from ssma import paper
from ssma.report.claim_checks import CHECKS, improvement
from ssma.report.claims import claim_tables
from ssma.report.evidence import Comparison, Records, every_gain, no_loss
from ssma.report.frame import collect, read_plan
from ssma.report.labels import Metric
from ssma.report.paper_tables import beside
from ssma.report.units import units_of
from ssma.statistics.pairs import corrected_t


def compared(gain):
    """Ten gains with this mean and a standard error of 0.01, so that the interval is 0.0226 to each side."""
    gains = tuple(gain + 0.03 * sign for sign in [1, -1] * 5)
    return Comparison("a", "b", Metric("accuracy", "maximize"), gains, 0.0, corrected_t(gains, 0.0), 0.01)


def records_of(results, ratios=None):
    plan, frame = read_plan(results), collect(results)
    units = units_of(frame)
    return Records(plan, frame, ratios or {}, units, beside(plan, units))


@pytest.fixture
def records(study):
    return records_of(study, {"MUTAG": 0.5})


@pytest.mark.parametrize(
    ("gains", "named", "verdict"),
    [
        ([], 2, "not run"),
        ([0.1], 2, "undecided"),  # not all cells run
        ([0.1, 0.1], 2, "supported"),
        ([0.1, 0.01], 2, "undecided"),  # one interval holds 0
        ([0.1, -0.1], 2, "contradicted"),
        ([0.1, -0.026], 2, "contradicted"),  # p = 0.029, and Holm's factor is 1: the gain's p is smaller
        ([-0.026, -0.001, 0.001, 0.001], 9, "undecided"),  # p = 0.029 is the smallest of four
    ],
)
def test_every_cell_has_to_be_a_gain(gains, named, verdict):
    found = every_gain([compared(gain) for gain in gains], named)
    assert found.verdict == verdict and found.evidence.startswith(f"{len(gains)} of {named} cells run")


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [([0.02, 0.015], "supported"), ([0.02, 0.0], "undecided"), ([0.02, -0.06], "contradicted"), ([], "not run")],
)
def test_no_loss_is_beyond_the_margin(gains, verdict):
    assert no_loss([compared(gain) for gain in gains], 2, len(gains)).verdict == verdict


def test_arms_are_compared_on_their_units(records):
    # errors 0.40, 0.42, 0.44 and 0.30, 0.31, 0.35: gains 0.10, 0.11, 0.09, s = 0.01, t(0.975, 2) = 4.3027
    found = records.compare("ZINC-gcn-ssma", "ZINC-gcn-sum")
    assert (found.gain, found.gains) == (pytest.approx(0.1), (0.1, 0.11, 0.09))
    assert (found.low, found.high) == (pytest.approx(0.0752, abs=1e-4), pytest.approx(0.1248, abs=1e-4))
    assert found.test.p == pytest.approx(0.00332, abs=1e-5) and found.margin == pytest.approx(0.0042)
    # splits -0.12, 0.08, -0.28: s = 0.18037, the correction of the folds is 1/3 + 0.5
    found = records.compare("MUTAG-gcn-ssma-k2", "MUTAG-gcn-sum")
    assert found.gain == pytest.approx(-0.10667, abs=1e-5)
    assert found.high - found.gain == pytest.approx(4.30265 * 0.18037 * (1 / 3 + 0.5) ** 0.5, abs=1e-4)
    assert records.compare("MUTAG-gcn-ssma", "MUTAG-gcn-sum") is None  # 5 of 6 fits


def test_a_part_of_the_cells_decides_nothing(records):
    found = CHECKS["G1"](records)
    assert (found.verdict, found.evidence) == (
        "undecided",
        "2 of 78 cells run (6 of them esan, which this package does not have): 1 of 2 pairs better, 0 worse",
    )
    assert [one.arm for one in found.comparisons] == ["MUTAG-gcn-ssma-k2", "ZINC-gcn-ssma"]
    assert (CHECKS["B6"](records).verdict, CHECKS["B6"](records).evidence) == ("not run", "0 of 27 cells run")


def test_widths_are_compared_exactly(records):
    found = CHECKS["G3"](records)  # every made-up net has width 16
    assert found.verdict == "contradicted" and found.evidence.endswith("; 0 of 2 narrower")


def line(claim):
    (found,) = [one for one in paper.improvements() if one.claim == claim]
    return found


def vpa_study(fabric, ours):
    """All three layers of the VPA table on MUTAG: VPA at 0.5, SSMA at ``ours`` of it."""
    noise = (0.0, 0.01, -0.01)
    for layer in ("gcn", "gat", "gin"):
        for name, factor in (("vpa", 1.0), ("ssma", ours)):
            tests = {(split, 0): (0.5 + noise[split] * (1 + (name == "ssma"))) * factor for split in range(3)}
            fabric.evaluated(fabric.arm(f"MUTAG-{layer}-{name}", repeats=1), tests)
    fabric.plan()
    return records_of(fabric.results, {"MUTAG": 0.5})


@pytest.mark.parametrize(("ours", "verdict"), [(1.0785, "supported"), (1.5, "contradicted"), (0.9, "contradicted")])
def test_a_printed_improvement_is_held_against_the_interval(fabric, ours, verdict):
    found = improvement(line("IMP-VPA-MUTAG"))(vpa_study(fabric, ours))
    assert found.verdict == verdict
    assert found.evidence.startswith(f"3 of 3 layers run: ours {100 * (ours - 1):.2f} [".replace("-", "−"))
    assert found.evidence.endswith("the paper's entries for these 7.85")


def test_a_claim_of_all_cells_can_be_supported_and_contradicted(fabric):
    for aggregator, tests in (("constant", (0.40, 0.42, 0.44)), ("learned", (0.30, 0.31, 0.35))):
        for layer in ("gcn", "gat", "gin"):
            settings = {
                "aggregator": {"learn_affine": aggregator == "learned"},
                "model": {"budget": 1000},
                "training": {},
            }
            arm = fabric.arm(f"ZINC-{layer}-ssma-{aggregator}", splits=1, repeats=3, settings=settings)
            fabric.evaluated(arm, {(0, repeat): test for repeat, test in enumerate(tests)})
    fabric.plan()
    found = CHECKS["A9"](records_of(fabric.results))
    assert (found.verdict, found.evidence) == ("supported", "3 of 3 cells run: 3 of 3 pairs better, 0 worse")


def swept(fabric, values, key, dataset="MUTAG", layers=("gcn",), **fixed):
    """SSMA arms that differ in one option; ``values``: option -> test metric of split 0."""
    for layer in layers:
        for value, test in values.items():
            options = {key: value, **fixed}
            settings = {"aggregator": options, "model": {"budget": 1000}, "training": {"lr": 0.001}}
            name = f"{dataset}-{layer}-ssma-{'-'.join(map(str, options.values()))}"
            if any(arm["id"] == name for arm in fabric.arms):
                continue
            arm = fabric.arm(name, repeats=1, settings=settings)
            fabric.evaluated(arm, {(split, 0): test + shift for split, shift in enumerate((0.0, 0.01, -0.01 * len(name)))}
                             if not isinstance(test, str) else {(split, 0): test for split in range(3)})  # fmt: skip


def test_arms_that_differ_in_one_option_are_a_series(fabric):
    swept(fabric, {2: 0.5, 3: 0.6}, "kappa", selection="random")
    swept(fabric, {2: 0.5}, "kappa", selection="attention")
    fabric.plan()
    records = records_of(fabric.results)
    arms = records.ssma_arms(["MUTAG"], ["gcn"])
    assert [list(group) for group in records.series(arms, "ssma.kappa")] == [[2, 3]]
    assert [list(group) for group in records.series(arms, "ssma.selection")] == [["attention", "random"]]


def test_divergence_with_and_without_the_geometric_mean_is_counted_in_pairs(fabric):
    for layer in ("gcn", "gat"):
        swept(fabric, {"geometric": 0.8, "none": "diverged"}, "normalisation", layers=[layer])
    fabric.plan()
    found = CHECKS["P2"](records_of(fabric.results))
    # six pairs on one side: p = 2 / 64
    assert found.verdict == "supported"
    assert found.evidence == "6 pairs of fits: 6 diverged without it alone, 0 with it alone"


def test_claims_table_lists_all_with_reasons_for_what_records_cannot_decide(records):
    claims, pairs = claim_tables(records)
    assert len(claims.rows) == 114
    rows = {cells[1].text: cells for cells in claims.rows}
    assert (
        rows["T1"][0].text == "not checkable from records"
        and rows["T1"][5].text == "a property of the construction, not of trained networks"
    )
    assert rows["G1"][5].link == "table-paper-claims-pairs" and rows["B2"][5].link is None
    verdicts = [cells[0].text for cells in claims.rows]
    order = ["contradicted", "supported", "undecided", "not run", "not checkable from records"]
    assert verdicts == sorted(verdicts, key=order.index)
    assert f"{verdicts.count('undecided')} undecided, {verdicts.count('not run')} not run" in claims.caption
    (zinc,) = [cells for cells in pairs.rows if cells[1].arm == "ZINC-gcn-ssma"]
    assert [cell.text for cell in zinc] == [
        "G1, G3", "ZINC / gcn / ssma", "ZINC / gcn / sum", "MAE", "+0.1000 [+0.0752, +0.1248]", "0.0033", "3",
    ]  # fmt: skip
