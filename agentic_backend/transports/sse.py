"""SSE: the feed of one client as server-sent events, in the form that its door renders.

Chat Protocol v2: `event:` the type, `id:` `exchange_id:seq` if the event has one, `data:` the event.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol
from uuid import uuid4

from pydantic import RootModel
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from agentic_backend.auth.user import User
from agentic_backend.errors import AgenticError, ShuttingDown, TokenExpired
from agentic_backend.protocol.close_codes import CloseCode
from agentic_backend.protocol.events import Event, ExchangeEvent, ServerEvent
from agentic_backend.protocol.messages import Session
from agentic_backend.relay.exchange_log import ExchangeLog, Replay
from agentic_backend.relay.feed import Feed, open_feed
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.turn import Turn
from agentic_backend.transports.credentials import seconds_left, tokens_of
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.operation import Streamed

log = logging.getLogger(__name__)

_TEXT_INTERVAL_S = 0.05


class AnyEvent(RootModel[ServerEvent]):
    """An event of Chat Protocol v2. An `error` with a `seq` is of an exchange, one without refuses a frame."""


EVENTS = Streamed("text/event-stream", AnyEvent)
"""The answer of an operation that streams events."""


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


class Renderer(Protocol):
    """What a door sends for the events of one exchange. One per stream."""

    is_over: bool
    """Whether the client has its last event. The stream ends, also where the exchange has not ended."""

    def render(self, event: Event) -> Iterable[ServerSentEvent]:
        """One server-sent event, several, or none."""
        ...

    def cut(self, error: AgenticError) -> Iterable[ServerSentEvent]:
        """What the client gets last if the stream ends before it is over; `error` says why."""
        ...


class ChatV2Renderer:
    """A stream that is cut ends without a final: the client follows the exchange elsewhere."""

    is_over = False

    def render(self, event: Event) -> Iterable[ServerSentEvent]:
        return (chat_v2(event),)

    def cut(self, error: AgenticError) -> Iterable[ServerSentEvent]:
        return ()


def chat_v2(event: Event) -> ServerSentEvent:
    place = f"{event.exchange_id}:{event.seq}" if isinstance(event, ExchangeEvent) else None
    return ServerSentEvent(data=event.encode(), event=event.type, id=place)


async def ask_streamed(door: DoorServices, request: Request, user: User, turn: Turn) -> EventStream:
    """Begin the exchange that `turn` asks for, and stream its events. Raises as SessionOrchestrator.ask does."""
    with door.kpi.refusals("ask"), door.connections.stream(user.id) as place:
        exchange = await door.orchestrator.ask(user, turn, tokens_of(request, user), uuid4().hex)
        return exchange_stream(door, user, exchange, place, ChatV2Renderer())


def exchange_stream(
    door: DoorServices,
    user: User,
    exchange: ExchangeLog,
    place: ExitStack,
    renderer: Renderer,
    *,
    stops_with_client: bool = False,
) -> EventStream:
    """The events of an exchange from its beginning to its final, for as long as the user's token is valid.

    Unless it `stops_with_client`, the exchange continues after the client disconnects or its token expires. When the
    server stops, a stream of an exchange that runs elsewhere, or waits for a person, ends without a final. The stream
    takes over `place`, and its feed is part of that: it is closed even if the client is gone before the first event.
    """
    feed = followed(door, user, exchange, place, stops_with_client=stops_with_client)
    return EventStream(_exchange_events(feed, renderer), place.pop_all(), door.limits.send_timeout_s)


def followed(
    door: DoorServices,
    user: User,
    exchange: ExchangeLog,
    place: ExitStack,
    *,
    after_seq: int = 0,
    stops_with_client: bool = False,
) -> Feed:
    """The feed of an exchange's events after `after_seq`, for as long as the user's token is valid; part of `place`."""
    feed = place.enter_context(open_feed(door.relay, _TEXT_INTERVAL_S))
    feed.end_after(seconds_left(user))
    feed.follow_only(exchange, after_seq, stops_with_feed=stops_with_client)
    return feed


def why_cut(feed: Feed) -> AgenticError | None:
    """Why a feed has ended before its exchange; None if it has not."""
    if feed.close_code is None:
        return None
    return TokenExpired() if feed.close_code is CloseCode.SIGN_IN_AGAIN else ShuttingDown()


async def _exchange_events(feed: Feed, renderer: Renderer) -> AsyncIterator[ServerSentEvent]:
    async for event in feed:
        for rendered in renderer.render(event):
            yield rendered
        if renderer.is_over:
            return
    if (error := why_cut(feed)) is not None:
        for rendered in renderer.cut(error):
            yield rendered


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
            yield chat_v2(event)
