import io
import os
import re
import subprocess
import sys

import pytest

from ssma.errors import StudyError
from ssma.report.build import build
from ssma.report.encoding import encode
from ssma.report.figures import draw, save
from ssma.report.frame import collect, read_frame, write_frame
from ssma.report.kept import SIZES, forget
from ssma.report.kept import test_train_ratio as ratio_of
from ssma.report.svg import inline_svg
from ssma.study.ids import slug
from ssma.study.lookup import open_results, read_plan
from ssma.study.paths import Results
from ssma.study.records import read_record, write_record


def test_a_study_becomes_a_page_with_everything_in_it(study, tmp_path):
    out = tmp_path / "out"
    write_frame(collect(study), study.frame)
    build(study, out)
    html = (out / "index.html").read_text()
    assert not re.search(r"https?://|<script|<link", html)
    for name in ("main", "kappa_slots"):
        assert f'id="{slug(name)}:' in html and (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (out / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    for path in re.findall(r'href="([^#"]+)"', html):
        assert (out / path).is_file()
    for target in re.findall(r'href="#([^"]+)"', html):
        assert f'id="{target}"' in html
    assert "A study &amp; its &lt;tests&gt;" in html
    assert "<th>" not in html and html.count('<th scope="col">') > 50  # for readers with a keyboard, or by ear
    assert html.count('class="scroll"') == html.count('tabindex="0"') > 5
    assert html.count("<svg") == len(re.findall(r'<svg [^>]*aria-label="Figure [\w-]+, ', html)) == 3
    arm = (out / "arms" / "MUTAG-gcn-sum.html").read_text()
    assert 'name="viewport"' in arm and "pre-wrap" in arm  # on a phone
    result = html.index(": Differences from sum that hold after Holm: ")
    assert result < html.index("Read this first")  # and again on top of its section
    assert html.index('<h2 id="main">') < html.index("<p><b>Differences from sum that hold") < html.index("<figure>")
    for text in (
        "85.0 ± 5.0 (5/6)",
        "failed: no valid trial",
        "missing",
        "unequal treatment",
        "test-selected (biased)",
    ):
        assert text in html
    assert "Other code than the installed one" in html and "node labels (one-hot)" in html and "not prepared" in html
    assert "evaluation.json" in html and "2026-01-01T12:00:00+00:00" in html
    assert "[−0.1248, −0.0752]" in (out / "tables" / "main-paired.md").read_text()
    assert "at 1 of 6 splits and seeds a fit is not ok" in html
    header, first = (out / "tables" / "main.csv").read_text().splitlines()[:2]
    assert "MUTAG (accuracy in % ↑): low" in header
    low, high = map(float, first.split(",")[6:8])
    assert f"[{low:.1f}, {high:.1f}]" in html and 72 <= low < 80.7 < high <= 88
    assert len(read_frame(out / "records.parquet")) == len(collect(study))


@pytest.mark.usefixtures("no_images")
def test_a_plan_without_records_is_a_report_of_missing_cells(study, tmp_path):
    bare = type(study)(tmp_path / "bare")
    write_record(bare.plan, read_plan(study.plan))
    build(bare, tmp_path / "out")
    table = (tmp_path / "out" / "tables" / "main.csv").read_text().splitlines()
    assert table == ["layer,aggregator,MUTAG,ZINC", "gcn,sum,missing,missing", "gcn,ssma,missing,missing",
                     "gin,sum,missing,–", "gin,ssma,missing,–"]  # fmt: skip
    assert "0 of 42 planned evaluation fits ok" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize("protocol", [None, "paper"])
def test_the_study_file_on_the_page_does_not_pass_defaults_for_what_a_protocol_made_of_them(fabric, tmp_path, protocol):
    plan = fabric.plan()
    plan["config"]["protocol"] = protocol
    write_record(fabric.results.plan, plan)
    build(fabric.results, tmp_path / "out")
    told = re.search(r"<summary>(The study file.*?)</summary>", (tmp_path / "out" / "index.html").read_text(), re.S)
    replaced = "; protocol\npaper replaces these defaults, and an arm's page has what it was run with"
    assert told[1] == "The study file, with defaults where it says nothing" + (replaced if protocol else "")


def test_a_plan_without_arms_is_a_page_too(fabric, tmp_path):
    fabric.plan()
    build(fabric.results, tmp_path / "out")
    html = (tmp_path / "out" / "index.html").read_text()
    assert "0 arms" in html
    assert "No arm of this study bears on a claim of the paper." in html and 'id="paper-claims:table"' not in html
    assert len((tmp_path / "out" / "tables" / "paper" / "claims.csv").read_text().splitlines()) == 1 + 114


def files_of(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_what_left_the_study_leaves_its_report(study, tmp_path):
    out, plan = tmp_path / "out", read_plan(study.plan)
    data = {"other": {"id": "other-1", "label": "other", "spec": {"source": "zinc"}, "splits": {"scheme": "official"}}}
    write_record(study.plan, plan | {"datasets": plan["datasets"] | data})
    card = read_record(next(study.root.glob("data/*/card.json")))
    write_record(study.data("other-1") / "card.json", card | {"label": "other"})
    build(study, out)
    own = {"tables/mine.csv", "figures/main-mine.png"}
    for name in own:
        (out / name).touch()
    gone = {
        "tables/kappa_slots-axis.tex",
        "figures/kappa_slots.png",
        "arms/MUTAG-gcn-ssma-k4.html",
        "data/other-1/card.json",
    }
    assert gone <= files_of(out)
    del plan["ablations"]["kappa_slots"]
    plan["arms"] = [arm for arm in plan["arms"] if not arm["id"].endswith(("k2", "k4"))]
    write_record(study.plan, plan)
    build(study, out)
    build(study, tmp_path / "new")
    assert files_of(out) - own == files_of(tmp_path / "new")
    assert own < files_of(out)


@pytest.mark.usefixtures("no_images")
def test_no_part_of_the_page_has_the_id_of_another(study, fabric, tmp_path):
    names = {"main-1", "kappa_slots-2", "table-main", "main-table", "table", "0", "MUTAG-gcn-sum"}
    fabric.ablations |= dict.fromkeys(names, fabric.ablations["main"])
    fabric.plan()
    build(study, tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 50
    assert names <= set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)


def test_a_frame_older_than_the_plan_is_refused(study, tmp_path):
    write_frame(collect(study).query("dataset == 'MUTAG'"), study.frame)
    with pytest.raises(StudyError, match=r"ZINC-gcn-ssma.*collect again"):
        build(study, tmp_path / "out")


@pytest.mark.usefixtures("no_images")
def test_a_frame_older_than_the_records_is_collected_again(study, tmp_path):
    frame = collect(study)
    write_frame(frame.assign(selection="test"), study.frame)
    rows = []
    for seconds in (0, -60):
        newest = max(path.stat().st_mtime for path in study.root.glob("arms/*/*.json")) + seconds
        os.utime(study.frame, (newest, newest))
        build(study, tmp_path / "out")
        rows.append(set(read_frame(tmp_path / "out/records.parquet")["selection"]))
    assert rows == [{"test"}, set(frame["selection"])]


@pytest.mark.usefixtures("no_images")
def test_a_record_that_was_deleted_is_missing_in_a_report_that_is_made_by_hand(study, tmp_path):
    frame = collect(study)
    write_frame(frame, study.frame)
    deleted = frame.query("arm == 'ZINC-gcn-sum' and stage == 'evaluate'")["fit"].iloc[0]
    study.fit(deleted).unlink()
    build(study, tmp_path / "out")
    shown = read_frame(tmp_path / "out/records.parquet").query("fit == @deleted")
    assert set(shown["status"]) == {"missing"} and shown["test"].isna().all()
    assert "(2/3)" in (tmp_path / "out/tables/main.md").read_text()
    assert set(frame.query("fit == @deleted")["status"]) == {"ok"}


@pytest.mark.usefixtures("no_images")
def test_a_page_among_the_results_links_to_what_is_there_and_keeps_their_table_of_all_records(study):
    build(study, study.root)
    links = set(re.findall(r'href="([^#"]+)"', (study.root / "index.html").read_text()))
    gone = {link for link in links if not (study.root / link).is_file()}
    assert "records.parquet" in links and all(link.endswith((".png", ".pdf")) for link in gone)
    build(study, study.root, "kappa_slots")
    assert len(read_frame(study.frame)) == len(collect(study))


def test_a_study_of_which_no_fit_ran_gets_no_report_among_its_results(study, tmp_path):
    """With a page and a table of all records in it the folder would be a report, in which no job runs."""
    bare = Results(tmp_path / "bare")
    write_record(bare.plan, read_plan(study.plan))
    with pytest.raises(StudyError, match=r"bare: holds no records of fits, .* give another folder to --out"):
        build(bare, bare.root)
    assert files_of(bare.root) == {"plan.json"} and open_results(bare.plan)[1] == bare


@pytest.mark.parametrize("kind", ["fit", "data"])  # a study of which some fits ran, and one that is prepared
def test_the_results_of_another_study_keep_their_plan(study, tmp_path, kind):
    other = Results(tmp_path / "other")
    write_record(other.plan, read_plan(study.plan) | {"study": "other"})
    write_record(other.fit("0a") if kind == "fit" else other.data("d") / "splits.json", {"id": "0a"})
    with pytest.raises(StudyError, match=r"other: is another results folder, .* give another folder to --out"):
        build(study, other.root)
    assert read_plan(other.plan)["study"] == "other" and len(files_of(other.root)) == 2


def test_what_is_chosen_by_the_test_metric_is_marked_wherever_it_appears(fabric, tmp_path):
    tests = {"sum": (0.5, 0.6, 0.52), "max": (0.4, 0.42, 0.5), "ssma-2": (0.6, 0.67, 0.74), "ssma-3": (0.4, 0.6, 0.8)}
    places = ("MUTAG-gcn", "MUTAG-gin")
    for arm, values in {f"{place}-{name}": values for place in places for name, values in tests.items()}.items():
        fabric.arm(arm, repeats=1, selection="test" if "ssma" in arm else "none")
        fabric.evaluated(arm, {(split, 0): value for split, value in enumerate(values)})
    cells = {f"{place}-{name}": [name.partition("-")[0]] for place in places for name in list(tests)[:3]}
    fabric.ablation("main", {"aggregator": ["sum", "max", "ssma"]}, cells)
    fabric.ablation("slots", {"ssma.kappa": [2, 3]}, {f"{p}-ssma-{k}": [k] for p in places for k in (2, 3)})
    fabric.plan()
    fabric.card()
    build(fabric.results, tmp_path)
    told = "Warning: † biased: chosen by the test metric, as the study asks for "
    tables = {path.stem: path.read_text() for path in (tmp_path / "tables").rglob("*.md")}
    assert {"main", "main-paired", "main-ranks", "slots", "slots-paired", "slots-axis", "arms"} <= tables.keys()
    for name, text in tables.items():
        assert told in text or name == "selection_bias", name
    html = (tmp_path / "index.html").read_text()
    assert html.index(told) < html.index("Read this first")
    found = re.search(r"MUTAG, gcn: of 3 settings the best is ssma, accuracy in % 67.0 ± 7.0 (.*)", html)[1]
    assert re.fullmatch(
        r"\(3 fits\) †; against sum: max [^†]*, not told apart; ssma [^†]*, not told apart †\..*", found
    )


def test_axes_show_neither_diverged_nor_infinite_values(study):
    from matplotlib import pyplot

    figure = draw(read_plan(study.plan), "kappa_slots", collect(study))
    (ax,) = figure.axes
    assert 50 < ax.get_ylim()[0] < ax.get_ylim()[1] < 100
    assert [text.get_text() for text in ax.texts] == ["× failed"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["2", "3", "4"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("kappa (neighbour slots)", "test accuracy in % ↑")
    note = figure.get_supxlabel().replace("\n", " ")
    assert "kappa=4 (6 of 6 fits: diverged)" in note and "kappa=3 (1 of 6 fits: failed or missing)" in note
    pyplot.close(figure)


def test_a_split_that_the_study_does_not_use_does_not_count_in_the_ratio_of_test_and_training_part(tmp_path):
    results = Results(tmp_path)
    assert ratio_of(results, {"id": "MUTAG-1", "use": 2}) is None
    sizes = [{"train": 152, "test": 18}, {"train": 144, "test": 18}, {"train": 144, "test": 26}]
    write_record(results.data("MUTAG-1") / SIZES, {"kind": "split sizes", "splits": sizes})
    assert ratio_of(results, {"id": "MUTAG-1", "use": 1}) == pytest.approx(18 / 152)
    assert ratio_of(results, {"id": "MUTAG-1", "use": 3}) == pytest.approx((18 / 152 + 18 / 144 + 26 / 144) / 3)


def test_figures_are_the_same_bytes_every_time(study, tmp_path):
    plan, frame = read_plan(study.plan), collect(study)
    first, second = (
        [path.read_bytes() for path in save(draw(plan, "main", frame), tmp_path / folder, "main")] for folder in "ab"
    )
    assert first == second
    assert b"CreationDate" not in first[1]


def test_figures_are_drawn_once_for_each_format_and_as_savefig_draws_them(study, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    plan, frame, draws, once = read_plan(study.plan), collect(study), [], Figure.draw
    figure, twice, found = draw(plan, "main", frame), draw(plan, "main", frame), []
    for kind, without in (("svg", "Date"), ("png", "Software"), ("pdf", "CreationDate")):
        buffer = io.BytesIO()
        twice.savefig(buffer, format=kind, metadata={without: None}, **({} if kind == "svg" else {"dpi": 150}))
        found.append(buffer.getvalue())
    monkeypatch.setattr(Figure, "draw", lambda self, renderer: draws.append(self) or once(self, renderer))
    inline_svg(figure, "main")
    paths = save(figure, tmp_path, "main")
    assert draws == [figure] * 3
    assert [path.read_bytes() for path in paths] == found[1:]


def test_a_matplotlibrc_changes_no_figure(study, tmp_path):
    import matplotlib

    plan, frame, found = read_plan(study.plan), collect(study), []
    for folder, own in (("a", {}), ("b", {"text.usetex": True, "savefig.bbox": "tight", "font.family": "monospace"})):
        with matplotlib.rc_context(own):
            found.append([path.read_bytes() for path in save(draw(plan, "main", frame), tmp_path / folder, "main")])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("axes", "x", "hue", "rest"),
    [
        ({"ssma.selection": ["a", "b"], "ssma.kappa": [2, 3]}, "ssma.kappa", "ssma.selection", []),
        ({"ssma.kappa": [2, 3], "model.budget": [1, 2, 3]}, "model.budget", "ssma.kappa", []),
        ({"ssma.learn_affine": [True, False]}, "ssma.learn_affine", None, []),
        ({"aggregator": ["sum"], "ssma.kappa": [2, 3], "x.y": ["a", "b"]}, "ssma.kappa", "x.y", ["aggregator"]),
    ],
)
def test_axes_find_their_place(axes, x, hue, rest):
    encoding = encode(
        {"arms": [{"aggregator": "sum", "id": "1"}], "ablations": {"it": {"axes": axes, "cells": []}}}, "it"
    )
    assert (encoding.x, encoding.hue, encoding.rest) == (x, hue, rest)


@pytest.mark.parametrize(
    ("values", "scale", "places"),
    [
        ([0.01, 0.1, 1.0], "log scale", [-2.0, -1.0, 0.0]),
        ([0.001, 0, 0.00001], "not to scale", [2.0, 0.0, 1.0]),  # 0 has no logarithm, and 0.00001 would lie on it
        ([0, 1, 2, 4, 16], "", [0.0, 1.0, 2.0, 4.0, 16.0]),
        (list(range(0, 50, 2)), "", [float(value) for value in range(0, 50, 2)]),
    ],
)
def test_numbers_of_several_magnitudes_do_not_hide_each_other(values, scale, places):
    axes = {"training.weight_decay": values}
    encoding = encode({"arms": [], "ablations": {"it": {"axes": axes, "cells": []}}}, "it")
    assert (encoding.scale, list(encoding.places.values())) == (scale, places)


def test_a_record_in_the_place_of_a_reports_last_plan_is_named(tmp_path):
    write_record(tmp_path / "plan.json", {"kind": "card"})
    with pytest.raises(
        StudyError, match=r"plan\.json: is a record of kind 'card', expected results/<study>/plan\.json"
    ):
        forget(Results(tmp_path))


def test_reports_need_no_torch():
    code = (
        "import sys, ssma.report.build, ssma.report.figures; print({'torch', 'pandas', 'seaborn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_what_stands_beside_nothing_has_no_figure(fabric, tmp_path):
    for arm, test in (("MUTAG-gcn-ssma", 0.8), ("MUTAG-gcn-sum", 0.7), ("MUTAG-gin-ssma", 0.9)):
        fabric.evaluated(fabric.arm(arm), {(split, repeat): test for split in range(3) for repeat in range(2)})
    fabric.ablation("alone", {"aggregator": ["ssma"]}, {"MUTAG-gin-ssma": ["ssma"]})
    fabric.ablation("beside", {"aggregator": ["ssma"]}, {"MUTAG-gcn-ssma": ["ssma"]})
    fabric.plan()
    plan = read_plan(fabric.results.plan)
    plan["config"]["ablations"] = {"alone": {"claim": "SSMA stands alone."}}
    write_record(fabric.results.plan, plan)
    build(fabric.results, tmp_path / "out")
    assert {path.name for path in tmp_path.glob("out/figures/*")} == {"beside.csv", "beside.pdf", "beside.png"}
    html = (tmp_path / "out/index.html").read_text()
    assert (html.count("<svg"), html.count("No figure: each panel would show one setting")) == (1, 1)
    assert "MUTAG, gin: ssma, accuracy in % 90.0" in html and "<p>The paper: SSMA stands alone.</p>" in html


@pytest.mark.usefixtures("no_images")
def test_what_there_is_one_of_is_told_as_one(fabric, tmp_path):
    for name, test in (("sum", 0.7), ("ssma", 0.8), ("mean", "diverged"), ("max", None)):
        arm = fabric.arm(f"MUTAG-gcn-{name}", splits=1, repeats=1, prune=True)
        fabric.tuned(arm, [("complete", {"training.lr": 0.1}, [0.8]), ("complete", {"training.lr": 0.2}, [0.7])])
        if test:
            fabric.evaluated(arm, {(0, 0): test})
    lone = fabric.arm("ZINC-gcn-sum", splits=1, repeats=2)
    fabric.evaluated(lone, {(0, 0): 0.4, (0, 1): 0.5})
    ssma = fabric.arm("ZINC-gcn-ssma", splits=1, repeats=2)
    fabric.evaluated(ssma, {(0, 0): 0.3, (0, 1): 0.5})
    aggregators = ["sum", "ssma", "mean", "max"]
    cells = {f"MUTAG-gcn-{name}": [name] for name in aggregators} | {lone: ["sum"], ssma: ["ssma"]}
    fabric.ablation("main", {"aggregator": aggregators}, cells)
    fabric.plan()
    fabric.card()
    build(fabric.results, tmp_path / "out")
    html = re.sub(r"<(style|script)\b.*?</\1>", "", (tmp_path / "out/index.html").read_text(), flags=re.DOTALL)
    shown = "\n".join([re.sub(r"<[^>]+>", " ", html), *(p.read_text() for p in tmp_path.glob("out/tables/**/*.md"))])
    nouns = "arm|comparison|configuration|epoch|fit|graph|pair|place|repeat|seed|setting|split|trial|unit|value"
    assert not re.findall(rf".*(?<![\d.])1 (?:[a-z]+ )?(?:{nouns})s\b.*", shown)
    told = (
        "1 tuned split each",
        "(1 tuned split, 2 trials per arm",
        "The comparisons behind the claims: 1 pair of arms.",
    )
    told += ("1 of 8 planned fits left no record: ", "cannot act in 4 of 4 arms, with 1 tuned split: it needs 5.")
    assert [text for text in told if text not in shown] == []
