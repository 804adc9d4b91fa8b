"""Delivery: store, then show. The one way from a transcoder's drafts to an exchange's log.

The graph's side hands drafts over and never waits; the exchange's own task writes them. So the graph may be cancelled
at any moment without a write being cut in two. A complete message is stored before it is shown; deltas never are
stored. What the store refused comes first in the next write, so that an outage loses no text.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.protocol.events import Activity, ErrorInfo, ExchangeError, Final, Stream
from agentic_backend.protocol.messages import Channel, MessageDraft, MessageMetadata, Role
from agentic_backend.protocol.parts import TextPart, ToolCallPart, ToolResultPart
from agentic_backend.sessions.ledger import Ledger
from agentic_backend.stores.base import Checkpoint, ExchangeEnd
from agentic_backend.streaming.drafts import ActivityDraft, CompleteDraft, Draft, TextDraft


class Delivery:
    """`stir` is set when there is something to write; whoever waits for it clears it.

    `checkpoint_at` takes the checkpoint that is stored together with a call of a tool, or with its result.
    """

    def __init__(
        self,
        ledger: Ledger,
        log: ExchangeLog,
        stir: asyncio.Event,
        checkpoint_at: Callable[[ToolCallPart | ToolResultPart], Awaitable[Checkpoint | None]],
    ) -> None:
        self.ledger = ledger
        self.log = log
        self._stir = stir
        self._checkpoint_at = checkpoint_at
        self._waiting: deque[Draft] = deque()
        self._closed = False

    def accept(self, drafts: Sequence[Draft]) -> None:
        """Show at once what needs no store and has nothing before it; the rest waits for `write`."""
        if self._closed:
            return
        for draft in drafts:
            if self._waiting or isinstance(draft, CompleteDraft):
                self._waiting.append(draft)
                self._stir.set()
            else:
                self._show(draft)

    def close(self, last: Sequence[CompleteDraft]) -> None:
        """Accept the `last` messages and nothing more: what the graph may still give comes too late."""
        self._closed = True
        self._waiting.extend(last)

    @property
    def unwritten(self) -> list[MessageDraft]:
        """The messages that wait."""
        return [draft.message for draft in _complete(self._waiting)]

    @property
    def seq_after_all(self) -> int:
        """The seq of the last event once all that waits has been shown."""
        return self.log.last_seq + len(self._waiting)

    async def write(self, end: ExchangeEnd | None = None, checkpoint: Checkpoint | None = None) -> None:
        """Store all that waits, with the `end` and the `checkpoint` in the same step, and show it in order.

        Raises StoreUnavailable or FencedOut; then nothing is shown, and all of it still waits.
        """
        while self._waiting or end is not None:
            batch = list(self._waiting)
            complete = _complete(batch)
            boundary = _last_of_a_tool([draft.message for draft in complete])
            if boundary is not None and end is None:
                checkpoint = await self._checkpoint_at(boundary)
            stored = iter(await self.ledger.write(complete, end, checkpoint) if complete or end else [])
            for draft in batch:
                self._waiting.popleft()
                if isinstance(draft, CompleteDraft):
                    self.log.append(Stream, message=next(stored), block=draft.block)
                else:
                    self._show(draft)
            end = checkpoint = None

    def show_end(self, end: ExchangeEnd) -> None:
        """Show the error, where there is one, and the final. Nothing is shown after it."""
        if end.error is not None:
            error = end.error
            self.log.append(
                ExchangeError,
                code=error.code,
                content=error.content,
                retryable=error.retryable,
                request_id=error.request_id,
            )
        self.log.append(
            Final,
            status=end.status,
            messages=self.log.messages,
            session=self.ledger.session,
            usage=end.usage,
            error=end.error,
        )

    def _show(self, draft: TextDraft | ActivityDraft) -> None:
        if isinstance(draft, TextDraft):
            self.log.append_text(draft.block, draft.channel, draft.text)
        else:
            self.log.append(Activity, kind=draft.kind, data=draft.data)


def _complete(drafts: Iterable[Draft]) -> list[CompleteDraft]:
    return [draft for draft in drafts if isinstance(draft, CompleteDraft)]


def _last_of_a_tool(messages: Sequence[MessageDraft]) -> ToolCallPart | ToolResultPart | None:
    parts = [part for message in messages for part in message.parts]
    return next((part for part in reversed(parts) if isinstance(part, ToolCallPart | ToolResultPart)), None)


def error_message(agent_id: str, error: ErrorInfo) -> CompleteDraft:
    """The message on channel `error` that a failure leaves in the transcript."""
    metadata = MessageMetadata(agent_id=agent_id, extras={"code": error.code, "request_id": error.request_id})
    draft = MessageDraft(
        role=Role.SYSTEM, channel=Channel.ERROR, parts=[TextPart(text=error.content)], metadata=metadata
    )
    return CompleteDraft(draft, None)
