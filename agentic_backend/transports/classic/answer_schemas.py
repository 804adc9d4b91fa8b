"""How an older client can be asked for an answer that has a JSON Schema. Pure."""

import json
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

MOST_CHOICES = 200
# A reference may lead to a reference, and a harmful schema in a circle.
_MOST_REFERENCES = 16
_NEITHER = {"id": "null", "label": "Neither"}


def choices_of(schema: Schema) -> list[dict[str, str]]:
    """The few answers that the schema allows; the id of each is its JSON. Empty if they are many, or no list."""
    plain, is_nullable = _without_null(schema, _resolved(schema, schema))
    if plain.get("type") == "boolean":
        choices = [{"id": "true", "label": "Yes"}, {"id": "false", "label": "No"}]
    else:
        choices = _listed(plain)
    if is_nullable and choices and _NEITHER["id"] not in (choice["id"] for choice in choices):
        choices.append(_NEITHER)
    return choices if len(choices) <= MOST_CHOICES else []


def is_text(schema: Schema) -> bool:
    """Whether a text is an answer as it is."""
    resolved = _resolved(schema, schema)
    parts = [_resolved(schema, part) for part in _alternatives(resolved)]
    plain, _ = _without_null(schema, resolved)
    return plain.get("type") == "string" or {"type": "string"} in parts


def _listed(schema: Schema) -> list[dict[str, str]]:
    named, values = _alternatives(schema), schema.get("enum")
    if named and all(isinstance(part, Mapping) and "const" in part for part in named):
        return [_choice(part["const"], part.get("title")) for part in named]
    if isinstance(values, list):
        return [_choice(value) for value in values]
    return [_choice(schema["const"])] if "const" in schema else []


def _choice(value: Any, title: Any = None) -> dict[str, str]:
    label = title if isinstance(title, str) and title else value
    return {"id": json.dumps(value), "label": label if isinstance(label, str) else json.dumps(label)}


def _without_null(root: Schema, schema: Schema) -> tuple[Schema, bool]:
    """The schema of `X` in one of `X | None`, and whether it is one."""
    parts = [_resolved(root, part) for part in _alternatives(schema)]
    others = [part for part in parts if part.get("type") != "null"]
    if len(parts) > len(others) == 1:
        return others[0], True
    types = schema.get("type")
    if isinstance(types, list) and "null" in types:
        kept = [one for one in types if one != "null"]
        return {**schema, "type": kept[0] if len(kept) == 1 else kept}, True
    return schema, False


def _alternatives(schema: Schema) -> list[Any]:
    return next((found for name in ("anyOf", "oneOf") if isinstance(found := schema.get(name), list)), [])


def _resolved(root: Schema, part: Any) -> Schema:
    """`part`, or what its `$ref` names within `root`; empty if that leads nowhere."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(part, Mapping):
            return {}
        if not isinstance(part.get("$ref"), str):
            return part
        beside = {name: item for name, item in part.items() if name != "$ref"}
        found: Any = root
        for step in part["$ref"].removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        part = {**found, **beside} if isinstance(found, Mapping) and part["$ref"].startswith("#/") else None
    return {}
