"""Schemas of an OpenAPI document as JSON Schema without references, in bounds. Pure."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

MOST_VALUES, MOST_DEPTH = 20_000, 40
"""Values in the schema of one operation, and its depth; what is deeper may be anything."""
_MOST_REFERENCES = 32

# What says nothing to a model, or what JSON Schema does not know.
_SAYS_NOTHING = ("xml", "externalDocs", "example", "discriminator", "nullable")
# A validator would fetch what these lead to, also from files.
_LEADS_ELSEWHERE = ("$id", "$schema", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef")
_LEFT_OUT = frozenset({*_SAYS_NOTHING, *_LEADS_ELSEWHERE})
# Their keys are names of the API's, and no keywords.
_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")


class BadReference(Exception):
    """A reference leads nowhere, out of the document, or in a circle; or the schema is too large."""


def resolved(value: Any, document: Mapping[str, Any]) -> Any:
    """What `value` refers to, if it is a reference. Raises BadReference."""
    for _ in range(_MOST_REFERENCES):
        reference = value.get("$ref") if isinstance(value, Mapping) else None
        if not isinstance(reference, str):
            return value
        value = _target(reference, document)
    raise BadReference("a reference leads in a circle")


def _target(reference: str, document: Mapping[str, Any]) -> Any:
    if not reference.startswith("#/"):
        raise BadReference("a reference leads out of the document")
    found: Any = document
    for part in reference[2:].split("/"):
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            raise BadReference(f"the reference {reference[:100]!r} leads nowhere")
        found = found[key]
    return found


class SchemaInliner:
    """For the schemas of one operation, whose sum is bounded."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._left = MOST_VALUES
        """Values that may still be made."""

    def inlined(self, schema: Any) -> Any:
        """Raises BadReference."""
        return self._of(schema, 0, frozenset())

    def _of(self, value: Any, depth: int, within: frozenset[str]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise BadReference("its schema is too large")
        if depth > MOST_DEPTH:
            return {}
        if isinstance(value, list):
            return [self._of(item, depth + 1, within) for item in value]
        if not isinstance(value, Mapping):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str):
            # A schema within itself: any value.
            if reference in within:
                return {}
            return self._of(_target(reference, self._document), depth + 1, within | {reference})
        made = {
            str(key): self._by_name(item, depth + 1, within)
            if key in _BY_NAME and isinstance(item, Mapping)
            else self._of(item, depth + 1, within)
            for key, item in value.items()
            if key not in _LEFT_OUT
        }
        return _of_version_3_0(made, value)

    def _by_name(self, schemas: Mapping[Any, Any], depth: int, within: frozenset[str]) -> dict[str, Any]:
        return {str(name): self._of(schema, depth + 1, within) for name, schema in schemas.items()}


def _of_version_3_0(made: dict[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """`made` with what OpenAPI 3.0 says otherwise than JSON Schema."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(made.get(exclusive), bool):
            is_exclusive = made.pop(exclusive)
            if is_exclusive and bound in made:
                made[exclusive] = made.pop(bound)
    if value.get("nullable") is True:
        if isinstance(made.get("type"), str):
            made["type"] = [made["type"], "null"]
            if isinstance(made.get("enum"), list) and None not in made["enum"]:
                made["enum"] = [*made["enum"], None]
        elif made:
            return {"anyOf": [made, {"type": "null"}]}
    return made
