"""Query mode: an ask without session, of which nothing is kept but its KPI record."""

import asyncio
import sqlite3
from typing import Any

import pytest
from support.chat_client import PATIENCE_S, ChatClient, Event, chat, check_exchange, final_text, is_refusal
from support.rest_client import rest
from support.running_server import RunningServer


async def running(client: ChatClient) -> Event:
    """The `started` of a query that goes on until it is stopped."""
    await client.send({"mode": "query", "message": "hang after 5 tokens"})
    return await client.until("started")


async def rows_of(server: RunningServer) -> dict[str, int]:
    """How many rows each table of the database holds."""

    def count() -> dict[str, int]:
        db = sqlite3.connect(f"file:{server.data / 'chat.sqlite3'}?mode=ro", uri=True)
        try:
            names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}
        finally:
            db.close()

    return await asyncio.to_thread(count)


async def statuses(server: RunningServer) -> list[str]:
    """The statuses in the KPI records."""

    def read() -> list[str]:
        db = sqlite3.connect(f"file:{server.data / 'chat.sqlite3'}?mode=ro", uri=True)
        try:
            return [row[0] for row in db.execute("SELECT record ->> 'status' FROM kpi_records ORDER BY started_at")]
        finally:
            db.close()

    return await asyncio.to_thread(read)


async def test_a_query_has_no_session_and_its_ranks_begin_at_0(server: RunningServer) -> None:
    async with chat(server.address) as client:
        for _ in range(2):
            events = await client.ask("What time is it in Tokyo, and what is 12*34?", mode="query")
            check_exchange(events)
            assert {event["session_id"] for event in events} == {None}
            assert [message["rank"] for message in events[-1]["messages"]] == list(range(len(events[-1]["messages"])))
            assert {message["session_id"] for message in events[-1]["messages"]} == {None}
            assert events[0]["session"] is None and events[-1]["session"] is None
            assert "408" in final_text(events)
        await client.silent()


async def test_nothing_of_a_query_is_stored_but_its_kpis_and_its_usage(server: RunningServer) -> None:
    before = await rows_of(server)
    async with chat(server.address) as client, rest(server) as http:
        await client.ask("what is 6*7?", mode="query", client_exchange_id="x1")
        assert (await http.get("/sessions")).json() == {"sessions": []}
    # Its usage is stored in the background, one record for each call of the model.
    async with asyncio.timeout(PATIENCE_S):
        while await rows_of(server) != before | {"kpi_records": 1, "usage": 2}:
            await asyncio.sleep(0.02)
    assert await statuses(server) == ["ok"]


async def test_a_query_remembers_nothing(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.ask("my name is Zorblax", mode="query")
        events = await client.ask("what is my name?", mode="query")
        assert "Zorblax" not in final_text(events)


PAST = [
    {"role": "user", "content": "my name is Zorblax"},
    {"role": "assistant", "content": "Nice to meet you."},
]


async def test_a_query_remembers_the_history_that_it_brings(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("what is my name?", mode="query", history=PAST)
        assert "Zorblax" in final_text(events)
    async with rest(server) as http:
        answer = await http.post("/query", json={"content": "what is my name?", "history": PAST})
        assert "Zorblax" in answer.text


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"history": PAST}, "history: a session has its own"),
        ({"mode": "query", "history": PAST * 201}, "history: List should have at most 400 items"),
        ({"mode": "query", "history": [{"role": "system", "content": "x"}]}, "history.0.role: "),
        ({"mode": "query", "history": [{"role": "user", "content": ""}]}, "history.0.content: "),
        ({"mode": "query", "history": [{"role": "user", "content": "x", "id": "1"}]}, "history.0.id: unknown field"),
    ],
)
async def test_a_history_that_is_none_is_a_bad_frame(
    server: RunningServer, fields: dict[str, Any], problem: str
) -> None:
    async with chat(server.address) as client:
        [refused] = await client.ask("hello", **fields)
        assert is_refusal(refused) and refused["code"] == "bad_frame"
        assert problem in refused["content"]


async def test_a_query_ends_stopped_with_its_socket(server: RunningServer) -> None:
    async with chat(server.address) as other:
        async with chat(server.address) as client:
            started = await running(client)
            await other.send({"type": "follow", "exchange_id": started["exchange_id"]})
            assert await other.until("started") == started
        final = await other.until("final")
        assert (final["status"], final["session_id"]) == ("stopped", None)
    assert await statuses(server) == ["stopped"]


async def test_a_query_whose_socket_breaks_is_stopped(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await running(client)
        client.socket.transport.abort()
    async with asyncio.timeout(PATIENCE_S):
        while await statuses(server) != ["stopped"]:
            await asyncio.sleep(0.02)


async def test_a_query_is_stopped_by_its_exchange_alone(server: RunningServer) -> None:
    async with chat(server.address) as client:
        started = await running(client)
        for _ in range(2):
            await client.send({"type": "stop", "exchange_id": started["exchange_id"]})
        final = await client.until("final")
        check_exchange([event for event in client.events if "seq" in event])
        assert final["status"] == "stopped"
        assert await client.until("idle") == {"type": "idle", "session_id": None, "next_rank": 0}
        await client.send({"type": "stop", "exchange_id": started["exchange_id"]})
        assert await client.until("idle") == {"type": "idle", "session_id": None, "next_rank": 0}


async def test_a_query_is_its_users_own(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as alice, chat(server.address, token="dev:bob") as bob:
        started = await running(alice)
        for kind in ("follow", "stop"):
            await bob.send({"type": kind, "exchange_id": started["exchange_id"]})
            assert (await bob.receive())["code"] == "exchange_not_found"


async def test_a_session_beside_a_query_is_a_bad_frame(server: RunningServer) -> None:
    async with chat(server.address) as client:
        session_id = (await client.ask("hello", agent_id="echo"))[-1]["session_id"]
        [refused] = await client.ask("hello", mode="query", session_id=session_id)
        assert is_refusal(refused) and refused["code"] == "bad_frame"
        assert refused["content"].startswith("session_id:")


async def test_a_graph_that_wants_a_persons_answer_fails_in_a_query(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("hello", mode="query", agent_id="asking")
        check_exchange(events)
        assert events[-1]["status"] == "error"
        assert "awaiting_human" not in [event["type"] for event in events]
        error = events[-1]["error"]
        assert (error["code"], error["whose"], error["retryable"]) == ("limit_reached", "client", False)
        assert "ask in a session" in error["content"]


async def test_a_query_that_fails_says_so(server: RunningServer) -> None:
    fields: dict[str, Any]
    async with chat(server.address) as client:
        for fields, code in [
            ({"message": "fail after 5 tokens"}, "model_error"),
            ({"message": "hello", "agent_id": "raising"}, "internal"),
            ({"message": "hello", "agent_id": "fails-in-init"}, "agent_unavailable"),
        ]:
            events = await client.ask(**fields, mode="query")
            check_exchange(events)
            assert (events[-1]["status"], events[-1]["error"]["code"]) == ("error", code)
        for agent_id, code in [("nothing", "agent_not_found"), ("no-such-class", "agent_unavailable")]:
            [refused] = await client.ask("hello", mode="query", agent_id=agent_id)
            assert refused["code"] == code
    assert await statuses(server) == ["error"] * 3
