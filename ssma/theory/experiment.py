"""An experiment: from its settings in a plan to a sealed record."""

import logging
import platform
import time
from datetime import UTC, datetime
from typing import Any

import torch
import torch_geometric

import ssma
from ssma.study.ids import git_commit
from ssma.study.paths import Results
from ssma.study.records import read_record, write_record
from ssma.study.theory import theory_fingerprint
from ssma.theory import growth, higher_order, mixing, separation, sum_of_gram

RUN = {
    "sum_of_gram": sum_of_gram.run,
    "mixing": mixing.run,
    "higher_order": higher_order.run,
    "separation": separation.run,
    "growth": growth.run,
}

log = logging.getLogger("ssma.theory")


def run_experiment(results: Results, experiment: dict[str, Any]) -> dict[str, Any]:
    """Returns the record of an experiment, from disk if it has finished before.

    An exception becomes a record of status ``failed`` with its text, which is tried again next time.

    Args:
        results: Where the record goes.
        experiment: An entry of the plan's ``theory``.
    """
    path = results.theory(experiment["id"])
    if path.exists() and (record := read_record(path))["status"] == "ok":
        return record
    started, start = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    try:
        rows = RUN[experiment["name"]](experiment["settings"], experiment["seed"])
        columns = {name: [row[name] for row in rows] for name in rows[0]}  # a third of the size as JSON
        outcome = {"status": "ok", "reason": None, "columns": columns}
    except Exception as error:
        log.exception("%s failed", experiment["id"])
        outcome = {"status": "failed", "reason": f"{type(error).__name__}: {error}"[:1000], "columns": {}}
    return write_record(
        path,
        {
            "kind": "theory",
            **experiment,
            **outcome,
            "seconds": time.monotonic() - start,
            "device": "cpu",
            "threads": torch.get_num_threads(),
            "versions": {
                "ssma": ssma.__version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "torch_geometric": torch_geometric.__version__,
            },
            "code": theory_fingerprint(),
            "git_commit": git_commit(),
            "started": started,
        },
    )
