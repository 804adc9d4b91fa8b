"""SSE: a feed as server-sent events: `event:` the type, `id:` `exchange_id:seq` if it has one, `data:` the event."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from agentic_backend.protocol.events import Event, ExchangeEvent
from agentic_backend.protocol.messages import Session
from agentic_backend.relay.exchange_log import ExchangeLog, Replay
from agentic_backend.relay.feed import open_feed
from agentic_backend.relay.relay import Relay

log = logging.getLogger(__name__)

_TEXT_INTERVAL_S = 0.05


class EventStream(EventSourceResponse):
    """Holds its `place` among the open connections until it ends.

    It drops a client that doesn't read; this is not a server error.
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
    """Drop the client of an incomplete response. Returns after the disconnect."""
    scope["state"]["abort"]()
    # uvicorn treats an incomplete response as an error, unless it has seen the disconnect.
    while (await receive())["type"] != "http.disconnect":
        pass


async def exchange_events(
    relay: Relay, exchange: ExchangeLog, at_most_s: float | None
) -> AsyncIterator[ServerSentEvent]:
    """The events of an exchange up to its final, for `at_most_s` seconds at most.

    The exchange continues after the client disconnects or its time is over. When the server stops, a stream of an
    exchange that runs elsewhere, or waits for a person, ends without a final.
    """
    with open_feed(relay, _TEXT_INTERVAL_S) as feed:
        feed.end_after(at_most_s)
        feed.follow_only(exchange)
        async for event in feed:
            yield _rendered(event)


async def session_events(
    relay: Relay,
    session: Session,
    running: ExchangeLog | None,
    seen: tuple[ExchangeLog, int] | None,
    at_most_s: float | None,
    followed: Callable[[Replay], None],
) -> AsyncIterator[ServerSentEvent]:
    """The events of a session: its running exchange, later exchanges, and its changes, for at most `at_most_s` seconds.

    `session` has the state in which `running` was found. `seen` is an exchange and the last seq that the client has of
    it. `followed` is called with what comes first. When the server stops, the stream ends once no exchange of the
    session runs here.
    """
    with open_feed(relay, _TEXT_INTERVAL_S) as feed:
        feed.end_after(at_most_s)
        followed(feed.follow_session(session, running, seen))
        async for event in feed:
            yield _rendered(event)


def _rendered(event: Event) -> ServerSentEvent:
    place = f"{event.exchange_id}:{event.seq}" if isinstance(event, ExchangeEvent) else None
    return ServerSentEvent(data=event.encode(), event=event.type, id=place)
