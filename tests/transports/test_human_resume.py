"""A person's decisions over the WebSocket and over REST, and interrupted exchanges that go on over REST."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from support import acting_agents
from support.approval_agents import ENTRIES, NOTES_VARIABLE, calls, runs
from support.chat_client import PATIENCE_S, ChatClient, Event, chat, check_exchange, final_text
from support.hostile_modules import entry
from support.rest_client import error_of, messages_of, rest, sse_events
from support.running_server import RunningServer, running_server

ANN = {"to": "ann@example.org", "body": "Hello", "copies": 1}
BOB = {"to": "bob@example.org", "body": "Hello", "copies": 1}


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the tools note what ran."""
    path = tmp_path / "notes"
    monkeypatch.setenv(NOTES_VARIABLE, str(path))
    return path


@pytest.fixture
async def asking_server(tmp_path: Path, notes: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=ENTRIES) as server:
        yield server


async def waiting(client: ChatClient, *named: tuple[str, dict[str, Any]]) -> Event:
    """The `awaiting_human` of an exchange that wants to call these tools."""
    await client.send({"message": calls(*named), "agent_id": "approving"})
    return await client.until("awaiting_human")


def resume_of(event: Event, *decisions: dict[str, Any], **answers: Any) -> Event:
    payload = {"decisions": list(decisions), "answers": answers}
    names = {"session_id": event["session_id"], "exchange_id": event["exchange_id"]}
    return {"type": "human_resume", **names, "payload": payload}


def decision(request: dict[str, Any], action: str = "approve", **fields: Any) -> dict[str, Any]:
    return {"call_id": request["call_id"], "args_sha256": request["args_sha256"], "action": action, **fields}


async def test_an_approved_call_runs(asking_server: RunningServer, notes: Path) -> None:
    async with chat(asking_server.address) as client, rest(asking_server) as http:
        event = await waiting(client, ("send_email", ANN))
        [request] = event["payload"]["requests"]
        assert (request["name"], request["args"]) == ("send_email", ANN)
        assert runs(notes) == []
        await client.send(resume_of(event, decision(request)))
        await client.until("final")
        events = [one for one in client.events if one.get("exchange_id") == event["exchange_id"]]
        check_exchange(events)
        assert runs(notes) == [("send_email", ANN)]
        record = (await http.get(f"/exchanges/{event['exchange_id']}")).json()
        [kept] = record["decisions"]
        assert (kept["action"], kept["by"], kept["name"], kept["args"]) == ("approve", "developer", "send_email", ANN)
        assert kept["args_sha256"] == request["args_sha256"]
        await client.send(resume_of(event, decision(request)))
        assert (await client.until("error"))["code"] == "approval_not_found"
        assert runs(notes) == [("send_email", ANN)]


async def test_other_arguments_than_those_shown_are_refused(asking_server: RunningServer, notes: Path) -> None:
    async with chat(asking_server.address) as client:
        event = await waiting(client, ("send_email", ANN), ("send_email", BOB))
        ann, bob = event["payload"]["requests"]
        swapped = [decision(ann | {"args_sha256": bob["args_sha256"]}), decision(bob)]
        await client.send(resume_of(event, *swapped))
        refused = await client.until("error")
        assert (refused["code"], refused["refused"]) == ("approval_mismatch", "human_resume")
        assert runs(notes) == []


async def test_another_tab_sees_what_was_decided(asking_server: RunningServer, notes: Path) -> None:
    async with chat(asking_server.address) as client, chat(asking_server.address) as other:
        event = await waiting(client, ("send_email", ANN), ("send_email", BOB))
        await other.send({"type": "follow", "session_id": event["session_id"]})
        assert (await other.until("awaiting_human"))["payload"] == event["payload"]
        ann, bob = event["payload"]["requests"]
        await client.send(resume_of(event, decision(ann, "reject", message="Not Ann.")))
        left = await other.until("awaiting_human")
        assert [request["call_id"] for request in left["payload"]["requests"]] == [bob["call_id"]]
        await other.send(resume_of(event, decision(bob)))
        assert await other.until("final") == await client.until("final")
        assert runs(notes) == [("send_email", BOB)]


async def test_decisions_come_by_rest_too(asking_server: RunningServer, notes: Path) -> None:
    async with chat(asking_server.address) as client, rest(asking_server) as http:
        event = await waiting(client, ("send_email", ANN))
        [request] = event["payload"]["requests"]
        pending = (await http.get(f"/exchanges/{event['exchange_id']}")).json()["pending"]
        assert pending == event["payload"]
        path = f"/exchanges/{event['exchange_id']}/resume"
        body = {"payload": {"decisions": [decision(request, "edit", args=BOB)]}}
        async with http.stream("POST", path, json=body) as response, asyncio.timeout(PATIENCE_S):
            events = [one async for one in sse_events(response)]
        assert events[-1]["status"] == "ok"
        assert runs(notes) == [("send_email", BOB)]
        assert await messages_of(http, event["session_id"]) == events[-1]["messages"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"payload": {}}, 400, "bad_frame"),
        ({"payload": {"decisions": [{"call_id": "x"}]}}, 400, "bad_frame"),
        ({"unknown": 1}, 400, "bad_frame"),
        ({"payload": {"answers": {"x": "y"}}}, 409, "approval_not_found"),
        ({}, 409, "checkpoint_missing"),
    ],
)
async def test_what_is_refused_changes_nothing(
    asking_server: RunningServer, notes: Path, body: dict[str, Any], status: int, code: str
) -> None:
    async with chat(asking_server.address) as client, rest(asking_server) as http:
        event = await waiting(client, ("send_email", ANN))
        response: httpx.Response = await http.post(f"/exchanges/{event['exchange_id']}/resume", json=body)
        assert (response.status_code, error_of(response)["code"]) == (status, code)
        assert (await http.get(f"/exchanges/{event['exchange_id']}")).json()["status"] == "awaiting_human"


async def test_what_waits_is_found_again_after_a_restart(tmp_path: Path, notes: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES) as server, chat(server.address) as client:
        event = await waiting(client, ("send_email", ANN))
    async with running_server(tmp_path, agents=ENTRIES) as server, chat(server.address) as client:
        follow = {"type": "follow", "session_id": event["session_id"], "exchange_id": event["exchange_id"]}
        await client.send(follow | {"after_seq": event["seq"]})
        await client.silent()
        await client.send(follow | {"after_seq": event["seq"] - 1})
        again = await client.receive()
        assert again == event, "it has the seq that it had"
        [request] = again["payload"]["requests"]
        await client.send(resume_of(event, decision(request)))
        final = await client.until("final")
        assert final["status"] == "ok" and final["seq"] > event["seq"]
        assert runs(notes) == [("send_email", ANN)]


async def test_a_choice_is_answered(asking_server: RunningServer, notes: Path) -> None:
    async with chat(asking_server.address) as client:
        await client.send({"message": "Which way?", "agent_id": "choosing"})
        event = await client.until("awaiting_human")
        [request] = event["payload"]["requests"]
        assert [choice["id"] for choice in request["choices"]] == ["l", "r"]
        await client.send(resume_of(event, **{request["interrupt_id"]: "nowhere"}))
        assert (await client.until("error"))["code"] == "bad_frame"
        await client.send(resume_of(event, **{request["interrupt_id"]: "l"}))
        await client.until("final")
        events = [one for one in client.events if one.get("exchange_id") == event["exchange_id"]]
        assert "l" in final_text(events)


async def test_null_is_an_answer(asking_server: RunningServer, notes: Path) -> None:
    async with chat(asking_server.address) as client, rest(asking_server) as http:
        await client.send({"message": "Who?", "agent_id": "inquiring"})
        event = await client.until("awaiting_human")
        [request] = event["payload"]["requests"]
        await client.send(resume_of(event, **{request["interrupt_id"]: None}))
        await client.until("final")
        events = [one for one in client.events if one.get("exchange_id") == event["exchange_id"]]
        check_exchange(events)
        assert final_text(events) == "Hello None."
        [decided] = (await http.get(f"/exchanges/{event['exchange_id']}")).json()["decisions"]
        assert (decided["action"], decided["interrupt_id"]) == ("answer", request["interrupt_id"])


async def test_who_stops_what_waits_sees_its_end(asking_server: RunningServer, notes: Path) -> None:
    async with chat(asking_server.address) as client, chat(asking_server.address) as other:
        event = await waiting(client, ("send_email", ANN))
        stop = {"type": "stop", "session_id": event["session_id"]}
        await other.send(stop)
        final = await other.until("final")
        assert (final["exchange_id"], final["status"]) == (event["exchange_id"], "stopped")
        assert (await client.until("final"))["messages"] == final["messages"]
        await other.send(stop)
        await other.until("idle")
        assert runs(notes) == []


NUMBERS = {"most": 2**63 - 1, "least": -(2**63) + 1, "odd": 2**53 + 1, "float": 1e20, "tiny": 5e-324, "third": 1 / 3}


@pytest.fixture
async def acting_server(store_url: str, tmp_path: Path, notes: Path) -> AsyncIterator[RunningServer]:
    agents = [*ENTRIES, *acting_agents.ENTRIES]
    async with running_server(tmp_path, agents=agents, settings={"store": {"url": store_url}}) as server:
        yield server


async def test_numbers_are_stored_shown_and_run_as_they_are(acting_server: RunningServer, notes: Path) -> None:
    async with chat(acting_server.address) as client, rest(acting_server) as http:
        for fields in ({}, {"action": "edit", "args": {"edited": NUMBERS}}):
            await client.send({"message": json.dumps({"action": "pay", "args": NUMBERS}), "agent_id": "acting"})
            event = await client.until("awaiting_human")
            stored = (await http.get(f"/exchanges/{event['exchange_id']}")).json()["pending"]
            for [request] in (event["payload"]["requests"], stored["requests"]):
                # By their text, because 1e20 == 10**20.
                assert json.dumps(request["args"]) == json.dumps(NUMBERS)
            await client.send(resume_of(event, decision(request, **fields)))
            await client.until("final")
    assert json.dumps(runs(notes)) == json.dumps([("pay", NUMBERS), ("pay", {"edited": NUMBERS})])


@pytest.mark.parametrize("number", [str(2**63), str(2**64 + 1), str(-(2**70)), "9" * 300, "1e400", "NaN", "-Infinity"])
async def test_arguments_with_a_number_that_cant_be_kept_are_refused_and_the_call_waits_on(
    acting_server: RunningServer, notes: Path, number: str
) -> None:
    async with chat(acting_server.address) as client, rest(acting_server) as http:
        await client.send({"message": json.dumps({"action": "pay", "args": {"n": 1}}), "agent_id": "acting"})
        event = await client.until("awaiting_human")
        [request] = event["payload"]["requests"]
        frame = resume_of(event, decision(request, "edit", args={"n": ["number"]}))
        await client.send(json.dumps(frame).replace('"number"', number))
        refused = await client.until("error")
        assert refused["code"] == "bad_frame"
        if number.lstrip("-").isdecimal():
            assert (refused["exchange_id"], refused["refused"]) == (event["exchange_id"], "human_resume")
            assert "payload.decisions.0.args: " in refused["content"] and "64 bits" in refused["content"]
        response: httpx.Response = await http.post(
            f"/exchanges/{event['exchange_id']}/resume",
            content=json.dumps({"payload": frame["payload"]}).replace('"number"', number),
            headers={"content-type": "application/json"},
        )
        assert (response.status_code, error_of(response)["code"]) == (400, "bad_frame")
        await client.send(resume_of(event, decision(request)))
        await client.until("final")
    assert runs(notes) == [("pay", {"n": 1})]


@pytest.mark.parametrize("number", [2**63, 2**64 + 1])
async def test_what_an_agent_is_given_has_no_integer_that_cant_be_kept(
    acting_server: RunningServer, number: int
) -> None:
    async with chat(acting_server.address) as client:
        await client.send({"message": "hello", "agent_id": "inquiring", "runtime_context": {"n": number}})
        refused = await client.until("error")
        assert (refused["code"], refused["content"].partition(":")[0]) == ("bad_frame", "runtime_context")
        assert "64 bits" in refused["content"]


@pytest.mark.parametrize("door", ["websocket", "rest"])
async def test_blocked_words_are_refused_and_what_waits_takes_others(door: str, tmp_path: Path, notes: Path) -> None:
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [entry(settings={"before": "block_word"})]}))
    settings = {"modules": {"file": str(file)}}
    async with (
        running_server(tmp_path, agents=ENTRIES, settings=settings) as server,
        chat(server.address) as client,
        rest(server) as http,
    ):
        event = await waiting(client, ("send_email", ANN))
        [request] = event["payload"]["requests"]
        said = decision(request, "reject", message="my secret")
        if door == "websocket":
            await client.send(resume_of(event, said))
            refused = await client.until("error")
            assert refused["refused"] == "human_resume"
        else:
            body = {"payload": {"decisions": [said]}}
            response = await http.post(f"/exchanges/{event['exchange_id']}/resume", json=body)
            assert response.status_code == 422
            refused = error_of(response)
        assert (refused["code"], refused["retryable"]) == ("blocked", False)
        assert refused["content"] == "That is not said here."
        assert (await http.get(f"/exchanges/{event['exchange_id']}")).json()["status"] == "awaiting_human"
        [audit] = (await http.get(f"/admin/sessions/{event['session_id']}/audit")).json()["audit_records"]
        assert (audit["action"], audit["original"]) == ("blocked", "my secret")
        await client.send(resume_of(event, decision(request, "reject", message="not now")))
        assert (await client.until("final"))["status"] == "ok"
        assert runs(notes) == []
