"""What the server keeps for itself is on no wire; and what names a credential is not kept at all."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.chat_client import chat, is_refusal
from support.rest_client import messages_of, rest, sse_events
from support.running_server import RunningServer, running_server
from support.shipped_agents import BESIDE_THE_ASSISTANT
from support.test_agents import ENTRIES

SHOWN_OF_A_SESSION = {
    "id",
    "user_id",
    "agent_id",
    "title",
    "state",
    "parent",
    "root_id",
    "pinned",
    "archived",
    "created_at",
    "updated_at",
    "ended_at",
    "next_rank",
    "message_count",
    "chat_profile",
    "active_exchange_id",
}
SHOWN_OF_A_MESSAGE = {
    "session_id",
    "exchange_id",
    "rank",
    "timestamp",
    "role",
    "channel",
    "parts",
    "metadata",
}
SHOWN_EXTRAS = {"agent", "resumes", "code", "request_id", "streaming_delta"}
CANARY = "canary-5f2d8c"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=[*BESIDE_THE_ASSISTANT, *ENTRIES]) as server:
        yield server


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from objects_in(item)


def check_nothing_private(value: Any, *, messages: int) -> None:
    """Sessions and messages in `value`, so many of these at least, have the contract's fields and no others."""
    found = list(objects_in(value))
    shown = [one for one in found if "parts" in one]
    assert len(shown) >= messages
    for message in shown:
        assert set(message) <= SHOWN_OF_A_MESSAGE
        assert set(message["metadata"]["extras"]) <= SHOWN_EXTRAS
    for session in (one for one in found if "message_count" in one):
        assert set(session) <= SHOWN_OF_A_SESSION


def rows(server: RunningServer, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(server.data / "chat.sqlite3")) as db:
        return db.execute(sql).fetchall()


async def test_nothing_private_is_shown_by_any_door(server: RunningServer) -> None:
    """Of an exchange in which an expert keeps messages to itself."""
    async with chat(server.address) as client, rest(server) as http:
        events = await client.ask("Is the server healthy?", agent_id="team")
        final = events[-1]
        session_id = final["session_id"]
        marked = await asyncio.to_thread(
            rows, server, "SELECT count(inner), count(reached), count(block) FROM messages"
        )
        assert marked[0][0] > 0 and marked[0][2] > 0, "the exchange has what must not show"
        check_nothing_private(events, messages=2 * len(final["messages"]))
        await client.send({"type": "follow", "session_id": session_id, "exchange_id": final["exchange_id"]})
        check_nothing_private(await client.until("final"), messages=len(final["messages"]))
        check_nothing_private(await messages_of(http, session_id), messages=len(final["messages"]))
        for path in (f"/sessions/{session_id}", "/sessions", f"/exchanges/{final['exchange_id']}"):
            check_nothing_private((await http.get(path)).json(), messages=0)
        check_nothing_private((await http.get("/chatbot/sessions")).json(), messages=0)
        history = (await http.get(f"/chatbot/session/{session_id}/history")).json()
        check_nothing_private(history, messages=len(final["messages"]))
        body = {"content": "Is the server healthy?"}
        async with http.stream("POST", f"/sessions/{session_id}/messages", json=body) as response:
            check_nothing_private([event async for event in sse_events(response)], messages=len(final["messages"]))


async def test_nothing_private_is_shown_by_a_reset(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "hello", "agent_id": "asking"})
        waiting = await client.until("awaiting_human")
        await client.send({"type": "follow", "exchange_id": waiting["exchange_id"], "after_seq": 1_000_000})
        check_nothing_private(await client.until("reset"), messages=1)


@pytest.mark.parametrize("key", ["access_token", "Api-Key", "PASSWORD", "clientSecret", "authorization", "Set-Cookie"])
async def test_a_credential_is_refused_by_its_name_and_kept_nowhere(
    server: RunningServer, tmp_path: Path, key: str
) -> None:
    async with chat(server.address) as client:
        for context in ({key: CANARY}, {"page": {"of": [1, {key: {"value": CANARY}}]}}):
            await client.send({"type": "ask", "message": "hello", "agent_id": "echo", "runtime_context": context})
            refused = await client.ended()
            assert is_refusal(refused) and refused["code"] == "bad_frame"
            assert refused["content"] == f"runtime_context: the key {key!r} names a credential"
        await client.ask("hello", agent_id="echo", runtime_context={"page": "/start", "max_tokens": 5})
    assert await asyncio.to_thread(rows, server, "SELECT count(*) FROM exchanges") == [(1,)]
    files = await asyncio.to_thread(lambda: [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()])
    assert not any(CANARY.encode() in content for content in files)


async def test_what_a_client_told_the_agent_is_not_kept_after_the_end(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.ask("hello", agent_id="echo", runtime_context={"page": "/start"})
    kept = "SELECT status, runtime_context FROM exchanges"
    assert await asyncio.to_thread(rows, server, kept) == [("ok", None)]
