"""OrphanClosing: ends an exchange that runs nowhere: its instance has died, or it waited for a person.

It works from the store alone. Open calls get a failed result, and partial text becomes the final. Readers on this
instance see the end at once; readers on other instances get it from the store.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from agentic_backend.errors import Internal, StoreUnavailable
from agentic_backend.exchange.end.ending import Ending, Progress, closing_of_stored, ending_of
from agentic_backend.exchange.end.outages import for_seconds, until_stored
from agentic_backend.exchange.end.resumable import is_resumable
from agentic_backend.exchange.lifecycle import BLOCKED, Outcome
from agentic_backend.exchange.services import OnAnswered
from agentic_backend.exchange.write.boundary_events import final_of, show_end, show_last
from agentic_backend.exchange.write.text_gate import TextGate, is_text
from agentic_backend.exchange.write.tool_calls import ToolCalls
from agentic_backend.kpi import Kpi
from agentic_backend.policy.session_log import turn_added
from agentic_backend.protocol.events import PartialText, Place
from agentic_backend.protocol.messages import Channel, ExchangeStatus
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.relay import Relay
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, Fence, FencedOut, Store, Written
from agentic_backend.stores.protocol.trail import TrailRecord
from agentic_backend.stores.records import (
    CheckpointKind,
    CheckpointRecord,
    ExchangeRecord,
    MessageRecord,
    SessionRecord,
    shown,
)
from agentic_backend.streaming.transcode.drafts import CompleteDraft

log = logging.getLogger(__name__)

# Long enough to repeat a write whose answer was lost. In a longer outage the caller tries again later.
_TRIES_FOR_S = 0.5


class OrphanClosing:
    def __init__(
        self,
        store: Store,
        relay: Relay,
        kpi: Kpi,
        on_answered: OnAnswered,
        gate_of: Callable[[ExchangeRecord, SessionRecord, MessageRecord], TextGate | None] = lambda *found: None,
    ) -> None:
        self._store = store
        self._relay = relay
        self._kpi = kpi
        self._on_answered = on_answered
        """Called for each exchange that is closed (see ExchangeServices)."""
        self._gate_of = gate_of
        """Finds what the texts of an exchange pass before they are stored, by its session and its first message."""

    async def close(self, record: ExchangeRecord, outcome: Outcome, running: ExchangeLog | None = None) -> ExchangeEnd:
        """End the exchange of any owner, and return its end.

        `running` is its log, if it still runs here: that knows its unfinished texts better than the store.

        Raises FencedOut if it has ended, or if another writer still writes to it.
        """
        fence = await self._store.fence(record.session_id)
        if fence is None or fence.exchange_id != record.id:
            raise FencedOut
        messages = await self._store.exchange_messages(record.id)
        session, now = await self._store.get_session(record.session_id), self._store.now()
        kept = await self._store.partial(record.id)
        unfinished = kept if running is None else running.partial
        went_away = running is None

        def closing_with(partial: Sequence[PartialText]) -> Sequence[CompleteDraft]:
            return closing_of_stored(record.agent_id, messages, partial, outcome.status, server_went_away=went_away)

        closing = closing_with(unfinished)
        gate = self._gate_of(record, session, messages[0]) if session is not None and messages else None
        progress = Progress(
            messages=messages,
            closing=closing,
            # Its owner may have shown more events than the store knows.
            last_seq=next_epoch(record.last_seq) if running is None else running.last_seq,
            ran_ms=record.ran_ms or max(0, round((now - record.started_at).total_seconds() * 1000)),
            first_token_ms=record.first_token_ms,
            usage=record.usage,
            turn_number=session.turn_count if session is not None else None,
        )
        trail: list[TrailRecord] = []
        try:
            if gate is not None:
                outcome, closing = await _passed(gate, outcome, closing, messages, trail)
            ending = ending_of(record, outcome, replace(progress, closing=closing))
            written = await self._write(record, fence, messages, ending, trail)
        except (StoreUnavailable, FencedOut):
            raise
        except Exception as error:
            # Its last texts can't be looked at or stored, so it ends without: else it would be closed again and again,
            # its session would stay busy, and its readers would wait.
            ids = {"exchange_id": record.id, "session_id": record.session_id, "request_id": record.request_id}
            log.error("exchange closed without its last texts", exc_info=error, extra=ids)
            outcome = outcome if outcome.error is not None else Outcome(ExchangeStatus.ERROR, Internal())
            ending = ending_of(record, outcome, replace(progress, closing=closing_with(())))
            written = await self._write(record, fence, messages, ending, [])
        if kept:
            # Left behind, they would go with the session.
            with suppress(StoreUnavailable):
                await self._store.forget_pieces([record.id])
        self._kpi.exchanges.closed(record.agent_id, outcome.status, outcome.error.code if outcome.error else None)
        turn_added(written.session, record.id, outcome.status)
        resumable = await is_resumable(self._store, record.id, outcome.status, written.session)
        self._show(record, progress.last_seq, ending, messages, written, resumable)
        if messages:
            self._on_answered(written.session, messages[0], record, outcome.status)
        return ending.end

    async def _write(
        self,
        record: ExchangeRecord,
        fence: Fence,
        messages: Sequence[MessageRecord],
        ending: Ending,
        trail: list[TrailRecord],
    ) -> Written:
        """Store the end after `messages`, with `trail` and the records of the calls that it settles."""
        now, token, drafts = self._store.now(), uuid4().hex, [draft.message for draft in ending.drafts]
        checkpoint = _last_checkpoint(record, ending.end.status, now)
        trail += ToolCalls(record, messages, self._store.now).add(drafts)
        return await until_stored(
            lambda: self._store.append(fence, drafts, ending.end, checkpoint, trail=trail, token=token),
            for_seconds(_TRIES_FOR_S),
            self._kpi.dependencies.store_retried,
        )

    def _show(
        self,
        record: ExchangeRecord,
        after_seq: int,
        ending: Ending,
        messages: list[MessageRecord],
        written: Written,
        resumable: bool | None,
    ) -> None:
        log, end = self._relay.find(record.id), ending.end
        if log is None or log.final is not None:
            return
        shown_messages = shown([*messages, *written.messages])
        runs = self._relay.holds(record.id) and [message.rank for message in log.messages] == [
            message.rank for message in messages
        ]
        if log.is_waiting or runs:
            # The log is complete, so readers need no reset: append the end.
            log.jump_to(after_seq)
            if log.is_waiting:
                self._relay.publish(log)
            show_last(log, ending.drafts, written.messages)
            show_end(log, end, shown_messages, written.session, resumable)
        else:
            place = Place(session_id=record.session_id, exchange_id=record.id, seq=end.last_seq)
            log.end_with(final_of(place, end, shown_messages, written.session, resumable))


def _last_checkpoint(record: ExchangeRecord, status: ExchangeStatus, now: datetime) -> Checkpoint | None:
    """What replaces the exchange's checkpoint at its end; None if it is kept, to resume from."""
    if status is ExchangeStatus.INTERRUPTED:
        return None
    kind = CheckpointKind.FINAL_RESULT
    return Checkpoint(CheckpointRecord(kind=kind, at=now, exchange_id=record.id, request_id=record.request_id), None)


async def _passed(
    gate: TextGate,
    outcome: Outcome,
    closing: Sequence[CompleteDraft],
    messages: Sequence[MessageRecord],
    trail: list[TrailRecord],
) -> tuple[Outcome, list[CompleteDraft]]:
    """The outcome and the last messages, once `gate` has seen these; adds the records of it to `trail`."""
    if gate.holds:
        # Nobody has seen these texts, and they are not whole.
        closing = [draft for draft in closing if not is_text(draft)]
    first_rank = messages[-1].rank + 1
    passed = [await gate.passed(draft, first_rank + index, None, trail) for index, draft in enumerate(closing)]
    drafts = [draft for draft in passed if isinstance(draft, CompleteDraft)]
    if gate.blocked_response is None:
        return outcome, drafts
    if not any(is_text(draft) and draft.message.channel is Channel.FINAL for draft in drafts):
        drafts.append(gate.final(gate.blocked_response))
    return BLOCKED, drafts
