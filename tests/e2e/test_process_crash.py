"""The server as a process: what is left when it is killed, and when its disk is full."""

import asyncio
import contextlib
import random
import resource
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.chat_client import PATIENCE_S, ChatClient, Event, chat, check_calls, check_exchange, final_text, text_of
from support.process_agents import write_catalog
from support.recorded_agents import eventually
from support.rest_client import plain_http, rest, sse_events
from support.server_process import ServerProcess, serving
from websockets.exceptions import ConnectionClosed, InvalidHandshake

# Long enough for the disk to be full before any of them has ended, however slow the machine is.
COUNTED = 40

Left = dict[str, Event]
"""For each exchange that ran, by its name, the last of its events that the client has seen."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_catalog(tmp_path)
    return tmp_path


async def kill(server: ServerProcess) -> None:
    assert await server.stop(signal.SIGKILL) == -signal.SIGKILL


async def get(server: ServerProcess, path: str) -> dict[str, Any]:
    async with plain_http() as http:
        response = await http.get(f"{server.address}/agentic/v1{path}")
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def begin(client: ChatClient, message: str, until: str, **fields: str) -> Event:
    """Ask, and wait for the event of this type; for `tool_call`, until such a message is there."""
    await client.send({"message": message, **fields})
    while True:
        event = await client.receive()
        if until in (event["type"], event.get("message", {}).get("channel")):
            return event


async def test_a_killed_server_leaves_sessions_that_go_on(directory: Path) -> None:
    left: Left = {}
    async with serving(cwd=directory) as server, chat(server.address) as client:
        before = await client.ask("my name is Zorblax")
        known = before[0]["session_id"]
        left["stream"] = await begin(client, "count down slowly from 100", "delta", session_id=known)
        left["tool"] = await begin(client, "wait 50 seconds", "tool_call", client_exchange_id="mine")
        person = await begin(client, "hello", "awaiting_human", agent_id="asking")
        await kill(server)
    async with serving(cwd=directory) as server, chat(server.address) as client:
        for name, seen in left.items():
            await interrupted(server, client, name, seen)
        await goes_on(client, left)
        await waits_on(server, client, person)
        await client.send({"message": "wait 50 seconds", "client_exchange_id": "mine"})
        final = await client.until("final")
        assert (final["exchange_id"], final["status"]) == (left["tool"]["exchange_id"], "interrupted")
        assert final_text(await client.ask("what is my name?", session_id=known)) == "Your name is Zorblax."
        assert await server.stop() == 0
        assert "Traceback" not in server.stderr
    check_database(directory / "data" / "chat.sqlite3")


async def waits_on(server: ServerProcess, client: ChatClient, seen: Event) -> None:
    """What had asked a person still does, and goes on with the answer."""
    exchange = await get(server, f"/exchanges/{seen['exchange_id']}")
    assert (exchange["status"], exchange["pending"]) == ("awaiting_human", seen["payload"])
    names = {"session_id": seen["session_id"], "exchange_id": seen["exchange_id"]}
    [request] = seen["payload"]["requests"]
    payload = {"answers": {request["interrupt_id"]: "left"}}
    await client.send({"type": "human_resume", **names, "payload": payload})
    final = await client.until("final", exchange_id=seen["exchange_id"])
    assert final["status"] == "ok" and final["seq"] > seen["seq"]


async def interrupted(server: ServerProcess, client: ChatClient, name: str, seen: Event) -> None:
    """The exchange has ended as interrupted, for whoever asks for it and for whoever follows it."""
    exchange = await get(server, f"/exchanges/{seen['exchange_id']}")
    assert (exchange["status"], exchange["error"]["code"]) == ("interrupted", "interrupted")
    assert "pending" not in exchange
    await client.send({"type": "follow", "exchange_id": seen["exchange_id"], "after_seq": seen["seq"]})
    final = await client.receive()
    assert (final["type"], final["status"]) == ("final", "interrupted")
    assert final["seq"] > seen["seq"]
    check_calls(final["messages"])
    assert final["messages"][-1]["channel"] == "error"
    stored = await get(server, f"/sessions/{seen['session_id']}/messages")
    assert stored["messages"][-len(final["messages"]) :] == final["messages"]
    if name == "tool":
        assert [m["channel"] for m in final["messages"][1:]] == ["tool_call", "tool_result", "error"]
        assert not final["messages"][2]["parts"][0]["ok"]


async def goes_on(client: ChatClient, left: Left) -> None:
    """Each session's next exchange is answered, by an agent that refuses a call without its result."""
    for seen in left.values():
        events = await client.ask("and now?", session_id=seen["session_id"], agent_id="counting")
        check_exchange(events)
        assert final_text(events).endswith("|and now?")


async def test_a_server_that_is_killed_again_and_again_loses_nothing_that_was_shown(directory: Path) -> None:
    """Many sessions at work, killed at any moment."""
    shown: dict[str, list[Event]] = {}
    moments = random.Random(7)
    for _ in range(2):
        async with serving(cwd=directory) as server:
            chatting = [asyncio.create_task(chat_on(server.address, number, shown)) for number in range(6)]
            enough = sum(map(len, shown.values())) + moments.randrange(15, 40)
            await eventually(lambda enough=enough: sum(map(len, shown.values())) >= enough)
            await kill(server)
            await asyncio.gather(*chatting)
        check_database(directory / "data" / "chat.sqlite3", recovered=False)
    async with serving(cwd=directory) as server:
        for session_id, messages in shown.items():
            stored = (await get(server, f"/sessions/{session_id}/messages?limit=1000"))["messages"]
            by_rank = {message["rank"]: message for message in stored}
            assert all(by_rank[message["rank"]] == message for message in messages)
            check_calls(stored)
        assert await server.stop() == 0
    check_database(directory / "data" / "chat.sqlite3")


async def chat_on(address: str, number: int, shown: dict[str, list[Event]]) -> None:
    """Chat until the server is gone, and note every message that is shown as stored."""
    questions = ["what is 12*34?", "my name is Zorblax", "wait 0.1 seconds", "write 30 words"]
    with contextlib.suppress(ConnectionClosed, InvalidHandshake, OSError, asyncio.IncompleteReadError):
        async with chat(address) as client:
            session_id = None
            for turn in range(1000):
                ask = {"message": questions[(number + turn) % len(questions)], "session_id": session_id}
                await client.send({key: value for key, value in ask.items() if value})
                while (event := await client.receive())["type"] != "final":
                    session_id = event.get("session_id", session_id)
                    if event["type"] == "stream":
                        shown.setdefault(event["session_id"], []).append(event["message"])


def check_database(path: Path, *, recovered: bool = True) -> None:
    """The file is whole, ranks have no gap, and every ended exchange is ended in its session too."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        gaps = """SELECT id FROM sessions WHERE next_rank != message_count
            OR next_rank != (SELECT count(*) FROM messages WHERE session_id = sessions.id)
            OR next_rank != 1 + (SELECT max(rank) FROM messages WHERE session_id = sessions.id)"""
        assert db.execute(gaps).fetchall() == []
        astray = """SELECT exchanges.id FROM exchanges JOIN sessions ON sessions.id = exchanges.session_id
            WHERE (status IN ('running', 'awaiting_human')) != (active_exchange_id IS exchanges.id)"""
        assert db.execute(astray).fetchall() == []
        if recovered:
            assert db.execute("SELECT id FROM sessions WHERE active_exchange_id IS NOT NULL").fetchall() == []


async def test_an_agent_that_calls_exit_ends_its_own_exchange_only(directory: Path) -> None:
    async with serving(cwd=directory) as server, chat(server.address) as client, chat(server.address) as other:
        await other.send({"message": "count down slowly from 8"})
        await other.until("delta")
        for tool in ("leave", "leave_at_once"):
            events = await client.ask(f"call {tool}()", agent_id="leaving")
            check_exchange(events)
            assert (events[-1]["status"], events[-1]["error"]["code"]) == ("error", "internal")
            events = await client.ask("and now?", session_id=events[0]["session_id"], agent_id="counting")
            assert final_text(events) == f"call {tool}()|and now?"
        assert (await other.until("final"))["status"] == "ok"
        assert await server.stop() == 0
        assert "Traceback" not in server.stderr


@contextlib.contextmanager
def full_disk(server: ServerProcess, path: Path) -> Iterator[None]:
    """Files of the server can't grow beyond what they are now."""
    _, most = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    size = max(file.stat().st_size for file in path.iterdir())
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, most))
    yield
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (most, most))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a running process is changed with prlimit")
async def test_a_full_disk_loses_no_text(directory: Path) -> None:
    """Nor is an end shown before it is stored, whichever way it is followed."""
    async with AsyncExitStack() as opened:
        server = await opened.enter_async_context(serving(cwd=directory))
        client = await opened.enter_async_context(chat(server.address))
        older = await opened.enter_async_context(chat(server.address, subprotocols=None))
        http = await opened.enter_async_context(rest(server))
        await client.ask("hello")
        asked = {"message": f"count down slowly from {COUNTED}"}
        await client.send(asked)
        await older.send(asked)
        for socket in (client, older):
            await socket.until("delta", "stream")
        session_id = (await http.post("/sessions", json={})).json()["id"]
        sse = asyncio.create_task(final_by_sse(http, session_id, asked["message"]))
        await eventually_writes(http, session_id)
        finals = [asyncio.create_task(socket.until("final", timeout_s=60)) for socket in (client, older)]
        finals.append(sse)
        with full_disk(server, directory / "data"):
            await eventually(lambda: len(said(client).split()) == COUNTED + 1)
            # The others are as far, and an end that is shown too early comes now.
            await asyncio.sleep(3)
            assert not any(final.done() for final in finals), "no end is shown that is not stored"
            async with chat(server.address) as another:
                [refusal] = await another.ask("one more")
            assert (refusal["code"], refusal["retryable"]) == ("store_unavailable", True)
            assert len((await get(server, "/sessions"))["sessions"]) == 4
        for final in await asyncio.gather(*finals):
            assert final["status"] == "ok"
            stored = await get(server, f"/sessions/{final['session_id']}/messages")
            assert final["messages"] == stored["messages"]
            assert text_of(stored["messages"][1]) == ", ".join(map(str, range(COUNTED, -1, -1)))
        events = await client.ask("and now?", session_id=session_id, agent_id="counting")
        check_exchange(events)
        assert final_text(events) == f"{asked['message']}|and now?"
        check_exchange(await client.ask("a new session"))
        assert await server.stop() == 0
        assert "Traceback" not in server.stderr
    check_database(directory / "data" / "chat.sqlite3")


def said(client: ChatClient) -> str:
    """What the client was shown of an answer that is being counted."""
    deltas = [event for event in client.events if event["type"] == "delta"]
    return "".join(event["text"] for event in deltas if event["exchange_id"] == deltas[-1]["exchange_id"])


async def final_by_sse(http: httpx.AsyncClient, session_id: str, message: str) -> Event:
    async with http.stream("POST", f"/sessions/{session_id}/messages", json={"content": message}) as response:
        async for event in sse_events(response):
            if event["type"] == "final":
                return event
    raise AssertionError("the stream ended without a final")


async def eventually_writes(http: httpx.AsyncClient, session_id: str) -> None:
    """Until an exchange runs in the session."""
    async with asyncio.timeout(PATIENCE_S):
        while "active_exchange_id" not in (await http.get(f"/sessions/{session_id}")).json():
            await asyncio.sleep(0.02)


async def test_a_killed_server_has_kept_the_usage_of_every_call_that_had_ended(directory: Path) -> None:
    async with serving(cwd=directory) as server, chat(server.address) as client:
        seen = await begin(client, "wait 50 seconds", "tool_call")
        await kill(server)
    async with serving(cwd=directory) as server, chat(server.address) as client:
        kept = await answers_used(server, seen)
        assert kept["calls"] == 1 and kept["output_tokens"] > 0
        ended = await get(server, f"/exchanges/{seen['exchange_id']}")
        assert (ended["status"], ended["kpi"]["model_calls"], ended["kpi"]["failed_tools"]) == ("interrupted", 1, 1)
        assert ended["kpi"]["instance"] and ended["kpi"]["output_tokens"] == kept["output_tokens"]
        assert (await client.ask("hello", session_id=seen["session_id"]))[-1]["status"] == "ok"
        assert await answers_used(server, seen) == kept


async def answers_used(server: ServerProcess, exchange: Event) -> dict[str, Any]:
    """The sum of the model calls for an exchange's answer; its session's title is another call."""
    used = await get(server, f"/usage?exchange_id={exchange['exchange_id']}&by=purpose")
    [answers] = [each for each in used["sums"] if each["keys"]["purpose"] == "answer"]
    return dict(answers)
