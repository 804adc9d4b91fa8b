"""Connections that are only opened, until file descriptors run out; and what clients make the server log."""

import asyncio
import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from hostile.sizes import sized
from support.attacker import UPGRADE
from support.chat_client import PATIENCE_S, chat
from support.figures import figure
from support.recorded_agents import eventually
from support.rest_client import metric_at, plain_http
from support.server_process import ServerProcess, serving

DESCRIPTORS = 256
REFUSED = sized(3_000, 30_000)


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


def descriptors(server: ServerProcess) -> int:
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


@contextmanager
def opened(address: str, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections, each of which sends `sent` once."""
    parts = urlsplit(address)
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S))
            with suppress(ConnectionError):
                connection.sendall(sent)
            connections.append(connection)
        yield connections


def lines(server: ServerProcess, message: str) -> list[dict[str, Any]]:
    """The lines of the log with this message."""
    told = [json.loads(line) for line in server.stderr.splitlines()]
    return [line for line in told if line["message"] == message]


async def test_when_descriptors_run_out_health_answers_and_the_log_says_so(directory: Path) -> None:
    async with serving(cwd=directory, preexec_fn=few_descriptors) as server:
        async with chat(server.address) as client:
            with opened(server.address, 2 * DESCRIPTORS, UPGRADE):
                dropped = await reaches(server, 'chat_connections_dropped_total{reason="descriptors"}', DESCRIPTORS)
                used = descriptors(server)
                async with plain_http() as http:
                    for path in ("/health/live", "/health/ready", "/metrics", "/log"):
                        assert (await http.get(f"{server.internal}{path}")).status_code == 200
                assert (await client.ask("words 3 0"))[-1]["status"] == "ok", "the store can still be opened"
        async with asyncio.timeout(PATIENCE_S), plain_http() as http:
            while not await served(http, server.address):
                await asyncio.sleep(0.1)
        assert await server.stop() == 0
    told = lines(server, "file descriptors run out, connections are dropped")
    figure(
        f"{2 * DESCRIPTORS} connections at {DESCRIPTORS} descriptors: {used} used at most, {dropped:.0f} "
        f"connections dropped, {len(told)} line in the log; health, metrics and an open socket answered"
    )
    # What the server itself has opened since, such as the scraper's connection and the store's, is in the reserve.
    assert used <= DESCRIPTORS * 3 // 4 + 8
    assert len(told) == 1


async def reaches(server: ServerProcess, name: str, at_least: int) -> float:
    """The value of a metric once it is so high."""
    async with asyncio.timeout(PATIENCE_S):
        while (value := await metric_at(server.internal, name)) < at_least:
            await asyncio.sleep(0.05)
    return value


async def served(http: httpx.AsyncClient, address: str) -> bool:
    try:
        return (await http.get(address)).status_code == 200
    except httpx.HTTPError:
        return False


async def test_connections_that_send_nothing_make_room_for_those_that_ask(directory: Path) -> None:
    few = {"AGENTIC_LIMITS__UNAUTHENTICATED_SOCKETS": "50"}
    async with serving(cwd=directory, environment=few) as server:
        before = descriptors(server)
        # Half of them begin a request and never end it.
        with opened(server.address, 100), opened(server.address, 100, b"GET / HTTP/1.1\r\nHost: "):
            dropped = await reaches(server, 'chat_connections_dropped_total{reason="silent"}', 149)
            # The scrapes' own connections close a moment later.
            await eventually(lambda: descriptors(server) - before <= 52)
            held = descriptors(server) - before
            async with plain_http() as http:
                for _ in range(20):
                    assert await served(http, server.address)
        assert await server.stop() == 0
    figure(
        f"of 200 connections that ask for nothing {held} were kept, {dropped:.0f} dropped; "
        "20 of 20 pages were served meanwhile"
    )


async def test_what_clients_are_refused_does_not_fill_the_log(directory: Path) -> None:
    async with serving(cwd=directory) as server:
        before = len(server.stderr)
        async with chat(server.address) as client:
            for _ in range(REFUSED):
                await client.socket.send("rubbish")
                await client.receive(60)
        async with plain_http() as http:
            for _ in range(REFUSED // 10):
                await http.get(f"{server.address}/agentic/v1/sessions/nobody")
                await http.get(server.address, headers={"Origin": "https://evil.example"})
        with opened(server.address, REFUSED // 10, b"rubbish\r\n\r\n"):
            pass
        for _ in range(REFUSED // 10):
            with suppress(Exception):
                async with chat(server.address, token="nonsense") as client:
                    await client.receive(60)
        assert await server.stop() == 0
    written = len(server.stderr) - before
    frames = lines(server, "frame refused")
    figure(f"{REFUSED} refused frames and {REFUSED // 10 * 4} refused requests: {written} bytes of log")
    assert sum(line["count"] for line in frames) == REFUSED
    assert len(frames) <= sized(3, 5)
    assert written < 200_000
