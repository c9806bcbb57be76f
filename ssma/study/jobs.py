"""The environment of a workflow's jobs."""

import os
import sys
from pathlib import Path


def job_environment(package: Path) -> dict[str, str]:
    """Returns variables by which jobs find this package from any working directory, and the Python that runs
    Snakemake unless a conda environment is active in the job."""
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")])),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
