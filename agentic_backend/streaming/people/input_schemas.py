"""The JSON Schema of what a person may enter for an interrupt: an answer, or the edited arguments of a call. Pure."""

from collections.abc import Mapping
from typing import Any

import orjson
from langgraph.types import Interrupt

from agentic_backend.errors import LimitReached
from agentic_backend.streaming.content.json_form import json_form

Schema = Mapping[str, Any]

_LONGEST_SCHEMA = 64 * 1024


def answer_schema(interrupt: Interrupt) -> dict[str, Any] | None:
    """The schema of the answer to a question, as the graph gave it."""
    return _shown(interrupt.response_schema)


def args_schema(interrupt: Interrupt) -> dict[str, Any] | None:
    """The schema of the edited arguments of a call of LangChain's middleware."""
    edit = decision_schemas(interrupt).get("edit")
    return _with_definitions(interrupt, _property(interrupt, _property(interrupt, edit, "edited_action"), "args"))


def message_schema(interrupt: Interrupt) -> dict[str, Any] | None:
    """The schema of the words with which a person responds in place of a tool."""
    return _with_definitions(interrupt, _property(interrupt, decision_schemas(interrupt).get("respond"), "message"))


def decision_schemas(interrupt: Interrupt) -> dict[str, Schema]:
    """The schemas of the decisions that LangChain's middleware allows on a call, by type."""
    schema = interrupt.response_schema
    if not isinstance(schema, dict):
        return {}
    options = schema.get("oneOf")
    found = {}
    for option in options if isinstance(options, list) and options else [schema]:
        decision = _resolved(interrupt, option) if isinstance(option, Mapping) else {}
        kind = _property(interrupt, decision, "type") or {}
        if isinstance(kind.get("const"), str):
            found[kind["const"]] = decision
    return found


def _shown(schema: Any) -> dict[str, Any] | None:
    """`schema` as JSON; None if it is none.

    Raises LimitReached if it is too large to be shown: an answer is checked against what people see.
    """
    form = json_form(schema)
    if not isinstance(form, dict):
        return None
    if len(orjson.dumps(form)) > _LONGEST_SCHEMA:
        raise LimitReached(f"The agent asks a person with a schema of more than {_LONGEST_SCHEMA // 1024} KiB.")
    return form


def _with_definitions(interrupt: Interrupt, schema: Schema | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    definitions = _definitions(interrupt)
    return _shown({"$defs": definitions, **schema} if definitions else schema)


def _property(interrupt: Interrupt, schema: Schema | None, name: str) -> Schema | None:
    properties = schema.get("properties") if schema else None
    found = properties.get(name) if isinstance(properties, Mapping) else None
    return _resolved(interrupt, found) if isinstance(found, Mapping) else None


def _resolved(interrupt: Interrupt, schema: Schema) -> Schema:
    reference = schema.get("$ref")
    found = _definitions(interrupt).get(reference.rpartition("/")[2]) if isinstance(reference, str) else schema
    return found if isinstance(found, Mapping) else {}


def _definitions(interrupt: Interrupt) -> Schema:
    """The definitions that a response schema refers to; pydantic, which generates it, puts them in `$defs`."""
    schema = interrupt.response_schema
    found = schema.get("$defs") if isinstance(schema, dict) else None
    return found if isinstance(found, Mapping) else {}
