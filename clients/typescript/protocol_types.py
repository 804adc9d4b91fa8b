"""Writes protocol.d.ts, the protocol in TypeScript, from the JSON Schemas in docs/schemas.

A program: `python protocol_types.py > protocol.d.ts`. What a schema says and TypeScript can't (lengths, patterns,
conditions) is left out. Every field is readonly, and a frame's `type` is needed: it tells frames apart.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

_SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
_PRIMITIVES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_HEAD = """\
/**
 * The protocol of the server, as TypeScript types.
 *
 * Generated from its JSON Schemas by `make clients`. A server of the same protocol may send fields and types of events
 * that are not here; a client ignores them.
 */
"""
_WIDTH = 120

Schema = Mapping[str, Any]


def protocol_types() -> str:
    """The text of protocol.d.ts."""
    schemas = {path.stem: json.loads(path.read_text()) for path in sorted(_SCHEMAS.glob("*.json"))}
    events = _members(schemas["ServerEvent"])
    schemas["ExchangeEvent"] = {
        "description": "An event of an exchange. Its `seq` is its place there.",
        "anyOf": [{"$ref": f"{name}.json"} for name in events if "seq" in schemas[name].get("required", ())],
    }
    named = {_type(schemas[name], {}): name for name in ("ExchangeEvent", "Part")}
    return "\n".join([_HEAD, *(_declaration(name, schema, named) for name, schema in sorted(schemas.items()))])


def _members(union: Schema) -> list[str]:
    """The names of the schemas in a union, also of those within one of its unions."""
    if "$ref" in union:
        return [_name(union["$ref"])]
    return [name for each in _alternatives(union) for name in _members(each)]


def _declaration(name: str, schema: Schema, named: Mapping[str, str]) -> str:
    comment = _comment(schema.get("description", ""))
    if "properties" not in schema:
        return comment + _union(name, _type(schema, {text: other for text, other in named.items() if other != name}))
    return f"{comment}export interface {name} {{\n{''.join(_fields(schema, named))}}}\n"


def _fields(schema: Schema, named: Mapping[str, str]) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        comment = _comment(field.get("description", ""), indent="  ")
        if name == "type" and (literal := _literal(field)):
            yield f"{comment}  readonly type: {literal};\n"
        else:
            yield f"{comment}  readonly {name}{'' if name in required else '?'}: {_type(field, named)};\n"


def _literal(field: Schema) -> str | None:
    """The one text that the field may have, beside the null that a frame may have in its place."""
    consts = [json.dumps(each["const"]) for each in _alternatives(field) or [field] if "const" in each]
    return consts[0] if len(consts) == 1 else None


def _type(schema: Schema, named: Mapping[str, str]) -> str:
    """What the schema allows; a union that has a name by that name."""
    if "$ref" in schema:
        return _name(schema["$ref"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if alternatives := _alternatives(schema):
        text = " | ".join(_type(each, named) for each in alternatives)
        return named.get(text, text)
    kind = schema.get("type")
    if kind == "array":
        items = _type(schema["items"], named)
        return f"readonly ({items})[]" if "|" in items else f"readonly {items}[]"
    if kind == "object":
        return f"Readonly<Record<string, {_values(schema, named)}>>"
    return _PRIMITIVES[kind] if kind else "unknown"


def _alternatives(schema: Schema) -> list[Schema]:
    return schema.get("anyOf") or schema.get("oneOf") or []


def _values(schema: Schema, named: Mapping[str, str]) -> str:
    """The type of the values of an object whose keys are free."""
    allowed = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
    types = [_type(each, named) for each in allowed if isinstance(each, Mapping)]
    return " | ".join(dict.fromkeys(types)) or "unknown"


def _name(reference: str) -> str:
    return reference.removesuffix(".json")


def _union(name: str, text: str) -> str:
    for line in (f"export type {name} = {text};\n", f"export type {name} =\n  {text};\n"):
        if max(map(len, line.splitlines())) <= _WIDTH:
            return line
    return f"export type {name} =\n" + "".join(f"  | {each}\n" for each in text.split(" | "))[:-1] + ";\n"


def _comment(description: str, indent: str = "") -> str:
    lines = description.replace("*/", "*\\/").splitlines()
    if not lines:
        return ""
    if len(lines) == 1 and len(line := f"{indent}/** {lines[0]} */\n") <= _WIDTH:
        return line
    wrapped = [part for line in lines for part in wrap(line, _WIDTH - len(indent) - 3) or [""]]
    return f"{indent}/**\n" + "".join(f"{indent} * {line}".rstrip() + "\n" for line in wrapped) + f"{indent} */\n"


if __name__ == "__main__":
    print(protocol_types(), end="")
