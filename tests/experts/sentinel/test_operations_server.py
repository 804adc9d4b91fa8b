"""The MCP server `operations`, asked as an MCP client asks it, about a real server."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.shared.memory import create_connected_server_and_client_session
from mcp.types import TextContent
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from support.chat_client import chat
from support.running_server import RunningServer

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.experts.sentinel.operations_server import MAX_SAMPLES, operations_server
from agentic_backend.server.process import Listener, address_of, bind

log = logging.getLogger("tests.operations")


async def used(internal_url: str, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Whether the tool succeeded, and its text."""
    server = operations_server(internal_url)
    async with create_connected_server_and_client_session(server._mcp_server) as session:
        result = await session.call_tool(tool, arguments)
    [content] = result.content
    assert isinstance(content, TextContent)
    return not result.isError, content.text


async def told(internal_url: str, tool: str, **arguments: Any) -> str:
    succeeded, text = await used(internal_url, tool, **arguments)
    assert succeeded, text
    return text


@asynccontextmanager
async def ill_server(exposition: str = "") -> AsyncIterator[str]:
    """The internal listener of a server that isn't ready."""

    async def ok(request: Any) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def not_ready(request: Any) -> JSONResponse:
        return JSONResponse({"status": "store_unavailable"}, 503)

    async def metrics(request: Any) -> PlainTextResponse:
        return PlainTextResponse(exposition)

    routes = [Route("/health/live", ok), Route("/health/ready", not_ready), Route("/metrics", metrics)]
    bound = bind("127.0.0.1", 0)
    listener = Listener(Starlette(routes=routes), bound, LimitsSettings())
    listening = asyncio.create_task(listener.listen())
    yield address_of(bound)
    listener.close()
    await listening
    bound.close()


async def test_every_tool_says_what_it_is_for(server: RunningServer) -> None:
    async with create_connected_server_and_client_session(operations_server(server.internal)._mcp_server) as session:
        tools = (await session.list_tools()).tools
    assert [tool.name for tool in tools] == ["server_health", "list_metrics", "query_metrics", "tail_log"]
    assert all(tool.description for tool in tools)
    assert all("description" in given for tool in tools for given in tool.inputSchema["properties"].values())


async def test_the_health_of_a_server(server: RunningServer) -> None:
    assert await told(server.internal, "server_health") == "The server is alive and ready."
    async with ill_server() as internal:
        text = await told(internal, "server_health")
    assert text == "The server is alive, but not ready: store_unavailable."


async def test_metrics_are_listed_and_told(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.ask("repeat after me: hello", agent_id="echo")
    listed = await told(server.internal, "list_metrics")
    assert "chat_exchange (counter): " in listed
    assert "_created" not in listed
    values = (await told(server.internal, "query_metrics", name="exchange_total")).splitlines()
    assert values == ["chat_exchange_total{agent_id='echo', status='ok'} 1"]
    assert "_bucket" not in await told(server.internal, "query_metrics", name="chat_exchange")
    buckets = await told(server.internal, "query_metrics", name="chat_exchange_duration_seconds_bucket")
    assert "le='+Inf'" in buckets


async def test_labels_choose_among_samples(server: RunningServer) -> None:
    async with chat(server.address) as client:
        for agent_id in ("echo", "raising"):
            await client.ask("hello", agent_id=agent_id)
    values = await told(server.internal, "query_metrics", name="exchange_total", labels={"agent_id": "raising"})
    assert values == "chat_exchange_total{agent_id='raising', status='error'} 1"
    succeeded, text = await used(server.internal, "query_metrics", name="exchange_total", labels={"agent_id": "x"})
    assert not succeeded
    assert "try list_metrics" in text


async def test_many_samples_are_cut() -> None:
    exposition = "".join(f'things{{number="{number}"}} 1\n' for number in range(MAX_SAMPLES + 5))
    async with ill_server(exposition) as internal:
        lines = (await told(internal, "query_metrics", name="things")).splitlines()
    assert len(lines) == MAX_SAMPLES + 1
    assert lines[-1] == "[5 more samples left out]"


async def test_the_log_is_told_from_its_end_by_level(server: RunningServer) -> None:
    for number in range(3):
        log.warning("warning %d", number)
    log.error("an error " + "x" * 5000)
    lines = (await told(server.internal, "tail_log", lines=2)).splitlines()
    assert json.loads(lines[0])["message"] == "warning 2"
    assert "an error" in lines[1]
    assert len(lines[1]) < 1000
    errors = (await told(server.internal, "tail_log", level="error")).splitlines()
    assert [json.loads(line + '"}')["level"] for line in errors] == ["error"]


@pytest.mark.parametrize("lines", [0, 101])
async def test_no_more_lines_than_a_model_can_read(server: RunningServer, lines: int) -> None:
    succeeded, _ = await used(server.internal, "tail_log", lines=lines)
    assert not succeeded


async def test_a_log_without_such_lines(server: RunningServer) -> None:
    assert await told(server.internal, "tail_log", level="error") == "No line of level error or above."


@pytest.mark.parametrize(
    ("internal", "reason"),
    [
        ("", "has no internal listener: the setting server.internal_port is 0"),
        ("http://127.0.0.1:1", "does not answer: ConnectError"),
    ],
)
async def test_without_a_listener_the_tools_say_why(internal: str, reason: str) -> None:
    for tool in ("server_health", "list_metrics", "tail_log"):
        succeeded, text = await used(internal, tool)
        assert not succeeded
        assert reason in text
