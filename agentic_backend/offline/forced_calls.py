"""The call that the offline model makes because it is forced to, with arguments that fit the tool's schema. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage, ToolCall

from agentic_backend.offline.phrases import Plan

ToolChoice = str | bool | Mapping[str, Any] | None
"""As providers take it: `any`, `required` or True for any tool, a tool by its name, or a mapping that names one."""

_ANY = ("any", "required", True)
_NONE = ("auto", "none", "", False, None)
# Schemas may nest without end by references.
_DEEPEST = 10


def with_forced_call(
    plan: Plan, messages: Sequence[BaseMessage], functions: Sequence[Mapping[str, Any]], choice: ToolChoice
) -> Plan:
    """`plan`, or one that calls the forced tool instead; of any tool, the last: that is where LangChain offers outputs.

    What the plan would have said stands in the arguments.
    """
    if choice in _NONE or plan.ending in ("fail", "hang"):
        return plan
    if choice in _ANY:
        forced = None if plan.calls else next(reversed(functions), None)
    else:
        name = choice if isinstance(choice, str) else _named(choice)
        forced = next((one for one in functions if one["name"] == name and not _calls(plan, name)), None)
    if forced is None:
        return plan
    said = hashlib.sha256("\n".join(message.text for message in messages).encode()).hexdigest()[:16]
    call = ToolCall(
        name=forced["name"],
        args=_value(forced.get("parameters") or {"type": "object"}, plan.text, _DEEPEST),
        id=f"call_{said}_{len(messages)}",
    )
    return replace(plan, text="", calls=(call,))


def _named(choice: Any) -> Any:
    """The name in `{"type": "function", "function": {"name": …}}` or `{"type": "tool", "name": …}`."""
    inner = choice.get("function", choice) if isinstance(choice, Mapping) else {}
    return inner.get("name") if isinstance(inner, Mapping) else None


def _calls(plan: Plan, name: Any) -> bool:
    return bool(plan.calls) and all(call["name"] == name for call in plan.calls)


def _value(schema: Any, text: str, depth: int) -> Any:
    """A value of a JSON Schema. What a pattern or a format asks of a text is not known here."""
    if not isinstance(schema, Mapping) or not depth:
        return text
    given = [schema[name] for name in ("const", "default") if name in schema] + list(schema.get("enum", ()))
    if given:
        return given[0]
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return _value(schema[name][0], text, depth - 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return _of_type(kind[0] if isinstance(kind, list) and kind else kind, schema, text, depth)


def _of_type(kind: Any, schema: Mapping[str, Any], text: str, depth: int) -> Any:
    match kind:
        case "object":
            properties = schema.get("properties", {})
            return {name: _value(properties.get(name), text, depth - 1) for name in schema.get("required", ())}
        case "array":
            return [_value(schema.get("items"), text, depth - 1)] * schema.get("minItems", 0)
        case "integer" | "number":
            return schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
        case "boolean":
            return False
        case "null":
            return None
    return text[: schema.get("maxLength")].ljust(schema.get("minLength", 0), ".")
