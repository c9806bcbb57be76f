"""Reading a study file: YAML without its traps."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ssma.errors import StudyError
from ssma.study.records import SEAL


class _Plain(yaml.SafeLoader):
    """YAML's safe loader without its traps: what would be lost, or read as something else than it says, is refused.

    These are a key that stands twice in a table; keys that are no text (on, 007); octal numbers and numbers of base 60
    (010 is 8, 1:30 is 90); dates; what a tag makes of a value (!!null x, !!set), or cannot (!!int x). All that is
    refused is told at once.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.refused: dict[str, None] = {}

    def get_single_data(self) -> Any:
        try:
            found = super().get_single_data()
        except yaml.constructor.ConstructorError:
            if not self.refused:  # else it is of a key that is refused, such as one in brackets
                raise
        if self.refused:
            raise yaml.YAMLError("\n".join(self.refused))
        return found

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError):
            self._refuse(node, f"'{node.value[:50]}' is no {node.tag.rpartition(':')[2]}; quote it if it is a text")

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)  # as written: later, merged keys stand beside those overriding them
        own = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        keys = [self.construct_object(key, deep=True) for key in own]
        for key, value in zip(own, keys, strict=True):
            if not isinstance(value, str):
                written = key.value if isinstance(key, yaml.ScalarNode) else "in brackets"
                self._refuse(key, f"the key '{written}' is read as {value!r}; quote it")
            if keys.count(value) > 1:
                self._refuse(node, f"the key '{value}' stands twice")
        return node

    def construct_yaml_null(self, node: yaml.ScalarNode) -> None:
        if node.value.lower() not in ("", "~", "null"):
            self._refuse(node, f"'{node.value}' is read as null; write null if you mean it, else quote it")

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        return self._as_written(node, super().construct_yaml_int(node))

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        return self._as_written(node, super().construct_yaml_float(node))

    def construct_yaml_timestamp(self, node: yaml.ScalarNode) -> None:
        self._refuse(node, f"'{node.value}' is read as a date; quote it")

    def _as_written(self, node: yaml.ScalarNode, value: float) -> Any:
        octal = isinstance(value, int) and re.match("[-+]?0[0-9_]*[1-9]", node.value)
        if octal or ":" in node.value:
            self._refuse(node, f"'{node.value}' is read as {value}; write {value} if you mean it, else quote it")
        return value

    def _refuse(self, node: yaml.Node, why: str) -> None:
        self.refused[str(yaml.MarkedYAMLError(None, None, why, node.start_mark))] = None


_Plain.add_constructor("tag:yaml.org,2002:null", _Plain.construct_yaml_null)
_Plain.add_constructor("tag:yaml.org,2002:int", _Plain.construct_yaml_int)
_Plain.add_constructor("tag:yaml.org,2002:float", _Plain.construct_yaml_float)
_Plain.add_constructor("tag:yaml.org,2002:timestamp", _Plain.construct_yaml_timestamp)
for tag in ("binary", "omap", "pairs", "set"):
    _Plain.add_constructor(f"tag:yaml.org,2002:{tag}", _Plain.construct_undefined)


def read_study(path: Path) -> dict[str, Any]:
    """Returns the tables of a study file, as they are.

    Raises:
        StudyError: If it cannot be read, is not YAML, or holds what YAML reads as something else than it says.
    """
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), _Plain)
        json.dumps(raw)  # refuses a table that holds itself, by an anchor
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise StudyError(f"{path}: cannot be read as a study file: {error}") from error
    if not isinstance(raw, dict):
        raise StudyError(f"{path}: a study file is a table of keys, got {'nothing' if raw is None else repr(raw)}")
    if "kind" in raw and SEAL in raw:
        raise StudyError(f"{path}: is a record that was made of a study ({raw['kind']}); give the study file")
    return raw


def from_command_line(value: Any) -> Any:
    """Returns a value of Snakemake's ``--config`` as a study file would hold it: inside tables and lists Snakemake
    leaves every value a text.

    Texts that YAML reads as a number, true, false or null become that; 1_2, 010 and 1:30 stay texts, and so do blank
    ones, comments, anchors, tags and --- alone, of which it would take all or a part for null.
    """
    if isinstance(value, Mapping):
        return {key: from_command_line(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_command_line(item) for item in value]
    if not isinstance(value, str) or "_" in value or re.match(r"\s*([#&!]|--|$)", value):
        return value
    try:
        found = yaml.load(value, _Plain)
    except yaml.YAMLError:
        return value
    return found if found is None or isinstance(found, int | float) else value
