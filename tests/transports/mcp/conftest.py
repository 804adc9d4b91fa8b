"""What the tests of this door may use: a server, and MCP's own client of it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any

import httpx
import pytest
import pytest_asyncio
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestParams, ElicitResult
from support import approval_agents, asking_agents, test_agents
from support.chat_client import PATIENCE_S
from support.running_server import RunningServer, running_server

_NAMES = ("name", "order", "preferences", "size", "transfer")
AGENTS: list[dict[str, Any]] = [
    *test_agents.ENTRIES,
    *approval_agents.ENTRIES,
    *({"id": name, "class_path": f"{asking_agents.__name__}:{name}"} for name in _NAMES),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch_module: pytest.MonkeyPatch
) -> AsyncIterator[RunningServer]:
    """One for all tests of a file; each has users of its own."""
    directory = tmp_path_factory.mktemp("server")
    monkeypatch_module.setenv(approval_agents.NOTES_VARIABLE, str(directory / "notes"))
    async with running_server(directory, agents=AGENTS) as server:
        yield server


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


Answer = Callable[[ElicitRequestParams], Any]
"""What a person does with a form."""


@asynccontextmanager
async def mcp_client(server: RunningServer, user: str, answer: Answer | None = None) -> AsyncIterator[ClientSession]:
    """MCP's client for Python, which has introduced itself. With an `answer` it has forms."""

    async def elicited(context: object, params: ElicitRequestParams) -> ElicitResult:
        assert answer is not None
        given = answer(params)
        if isawaitable(given):
            given = await given
        return given if isinstance(given, ElicitResult) else ElicitResult(action="accept", content=given)

    async with (
        httpx.AsyncClient(headers={"Authorization": f"Bearer dev:{user}"}, timeout=PATIENCE_S) as http,
        streamable_http_client(f"{server.address}/mcp", http_client=http) as (read, write, _),
        ClientSession(read, write, elicitation_callback=elicited if answer is not None else None) as session,
    ):
        await session.initialize()
        yield session
