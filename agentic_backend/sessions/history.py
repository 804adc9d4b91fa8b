"""History: stored messages, by rank, as the LangChain messages that a graph starts from.

Providers want each model message with calls directly followed by the results of exactly these calls, and its text
within it. So within an exchange an observation is joined with the calls that follow it, results move up to their
calls, and a result without its call, or a call without its result, is left out.
"""

from collections.abc import Sequence
from itertools import groupby

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentic_backend.protocol.messages import Channel, ChatMessage
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.streaming.content import to_langchain

# Thoughts are the model's own business, errors and notes are the server's: the model sees none of them again.
_UNSEEN = {Channel.THOUGHT, Channel.PLAN, Channel.ERROR, Channel.SYSTEM_NOTE}


class History:
    """The last `window` exchanges of a session. `next_rank` is the rank that it reaches up to."""

    def __init__(self, window: int, next_rank: int, messages: Sequence[ChatMessage] = ()) -> None:
        self._window = window
        self.next_rank = next_rank
        self._exchanges = [restore_exchange(list(rows)) for _, rows in groupby(messages, key=lambda m: m.exchange_id)]

    def extend(self, exchange: Sequence[ChatMessage], next_rank: int) -> None:
        """Add an exchange that has just ended."""
        self._exchanges.append(restore_exchange(exchange))
        del self._exchanges[: max(0, len(self._exchanges) - self._window)]
        self.next_rank = next_rank

    @property
    def messages(self) -> list[BaseMessage]:
        kept = self._exchanges[-self._window :] if self._window else []
        return [message for exchange in kept for message in exchange]


def restore_exchange(rows: Sequence[ChatMessage]) -> list[BaseMessage]:
    """The messages of one exchange, given by rank, as a model may see them."""
    results = {
        part.call_id: to_langchain(row) for row in rows for part in row.parts if isinstance(part, ToolResultPart)
    }
    restored: list[BaseMessage] = []
    for row in rows:
        if row.channel in _UNSEEN or row.channel is Channel.TOOL_RESULT:
            continue
        if row.channel is Channel.TOOL_CALL:
            _add_calls(restored, row, results)
        else:
            restored.append(to_langchain(row))
    return restored


def _add_calls(restored: list[BaseMessage], row: ChatMessage, results: dict[str, BaseMessage]) -> None:
    answered = [part for part in row.parts if isinstance(part, ToolCallPart) and part.call_id in results]
    if not answered:
        return
    calls = to_langchain(row.model_copy(update={"parts": answered}))
    assert isinstance(calls, AIMessage)
    before = restored[-1] if restored else None
    if isinstance(before, AIMessage) and not before.tool_calls:
        # The text of the same model message was stored as an observation of its own.
        calls.content = before.content
        restored.pop()
    restored.append(calls)
    restored += [result for part in answered if isinstance(result := results[part.call_id], ToolMessage)]
