"""Events as server-sent events: `event:` the type, `id:` `exchange_id:seq` where it has one, `data:` the event."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager

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
    """Holds its `place` among the open connections until it ends.

    A client that doesn't read is dropped; that is no error of the server's.
    """

    def __init__(
        self, events: AsyncIterator[ServerSentEvent], place: AbstractContextManager[object], send_timeout_s: float
    ) -> None:
        super().__init__(events, send_timeout=send_timeout_s, headers={"cache-control": "no-store"})
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await self._stream(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            log.info("client too slow", extra={"path": scope["path"]})
            await drop_client(scope, receive)


async def drop_client(scope: Scope, receive: Receive) -> None:
    """Drop the client of an answer that ends early. Returns once its connection is gone."""
    scope["state"]["abort"]()
    # uvicorn takes a response that ends early for an error, unless it has seen that the client is gone.
    while (await receive())["type"] != "http.disconnect":
        pass


async def exchange_events(
    exchange: ExchangeLog | Final, relay: Relay, at_most_s: float | None
) -> AsyncIterator[ServerSentEvent]:
    """The events of an exchange up to its final, for `at_most_s` seconds at most.

    A client that goes away, or whose time is over, leaves the exchange running. A server that goes down ends the stream
    of what doesn't run here, or waits for a person, without a final.
    """
    if isinstance(exchange, Final):
        yield rendered(exchange)
        return
    pacer = Pacer(lambda: text_interval_s(TEXT_INTERVAL_S, relay.running_count))
    cursor = exchange.follow(0, pacer.wake, pacer.wake_for_text)
    end = EndOfTime(at_most_s, pacer)
    with relay.departure.tells(pacer.wake) as leaving:
        try:
            while not end.has_come:
                for event in cursor.take():
                    yield rendered(event)
                    if isinstance(event, Final):
                        return
                if leaving.is_due and not pacer.is_due and not relay.is_at_work(exchange):
                    return
                # Bounded by the exchange itself, which always ends; the response sends pings meanwhile.
                await pacer.due()
        finally:
            end.cancel()
            pacer.cancel()
            exchange.unfollow(cursor)


class EndOfTime:
    """Wakes a stream's writer after `at_most_s` seconds, that of its token; None: never."""

    def __init__(self, at_most_s: float | None, pacer: Pacer) -> None:
        self.has_come = False
        self._pacer = pacer
        self._timer = None
        if at_most_s is not None:
            self._timer = asyncio.get_running_loop().call_later(at_most_s, self._come)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _come(self) -> None:
        self.has_come = True
        self._pacer.wake()


def rendered(event: Event) -> ServerSentEvent:
    place = f"{event.exchange_id}:{event.seq}" if isinstance(event, ExchangeEvent) else None
    return ServerSentEvent(data=event.encode(), event=event.type, id=place)
