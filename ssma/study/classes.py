"""What a plan knows of a user's class: its source, read without importing it. And what one is called with."""

import ast
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from ssma.errors import StudyError
from ssma.study.ids import argument_fingerprint, bare_syntax, digest

GIVEN = ("in_channels", "heads")
"""What every aggregator is made with, beside its options."""
NO_OPTIONS = (*GIVEN, "self", "class")
"""What a study cannot give one that takes any keyword."""
GIVEN_IF_NAMED = "degrees"
"""What one is also made with if its ``__init__`` names it."""
CALLED = ("index", "ptr", "dim_size", "dim")
"""What every aggregator is called with by name, after the messages."""


def class_fingerprint(dotted: str) -> str:
    """Returns a hash of the module that defines a class, blind to comments and docstrings; of all that may, if another
    module imports it from one or the other.

    Raises:
        ValueError: If there is no such module on Python's path, or no such class in it, or if it is no Python or
            cannot be read, as in a zip archive.
    """
    first, *others = _definitions(dotted) or [ast.dump(_module(dotted)[0])]
    return digest([first, *others] if others else first)


def set_fingerprint(dotted: str, arguments: dict[str, Any]) -> str:
    """Returns a hash of a data set class and of the files that its arguments name.

    Raises:
        ValueError: As :func:`class_fingerprint`; and if a file cannot be read.
    """
    code = class_fingerprint(dotted)
    named = {name: argument_fingerprint(value) for name, value in arguments.items()}
    found = {name: content for name, content in named.items() if content is not None}
    return digest([code, found], 64) if found else code


def options_of(dotted: str) -> dict[str, bool] | None:
    """Returns of each of a class's options whether it has to be given, which are those without a default; None where
    its source does not say, or where it takes any.

    That is a class that inherits or imports its ``__init__``, or decorates it or itself.

    Raises:
        ValueError: As :func:`class_fingerprint`; and if it cannot be made with ``in_channels`` and ``heads``, or its
            ``forward`` not be called as that of PyG's aggregations.
    """
    name = dotted.rpartition(".")[2]
    kinds = [node for node in _module(dotted)[0].body if isinstance(node, ast.ClassDef) and node.name == name]
    if len(kinds) != 1 or _of(kinds[0], "decorator_list"):
        return None
    called = _keywords(kinds[0], "forward", after=2)  # itself and the messages, under any names
    if called is not None:
        if missing := [argument for argument in CALLED if argument not in called]:
            raise ValueError(f"{name}.forward must take {' and '.join(missing)}, or any keyword")
        if more := [argument for argument, needed in called.items() if needed and argument not in CALLED]:
            raise ValueError(f"{name}.forward needs {' and '.join(more)}, but is given the layer's messages alone")
    options = _keywords(kinds[0], "__init__", after=1)
    if options is None:
        return None
    if missing := [argument for argument in GIVEN if argument not in options]:
        raise ValueError(f"{name}.__init__ must take {' and '.join(missing)}, or any keyword")
    return {option: needed for option, needed in options.items() if option not in (*GIVEN, GIVEN_IF_NAMED)}


def _keywords(kind: ast.ClassDef, method: str, after: int) -> dict[str, bool] | None:
    """Returns of each argument of a method, but the first ones, whether it has to be given; None where its class does
    not say, or where it takes any."""
    found = [node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == method]
    if len(found) != 1 or _of(found[0], "decorator_list") or found[0].args.kwarg:
        return None
    arguments = found[0].args
    places = [*_of(arguments, "posonlyargs"), *_of(arguments, "args")]
    first = len(places) - len(_of(arguments, "defaults"))
    after = max(after, len(_of(arguments, "posonlyargs")))  # what has a name that can be given
    keywords = {argument.arg: place < first for place, argument in enumerate(places) if place >= after}
    defaults = _of(arguments, "kw_defaults")
    return keywords | {
        named.arg: default is None for named, default in zip(_of(arguments, "kwonlyargs"), defaults, strict=True)
    }


def parameters_of(kind: Callable) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a class, and those of the classes that it hands any other keyword on to."""
    found = dict(inspect.signature(kind).parameters)
    for base in getattr(kind, "__mro__", ()):  # a function may stand for a class
        if "__init__" in vars(base):
            own = inspect.signature(base.__init__).parameters
            found = own | found
            if all(parameter.kind != inspect.Parameter.VAR_KEYWORD for parameter in own.values()):
                break
    return found


def as_declared(given: dict[str, Any], parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """Returns arguments for a class with real numbers where their defaults or annotations are real and allow no whole
    ones, also in lists and tables: in a plan 1.0 is 1, of which torch makes tensors of whole numbers."""
    return {
        name: _as_real(value) if name in parameters and _is_real(parameters[name]) else value
        for name, value in given.items()
    }


def _is_real(parameter: inspect.Parameter) -> bool:
    default, named = parameter.default, set(re.findall(r"\w+", str(parameter.annotation)))
    among = default if isinstance(default, list | tuple) else [default]
    real = any(isinstance(each, float) and math.isfinite(each) for each in among)  # infinity is no limit of a number
    return "int" not in named and ("float" in named or (real and not any(type(each) is int for each in among)))


def _as_real(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_real(each) for each in value]
    if isinstance(value, dict):
        return {key: _as_real(each) for key, each in value.items()}
    return float(value) if type(value) is int else value


def check_class(dotted: str, code: str) -> None:
    """Refuses a class whose module is not what it was when the plan was made: its arm's id would name other numbers.

    Raises:
        StudyError: If it is not, or cannot be found.
    """
    _check(dotted, "its file is", code, lambda: class_fingerprint(dotted))


def check_set(dotted: str, arguments: dict[str, Any], content: str) -> None:
    """Refuses a data set class whose module or files are not what they were when the plan was made.

    Raises:
        StudyError: If they are not, or cannot be found.
    """
    _check(dotted, "its file, or one that its arguments name, is", content, lambda: set_fingerprint(dotted, arguments))


def _check(dotted: str, what: str, known: str, fingerprint: Callable[[], str]) -> None:
    try:
        now = fingerprint()
    except ValueError as error:
        raise StudyError(f"{dotted}: {error}") from error
    if now != known:
        raise StudyError(
            f"{dotted}: {what} not that which the plan was made with (changed since, or of another version); "
            "start the study again"
        )


def _definitions(dotted: str, asked: tuple[str, ...] = ()) -> list[str]:
    """Returns the syntax of each module with Python source that may define a class, which others import from it."""
    tree, package = _module(dotted)
    name, lines, found = dotted.rpartition(".")[2], list(_statements(tree)), []
    if any(isinstance(node, ast.ClassDef) and node.name == name for node in lines):
        return [ast.dump(tree)]
    for node in (node for node in lines if isinstance(node, ast.ImportFrom)):
        base = package[: len(package) + 1 - node.level] if node.level else []
        for alias in node.names:
            taken = name if alias.name == "*" else alias.name
            source = ".".join([*base, *filter(None, [node.module]), taken])
            if name == (alias.asname or taken) and source not in asked:
                with suppress(ValueError):
                    found += _definitions(source, (*asked, dotted))
    return list(dict.fromkeys(found))


def _module(dotted: str) -> tuple[ast.Module, list[str]]:
    """Returns the syntax of the module of a class that is defined or imported there, and the parts of the package from
    which it imports by a dot."""
    *parts, name = dotted.split(".")
    if not (parts and name and all(parts)) or "/" in dotted:
        raise ValueError(f"got '{dotted}', expected the dotted path of a class, package.module.Class")
    folders, origin = None, None
    for depth in range(len(parts)):
        if depth and folders is None:
            raise ValueError(f"no package '{'.'.join(parts[:depth])}': {origin} is a module without others in it")
        spec = _find(".".join(parts[: depth + 1]), folders)
        if spec is None and depth:
            raise ValueError(f"no module '{parts[depth]}' in {', '.join(folders)}")
        if spec is None:
            raise ValueError(f"no module '{parts[0]}' on Python's path; set PYTHONPATH to the folder that it lies in")
        folders, origin = spec.submodule_search_locations, spec.origin
    if origin is None or not origin.endswith(".py"):
        raise ValueError(f"the module of {dotted} has no Python source")
    try:
        tree = bare_syntax(Path(origin))
    except OSError as error:
        raise ValueError(f"the module of {dotted} cannot be read: {origin} ({error.strerror})") from error
    except SyntaxError as error:
        raise ValueError(f"the module of {dotted} is no Python: {error}") from error
    lines = list(_statements(tree))
    imports = [alias.asname or alias.name for node in lines if isinstance(node, ast.ImportFrom) for alias in node.names]
    classes = [node.name for node in lines if isinstance(node, ast.ClassDef)]
    if name not in classes + imports and "*" not in imports:
        raise ValueError(f"no class '{name}' in {origin}; it has {', '.join(classes) or 'none'}")
    return tree, parts if folders is not None else parts[:-1]


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yields what a module does when it is imported, as in ``try: from .torch import Set`` too."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, ast.If | ast.Try | ast.ExceptHandler | ast.With):
            yield from _statements(child)


def _find(module: str, folders: list[str] | None) -> ModuleSpec | None:
    """Returns where a module is. Editable installations bring finders of their own, beside that of Python's path."""
    return next(filter(None, (finder.find_spec(module, folders) for finder in sys.meta_path)), None)


def _of(node: ast.AST, field: str) -> list:
    return getattr(node, field, [])  # bare syntax has no empty lists
