import csv
import io
import re
import shutil

import pandas
import pytest

from ssma.errors import StudyError
from ssma.report.build import build
from ssma.report.drawn import caption, data_csv, lines_of
from ssma.report.encoding import encode
from ssma.report.figures import draw, save
from ssma.report.frame import collect
from ssma.report.kept import split_sizes
from ssma.report.svg import TIP, inline_svg
from ssma.report.tables import comparison
from ssma.study.lookup import read_plan
from ssma.study.part import baselines
from ssma.study.records import write_record


@pytest.fixture
def across(fabric):
    """A sum and SSMA over kappa in one ablation, and SSMA alone in another."""
    fabric.arm("MUTAG-gcn-sum", repeats=1)
    fabric.evaluated("MUTAG-gcn-sum", {(0, 0): 0.6, (1, 0): 0.7, (2, 0): 0.8})
    for kappa in (2, 3):
        fabric.arm(f"MUTAG-gcn-ssma-{kappa}", {"ssma.kappa": kappa}, repeats=1)
        fabric.evaluated(f"MUTAG-gcn-ssma-{kappa}", {(split, 0): 0.7 + 0.01 * kappa for split in range(3)})
    alone = {f"MUTAG-gcn-ssma-{kappa}": [kappa] for kappa in (2, 3)}
    fabric.ablation("alone", {"ssma.kappa": [2, 3]}, alone)
    beside = {arm: ["ssma", *value] for arm, value in alone.items()} | {"MUTAG-gcn-sum": ["sum", 2]}
    fabric.ablation("beside", {"aggregator": ["sum", "ssma"], "ssma.kappa": [2, 3]}, beside)
    sum_at_3 = {"aggregator": "sum", "ssma.kappa": 3}
    fabric.ablations["beside"]["cells"].append(
        {"arm": "MUTAG-gcn-sum", "dataset": "MUTAG", "layer": "gcn", "point": sum_at_3}
    )
    fabric.ablation("main", {"aggregator": ["sum", "ssma"]}, {"MUTAG-gcn-sum": ["sum"], "MUTAG-gcn-ssma-2": ["ssma"]})
    fabric.plan()
    return fabric.results


@pytest.mark.parametrize("ablation", ["alone", "beside", "main"])
def test_the_sum_is_a_dashed_line_at_its_mean_with_its_deviation(across, ablation):
    from matplotlib import pyplot

    plan, frame = read_plan(across.plan), collect(across)
    encoding = encode(plan, ablation)
    (line,) = lines_of(plan["ablations"][ablation]["axes"], baselines(plan, ablation), encoding, encoding.cells)
    assert (line.name, line.single, line.level) == ("sum", "MUTAG-gcn-sum", None)
    figure = draw(plan, ablation, frame)
    (ax,) = figure.axes
    dashed = [item for item in ax.lines if item.get_linestyle() == "--"]
    assert [list(item.get_ydata()) for item in dashed] == [[pytest.approx(70.0)] * 2]
    (band,) = [item for item in ax.patches if item.get_alpha() == 0.07]
    assert (band.get_y(), band.get_height()) == (pytest.approx(60.0), pytest.approx(20.0))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["sum (baseline)"]
    assert "Dashed: sum, with the same network and training" in caption(plan, ablation, frame)
    pyplot.close(figure)


def test_an_axis_that_does_not_act_on_the_sum_gives_it_one_row_and_no_panel(across):
    plan, frame = read_plan(across.plan), collect(across)
    encoding = encode(plan, "beside")
    assert (encoding.x, encoding.hue, encoding.rest, len(encoding.cells)) == ("ssma.kappa", None, [], 2)
    table = comparison(plan, "beside", frame)
    assert [[cell.text for cell in row[:3]] for row in table.rows] == [
        ["gcn", "sum", "–"], ["gcn", "ssma", "2"], ["gcn", "ssma", "3"]
    ]  # fmt: skip


def test_a_baseline_of_each_place_is_drawn_from_place_to_place(fabric):
    for width, test in ((8, 0.5), (16, 0.6)):
        for name in ("sum", "ssma"):
            settings = {"aggregator": {}, "model": {"hidden_channels": width}, "training": {}}
            fabric.arm(f"MUTAG-gcn-{name}-{width}", repeats=1, settings=settings)
            fabric.evaluated(f"MUTAG-gcn-{name}-{width}", {(split, 0): test for split in range(3)})
    cells = {f"MUTAG-gcn-ssma-{width}": [width] for width in (8, 16)}
    fabric.ablation("width", {"model.hidden_channels": [8, 16]}, cells)
    plan = fabric.plan()
    encoding = encode(plan, "width")
    (line,) = lines_of(plan["ablations"]["width"]["axes"], baselines(plan, "width"), encoding, encoding.cells)
    assert line.arms == {8.0: "MUTAG-gcn-sum-8", 16.0: "MUTAG-gcn-sum-16"} and line.single is None
    (ax,) = draw(plan, "width", collect(fabric.results)).axes
    assert [list(item.get_ydata()) for item in ax.lines if item.get_linestyle() == "--"] == [[50.0, 60.0]]


def test_the_data_behind_a_figure_is_what_it_shows(across):
    plan, frame = read_plan(across.plan), collect(across)
    rows = list(csv.DictReader(io.StringIO(data_csv(plan, "alone", frame))))
    assert [(row["what"], row["ssma.kappa"], row["arm"]) for row in rows] == [
        ("arm", "2", "MUTAG-gcn-ssma-2"), ("arm", "3", "MUTAG-gcn-ssma-3"), ("baseline sum", "", "MUTAG-gcn-sum")
    ]  # fmt: skip
    base = rows[2]
    assert [float(base[key]) for key in ("mean", "std", "low", "high")] == pytest.approx([70, 10, 60, 80])
    assert (base["metric"], base["units"], base["fits"], base["planned"]) == ("accuracy in %", "3", "3", "3")
    frame.loc[frame["arm"] == "MUTAG-gcn-ssma-3", "status"] = "failed"
    _, failed, _ = csv.DictReader(io.StringIO(data_csv(plan, "alone", frame.copy())))
    assert (failed["metric"], failed["mean"], failed["reason"]) == ("accuracy in %", "", "failed")  # one unit a column
    beside = list(csv.DictReader(io.StringIO(data_csv(plan, "beside", frame))))
    assert [row["ssma.kappa"] for row in beside] == ["2", "3", ""]


def test_settings_of_the_data_behind_a_figure_are_numbers(fabric):
    budgets = (3000, 12000, 1_000_000, 1_500_000)
    cells = {fabric.arm(f"MUTAG-gcn-sum-{budget}", splits=1, repeats=1): [budget, 1e-4, True] for budget in budgets}
    axes = {"model.budget": [*budgets], "training.lr": [1e-4], "model.residual": [True]}
    fabric.ablation("sizes", axes, cells)
    read = pandas.read_csv(io.StringIO(data_csv(fabric.plan(), "sizes", collect(fabric.results))))
    assert read["model.budget"].tolist() == [*budgets] and read["training.lr"].tolist() == [1e-4] * 4
    assert read["model.residual"].tolist() == ["yes"] * 4


def test_the_paper_and_n_stand_in_the_caption(across):
    plan, frame = read_plan(across.plan), collect(across)
    assert "± over 3 splits" in caption(plan, "alone", frame) and "The paper" not in caption(plan, "alone", frame)
    plan["config"] = {"ablations": {"alone": {"claim": "more is not better (appendix E.1)."}}}
    assert caption(plan, "alone", frame).endswith("The paper: more is not better (appendix E.1).")


def test_hovering_tells_value_number_and_arm(across):
    svg = inline_svg(draw(read_plan(across.plan), "alone", collect(across)), "a_name")
    titles = re.findall(r"<title>([^<]*)</title>", svg)
    assert titles == [
        "70.0 ± 10.0; n = 3 of 3 fits; MUTAG / gcn / sum; MUTAG-gcn-sum",
        "72.0 ± 0.0; n = 3 of 3 fits; MUTAG / gcn / ssma / 2; MUTAG-gcn-ssma-2",
        "73.0 ± 0.0; n = 3 of 3 fits; MUTAG / gcn / ssma / 3; MUTAG-gcn-ssma-3",
    ]
    assert TIP not in svg and "http" not in svg and "<script" not in svg and "metadata" not in svg
    ids, used = re.findall(r' id="([^"]+)"', svg), re.findall(r'(?:href="#|url\(#)([^")]+)', svg)
    assert len(ids) == len(set(ids)) and set(used) <= set(ids) and all(name.startswith("a-name:") for name in ids)
    paths = "".join(re.findall(r' d="([^"]+)"', svg))
    assert re.search(r"\d\.\d\d ", paths) and not re.search(r"\.\d{3}", paths)


def test_a_dollar_in_a_value_begins_no_formula(fabric, tmp_path):
    values = [r"$\frac{$", "US$"]
    for number, value in enumerate(values):
        fabric.arm(f"MUTAG-gcn-mine-{number}", {"mine.p": value}, repeats=1)
        fabric.evaluated(f"MUTAG-gcn-mine-{number}", {(split, 0): 0.7 for split in range(3)})
    fabric.ablation("prices", {"mine.p": values}, {f"MUTAG-gcn-mine-{number}": [values[number]] for number in (0, 1)})
    figure = draw(fabric.plan(), "prices", collect(fabric.results))
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == values
    assert r"$\frac{$" in inline_svg(figure, "prices")
    assert [path.name for path in save(figure, tmp_path, "prices")] == ["prices.png", "prices.pdf"]


def test_a_report_makes_itself_again_from_what_it_keeps(study, tmp_path):
    out = tmp_path / "out"
    build(study, out)
    kept = type(study)(out)
    assert [split["test"] for split in split_sizes(kept, "MUTAG-1")["splits"]] == [2, 2, 2]
    first = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert out / "figures/main.csv" in first and out / "arms/MUTAG-gcn-sum.html" in first
    for path in [*out.glob("figures/*"), *out.glob("tables/*.csv"), out / "index.html"]:
        path.unlink()
    build(kept, out)
    again = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert {path.name for path in first if first[path] != again.get(path)} == set()

    assert 'href="arms/MUTAG-gcn-sum.html"' in (out / "index.html").read_text()
    shutil.rmtree(out / "arms")
    build(kept, out)
    assert 'href="arms/' not in (out / "index.html").read_text() and not (out / "arms").exists()


def test_one_ablation_alone_is_a_report_of_its_arms_and_their_baselines(study, tmp_path):
    out = tmp_path / "one"
    build(study, out, "kappa_slots")
    html = (out / "index.html").read_text()
    assert "4 arms" in html and sorted(path.stem for path in (out / "arms").iterdir()) == [
        "MUTAG-gcn-ssma", "MUTAG-gcn-ssma-k2", "MUTAG-gcn-ssma-k4", "MUTAG-gcn-sum"
    ]  # fmt: skip
    assert not (out / "figures/main.png").exists() and 'id="kappa_slots"' in html and 'id="main"' not in html
    for folder, ablation in ((tmp_path / "else", None), (out, "kappa_slots")):
        with pytest.raises(StudyError, match="a report without the records of fits, .* give --out"):
            build(type(study)(out), folder, ablation)


def test_an_ablation_that_is_not_there_is_named(study, tmp_path):
    with pytest.raises(StudyError, match="no ablation 'kappa' in this plan; did you mean 'kappa_slots'"):
        build(study, tmp_path / "one", "kappa")


@pytest.mark.usefixtures("no_images")
def test_a_claim_reaches_the_page(study, tmp_path):
    plan = read_plan(study.plan)
    write_record(
        study.plan,
        plan | {"config": plan["config"] | {"ablations": {"main": {"claim": "always better (section 5.2)."}}}},
    )
    build(study, tmp_path / "out")
    assert "The paper: always better (section 5.2)." in (tmp_path / "out/index.html").read_text()


def test_long_names_stay_on_the_figure_and_leave_the_panels_their_room(fabric):
    names = ["sum", *(f"my_models.aggregators.Gated{kind}" for kind in ("Sum", "Mean", "Max", "Min", "Product"))]
    cells = {}
    for name in names:
        for layers in (2, 3):
            arm = fabric.arm(f"MUTAG-gcn-{name}-{layers}", repeats=1)
            fabric.evaluated(arm, {(split, 0): 0.7 + 0.01 * split for split in range(3)})
            cells[arm] = [name, layers]
    fabric.ablation("hue", {"aggregator": names, "model.num_layers": [2, 3]}, cells)
    fabric.ablation("x", {"aggregator": names}, {arm: [name] for arm, (name, layers) in cells.items() if layers == 2})
    plan, frame = fabric.read()
    for ablation in ("hue", "x"):
        figure = draw(plan, ablation, frame)
        figure.draw_without_rendering()
        whole = figure.bbox.extents
        boxes = [text.get_window_extent() for legend in figure.legends for text in legend.get_texts()]
        boxes += [label.get_window_extent() for ax in figure.axes for label in ax.get_xticklabels()]
        assert all(box.x0 >= whole[0] and box.x1 <= whole[2] and box.y0 >= whole[1] for box in boxes)
        assert all(ax.get_window_extent().height > figure.dpi for ax in figure.axes)  # an inch
