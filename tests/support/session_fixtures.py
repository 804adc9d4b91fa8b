"""Fixtures: sessions on each store, with agents that a test holds and releases."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url

from agentic_backend.stores.mongo import MongoStore
from support.held_agents import Hold, held_graph, held_tool_graph
from support.recorded_agents import echoing_graph
from support.sessions import Sessions, open_sessions


@pytest.fixture
def hold() -> Hold:
    return Hold()


@pytest.fixture(params=["sqlite", *ON_MONGODB])
def mongodb(request: pytest.FixtureRequest) -> str | None:
    """The server to use; None for SQLite."""
    return None if request.param == "sqlite" else server_url(request.param, request)


@pytest.fixture
async def sessions(mongodb: str | None, tmp_path: Path, hold: Hold) -> AsyncIterator[Sessions]:
    agents = {"held": held_graph(hold), "working": held_tool_graph(hold), "echo": echoing_graph()}
    async with AsyncExitStack() as opened:
        database = None
        if mongodb is not None:
            url = await opened.enter_async_context(fresh_database(mongodb))
            database = await MongoStore.open(url, timeout_s=20)
        yield await opened.enter_async_context(open_sessions(tmp_path, agents, database=database))


class Serve(Protocol):
    """Opens sessions with some agents on the store of the test; `options` as those of `open_sessions`."""

    def __call__(self, agents: Mapping[str, object], **options: Any) -> AbstractAsyncContextManager[Sessions]: ...


@pytest.fixture
def serve(mongodb: str | None, tmp_path: Path) -> Serve:
    @asynccontextmanager
    async def opened(agents: Mapping[str, object], **options: Any) -> AsyncIterator[Sessions]:
        async with AsyncExitStack() as stack:
            database = None
            if mongodb is not None:
                url = await stack.enter_async_context(fresh_database(mongodb))
                database = await MongoStore.open(url, timeout_s=20)
            yield await stack.enter_async_context(open_sessions(tmp_path, agents, database=database, **options))

    return opened
