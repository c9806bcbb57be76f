"""What the repository says in two places is the same in both."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def pins(lines):
    found = (re.fullmatch(r"([A-Za-z0-9_.-]+)==(\S+)", line.strip()) for line in lines)
    return {match[1].lower().replace("_", "-"): match[2] for match in found if match}


def test_conda_environment_and_constraints_pin_the_same_versions():
    constraints = pins((ROOT / "constraints.txt").read_text().splitlines())
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = pins(next(item for item in environment["dependencies"] if isinstance(item, dict))["pip"])
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.match(r"[A-Za-z0-9-]+", item)[0].lower() for item in required}
    assert conda.keys() == names
    assert conda == {name: constraints[name] for name in names}
    assert constraints["torch"] == "2.13.0"


def test_profiles_agree_on_what_happens_after_a_failure():
    profiles = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "profiles").glob("*/config.yaml"))]
    assert len(profiles) == 3
    for profile in profiles:
        assert profile["keep-going"] is True
        assert profile["rerun-incomplete"] is True


def test_the_slurm_profile_submits_jobs_whose_arms_ask_for_a_gpu():
    profile = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
    assert profile["executor"] == "slurm" and profile["jobs"] > 1
    resources = dict(entry.split("=") for entry in profile["default-resources"])
    assert {name: int(value) > 0 for name, value in resources.items()} == {"runtime": True, "mem_mb": True}
    for rule in (ROOT / "workflow/rules/arms.smk").read_text().split("\n\n\n"):
        assert "gpu=GPUS" in rule  # which the executor hands to Slurm as --gpus


def test_captions_hold_where_a_study_chooses_by_the_test_metric():
    for name in ("arms", "table"):
        assert "marked †" in (ROOT / f"workflow/report/{name}.rst").read_text(encoding="utf-8")


def test_make_takes_a_study_file_whose_name_has_spaces(tmp_path):
    (tmp_path / "my own study.yaml").touch()
    (tmp_path / "snakemake").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (tmp_path / "snakemake").chmod(0o755)
    make = ["make", "--no-print-directory", "-f", str(ROOT / "Makefile"), "-o", ".venv/ready", "BIN=."]
    command = [*make, "STUDY=my own study.yaml", "study"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "--cores", "all", "--quiet", "rules", "--configfile", "my own study.yaml",
    ]  # fmt: skip


def test_make_clean_keeps_results(tmp_path):
    for name in (".venv/bin", ".snakemake", "results/mine", "reports/mine"):
        (tmp_path / name).mkdir(parents=True)
    make = ["make", "--no-print-directory", "--silent", "-f", str(ROOT / "Makefile"), "clean"]
    done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reports", "results"]
    assert done.stdout == "results/ is kept, with all that was trained; to delete it: rm -r results\n"
    (tmp_path / "results/mine").rmdir()
    (tmp_path / "results").rmdir()
    assert subprocess.run(make, cwd=tmp_path, capture_output=True, check=True).stdout == b""


def test_make_makes_the_environment_of_a_moved_checkout_anew(tmp_path):
    old, new = tmp_path / "old, (1)", tmp_path / "new"
    (old / ".venv/bin").mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt"):
        (old / name).touch()
    made = "#!/bin/sh\n[ $1 = -c ] || echo made $*\n"
    for script, text in (("python", made), (".venv/bin/pip", "#!/bin/sh\n")):
        (old / script).write_text(text)
        (old / script).chmod(0o755)

    def make(folder):
        command = ["make", "--no-print-directory", "-f", str(ROOT / "Makefile"), "PYTHON=./python", ".venv/ready"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if line.startswith("made")]

    assert make(old) == ["made -m venv .venv"]  # what is there may be the user's own
    assert make(old) == []
    (old / "constraints.txt").write_text("torch==2.13.0")
    later = (old / ".venv/ready").stat().st_mtime + 1
    os.utime(old / "constraints.txt", (later, later))
    assert make(old) == ["made -m venv .venv"]
    old.rename(new)
    assert make(new) == ["made -m venv --clear .venv"]
