"""`GET /sessions/{id}/events`: what runs in a session, every later exchange, and its changes, as SSE."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from support.chat_client import PATIENCE_S, TOKEN_S, ChatClient, Event, chat
from support.rest_client import error_of, metric_at, rest, sse_events
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

from agentic_backend.transports import credentials


@asynccontextmanager
async def following(
    http: httpx.AsyncClient, session_id: str, last_event_id: str | None = None
) -> AsyncIterator[AsyncIterator[Event]]:
    headers = {"Last-Event-ID": last_event_id} if last_event_id is not None else {}
    async with (
        http.stream("GET", f"/sessions/{session_id}/events", headers=headers) as response,
        asyncio.timeout(PATIENCE_S),
    ):
        assert response.status_code == 200
        assert response.headers["cache-control"] == "no-store"
        yield sse_events(response)


async def up_to(events: AsyncIterator[Event], kind: str) -> list[Event]:
    seen = []
    async for event in events:
        seen.append(event)
        if event["type"] == kind:
            break
    return seen


async def of_an_exchange(events: AsyncIterator[Event]) -> Event:
    """The next event that has a place: the session's new name may come between any two of them."""
    while "seq" not in (event := await anext(events)):
        pass
    return event


def whole(events: list[Event]) -> list[Event]:
    """Without the deltas, which may arrive merged."""
    return [event for event in events if event["type"] not in ("delta", "session")]


async def test_it_shows_every_exchange_of_the_session(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        session_id = (await http.post("/sessions", json={"agent_id": "echo"})).json()["id"]
        async with following(http, session_id) as events:
            [idle] = await up_to(events, "idle")
            assert (idle["session_id"], idle["next_rank"]) == (session_id, 0)
            for message in ("hello", "hello again"):
                asked = await client.ask(message, session_id=session_id)
                assert whole(await up_to(events, "final")) == whole(asked)


async def stop(client: ChatClient, session_id: str) -> None:
    """End what runs in the session, once the test has seen of it what it needs."""
    await client.send({"type": "stop", "session_id": session_id})


async def test_it_begins_with_what_runs(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        await client.send({"message": "wait 60 seconds"})
        started = await client.until("started")
        async with following(http, started["session_id"]) as events:
            seen = await up_to(events, "started")
            await stop(client, started["session_id"])
            seen += await up_to(events, "final")
        await client.until("final")
        asked = [event for event in client.events if event.get("exchange_id") == started["exchange_id"]]
        assert whole(seen) == whole(asked)


async def test_a_client_that_comes_back_goes_on_where_it_was(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        await client.send({"message": "wait 60 seconds"})
        started = await client.until("started")
        session_id = started["session_id"]
        async with following(http, session_id) as events:
            first = [await of_an_exchange(events) for _ in range(3)]
        last_event_id = f"{first[-1]['exchange_id']}:{first[-1]['seq']}"
        async with following(http, session_id, last_event_id) as events:
            await stop(client, session_id)
            rest_of_it = await up_to(events, "final")
        await client.until("final")
        asked = [event for event in client.events if event.get("exchange_id") == started["exchange_id"]]
        assert whole(first + rest_of_it) == whole(asked)


async def test_a_client_that_comes_back_after_the_end_gets_it(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        asked = await client.ask("hello", agent_id="echo")
        final = asked[-1]
        async with following(http, final["session_id"], f"{final['exchange_id']}:1") as events:
            assert (await up_to(events, "final"))[-1] == final
        async with following(http, final["session_id"], f"{final['exchange_id']}:{final['seq']}") as events:
            await up_to(events, "idle")
            again = await client.ask("hello again", session_id=final["session_id"])
            seen = await up_to(events, "final")
            assert seen[-1]["exchange_id"] == again[-1]["exchange_id"]


async def test_who_has_the_final_is_told_idle_also_where_only_the_store_has_it(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, agents=ENTRIES, settings={"relay": {"keep_ended_bytes": 0}}) as server,
        rest(server) as http,
        chat(server.address) as client,
    ):
        final = (await client.ask("hello", agent_id="echo"))[-1]
        async with following(http, final["session_id"], f"{final['exchange_id']}:{final['seq'] - 1}") as events:
            # Its session may have got its title since.
            assert (await up_to(events, "final"))[-1]["messages"] == final["messages"]
        async with following(http, final["session_id"], f"{final['exchange_id']}:{final['seq']}") as events:
            assert "final" not in [event["type"] for event in await up_to(events, "idle")]


async def test_what_comes_first_is_counted_as_on_a_socket(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        final = (await client.ask("hello", agent_id="echo"))[-1]
        place = f"{final['exchange_id']}:"
        for seen, outcome in ((final["seq"], "live"), (1, "replayed"), (2**40, "reset")):
            counter = f'chat_follows_total{{outcome="{outcome}"}}'
            before = await metric_at(server.internal, counter)
            async with following(http, final["session_id"], f"{place}{seen}") as events:
                await anext(events)
            assert await metric_at(server.internal, counter) == before + 1


@pytest.mark.parametrize("last_event_id", ["17", "x:", ":1", "x:-1", "x:y", "x:²", "no such exchange:1"])
@pytest.mark.asyncio(loop_scope="module")
async def test_an_id_that_is_none_is_refused(shared_server: RunningServer, last_event_id: str) -> None:
    async with rest(shared_server) as http:
        session_id = (await http.post("/sessions", json={"agent_id": "echo"})).json()["id"]
        headers = {b"last-event-id": last_event_id.encode("latin-1")}
        response = await http.get(f"/sessions/{session_id}/events", headers=headers)
        assert response.status_code == 400
        assert error_of(response)["code"] == "bad_frame"


async def test_a_foreign_session_is_not_found(server: RunningServer) -> None:
    async with rest(server) as http:
        response = await http.get("/sessions/nobody's/events")
        assert response.status_code == 404
        assert error_of(response)["code"] == "session_not_found"


async def test_it_ends_with_its_token(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "EXPIRY_LEEWAY_S", 0)
    token = f"dev:alice:{int(time.time()) + TOKEN_S}"
    async with rest(server, token) as http, chat(server.address, token="dev:alice") as client:
        session_id = (await http.post("/sessions", json={})).json()["id"]
        async with following(http, session_id) as events:
            await client.send({"message": f"wait {TOKEN_S + 1} seconds", "session_id": session_id})
            seen = [event["type"] async for event in events]
            assert "started" in seen and "final" not in seen
        refusal = await http.get(f"/sessions/{session_id}/events")
        assert error_of(refusal)["code"] == "token_expired"
        assert (await client.until("final"))["status"] == "ok"


async def test_an_answer_ends_with_its_token_and_the_exchange_goes_on(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "EXPIRY_LEEWAY_S", 0)
    token = f"dev:alice:{int(time.time()) + TOKEN_S}"
    async with rest(server, token) as http, chat(server.address, token="dev:alice") as client:
        session_id = (await http.post("/sessions", json={})).json()["id"]
        await client.send({"type": "follow", "session_id": session_id})
        await client.until("idle")
        content = f"wait {TOKEN_S + 1} seconds"
        call = http.stream("POST", f"/sessions/{session_id}/messages", json={"content": content})
        async with call as response, asyncio.timeout(PATIENCE_S):
            assert response.status_code == 200
            seen = [event["type"] async for event in sse_events(response)]
        assert "started" in seen and "final" not in seen
        assert (await client.until("final"))["status"] == "ok"


@pytest.mark.parametrize("whose", ["the same user's", "another user's"])
@pytest.mark.parametrize("ended", [True, False])
async def test_the_id_of_an_event_of_another_session_is_refused(server: RunningServer, whose: str, ended: bool) -> None:
    """It shows nothing of that one, whoever it belongs to and whether or not it still runs."""
    theirs = "dev:alice" if whose == "the same user's" else "dev:bob"
    async with rest(server, "dev:alice") as http, chat(server.address, token=theirs) as client:
        session_id = (await http.post("/sessions", json={"agent_id": "echo"})).json()["id"]
        if ended:
            exchange_id = (await client.ask("a secret", agent_id="echo"))[-1]["exchange_id"]
        else:
            await client.send({"message": "hang after 20 tokens"})
            exchange_id = (await client.until("delta"))["exchange_id"]
        response = await http.get(f"/sessions/{session_id}/events", headers={"Last-Event-ID": f"{exchange_id}:0"})
        assert response.status_code == 400
        assert error_of(response)["code"] == "bad_frame" and "secret" not in response.text
