"""The table and the figure of learned affine maps, from records with known maps."""

import json

import matplotlib
import pandas as pd
import pytest

from ssma.report.affine import AXIS, affine_data, affine_figure, affine_table
from ssma.report.build import build
from ssma.report.figures import save
from ssma.report.frame import collect, read_frame, write_frame
from ssma.study.lookup import read_plan

GIVEN = {"mean": 0.25, "std": 0.4, "largest": 1.0, "picture": [[0.5, 0.0], [0.5, 0.0]]}


def maps(difference, picture=0.0):
    """What a module with a 2 x 2 map tells whose entries have moved by ``difference`` on average."""
    moved = {"mean": difference, "std": difference / 2, "largest": 2 * difference, "picture": [[picture, 0], [0, 0]]}
    learned = {"mean": 0.25 + difference, "std": 0.1, "largest": 1.5, "picture": [[0.5, picture], [0.5, 0]]}
    return {"affine": {"given": GIVEN, "learned": learned, "difference": moved, "shape": [2, 2, 2]}}


@pytest.fixture
def learned(fabric):
    """Two fits with two layers each; the mean change is (0.1 + 0.3 + 0.2 + 0.6) / 4 = 0.3, given are 0.25."""
    fabric.arm("MUTAG-gcn-ssma", {AXIS: False}, splits=1)
    fabric.evaluated("MUTAG-gcn-ssma", {(0, 0): 0.8, (0, 1): 0.9})
    fabric.arm("MUTAG-gcn-ssma-learned", {AXIS: True}, splits=1)
    fabric.tuned("MUTAG-gcn-ssma-learned", [("complete", {}, [0.8])])
    fabric.evaluated("MUTAG-gcn-ssma-learned", {(0, 0): 0.8, (0, 1): 0.9})
    fits = {"t0s0": (0.9, 0.9), "e0r0": (0.1, 0.3), "e0r1": (0.2, 0.6)}
    for name, changes in fits.items():
        told = {f"blocks.{i}.conv.aggr_module": maps(one, picture=one) for i, one in enumerate(changes)}
        fabric.fit("MUTAG-gcn-ssma-learned", name, 0.8, modules=told | {"blocks.0.other": {"note": "mine"}})
    fabric.arm("MUTAG-gin-ssma-learned", {AXIS: True}, splits=1)
    cells = {"MUTAG-gcn-ssma": [False], "MUTAG-gcn-ssma-learned": [True], "MUTAG-gin-ssma-learned": [True]}
    fabric.ablation("affine", {AXIS: [False, True]}, cells)
    fabric.ablation("main", {"aggregator": ["ssma"]}, {"MUTAG-gcn-ssma": ["ssma"]})
    fabric.plan()
    return fabric.results


def test_only_evaluation_fits_have_summaries_and_only_the_first_has_pictures(learned, tmp_path):
    frame = collect(learned)
    told = frame.dropna(subset="modules")
    assert told[["arm", "stage", "repeat"]].to_numpy().tolist() == [
        ["MUTAG-gcn-ssma-learned", "evaluate", 0], ["MUTAG-gcn-ssma-learned", "evaluate", 1]
    ]  # fmt: skip
    first, second = map(json.loads, told["modules"])
    assert first["blocks.1.conv.aggr_module"] == maps(0.3, picture=0.3)
    assert second["blocks.1.conv.aggr_module"]["affine"]["difference"] == {"mean": 0.6, "std": 0.3, "largest": 1.2}
    write_frame(frame, tmp_path / "f.parquet")
    assert read_frame(tmp_path / "f.parquet")["modules"].dropna().tolist() == told["modules"].tolist()


def test_the_table_has_means_over_fits_and_layers_beside_the_papers(learned):
    table = affine_table(read_plan(learned.plan), "affine", collect(learned))
    texts = [[cell.text for cell in row] for row in table.rows]
    assert texts[0] == [
        "MUTAG", "gcn", "learn_affine=yes", "2 × 2", "0.3 ± 0.15", "0.55 ± 0.1", "0.25 ± 0.4", "1.2", "1.5", "1.2"
    ]  # fmt: skip
    assert table.rows[0][2].arm == "MUTAG-gcn-ssma-learned"
    assert texts[1][:4] == ["MUTAG", "gin", "learn_affine=yes", "no record tells"]
    assert texts[2] == [  # 1 / (4 * 91) = 0.00275, and 0.023 is 8.37 times that
        "the paper: ZINC", "gcn", "d = 31, κ = 3", "1 run", "0.023 ± 0.019", "0.026 ± 0.057", "0.00275 ± 0.0523", "8.4",
        "–", "–",
    ]  # fmt: skip


def test_an_aggregator_without_a_map_has_no_row(learned, fabric):
    fabric.arm("MUTAG-gcn-sum", splits=1)
    cells = {"MUTAG-gcn-sum": ["sum", True], "MUTAG-gcn-ssma-learned": ["ssma", True]}
    fabric.ablation("beside", {"aggregator": ["sum", "ssma"], AXIS: [True]}, cells)
    fabric.plan()
    table = affine_table(read_plan(learned.plan), "beside", collect(learned))
    assert [row[2].text for row in table.rows] == ["ssma, learn_affine=yes", "d = 31, κ = 3"]


def test_an_ablation_without_the_axis_has_neither(learned):
    plan, frame = read_plan(learned.plan), collect(learned)
    assert affine_table(plan, "main", frame) is None
    assert affine_figure(plan, "main", frame) is None
    bare = frame.drop(columns="modules")
    assert affine_figure(plan, "affine", bare) is None
    assert affine_table(plan, "affine", bare).rows[0][3].text == "no record tells"


def test_the_figure_shows_the_first_fits_layers_on_average(learned):
    plan, frame = read_plan(learned.plan), collect(learned)
    data = affine_data(plan, "affine", frame)
    assert data.to_numpy().tolist() == [
        ["MUTAG · gcn", 0, 0, 0.5, 0.5, 0.2], ["MUTAG · gcn", 0, 1, 0.0, 0.2, 0.0],
        ["MUTAG · gcn", 1, 0, 0.5, 0.5, 0.0], ["MUTAG · gcn", 1, 1, 0.0, 0.0, 0.0],
    ]  # fmt: skip
    figure = affine_figure(plan, "affine", frame)
    images = [ax.images[0] for ax in figure.axes if ax.images]
    assert [image.get_array().tolist() for image in images] == [
        [[0.5, 0], [0.5, 0]], [[0.5, 0.2], [0.5, 0]], [[0.2, 0], [0, 0]]
    ]  # fmt: skip
    assert {image.get_clim() for image in images} == {(0, 0.5)}


def test_the_figure_depends_on_nothing_that_was_set_or_drawn_before(learned, tmp_path):
    plan, frame, found = read_plan(learned.plan), collect(learned), []
    for own in ({}, {"text.usetex": True, "font.size": 20, "xtick.labelsize": 20}):
        with matplotlib.rc_context(own):
            figure = affine_figure(plan, "affine", frame)
            found.append([path.read_bytes() for path in save(figure, tmp_path / str(len(own)), "map")])
    assert found[0] == found[1]


def test_maps_too_large_for_a_record_have_numbers_and_no_figure(learned, fabric):
    for repeat in range(2):
        told = maps(0.1)
        for name in ("given", "learned", "difference"):
            told["affine"][name] = told["affine"][name] | {"picture": None}
        fabric.fit("MUTAG-gcn-ssma-learned", f"e0r{repeat}", 0.8, modules={"aggr": told})
    plan, frame = read_plan(learned.plan), collect(learned)
    assert affine_figure(plan, "affine", frame) is None
    assert affine_table(plan, "affine", frame).rows[0][4].text == "0.1 ± 0.05"


def test_the_page_has_table_figure_and_its_data(learned, tmp_path):
    build(learned, tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Learned affine map against the given one" in page and 'id="affine-map:table"' in page
    for kind in ("png", "pdf", "csv"):
        assert (tmp_path / "out" / "figures" / f"affine-map.{kind}").exists()
    data = pd.read_csv(tmp_path / "out" / "figures" / "affine-map.csv")
    assert data["difference"].tolist() == [0.2, 0, 0, 0]
    assert not (tmp_path / "out" / "figures" / "main-map.png").exists()
