"""SSE: the feed of one client as server-sent events, in the form that its door renders.

Chat Protocol v2: `event:` the type, `id:` `exchange_id:seq` if the event has one, `data:` the event.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Protocol

from pydantic import RootModel
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from agentic_backend.auth.user import User
from agentic_backend.errors import AgenticError, ShuttingDown, TokenExpired
from agentic_backend.protocol.close_codes import CloseCode
from agentic_backend.protocol.events import Event, ExchangeEvent, ServerEvent
from agentic_backend.protocol.messages import Session
from agentic_backend.relay.feed import Feed, open_feed
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.transports.credentials import seconds_left, tokens_of
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import Streamed

_TEXT_INTERVAL_S, _COMMENT_EVERY_S = 0.05, 15.0
# Of a client that has ended its side of the connection: only what is sent to it tells whether it still listens.
_COMMENT_EVERY_S_TO_LISTENER = 0.5
# Where many clients' readers of lines break a line too, beside those of server-sent events; JSON escapes the others.
_LINE_BREAKS = {character: f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}


class AnyEvent(RootModel[ServerEvent]):
    """An event of Chat Protocol v2. An `error` with a `seq` is of an exchange, one without refuses a frame."""


EVENTS = Streamed("text/event-stream", AnyEvent)
"""The answer of an operation that streams events."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """`data` is JSON without a line break."""

    data: str
    event: str | None = None
    id: str | None = None

    def encode(self) -> bytes:
        place, data = "" if self.id is None else f"id: {self.id}\n", self.data
        name = "" if self.event is None else f"event: {self.event}\n"
        for character, escaped in _LINE_BREAKS.items():
            data = data.replace(character, escaped)
        return f"{place}{name}data: {data}\n\n".encode()


class Events(Protocol):
    """Lists of events, and their end."""

    def __aiter__(self) -> AsyncIterator[Sequence[ServerSentEvent]]: ...
    async def aclose(self) -> None: ...


class EventStream(StreamingResponse):
    """Holds its `place` among the open connections until its events end or its client has gone.

    What comes at once is one list of `events`, and is sent as one chunk: each chunk costs the process a system call.
    """

    def __init__(self, events: Events, place: AbstractContextManager[object]) -> None:
        # Proxies that buffer would keep the events back.
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__((), headers=headers, media_type="text/event-stream")
        self._events = events
        self._place = place
        self._sending = asyncio.Lock()
        self._has_ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            try:
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                if scope["method"] == "HEAD":
                    await send({"type": "http.response.body", "body": b""})
                else:
                    await self._stream(scope, receive, send)
            finally:
                # However the client has gone, also before the first event.
                await self._events.aclose()

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        keeping_alive = self._keep_alive(scope["state"]["has_client_ended"], receive, send)
        tasks = [asyncio.create_task(self._send_events(send)), asyncio.create_task(keeping_alive)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for error in [task.exception() for task in tasks if not task.cancelled()]:
            if error is not None:
                raise error

    async def _send_events(self, send: Send) -> None:
        async for events in self._events:
            if events:
                await self._send_chunk(send, b"".join(event.encode() for event in events))
        await self._send_chunk(send, b"", is_last=True)

    async def _keep_alive(self, has_client_ended: Callable[[], bool], receive: Receive, send: Send) -> None:
        """Send comments, so that proxies don't take the connection for dead, until the client has gone."""
        while True:
            every_s = _COMMENT_EVERY_S_TO_LISTENER if has_client_ended() else _COMMENT_EVERY_S
            try:
                async with asyncio.timeout(every_s):
                    message = await receive()
            except TimeoutError:
                await self._send_chunk(send, b": ping\n\n")
            else:
                if message["type"] == "http.disconnect":
                    return

    async def _send_chunk(self, send: Send, chunk: bytes, *, is_last: bool = False) -> None:
        async with self._sending:
            if not self._has_ended:
                self._has_ended = is_last
                await send({"type": "http.response.body", "body": chunk, "more_body": not is_last})


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


async def ask_streamed(
    door: DoorServices,
    request: Request,
    user: User,
    turn: Turn,
    renderer: Renderer,
    request_id: str,
    *,
    stops_with_client: bool = False,
) -> EventStream:
    """Begin the exchange that `turn` asks for, and stream its events. Raises as SessionOrchestrator.ask does."""
    with door.kpi.calls.refusals("ask"), door.connections.stream(user.id) as place:
        exchange = await door.sessions.orchestrator.ask(user, turn, tokens_of(request, user), request_id)
        return exchange_stream(door, user, exchange, place, renderer, stops_with_client=stops_with_client)


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
    return EventStream(_exchange_events(feed, renderer), place.pop_all())


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
    feed = _opened_feed(door, user, place)
    feed.follow_only(exchange, after_seq, stops_with_feed=stops_with_client)
    return feed


def _opened_feed(door: DoorServices, user: User, place: ExitStack) -> Feed:
    feed = place.enter_context(open_feed(door.relay, _TEXT_INTERVAL_S))
    feed.end_after(seconds_left(user))
    return feed


def why_cut(feed: Feed) -> AgenticError | None:
    """Why a feed has ended before its exchange; None if it has not."""
    if feed.close_code is None:
        return None
    return TokenExpired() if feed.close_code is CloseCode.SIGN_IN_AGAIN else ShuttingDown()


async def _exchange_events(feed: Feed, renderer: Renderer) -> AsyncGenerator[Sequence[ServerSentEvent], None]:
    async for events in feed.batches():
        rendered: list[ServerSentEvent] = []
        for event in events:
            rendered += renderer.render(event)
            if renderer.is_over:
                yield rendered
                return
        yield rendered
    if (error := why_cut(feed)) is not None:
        yield list(renderer.cut(error))


def session_stream(
    door: DoorServices,
    user: User,
    session: Session,
    running: ExchangeLog | None,
    seen: tuple[ExchangeLog, int] | None,
    place: ExitStack,
) -> EventStream:
    """The events of a session: its running exchange, later exchanges, and its changes, for as long as the user's token
    is valid.

    `session` has the state in which `running` was found. `seen` is an exchange and the last seq that the client has of
    it. When the server stops, the stream ends once no exchange of the session runs here. The stream takes over `place`.
    """
    feed = _opened_feed(door, user, place)
    door.kpi.connections.followed(feed.follow_session(session, running, seen))
    return EventStream(_events(feed), place.pop_all())


def list_stream(door: DoorServices, user: User, place: ExitStack) -> EventStream:
    """The changes of all the user's sessions, for as long as the user's token is valid. Takes over `place`."""
    feed = _opened_feed(door, user, place)
    feed.follow_sessions(user.id)
    return EventStream(_events(feed), place.pop_all())


async def _events(feed: Feed) -> AsyncGenerator[Sequence[ServerSentEvent], None]:
    async for events in feed.batches():
        yield [chat_v2(event) for event in events]
