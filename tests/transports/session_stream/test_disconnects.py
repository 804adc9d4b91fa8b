"""Whenever its client goes, an exchange stops and keeps its text, unless the message says that it goes on."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from support import wire_agents
from support.chat_client import PATIENCE_S, TOKEN_S, Event
from support.rest_client import metric_at, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES
from support.tool_sessions import answer_in, check_stream, history, opened, sending, sent, tool_client

from agentic_backend.experts.plain_chat.graph import build
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.transports import credentials

HANG = "hang after 20 tokens"
SILENT_TOOL = "use the tool silent with {}"


class EndlessModel(OfflineChatModel):
    """Writes until it is stopped."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        while True:
            yield ChatGenerationChunk(message=AIMessageChunk("word " * 2_000))
            await asyncio.sleep(0.01)


endless = build(EndlessModel())
AGENTS = [*ENTRIES, *wire_agents.ENTRIES, {"id": "endless", "class_path": f"{__name__}:endless"}]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=AGENTS) as server:
        yield server


def request_of(session_id: str, content: str, **fields: Any) -> bytes:
    body = json.dumps({"content": content, **fields}).encode()
    head = (
        f"POST /sessions/{session_id}/messages HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@asynccontextmanager
async def connected(
    server: RunningServer, sock: socket.socket | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A plain connection, which is cut at the end without a word."""
    parts = urlsplit(server.address)
    address = {"sock": sock} if sock is not None else {"host": parts.hostname, "port": parts.port}
    reader, writer = await asyncio.open_connection(**address)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def idle(server: RunningServer, session_id: str) -> None:
    """Wait until nothing runs in the session."""
    async with rest(server) as http, asyncio.timeout(PATIENCE_S):
        while "active_exchange_id" in (await http.get(f"/sessions/{session_id}")).json():
            await asyncio.sleep(0.02)


async def status_in(server: RunningServer, http: httpx.AsyncClient, session_id: str) -> str:
    """How the last exchange of the session has ended."""
    await idle(server, session_id)
    exchange_id = (await history(http, session_id))[-1]["exchangeId"]
    async with rest(server) as other:
        return str((await other.get(f"/exchanges/{exchange_id}")).json()["status"])


@pytest.mark.parametrize(
    ("tool_id", "content", "moment"),
    [
        ("assistant", "hang forever", b"text/event-stream"),
        ("assistant", HANG, b"chunk"),
        ("silent-tool", SILENT_TOOL, b"tool_call"),
        ("endless", "hello", b"chunk"),
    ],
    ids=["before the first event", "in the middle of a text", "while a tool runs", "while text comes without end"],
)
async def test_a_cut_stops_the_exchange(server: RunningServer, tool_id: str, content: str, moment: bytes) -> None:
    async with tool_client(server) as http:
        session_id = await opened(http, tool_id)
        async with connected(server) as (reader, writer), asyncio.timeout(PATIENCE_S):
            writer.write(request_of(session_id, content))
            await reader.readuntil(moment)
        assert await status_in(server, http, session_id) == "stopped"
        # The session takes the next message.
        async with sending(http, session_id, "hello") as events:
            await anext(events)


async def test_a_client_that_is_gone_before_its_answer_begins_leaves_nothing_running(server: RunningServer) -> None:
    async with tool_client(server) as http:
        session_ids = [await opened(http) for _ in range(10)]
        for pause_ms, session_id in enumerate(session_ids):
            async with connected(server) as (_, writer):
                writer.write(request_of(session_id, HANG))
                await asyncio.sleep(pause_ms / 1_000)
        # The last ones may still be on their way.
        await sent(http, await opened(http, "echo"), "hello")
        for session_id in session_ids:
            if await history(http, session_id):
                assert await status_in(server, http, session_id) == "stopped"
        await until(lambda: nothing_runs(server))


async def nothing_runs(server: RunningServer) -> bool:
    return await metric_at(server.internal, "chat_running_exchanges") == 0


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            await asyncio.sleep(0.02)


async def test_what_was_written_until_the_cut_is_kept(server: RunningServer) -> None:
    async with tool_client(server) as http:
        session_id = await opened(http)
        shown: list[Event] = []
        async with sending(http, session_id, HANG) as events:
            while len(answer_in(shown).split()) < 20:
                shown.append(await anext(events))
        await idle(server, session_id)
        answer = (await history(http, session_id))[-1]
        assert (answer["role"], answer["finishReason"]) == ("assistant", "cancelled")
        assert answer["content"] == answer_in(shown)


async def test_a_call_that_was_cut_off_has_a_failed_result(server: RunningServer) -> None:
    async with tool_client(server) as http:
        session_id = await opened(http, "silent-tool")
        async with sending(http, session_id, SILENT_TOOL) as events:
            while (await anext(events))["type"] != "tool_call":
                pass
        await idle(server, session_id)
        [result] = [one["toolResult"] for one in await history(http, session_id) if "toolResult" in one]
        assert result["ok"] is False and "Stopped" in result["result"]


@pytest.mark.parametrize("moment", ["at once", "after the first chunk"])
async def test_an_exchange_that_is_to_go_on_does(tmp_path: Path, moment: str) -> None:
    slow = {"models": {"default": {"model": "offline", "options": {"words_per_second": 100}}}}
    async with running_server(tmp_path, settings=slow) as server, tool_client(server) as http:
        session_id = await opened(http)
        async with sending(http, session_id, "write 60 words", onDisconnect="continue") as events:
            if moment != "at once":
                await anext(events)
        assert await status_in(server, http, session_id) == "ok"
        assert len((await history(http, session_id))[-1]["content"].split()) == 60


async def test_a_client_that_does_not_read_counts_as_gone(tmp_path: Path) -> None:
    limits = {"limits": {"send_timeout_s": 1}}
    async with running_server(tmp_path, agents=AGENTS, settings=limits) as server, tool_client(server) as http:
        session_id = await opened(http, "endless")
        parts = urlsplit(server.address)
        with socket.socket() as narrow:
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            narrow.setblocking(False)
            await asyncio.get_running_loop().sock_connect(narrow, (parts.hostname, parts.port))
            narrow.send(request_of(session_id, "hello"))
            await until(lambda: has_messages(http, session_id))
            assert await status_in(server, http, session_id) == "stopped"


async def has_messages(http: httpx.AsyncClient, session_id: str) -> bool:
    return bool(await history(http, session_id, limit=1))


@pytest.mark.parametrize(("on_disconnect", "status"), [("cancel", "stopped"), ("continue", "ok")])
async def test_a_stream_ends_with_its_token_and_says_so(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, on_disconnect: str, status: str
) -> None:
    monkeypatch.setattr(credentials, "EXPIRY_LEEWAY_S", 0)
    token = f"dev:alice:{int(time.time()) + TOKEN_S}"
    async with tool_client(server, token) as http:
        session_id = await opened(http)
        events = await sent(http, session_id, f"wait {TOKEN_S + 1} seconds", onDisconnect=on_disconnect)
        error = events[-1]
        assert (error["type"], error["category"], error["code"]) == ("error", "authorization", "token_expired")
        assert error["retryable"] is True and error["exchangeId"]
    async with rest(server, "dev:alice") as other, asyncio.timeout(PATIENCE_S):
        while (ended := (await other.get(f"/exchanges/{error['exchangeId']}")).json()["status"]) == "running":
            await asyncio.sleep(0.05)
    assert ended == status


@pytest.mark.parametrize("on_disconnect", ["cancel", "continue"])
async def test_a_cancel_from_elsewhere_ends_the_stream_as_cancelled(server: RunningServer, on_disconnect: str) -> None:
    async with tool_client(server) as http, tool_client(server) as other:
        session_id = await opened(http)
        async with sending(http, session_id, HANG, onDisconnect=on_disconnect) as stream:
            events = [await anext(stream)]
            assert (await other.post(f"/sessions/{session_id}/cancel")).json() == {"cancelled": True}
            events += [event async for event in stream]
        check_stream(events)
        meta = events[-1]["meta"]
        assert (events[-1]["type"], meta["cancelled"], meta["finishReason"]) == ("done", True, "cancelled")
        assert (await history(http, session_id))[-1]["content"] == answer_in(events)


async def test_a_complete_from_elsewhere_ends_the_stream_too(server: RunningServer) -> None:
    async with tool_client(server) as http, tool_client(server) as other:
        session_id = await opened(http)
        async with sending(http, session_id, HANG) as stream:
            events = [await anext(stream)]
            assert (await other.post(f"/sessions/{session_id}/complete")).json()["state"] == "completed"
            events += [event async for event in stream]
        assert events[-1]["meta"]["cancelled"] is True


async def test_a_server_that_goes_ends_the_stream_with_an_error_and_keeps_the_text(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server:
        async with tool_client(server) as http:
            session_id = await opened(http)
        written = asyncio.Event()
        reading = asyncio.create_task(read(server, session_id, written))
        await written.wait()
    events = await reading
    check_stream(events)
    error = events[-1]
    assert (error["type"], error["category"], error["code"]) == ("error", "internal", "interrupted")
    assert error["retryable"] is True
    async with running_server(tmp_path, agents=AGENTS) as server, tool_client(server) as http:
        messages = await history(http, session_id)
        [kept] = [one for one in messages if (one["role"], one["channel"]) == ("assistant", "final")]
        assert kept["content"] == answer_in(events)


async def read(server: RunningServer, session_id: str, written: asyncio.Event) -> list[Event]:
    """All events of a stream; `written` is set once the model has written its words."""
    events: list[Event] = []
    async with tool_client(server) as http, sending(http, session_id, HANG) as stream:
        async for event in stream:
            events.append(event)
            if len(answer_in(events).split()) >= 20:
                written.set()
    return events
