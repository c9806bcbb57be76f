"""A first run of the package's aggregators, so that an installation that lacks something stops a study at its start."""

from collections.abc import Iterable
from typing import Any

import torch

from ssma.aggr import make_aggregation
from ssma.errors import StudyError


def preflight(arms: Iterable[dict[str, Any]]) -> None:
    """Runs each aggregator of some arms once, forward and backward, on a node with two neighbours and one with none.

    Classes of the user are left out: one that fails costs its own arms, not the study.

    Args:
        arms: Arms of a plan.

    Raises:
        StudyError: If one cannot run; the message says why.
    """
    for name in sorted({arm["aggregator"] for arm in arms if arm["class"] is None}):
        message, index = torch.rand(2, 6, requires_grad=True), torch.tensor([0, 0])
        try:
            aggr = make_aggregation(name, 6, degrees=torch.tensor([1, 0, 1]))
            aggr(message, index, dim_size=2).sum().backward()
        except (RuntimeError, ImportError, AttributeError, OSError) as error:
            raise StudyError(
                f"aggregator {name} cannot run with this installation of torch {torch.__version__}: {error}; install "
                f"torch from PyPI or conda-forge as environment.yml does"
            ) from error
