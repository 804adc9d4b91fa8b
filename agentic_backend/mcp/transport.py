"""The connection to an MCP server, by the transport that its settings name. Opened and closed in one task."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial
from typing import Any

import httpx
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from agentic_backend.mcp.auth import fixed_headers
from agentic_backend.mcp.client_session import ReadStream, WriteStream
from agentic_backend.mcp.stderr_log import stderr_log
from agentic_backend.settings import McpServerSettings

Streams = tuple[ReadStream, WriteStream]
OpenTransport = Callable[[Callable[[], None]], AbstractAsyncContextManager[Streams]]
"""Opens a connection; it is given what to call when an answer breaks off before its end."""

# A stream may be silent longer than a tool may run, and as long as MCP's own client lets it.
_BEYOND_THE_TOOL_S, _SILENCE_S = 30, 300


def transport_to(server_id: str, settings: McpServerSettings, auth: httpx.Auth | None) -> OpenTransport:
    """What opens a connection to the server, each time anew; `auth` signs the requests of an HTTP one."""
    match settings.transport:
        case "stdio":
            return partial(_stdio, server_id, settings)
        case "sse":
            return partial(_sse, settings, auth)
        case "streamable_http":
            return partial(_streamable_http, settings, auth)


@asynccontextmanager
async def _stdio(server_id: str, settings: McpServerSettings, on_break: Callable[[], None]) -> AsyncIterator[Streams]:
    assert settings.command is not None, "the settings are validated"
    program = [*await asyncio.to_thread(_ending_with_us), settings.command, *settings.args]
    # `env` comes on top of PATH, HOME and the like: nothing else of the server's environment is passed on.
    parameters = StdioServerParameters(command=program[0], args=program[1:], env=settings.env, cwd=settings.cwd)
    async with stderr_log(server_id, settings.env.values()) as errors, stdio_client(parameters, errors) as streams:
        errors.close()
        yield streams


@cache
def _ending_with_us() -> tuple[str, ...]:
    """What a program is started by, where util-linux is there: the kernel kills it when this process is killed.

    A program that hangs would not see that its input has ended, which tells all others.
    """
    return ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()


@asynccontextmanager
async def _streamable_http(
    settings: McpServerSettings, auth: httpx.Auth | None, on_break: Callable[[], None]
) -> AsyncIterator[Streams]:
    async def watch(response: httpx.Response) -> None:
        if response.request.method == "POST" and "event-stream" in response.headers.get("content-type", ""):
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = _Watched(response.stream, on_break)

    client = await _client(settings, auth)
    client.event_hooks["response"].append(watch)
    async with client, streamable_http_client(_url(settings), http_client=client) as (read, write, _):
        yield read, write


@asynccontextmanager
async def _sse(
    settings: McpServerSettings, auth: httpx.Auth | None, on_break: Callable[[], None]
) -> AsyncIterator[Streams]:
    client = await _client(settings, auth)

    def made_already(*_: Any, **__: Any) -> httpx.AsyncClient:
        return client

    async with sse_client(_url(settings), httpx_client_factory=made_already) as streams:
        yield streams


class _Watched(httpx.AsyncByteStream):
    """A stream of events that tells when it ends; MCP's client closes it before, once it has its answer.

    It keeps to itself that an answer broke off: the call would wait for its timeout.
    """

    def __init__(self, stream: httpx.AsyncByteStream, on_break: Callable[[], None]) -> None:
        self._stream = stream
        self._on_break = on_break

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for data in self._stream:
                yield data
        except httpx.TransportError:
            self._on_break()
            raise
        self._on_break()

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _client(settings: McpServerSettings, auth: httpx.Auth | None) -> httpx.AsyncClient:
    silence_s = max(settings.tool_timeout_s + _BEYOND_THE_TOOL_S, _SILENCE_S)
    timeout = httpx.Timeout(settings.connect_timeout_s, read=silence_s)
    # In a thread, for the trusted certificates are read from files.
    tls = await asyncio.to_thread(_tls)
    return httpx.AsyncClient(auth=auth, headers=fixed_headers(settings.auth), timeout=timeout, verify=tls)


@cache
def _tls() -> ssl.SSLContext:
    """One for all sessions, since making it takes as long as all the rest of a connection."""
    return httpx.create_ssl_context()


def _url(settings: McpServerSettings) -> str:
    assert settings.url is not None, "the settings are validated"
    return settings.url
