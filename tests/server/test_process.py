"""The listeners of a server close however it is left, and their connections delay nothing."""

import asyncio
import socket
from pathlib import Path

import pytest
from support.rest_client import plain_http
from support.running_server import RunningServer, running_server

from agentic_backend.server.process import bind


async def assert_answers(server: RunningServer) -> None:
    async with plain_http(base_url=server.address, timeout=5) as client:
        assert (await client.get("/agentic/v1/agents")).status_code == 200


async def test_a_server_left_by_an_exception_leaves_nothing_in_the_loop(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup):
        async with running_server(tmp_path) as server:
            await assert_answers(server)
            raise ValueError("left")
    # A listener that the loop still knew would keep the next one with its file descriptor from hearing of connections.
    async with running_server(tmp_path) as server:
        await assert_answers(server)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_short_answers_leave_at_once_in_any_event_loop(host: str) -> None:
    """asyncio sets TCP_NODELAY only on sockets that name their protocol; uvloop does on all."""
    delays: list[int] = []

    async def accepted(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        delays.append(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    bound = bind(host, 0)
    async with await asyncio.start_server(accepted, sock=bound):
        reader, writer = await asyncio.open_connection(*bound.getsockname()[:2])
        await reader.read()
        writer.close()
    assert delays and all(delays)
