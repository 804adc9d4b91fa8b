"""Values of several sources laid over one another, each still knowing where it came from.

Used while settings are loaded, then dropped. Invariant: a later layer wins; mappings are merged, all else is replaced.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from agentic_backend.located_yaml import ConfigProblem, KeyPath, LocatedYaml, dotted
from agentic_backend.validation_problems import Schema, accepts, schema_at


class Origin(NamedTuple):
    """What set a value outside of the file: "environment" and a variable, or "command line" and a flag."""

    source: str
    name: str


class SettingsLayers:
    """`values` is what all layers say together; it is not validated. `document` is the lowest layer."""

    def __init__(self, schema: Schema, document: LocatedYaml | None) -> None:
        self.values: dict[str, Any] = document.values if document else {}
        self._schema = schema
        self._document = document
        self._origins: dict[KeyPath, tuple[Origin, KeyPath]] = {}

    def lay(self, path: KeyPath, value: object, origin: Origin) -> bool:
        """Set the value at `path`; a text is read as what the schema expects there. False if it knows no such path."""
        expectation = schema_at(self._schema, path)
        if expectation is None:
            return False
        layer: Any = _read(value, expectation) if isinstance(value, str) else value
        for part in reversed(path):
            layer = {part: layer}
        self.values = _merged(self.values, layer)
        for leaf in _leaves(layer):
            for length in range(1, len(leaf) + 1):
                if length >= len(path) or not self._is_placed(leaf[:length]):
                    self._origins[leaf[:length]] = (origin, path)
        return True

    def problem_at(self, path: KeyPath, message: str, *, at_key: bool = False) -> ConfigProblem:
        """A problem with what was set at `path`, or else with the nearest value that would hold it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self._origins:
                origin, set_path = self._origins[path[:length]]
                where = origin.name if path == set_path else f"{origin.name} ({dotted(path)})"
                return ConfigProblem(origin.source, None, None, where, message)
            if self._document and path[:length] in self._document.places:
                return self._document.problem(path, message, at_key=at_key)
        return ConfigProblem("defaults", None, None, dotted(path), message)

    def _is_placed(self, path: KeyPath) -> bool:
        return path in self._origins or (self._document is not None and path in self._document.places)


def _read(text: str, expectation: Schema) -> object:
    """JSON wherever something else than text may stand; what isn't JSON stays a text, for the validation to refuse."""
    if expectation and accepts(expectation, "string"):
        return None if text == "null" and accepts(expectation, "null") else text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _leaves(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    else:
        yield path
