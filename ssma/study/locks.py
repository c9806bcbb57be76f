"""One process at a time, for as long as it lives: locks that a killed process cannot leave behind."""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ssma.errors import StudyError

log = logging.getLogger("ssma")


@contextmanager
def lock_errors(path: Path) -> Iterator[None]:
    """Turns every way in which a file cannot be locked into one StudyError of one line."""
    try:
        yield
    except OSError as error:
        raise StudyError(
            f"{path}: cannot be locked ({error.strerror}); results need a folder that can be written, on a file system "
            "with locks (of Lustre: mounted with the option flock)"
        ) from error


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Waits until no other process is inside ``exclusive`` of the same path, and says so if it has to.

    The file is removed on leaving; who waited for a removed file opens the new one.

    Raises:
        StudyError: If the file cannot be made, or the file system has no locks.
    """
    while True:
        with lock_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
            _lock(descriptor, path)
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


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # some network file systems say so of a lock that is held
        log.info("%s: waiting for another process that has it locked", path)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
