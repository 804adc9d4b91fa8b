"""`GET /sessions/{id}/exchanges`: what a reload shows that messages don't tell, and whether an exchange can go on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import wire_agents
from support.approval_agents import ENTRIES as ASKING
from support.approval_agents import NOTES_VARIABLE, calls
from support.chat_client import Event, chat
from support.rest_client import error_of, rest
from support.running_server import FAST, RunningServer, running_server
from support.test_agents import ENTRIES

SCRIPTED = {"id": "scripted", "class_path": "support.fault_agents:Scripted"}
ANN = {"to": "ann@example.org", "body": "Hello", "copies": 1}


def settings(store_url: str) -> dict[str, Any]:
    return {**FAST, "store": {"url": store_url}}


@pytest.fixture
async def server(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningServer]:
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path / "notes"))
    agents = [*ENTRIES, *wire_agents.ENTRIES, *ASKING]
    async with running_server(tmp_path, agents=agents, settings=settings(store_url)) as server:
        yield server


async def exchanges(http: httpx.AsyncClient, session_id: str, **query: int) -> dict[str, Any]:
    response = await http.get(f"/sessions/{session_id}/exchanges", params=query)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def shown(events: list[Event]) -> list[dict[str, Any]]:
    """The activities that people saw, each behind the message that came before it."""
    found, rank = [], -1
    for event in events:
        if event["type"] == "stream":
            rank = event["message"]["rank"]
        if event["type"] == "activity":
            found.append({"seq": event["seq"], "after_rank": rank, "kind": event["kind"], "data": event["data"]})
    return found


async def test_a_reload_tells_the_activities_that_stay_as_they_were_shown(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        events = await client.ask("count", agent_id="tells-steps")
        [listed] = (await exchanges(http, events[0]["session_id"]))["exchanges"]
    live = shown(events)
    assert [one["data"] for one in live] == [
        {"from": "tells-steps", "to": "echo"},
        {"step": "Looked through 7 files", "kept": True},
        {"step": "Thinking"},
        {"from": "echo", "to": "tells-steps"},
    ]
    assert listed["activities"] == [one for one in live if one["data"] != {"step": "Thinking"}]


async def test_each_exchange_tells_how_it_ended(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        first = await client.ask("hello", agent_id="echo", client_exchange_id="mine")
        session_id = first[0]["session_id"]
        second = await client.ask("again", session_id=session_id)
        found = await exchanges(http, session_id)
        later = await exchanges(http, session_id, from_rank=2)
        page = await exchanges(http, session_id, limit=1)
    assert "next_rank" not in found and later == {"exchanges": found["exchanges"][1:]}
    assert page == {"exchanges": found["exchanges"][:1], "next_rank": 2}
    ok = {"agent_id": "echo", "status": "ok", "resumable": False, "activities": []}
    for listed, events in zip(found["exchanges"], (first, second), strict=True):
        assert listed.items() >= (ok | {"id": events[0]["exchange_id"], "usage": events[-1]["usage"]}).items()
        assert listed["started_at"] <= listed["ended_at"]
    assert [one.get("client_exchange_id") for one in found["exchanges"]] == ["mine", None]


async def test_what_waits_and_what_was_decided_is_told(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        await client.send({"message": calls(("send_email", ANN)), "agent_id": "approving"})
        event = await client.until("awaiting_human")
        [waiting] = (await exchanges(http, event["session_id"]))["exchanges"]
        [request] = waiting["pending"]["requests"]
        assert (waiting["status"], request) == ("awaiting_human", event["payload"]["requests"][0])
        edit = {"call_id": request["call_id"], "args_sha256": request["args_sha256"], "action": "edit"}
        payload = {"decisions": [edit | {"args": ANN | {"copies": 2}}]}
        names = {"session_id": event["session_id"], "exchange_id": event["exchange_id"]}
        await client.send({"type": "human_resume", **names, "payload": payload})
        await client.until("final")
        [ended] = (await exchanges(http, event["session_id"]))["exchanges"]
    [decision] = ended["decisions"]
    assert (decision["by"], decision["args"], decision["edited_args"]) == ("developer", ANN, ANN | {"copies": 2})
    assert "pending" not in ended and ended["status"] == "ok"


async def test_another_users_session_is_not_found(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client:
        session_id = (await client.ask("hello", agent_id="echo"))[0]["session_id"]
    async with rest(server, "dev:bob") as http:
        refusals = [await http.get(f"/sessions/{name}/exchanges") for name in (session_id, "no-such-session")]
        bad = await http.get(f"/sessions/{session_id}/exchanges", params={"from_rank": -1})
    assert [(each.status_code, error_of(each)["code"]) for each in refusals] == [(404, "session_not_found")] * 2
    assert (bad.status_code, error_of(bad)["code"]) == (400, "bad_frame")


async def test_an_interrupted_exchange_can_go_on_until_something_else_is_asked(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def interrupted(script: str) -> str:
        """The session of an exchange that a shutdown interrupts."""
        async with (
            running_server(tmp_path, agents=[SCRIPTED], settings=settings(store_url)) as server,
            rest(server) as http,
        ):
            session_id: str = (await http.post("/sessions", json={"agent_id": "scripted"})).json()["id"]
            async with http.stream("POST", f"/sessions/{session_id}/messages", json={"content": script}):
                pass
            async with asyncio.timeout(20):
                while len((await http.get(f"/sessions/{session_id}/messages")).json()["messages"]) < 3:
                    await asyncio.sleep(0.02)
        return session_id

    session_id = await interrupted("note a | hold 30 | words 2 0")
    async with running_server(tmp_path, agents=[SCRIPTED], settings=settings(store_url)) as server:
        async with chat(server.address) as client, rest(server) as http:
            [left] = (await exchanges(http, session_id))["exchanges"]
            await client.send({"type": "follow", "session_id": session_id, "exchange_id": left["id"]})
            final = await client.until("final")
            await client.ask("words 1 0", session_id=session_id)
            [passed, _] = (await exchanges(http, session_id))["exchanges"]
    assert (left["status"], left["resumable"]) == ("interrupted", True)
    assert (final["status"], final["resumable"]) == ("interrupted", True)
    assert (passed["id"], passed["status"], passed["resumable"]) == (left["id"], "interrupted", False)
