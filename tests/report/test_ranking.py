from itertools import pairwise

import pytest

from ssma.report.axes import axis_table
from ssma.report.figures import save
from ssma.report.frame import collect
from ssma.report.ranking import TREATED, diagram, diagram_caption, rank, ranks_table
from ssma.study.lookup import read_plan

PLACES = ("MUTAG-gcn", "MUTAG-gin", "ZINC-gcn")
BETTER = {"MUTAG": {"sum": 0.7, "mean": 0.8, "ssma": 0.9}, "ZINC": {"sum": 0.5, "mean": 0.4, "ssma": 0.3}}


@pytest.fixture
def three(fabric):
    """Three arms on three places, of which ssma is the best and sum the worst throughout."""
    cells = {}
    for place in PLACES:
        for aggregator in ("sum", "mean", "ssma"):
            arm = fabric.arm(f"{place}-{aggregator}", splits=2, repeats=1)
            test = BETTER[place.split("-")[0]][aggregator]
            fabric.evaluated(arm, {(0, 0): test - 0.01, (1, 0): test + 0.01})
            cells[arm] = [aggregator]
    fabric.ablation("main", {"aggregator": ["sum", "mean", "ssma"]}, cells)
    fabric.plan()
    return fabric


def test_places_are_data_sets_and_layers(three):
    plan = read_plan(three.results.plan)
    ranking = rank(plan, "main", collect(three.results))
    assert ranking.places == [("MUTAG", "gcn"), ("MUTAG", "gin"), ("ZINC", "gcn")]
    assert ranking.found.average.tolist() == [3.0, 2.0, 1.0]
    table = ranks_table("main", ranking)
    assert [[cell.text for cell in row][:3] for row in table.rows] == [
        ["ssma", "1.00", "3"], ["mean", "2.00", "3"], ["sum", "3.00", "3"],
    ]  # fmt: skip
    assert {row[1].link for row in table.rows} == {"main:table"}  # the comparison has their means and arms
    p = [row[3].text for row in table.rows]
    assert p[0] == "–" and float(p[1]) > 0.05 > float(p[2])
    # chi squared 6 with 2 degrees of freedom has p = exp(-3); q(0.05, 3) = 2.343
    assert "chi² 6.00, 2 degrees of freedom, p 0.0498" in table.caption
    assert f"further apart than {2.343 * (12 / 18) ** 0.5:.2f} differ" in table.caption
    assert (
        "The places are of 2 data sets; layers of one" in table.caption
        and "MUTAG gcn, MUTAG gin, ZINC gcn" in table.caption
    )


def test_a_place_with_a_gap_is_named_and_stops_the_tests(three):
    three.evaluated("MUTAG-gin-sum", {(0, 0): 0.69, (1, 0): "diverged"})
    plan, frame = read_plan(three.results.plan), collect(three.results)
    ranking = rank(plan, "main", frame)
    assert (ranking.found.places, ranking.found.average.tolist()) == (2, [3.0, 2.0, 1.0])
    table = ranks_table("main", ranking)
    assert table.notes == ["Not ranked, since fits are not ok: MUTAG gin."]
    assert "Friedman's test: not testable: fits are lacking at 1 of 3 places." in table.caption
    assert {row[3].text for row in table.rows} == {"not testable"}
    assert diagram(plan, "main", ranking) is None
    for missing in ("drop", "worst"):
        plan["config"]["report"] = {"missing": missing}
        again = rank(plan, "main", frame)
        assert again.found.places == 3 and again.found.friedman.p == pytest.approx(0.0498, abs=1e-4)
        assert TREATED[missing] in diagram_caption(again) and f"(report.missing: {missing})" in TREATED[missing]
    assert "report.missing" not in diagram_caption(ranking)
    three.evaluated("MUTAG-gin-sum", {(0, 0): "diverged", (1, 0): "diverged"})
    plan["config"]["report"] = {"missing": "drop"}
    left = rank(plan, "main", collect(three.results))
    assert diagram_caption(left).endswith(" Not ranked, since fits are not ok: MUTAG gin.")


def test_two_arms_or_one_place_are_not_ranked(study):
    plan, frame = read_plan(study.plan), collect(study)
    assert len(plan["ablations"]["main"]["axes"]["aggregator"]) == 2 and rank(plan, "main", frame) is None
    assert len(plan["ablations"]["kappa_slots"]["cells"]) == 3 and rank(plan, "kappa_slots", frame) is None


def test_an_arm_that_a_setting_does_not_change_is_ranked_once(three):
    axes = {"aggregator": ["sum", "mean", "ssma"], "ssma.kappa": [2, 3]}
    for cell in list(three.ablations["main"]["cells"]):
        cell["point"]["ssma.kappa"] = 2
        three.ablations["main"]["cells"].append(cell | {"point": cell["point"] | {"ssma.kappa": 3}})
    three.ablations["main"]["axes"] = axes
    three.plan()
    ranking = rank(read_plan(three.results.plan), "main", collect(three.results))
    assert [(point["aggregator"], point["ssma.kappa"]) for point in ranking.points] == [
        ("sum", 2),
        ("mean", 2),
        ("ssma", 2),
    ]
    assert ranking.found.average.tolist() == [3.0, 2.0, 1.0]
    rows = ranks_table("main", ranking).rows  # a sum has no slots
    assert [[cell.text for cell in row][:3] for row in rows] == [
        ["ssma", "2", "1.00"], ["mean", "–", "2.00"], ["sum", "–", "3.00"],
    ]  # fmt: skip
    assert axis_table(read_plan(three.results.plan), "main", collect(three.results), {}) is None


def test_the_diagram_shows_ranks_and_the_critical_difference(three, tmp_path):
    plan = read_plan(three.results.plan)
    ranking = rank(plan, "main", collect(three.results))
    figure = diagram(plan, "main", ranking)
    (ax,) = figure.axes
    assert [text.get_text().strip() for text in ax.texts] == ["ssma (1.00)", "mean (2.00)", "(3.00) sum", "CD = 1.91"]
    assert ax.get_xlim() == (1, 3) and list(ax.get_xticks()) == [1, 2, 3] and figure.get_figwidth() == 3.5
    bars = [line for line in ax.lines if len(set(line.get_ydata())) == 1]
    (difference,) = [line for line in bars if line.get_ydata()[0] > 0]
    assert list(difference.get_xdata()) == [1, pytest.approx(1 + 2.343 * (12 / 18) ** 0.5, abs=1e-3)]
    joined = [line.get_xdata() for line in bars if line is not difference]
    assert sorted(list(places) for places in joined) == [[2.0, 1.0], [3.0, 2.0]]  # in the order of the arms, always
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place])
    edge = figure.bbox
    assert all(edge.x0 <= box.x0 and box.x1 <= edge.x1 and edge.y0 <= box.y0 and box.y1 <= edge.y1 for box in boxes)
    first, second = (
        [path.read_bytes() for path in save(diagram(plan, "main", ranking), tmp_path / folder, "r")] for folder in "ab"
    )
    assert first == second


def test_long_names_and_many_ranks_fit_the_diagram(fabric):
    for ablation, names in (
        ("long", ["sum", "my_models.aggregators.GatedMean", "my_models.aggregators.GatedSumOfSquares"]),
        ("many", ["sum", *(f"short{number}" for number in range(14))]),
    ):
        cells = {}
        for layer in (f"l{number}" for number in range(16)):
            for number, name in enumerate(names):
                cells[fabric.arm(f"MUTAG-{layer}-{name}-{ablation}", splits=2, repeats=1)] = [name]
                tests = {(split, 0): 0.5 + 0.01 * number + 0.001 * split for split in range(2)}
                fabric.evaluated(f"MUTAG-{layer}-{name}-{ablation}", tests)
        fabric.ablation(ablation, {"aggregator": names}, cells)
    plan, frame = fabric.read()
    for ablation in ("long", "many"):
        figure = diagram(plan, ablation, rank(plan, ablation, frame))
        labels = [text.get_window_extent() for text in figure.axes[0].texts]
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in labels)
        ticks = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
        assert all(left.x1 < right.x0 for left, right in pairwise(ticks))
