"""What the JSON Schemas of client frames say beyond their fields: rules of several fields."""

from typing import Any

Schema = dict[str, Any]
_A_LIST: Schema = {"type": "array", "minItems": 1}
_NO_LIST: Schema = {"anyOf": [{"type": "array", "maxItems": 0}, {"type": "null"}]}


def names_something(schema: Schema) -> None:
    """A session, an exchange, or both."""
    schema["anyOf"] = [_given("session_id"), _given("exchange_id")]


def changes_something(schema: Schema) -> None:
    """A title, a mark, or several of them."""
    schema["anyOf"] = [_given("title"), _given("pinned", "boolean"), _given("archived", "boolean")]


def tells_something(schema: Schema) -> None:
    """Texts, structured content, or both."""
    texts = {"required": ["texts"], "properties": {"texts": _A_LIST}}
    schema["anyOf"] = [texts, _given("structured_content", "object")]


def message_or_messages(schema: Schema) -> None:
    """A text, or a list of messages, and not both."""
    schema["anyOf"] = [
        _given("message") | {"properties": {"message": {"type": "string"}, "messages": _NO_LIST}},
        {"required": ["messages"], "properties": {"messages": _A_LIST, "message": {"type": "null"}}},
    ]


def agent_and_session_of_an_ask(schema: Schema) -> None:
    """`agent_name` is accepted for `agent_id`, not beside it. A query names no session, and alone takes a history."""
    older_name = {"description": "The older name of `agent_id`.", "deprecated": True}
    schema["properties"]["agent_name"] = schema["properties"]["agent_id"] | older_name
    query = {"required": ["mode"], "properties": {"mode": {"const": "query"}}}
    schema["allOf"] = [
        {"if": _given("agent_id"), "then": _not_given("agent_name")},
        {"if": query, "then": _not_given("session_id"), "else": {"properties": {"history": _NO_LIST}}},
    ]


def _given(name: str, type: str = "string") -> Schema:
    return {"required": [name], "properties": {name: {"type": type}}}


def _not_given(name: str) -> Schema:
    return {"properties": {name: {"type": "null"}}}
