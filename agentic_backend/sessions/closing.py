"""Closing: ends an exchange that nobody runs: its instance has died, or it waited for a person.

All that is known of it is in the store. Its open calls get a result, the text that was being written becomes its final,
and whoever follows it here is shown its end; who follows it elsewhere finds that in the store.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import uuid4

from agentic_backend.kpi import Kpi
from agentic_backend.protocol.events import ErrorInfo, Final, PartialText, Stream
from agentic_backend.protocol.messages import (
    Channel,
    ChatMessage,
    ExchangeStatus,
    FinishReason,
    MessageDraft,
    MessageMetadata,
    Role,
)
from agentic_backend.protocol.parts import TextPart, ToolCallPart, ToolResultPart
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.sessions.delivery import error_message
from agentic_backend.sessions.outages import for_seconds, until_stored
from agentic_backend.sessions.outcome import Outcome
from agentic_backend.sessions.relay import Relay
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, FencedOut, Store
from agentic_backend.stores.records import CheckpointKind, CheckpointRecord, ExchangeRecord, KpiRecord

# Only an answer may be lost: then the end should be known as ours. Whoever wants it closed tries again later.
_TRIES_FOR_S = 0.5


class Closing:
    def __init__(self, store: Store, relay: Relay, kpi: Kpi) -> None:
        self._store = store
        self._relay = relay
        self._kpi = kpi

    async def close(self, record: ExchangeRecord, outcome: Outcome) -> Final:
        """End the exchange, whoever owns it. Raises FencedOut where it has ended, or somebody writes to it yet."""
        fence = await self._store.fence(record.session_id)
        if fence is None or fence.exchange_id != record.id:
            raise FencedOut
        messages = await self._store.exchange_messages(record.id)
        error = ErrorInfo.of(outcome.error, record.request_id) if outcome.error is not None else None
        now = self._store.now()
        checkpoint = None if outcome.status is ExchangeStatus.INTERRUPTED else _nothing_to_go_on_from(record, now)
        partial = await self._store.partial(record.id)
        drafts = _last_drafts(record, messages, partial, outcome.status, error)
        log = self._relay.find(record.id)
        waiting_log = log if log is not None and log.is_waiting else None
        # What the owner before gave last is unknown, where it has died.
        first_seq = next_epoch(record.last_seq)
        end = ExchangeEnd(
            status=outcome.status,
            usage=record.usage,
            last_seq=first_seq + len(drafts) + 1,
            error=error,
            kpi=_kpi_of(record, outcome.status, messages, now),
        )
        token = uuid4().hex
        written = await until_stored(
            lambda: self._store.append(fence, drafts, end, checkpoint, token=token), for_seconds(_TRIES_FOR_S)
        )
        self._kpi.exchange_closed(record.agent_id, outcome.status)
        final = Final(
            session_id=record.session_id,
            exchange_id=record.id,
            seq=end.last_seq,
            status=end.status,
            messages=[*messages, *written.messages],
            session=written.session,
            usage=end.usage,
            error=error,
        )
        if waiting_log is not None and waiting_log.is_waiting:
            # Nothing is missing in it: it goes on to the end.
            waiting_log.jump_to(first_seq)
            self._relay.publish(waiting_log)
            for message in written.messages:
                waiting_log.append(Stream, message=message)
            waiting_log.take_over(final)
        elif log is not None and log.final is None:
            log.end_with(final)
        return final


def _nothing_to_go_on_from(record: ExchangeRecord, now: datetime) -> Checkpoint:
    kind = CheckpointKind.FINAL_RESULT
    return Checkpoint(CheckpointRecord(kind=kind, at=now, exchange_id=record.id, request_id=record.request_id), None)


def _last_drafts(
    record: ExchangeRecord,
    messages: Sequence[ChatMessage],
    partial: Sequence[PartialText],
    status: ExchangeStatus,
    error: ErrorInfo | None,
) -> list[MessageDraft]:
    stopped = status is ExchangeStatus.STOPPED
    reason = FinishReason.CANCELLED if stopped else FinishReason.OTHER
    content = "Stopped before it gave a result." if stopped else "The server went away before the tool gave a result."
    texts = [text for text in partial if text.text]
    final = next((text for text in reversed(texts) if text.channel is not Channel.THOUGHT), None)
    metadata = MessageMetadata(agent_id=record.agent_id)
    drafts = [
        MessageDraft(
            role=Role.ASSISTANT,
            channel=Channel.THOUGHT if text.channel is Channel.THOUGHT else Channel.OBSERVATION,
            parts=[TextPart(text=text.text)],
            metadata=metadata,
        )
        for text in texts
        if text is not final
    ]
    drafts += _results_of_open_calls(messages, content, metadata)
    if final is not None:
        ended = metadata.model_copy(update={"finish_reason": reason})
        part = TextPart(text=final.text)
        drafts.append(MessageDraft(role=Role.ASSISTANT, channel=Channel.FINAL, parts=[part], metadata=ended))
    if error is not None:
        drafts.append(error_message(record.agent_id, error).message)
    return drafts


def _results_of_open_calls(
    messages: Sequence[ChatMessage], content: str, metadata: MessageMetadata
) -> list[MessageDraft]:
    parts = [part for message in messages for part in message.parts]
    settled = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    return [
        MessageDraft(
            role=Role.TOOL,
            channel=Channel.TOOL_RESULT,
            parts=[ToolResultPart(call_id=part.call_id, ok=False, content=content)],
            metadata=metadata,
        )
        for part in parts
        if isinstance(part, ToolCallPart) and part.call_id not in settled
    ]


def _kpi_of(
    record: ExchangeRecord, status: ExchangeStatus, messages: Sequence[ChatMessage], now: datetime
) -> KpiRecord:
    parts = [part for message in messages for part in message.parts]
    results = [part for part in parts if isinstance(part, ToolResultPart)]
    tools = [part.name for part in parts if isinstance(part, ToolCallPart)]
    ran = record.ran_ms or max(0, round((now - record.started_at).total_seconds() * 1000))
    return KpiRecord(
        exchange_id=record.id,
        session_id=record.session_id,
        user_id=record.user_id,
        agent_id=record.agent_id,
        status=status,
        started_at=record.started_at,
        latency_ms=ran,
        first_token_ms=record.first_token_ms,
        usage=record.usage,
        model=None,
        tools=tools,
        failed_tools=sum(result.ok is False for result in results) + len(tools) - len(results),
    )
