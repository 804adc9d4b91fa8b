"""History: stored messages, by rank, as the LangChain messages that a graph starts from.

Providers want each model message with calls directly followed by the results of exactly these calls, and its text
within it. So within an exchange an observation is joined with the calls that it stood beside, results move up to their
calls, and a result without its call, or a call without its result, is left out. What only a sub-agent had is left out
too (see reach).
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import groupby

from langchain_core.messages import BaseMessage

from agentic_backend.protocol.messages import Channel, ChatMessage
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.stores.rows import message_bytes
from agentic_backend.streaming.content import to_langchain
from agentic_backend.streaming.reach import rows_that_reached

# Thoughts are the model's own business, errors and notes are the server's: the model sees none of them again.
_UNSEEN = {Channel.THOUGHT, Channel.PLAN, Channel.ERROR, Channel.SYSTEM_NOTE}


HISTORY_BYTES = 4 * 1024 * 1024
"""What is stored of the exchanges in a history, at most: far more than a model reads."""


class History:
    """The last `window` exchanges of a session, as far as they fit into HISTORY_BYTES.

    `next_rank` is the rank that it reaches up to. `messages` fit already.
    """

    def __init__(self, window: int, next_rank: int, messages: Sequence[ChatMessage] = ()) -> None:
        self._window = window
        self.next_rank = next_rank
        exchanges = [list(rows) for _, rows in groupby(messages, key=lambda m: m.exchange_id)]
        self._exchanges = [restore_exchange(rows) for rows in exchanges]
        self._bytes = [sum(map(message_bytes, rows)) for rows in exchanges]
        """Of each exchange."""

    def extend(self, exchange: Sequence[ChatMessage], next_rank: int) -> None:
        """Add an exchange that has just ended."""
        self._exchanges.append(restore_exchange(exchange))
        self._bytes.append(sum(map(message_bytes, exchange)))
        while len(self._exchanges) > self._window or sum(self._bytes) > HISTORY_BYTES:
            del self._exchanges[0], self._bytes[0]
        self.next_rank = next_rank

    @property
    def messages(self) -> list[BaseMessage]:
        kept = self._exchanges[-self._window :] if self._window else []
        return [message for exchange in kept for message in exchange]


def restore_exchange(rows: Sequence[ChatMessage]) -> list[BaseMessage]:
    """The messages of one exchange, given by rank, as a model may see them."""
    rows = rows_that_reached(rows)
    # In the order in which they came: a model may use the id of a call again once that has its result.
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
        # A text of its own has a finish reason; the calls beside which the others stand have it for them.
        is_beside_calls = row.channel is Channel.OBSERVATION and row.metadata.finish_reason is None
        beside_calls = message if is_beside_calls else None
        # Providers refuse a message without a word.
        if message.text.strip():
            restored.append(message)
    return restored


def _add_calls(
    restored: list[BaseMessage], row: ChatMessage, beside: BaseMessage | None, results: dict[str, deque[BaseMessage]]
) -> None:
    answered = [part for part in row.parts if isinstance(part, ToolCallPart) and results[part.call_id]]
    if not answered:
        return
    calls = to_langchain(row.model_copy(update={"parts": answered}))
    if beside is not None and restored[-1] is beside:
        calls.content = restored.pop().content
    restored.append(calls)
    for part in answered:
        result = results[part.call_id].popleft()
        result.name = part.name
        restored.append(result)
