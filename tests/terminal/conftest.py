"""A real server for the terminal client, with agents that ask a person and one whose pace the test sets."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support import approval_agents, asking_agents, paced_agent
from support.running_server import RunningServer, running_server


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tools"
    monkeypatch.setenv(approval_agents.NOTES_VARIABLE, str(path))
    return path


@pytest.fixture
async def server(notes: Path, tmp_path: Path) -> AsyncIterator[RunningServer]:
    agents = [*approval_agents.ENTRIES, *asking_agents.ENTRIES, paced_agent.ENTRY]
    async with running_server(tmp_path, agents=agents) as server:
        yield server
