"""Reading fit records for a view, which one damaged file must not stop."""

import logging
from pathlib import Path
from typing import Any

from ssma.errors import StudyError
from ssma.study.records import read_record

log = logging.getLogger("ssma.track")


def readable(paths: list[Path]) -> list[dict[str, Any]]:
    """Returns the records that are there and whole; says which are damaged."""
    found = []
    for path in paths:
        if path.exists():
            try:
                found.append(read_record(path))
            except StudyError as error:
                log.warning("left out: %s", error)
    return found
