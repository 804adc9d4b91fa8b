"""What the tests of chat runs may use: a server whose agent does what its message says."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.run_client import run_client
from support.running_server import RunningServer, running_server

AGENTS: list[dict[str, Any]] = [
    {"id": "scripted", "class_path": "support.fault_agents:Scripted"},
    {"id": "approved", "class_path": "support.fault_agents:Scripted", "require_approval": ["send", "note"]},
    {"id": "raising", "class_path": "support.test_agents:raising_graph"},
    {"id": "echo", "class_path": "support.test_agents:echo_graph"},
    {"id": "asking", "class_path": "support.test_agents:asking_graph"},
]


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningServer]:
    # For the notes of the tools.
    monkeypatch.chdir(tmp_path)
    async with running_server(tmp_path, agents=AGENTS) as server:
        yield server


@pytest.fixture
async def ann(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with run_client(server.address, "dev:ann") as client:
        yield client


@pytest.fixture
async def bob(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with run_client(server.address, "dev:bob") as client:
        yield client
