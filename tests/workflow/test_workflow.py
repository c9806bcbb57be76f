"""The workflow itself, run by Snakemake on a tiny study: whole, killed, broken, and again."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from ssma.cli import main

ROOT = Path(__file__).parents[2]
TINY = {
    "study": "tiny",
    "device": "cpu",
    "datasets": {"d": {"source": "synthetic", "task": "product_classification", "num_graphs": 30, "num_nodes": 8}},
    "layers": ["gcn"],
    "splits": {"folds": 3, "use": 2},
    "model": {"num_layers": 1, "budget": 1000},
    "training": {"max_epochs": 3, "batch_size": 16},
    "ablations": {"aggregator": {"axes": {"aggregator": ["sum", "ssma"]}}},
    "tune": {"trials": 2, "splits": 1, "space": {"training.lr": [0.01, 0.02]}},
}


def command(folder, *arguments, study=TINY):
    """Snakemake as the README starts it, but from another folder, which holds namesakes of common modules."""
    folder.mkdir(exist_ok=True)
    (folder / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    (folder / "utils.py").write_text("raise RuntimeError('a namesake was imported')\n")
    (folder / "yaml.py").write_text("raise RuntimeError('a namesake was imported')\n")
    return [
        str(Path(sys.executable).with_name("snakemake")), "--snakefile", str(ROOT / "Snakefile"), "--cores", "2",
        "--configfile", "study.yaml", *arguments,
    ]  # fmt: skip


def snakemake(folder, *arguments, study=TINY, hash_seed="0"):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {
        "PYTHONHASHSEED": hash_seed
    }
    found = subprocess.run(
        command(folder, *arguments, study=study), cwd=folder, env=environment, capture_output=True, text=True, check=False,
        timeout=300, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return found.returncode, found.stdout + found.stderr


def read(path):
    return json.loads(path.read_text())


def numbers(folder):
    """All fits of a study without times."""
    fits = {}
    for path in (folder / "results/tiny/fits").glob("*/*.json"):
        record = read(path)
        fits[record["id"]] = (
            record["status"],
            record["train"],
            record["validation"],
            record["test"],
            record["best_epoch"],
        )
    return fits


def jobs(output):
    """Job counts of a dry run."""
    table = output.partition("Job stats:")[2].partition("total")[0]
    lines = [line.split() for line in table.splitlines()]
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    status, output = snakemake(folder)
    assert status == 0, output
    return folder


def test_a_study_becomes_a_report(finished):
    page = (finished / "reports/tiny/index.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    table = (finished / "reports/tiny/tables/aggregator.md").read_text()
    evaluations = [read(path) for path in (finished / "results/tiny/arms").glob("*/evaluation.json")]
    assert len(evaluations) == 2
    fits = numbers(finished)
    for evaluation in evaluations:
        accuracies = [fits[fit["id"]][3]["accuracy"] for fit in evaluation["fits"]]
        assert f"{100 * sum(accuracies) / 2:.1f} ± " in table
    for suffix in ("png", "pdf"):
        assert (finished / f"reports/tiny/figures/aggregator.{suffix}").stat().st_size > 1000
    assert (finished / "results/tiny/mlflow/mlflow.db").exists()


def test_an_ablation_is_a_target_that_runs_its_arms_and_their_baselines_alone(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    more = TINY["ablations"] | {"slots": {"axes": {"ssma.kappa": [2]}}, "other": {"axes": {"ssma.kappa": [3]}}}
    study = TINY | {"ablations": more}
    assert jobs(snakemake(tmp_path / "copy", "-n", "slots", study=study)[1]) == {"tune": 1, "evaluate": 1, "slots": 1}
    status, output = snakemake(tmp_path / "copy", "--keep-going", "slots", study=study)
    assert status == 0, output
    page = (tmp_path / "copy/reports/tiny/ablations/slots/index.html").read_text()
    assert "2 arms; 4 of 4 planned evaluation fits ok" in page and "; against sum: " in page
    assert "Nothing to be done" in snakemake(tmp_path / "copy", "-n", "slots", study=study)[1]


def test_threads_are_those_of_the_rule(finished):
    assert {read(path)["threads"] for path in (finished / "results/tiny/fits").glob("*/*.json")} == {1}


def test_a_second_run_has_nothing_to_do_whatever_the_hash_seed(finished):
    for seed in ("1", "2"):
        status, output = snakemake(finished, hash_seed=seed)
        assert status == 0
        assert "Nothing to be done" in output


def test_only_what_a_change_touches_runs_again(finished):
    more = TINY | {"ablations": {"aggregator": {"axes": {"aggregator": ["sum", "ssma", "mean"]}}}}
    assert jobs(snakemake(finished, "-n", study=more)[1]) == {
        "tune": 1,
        "evaluate": 1,
        "collect": 1,
        "report": 1,
        "all": 1,
    }
    kappa = TINY | {"aggregators": {"ssma": {"kappa": 3}}}
    assert jobs(snakemake(finished, "-n", study=kappa)[1]) == {
        "tune": 1,
        "evaluate": 1,
        "collect": 1,
        "report": 1,
        "all": 1,
    }
    title = TINY | {"title": "Other words"}
    assert jobs(snakemake(finished, "-n", study=title)[1]) == {"collect": 1, "report": 1, "all": 1}
    assert "Nothing to be done" in snakemake(finished, "-n")[1]


def test_an_arm_that_is_added_runs_alone_also_where_the_store_was_made_again(finished, tmp_path, monkeypatch):
    shutil.copytree(finished, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    shutil.rmtree("results/tiny/mlflow")
    assert main(["track", "results/tiny/plan.json"]) == 0
    more = TINY | {"ablations": {"aggregator": {"axes": {"aggregator": ["sum", "ssma", "mean"]}}}}
    last = {"collect": 1, "report": 1, "all": 1}
    assert jobs(snakemake(tmp_path / "copy", "-n", study=more)[1]) == {"tune": 1, "evaluate": 1} | last


def test_what_was_deleted_is_made_again_where_it_is_wanted(finished, tmp_path):
    """A figure always; a file of the data, which may have been deleted to have the space, for an arm that is added. The
    card stays until then: a dry run of it took the card, and so did a run of what is done, which never made it again."""
    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    (card,) = (folder / "results/tiny/data").glob("*/card.json")
    more = TINY | {"ablations": {"aggregator": {"axes": {"aggregator": ["sum", "ssma", "mean"]}}}}
    again = {"prepare": 1, "tune": 3, "evaluate": 3, "collect": 1, "report": 1, "all": 1}
    for name in ("splits.json", "sanity.json", "graphs.pt"):
        card.with_name(name).rename(folder / name)
        assert jobs(snakemake(folder, "-n", study=more)[1]) == again
        if name != "graphs.pt":
            (folder / name).rename(card.with_name(name))
    assert "Nothing to be done" in snakemake(folder, "-n")[1]
    (folder / "reports/tiny/figures/aggregator.png").unlink()
    assert jobs(snakemake(folder, "-n")[1]) == {"report": 1, "all": 1}
    other = TINY | {"ablations": TINY["ablations"] | {"slots": {"axes": {"ssma.kappa": [2]}}}}
    status, output = snakemake(folder, "--keep-going", "aggregator", study=other)
    assert (status, jobs(output)) == (0, {"aggregator": 1}), output
    assert card.exists() and not card.with_name("graphs.pt").exists()


def test_an_arm_that_was_evaluated_again_alone_gets_into_the_report(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    next((tmp_path / "copy/results/tiny/arms").glob("*/evaluation.json")).touch()
    next((tmp_path / "copy/results/tiny/arms").glob("*/evaluated")).touch()
    assert jobs(snakemake(tmp_path / "copy", "-n")[1]) == {"collect": 1, "report": 1, "all": 1}


def test_copied_results_of_a_study_that_was_changed_get_a_new_report(finished, tmp_path):
    """Without Snakemake's own notes, which a copy of the results lacks."""
    for name in ("results", "reports"):
        shutil.copytree(finished / name, tmp_path / name)
    assert "Nothing to be done" in snakemake(tmp_path, "-n")[1]
    fewer = TINY | {"ablations": {"aggregator": {"axes": {"aggregator": ["sum"]}}}}
    status, output = snakemake(tmp_path, study=fewer)
    assert status == 0, output
    assert "tiny: 1 of 1 arm with a result" in output
    assert "ssma" not in (tmp_path / "reports/tiny/tables/aggregator.csv").read_text()


def test_a_changed_study_gets_a_new_report_where_only_times_of_files_trigger_jobs(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    fewer = TINY | {"ablations": {"aggregator": {"axes": {"aggregator": ["sum"]}}}}
    status, output = snakemake(tmp_path / "copy", "--rerun-triggers", "mtime", study=fewer)
    assert status == 0, output
    assert "ssma" not in (tmp_path / "copy/reports/tiny/tables/aggregator.csv").read_text()


@pytest.mark.parametrize(
    "option",
    ["--dry-run", "--executor=dryrun", "--dag=dot", "--summ", "--lint", "--list", "--unlock", "--delete-temp-output"],
)
def test_to_look_at_a_changed_study_leaves_the_results_of_the_former(finished, option):
    fewer = TINY | {"ablations": {"aggregator": {"axes": {"aggregator": ["sum"]}}}}
    status, output = snakemake(finished, option, study=fewer)
    assert status == 0, output
    assert (finished / "results/tiny/records.parquet").exists()


def test_an_arm_without_a_search_space_is_one_job(tmp_path):
    study = {key: value for key, value in TINY.items() if key != "tune"} | {
        "ablations": {"aggregator": {"axes": {"aggregator": ["sum"]}}},
        "track": {"enabled": False},
    }
    last = {"evaluate": 1, "collect": 1, "report": 1, "all": 1}
    assert jobs(snakemake(tmp_path, "-n", study=study)[1]) == {"store": 1, "prepare": 1} | last
    status, output = snakemake(tmp_path, study=study)
    assert status == 0, output
    record = next(tmp_path.glob("results/tiny/arms/*/chosen.json"))
    chosen = read(record)
    assert (chosen["status"], chosen["trials"], chosen["chosen"]) == ("ok", [], {"0": {}, "1": {}})
    assert len(numbers(tmp_path)) == 2
    record.unlink()
    assert jobs(snakemake(tmp_path, "-n", study=study)[1]) == last


def test_a_deleted_record_is_made_again_with_the_same_numbers(finished, tmp_path):
    """Though the clock of the machine that the results come from was ahead."""
    shutil.copytree(finished, tmp_path / "copy")
    folder = tmp_path / "copy"
    evaluation = read(next((folder / "results/tiny/arms").glob("*/evaluation.json")))
    record = folder / "results/tiny/fits" / evaluation["fits"][0]["id"][:2] / f"{evaluation['fits'][0]['id']}.json"
    record.unlink()
    ahead = time.time() + 3600
    for made in ("mlflow/created", "data/*/card.json", "arms/*/tuned", "arms/*/evaluated", "records.parquet"):
        for path in (folder / "results/tiny").glob(made):
            os.utime(path, (ahead, ahead))
    assert jobs(snakemake(folder, "-n")[1])["evaluate"] == 1
    status, output = snakemake(folder)
    assert status == 0, output
    assert numbers(folder) == numbers(finished)


def test_a_damaged_record_is_shown_and_stops_no_report(finished, tmp_path):
    shutil.copytree(finished / "results", tmp_path / "results")
    evaluation = read(next((tmp_path / "results/tiny/arms").glob("*/evaluation.json")))
    record = tmp_path / "results/tiny/fits" / evaluation["fits"][0]["id"][:2] / f"{evaluation['fits'][0]['id']}.json"
    record.write_text(record.read_text().replace('"best_epoch"', '"worst_epoch"'))
    for command in (["collect"], ["report", "--out", "out"], ["track"]):
        found = subprocess.run(
            [sys.executable, "-m", "ssma", command[0], "results/tiny/plan.json", *command[1:]], cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr
    assert "1 damaged fit" in found.stdout
    page = (tmp_path / "out/index.html").read_text()
    assert "damaged record" in page
    assert record.name in page
    assert "(1/2)" in page


def test_a_dry_run_imports_no_torch_and_says_the_cost(tmp_path):
    (tmp_path / "block").mkdir()
    (tmp_path / "block" / "torch.py").write_text("raise RuntimeError('torch was imported')\n")
    found = subprocess.run(
        command(tmp_path, "-n"), cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path / "block")}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    output = found.stdout + found.stderr
    assert found.returncode == 0, output
    assert "2 arms, 4 trials, 8 fits" in output
    assert not (tmp_path / "results").exists()


def test_killed_in_the_middle_and_resumed_gives_the_same_numbers(finished, tmp_path):
    run = subprocess.Popen(
        command(tmp_path), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 200
    while not list(tmp_path.glob("results/tiny/fits/*/*.json")):
        assert run.poll() is None, "the study ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert not (tmp_path / "reports/tiny/index.html").exists()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("results/tiny/fits/*/*.json")}
    status, output = snakemake(tmp_path)
    assert status == 0, output
    assert numbers(tmp_path) == numbers(finished)
    assert all(path.stat().st_mtime_ns == before for path, before in kept.items())
    assert (tmp_path / "reports/tiny/index.html").exists()


def test_a_second_start_is_refused_and_a_dead_run_blocks_nothing(tmp_path):
    endless = TINY | {"training": {"max_epochs": 10**6, "plateau_patience": 10**6}}
    run = subprocess.Popen(
        command(tmp_path, study=endless), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 200
        while not list(tmp_path.glob("results/tiny/fits/*/*.ckpt")):
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        flag = next(tmp_path.glob("results/tiny/arms/*")) / "tuned"
        flag.touch()  # of an arm without a record, as it is run again
        status, output = snakemake(tmp_path, study=endless)
        assert status != 0
        assert "Directory cannot be locked" in output
        assert flag.exists()
        assert run.poll() is None
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert list((tmp_path / ".snakemake/locks").iterdir())
    store = "results/tiny/mlflow/created"
    status, output = snakemake(tmp_path, "--force", store, study=TINY)
    assert status == 0, output
    assert "1 of 1 steps (100%) done" in output


def test_a_broken_arm_stops_no_other_and_is_shown(finished, tmp_path):
    """A user's class that raises: its arm fails, the report says so, the exit status too; mended, only it runs."""
    shutil.copytree(finished / "results", tmp_path / "results")
    own = tmp_path / "own"
    own.mkdir()
    broken = "from torch_geometric.nn.aggr import SumAggregation\nclass Mine(SumAggregation):\n    def __init__(self, in_channels, heads):\n        super().__init__()\n"
    (own / "mine.py").write_text(broken + "        raise ValueError('not today')\n")
    study = TINY | {
        "aggregators": {"mine": {"class": "mine.Mine"}},
        "ablations": {"aggregator": {"axes": {"aggregator": ["mine", "sum", "ssma"]}}},
    }
    environment = os.environ | {"PYTHONPATH": str(own)}

    def go():
        found = subprocess.run(
            command(tmp_path, study=study), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        return found.returncode, found.stdout + found.stderr

    status, output = go()
    assert status != 0
    assert "no valid trial: split 0 failed: ValueError: not today" in output
    table = (tmp_path / "reports/tiny/tables/aggregator.md").read_text()
    assert "| mine | failed: no valid trial |" in table
    assert "not today" in (tmp_path / "reports/tiny/index.html").read_text()
    assert table.count("±") > 2
    (own / "mine.py").write_text(broken)
    status, output = go()
    assert status == 0, output
    assert "failed" not in (tmp_path / "reports/tiny/tables/aggregator.md").read_text()
    (own / "mine.py").write_text(broken + "        raise ValueError('not today')\n")
    assert go()[0] != 0
    status, output = snakemake(tmp_path)
    assert status == 0, output
    assert "mine" not in (tmp_path / "reports/tiny/tables/aggregator.md").read_text()


def test_an_absent_store_stops_nothing_and_is_said_once(tmp_path):
    study = TINY | {"track": {"uri": "http://127.0.0.1:9"}, "ablations": {"a": {"axes": {"aggregator": ["sum"]}}}}
    status, output = snakemake(tmp_path, study=study)
    assert status == 0, output
    logs = "".join(path.read_text() for path in (tmp_path / "results/tiny/logs").glob("**/*.log"))
    assert logs.count("run `ssma track` later") == 1
    assert output.count("MLflow was not filled") == 1
    assert (tmp_path / "reports/tiny/index.html").exists()


def test_a_wrong_study_is_refused_before_anything_runs(tmp_path):
    status, output = snakemake(tmp_path, study=TINY | {"layers": ["gnn"], "trainings": {}})
    assert status != 0
    assert "trainings: unknown key; did you mean 'training'?" in output
    assert "Traceback" not in output
    assert not (tmp_path / "results").exists()


def test_a_start_without_hooks_runs_the_study_as_it_is_now(finished, tmp_path):
    fewer = TINY | {"ablations": {"aggregator": {"axes": {"aggregator": ["sum"]}}}}
    shutil.copytree(finished, tmp_path / "copy")
    status, output = snakemake(tmp_path / "copy", "--no-hooks", study=fewer)
    assert status == 0, output
    table = (tmp_path / "copy/reports/tiny/tables/aggregator.csv").read_text()
    assert "sum" in table and "ssma" not in table


MODULE = f"""
configfile: "study.yaml"


module ssma:
    snakefile:
        "{ROOT}/Snakefile"
    config:
        config


use rule * from ssma as ssma_*
"""


@pytest.mark.parametrize("how", ["--no-hoo", "profile", "module"])
def test_jobs_find_their_plan_where_no_hook_is_called(tmp_path, how):
    (tmp_path / "module.smk").write_text(MODULE)
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile/config.yaml").write_text("no-hooks: true\n")
    options = {"--no-hoo": ["--no-hoo"], "profile": ["--profile", "profile"], "module": ["--snakefile", "module.smk"]}
    study = TINY | {"track": {"enabled": False}}
    status, output = snakemake(tmp_path, *options[how], "results/tiny/mlflow/created", study=study)
    assert status == 0, output
    assert len(read(tmp_path / "results/tiny/plan.json")["arms"]) == 2


def test_a_key_that_stands_twice_is_refused(tmp_path):
    arguments = command(tmp_path, "-n")
    with (tmp_path / "study.yaml").open("a") as file:
        file.write("layers: [gin]\n")
    found = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode != 0
    assert "the key 'layers' stands twice" in found.stdout + found.stderr


def test_values_from_the_command_line_are_checked(tmp_path):
    status, output = snakemake(tmp_path, "-n", "--config", "layers=[gcn,gin]")
    assert status == 0, output
    assert "4 arms" in output
    status, output = snakemake(tmp_path, "-n", "--config", "tune={trials: 1, space: null}", "splits={use: null}")
    assert "tune.space: is empty; fill it in, or leave it out to have its default" in output
    assert "splits.use" not in output
    status, output = snakemake(tmp_path, "-n", "--config", "seed=abc")
    assert status != 0
    assert "seed: Input should be a valid integer" in output


def test_a_checkout_in_whose_name_snakemake_would_fill_in_values_is_refused(tmp_path):
    checkout = tmp_path / "a{b}"
    for name in ("workflow", "ssma"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Snakefile", checkout)
    status, output = snakemake(tmp_path, "-n", "--snakefile", str(checkout / "Snakefile"))
    assert status != 0
    assert f"{checkout}: Snakemake takes what stands in braces for the name of a value; rename this folder" in output
    assert "NameError" not in output


@pytest.mark.parametrize("target", ["arms/gone-0/evaluated", "data/gone-0/card.json", "theory/gone-0.csv"])
def test_a_target_that_the_plan_does_not_have_is_named_in_one_error(finished, target):
    status, output = snakemake(finished, "-n", f"results/tiny/{target}")
    assert status != 0
    assert "gone-0: not in the plan; its ids are in results/tiny/plan.json" in output
    assert "KeyError" not in output


CONDA = """#!/usr/bin/env bash
case "$1" in
  --version) echo "conda 25.1.0" ;;
  info) echo '{"conda_version": "25.1.0", "conda_prefix": "HERE", "root_prefix": "HERE", "platform": "linux-64"}' ;;
  config) echo '{"get": {"channel_priority": "strict"}}' ;;
  env)
    while [ "$1" != --prefix ]; do shift; done
    mkdir -p "$2/bin"
    printf '#!/usr/bin/env bash\\necho "$*" >> HERE/calls\\nexec PYTHON "$@"\\n' > "$2/bin/python"
    chmod +x "$2/bin/python" ;;
esac
"""


def test_jobs_run_in_the_conda_environment_and_find_the_package(tmp_path):
    """A stand-in for conda makes an environment whose python notes each call."""
    conda = tmp_path / "conda"
    (conda / "bin").mkdir(parents=True)
    (conda / "bin/conda").write_text(CONDA.replace("HERE", str(conda)).replace("PYTHON", sys.executable))
    (conda / "bin/conda").chmod(0o755)
    (conda / "bin/activate").write_text('export PATH="$1/bin:$PATH" CONDA_PREFIX="$1"\n')
    study = TINY | {"ablations": {"a": {"axes": {"aggregator": ["sum"]}}}, "track": {"enabled": False}}
    path = f"{conda / 'bin'}:{os.environ['PATH']}"
    found = subprocess.run(
        command(tmp_path, "--use-conda", study=study), cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    called = [line.split()[3] for line in (conda / "calls").read_text().splitlines()]
    assert sorted(called) == ["collect", "evaluate", "prepare", "report", "store", "tune"]


def test_lint():
    found = subprocess.run(
        [str(Path(sys.executable).with_name("snakemake")), "--lint"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_snakemakes_own_report(finished):
    status, output = snakemake(finished, "--report", "report.html")
    assert status == 0, output
    assert (finished / "report.html").stat().st_size > 10_000
    shown = re.findall(r'"filename": "([^"]+)", "labels": (null|\{[^}]*\})', (finished / "report.html").read_text())
    labels = {name: json.loads(text) for name, text in shown}
    assert labels["aggregator.csv"] == labels["aggregator.png"] == {"ablation": "aggregator"}
    assert labels["index.html"] == {"what": "the whole report"} and None not in labels.values()
