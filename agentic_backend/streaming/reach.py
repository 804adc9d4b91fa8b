"""Which of an exchange's messages reached the `messages` of the root graph, and so belong to what it remembers.

What a sub-agent keeps to itself, inside a tool or in a subgraph with messages of its own, is shown and stored, but no
part of the next exchange's history. A subgraph's messages are stored before its parent takes them over, and what is
stored never changes. So such a row carries a number in its extras, and a later row names the numbers that have
reached the root since.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage

from agentic_backend.protocol.messages import Channel, ChatMessage
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart, text_of

_INNER, _REACHED = "inner", "reached"


class Reach:
    """A message is known by its keys (see `keys_of`). `stored` are the rows of an exchange that goes on."""

    def __init__(self, stored: Sequence[ChatMessage] = ()) -> None:
        self._numbers: dict[object, int] = {}
        for row in stored:
            if (number := row.metadata.extras.get(_INNER)) is not None:
                calls = [part.call_id for part in row.parts if isinstance(part, ToolCallPart)]
                self._numbers |= dict.fromkeys(calls or [text_of(row.parts)], number)
        self._reached: set[object] = set()
        self._unnamed: set[int] = set()

    def add(self, keys: Sequence[object]) -> None:
        """The root graph has the message of these keys."""
        new = [key for key in keys if key not in self._reached]
        self._reached.update(new)
        self._unnamed.update(self._numbers[key] for key in new if key in self._numbers)

    def extras(self, keys: Sequence[object]) -> dict[str, Any]:
        """The extras of a row that shows the message of these keys, and is stored next."""
        extras = self.extras_of_final()
        if self._reached.isdisjoint(keys):
            number = self._numbers.get(keys[0], max(self._numbers.values(), default=-1) + 1)
            self._numbers |= dict.fromkeys(keys, number)
            extras[_INNER] = number
        return extras

    def extras_of_final(self) -> dict[str, Any]:
        """The extras of a row that is part of the history in any case."""
        reached, self._unnamed = sorted(self._unnamed), set()
        return {_REACHED: reached} if reached else {}


def keys_of(message: AIMessage, *, by_text: bool = False) -> list[object]:
    """What a message is known by, whoever hands it over: its id, the ids of its calls or, `by_text`, its text.

    A parent may take over a copy, which has another id.
    """
    keys: list[object] = [call["id"] for call in message.tool_calls]
    if message.id is not None:
        keys.insert(0, message.id)
    return [*keys, message.text] if by_text and message.text and not message.tool_calls else keys


def rows_that_reached(rows: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The rows of one exchange without those that its root graph never had; a final counts always."""
    unmarked_or_named = {None, *(number for row in rows for number in row.metadata.extras.get(_REACHED, ()))}
    kept: list[ChatMessage] = []
    inner_calls: set[str] = set()
    for row in rows:
        if row.channel is Channel.FINAL or row.metadata.extras.get(_INNER) in unmarked_or_named:
            answers = {part.call_id for part in row.parts if isinstance(part, ToolResultPart)}
            if inner_calls.isdisjoint(answers):
                kept.append(row)
            inner_calls -= answers
        else:
            inner_calls |= {part.call_id for part in row.parts if isinstance(part, ToolCallPart)}
    return kept
