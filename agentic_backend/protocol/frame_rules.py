"""What the JSON Schemas of client frames say beyond their fields: rules of several fields."""

from typing import Any

Schema = dict[str, Any]


def names_something(schema: Schema) -> None:
    """A session, an exchange, or both."""
    schema["anyOf"] = [_given("session_id"), _given("exchange_id")]


def changes_something(schema: Schema) -> None:
    """A title, a mark, or several of them."""
    schema["anyOf"] = [_given("title"), _given("pinned", "boolean"), _given("archived", "boolean")]


def agent_and_session_of_an_ask(schema: Schema) -> None:
    """`agent_name` is accepted for `agent_id`, but not beside it; a query names no session."""
    older_name = {"description": "The older name of `agent_id`.", "deprecated": True}
    schema["properties"]["agent_name"] = schema["properties"]["agent_id"] | older_name
    query = {"required": ["mode"], "properties": {"mode": {"const": "query"}}}
    schema["allOf"] = [
        {"if": _given("agent_id"), "then": _not_given("agent_name")},
        {"if": query, "then": _not_given("session_id")},
    ]


def _given(name: str, type: str = "string") -> Schema:
    return {"required": [name], "properties": {name: {"type": type}}}


def _not_given(name: str) -> Schema:
    return {"properties": {name: {"type": "null"}}}
