"""What modules of a trained network tell the record of a fit."""

from typing import Any

from torch import nn

from ssma.study.ids import canonical_json


def has_method(module: nn.Module, name: str) -> bool:
    """Says whether a module can be asked for something, by its class or a function that it was given.

    A layer or a number of that name is no method; what a wrapper hands on is asked of the module inside it.
    """
    return callable(vars(module).get(name, getattr(type(module), name, None)))


def module_summaries(network: nn.Module) -> dict[str, dict[str, Any]]:
    """Returns the ``summary()`` of every module that has this method, by the module's name; empty ones are left out.

    Raises:
        ValueError: If a summary is no dict, or holds what JSON cannot, which NaN and infinity are.
    """
    found = {}
    for name, module in network.named_modules():
        if not has_method(module, "summary"):
            continue
        summary, who = module.summary(), f"summary() of {name} ({type(module).__name__})"
        if not isinstance(summary, dict):
            raise ValueError(f"{who} returned {summary!r} but expected a dict")
        try:
            canonical_json(summary)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{who} cannot be recorded ({error}); use finite numbers, texts, lists, dicts") from error
        if summary:
            found[name] = summary
    return found


def check_summaries(network: nn.Module) -> None:
    """Raises what :func:`module_summaries` would, but for numbers that are not finite: they may be so in the end."""
    try:
        module_summaries(network)
    except ValueError as error:
        if not isinstance(error.__cause__, ValueError):
            raise
