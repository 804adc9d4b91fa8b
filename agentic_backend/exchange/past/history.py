"""History: turns stored messages, by rank, into LangChain messages that a graph starts with.

A graph starts with what it left itself (see recall); these are the exchanges that it has not seen.

Providers require that the results of exactly its calls follow each model message with calls, and that the message
contains its text. So within an exchange, an observation is joined with its calls, and results move up to their calls.
A result without its call, and a call without its result, are left out, and so are messages that only a sub-agent had
(see reach).
"""

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agentic_backend.exchange.past.left_messages import first_rank_of
from agentic_backend.protocol.messages import Channel
from agentic_backend.protocol.parts import TextPart, ToolCallPart, ToolResultPart
from agentic_backend.stores.records import MessageRecord
from agentic_backend.streaming.content.conversion import to_langchain
from agentic_backend.streaming.transcode.reach import rows_that_reached

# The model sees no thoughts or plans again, and none of the server's errors and notes.
_UNSEEN = {Channel.THOUGHT, Channel.PLAN, Channel.ERROR, Channel.SYSTEM_NOTE}


HISTORY_BYTES = 4 * 1024 * 1024
"""The maximum stored size of the exchanges that are restored: far more than a model reads."""
LONGEST_STORED = 512 * 1024
"""Characters of the exchanges that may stand for a graph's messages: with all escapes less than is restored."""
# What is stored of a message beside its texts, about.
_OF_A_ROW = 300
# A UUID, or a long random word, as LangChain and providers make.
_RANDOM_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=(?:[A-Za-z]*\d){2})[A-Za-z\d]{16}")


def restore_exchanges(rows: Sequence[MessageRecord]) -> list[list[BaseMessage]]:
    """The messages of each exchange, given by rank, as a model may see them."""
    return list(map(restore_exchange, _by_exchange(rows)))


def restore_exchange(rows: Sequence[MessageRecord]) -> list[BaseMessage]:
    """The messages of one exchange, given by rank, as a model may see them."""
    rows = rows_that_reached(rows)
    # In order of arrival: a model may reuse the id of a call once the call has its result.
    results: dict[str, deque[BaseMessage]] = defaultdict(deque)
    for row in rows:
        for part in row.parts:
            if isinstance(part, ToolResultPart):
                results[part.call_id].append(to_langchain(row))
    restored: list[BaseMessage] = []
    beside_calls: BaseMessage | None = None
    for row in rows:
        if row.channel in _UNSEEN or row.channel is Channel.TOOL_RESULT:
            continue
        if row.channel is Channel.TOOL_CALL:
            _add_calls(restored, row, beside_calls, results)
            continue
        message = to_langchain(row)
        beside_calls = None
        # Providers refuse empty messages.
        if not message.text.strip():
            continue
        restored.append(message)
        # An observation without a finish reason belongs to the calls that follow it: those have the finish reason.
        if row.channel is Channel.OBSERVATION and row.metadata.finish_reason is None:
            beside_calls = message
    return restored


Content = tuple[Any, ...] | None


class StoredExchange(NamedTuple):
    """What an exchange's stored messages tell models, unless it is long, and about how many characters are stored."""

    contents: Sequence[Content]
    size: int


def stored_exchange(rows: Sequence[MessageRecord], restored: Sequence[BaseMessage]) -> StoredExchange:
    """`restored` are the messages made of `rows`; the size is that of all rows, which are read to make them."""
    size = sum(map(_size, rows))
    return StoredExchange(list(map(content_of, restored)) if size <= LONGEST_STORED else (), size)


def stored_exchanges(rows: Sequence[MessageRecord], restored: Sequence[Sequence[BaseMessage]]) -> list[StoredExchange]:
    """The same of several, given by rank, with what `restore_exchanges` has made of them."""
    return list(map(stored_exchange, _by_exchange(rows), restored))


def content_of(message: Any) -> Content:
    """What a model is told by a message, as far as the transcript tells it too; None if the message holds more.

    Ids are left aside that nobody has chosen, and what a provider tells of its own call: how much was read and written,
    and why it ended.
    """
    # Exactly these: a class of an author's own may hold anything.
    kind = type(message)
    if kind not in (HumanMessage, AIMessage, SystemMessage, ToolMessage) or message.model_extra:
        return None
    if any(value is not None for value in message.additional_kwargs.values()) or _is_chosen(message):
        return None
    if message.response_metadata and not (kind is AIMessage and "model_provider" in message.response_metadata):
        return None
    content = message.content if isinstance(message.content, str) else _mark(message.content)
    told = (kind.__name__, message.name, content)
    if kind is AIMessage:
        calls = [(call["id"], call["name"], _mark(call["args"])) for call in message.tool_calls]
        return None if message.invalid_tool_calls else (*told, calls)
    if kind is ToolMessage:
        return None if message.artifact is not None else (*told, message.tool_call_id, message.status)
    return told


def _is_chosen(message: BaseMessage) -> bool:
    """Whether an author may have chosen the message's id, and look for it."""
    return _RANDOM_ID.search(message.id or "") is None and first_rank_of(message) is None


def _mark(value: Any) -> tuple[int, int]:
    """What tells a list of blocks or the arguments of a call from others: they may be long, and be changed in place."""
    text = repr(value)
    return len(text), hash(text)


def _by_exchange(rows: Sequence[MessageRecord]) -> list[list[MessageRecord]]:
    return [list(own) for _, own in groupby(rows, key=lambda row: row.exchange_id)]


def _size(row: MessageRecord) -> int:
    parts = [*row.parts, *(row.model_parts or ())]
    return _OF_A_ROW + sum(len(part.text if isinstance(part, TextPart) else part.model_dump_json()) for part in parts)


def _add_calls(
    restored: list[BaseMessage], row: MessageRecord, beside: BaseMessage | None, results: dict[str, deque[BaseMessage]]
) -> None:
    answered = [part for part in row.parts if isinstance(part, ToolCallPart) and results[part.call_id]]
    if not answered:
        return
    calls = to_langchain(replace(row, parts=[*answered]))
    if beside is not None and restored[-1] is beside:
        calls.content = restored.pop().content
    restored.append(calls)
    for part in answered:
        result = results[part.call_id].popleft()
        result.name = part.name
        restored.append(result)
