"""The connection to an MCP server, by the transport that its settings name. Opened and closed in one task.

Whatever the transport, MCP's client gets only what `Inbound` lets through.
"""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial
from typing import Any

import httpx
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from agentic_backend.mcp.auth import fixed_headers
from agentic_backend.mcp.client_session import ReadStream, WriteStream
from agentic_backend.mcp.http_responses import MOST_REDIRECTS, UNCOMPRESSED, bounded_responses
from agentic_backend.mcp.inbound import Inbound
from agentic_backend.mcp.stderr_log import stderr_log
from agentic_backend.mcp.stdio import stdio_connection
from agentic_backend.settings import McpServerSettings

Streams = tuple[ReadStream, WriteStream]
OpenTransport = Callable[[Callable[[], None]], AbstractAsyncContextManager[Streams]]
"""Opens a connection; it is given what to call when an answer breaks off before its end."""

# A stream may be silent longer than a tool may run, and as long as MCP's own client lets it.
_BEYOND_THE_TOOL_S, _SILENCE_S = 30, 300


def transport_to(
    server_id: str, settings: McpServerSettings, auth: httpx.Auth | None, inbound: Inbound
) -> OpenTransport:
    """What opens a connection to the server, each time anew; `auth` signs the requests of an HTTP one."""
    match settings.transport:
        case "stdio":
            return partial(_stdio, server_id, settings, inbound)
        case "sse":
            return partial(_sse, settings, auth, inbound)
        case "streamable_http":
            return partial(_streamable_http, settings, auth, inbound)


@asynccontextmanager
async def _stdio(
    server_id: str, settings: McpServerSettings, inbound: Inbound, on_break: Callable[[], None]
) -> AsyncIterator[Streams]:
    assert settings.command is not None, "the settings are validated"
    program = [*await asyncio.to_thread(_ending_with_us), settings.command, *settings.args]
    async with stderr_log(server_id, settings.env.values()) as errors:
        async with stdio_connection(program, settings.env, settings.cwd, errors, inbound) as streams:
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
    settings: McpServerSettings, auth: httpx.Auth | None, inbound: Inbound, on_break: Callable[[], None]
) -> AsyncIterator[Streams]:
    answer_s = settings.tool_timeout_s + _BEYOND_THE_TOOL_S
    client = await _client(settings, auth)
    client.event_hooks["response"].append(
        bounded_responses(inbound, answer_s=answer_s, posts_are_answered=True, on_break=on_break)
    )
    async with client, streamable_http_client(_url(settings), http_client=client) as (read, write, _):
        yield read, write


@asynccontextmanager
async def _sse(
    settings: McpServerSettings, auth: httpx.Auth | None, inbound: Inbound, on_break: Callable[[], None]
) -> AsyncIterator[Streams]:
    client = await _client(settings, auth)
    client.event_hooks["response"].append(bounded_responses(inbound, answer_s=0, posts_are_answered=False))

    def made_already(*_: Any, **__: Any) -> httpx.AsyncClient:
        return client

    async with sse_client(_url(settings), httpx_client_factory=made_already) as streams:
        yield streams


async def _client(settings: McpServerSettings, auth: httpx.Auth | None) -> httpx.AsyncClient:
    silence_s = max(settings.tool_timeout_s + _BEYOND_THE_TOOL_S, _SILENCE_S)
    # In a thread, for the trusted certificates are read from files.
    tls = await asyncio.to_thread(_tls)
    return httpx.AsyncClient(
        auth=auth,
        headers={**fixed_headers(settings.auth), **UNCOMPRESSED},
        timeout=httpx.Timeout(settings.connect_timeout_s, read=silence_s),
        max_redirects=MOST_REDIRECTS,
        verify=tls,
    )


@cache
def _tls() -> ssl.SSLContext:
    """One for all sessions, since making it takes as long as all the rest of a connection."""
    return httpx.create_ssl_context()


def _url(settings: McpServerSettings) -> str:
    assert settings.url is not None, "the settings are validated"
    return settings.url
