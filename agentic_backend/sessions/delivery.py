"""Delivery: store, then show. The one way from a transcoder's drafts to an exchange's log.

A complete message is stored before it is shown; deltas never are stored. What the store refused is kept and comes
first in the next write, so that an outage loses no text.
"""

import asyncio
from collections.abc import Sequence

from agentic_backend.protocol.events import Activity, ErrorInfo, ExchangeError, Final, Stream
from agentic_backend.protocol.messages import Channel, ChatMessage, MessageDraft, MessageMetadata, Role
from agentic_backend.protocol.parts import TextPart
from agentic_backend.sessions.exchange_log import ExchangeLog
from agentic_backend.sessions.ledger import Ledger
from agentic_backend.stores.base import ExchangeEnd
from agentic_backend.streaming.drafts import ActivityDraft, CompleteDraft, Draft, TextDraft


class Delivery:
    def __init__(self, ledger: Ledger, log: ExchangeLog) -> None:
        self.ledger = ledger
        self.log = log
        self.writing = asyncio.Lock()
        """Held while messages are written: who holds it knows that no rank is in doubt."""
        self._unstored: list[CompleteDraft] = []

    async def deliver(self, drafts: Sequence[Draft]) -> None:
        """Show text and activities, store and show messages. Raises StoreUnavailable or FencedOut."""
        complete: list[CompleteDraft] = []
        for draft in drafts:
            if isinstance(draft, CompleteDraft):
                complete.append(draft)
                continue
            if complete:
                await self._store_and_show(complete)
                complete = []
            if isinstance(draft, TextDraft):
                self.log.append_text(draft.block, draft.channel, draft.text)
            elif isinstance(draft, ActivityDraft):
                self.log.append(Activity, kind=draft.kind, data=draft.data)
        if complete:
            await self._store_and_show(complete)

    async def end(self, drafts: Sequence[CompleteDraft], end: ExchangeEnd) -> None:
        """Store the last messages with the end, in one step, and show them, the error and the final.

        Raises StoreUnavailable or FencedOut, and has then shown nothing.
        """
        closing = [*self._unstored, *drafts]
        self._show(closing, await self.ledger.write([draft.message for draft in closing], end))
        self.show_end(end)

    def show_end(self, end: ExchangeEnd) -> None:
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

    async def write_late(self, drafts: Sequence[CompleteDraft], end: ExchangeEnd) -> None:
        """Store the last messages and the end of an exchange whose final has been shown without them."""
        await self.ledger.write([draft.message for draft in [*self._unstored, *drafts]], end)

    def seq_at_end(self, drafts: Sequence[CompleteDraft], error: ErrorInfo | None) -> int:
        """The seq that the final will have when `end` shows it behind `drafts`."""
        return self.log.last_seq + len(self._unstored) + len(drafts) + (error is not None) + 1

    async def _store_and_show(self, complete: list[CompleteDraft]) -> None:
        async with self.writing:
            self._unstored += complete
            drafts = self._unstored
            messages = await self.ledger.write([draft.message for draft in drafts])
            self._unstored = []
            self._show(drafts, messages)

    def _show(self, drafts: Sequence[CompleteDraft], messages: Sequence[ChatMessage]) -> None:
        for draft, message in zip(drafts, messages, strict=True):
            self.log.append(Stream, message=message, block=draft.block)


def error_message(agent_id: str, error: ErrorInfo) -> CompleteDraft:
    """The message on channel `error` that a failure leaves in the transcript."""
    metadata = MessageMetadata(agent_id=agent_id, extras={"code": error.code, "request_id": error.request_id})
    parts = [TextPart(text=error.content)]
    return CompleteDraft(MessageDraft(role=Role.SYSTEM, channel=Channel.ERROR, parts=[*parts], metadata=metadata), None)
