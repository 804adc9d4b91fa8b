"""Events of one exchange as server-sent events: `event:` the type, `id:` `exchange_id:seq`, `data:` the event."""

from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse, ServerSentEvent

from agentic_backend.protocol.events import ExchangeEvent, Final
from agentic_backend.sessions.exchange_log import ExchangeLog
from agentic_backend.transports.pacing import Pacer


def event_stream(exchange: ExchangeLog | Final, after_seq: int, send_timeout_s: float) -> EventSourceResponse:
    """The events after `after_seq`, up to the final. A client that goes away leaves the exchange running."""
    events = _single(exchange) if isinstance(exchange, Final) else _follow(exchange, after_seq)
    return EventSourceResponse(events, send_timeout=send_timeout_s, headers={"cache-control": "no-store"})


async def _single(final: Final) -> AsyncIterator[ServerSentEvent]:
    yield _rendered(final)


async def _follow(exchange: ExchangeLog, after_seq: int) -> AsyncIterator[ServerSentEvent]:
    pacer = Pacer()
    cursor = exchange.follow(after_seq, pacer.wake, pacer.wake_for_text)
    try:
        while True:
            for event in cursor.take():
                yield _rendered(event)
                if isinstance(event, Final):
                    return
            # Bounded by the exchange itself, which always ends; the response sends pings meanwhile.
            await pacer.due()
    finally:
        pacer.cancel()
        exchange.unfollow(cursor)


def _rendered(event: ExchangeEvent) -> ServerSentEvent:
    return ServerSentEvent(data=event.encode(), event=event.type, id=f"{event.exchange_id}:{event.seq}")
