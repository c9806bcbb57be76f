"""How the arms of a data set are tuned: the study's table ``tune``, in the paper's protocol over the paper's own."""

import math
import os
from typing import Any
from urllib.parse import urlsplit

from ssma.errors import StudyError
from ssma.study.config import Tune
from ssma.study.cost import counted
from ssma.study.space import Space, count, is_finite, values_of

STORAGE_VARIABLE = "SSMA_TUNE_STORAGE"
LARGEST_GRID = 10_000
PRUNE_BELOW = 0.1
"""The p value of the one-sided Wilcoxon test over splits, below which a trial ends early."""

_PAPER = {"selection": "test", "sampler": "grid", "prune": False}
_COMPRESSION = [0.1, 0.25, 0.5, 0.75, 1]
_SELECTION = ["attention", "random"]
_LARGEST_KAPPA = {
    "PTC_MR": 4, "MUTAG": 4, "ZINC": 4, "ogbg-molhiv": 4, "ogbg-molpcba": 4, "Peptides-func": 3, "Peptides-struct": 3,
}  # fmt: skip
_KAPPA_CEILING = 7  # of the paper's other data sets, and of its text for all


def tuning(tune: Tune, protocol: str | None, spec: dict[str, Any]) -> Tune:
    """Returns how the arms of a data set are tuned.

    The protocol ``paper`` is the paper's unequal treatment: a grid over three options of SSMA, of which the best is
    chosen by the test metric, and one configuration for everything else. What the study names itself wins.

    Args:
        protocol: ``paper``, ``fair`` or None.
        spec: The data set's entry in the plan, ``{"source", "name", ...}``.
    """
    if protocol != "paper":
        return tune
    name = "ZINC" if spec["source"] == "zinc" else spec.get("name")
    kappas = list(range(2, _LARGEST_KAPPA.get(name, _KAPPA_CEILING) + 1))
    space = {"ssma.compression": _COMPRESSION, "ssma.kappa": kappas, "ssma.selection": _SELECTION}
    return Tune.model_validate(_PAPER | {"space": space} | tune.model_dump(exclude_unset=True))


def number_of_trials(tune: Tune, space: Space) -> tuple[int, str | None]:
    """Returns the trials of an arm with this search space, and what is wrong with them, if anything.

    A grid has all configurations. Any other sampler has ``trials`` of them, or all if there are fewer.
    """
    if tune.sampler != "grid" or not space:
        return (count(space, tune.trials) if space else 0), None
    if not is_finite(space):
        ranges = ", ".join(key for key, dimension in space.items() if values_of(dimension) is None)
        return 0, f"tune.sampler: a grid has no ranges of real numbers; give {ranges} as a list of values"
    most = math.prod(len(values_of(dimension)) for dimension in space.values())
    if most > LARGEST_GRID:
        return 0, f"tune.sampler: a grid of {most} configurations, allowed are {LARGEST_GRID}; use random or tpe"
    size = count(space, most)
    if "trials" in tune.model_fields_set and tune.trials < size:
        told = f"tune.trials: got {tune.trials}, but the grid has {counted(size, 'configuration')}"
        return size, f"{told}; leave trials out, raise it, or use the sampler random or tpe"
    return size, None


def unused(tune: Tune, spaces: list[Space]) -> list[str]:
    """Returns a sentence for each setting that no arm searches, and for each option of a search where none is made.

    Args:
        spaces: The search space of each arm.
    """
    searched = {key for space in spaces for key in space}
    if "space" not in tune.model_fields_set and not searched:
        options = tune.model_fields_set - {"storage"}
        return [f"tune.{key}: nothing is searched; give tune.space, or leave it out" for key in sorted(options)]
    why = "no arm searches it: each fixes it, has another aggregator, or makes it idle"
    return [f"tune.space.{key}: {why}" for key in tune.space if key not in searched]


def splits_to_prune() -> int:
    """Returns how many tuned splits a trial needs that could be pruned.

    k splits that all speak against it give p = 1 / 2^k, and after them at least one must be left.
    """
    return math.floor(-math.log2(PRUNE_BELOW)) + 2


def storage_error(storage: str | None) -> str | None:
    """Returns what is wrong with ``tune.storage``, never with a password in it."""
    if storage in (None, "journal"):
        return None
    if wrong := _no_database(storage):
        return f"tune.storage: {wrong}"
    if urlsplit(storage).password is not None:
        return (
            "tune.storage: holds a password, which would be written into plan.json; put the whole URL into the "
            f"variable {STORAGE_VARIABLE}, or the password into PGPASSWORD or ~/.pgpass"
        )
    return None


def one_database(storage: str | None, uri: str | None) -> str | None:
    """Returns what is wrong where searches and MLflow are to have one database.

    Optuna and MLflow note the version of their tables in the same one, so that either refuses what the other has made.
    """
    storage = storage or os.environ.get(STORAGE_VARIABLE) or "journal"
    if _no_database(storage) or not (uri or "").startswith("postgresql"):
        return None
    search, runs = (
        (url.netloc.rpartition("@")[2].removesuffix(":5432"), url.path, url.query)
        for url in map(urlsplit, (storage, uri))
    )
    return "track.uri: is the database of tune.storage; Optuna and MLflow need one each" if search == runs else None


def storage_url(tune: dict[str, Any]) -> str | None:
    """Returns the database that keeps the searches, or None for journals beside the results.

    Args:
        tune: The table ``tune`` of a plan's ``config``; without a storage in it the variable SSMA_TUNE_STORAGE counts.

    Raises:
        StudyError: If the variable holds something else; the message holds no password.
    """
    storage = tune["storage"] or os.environ.get(STORAGE_VARIABLE) or "journal"
    if storage == "journal":
        return None
    if wrong := _no_database(storage):
        raise StudyError(f"{STORAGE_VARIABLE}: {wrong}")
    return storage


def _no_database(storage: str) -> str | None:
    try:
        scheme, _ = urlsplit(storage).scheme, urlsplit(storage).port
    except ValueError:  # the host or the port is none; its text may have the password
        scheme = ""
    if scheme == "postgresql":
        return None
    start = f"{scheme}://..." if scheme else "no URL"
    return f"got {start}, expected journal or postgresql://USER@HOST:PORT/DATABASE"
