"""The list of a user's sessions as it changes: over the socket, as SSE, and in the classic form nothing of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.approval_agents import ENTRIES as APPROVAL_ENTRIES
from support.chat_client import PATIENCE_S, ChatClient, Event, chat
from support.rest_client import error_of, metric_at, rest, sse_events
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=[*ENTRIES, *APPROVAL_ENTRIES]) as server:
        yield server


@asynccontextmanager
async def following(server: RunningServer, token: str | None = None) -> AsyncIterator[ChatClient]:
    async with chat(server.address, token=token) as client:
        await client.send({"type": "follow_sessions"})
        assert await client.receive() == {"type": "following_sessions"}
        yield client


async def told(client: ChatClient, session_id: str, **wanted: Any) -> Event:
    """The next `session` of this session that has these values, in itself or in its session."""
    while True:
        event = await client.until("session")
        values = event["session"] | {"status": event.get("status")}
        if event["session"]["id"] == session_id and {name: values.get(name) for name in wanted} == wanted:
            return event


async def test_each_change_of_a_session_is_told_whoever_makes_it(server: RunningServer) -> None:
    async with following(server) as page, rest(server) as http, chat(server.address) as other:
        session_id = (await http.post("/sessions", json={"agent_id": "echo"})).json()["id"]
        await told(page, session_id, next_rank=0, status=None)
        await other.ask("hello", session_id=session_id)
        await told(page, session_id, status="ok", active_exchange_id=None, next_rank=2)
        for change in ({"title": "Mine"}, {"pinned": True}, {"archived": True}, {"pinned": False}):
            await http.patch(f"/sessions/{session_id}", json=change)
            await told(page, session_id, **change)
        await http.post(f"/sessions/{session_id}/complete")
        await told(page, session_id, state="completed")
        await http.delete(f"/sessions/{session_id}")
        assert await page.until("session_deleted") == {"type": "session_deleted", "session_id": session_id}


async def test_how_many_follow_is_a_metric(server: RunningServer) -> None:
    assert await metric_at(server.internal, "chat_session_list_followers") == 0
    async with following(server), following(server):
        assert await metric_at(server.internal, "chat_session_list_followers") == 2


async def test_what_runs_waits_and_goes_on_is_told_and_listed(server: RunningServer) -> None:
    async with following(server) as page, rest(server) as http, chat(server.address) as other:

        async def listed() -> dict[str, str | None]:
            sessions = (await http.get("/sessions")).json()["sessions"]
            return {session["id"]: session.get("status") for session in sessions}

        await other.send({"message": "wait 60 seconds"})
        runs = (await other.until("started"))["session_id"]
        event = await told(page, runs, status="running")
        assert event["session"]["active_exchange_id"]
        await other.send({"message": "which way?", "agent_id": "choosing"})
        waiting = await other.until("awaiting_human")
        waits = waiting["session_id"]
        await told(page, waits, status="awaiting_human")
        assert await listed() == {waits: "awaiting_human", runs: "running"}
        for session_id in (waits, runs):
            await other.send({"type": "stop", "session_id": session_id})
            await told(page, session_id, status="stopped", active_exchange_id=None)
        assert await listed() == {waits: None, runs: None}


async def test_nobody_hears_of_anothers_sessions(server: RunningServer) -> None:
    async with following(server, "dev:alice") as alice, following(server, "dev:bob") as bob:
        async with rest(server, "dev:bob") as http:
            theirs = (await http.post("/sessions")).json()["id"]
            await told(bob, theirs)
            await http.delete(f"/sessions/{theirs}")
            await bob.until("session_deleted")
        await alice.send({"type": "ping"})
        await alice.until("pong")
        assert [event["type"] for event in alice.events] == ["following_sessions", "pong"]


async def test_who_unfollows_hears_no_more_and_may_come_back(server: RunningServer) -> None:
    async with following(server) as page, following(server) as other, rest(server) as http:
        await page.send({"type": "unfollow_sessions"})
        await page.send({"type": "ping"})
        await page.until("pong")
        first = (await http.post("/sessions")).json()["id"]
        await told(other, first)
        await page.send({"type": "follow_sessions"})
        assert (await page.receive())["type"] == "following_sessions"
        second = (await http.post("/sessions")).json()["id"]
        assert (await page.receive())["session"]["id"] == second


async def test_a_watched_session_tells_its_changes_once(server: RunningServer) -> None:
    async with following(server) as page, rest(server) as http:
        session_id = (await http.post("/sessions", json={"agent_id": "echo"})).json()["id"]
        await told(page, session_id)
        await page.send({"type": "follow", "session_id": session_id})
        await page.until("idle")
        await http.patch(f"/sessions/{session_id}", json={"title": "Once"})
        await http.patch(f"/sessions/{session_id}", json={"pinned": True})
        await told(page, session_id, pinned=True)
        titles = [event["session"]["title"] for event in page.events if event["type"] == "session"]
        assert titles.count("Once") <= 2


async def test_the_deletion_of_all_data_is_told(server: RunningServer) -> None:
    async with following(server, "dev:alice") as page, rest(server, "dev:alice") as http:
        ids = {(await http.post("/sessions")).json()["id"] for _ in range(3)}
        assert (await http.delete("/me", params={"confirm": "alice"})).status_code == 204
        gone: set[str] = set()
        while gone != ids:
            gone.add((await page.until("session_deleted"))["session_id"])


async def test_a_stream_of_events_tells_the_same(server: RunningServer) -> None:
    async with rest(server) as http, http.stream("GET", "/sessions/events") as response, asyncio.timeout(PATIENCE_S):
        assert response.status_code == 200
        events = sse_events(response)
        assert await anext(events) == {"type": "following_sessions"}
        session_id = (await http.post("/sessions")).json()["id"]
        assert (await anext(events))["session"]["id"] == session_id
        await http.delete(f"/sessions/{session_id}")
        # The session may be told once more before.
        while (event := await anext(events))["type"] == "session":
            assert event["session"]["id"] == session_id
        assert event == {"type": "session_deleted", "session_id": session_id}


async def test_the_classic_form_has_nothing_of_it(server: RunningServer) -> None:
    async with chat(server.address, subprotocols=None) as older, rest(server) as http:
        await older.send({"type": "follow_sessions"})
        refused = await older.receive()
        assert (refused["type"], refused["code"], refused["refused"]) == ("error", "bad_frame", "follow_sessions")
        await http.post("/sessions")
        await older.silent()


async def test_an_ask_takes_a_session_out_of_the_archive(server: RunningServer) -> None:
    async with following(server) as page, rest(server) as http, chat(server.address) as other:
        session_id = (await http.post("/sessions", json={"agent_id": "echo"})).json()["id"]
        await http.patch(f"/sessions/{session_id}", json={"archived": True, "pinned": True})
        await told(page, session_id, archived=True)
        await other.ask("hello again", session_id=session_id)
        await told(page, session_id, archived=False, pinned=True)
        listed = (await http.get("/sessions", params={"archived": "false"})).json()["sessions"]
        assert [session["id"] for session in listed] == [session_id]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, "title:"),
        ({"pinned": None, "archived": None}, "title:"),
        ({"pinned": "yes"}, "pinned:"),
        ({"archived": 1}, "archived:"),
        ({"root_id": "x"}, "root_id:"),
    ],
)
async def test_a_change_that_is_none_is_refused(server: RunningServer, body: dict[str, Any], names: str) -> None:
    async with rest(server, "dev:alice") as http, rest(server, "dev:bob") as other:
        session_id = (await http.post("/sessions")).json()["id"]
        response = await http.patch(f"/sessions/{session_id}", json=body)
        assert (response.status_code, error_of(response)["code"]) == (400, "bad_frame")
        assert error_of(response)["content"].startswith(names)
        assert (await other.patch(f"/sessions/{session_id}", json={"pinned": True})).status_code == 404
