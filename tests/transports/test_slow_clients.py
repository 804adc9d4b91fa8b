"""A client that doesn't read holds nobody up, and is let go."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.chat_client import PATIENCE_S, ChatClient, chat, check_exchange, final_text
from support.narrow_sockets import deaf_chat, deaf_post
from support.rest_client import PREFIX, messages_of, metric_at, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES
from websockets.exceptions import ConnectionClosed

# Longer than a client that does read may be kept from it by a busy machine.
SEND_TIMEOUT_S = 2
SETTINGS = {"limits": {"send_timeout_s": SEND_TIMEOUT_S}}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=ENTRIES, settings=SETTINGS) as server:
        yield server


async def until_closed(server: RunningServer) -> None:
    """Until the server has let go of every socket."""
    async with asyncio.timeout(PATIENCE_S):
        while await metric_at(server.internal, "chat_open_sockets"):
            await asyncio.sleep(0.05)


async def send_until_refused(client: ChatClient, frame: dict[str, Any]) -> None:
    """Send without end, until the server reads no more and has dropped the connection."""
    text = json.dumps(frame)
    async with asyncio.timeout(PATIENCE_S):
        try:
            while True:
                await client.socket.send(text)
        except ConnectionClosed:
            pass


async def test_a_client_that_sends_and_never_reads_is_let_go(server: RunningServer) -> None:
    async with deaf_chat(server.address) as client:
        assert await metric_at(server.internal, "chat_open_sockets") == 1
        await send_until_refused(client, {"type": "nonsense", "session_id": "s" * 128, "exchange_id": "e" * 128})
    await until_closed(server)


async def test_a_client_that_asks_and_never_reads_is_let_go_and_its_exchanges_end(server: RunningServer) -> None:
    names, text = [f"x{number}" for number in range(20)], "long " * 40_000
    async with deaf_chat(server.address) as client:
        for name in names:
            await client.send({"message": text, "agent_id": "echo", "client_exchange_id": name})
        await until_closed(server)
    async with chat(server.address) as client:
        for name in names:
            events = await client.ask(text, agent_id="echo", client_exchange_id=name)
            check_exchange(events)
            assert events[-1]["status"] == "ok"
            assert final_text(events) == f"echo: {text}"


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux ends such a connection by itself")
async def test_a_client_that_leaves_little_unread_is_let_go_too(server: RunningServer) -> None:
    # So little that it fits into buffers, and no send waits; its pongs would be missed after 40 seconds.
    async with deaf_chat(server.address) as client:
        await client.send({"message": "long " * 10_000, "agent_id": "echo"})
        await until_closed(server)


async def test_a_client_that_does_not_read_holds_no_other_up(server: RunningServer) -> None:
    async with deaf_chat(server.address) as deaf, chat(server.address) as other:
        sending = asyncio.create_task(send_until_refused(deaf, {"type": "ping", "wizard": "w" * 1000}))
        events = await other.ask("hello", agent_id="echo")
        assert final_text(events) == "echo: hello"
        await sending


async def test_who_stops_reading_for_a_moment_gets_everything_afterwards(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES) as server, deaf_chat(server.address) as client:
        await client.send({"message": "write 2000 words"})
        await asyncio.sleep(0.2)
        await client.until("final")
        check_exchange([event for event in client.events if "seq" in event])


async def test_more_answers_than_are_kept_unsent_all_arrive(server: RunningServer) -> None:
    async with chat(server.address) as client:
        for _ in range(1_000):
            await client.send({"type": "ping"})
        for _ in range(1_000):
            assert (await client.receive())["type"] == "pong"


async def test_who_asks_by_rest_and_never_reads_is_let_go_and_that_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    large = {"limits": {"send_timeout_s": SEND_TIMEOUT_S, "message_bytes": 8_000_000, "frame_bytes": 20_000_000}}
    body = json.dumps({"content": "long " * 1_000_000}).encode()
    async with (
        running_server(tmp_path, agents=ENTRIES, settings=large) as server,
        rest(server) as http,
    ):
        session_id = (await http.post("/sessions", json={"agent_id": "echo"})).json()["id"]
        async with deaf_post(server.address, f"{PREFIX}/sessions/{session_id}/messages", body) as reader:
            while "client too slow" not in [record.getMessage() for record in caplog.records]:
                await asyncio.sleep(0.05)
            async with asyncio.timeout(PATIENCE_S):
                while len(await messages_of(http, session_id)) < 2:
                    await asyncio.sleep(0.2)
            received = b""
            with suppress(ConnectionError):
                while data := await reader.read(65_536):
                    received += data
            assert b"event: started" in received and b"event: final" not in received
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
