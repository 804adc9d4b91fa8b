"""The events that an application streams to one client, behind a border.

The handler runs in one task and one context, from its first event to its end, and hands over one event at a time.
Whatever goes wrong once the first one is there is the last event, `error`, with the body of a refusal.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any

from agentic_backend.agents.run.authors_calls import TIMEOUT, AuthorsCalls, CallFailed, answer_of
from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.errors import AgenticError, ShuttingDown, TokenExpired
from agentic_backend.loop.loop_load import served_timer
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
CLOSE_S = 2.0
"""How long a handler may tidy up, in seconds, before it counts as one that hangs."""


@dataclass(frozen=True, slots=True)
class OpenStreams:
    """What the streams of all applications of a server hold while they are open."""

    connections: OpenConnections = field(default_factory=lambda: OpenConnections(LimitsSettings()))
    drain: Drain = field(default_factory=Drain)


@dataclass(frozen=True, slots=True)
class Border:
    """What stands between a stream and the application's code."""

    calls: AuthorsCalls
    fields: Mapping[str, object]
    """The ids in log lines."""
    timeout_s: float
    """How long each event may take."""
    refusal: Callable[[AgenticError], AgenticError | CallFailed]
    """Makes of an error that the handler raises one in values of the server's own."""
    failed: Callable[[CallFailed], AgenticError]
    """Logs a failure, and returns what the client is told of it."""


class EventTooLarge(Exception):
    """An event has more than MOST_EVENT_BYTES."""


class AuthorsEvents(AsyncIterator[Sequence[ServerSentEvent]]):
    """One stream. Whoever makes it closes it."""

    def __init__(self, generator: AsyncGenerator[Any, None], names: Mapping[type[Value], str], border: Border) -> None:
        """`names` are those of the kinds of events, by their classes. Raises AgenticError if too many calls hang."""
        self._generator = generator
        self._names = names
        self._border = border
        self._queue: asyncio.Queue[ServerSentEvent] = asyncio.Queue(1)
        self._first: ServerSentEvent | None = None
        self._is_over = False
        self._count = 0
        self._ends: asyncio.Future[AgenticError] | None = None
        """Why the stream ends by itself, once it does."""
        self._held = ExitStack()
        """The notice of the server's end, and the timer of the token's."""
        try:
            self._task = border.calls.begun(self._handle, border.fields)
        except CallFailed as failure:
            raise border.failed(failure) from None

    async def begin(self) -> None:
        """Wait for the first event, or for the end. Raises what a call of the application raises."""
        self._first = await self._next()
        self._is_over = self._first is None

    def follow(self, user: User, drain: Drain) -> None:
        """From now on end with the user's token, and with the server."""
        loop = asyncio.get_running_loop()
        self._ends = loop.create_future()
        self._held.enter_context(drain.notice(lambda: self.end(ShuttingDown())))
        if (left_s := seconds_left(user)) is not None:
            timer = loop.call_later(max(0.0, left_s), lambda: self.end(TokenExpired()))
            self._held.callback(timer.cancel)

    def end(self, error: AgenticError) -> None:
        """Tell the client this, and no more."""
        if self._ends is not None and not self._ends.done():
            self._ends.set_result(error)

    async def __anext__(self) -> Sequence[ServerSentEvent]:
        if self._is_over:
            raise StopAsyncIteration
        try:
            event, self._first = self._first or await self._next(), None
        except AgenticError as error:
            self._is_over = True
            return [_error_event(error)]
        if event is None:
            self._is_over = True
            raise StopAsyncIteration
        return [event]

    async def aclose(self) -> None:
        self._is_over = True
        self._held.close()
        await self._border.calls.ended(self._task, CLOSE_S)

    async def _next(self) -> ServerSentEvent | None:
        """The next event; None if there is none. Raises an AgenticError of the server's own."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        getting = asyncio.ensure_future(self._queue.get())
        waited: set[asyncio.Future[Any]] = {getting, self._task, over, *([self._ends] if self._ends else [])}
        try:
            with served_timer(self._border.timeout_s, lambda: None if over.done() else over.set_result(None)):
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if self._ends is not None and self._ends.done():
                raise self._ends.result()
            if getting.done():
                return getting.result()
            if self._task.done():
                # It may have handed over its last event just now.
                if not self._queue.empty():
                    return self._queue.get_nowait()
                self._require_good_end()
                return None
            raise self._border.failed(CallFailed(TIMEOUT, was_away=True))
        finally:
            getting.cancel()

    def _require_good_end(self) -> None:
        """Raises an AgenticError if the handler has not ended well."""
        try:
            refused = answer_of(self._task)
        except CallFailed as failure:
            raise self._border.failed(failure) from None
        if refused is not None:
            raise refused

    async def _handle(self) -> AgenticError | CallFailed | None:
        """The handler, from its first event to its end: what it has refused with, if it has."""
        try:
            async with aclosing(self._generator):
                async for value in self._generator:
                    await self._queue.put(self._rendered(value))
        except AgenticError as error:
            return self._border.refusal(error)
        return None

    def _rendered(self, value: Any) -> ServerSentEvent:
        # By identity: an author's class may say that it is another's.
        kind = next((each for each in self._names if each is type(value)), None)
        if kind is None:
            raise TypeError("the handler has yielded what it does not declare")
        data = bytes(kind.__pydantic_serializer__.to_json(value, warnings="error"))
        if len(data) > MOST_EVENT_BYTES:
            raise EventTooLarge
        self._count += 1
        return ServerSentEvent(data.decode(), self._names[kind], str(self._count))


def _error_event(error: AgenticError) -> ServerSentEvent:
    info = ErrorInfo.of(error, current_origin().request_id, None)
    return ServerSentEvent(ErrorBody.of(info).model_dump_json(), ERROR)
