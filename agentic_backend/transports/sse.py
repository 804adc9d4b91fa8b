"""Events as server-sent events: `event:` the type, `id:` `exchange_id:seq` where it has one, `data:` the event."""

import logging
from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.protocol.events import Event, ExchangeEvent, Final
from agentic_backend.sessions.relay import Relay
from agentic_backend.transports.pacing import Pacer, text_interval_s

log = logging.getLogger(__name__)

TEXT_INTERVAL_S = 0.05


class EventStream(EventSourceResponse):
    """A client that doesn't read is dropped; that is no error of the server's."""

    def __init__(self, events: AsyncIterator[ServerSentEvent], send_timeout_s: float) -> None:
        super().__init__(events, send_timeout=send_timeout_s, headers={"cache-control": "no-store"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            log.info("client too slow", extra={"path": scope["path"]})
            scope["state"]["abort"]()
            # uvicorn takes a response that ends early for an error, unless it has seen that the client is gone.
            while (await receive())["type"] != "http.disconnect":
                pass


def event_stream(exchange: ExchangeLog | Final, after_seq: int, relay: Relay, send_timeout_s: float) -> EventStream:
    """The events after `after_seq`, up to the final. A client that goes away leaves the exchange running.

    A server that goes down ends the stream of what doesn't run here, or waits for a person, without a final.
    """
    events = _single(exchange) if isinstance(exchange, Final) else _follow(exchange, after_seq, relay)
    return EventStream(events, send_timeout_s)


async def _single(final: Final) -> AsyncIterator[ServerSentEvent]:
    yield rendered(final)


async def _follow(exchange: ExchangeLog, after_seq: int, relay: Relay) -> AsyncIterator[ServerSentEvent]:
    pacer = Pacer(lambda: text_interval_s(TEXT_INTERVAL_S, relay.running_count))
    cursor = exchange.follow(after_seq, pacer.wake, pacer.wake_for_text)
    with relay.departure.tells(pacer.wake) as leaving:
        try:
            while True:
                for event in cursor.take():
                    yield rendered(event)
                    if isinstance(event, Final):
                        return
                if leaving.is_due and not pacer.is_due and not relay.is_at_work(exchange):
                    return
                # Bounded by the exchange itself, which always ends; the response sends pings meanwhile.
                await pacer.due()
        finally:
            pacer.cancel()
            exchange.unfollow(cursor)


def rendered(event: Event) -> ServerSentEvent:
    place = f"{event.exchange_id}:{event.seq}" if isinstance(event, ExchangeEvent) else None
    return ServerSentEvent(data=event.encode(), event=event.type, id=place)
