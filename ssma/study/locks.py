"""One process at a time, for as long as it lives: locks that a killed process cannot leave behind."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Waits until no other process is inside ``exclusive`` of the same path.

    The file is removed on leaving; who waited for a removed file opens the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                break
        except FileNotFoundError:
            pass  # removed between opening and locking: wait at the new file
        os.close(descriptor)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)
