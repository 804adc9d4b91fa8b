"""A running server with the agents of a test's module, or with the tests' graphs, and a client of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from graphs import catalog
from support.chat_client import ChatClient, chat
from support.running_server import RunningServer, running_server


@pytest.fixture
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningServer]:
    agents = getattr(request.module, "AGENTS", catalog.AGENTS)
    async with running_server(tmp_path, agents=agents) as server:
        yield server


@pytest.fixture
async def client(server: RunningServer) -> AsyncIterator[ChatClient]:
    async with chat(server.address) as client:
        yield client
