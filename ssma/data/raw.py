"""Raw files: linked from a mirror or downloaded, whole or not at all, and read by a library that caches nothing."""

import glob
import io
import os
import shutil
import socket
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from dataclasses import dataclass
from http.client import HTTPException
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from ssma.errors import StudyError

TIMEOUT = 8  # seconds per network operation: a job without a network must say so soon
DOWNLOAD_ERRORS = (OSError, HTTPException, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error)
"""Of networks, of addresses that are none, and of archives: cut short, encrypted, in a way that zipfile cannot read."""


@dataclass(frozen=True)
class Origin:
    """Where the raw files of a data set are.

    Args:
        name: The data set, for messages.
        place: Its folder in a mirror, e.g. ``TUDataset/MUTAG``.
        files: The files that must be in that folder, e.g. ``raw/MUTAG_A.txt``.
        downloads: URL -> the path of its file in the folder; of a ZIP archive a function from the name of a member to
            its path, or to None for a member that is not needed.
    """

    name: str
    place: str
    files: tuple[str, ...]
    downloads: dict[str, str | Callable[[str], str | None]]


def provide(origin: Origin, folder: Path, mirror: Path | None) -> None:
    """Makes the raw files stand in ``folder``: as links to the mirror, or downloaded (once) without a mirror.

    The libraries' own downloads have no timeout, so that a node without a network would hang.

    Raises:
        StudyError: If a file is missing and cannot be had; the message names it, where it was looked for, and where
            it comes from.
    """
    tops = sorted({Path(file).parts[0] for file in origin.files})
    if mirror is None:
        if any((folder / top).is_symlink() for top in tops) or _missing(origin, folder):
            _download(origin, folder)
        return
    source = (Path(mirror) / origin.place).resolve()
    if missing := _missing(origin, source):
        raise StudyError(
            f"data set {origin.name}: {missing.name} is not in {missing.parent}; put the set's raw files there (they "
            f"come from {_urls(origin)}), or point data.mirror (or SSMA_DATA_MIRROR) to the folder that holds "
            f"{origin.place}/, or unset both to download the set"
        )
    for top in tops:
        link(folder / top, source / top)


def link(place: Path, target: Path) -> None:
    """Makes ``place`` a link to ``target``, instead of what is there.

    Raises:
        StudyError: If it cannot be: the folder is read-only, the file system has no links, ...
    """
    try:
        _remove(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    except OSError as error:
        raise StudyError(
            f"{place}: cannot be made a link to {target} ({error.strerror}); results need a folder that can be "
            "written, on a file system with symbolic links"
        ) from error


@contextmanager
def reading(name: str, folder: Path, cache: Path) -> Iterator[None]:
    """Turns whatever a library raises on damaged files into one error, and leaves nothing in the library's cache.

    The cache is emptied before, so that what is read are the raw files, and after, so that nothing is kept twice. The
    error names the mirror's folder, not ``folder``, where there are only links to it.
    """
    _remove(cache)
    try:
        with unattended():
            yield
    except StudyError:
        raise
    except Exception as error:
        place, reason = (folder / "raw").resolve().parent, f"{type(error).__name__}: {error}"
        raise StudyError(
            f"data set {name}: the files in {place} cannot be read ({reason}); fetch them again"
        ) from error
    finally:
        _remove(cache)


def check_sums(path: Path) -> None:
    """Reads a file that ``torch.save`` wrote and compares its check sums, at which torch does not look: a changed bit
    would be another number. Files of old versions, and those that were saved without, have none.

    Raises:
        BadZipFile: If a part of it is damaged; names the part.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as parts:
            for part in filter(attrgetter("CRC"), parts.infolist()):
                with parts.open(part) as content:
                    while content.read(2**20):
                        pass


@contextmanager
def unattended() -> Iterator[None]:
    """Ends a library's question at the terminal with an ``EOFError``, and its wait for a network with a
    ``TimeoutError``, where a job would wait for ever; what it prints goes to the error stream, and it may
    change the working directory, and the type and the device of the tensors that torch makes.
    """
    import torch

    known, sys.stdin = sys.stdin, io.StringIO()
    seconds, dtype = socket.getdefaulttimeout(), torch.get_default_dtype()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        with redirect_stdout(sys.stderr), chdir("."):
            yield
    finally:
        sys.stdin = known
        socket.setdefaulttimeout(seconds)
        torch.set_default_dtype(dtype)
        torch.set_default_device(None)


@contextmanager
def listed_by_name() -> Iterator[None]:
    """Lists folders in the order of names, where each file system has an order of its own."""
    listdir, scandir = os.listdir, os.scandir
    os.listdir = lambda path=".": sorted(listdir(path))
    os.scandir = lambda path=".": _Entries(scandir(path))
    others = [own for own in vars(glob).values() if getattr(own, "scandir", None) is scandir]  # Path.glob's, in 3.13
    for own in others:
        own.scandir = staticmethod(os.scandir)
    try:
        yield
    finally:
        os.listdir, os.scandir = listdir, scandir
        for own in others:
            own.scandir = staticmethod(scandir)


@contextmanager
def whole(folder: Path) -> Iterator[None]:
    """Removes ``folder`` unless it was whole when this ended before: after an exception, or in a job that was killed, a
    file that was being downloaded is cut short, and a library would take it for the file.
    """
    mark = folder.with_name(f"{folder.name}.whole")
    if not mark.exists():
        _remove(folder)
    mark.unlink(missing_ok=True)
    yield
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


class _Entries:
    """What ``os.scandir`` returns, by name."""

    def __init__(self, entries: Any) -> None:
        with entries:
            self.entries = iter(sorted(entries, key=attrgetter("name")))

    def __iter__(self) -> "_Entries":
        return self

    def __next__(self) -> os.DirEntry:
        return next(self.entries)

    def __enter__(self) -> "_Entries":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self.entries = iter(())


def _missing(origin: Origin, folder: Path) -> Path | None:
    return next((folder / file for file in origin.files if not (folder / file).is_file()), None)


def _urls(origin: Origin) -> str:
    return " and ".join(origin.downloads)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _download(origin: Origin, folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    _remove(partial)
    try:
        for url, place in origin.downloads.items():
            with urlopen(url, timeout=TIMEOUT) as response:
                content = response.read()
            if isinstance(place, str):
                _write(partial / place, content)
                continue
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for member in archive.namelist():
                    if path := place(member):
                        _write(partial / path, archive.read(member))
        if missing := _missing(origin, partial):
            raise FileNotFoundError(f"what was downloaded holds no {missing.name}")
    except DOWNLOAD_ERRORS as error:
        _remove(partial)
        wanted = _missing(origin, folder) or folder / origin.files[0]
        raise StudyError(
            f"data set {origin.name}: {wanted.name} is not in {wanted.parent} and {_urls(origin)} could not be "
            f"downloaded ({error}); check the name, or point data.mirror (or SSMA_DATA_MIRROR) to a folder that holds "
            f"{origin.place}/{wanted.relative_to(folder)}"
        ) from error
    _remove(folder)
    partial.replace(folder)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def allow_graphs() -> None:
    """Lets `torch.load` read PyG's graphs without running code.

    For the whole process: the context manager of torch would, at its end, also forbid what PyG itself has allowed.
    """
    import torch
    from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    torch.serialization.add_safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage])
