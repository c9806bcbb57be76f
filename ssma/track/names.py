"""Names and values in a form that MLflow takes."""

import re
from typing import Any

from ssma.study.ids import canonical_json, digest

LONGEST_NAME = 250
LONGEST_PARAM = 6000
CUT_MARK = " ... (cut: the whole value is an artifact)"


def safe_name(name: str) -> str:
    """Returns ``name`` as MLflow takes it: letters, digits, ``_``, ``-`` and ``.``, at most 250 characters.

    ``@`` becomes ``_at_`` (``Hits@10``: ``Hits_at_10``); every other run of characters becomes one ``_``
    (``acc (val)``: ``acc_val``). MLflow would also take spaces, colons and slashes, but not on every system
    and in every place.
    """
    safe = re.sub(r"[^\w.-]+", "_", name.replace("@", "_at_")).strip("_.") or "unnamed"
    return safe if len(safe) <= LONGEST_NAME else f"{safe[: LONGEST_NAME - 11]}_{digest(name)}"


def safe_keys(values: dict[str, Any]) -> dict[str, Any]:
    """Returns ``values`` under safe names; of two names with one safe form the second gets a hash behind it."""
    safe: dict[str, Any] = {}
    for name, value in values.items():
        key = safe_name(name)
        safe[f"{key}_{digest(name)}" if key in safe else key] = value
    return safe


def param_values(values: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns parameters as text under safe names, and the whole text of those that had to be cut.

    A text stays as it is; any other value is written as JSON. MLflow keeps 6000 characters of a value.
    """
    texts = {
        name: value if isinstance(value, str) else canonical_json(value) for name, value in safe_keys(values).items()
    }
    whole = {name: text for name, text in texts.items() if len(text) > LONGEST_PARAM}
    cut = {name: text[: LONGEST_PARAM - len(CUT_MARK)] + CUT_MARK for name, text in whole.items()}
    return texts | cut, whole
