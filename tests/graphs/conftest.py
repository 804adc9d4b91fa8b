"""A running server with the tests' graphs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from graphs.catalog import AGENTS
from support.running_server import RunningServer, running_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=AGENTS) as server:
        yield server
