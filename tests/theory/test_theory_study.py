"""Theory experiments in a study: the file, the plan, the command line, the page, the workflow."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ssma.cli import main
from ssma.errors import StudyError
from ssma.report.build import build
from ssma.report.theory import frame
from ssma.report.theory_words import tell
from ssma.study.config import parse_study
from ssma.study.jobs import forget_lost
from ssma.study.paths import Results
from ssma.study.plan import make_plan
from ssma.study.records import read_record, write_record
from ssma.theory.experiment import RUN

ROOT = Path(__file__).parents[2]
STUDY = {
    "study": "small",
    "device": "cpu",
    "datasets": {"d": {"source": "synthetic", "task": "product_regression", "num_graphs": 20}},
    "layers": ["gcn"],
    "splits": {"folds": 3},
    "ablations": {"aggregator": {"axes": {"aggregator": ["sum", "ssma"]}}},
    "theory": {
        "sum_of_gram": {"m": [4, 16], "train_sets": 40, "test_sets": 40, "epochs": 2, "seeds": 2},
        "mixing": {"m": 4, "train_sets": 40, "test_sets": 40, "epochs": 2, "seeds": 2, "multisets": 3},
        "higher_order": {},
        "separation": {"n": 2, "d": 2, "pairs": 3, "draws": 2, "halvings": 3},
        "growth": {"n": [2, 3, 4], "d": [2, 3, 4], "draws": 2, "multisets": 2, "m": 4},
    },
}


def rows_of(record):
    columns = record["columns"]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def planned(**theory):
    return make_plan(parse_study(STUDY | {"theory": theory}))["theory"]


def test_an_experiment_is_known_by_what_changes_its_numbers():
    base = planned(mixing={}, higher_order={})
    assert list(base) == ["mixing", "higher_order"] and base["mixing"]["id"].startswith("mixing-")
    assert planned(mixing={"n": 3})["mixing"] == base["mixing"]  # a default, spelled out
    assert planned(mixing={"n": 4})["mixing"]["id"] != base["mixing"]["id"]
    other = make_plan(parse_study(STUDY | {"theory": {"mixing": {}}, "seed": 1}))["theory"]
    assert other["mixing"]["id"] != base["mixing"]["id"]
    assert make_plan(parse_study({key: value for key, value in STUDY.items() if key != "theory"}))["theory"] == {}


@pytest.mark.parametrize(
    ("theory", "message"),
    [
        ({"mixings": {}}, "theory.mixings: unknown key; did you mean 'mixing'?"),
        ({"mixing": {"mm": 3}}, "theory.mixing.mm: unknown key; did you mean 'm'?"),
        ({"mixing": {"m": 3}}, "m must be at least n + 1 = 4, the smallest representation that ssma has, got 3"),
        ({"sum_of_gram": {"m": [16, 4], "n": 4}}, "m must be at least n + 1 = 5"),
        ({"mixing": {"aggregators": ["ssma"]}}, "must have 'sum', the baseline of every comparison"),
        ({"mixing": {"aggregators": ["sum", "smma"]}}, "unknown aggregator 'smma'; allowed: sum, mean"),
        ({"mixing": {"aggregators": ["sum", "sum"]}}, "theory.mixing.aggregators: names 'sum' twice"),
        ({"mixing": {"activations": ["sine", "sine"]}}, "theory.mixing.activations: names 'sine' twice"),
        ({"sum_of_gram": {"m": [16, 16]}}, "theory.sum_of_gram.m: names 16 twice; leave one out, got [16, 16]"),
        ({"higher_order": {"n": [2, 2]}}, "theory.higher_order.n: names 2 twice"),
        ({"sum_of_gram": {"train_sets": 1}}, "train_sets: Input should be greater than or equal to 2, got 1"),
        ({"mixing": {"activations": ["elu"]}}, "theory.mixing.activations.0: Input should be 'relu', 'tanh'"),
        ({"higher_order": {"n": [4]}}, "theory.higher_order.n.0: Input should be less than or equal to 3, got 4"),
        ({"separation": {"pairs": True}}, "theory.separation.pairs: Input should not be true or false"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_named(theory, message):
    with pytest.raises(StudyError) as error:
        planned(**theory)
    assert message in str(error.value)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The study with all experiments run through the command line, one after the other."""
    folder = tmp_path_factory.mktemp("theory")
    plan = make_plan(parse_study(STUDY))
    results = Results(folder / "results")
    write_record(results.plan, plan)
    for name in plan["theory"]:
        assert main(["theory", str(results.plan), name]) == 0
    return results, plan


def test_a_record_is_sealed_and_says_how_it_was_made(finished):
    results, plan = finished
    for name, experiment in plan["theory"].items():
        record = read_record(results.theory(experiment["id"]))
        assert (record["kind"], record["name"], record["status"], record["reason"]) == ("theory", name, "ok", None)
        assert record["settings"] == experiment["settings"] and record["seed"] == 0 and record["threads"] == 1
        assert record["versions"].keys() == {"ssma", "python", "torch", "torch_geometric"} and record["code"]


def test_the_data_behind_a_figure_are_the_rows_of_the_record(finished):
    results, plan = finished
    for experiment in plan["theory"].values():
        path = results.theory(experiment["id"])
        with path.with_suffix(".csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
        rows = rows_of(read_record(path))
        assert len(lines) == len(rows) > 0
        for line, row in zip(lines, rows, strict=True):
            assert line.keys() == row.keys()
            for key, value in row.items():
                assert (
                    (json.loads(line[key]) == value)
                    if isinstance(value, int | float | list) and not isinstance(value, bool)
                    else line[key] == ("" if value is None else str(value))
                )
        assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_a_finished_experiment_is_not_repeated(finished):
    results, plan = finished
    path = results.theory(plan["theory"]["separation"]["id"])
    before, image = path.read_bytes(), path.with_suffix(".png").read_bytes()
    assert main(["theory", str(results.plan), "separation"]) == 0
    assert path.read_bytes() == before and path.with_suffix(".png").read_bytes() == image


def test_an_experiment_that_is_not_in_the_study_is_named(finished, capsys):
    assert main(["theory", str(finished[0].plan), "mixin"]) == 2
    assert "no theory experiment 'mixin' in this plan; did you mean 'mixing'?" in capsys.readouterr().err


def test_the_page_shows_claims_and_what_the_records_say(finished, tmp_path):
    results, plan = finished
    build(results, tmp_path)
    page = (tmp_path / "index.html").read_text()
    record = read_record(results.theory(plan["theory"]["mixing"]["id"]))
    highest = max(
        row["representation_mix"]
        for row in rows_of(record)
        if row["aggregator"] == "ssma" and row["activation"] == "tanh"
    )
    for text in (
        '<h2 id="theory">Theory</h2>',
        "27 of 27 tuples have one entry of the convolution with derivative 1",
        "The paper claims that sum aggregators fail at this task",
        "holds in 36 of 36 measurements of sum",
        f"what it aggregates alone at most {highest:.3g}.",
        'href="figures/theory-separation.csv"',
        "<title>ssma, tanh, of the output: median ",
        "<title>convolution, entries j = (0, 1): k = 1</title>",
        "<title>SSMA, n = 4, d = 3: 45</title>",
        "<title>sum, equal sum: 0</title>",
    ):
        assert text in page
    assert (tmp_path / "figures" / "theory-mixing.csv").exists()
    errors = [
        row["test_l1"]
        for row in rows_of(read_record(results.theory(plan["theory"]["sum_of_gram"]["id"])))
        if (row["aggregator"], row["activation"], row["m"]) == ("sum", "relu", 16)
    ]
    mean, std = sum(errors) / 2, abs(errors[0] - errors[1]) / 2**0.5
    assert f"<title>sum, relu, test, m = 16: {mean:.3g} ± {std:.2g}, n = 2</title>" in page


def test_words_count_what_the_rows_say():
    row = {"activation": "tanh", "m": 4, "width": 1, "status": "ok", "train_l1": 0.0}
    line = {"activation": None, "m": None, "width": None, "status": "ok", "train_l1": 0.0, "repeat": 0}
    rows = [
        line | {"aggregator": "exact solution", "test_l1": 0.0},
        line | {"aggregator": "train mean", "test_l1": 8.0},
        row | {"aggregator": "sum", "repeat": 0, "test_l1": 2.0},
        row | {"aggregator": "sum", "repeat": 1, "test_l1": 4.0},
        row | {"aggregator": "sum", "repeat": 2, "test_l1": 3.0},
        row | {"aggregator": "ssma", "repeat": 0, "test_l1": 1.0},
        row | {"aggregator": "ssma", "repeat": 1, "test_l1": 4.5},
        row | {"aggregator": "ssma", "repeat": 2, "test_l1": 2.75},
        row | {"aggregator": "mul", "repeat": 0, "test_l1": None, "status": "diverged"},
        row | {"aggregator": "mul", "repeat": 1, "test_l1": None, "status": "diverged"},
    ]
    settings = STUDY["theory"]["sum_of_gram"] | {
        "n": 3,
        "d": 2,
        "lr": [0.1, 0.2],
        "aggregators": ["sum", "ssma", "mul"],
    }
    columns = {name: [row.get(name) for row in rows] for name in rows[0]}
    record = {"name": "sum_of_gram", "settings": settings, "columns": columns}
    words = tell(record, frame(record))[1]
    for text in (
        "train mean has a test error of 8, the exact solution 0.",
        "smallest mean test error of sum is 3 ± 1 (tanh, m = 4), the largest 3.",
        "smallest mean test error of ssma is 2.75 ± 1.8 (tanh, m = 4)",
        "learning rate 0.1 or 0.2, 2 repeats",
        "ssma mixes vectors of width 1 at m = 4.",
        "All trainings of mul diverged.",
        "of ssma is below that of sum in 1 of 1 cells (activation, m), and in 2 of 3 pairs",
        "of mul is below that of sum in 0 of 0 cells",
        "Left out, since diverged: 2 of 8 trainings.",
    ):
        assert text in words


def test_missing_failed_and_foreign_records_are_told(finished, tmp_path, monkeypatch, capsys):
    results, plan = Results(tmp_path / "results"), finished[1]
    write_record(results.plan, plan)

    def broken(settings, seed):
        raise RuntimeError("on purpose")

    monkeypatch.setitem(RUN, "mixing", broken)
    assert main(["theory", str(results.plan), "mixing"]) == 1
    assert "RuntimeError: on purpose" in capsys.readouterr().err
    assert main(["status", str(results.plan)]) == 0
    told = capsys.readouterr().out
    assert "theory experiment mixing: RuntimeError: on purpose" in told
    assert "theory experiment separation: it has not run" in told
    foreign = read_record(finished[0].theory(plan["theory"]["higher_order"]["id"])) | {"code": "other"}
    write_record(results.theory(foreign["id"]), foreign)
    build(results, tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    for text in (
        "failed: RuntimeError: on purpose",
        "missing: no record",
        "made by other code than the installed one",
    ):
        assert text in page
    monkeypatch.undo()
    assert main(["theory", str(results.plan), "mixing"]) == 0  # a failed one is tried again


def test_an_experiment_whose_record_was_deleted_runs_again(tmp_path):
    results, plan = Results(tmp_path), make_plan(parse_study(STUDY))
    paths = [results.theory(experiment["id"]) for experiment in plan["theory"].values()]
    for path in paths:
        write_record(path, {})
        path.with_suffix(".csv").touch()
    paths[1].unlink()
    forget_lost(results, plan)
    assert [path.with_suffix(".csv").exists() for path in paths] == [True, False, True, True, True]


def test_the_workflow_runs_them_alone_and_once(tmp_path):
    theory = {name: STUDY["theory"][name] for name in ("higher_order", "separation")}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY | {"theory": theory}))

    def snakemake(*arguments):
        command = [
            str(Path(sys.executable).with_name("snakemake")), *arguments, "--snakefile", str(ROOT / "Snakefile"),
            "--cores", "2", "--configfile", "study.yaml",
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    snakemake("theory")
    folder = tmp_path / "results/small/theory"
    assert sorted(path.suffix for path in folder.iterdir()) == sorted([".csv", ".json", ".pdf", ".png"] * 2)
    assert not (tmp_path / "results/small/fits").exists()
    assert "Nothing to be done" in snakemake("theory", "-n")
    whole = snakemake("-n", "--quiet", "rules")
    assert re.search(r"^evaluate +2$", whole, re.MULTILINE)
    assert not re.search(r"^experiment ", whole, re.MULTILINE)
