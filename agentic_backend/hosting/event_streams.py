"""The events that an application streams to one client, behind a border.

Each event is awaited as any call of the application is. Whatever goes wrong once the first one is there is the last
event, `error`, with the body of a refusal.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import AgenticError, ShuttingDown, TokenExpired
from agentic_backend.protocol.events import ErrorInfo
from agentic_backend.protocol.parts import Value
from agentic_backend.relay.drain import Drain
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.credentials import seconds_left
from agentic_backend.transports.open_connections import OpenConnections
from agentic_backend.transports.rest.operation import ErrorBody
from agentic_backend.transports.sse import ServerSentEvent

MOST_EVENT_BYTES = 1024 * 1024
ERROR = "error"
"""The name of the last event of a stream that is cut."""
_CLOSE_S = 2.0

_END = object()


@dataclass(frozen=True, slots=True)
class OpenStreams:
    """What the streams of all applications of a server hold while they are open."""

    connections: OpenConnections = field(default_factory=lambda: OpenConnections(LimitsSettings()))
    drain: Drain = field(default_factory=Drain)


Call = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Awaits what the application answers, within its time. Raises an AgenticError of the server's own."""


class EventTooLarge(Exception):
    """An event has more than MOST_EVENT_BYTES."""


class EventsOfAuthor:
    """One stream. `names` are the names of the kinds of events, by their classes."""

    def __init__(self, generator: AsyncGenerator[Any, None], names: Mapping[type[Value], str], call: Call) -> None:
        self._generator = generator
        self._names = names
        self._call = call
        self._next: ServerSentEvent | None = None
        self._count = 0

    async def begin(self) -> None:
        """Wait for the first event, or for the end. Raises what a call of the application raises."""
        self._next = await self._following()

    async def events(self, user: User, drain: Drain) -> AsyncIterator[Sequence[ServerSentEvent]]:
        """The events until they end, the user's token does, or the server stops."""
        ends = asyncio.Event()
        with drain.notice(ends.set):
            ending = asyncio.ensure_future(_until(ends, seconds_left(user)))
            try:
                while self._next is not None:
                    yield [self._next]
                    self._next = await self._next_or_end(ending)
            except AgenticError as error:
                yield [_error_event(error)]
            finally:
                ending.cancel()
                await self.aclose()

    async def aclose(self) -> None:
        with suppress(AgenticError):
            await self._call(self._generator.aclose)

    async def _next_or_end(self, ending: asyncio.Future[AgenticError]) -> ServerSentEvent | None:
        following = asyncio.ensure_future(self._following())
        try:
            waited: set[asyncio.Future[Any]] = {following, ending}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                raise ending.result()
            return following.result()
        finally:
            following.cancel()
            await asyncio.wait({following}, timeout=_CLOSE_S)

    async def _following(self) -> ServerSentEvent | None:
        """The next event; None if there is none."""
        event = await self._call(self._read)
        if event is _END:
            return None
        self._count += 1
        name, data = event
        return ServerSentEvent(data, name, str(self._count))

    async def _read(self) -> Any:
        try:
            value = await anext(self._generator)
        except StopAsyncIteration:
            return _END
        # By identity: an author's class may say that it is another's.
        kind = next((each for each in self._names if each is type(value)), None)
        if kind is None:
            raise TypeError("the handler has yielded what it does not declare")
        data = bytes(kind.__pydantic_serializer__.to_json(value, warnings="error"))
        if len(data) > MOST_EVENT_BYTES:
            raise EventTooLarge
        return self._names[kind], data.decode()


async def _until(ends: asyncio.Event, within_s: float | None) -> AgenticError:
    """Why the stream ends, once it does."""
    try:
        async with asyncio.timeout(within_s):
            await ends.wait()
    except TimeoutError:
        return TokenExpired()
    return ShuttingDown()


def _error_event(error: AgenticError) -> ServerSentEvent:
    info = ErrorInfo.of(error, current_origin().request_id, None)
    return ServerSentEvent(ErrorBody.of(info).model_dump_json(), ERROR)
