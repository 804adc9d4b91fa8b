"""Texts that are not for people are never shown and never stored, on any way that leads to a client."""

import json
from typing import Any

import pytest
from graphs import hidden_texts as served
from graphs.hidden_texts import EMITTED, ROUTE, SECRET
from graphs.talk import ask, told
from support.chat_client import PATH, Event, chat, check_exchange, final_text
from support.rest_client import plain_http
from support.running_server import RunningServer
from websockets.asyncio.client import connect

AGENTS = served.AGENTS

ANSWER = "Your bill is 7."


def texts_in(events: list[Event]) -> str:
    """All that the events say except the question and the calls."""
    deltas = [event["text"] for event in events if event["type"] == "delta"]
    return json.dumps([*deltas, told([event for event in events if event["type"] == "final"])])


@pytest.mark.parametrize(
    "agent_id", ["routing-tagged", "routing-tagged-as-in-langgraph", "routing-untold", "routing-nodes"]
)
async def test_a_routers_text_is_hidden_by_its_tag_or_its_node(server: RunningServer, agent_id: str) -> None:
    events = await ask(server.address, "my bill?", agent_id=agent_id)
    assert told(events) == [("thought", "Let me see."), ("final", ANSWER)]
    assert "billing" not in texts_in(events)
    assert [event["text"] for event in events if event["type"] == "delta"], "the answer streams"
    async with plain_http(base_url=server.address) as client:
        stored = await client.get(f"/agentic/v1/sessions/{events[0]['session_id']}/messages")
    assert "billing" not in stored.text


async def test_where_every_node_is_held_back_the_final_is_empty(server: RunningServer) -> None:
    events = await ask(server.address, "my bill?", agent_id="routing-nowhere")
    assert told(events) == [("final", "")]


async def test_final_only_shows_no_text_before_the_final(server: RunningServer) -> None:
    events = await ask(server.address, "my bill?", agent_id="routing-final")
    assert told(events) == [("final", ANSWER)]
    assert [event["type"] for event in events if event["type"] == "delta"] == []
    assert ROUTE not in str(events)


GUARDED = [
    ("replacing", "I can't say that."),
    ("removing", "I can't say that."),
    ("removing-only", ""),
]


@pytest.mark.parametrize(("agent_id", "said"), GUARDED)
async def test_what_a_guard_replaces_or_removes_is_never_shown_nor_stored(
    server: RunningServer, agent_id: str, said: str
) -> None:
    async with chat(server.address) as tab, plain_http(base_url=server.address) as client:
        opened = await client.post("/agentic/v1/sessions", json={"agent_id": agent_id})
        session_id = opened.json()["id"]
        await tab.send({"type": "follow", "session_id": session_id})
        await tab.until("idle")
        events = await ask(server.address, "tell me", session_id=session_id)
        assert told(events) == [("tool_call", "look"), ("tool_result", "seen"), ("final", said)]
        await tab.until("final")
        async with client.stream(
            "POST", f"/agentic/v1/sessions/{session_id}/messages", json={"content": "again"}
        ) as answer:
            streamed = [line async for line in answer.aiter_lines()]
        stored = (await client.get(f"/agentic/v1/sessions/{session_id}/messages")).text
    assert said in stored
    assert any(line.startswith("event: final") for line in streamed)
    for way in (events, tab.events, streamed, stored):
        assert "Zorblax" not in str(way) and "draft" not in str(way)


async def test_the_classic_form_shows_nothing_of_it_either(server: RunningServer) -> None:
    received: list[dict[str, Any]] = []
    async with connect(server.address.replace("http", "ws", 1) + PATH) as socket:
        await socket.send(json.dumps({"message": "tell me", "agent_id": "replacing"}))
        while not received or received[-1]["type"] != "final":
            received.append(json.loads(await socket.recv()))
    assert "I can't say that." in str(received)
    assert "Zorblax" not in str(received)


async def test_messages_that_are_written_anew_are_no_removal(server: RunningServer) -> None:
    assert final_text(await ask(server.address, "tell me", agent_id="rewriting")) == SECRET


async def test_a_guard_that_asks_a_person_wins_after_the_pause_too(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "tell me", "agent_id": "asking"})
        waiting = await client.until("awaiting_human")
        [request] = waiting["payload"]["requests"]
        answers = {request["interrupt_id"]: "no"}
        ids = {name: waiting[name] for name in ("session_id", "exchange_id")}
        await client.send({"type": "human_resume", **ids, "payload": {"answers": answers}})
        await client.until("final")
        events = [event for event in client.events if "seq" in event]
    check_exchange([event for event in events if event["type"] != "awaiting_human"])
    assert told(events) == [("tool_call", "look"), ("tool_result", "seen"), ("final", "I can't say that.")]
    assert "Zorblax" not in str(events)


async def test_what_was_not_checked_is_not_shown_when_it_is_stopped(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "tell me", "agent_id": "slow"})
        started = await client.until("started")
        await client.until("stream")
        await client.send({"type": "stop", "session_id": started["session_id"]})
        final = await client.until("final")
    assert final["status"] == "stopped"
    assert "Zorblax" not in str(client.events)


async def test_final_only_shows_emitted_parts_with_the_final(server: RunningServer) -> None:
    events = await ask(server.address, "how many?", agent_id="emitting")
    streamed = [event["message"]["channel"] for event in events if event["type"] == "stream" and EMITTED in str(event)]
    assert streamed == ["final"]
    [_, final] = events[-1]["messages"]
    assert [part.get("text") or part["code"] for part in final["parts"]] == ["Seven.", EMITTED, "SELECT 7"]


async def test_final_only_shows_no_emitted_parts_of_a_graph_that_fails_or_is_stopped(server: RunningServer) -> None:
    async with chat(server.address) as client:
        failed = await client.ask("how many?", agent_id="emitting-failing")
        assert failed[-1]["status"] == "error"
        await client.send({"message": "how many?", "agent_id": "emitting-hanging"})
        started = await client.until("started")
        await client.send({"type": "stop", "session_id": started["session_id"]})
        stopped = await client.until("final")
        assert stopped["status"] == "stopped"
        async with plain_http(base_url=server.address) as reader:
            for session_id in (failed[0]["session_id"], started["session_id"]):
                assert EMITTED not in (await reader.get(f"/agentic/v1/sessions/{session_id}/messages")).text
        assert EMITTED not in str(client.events)


async def test_parts_that_are_emitted_beside_a_text_are_removed_with_it(server: RunningServer) -> None:
    events = await ask(server.address, "tell me", agent_id="emitting-beside")
    assert final_text(events).startswith("I can't say that.")
    assert "Zorblax" not in str(events) and "beside the secret" not in str(events)


async def test_only_the_shown_nodes_emit_parts(server: RunningServer) -> None:
    events = await ask(server.address, "how many?", agent_id="emitting-nodes")
    assert EMITTED not in str(events)
    assert "SELECT 7" in str(events)
