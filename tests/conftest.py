"""What every test may use: a running server with the test agents, and a guard against blocking calls."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=ENTRIES) as server:
        yield server
