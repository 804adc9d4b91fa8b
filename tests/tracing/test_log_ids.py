"""Each line of an exchange's log has its ids: also those of the store and of MCP servers."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from services.mcp_echo import echo_over_stdio
from support.chat_client import chat
from support.mcp_agents import MODULE
from support.running_server import running_server

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.opening import open_sqlite
from agentic_backend.telemetry.ids import WithIds, logged_with

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
NAMED = {"X-Request-Id": "order-17", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}


@contextmanager
def with_ids(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The records have what the log's lines have."""
    ids = WithIds()
    caplog.handler.addFilter(ids)
    try:
        yield
    finally:
        caplog.handler.removeFilter(ids)


def ids_of(caplog: pytest.LogCaptureFixture, message: str) -> list[tuple[Any, ...]]:
    names = ("exchange_id", "session_id", "agent_id", "request_id", "trace_id")
    return [
        tuple(getattr(record, name, None) for name in names) for record in caplog.records if record.message == message
    ]


async def test_lines_of_mcp_servers_have_the_ids_of_their_exchange(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = {
        "absent": {"transport": "stdio", "command": "/no/such/program"},
        "hasty": echo_over_stdio(tool_timeout_s=1),
    }
    agents = [
        {"id": name, "class_path": f"{MODULE}:ToolUser", "tuning": {"mcp_servers": [{"id": name}]}} for name in servers
    ]
    async with running_server(tmp_path, agents=agents, settings={"mcp_servers": servers}) as server:
        async with chat(server.address, additional_headers=NAMED) as client:
            with with_ids(caplog):
                lonely = await client.ask("call echo(text=1)", agent_id="absent")
                hasty = await client.ask("call hang()", agent_id="hasty")
    for events, agent_id, message in (
        (lonely, "absent", "MCP server can't be reached"),
        (hasty, "hasty", "MCP call failed"),
    ):
        [ids] = ids_of(caplog, message)
        assert ids == (events[0]["exchange_id"], events[0]["session_id"], agent_id, "order-17", TRACE)


async def test_lines_of_the_store_have_the_ids_of_their_exchange(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_sqlite(tmp_path / "chat.sqlite3", 5)
    try:
        with sqlite3.connect(tmp_path / "chat.sqlite3") as other:
            other.execute("ALTER TABLE sessions RENAME TO gone")
        other.close()
        ids = {"exchange_id": "e", "session_id": "s", "agent_id": "a", "request_id": "r", "trace_id": TRACE}
        with with_ids(caplog), caplog.at_level(logging.WARNING), logged_with(**ids):
            with pytest.raises(StoreUnavailable):
                await store.get_session("s")
    finally:
        await store.aclose()
    assert ids_of(caplog, "SQLite failed") == [tuple(ids.values())]
