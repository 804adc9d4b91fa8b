"""Examples of what schemas describe: those of the protocol and of the models, else values of the usual names."""

import json
import re
from datetime import UTC, datetime
from typing import Any

from pydantic.json_schema import JsonSchemaValue

from agentic_backend.stores.cursors import cursor_at
from agentic_backend.transports.contract.examples import examples
from agentic_backend.transports.contract.json_schemas import COMPONENTS

_AT = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
_CURSOR = cursor_at(_AT, "5b1f0c")
# By names in snake_case, which stand for those in camelCase too.
_NAMED: dict[str, Any] = {
    "id": "5b1f0c",
    "session_id": "5b1f0c",
    "exchange_id": "9d27aa",
    "client_exchange_id": "my-exchange-1",
    "assignment_id": "essay-3",
    "submission_id": "submission-7",
    "request_id": "4f7c19",
    "interrupt_id": "i_2",
    "call_id": "call_1",
    "tool_call_id": "call_1",
    "run_id": "my-run-1",
    "agent_name": "assistant",
    "from": "assistant",
    "to": "documentation",
    "partial_output": "It is sunny",
    "result": "18 °C, sunny",
    "user_id": "ada",
    "agent_id": "assistant",
    "tool_id": "assistant",
    "name": "weather",
    "title": "Weather in Bern",
    "text": "It is sunny in Bern, at 18 °C.",
    "content": "What is the weather in Bern?",
    "description": "Answers questions about the weather.",
    "tags": ["weather"],
    "starters": ["What is the weather in Bern?"],
    "tools": ["weather"],
    "chat_profile": "default",
    "args": {"city": "Bern"},
    "model": "openai:gpt-5-mini",
    "next_cursor": _CURSOR,
    "next_cursors": {"tool_calls": _CURSOR},
    "cursor": _CURSOR,
    "q": "Bern",
    "limit": 50,
    "currency": "EUR",
    "keys": {"day": "2026-11-23"},
    "by": ["day"],
    "group": {"agent_id": "assistant"},
    "aggregations": {"latency_ms:p95": 1840.0},
    "scope": {"class": "geography-5b"},
    "module": "pii",
    "class_path": "agentic_backend.modules.pii:PiiRedaction",
    "point": "chat:before_ai",
    "points": ["chat:before_ai"],
    "circuits": {"chat:before_ai": "closed"},
    "on_failure": "continue",
    "mean_ms": 1.4,
    "last_error": "timeout",
    "error": "timeout",
    "source": "agent",
    "version": "1",
    "level": "agent",
    "value": "concise",
    "settings": {},
    "purpose": "title",
    "amount": 0.0042,
    "latency_ms_mean": 840.0,
    "status": "ok",
    "subject": "ada",
    "original_content": "Write to ada@example.org.",
    "redaction_module": "pii",
    "redaction_reason": "It names a person.",
    "patterns_matched": ["email"],
    "server": "0.1.0",
    "protocols": ["chat.v2", "classic"],
    "documents": ["/openapi.json", "/asyncapi.json"],
    "paths": ["/agentic/v1"],
    "features": ["approvals", "trust"],
    "page_sizes": {"list_sessions": {"default": 50, "at_most": 200}},
    "message_bytes": 262_144,
    "frame_bytes": 2_097_152,
    "runtime_context_bytes": 16_384,
    "authenticate_timeout_s": 5.0,
    "send_timeout_s": 10.0,
    "operation_id": "list_classic_sessions",
    "since": "2026-11-23",
    "approved_by": "ada",
    "runs_on": "server-1",
    "reported_in": "9d27aa",
    "use": "GET /agentic/v1/sessions",
    "reason": "It names a person.",
    "method": "GET",
    "path": "/agentic/v1/sessions",
}
_DEEPEST = 8
_TIME = "2026-11-23T09:30:00.000000Z"
_OF_TYPES: dict[str, Any] = {"string": "text", "number": 0.5, "boolean": True, "object": {}, "null": None}
_PYTHON: dict[str, type] = {"string": str, "integer": int, "number": float, "object": dict, "array": list}


class SchemaExamples:
    def __init__(self, components: dict[str, JsonSchemaValue]) -> None:
        """`components` are the schemas that others refer to."""
        self._components = components
        self._of_protocol = examples()
        self._depth = 0
        """In how many objects the one is that is made."""

    def of(self, schema: JsonSchemaValue, name: str = "") -> Any:
        """An example of the value of the property `name`. Of optional properties it has those with own examples."""
        for keyword in ("examples", "enum"):
            if keyword in schema:
                return schema[keyword][0]
        if "const" in schema:
            return schema["const"]
        if "$ref" in schema:
            known = self._of_protocol.get(_name(schema))
            return known[0] if known else self.of(self.resolved(schema), name)
        if "properties" in schema:
            return self._of_object(schema)
        if branches := schema.get("oneOf") or schema.get("anyOf"):
            return self.of(branches[0], name)
        named, expected = _NAMED.get(_snake_case(name)), _PYTHON.get(schema.get("type", "string"))
        if expected is not None and isinstance(named, expected) and "$ref" not in schema.get("items", {}):
            return named
        return self._of_value(schema)

    def resolved(self, schema: JsonSchemaValue) -> JsonSchemaValue:
        """The schema that `schema` refers to, or itself."""
        return self._components[_name(schema)] if "$ref" in schema else schema

    def _of_object(self, schema: JsonSchemaValue) -> dict[str, Any]:
        if self._depth >= _DEEPEST:
            # It has itself, or is too large to be shown.
            return {}
        required = schema.get("required", ())
        self._depth += 1
        try:
            return {
                name: self.of(property, name)
                for name, property in schema["properties"].items()
                if name in required or "examples" in property
            }
        finally:
            self._depth -= 1

    def _of_value(self, schema: JsonSchemaValue) -> Any:
        type_of = schema.get("type", "string")
        if "contentSchema" in schema:
            return json.dumps(self.of(schema["contentSchema"]))
        if schema.get("format") == "date-time":
            return _TIME
        if type_of == "array":
            return [] if schema.get("maxItems") == 0 else [self.of(schema.get("items", {}))]
        if type_of == "object" and isinstance(schema.get("additionalProperties"), dict):
            return {"name": self.of(schema["additionalProperties"])}
        if type_of == "integer":
            return schema.get("minimum", 1)
        return _OF_TYPES[type_of]


def _snake_case(name: str) -> str:
    return re.sub(r"([A-Z])", r"_\1", name).lower()


def _name(reference: JsonSchemaValue) -> str:
    """The name of the component that is referred to."""
    return str(reference["$ref"]).removeprefix(COMPONENTS.format(model=""))
