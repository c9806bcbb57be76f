"""Imports point downwards only."""

import ast
from pathlib import Path

import ssma

ROOT = Path(ssma.__file__).parent
MAY_IMPORT = {
    "errors": set(),
    "paper": set(),
    "statistics": set(),
    "aggr": set(),
    "study": {"errors"},
    "data": {"errors", "study"},
    "layers": {"errors", "aggr", "study"},
    "fit": {"errors", "aggr", "study", "data", "layers"},
    "tune": {"errors", "study"},
    "track": {"errors", "study"},
    "report": {"errors", "paper", "statistics", "study", "tune"},
    "bench": {"errors", "paper", "aggr", "statistics", "study", "data", "layers", "fit", "report"},
    "theory": {"errors", "aggr", "study", "bench"},
}
NO_TORCH = ("paper", "study", "track", "report", "tune", "statistics")
ONLY_FOR_AGGR = {"torch", "torch_geometric"}
STANDARD = {"functools", "inspect", "itertools", "math", "numbers", "threading", "typing", "collections", "dataclasses"}
STANDARD |= {"contextlib", "importlib", "pathlib"}


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_every_room_imports_from_rooms_below_it_only():
    for room, allowed in MAY_IMPORT.items():
        paths = [ROOT / f"{room}.py"] if (ROOT / f"{room}.py").exists() else sorted((ROOT / room).glob("**/*.py"))
        assert paths
        for path in paths:
            for name in imports_of(path):
                parts = name.split(".")
                if parts[0] == "ssma" and len(parts) > 1:
                    assert parts[1] in allowed | {room}, f"{path} imports {name}"
                if room in NO_TORCH:
                    assert parts[0] not in ONLY_FOR_AGGR, f"{path} imports {name}"


def test_aggregations_need_torch_and_pyg_only():
    for path in (ROOT / "aggr").glob("*.py"):
        outside = {name.split(".")[0] for name in imports_of(path)} - STANDARD - ONLY_FOR_AGGR - {"ssma"}
        assert not outside, f"{path} imports {outside}"


def test_no_module_is_longer_than_400_lines():
    for path in ROOT.glob("**/*.py"):
        assert len(path.read_text().splitlines()) <= 400, path
