"""Requests that hide others: directly, and through an nginx that keeps its connection to the server for all clients.

Each is followed by a request of another user, which has to be answered as if it were alone.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hostile.sizes import LONG
from services.nginx import Nginx
from support.chat_client import PATIENCE_S
from support.figures import figure
from support.odd_requests import SMUGGLED, Odd, odd_requests
from support.raw_http import answers_in, received_for
from support.rest_client import rest
from support.running_server import RunningServer
from support.tcp_line import TcpLine, line_to

ODD = list(odd_requests(every=LONG))
LIST = "/agentic/v1/sessions"


@pytest.fixture
async def of_bob(server: RunningServer) -> list[Any]:
    """Bob's sessions: one."""
    async with rest(server, "dev:bob") as bob:
        await bob.post("/sessions", json={"title": "Bob's own"})
        sessions: list[Any] = (await bob.get("/sessions")).json()["sessions"]
        return sessions


def next_request(request_id: str) -> bytes:
    """Bob asks for his sessions, and then goes."""
    fields = ("Host: localhost", "Authorization: Bearer dev:bob", f"X-Request-Id: {request_id}", "Connection: close")
    return "\r\n".join([f"GET {LIST} HTTP/1.1", *fields, "", ""]).encode()


async def check_nothing_was_smuggled(server: RunningServer, of_bob: list[Any]) -> None:
    for token in ("dev:mallory", "dev:bob", None):
        async with rest(server, token) as user:
            listed = (await user.get("/sessions")).json()["sessions"]
            assert SMUGGLED not in [session["title"] for session in listed]
            assert token != "dev:bob" or listed == of_bob


async def test_no_byte_of_a_request_is_read_as_another_one(server: RunningServer, of_bob: list[Any]) -> None:
    refused = 0
    for number, odd in enumerate(ODD):
        behind = next_request(f"behind-{number}")
        # In one segment, and in two.
        for pieces in ((odd.sent + behind,), (odd.sent, behind)):
            answers = answers_in(await received_for(server.address, *pieces), [odd.method])
            if len(answers) == 1:
                refused += 1
                assert "close" in (answers[0].headers.get_all("connection") or ()), odd.name
                continue
            [_, alone] = answers
            assert (alone.status, alone.headers["x-request-id"]) == (200, f"behind-{number}"), odd.name
    await check_nothing_was_smuggled(server, of_bob)
    figure(
        f"directly: {2 * len(ODD)} connections, {refused} closed with the answer; no hidden request was answered, "
        "and each next one as if alone"
    )


@pytest.fixture
async def line(server: RunningServer) -> AsyncIterator[TcpLine]:
    async with line_to(server.address) as line:
        yield line


@pytest.fixture(params=[False, True], ids=["as documented", "hands on upgrades"])
def nginx(request: pytest.FixtureRequest, line: TcpLine, tmp_path: Path) -> Iterator[Nginx]:
    nginx = Nginx(tmp_path, line.address, hands_on_upgrades=request.param)
    nginx.start()
    yield nginx
    nginx.stop()


@pytest.mark.nginx
async def test_behind_a_proxy_nobody_gets_another_ones_answer(
    server: RunningServer, of_bob: list[Any], line: TcpLine, nginx: Nginx
) -> None:
    told = Counter[int]()
    for number, odd in enumerate(ODD):
        told[await status_of(nginx.address, odd)] += 1
        received = await received_for(nginx.address, next_request(f"behind-{number}"))
        [alone] = answers_in(received)
        assert (alone.status, alone.headers["x-request-id"]) == (200, f"behind-{number}"), odd.name
        assert httpx.Response(200, content=alone.body).json()["sessions"] == of_bob, odd.name
    async with rest(server, "dev:bob") as bob:
        assert (await bob.get("/sessions")).json()["sessions"] == of_bob
    figure(
        f"through nginx: {len(ODD)} requests over {line.accepted} connections to the server; each next user was "
        "answered as if alone"
    )
    # The next user had the connection of the odd request, unless the server has closed it.
    assert line.accepted < len(ODD)
    assert told[0] == 0, "each is answered"


async def status_of(address: str, odd: Odd) -> int:
    """What the odd request is answered with, over a connection that stays open until then; 0 if it is not."""
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(odd.sent)
        async with asyncio.timeout(PATIENCE_S):
            line = (await reader.readline()).split()
        return int(line[1]) if len(line) > 1 and line[1].isdigit() else 0
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
