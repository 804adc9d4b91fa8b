"""A disk that is full, or a store that takes nothing: readiness says so, and what is refused is counted."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from support.chat_client import chat, check_exchange
from support.figures import figure
from support.rest_client import plain_http
from support.server_process import ServerProcess, serving
from support.tcp_line import tcp_line

SOON_S = 45


@pytest.fixture
def small_disk(directory: Path) -> Iterator[Path]:
    """A file system of a few megabytes in the place of the server's data."""
    data = directory / "data"
    data.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", data], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.decode().strip()}")
    yield data
    subprocess.run(["umount", "--lazy", data], check=True)


@contextlib.contextmanager
def full(disk: Path) -> Iterator[None]:
    filler = disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        yield
    finally:
        filler.unlink()


async def ready(server: ServerProcess) -> tuple[int, str]:
    async with plain_http() as http:
        response = await http.get(f"{server.internal}/health/ready", timeout=15)
    return response.status_code, response.json()["status"]


async def becomes(server: ServerProcess, expected: tuple[int, str]) -> float:
    """How long it takes until readiness says so."""
    began = time.monotonic()
    async with asyncio.timeout(SOON_S):
        while await ready(server) != expected:
            await asyncio.sleep(0.1)
    return time.monotonic() - began


async def refused(server: ServerProcess, call: str, code: str) -> float:
    async with plain_http() as http:
        exposition = (await http.get(f"{server.internal}/metrics")).text
    start = f'chat_refused_total{{call="{call}",code="{code}",'
    return sum(float(line.rpartition(" ")[2]) for line in exposition.splitlines() if line.startswith(start))


async def test_a_full_disk_is_not_ready_and_its_refusals_are_counted(directory: Path, small_disk: Path) -> None:
    """Over both doors; once there is room again, the server is ready by itself."""
    async with serving(cwd=directory) as server, chat(server.address) as client, rest_of(server) as http:
        check_exchange(await client.ask("words 3 0"))
        assert await ready(server) == (200, "ok")
        session_id = client.events[0]["session_id"]
        filling = full(small_disk)
        await asyncio.to_thread(filling.__enter__)
        told_s = await becomes(server, (503, "store_unavailable"))
        for _ in range(3):
            [refusal] = await client.ask("words 3 0 " + 60_000 * "x")
            assert refusal["code"] == "store_unavailable"
        body = {"content": "words 3 0 " + 60_000 * "x"}
        assert (await http.post(f"/sessions/{session_id}/messages", json=body)).status_code == 503
        assert (await http.post("/exchanges/none/resume", json={})).status_code == 404
        await client.send({"type": "human_resume", "exchange_id": "none", "payload": {"decisions": []}})
        await client.ended()
        await client.send("rubbish")
        await client.ended()
        counted = {
            "ask": await refused(server, "ask", "store_unavailable"),
            "resume": await refused(server, "resume", "exchange_not_found"),
            "decision": sum([await refused(server, "decision", code) for code in ("exchange_not_found", "bad_frame")]),
            "rubbish": await refused(server, "ask", "bad_frame"),
        }
        assert counted == {"ask": 4, "resume": 1, "decision": 1, "rubbish": 1}
        assert (await http.get(f"{server.internal}/health/live")).status_code == 200
        await asyncio.to_thread(filling.__exit__, None, None, None)
        back_s = await becomes(server, (200, "ok"))
        check_exchange(await client.ask("words 3 0"))
        assert await server.stop() == 0
    figure(f"full disk: not ready after {told_s:.1f} s, ready again {back_s:.1f} s after there was room")


def rest_of(server: ServerProcess) -> httpx.AsyncClient:
    return plain_http(base_url=f"{server.address}/agentic/v1", timeout=SOON_S)


@pytest.mark.mongodb
async def test_a_database_that_swallows_everything_is_not_ready(directory: Path, mongodb_url: str) -> None:
    """Who asks is answered soon all the same, though nothing that is sent there is answered."""
    database = urlsplit(mongodb_url)
    async with tcp_line() as line:
        line.target = database.port or 0
        through = mongodb_url.replace(database.netloc, f"127.0.0.1:{line.port}", 1)
        async with serving("--store", through, cwd=directory) as server:
            assert await ready(server) == (200, "ok")
            # Nobody takes what comes there.
            with socket.create_server(("127.0.0.1", 0)) as silent:
                line.target = silent.getsockname()[1]
                line.swallow()
                took_s = await becomes(server, (503, "store_unavailable"))
                began = time.monotonic()
                assert await ready(server) == (503, "store_unavailable")
                answered_s = time.monotonic() - began
            async with plain_http() as http:
                assert (await http.get(f"{server.internal}/health/live")).status_code == 200
            await server.stop(signal.SIGKILL)
    figure(f"a black-holed database: 503 after {took_s:.1f} s, and each probe answered within {answered_s:.1f} s")


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root makes a file immutable")
async def test_a_file_that_can_only_be_read_is_not_ready(directory: Path) -> None:
    async with serving(cwd=directory) as server:
        await server.stop()
    file = directory / "data" / "chat.sqlite3"
    if (await asyncio.to_thread(subprocess.run, ["chattr", "+i", file], capture_output=True)).returncode != 0:
        pytest.skip("this file system has no immutable files")
    try:
        async with serving(cwd=directory) as server:
            assert await ready(server) == (503, "store_unavailable")
            async with chat(server.address) as client:
                [refusal] = await client.ask("words 3 0")
            assert refusal["code"] == "store_unavailable"
            assert await server.stop() == 0
    finally:
        await asyncio.to_thread(subprocess.run, ["chattr", "-i", file], check=True)
    figure("a file that can only be read: 503 from the start")
