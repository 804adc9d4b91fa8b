"""The listeners of a server close however it is left."""

from pathlib import Path

import httpx
import pytest
from support.running_server import RunningServer, running_server


async def assert_answers(server: RunningServer) -> None:
    async with httpx.AsyncClient(base_url=server.address, timeout=5) as client:
        assert (await client.get("/agentic/v1/agents")).status_code == 200


async def test_a_server_left_by_an_exception_leaves_nothing_in_the_loop(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup):
        async with running_server(tmp_path) as server:
            await assert_answers(server)
            raise ValueError("left")
    # A listener that the loop still knew would keep the next one with its file descriptor from hearing of connections.
    async with running_server(tmp_path) as server:
        await assert_answers(server)
