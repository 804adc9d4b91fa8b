"""Connections to MCP servers over HTTP, whose responses are bounded.

MCP's own transports implement the protocol; a response hook of httpx gives them only messages that `Inbound` lets
through, and `_Client` keeps a refused call from ending the session. The hook reads only answers to our requests.
Requests ask for uncompressed responses, and compressed ones are not read, so that no small response becomes a large
one.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import anyio
import httpx
import orjson
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage

from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.errors import AuthUnavailable, TokenExpired, Unauthenticated
from agentic_backend.loop.loop_load import served_timeout
from agentic_backend.mcp.credentials import REFUSALS, fixed_headers, refusal, unasked
from agentic_backend.mcp.framing import Capped, ServerSentEvent, ServerSentEvents
from agentic_backend.mcp.inbound import MANY, REST_S, TURN_EVERY, Inbound, RequestId, TooMuch
from agentic_backend.mcp.live_session import ReadStream, Streams
from agentic_backend.tracing.origin import REQUEST_ID, TRACEPARENT, TRACESTATE

_BEYOND_THE_TOOL_S, _SILENCE_S = 30, 300
"""A stream may be silent longer than a tool may run, and at least as long as MCP's own client allows."""
_UNCOMPRESSED = {"Accept-Encoding": "identity"}
"""Headers of each request."""
_MOST_REDIRECTS = 5


@asynccontextmanager
async def streamable_http(
    settings: McpServerSettings, auth: httpx.Auth | None, inbound: Inbound, on_break: Callable[[], None]
) -> AsyncIterator[Streams]:
    """Connect; `auth` signs each request, and `on_break` is called if an answer may have broken off."""
    answer_s = settings.tool_timeout_s + _BEYOND_THE_TOOL_S
    client = await _client(settings, auth, inbound)
    client.event_hooks["response"].append(_bounded_responses(inbound, answer_s, on_break))
    async with client, streamable_http_client(_url(settings), http_client=client) as (read, write, _):
        yield read, write


@asynccontextmanager
async def sse(
    settings: McpServerSettings, auth: httpx.Auth | None, inbound: Inbound, on_break: Callable[[], None]
) -> AsyncIterator[Streams]:
    """Connect as `streamable_http` does; all answers come in one stream, whose end ends the session."""
    into, answers = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    client = await _client(settings, auth, inbound, into)
    client.event_hooks["response"].append(_bounded_responses(inbound, None))

    def made_already(*_: Any, **__: Any) -> httpx.AsyncClient:
        return client

    async with into, answers, sse_client(_url(settings), httpx_client_factory=made_already) as (read, write):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_pass_on, read, into)
            yield answers, write
            tasks.cancel_scope.cancel()


async def _pass_on(read: ReadStream, into: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with into:
            async for message in read:
                await into.send(message)


class _Client(httpx.AsyncClient):
    """Answers in place of a server that refuses a request, since MCP's client would end the session."""

    def __init__(
        self,
        inbound: Inbound,
        refusal: str,
        answers: MemoryObjectSendStream[SessionMessage | Exception] | None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._inbound = inbound
        """Makes the answer."""
        self._refusal = refusal
        """What a server did that refuses a request."""
        self._answers = answers
        """Where MCP's client reads all answers; None if each comes in the response to its request."""

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        is_sent = False
        if request.method == "POST":
            # After a redirect the request has only a stream.
            await request.aread()
            _send_on_ids(request)
        try:
            response = await self._sent(request, **options)
            is_sent = not response.is_error
            return response
        finally:
            if not is_sent and request.method == "POST" and self._answers is not None:
                # MCP's client sends nothing more, but goes on reading: calls would wait for their timeout. The end of
                # the answers ends the session.
                self._answers.close()

    async def _sent(self, request: httpx.Request, **options: Any) -> httpx.Response:
        try:
            response = await super().send(request, **options)
        except (Unauthenticated, TokenExpired, AuthUnavailable) as error:
            if (instead := await self._answer_for_refused(request, unasked(error))) is None:
                raise
            return instead
        if response.status_code in REFUSALS and (instead := await self._answer_for_refused(request, self._refusal)):
            await response.aclose()
            return instead
        return response

    async def _answer_for_refused(self, request: httpx.Request, what: str) -> httpx.Response | None:
        """The response to a call of a tool, and to what expects no answer; None for what opens the session and keeps it
        open."""
        if request.method != "POST":
            return None
        message = orjson.loads(request.content)
        # The others are notifications, and our answers to the server.
        is_request = "method" in message and "id" in message
        if is_request and message["method"] != "tools/call":
            return None
        answer = self._inbound.error(message["id"] if is_request else None, what)
        if answer is not None and self._answers is None:
            headers = {"content-type": "application/json"}
            return httpx.Response(httpx.codes.OK, headers=headers, content=answer, request=request)
        if answer is not None and self._answers is not None:
            await self._answers.send(SessionMessage(JSONRPCMessage.model_validate_json(answer)))
        return httpx.Response(httpx.codes.ACCEPTED, request=request)


async def _client(
    settings: McpServerSettings,
    auth: httpx.Auth | None,
    inbound: Inbound,
    answers: MemoryObjectSendStream[SessionMessage | Exception] | None = None,
) -> httpx.AsyncClient:
    silence_s = max(settings.tool_timeout_s + _BEYOND_THE_TOOL_S, _SILENCE_S)
    # In a thread, because it reads the trusted certificates from files.
    tls = await asyncio.to_thread(_tls)
    return _Client(
        inbound,
        refusal(settings.auth),
        answers,
        auth=auth,
        headers={**fixed_headers(settings.auth), **_UNCOMPRESSED},
        timeout=httpx.Timeout(settings.connect_timeout_s, read=silence_s),
        max_redirects=_MOST_REDIRECTS,
        verify=tls,
    )


@cache
def _tls() -> ssl.SSLContext:
    """The TLS context of all sessions: creating one takes as long as the rest of a connection."""
    return httpx.create_ssl_context()


def _url(settings: McpServerSettings) -> str:
    assert settings.url is not None, "the settings are validated"
    return settings.url


def _bounded_responses(
    inbound: Inbound, answer_s: float | None, on_break: Callable[[], None] = lambda: None
) -> Callable[[httpx.Response], Awaitable[None]]:
    """A hook that filters responses through `inbound` before MCP's client reads them.

    The answer to a POST may take `answer_s` seconds in all; None if answers come elsewhere. `on_break` is called when
    the stream of one ends.
    """

    async def bound(response: httpx.Response) -> None:
        stream, request = response.stream, response.request
        assert isinstance(stream, httpx.AsyncByteStream)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoded = response.headers.pop("content-encoding", "identity").strip().lower() != "identity"
        asked = await _request_id(request) if request.method == "POST" and answer_s is not None else None
        if response.status_code != httpx.codes.OK or (request.method != "GET" and asked is None):
            read = _body_instead()
        elif kind == "text/event-stream" and not encoded:
            # A stream that answers no request may stay open for good, and its end means no break.
            ends = (answer_s, on_break) if asked is not None else (None, lambda: None)
            read = _events(stream, inbound, asked, *ends)
        elif asked is None:
            read = _body_instead()
        elif kind == "application/json" and not encoded:
            read = _whole(stream, inbound, asked, answer_s)
        else:
            response.headers["content-type"] = "application/json"
            read = _body_instead(inbound.error(asked, "gave an answer in a form that was not asked for"))
        response.stream = _Body(stream, read)

    return bound


async def _request_id(request: httpx.Request) -> RequestId | None:
    """The id of the JSON-RPC request in an HTTP request; None if it carries another message."""
    message = orjson.loads(await request.aread())
    return message.get("id") if "method" in message else None


def _send_on_ids(request: httpx.Request) -> None:
    """Put what the message's `_meta` says of the call and its trace into the headers, where proxies find it."""
    params = orjson.loads(request.content).get("params") or {}
    meta = params.get("_meta") or {}
    request.headers.update({name: meta[name] for name in (REQUEST_ID, TRACEPARENT, TRACESTATE) if name in meta})


class _Body(httpx.AsyncByteStream):
    """The body that MCP's client reads of a response; closing it early costs a connection."""

    def __init__(self, stream: httpx.AsyncByteStream, read: AsyncIterator[bytes]) -> None:
        self._stream = stream
        """The server's body."""
        self._read = read
        """The bytes for MCP's client."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._read

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _body_instead(told: bytes | None = None) -> AsyncIterator[bytes]:
    """`told` instead of a body that is not read."""
    if told is not None:
        yield told


async def _whole(
    stream: httpx.AsyncByteStream, inbound: Inbound, asked: RequestId, answer_s: float | None
) -> AsyncIterator[bytes]:
    """An answer in one piece."""
    body = Capped()
    try:
        async with served_timeout(answer_s):
            async for data in stream:
                body.add(data)
                if body.is_cut:
                    inbound.spend(len(data))
                await asyncio.sleep(0)
        said = await inbound.read(body, asked, is_all=True)
    except TooMuch:
        said = inbound.error(asked, "gave an answer without end")
    except TimeoutError:
        said = inbound.error(asked, "did not end its answer")
    if said is not None:
        yield said


async def _events(
    stream: httpx.AsyncByteStream,
    inbound: Inbound,
    asked: RequestId | None,
    until_s: float | None,
    on_break: Callable[[], None],
) -> AsyncIterator[bytes]:
    """A stream of events; calls `on_break` if it ends. MCP's client closes it before that, once it has its answer.

    That client doesn't report an answer that broke off: without `on_break`, the call would wait for its timeout.
    """
    loop, events = asyncio.get_running_loop(), ServerSentEvents()
    end = loop.time() + until_s if until_s is not None else None
    try:
        async for data in stream:
            dropped = 0
            for event in events.feed(data):
                said = await _said(event, inbound, asked)
                if encoded := event.encoded(said):
                    yield encoded
                dropped += said is None
                if dropped % TURN_EVERY == 1:
                    await asyncio.sleep(0)
            if events.is_too_long:
                inbound.spend(len(data))
            if end is not None and loop.time() > end:
                break
            await asyncio.sleep(REST_S if dropped >= MANY else 0)
    except httpx.TransportError:
        on_break()
        raise
    except TooMuch:
        if (told := inbound.error(asked, "sends without end")) is not None:
            yield b"data: " + told + b"\n\n"
    on_break()


async def _said(event: ServerSentEvent, inbound: Inbound, asked: RequestId | None) -> bytes | None:
    data = event.data
    if event.name == b"endpoint":
        return None if data.is_cut or b"\n" in data.head else bytes(data.head)
    return await inbound.read(data, asked) if event.name == b"message" and data.size else None
