"""Outbox: stores a graph's drafts, then shows them in the exchange's log.

The graph's task adds drafts without waiting; the exchange's own task writes them. So cancelling the graph never
interrupts a write. A complete message is stored before it is shown; deltas are never stored. A batch that could not be
stored comes first in the next write, so an outage loses no text.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from agentic_backend.exchange.life import Life
from agentic_backend.exchange.tool_calls import ToolCalls
from agentic_backend.exchange.writer import ExchangeWriter
from agentic_backend.protocol.events import Activity, Stream
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.relay.exchange_log import ExchangeLog
from agentic_backend.stores.base import Checkpoint, ExchangeEnd
from agentic_backend.stores.records import MessageDraft, MessageRecord
from agentic_backend.stores.trail import TrailRecord
from agentic_backend.streaming.drafts import ActivityDraft, CompleteDraft, Draft, TextDraft


class Outbox:
    def __init__(
        self,
        writer: ExchangeWriter,
        log: ExchangeLog,
        life: Life,
        checkpoint_at: Callable[[ToolCallPart | ToolResultPart], Awaitable[Checkpoint | None]],
        stored: Sequence[MessageRecord] = (),
        tool_calls: ToolCalls | None = None,
    ) -> None:
        """`stored` are the exchange's messages so far, `tool_calls` their records; None keeps none.

        `checkpoint_at` takes the checkpoint that is stored in one batch with a tool call or its result.
        """
        self.writer = writer
        self.log = log
        """The log that shows clients stored messages and new text."""
        self.stored = list(stored)
        """The exchange's stored messages."""
        self._life = life
        """Decides whether drafts are accepted; its `wakeup` is set when a draft waits."""
        self._checkpoint_at = checkpoint_at
        self._tool_calls = tool_calls
        self._waiting: deque[Draft] = deque()
        """The drafts that are not shown yet, in order; the first is a complete message."""
        self._trail: list[TrailRecord] = []
        """The records that go along with the next write."""

    def accept(self, drafts: Sequence[Draft]) -> None:
        """Show text and activities at once, unless a complete message waits before them; the rest waits for `write`.

        Drafts that come while the exchange ends are dropped.
        """
        if not self._life.is_open:
            return
        for draft in drafts:
            if self._waiting or isinstance(draft, CompleteDraft):
                self._add(draft)
                self._life.wakeup.set()
            else:
                self._show(draft)

    def record(self, trail: Sequence[TrailRecord]) -> None:
        """Add records beside the messages; they are stored in one step with the next messages, or with the end."""
        self._trail.extend(trail)

    def accept_last(self, last: Sequence[CompleteDraft]) -> None:
        """Add the last messages of an exchange that ends; they wait for `write`."""
        for draft in last:
            self._add(draft)

    def _add(self, draft: Draft) -> None:
        self._waiting.append(draft)
        if self._tool_calls is not None and isinstance(draft, CompleteDraft):
            self._trail += self._tool_calls.add([draft.message])

    @property
    def unwritten(self) -> list[MessageDraft]:
        """The messages that wait for `write`."""
        return [draft.message for draft in _complete(self._waiting)]

    @property
    def seq_after_all(self) -> int:
        """The seq of the last event once all waiting drafts are shown."""
        return self.log.last_seq + len(self._waiting)

    async def write(self, end: ExchangeEnd | None = None, checkpoint: Checkpoint | None = None) -> None:
        """Store all waiting drafts in one step with `end` and `checkpoint`, then show them in order.

        Raises StoreUnavailable or FencedOut; the batch then still waits, and none of it is shown.
        """
        while self._waiting or end is not None:
            batch = list(self._waiting)
            complete = _complete(batch)
            boundary = _last_of_a_tool([draft.message for draft in complete])
            if boundary is not None and end is None:
                checkpoint = await self._checkpoint_at(boundary)
            trail = list(self._trail) if complete or end else []
            stored = await self.writer.write(complete, end, checkpoint, trail) if complete or end else []
            self.stored += stored
            del self._trail[: len(trail)]
            messages = iter(stored)
            for draft in batch:
                self._waiting.popleft()
                if isinstance(draft, CompleteDraft):
                    message = next(messages).shown()
                    self.log.append(Stream(**self.log.next_place(), message=message, block=draft.block))
                else:
                    self._show(draft)
            end = checkpoint = None

    def _show(self, draft: TextDraft | ActivityDraft) -> None:
        if isinstance(draft, TextDraft):
            self.log.append_text(draft.block, draft.channel, draft.text)
        else:
            self.log.append(Activity(**self.log.next_place(), kind=draft.kind, data=draft.data))


def _complete(drafts: Iterable[Draft]) -> list[CompleteDraft]:
    return [draft for draft in drafts if isinstance(draft, CompleteDraft)]


def _last_of_a_tool(messages: Sequence[MessageDraft]) -> ToolCallPart | ToolResultPart | None:
    parts = [part for message in messages for part in message.parts]
    return next((part for part in reversed(parts) if isinstance(part, ToolCallPart | ToolResultPart)), None)
