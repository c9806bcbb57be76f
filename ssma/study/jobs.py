"""What the workflow needs from the machine: an environment for its jobs, and no locks of runs that are dead."""

import fcntl
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


def free_dead_locks(folder: Path) -> int:
    """Removes Snakemake's locks in a working directory if no run of this workflow is alive there.

    Every run holds a shared lock for as long as it lives, which the system takes back when it is killed; Snakemake's
    own locks are files, which stay. Two runs at once are still refused by Snakemake.

    Args:
        folder: The ``.snakemake`` folder.

    Returns:
        The descriptor of the held lock; it stays open until the process ends.
    """
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder / "alive", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for lock in (folder / "locks").glob("*.lock"):
            lock.unlink()
    except BlockingIOError:
        pass  # another run is alive, its locks are none of ours
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor
