"""The end of an exchange: its last messages, the stored end and the KPIs. Pure: no I/O and no clock.

Every end is built here, whether the exchange ran on this instance or was found in the store.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentic_backend.exchange.lifecycle import Outcome
from agentic_backend.protocol.events import ErrorInfo, PartialText
from agentic_backend.protocol.messages import Channel, ExchangeStatus, FinishReason, MessageMetadata, Role, TokenUsage
from agentic_backend.protocol.parts import Part, TextPart, ToolCallPart, ToolResultPart
from agentic_backend.stores.base import ExchangeEnd
from agentic_backend.stores.records import ExchangeRecord, KpiRecord, MessageDraft, MessageRecord, Restore
from agentic_backend.streaming.transcode.drafts import CompleteDraft

_STOPPED = "Stopped before it gave a result."
_FAILED = "The exchange failed before it gave a result."
_SERVER_WENT_AWAY = "The server went away before the tool gave a result."
LEFT_OPEN = frozenset({_STOPPED, _FAILED, _SERVER_WENT_AWAY})
"""The results of calls that their exchange has ended without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of an exchange when it ends.

    `messages` are its messages so far, by rank; the messages of `closing` follow them and complete open texts and
    calls. `last_seq` is the seq of the last event before those of `closing`. Times are milliseconds without pauses.
    """

    messages: Sequence[MessageDraft] = field(repr=False)
    closing: Sequence[CompleteDraft] = field(repr=False)
    last_seq: int
    ran_ms: int
    first_token_ms: int | None
    usage: TokenUsage
    model: str | None = None
    prompt_tokens: Mapping[str, int] = field(default_factory=dict)
    """The size of the system prompt by section."""
    turn_number: int | None = None
    """The place of the exchange in its session; None for a query."""
    is_compacted: bool = False
    """Whether the session's history has become shorter since its last turn."""
    restore: Restore | None = None
    """Where the last run found the session's past; None if there was none, or it is not known."""
    session_state: bytes | None = field(default=None, repr=False)
    """The graph state for the session's next exchange; None keeps the stored one."""


@dataclass(frozen=True, slots=True)
class Ending:
    """`drafts` are the exchange's last messages; they and `end` are stored in one step."""

    drafts: list[CompleteDraft]
    end: ExchangeEnd


def ending_of(record: ExchangeRecord, outcome: Outcome, progress: Progress) -> Ending:
    """The end of an exchange with `outcome`. Its `last_seq` includes the last messages, the error and the final."""
    error = None if outcome.error is None else ErrorInfo.of(outcome.error, record.request_id, outcome.detail)
    drafts = list(progress.closing)
    if error is not None:
        drafts.append(CompleteDraft(_error_message(record.agent_id, error), None))
    end = ExchangeEnd(
        status=outcome.status,
        usage=progress.usage,
        last_seq=progress.last_seq + len(drafts) + (error is not None) + 1,
        error=error,
        kpi=_kpi_of(record, outcome.status, progress),
        session_state=progress.session_state,
    )
    return Ending(drafts, end)


def left_open(status: ExchangeStatus, *, server_went_away: bool = False) -> tuple[FinishReason, str]:
    """The finish reason of a partial text, and the result of an open call."""
    if status is ExchangeStatus.STOPPED:
        return FinishReason.CANCELLED, _STOPPED
    return FinishReason.OTHER, _SERVER_WENT_AWAY if server_went_away else _FAILED


def closing_of_stored(
    agent_id: str,
    messages: Sequence[MessageRecord],
    partial: Sequence[PartialText],
    status: ExchangeStatus,
    *,
    server_went_away: bool = True,
) -> list[CompleteDraft]:
    """The messages that complete an exchange that is known from the store alone.

    The last partial text that is no thought becomes the final; every open call gets a failed result.
    """
    reason, result = left_open(status, server_went_away=server_went_away)
    texts = [text for text in partial if text.text]
    final = next((text for text in reversed(texts) if text.channel is not Channel.THOUGHT), None)
    metadata = MessageMetadata(agent_id=agent_id)
    drafts = [
        CompleteDraft(_text_message(text, _channel_beside_final(text), metadata), text.block)
        for text in texts
        if text is not final
    ]
    drafts += [CompleteDraft(draft, None) for draft in _results_of_open_calls(messages, result, metadata)]
    if final is not None:
        ended = metadata.model_copy(update={"finish_reason": reason})
        drafts.append(CompleteDraft(_text_message(final, Channel.FINAL, ended), final.block))
    return drafts


def _channel_beside_final(text: PartialText) -> Channel:
    return Channel.THOUGHT if text.channel is Channel.THOUGHT else Channel.OBSERVATION


def _text_message(text: PartialText, channel: Channel, metadata: MessageMetadata) -> MessageDraft:
    parts: list[Part] = [TextPart(text=text.text)]
    return MessageDraft(role=Role.ASSISTANT, channel=channel, parts=parts, metadata=metadata)


def _results_of_open_calls(
    messages: Sequence[MessageRecord], content: str, metadata: MessageMetadata
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


def _error_message(agent_id: str, error: ErrorInfo) -> MessageDraft:
    """The message on channel `error` that a failure leaves in the transcript."""
    metadata = MessageMetadata(agent_id=agent_id, extras={"code": error.code, "request_id": error.request_id})
    parts: list[Part] = [TextPart(text=error.content)]
    return MessageDraft(role=Role.SYSTEM, channel=Channel.ERROR, parts=parts, metadata=metadata)


def _kpi_of(record: ExchangeRecord, status: ExchangeStatus, progress: Progress) -> KpiRecord:
    messages = [*progress.messages, *(draft.message for draft in progress.closing)]
    parts = [part for message in messages for part in message.parts]
    return KpiRecord(
        exchange_id=record.id,
        session_id=record.session_id or None,
        user_id=record.user_id,
        agent_id=record.agent_id,
        status=status,
        started_at=record.started_at,
        latency_ms=progress.ran_ms,
        first_token_ms=progress.first_token_ms,
        usage=progress.usage,
        model=progress.model,
        tools=[part.name for part in parts if isinstance(part, ToolCallPart)],
        failed_tools=sum(part.ok is False for part in parts if isinstance(part, ToolResultPart)),
        turn_number=progress.turn_number,
        history_compacted=progress.is_compacted,
        prompt_tokens=dict(progress.prompt_tokens),
        restore=progress.restore,
        instance=record.owner,
    )
