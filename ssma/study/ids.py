"""Identity: one canonical text per value, one hash per text."""

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

CODE_THAT_MAKES_NUMBERS = (
    "aggr/*.py", "layers/*.py", "data/*.py", "fit/*.py", "tune/*.py", "job.py", "study/ids.py", "study/plan.py",
    "study/settings.py",
)  # fmt: skip
OF_ANOTHER_CHECKOUT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Variables that git sets for what its hooks start."""


def canonical(value: Any) -> Any:
    """Returns ``value`` with one form per meaning: lists, 1.0 as 1, 0.1 + 0.2 as 0.3; order stays."""
    if isinstance(value, dict):
        return {str(key): canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    if isinstance(value, float):
        short = float(f"{value:.12g}")
        return int(short) if short.is_integer() and abs(short) < 2**53 else short
    return value


def canonical_json(value: Any) -> str:
    """Returns the one JSON text of ``value``: sorted keys, no spaces, NaN refused."""
    return json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any, length: int = 10) -> str:
    """Returns the first ``length`` hexadecimal digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]


def seed_from(*axes: Any) -> int:
    """Returns a seed in [0, 2**31) that depends on the given axes only."""
    return int(digest(list(axes), 16), 16) % 2**31


def slug(text: str) -> str:
    """Returns ``text`` as a path component of letters, digits, dots and single hyphens."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") or "x"


@cache
def code_fingerprint(patterns: tuple[str, ...] = CODE_THAT_MAKES_NUMBERS) -> str:
    """Returns a hash of the package code that makes numbers, blind to comments and docstrings.

    Every record carries it, so that a report can tell when its records come from different code.
    """
    root = Path(__file__).parent.parent
    sources = sorted(path for pattern in patterns for path in root.glob(pattern))
    return digest({path.relative_to(root).as_posix(): ast.dump(bare_syntax(path)) for path in sources})


@cache
def git_commit() -> str | None:
    """Returns the commit of the package's checkout, with ``-dirty`` if its files differ from it.

    None without git, and for a package that no commit holds, though it may lie in the folder of another project.
    """
    package = Path(__file__).resolve().parent.parent
    environment = {key: value for key, value in os.environ.items() if key not in OF_ANOTHER_CHECKOUT}

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        # Without locks, which the user's own git would meet, and a killed job leave. The package's own checkout may be
        # another user's, as in a container: its code runs already. A folder around it stays git's to judge.
        command = ["git", "--no-optional-locks", "-c", f"safe.directory={package.parent}", "-C", str(package)]
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, env=environment)

    if shutil.which("git") is None or git("cat-file", "-e", "HEAD:./__init__.py").returncode != 0:
        return None
    dirty = "-dirty" if git("status", "--porcelain", ".").stdout else ""
    return git("rev-parse", "HEAD").stdout.strip() + dirty


def file_fingerprint(path: Path) -> str:
    """Returns the SHA-256 of a file.

    Raises:
        ValueError: If it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from error


def data_fingerprint(path: Path) -> str:
    """Returns a hash of a data set: the SHA-256 of a file, or a hash over the files ``*.txt`` of a folder, without
    hidden ones, which macOS leaves there.

    Raises:
        ValueError: If there is nothing to read.
    """
    if not os.path.isdir(path):  # which takes no path amiss, however long
        return file_fingerprint(path)
    files = sorted(file for file in path.glob("*.txt") if not file.name.startswith("."))
    return digest({file.name: file_fingerprint(file) for file in files}, 64)


def argument_fingerprint(value: Any) -> str | None:
    """Returns a hash of what an argument of a PyG data set names: of a file, or of what a folder holds in ``raw`` and
    in ``*/raw``, where PyG's classes keep the files that they read, without hidden ones; of what the entries of a list
    or a table name; None if it names nothing.

    Raises:
        ValueError: If a file cannot be read.
    """
    if isinstance(value, list | dict):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        named = {str(key): argument_fingerprint(entry) for key, entry in entries}
        found = {key: content for key, content in named.items() if content is not None}
        return digest(found, 64) if found else None
    found = _named_files(value)
    if "" in found:
        return file_fingerprint(found[""])
    return digest({name: file_fingerprint(file) for name, file in found.items()}, 64) if found else None


def argument_files(value: Any) -> set[Path]:
    """Returns the files of which :func:`argument_fingerprint` is a hash, as what links lead to."""
    if isinstance(value, list | dict):
        return set().union(*map(argument_files, value.values() if isinstance(value, dict) else value))
    return {file.resolve() for file in _named_files(value).values()}


def _named_files(value: Any) -> dict[str, Path]:
    """Returns the files that one argument names, by their places in its folder; a file alone by no name."""
    if not isinstance(value, str) or not value:
        return {}
    place = Path(os.path.expanduser(value))
    if os.path.isfile(place):  # which takes no text amiss, however long
        return {"": place}
    folders = [place / "raw", *place.glob("*/raw")] if os.path.isdir(place) else []
    files = sorted(file for folder in folders for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(place).as_posix(): file for file in files if not file.name.startswith(".")}


def bare_syntax(path: Path) -> ast.Module:
    """Returns a file's syntax without docstrings, and without empty lists, which each Python dumps in its own way."""
    tree = ast.parse(path.read_bytes(), path)  # bytes, so that a byte order mark or a declared encoding is understood
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [item for item in body if not _is_text(item)] or [ast.Pass()]
    for node in ast.walk(tree):
        for field in [name for name, value in ast.iter_fields(node) if value == []]:
            delattr(node, field)
    return tree


def _is_text(item: ast.AST) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)
