"""Names that a study gives to data sets, ablations and arms: folders, files and rows of a report go by them."""

import re
from collections import Counter
from typing import Any

from ssma.study.config import ABSENT, Study
from ssma.study.ids import canonical_json, slug
from ssma.study.settings import GROUPS
from ssma.study.wording import A_NAME

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
OWN_PARTS = re.compile(r"(all-)?arms|selection-bias|beside-the-paper|claims|data|provenance|theory(-.*)?|paper-.*")
"""Parts of a report that belong to no ablation."""
FURTHER = ("paired", "ranks", "axis", "sanity", "map")
"""What the report's further tables and figures of an ablation end in."""
AMBIGUOUS = re.compile(
    rf"True|False|yes|no|unset|{ABSENT}|[+-]?[\d.]+(e[+-]?\d+)?[kM]?||[\[{{\"].*|.*[\s,=].*", re.DOTALL
)
"""Texts that could be another value, several or none, where labels and reports write values of settings."""


def name_errors(study: Study) -> list[str]:
    """Returns a sentence for each name that cannot be one, is too like another, or is that of a part of a report."""
    errors = []
    for group, names in (("datasets", study.datasets), ("ablations", study.ablations)):
        alike = Counter(slug(name).lower() for name in names)
        for name in names:
            if not LABEL.fullmatch(name):
                errors.append(f"{group}.{name}: {A_NAME}")
            elif alike[slug(name).lower()] > 1:
                errors.append(f"{group}.{name}: differs from another name in punctuation or case only; rename it")
    further = {slug(f"{name}-{kind}").lower() for name in study.ablations for kind in FURTHER}
    return errors + [
        f"ablations.{name}: the report has a part of this name; rename it"
        for name in study.ablations
        if slug(name).lower() in further or OWN_PARTS.fullmatch(slug(name).lower())
    ]


def short(key: str) -> str:
    """Returns a setting's name without its group; an option of a user's class that is called as a setting of network or
    training keeps it: ``mine.dropout`` is another one than ``model.dropout``.
    """
    group, _, field = key.partition(".")
    taken = group not in GROUPS and any(field in fields.model_fields for fields in GROUPS.values())
    return key if taken or not field else field


def told(value: Any) -> Any:
    """Returns a setting's value as a label has it: true as yes, a text that another value could have, such as 1 or yes,
    or that readers of a table take for none, such as NA, in quotes.
    """
    if value is None or isinstance(value, bool):
        return "unset" if value is None else "yes" if value else "no"
    return canonical_json(value) if isinstance(value, str) and AMBIGUOUS.fullmatch(value) else value
