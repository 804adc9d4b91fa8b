"""What the tests of this door may use: a server, and OpenAI's own client of it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from support import approval_agents, asking_agents, seeing_agent, test_agents
from support.chat_client import PATIENCE_S
from support.running_server import RunningServer, running_server

_NAMES = ("booking", "colour", "name", "size")
AGENTS: list[dict[str, Any]] = [
    *test_agents.ENTRIES,
    *approval_agents.ENTRIES,
    {"id": "saying", "class_path": "support.openai_agents:saying"},
    {"id": "paying", "class_path": "support.openai_agents:paying"},
    *({"id": name, "class_path": f"{asking_agents.__name__}:{name}"} for name in _NAMES),
    seeing_agent.ENTRY,
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


@asynccontextmanager
async def client_of(server: RunningServer, user: str, **options: Any) -> AsyncIterator[AsyncOpenAI]:
    options = {"api_key": f"dev:{user}", "max_retries": 0, "timeout": PATIENCE_S, **options}
    async with AsyncOpenAI(base_url=f"{server.address}/v1", **options) as client:
        yield client
