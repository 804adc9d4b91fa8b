"""A real server with the agents that clients are tried with, and a client of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support import approval_agents, paced_agent, test_agents
from support.running_server import RunningServer, running_server

from agentic_backend.client import Chat, connect


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tools"
    monkeypatch.setenv(approval_agents.NOTES_VARIABLE, str(path))
    return path


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    agents = [*test_agents.ENTRIES, *approval_agents.ENTRIES, paced_agent.ENTRY]
    async with running_server(tmp_path, agents=agents) as server:
        yield server


@pytest.fixture
async def ann(server: RunningServer) -> AsyncIterator[Chat]:
    async with connect(server.address, token="dev:ann") as chat:
        yield chat
