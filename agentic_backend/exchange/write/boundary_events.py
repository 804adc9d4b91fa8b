"""Builds the events with which an exchange begins, waits for a person and ends. Nothing else builds them."""

from collections.abc import Sequence

from agentic_backend.errors import Interrupted
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.protocol.events import (
    AwaitingHuman,
    ErrorInfo,
    ExchangeError,
    Final,
    HumanRequests,
    Place,
    Started,
    Stream,
)
from agentic_backend.protocol.messages import ChatMessage, ExchangeStatus, TokenUsage
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.base import ExchangeEnd
from agentic_backend.stores.records import MessageRecord, SessionRecord
from agentic_backend.streaming.transcode.drafts import CompleteDraft


def show_beginning(log: ExchangeLog, start: ExchangeStart) -> None:
    log.append(
        Started(
            **log.next_place(),
            client_exchange_id=start.record.client_exchange_id,
            agent_id=start.record.agent_id,
            session=start.session.shown() if start.session is not None else None,
            resumes=start.record.resumes,
        )
    )
    log.append(Stream(**log.next_place(), message=start.opening.shown()))


def show_waiting(log: ExchangeLog, requests: HumanRequests, seq: int) -> None:
    """Show the requests to a person at `seq`, unless the log has reached it already."""
    if log.last_seq < seq:
        log.jump_to(seq - 1)
        log.append(AwaitingHuman(**log.next_place(), payload=requests))


def show_last(log: ExchangeLog, drafts: Sequence[CompleteDraft], stored: Sequence[MessageRecord]) -> None:
    """Show the last messages, each as the end of its block; `stored` are the `drafts` with their ranks."""
    for draft, message in zip(drafts, stored, strict=True):
        log.append(Stream(**log.next_place(), message=message.shown(), block=draft.block))


def show_end(
    log: ExchangeLog,
    end: ExchangeEnd,
    messages: Sequence[ChatMessage],
    session: SessionRecord | None,
    resumable: bool | None = None,
) -> None:
    """Show the error, if any, and the final. Nothing is shown after the final."""
    if end.error is not None:
        error = end.error
        log.append(
            ExchangeError(
                **log.next_place(),
                code=error.code,
                content=error.content,
                whose=error.whose,
                retryable=error.retryable,
                request_id=error.request_id,
                detail=error.detail,
            )
        )
    log.append(final_of(log.next_place(), end, messages, session, resumable))


def show_deletion(
    log: ExchangeLog, *, request_id: str = "", usage: TokenUsage | None = None, session: SessionRecord | None = None
) -> None:
    """Show the readers of an exchange that its session was deleted while it ran.

    Where it did not run, nobody knows the id of its request, its usage and its session: they are deleted too.
    """
    error = ErrorInfo.of(Interrupted(), request_id)
    end = ExchangeEnd(ExchangeStatus.INTERRUPTED, usage or TokenUsage(), log.last_seq, error)
    show_end(log, end, log.messages, session, resumable=False)


def final_of(
    place: Place,
    end: ExchangeEnd,
    messages: Sequence[ChatMessage],
    session: SessionRecord | None,
    resumable: bool | None = None,
) -> Final:
    return Final(
        **place,
        status=end.status,
        messages=list(messages),
        session=session.shown() if session is not None else None,
        usage=end.usage,
        error=end.error,
        resumable=resumable,
    )
