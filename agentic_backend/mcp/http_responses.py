"""The responses of MCP servers over HTTP, read within bounds: an httpx response hook.

Only what answers a request of ours is read at all, and only as it is: a response is asked for without compression, so
that no small one becomes a large one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import orjson

from agentic_backend.mcp.framing import Capped, ServerSentEvents
from agentic_backend.mcp.inbound import Inbound, RequestId, TooMuch

UNCOMPRESSED = {"Accept-Encoding": "identity"}
"""Headers of each request."""

MOST_REDIRECTS = 5

_TURN_EVERY, _MANY, _REST_S = 64, 64, 0.01
"""Messages after which others get their turn; and how long a server that sends so many at once is not listened to."""


def bounded_responses(
    inbound: Inbound, *, answer_s: float, posts_are_answered: bool, on_break: Callable[[], None] = lambda: None
) -> Callable[[httpx.Response], Awaitable[None]]:
    """A hook that lets MCP's client read of a response what `inbound` reads.

    An answer may take `answer_s` seconds in all; `on_break` is called where one ends.
    """

    async def bound(response: httpx.Response) -> None:
        stream, request = response.stream, response.request
        assert isinstance(stream, httpx.AsyncByteStream)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoded = response.headers.pop("content-encoding", "identity").strip().lower() != "identity"
        asked = await _request_id(request) if request.method == "POST" and posts_are_answered else None
        if response.status_code != httpx.codes.OK or (request.method != "GET" and asked is None):
            response.stream = _Unread(stream)
        elif kind == "text/event-stream" and not encoded:
            until_s = answer_s if asked is not None else None
            response.stream = _Events(stream, inbound, asked, until_s, on_break)
        elif asked is not None:
            response.headers["content-type"] = "application/json"
            is_json = kind == "application/json" and not encoded
            response.stream = _Whole(stream, inbound, asked, answer_s) if is_json else _Refused(stream, inbound, asked)
        else:
            response.stream = _Unread(stream)

    return bound


async def _request_id(request: httpx.Request) -> RequestId | None:
    """The id of the JSON-RPC request that an HTTP request carries; None where it carries another message."""
    message = orjson.loads(await request.aread())
    return message.get("id") if "method" in message else None


class _Unread(httpx.AsyncByteStream):
    """A body that nobody needs; closing it early costs a connection."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        return
        yield b""

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Refused(_Unread):
    """An answer in a form that was not asked for."""

    def __init__(self, stream: httpx.AsyncByteStream, inbound: Inbound, asked: RequestId) -> None:
        super().__init__(stream)
        self._told = inbound.error(asked, "gave an answer in a form that was not asked for") or b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._told


class _Whole(_Unread):
    """An answer in one piece."""

    def __init__(self, stream: httpx.AsyncByteStream, inbound: Inbound, asked: RequestId, answer_s: float) -> None:
        super().__init__(stream)
        self._inbound = inbound
        self._asked = asked
        self._answer_s = answer_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        inbound, body = self._inbound, Capped()
        try:
            async with asyncio.timeout(self._answer_s):
                async for data in self._stream:
                    body.add(data)
                    if body.is_cut:
                        inbound.spend(len(data))
                    await asyncio.sleep(0)
            said = inbound.read(body, self._asked, is_all=True)
        except TooMuch:
            said = inbound.error(self._asked, "gave an answer without end")
        except TimeoutError:
            said = inbound.error(self._asked, "did not end its answer")
        if said is not None:
            yield said


class _Events(_Unread):
    """A stream of events. It tells when it ends; MCP's client closes it before, once it has its answer.

    That client keeps to itself that an answer broke off: the call would wait for its timeout.
    """

    def __init__(
        self,
        stream: httpx.AsyncByteStream,
        inbound: Inbound,
        asked: RequestId | None,
        until_s: float | None,
        on_break: Callable[[], None],
    ) -> None:
        super().__init__(stream)
        self._inbound = inbound
        self._asked = asked
        self._until_s = until_s
        self._on_break = on_break if asked is not None else lambda: None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop, events = asyncio.get_running_loop(), ServerSentEvents()
        end = loop.time() + self._until_s if self._until_s is not None else None
        try:
            async for data in self._stream:
                dropped = 0
                for event in events.feed(data):
                    said = self._said(event.name, event.data)
                    if encoded := event.encoded(said):
                        yield encoded
                    dropped += said is None
                    if dropped % _TURN_EVERY == 1:
                        await asyncio.sleep(0)
                if events.is_too_long:
                    self._inbound.spend(len(data))
                if end is not None and loop.time() > end:
                    break
                await asyncio.sleep(_REST_S if dropped >= _MANY else 0)
        except httpx.TransportError:
            self._on_break()
            raise
        except TooMuch:
            if (told := self._inbound.error(self._asked, "sends without end")) is not None:
                yield b"data: " + told + b"\n\n"
        self._on_break()

    def _said(self, name: bytes, data: Capped) -> bytes | None:
        if name == b"endpoint":
            return None if data.is_cut or b"\n" in data.head else bytes(data.head)
        if name != b"message" or not data.size:
            return None
        return self._inbound.read(data, self._asked)
