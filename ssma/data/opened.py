"""What a user's class opens: files that it is not known by are told, links to files of its root only read."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ssma.study.ids import argument_files

SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr")


@contextmanager
def files_read(folder: Path) -> Iterator[set[Path]]:
    """Collects the files outside ``folder`` that Python opens to read and not to write, as what links lead to, but for
    those of Python itself and its packages, of the system, and in hidden folders. A link in ``folder`` to a file
    outside cannot be opened to write: that would change the user's file.
    """
    global _watch
    _listen()
    _watch, read = _Watch(str(folder), os.path.realpath(folder)), set()
    try:
        yield read
    finally:
        opened, _watch = _watch.opened, None
        own = (sys.prefix, sys.base_prefix, os.path.realpath(folder), *SYSTEM)
        for path in (Path(path) for path, writes in opened.items() if not writes):
            hidden = any(part.startswith(".") for part in path.parts)
            if not hidden and not any(path.is_relative_to(place) for place in own) and path.is_file():
                read.add(path)


@dataclass
class _Watch:
    """What is opened while a user's class is called: file -> whether to write. ``folder`` is given as the class has it,
    ``real`` is what links in it lead to."""

    folder: str
    real: str
    opened: dict[str, bool] = field(default_factory=dict)

    def note(self, given: str, writes: bool) -> None:
        path = os.path.realpath(given)
        if writes and _within(os.path.abspath(given), self.folder) and not _within(path, self.real):
            told = "write a file of another name, or complete the root if the class downloads what it lacks"
            raise PermissionError(errno.EACCES, f"a link to {path}, which is only read; {told}")
        self.opened[path] = self.opened.get(path, False) or writes


_watch: _Watch | None = None


@cache
def _listen() -> None:
    """Lets ``_watch`` know of each file that is opened. What Python calls stays until it ends, but there is no other
    place through which all pass: NumPy's readers have an ``open`` of their own."""

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and _watch is not None and isinstance(arguments[0], str | bytes):
            _watch.note(os.fsdecode(arguments[0]), bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)))

    sys.addaudithook(hear)


def _within(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def unknown_files(read: set[Path], arguments: dict[str, Any]) -> list[str]:
    """Returns a note on the files that a class has read and is not known by, if there are any."""
    here, others = Path.cwd(), sorted(read - argument_files(list(arguments.values())))
    data = (path for path in others if path.suffix not in (".py", ".pyc"))
    found = [str(path.relative_to(here) if path.is_relative_to(here) else path) for path in data]
    names = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    told = "the data are not made anew after a change there; name each in arguments, or keep it in raw below a root"
    return [f"files: the class read {names}, and {told}"] if found else []
