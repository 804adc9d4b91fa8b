"""What a step of a run got and gave, as bounded JSON: its size and its cost do not grow with the graph's state. Pure.

A value is copied at once, because a node may change its state in place. What is left out is marked where it was.
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import islice
from pathlib import PurePath
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import Command, Interrupt, Send
from pydantic import BaseModel

from agentic_backend.disclosure.redaction import redact, redacted_start
from agentic_backend.streaming.content.json_form import json_form
from agentic_backend.text.normal_form import clean

# The most characters and values of one input or output, and of what it consists of.
_MOST_CHARS, _MOST_VALUES = 48_000, 800
_LONGEST_TEXT, _MOST_FIELDS, _MOST_ITEMS, _DEEPEST = 4_000, 60, 40, 12

_PLAIN = (date, time, timedelta, UUID, Decimal, PurePath, Enum)


def step_value(value: Any, secrets: Collection[str] = ()) -> tuple[Any, int]:
    """`value` as JSON, shortened, and about how many characters it has.

    It may have secrets, but no part of one of these `secrets` that was cut through.
    """
    walk = _Shortening(secrets)
    try:
        form = walk.form(value, 0)
    except Exception:
        # An author's type may raise anything when it is read.
        form = _placeholder(value)
    return form, walk.chars


def without_secrets(form: Any, secrets: tuple[str, ...]) -> Any:
    """A step's value without the secrets that the server knows, and what looks like one."""
    if isinstance(form, str):
        return redact(form, secrets)
    if isinstance(form, dict):
        return {redact(name, secrets): without_secrets(item, secrets) for name, item in form.items()}
    return [without_secrets(item, secrets) for item in form] if isinstance(form, list) else form


class _Shortening:
    """Of one value: counts what it has taken of the bounds so far."""

    def __init__(self, secrets: Collection[str]) -> None:
        self.chars = 0
        self._secrets = secrets
        self._values = 0

    def form(self, value: Any, depth: int) -> Any:
        self._values += 1
        self.chars += 4
        if value is None or isinstance(value, bool | int | float):
            # Beyond 64 bits it is the text of its digits.
            value = json_form(value)
            if not isinstance(value, str):
                return value
        if isinstance(value, str):
            return self._text(value)
        if depth > _DEEPEST or self._values > _MOST_VALUES or self.chars > _MOST_CHARS:
            return "[left out]"
        if isinstance(value, list | tuple | set | frozenset):
            return self._items(value, depth)
        fields = _fields_of(value)
        if fields is None:
            return _placeholder(value)
        form = {}
        for name, item in islice(fields, _MOST_FIELDS):
            # First, while there is room for the name.
            key = self._text(name if isinstance(name, str) else str(self.form(name, depth + 1)))
            form[key] = self.form(item, depth + 1)
        if (more := sum(1 for _ in islice(fields, 1_000))) > 0:
            form["…"] = f"[{more} more left out]"
        return form

    def _items(self, value: Any, depth: int) -> list[Any]:
        """The newest items: of a long conversation, the last messages are what a step is about."""
        left_out = max(len(value) - _MOST_ITEMS, 0)
        # A set has no newest ones.
        newest = value[left_out:] if isinstance(value, list | tuple) else islice(value, _MOST_ITEMS)
        shown = [self.form(item, depth + 1) for item in newest]
        if left_out:
            shown.insert(0, f"[{left_out} before these left out]")
        return shown

    def _text(self, text: str) -> str:
        room = max(min(_LONGEST_TEXT, _MOST_CHARS - self.chars), 0)
        self.chars += min(len(text), room)
        if len(text) <= room:
            return clean(text)
        # A secret that was cut through could not be found any more.
        shown = redacted_start(text, room, self._secrets)[:room] if room else ""
        return f"{clean(shown)}… [{len(text) - room} more characters left out]"


def _fields_of(value: Any) -> Iterator[tuple[Any, Any]] | None:
    """What a value consists of by name; None if it is no such value."""
    if isinstance(value, BaseMessage):
        return iter(_of_message(value).items())
    if isinstance(value, Mapping):
        return iter(value.items())
    if isinstance(value, Send):
        return iter({"node": value.node, "arg": value.arg}.items())
    if isinstance(value, Interrupt):
        return iter({"interrupt": value.value}.items())
    if isinstance(value, Command):
        told = {"goto": value.goto, "update": value.update, "resume": value.resume, "graph": value.graph}
        return ((name, item) for name, item in told.items() if item not in (None, ()))
    if isinstance(value, BaseModel):
        return ((name, getattr(value, name, None)) for name in type(value).model_fields)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))
    return None


def _of_message(message: BaseMessage) -> dict[str, Any]:
    told: dict[str, Any] = {"type": message.type, "content": message.content}
    if message.name:
        told["name"] = message.name
    if isinstance(message, AIMessage) and message.tool_calls:
        told["tool_calls"] = [{"name": one["name"], "args": one["args"], "id": one["id"]} for one in message.tool_calls]
    if isinstance(message, ToolMessage):
        told |= {"tool_call_id": message.tool_call_id, "status": message.status}
    return told


def _placeholder(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{type(value).__name__}: {len(value)} bytes>"
    return json_form(value) if isinstance(value, _PLAIN) else f"<{type(value).__name__}>"
