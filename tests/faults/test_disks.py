"""A disk that is full or takes no writes: the server says why, refuses by name, loses nothing, and recovers by itself.

The full disk is a file system of its own (tmpfs), which only root may mount; a running server's file takes no writes
once it is immutable (`chattr`). Where that can't be had, the tests are skipped.
"""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.chat_client import PATIENCE_S, ChatClient, chat, check_exchange, final_text, text_of
from support.figures import figure
from support.process_agents import write_catalog
from support.rest_client import metric_at, plain_http
from support.server_process import ServerProcess, command, serving

_SIZE = "size=8m,mode=700"
COUNTED = 60
ASKS = 5


async def done(*arguments: object) -> str | None:
    """Run a program of the machine's; why it failed, or None."""

    def run() -> str | None:
        try:
            ended = subprocess.run([*map(str, arguments)], stderr=subprocess.PIPE, text=True, check=False)
        except OSError as error:
            return str(error)
        return ended.stderr if ended.returncode else None

    return await asyncio.to_thread(run)


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Path]:
    """An empty file system of eight megabytes."""
    path = tmp_path / "disk"
    path.mkdir()
    if problem := await done("mount", "-t", "tmpfs", "-o", _SIZE, "tmpfs", path):
        pytest.skip(f"no file system can be mounted here: {problem}")
    yield path
    assert await done("umount", path) is None


@asynccontextmanager
async def on(data: Path, directory: Path) -> AsyncIterator[tuple[ServerProcess, ChatClient, str]]:
    """A ready server with its data there, a client, and its session, in which a name was told."""
    write_catalog(directory)
    async with serving("--data", data, cwd=directory) as server, chat(server.address) as client:
        session_id = (await client.ask("my name is Zorblax"))[0]["session_id"]
        await becomes(server, (200, "ok"))
        assert await metric_at(server.internal, "chat_store_writable") == 1
        yield server, client, session_id
        assert await server.stop() == 0


async def becomes(server: ServerProcess, expected: tuple[int, str]) -> None:
    async with asyncio.timeout(PATIENCE_S), plain_http() as http:
        while True:
            response = await http.get(f"{server.internal}/health/ready")
            if (response.status_code, response.json()["status"]) == expected:
                return
            await asyncio.sleep(0.2)


def reasons(server: ServerProcess, message: str) -> list[str]:
    lines: list[dict[str, Any]] = [json.loads(line) for line in server.stderr.splitlines() if line.startswith("{")]
    return [line["reason"] for line in lines if line["message"] == message]


async def refuses(server: ServerProcess, client: ChatClient, session_id: str, reason: str) -> None:
    """Not ready, each ask is refused by name, the metric says it, and the log named the cause once."""
    await becomes(server, (503, "store_unavailable"))
    async with chat(server.address) as another:
        for _ in range(ASKS):
            [refusal] = await another.ask("hello", session_id=session_id)
            assert (refusal["code"], refusal["retryable"]) == ("store_unavailable", True)
    assert await metric_at(server.internal, "chat_store_writable") == 0
    async with plain_http() as http:
        live = await http.get(f"{server.internal}/health/live")
        history = await http.get(f"{server.address}/agentic/v1/sessions/{session_id}/messages")
    assert (live.status_code, history.status_code) == (200, 200), "it is alive, and what is stored can be read"
    assert reasons(server, "database takes no writes") == [reason]
    assert reasons(server, "SQLite failed").count(reason) <= 1


async def recovers(server: ServerProcess, client: ChatClient, session_id: str) -> None:
    """By itself, and nothing of an answer that began before is lost."""
    await becomes(server, (200, "ok"))
    final = await client.until("final", timeout_s=60)
    assert final["status"] == "ok"
    assert text_of(final["messages"][-1]) == ", ".join(map(str, range(COUNTED, -1, -1)))
    assert await metric_at(server.internal, "chat_store_writable") == 1
    assert len(reasons(server, "database takes writes again")) == 1
    events = await client.ask("what is my name?", session_id=session_id)
    check_exchange(events)
    assert final_text(events) == "Your name is Zorblax."
    told = f"{ASKS} of {ASKS} asks refused with `store_unavailable`, while what was stored could be read"
    figure(f"{told}; what was running ended `ok` and whole")


async def begin_counting(client: ChatClient) -> None:
    await client.send({"message": f"count down slowly from {COUNTED}"})
    await client.until("delta")


async def test_on_a_full_disk_it_is_not_ready_and_recovers_by_itself(disk: Path, tmp_path: Path) -> None:
    async with on(disk / "data", tmp_path) as (server, client, session_id):
        await begin_counting(client)
        ballast = disk / "ballast"
        await asyncio.to_thread(fill, ballast)
        await refuses(server, client, session_id, "SQLITE_FULL")
        await asyncio.to_thread(ballast.unlink)
        await recovers(server, client, session_id)


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as ballast, pytest.raises(OSError, match="No space left"):
        while True:
            ballast.write(bytes(512))


async def test_on_a_file_that_takes_no_writes_it_is_not_ready_and_recovers_by_itself(tmp_path: Path) -> None:
    log = tmp_path / "data" / "chat.sqlite3-wal"
    async with on(tmp_path / "data", tmp_path) as (server, client, session_id):
        await begin_counting(client)
        if problem := await done("chattr", "+i", log):
            pytest.skip(f"no file can be made immutable here: {problem}")
        try:
            await refuses(server, client, session_id, "SQLITE_IOERR_WRITE")
        finally:
            assert await done("chattr", "-i", log) is None
        await recovers(server, client, session_id)


async def test_on_a_read_only_disk_it_does_not_start_and_says_why(disk: Path, tmp_path: Path) -> None:
    async with on(disk / "data", tmp_path):
        pass
    assert await done("mount", "-o", "remount,ro", disk) is None
    async with command("serve", "--port", 0, "--data", disk / "data", cwd=tmp_path) as server:
        assert await server.ended() != 0
        assert "Read-only file system" in server.stderr and "Traceback" not in server.stderr
    figure("it ends, and names the read-only file system")
