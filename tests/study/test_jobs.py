"""What the workflow puts before each job's command."""

import os
import subprocess

from snakemake.shell import shell

from ssma.study.jobs import prepare_jobs


def test_jobs_get_paths_with_any_characters(tmp_path, monkeypatch):
    package, own = tmp_path / "it's a {x} $y", tmp_path / "own {0}"
    monkeypatch.setenv("PYTHONPATH", str(own))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(shell, "_process_prefix", None)
    shell.prefix(prepare_jobs(package))
    command = shell._process_prefix + 'printf %s "$PYTHONPATH"'
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert found.stdout == f"{package}:{own}"
