"""Reach: tracks which of an exchange's messages reached the `messages` of the root graph, and so belong to its history.

Messages that a sub-agent keeps to itself, inside a tool or in a subgraph with its own messages, are shown and stored,
but are not part of the next exchange's history. A subgraph's messages are stored before its parent takes them over, and
stored rows never change. So such a row carries a number, and a later row names the numbers that have reached the root
since. Both are private fields of a row, which no client sees.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage

from agentic_backend.protocol.messages import Channel
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart, text_of
from agentic_backend.stores.records import MessageRecord
from agentic_backend.streaming.content.conversion import text_in

Marks = dict[str, Any]
"""The fields `inner` and `reached` of a row (see MessageDraft), if it has them."""


class Reach:
    """Identifies messages by their keys (see `keys_of`). `stored` are the rows of a continued exchange."""

    def __init__(self, stored: Sequence[MessageRecord] = ()) -> None:
        self._numbers: dict[object, int] = {}
        """The numbers of the messages that had not reached the root graph when they were stored, by key."""
        for row in stored:
            if (number := row.inner) is not None:
                calls = [part.call_id for part in row.parts if isinstance(part, ToolCallPart)]
                self._numbers |= dict.fromkeys(calls or [text_of(row.parts)], number)
        self._reached: set[object] = set()
        """The keys of the root graph's messages."""
        self._unnamed: set[int] = set()
        """The numbers that have reached the root graph since, but that no row names yet."""

    def add(self, keys: Sequence[object]) -> None:
        """Note that the root graph has the message with these keys."""
        new = [key for key in keys if key not in self._reached]
        self._reached.update(new)
        self._unnamed.update(self._numbers[key] for key in new if key in self._numbers)

    def marks(self, keys: Sequence[object]) -> Marks:
        """The marks of the next stored row, which shows the message with these keys."""
        marks = self.marks_of_final()
        if self._reached.isdisjoint(keys):
            number = self._numbers.get(keys[0], max(self._numbers.values(), default=-1) + 1)
            self._numbers |= dict.fromkeys(keys, number)
            marks["inner"] = number
        return marks

    def marks_of_final(self) -> Marks:
        """The marks of a row that always belongs to the history."""
        reached, self._unnamed = sorted(self._unnamed), set()
        return {"reached": reached} if reached else {}


def keys_of(message: AIMessage, *, by_text: bool = False) -> list[object]:
    """The keys of a message: its id, the ids of its calls or, with `by_text` and without calls, its text.

    They also match a parent's copy, which may have another id.
    """
    keys: list[object] = [call["id"] for call in message.tool_calls]
    if message.id is not None:
        keys.insert(0, message.id)
    if by_text and not message.tool_calls and (text := text_in(message)):
        return [*keys, text]
    return keys


def rows_that_reached(rows: Sequence[MessageRecord]) -> list[MessageRecord]:
    """The rows of one exchange without those that never reached its root graph; a final is always kept."""
    unmarked_or_named = {None, *(number for row in rows for number in row.reached)}
    kept: list[MessageRecord] = []
    inner_calls: set[str] = set()
    for row in rows:
        if row.channel is Channel.FINAL or row.inner in unmarked_or_named:
            answers = {part.call_id for part in row.parts if isinstance(part, ToolResultPart)}
            if inner_calls.isdisjoint(answers):
                kept.append(row)
            inner_calls -= answers
        else:
            inner_calls |= {part.call_id for part in row.parts if isinstance(part, ToolCallPart)}
    return kept
