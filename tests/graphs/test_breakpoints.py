"""`interrupt_before` and `interrupt_after` pause an exchange: a person lets the graph go on, or ends it."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from graphs.deciding import answer, entries, only, requests, said, waiting
from support.approval_agents import calls
from support.chat_client import ChatClient, Event, chat, check_exchange
from support.rest_client import rest
from support.running_server import RunningServer, running_server

NAMES = (
    "before",
    "after",
    "both",
    "everywhere",
    "and_a_question",
    "nested",
    "beside_a_question",
    "within_a_node",
    "tools",
)
AGENTS = entries("breakpoints", *NAMES)


def stands_before(event: Event) -> list[str]:
    """The nodes before which the graph has paused, from the one request that says so."""
    request = only(event)
    assert request["allowed"] == ["answer"] and request["response_schema"] == {"type": "boolean"}
    nodes: list[str] = request["value"]["before"]
    assert request["question"] == f"The agent has paused before: {', '.join(nodes)}. Go on?"
    return nodes


@pytest.mark.parametrize(
    ("agent_id", "places", "text"),
    [
        ("before", [["b"]], "a b c"),
        ("after", [["c"]], "a b c"),
        ("both", [["b"], ["c"], ["__end__"]], "a b c"),
        ("everywhere", [["a"], ["b"], ["tell"]], "a b"),
        ("nested", [["sub"], ["sub/y"], ["sub/tell"]], "done"),
        ("within_a_node", [["run"], ["run"]], "x y"),
    ],
)
async def test_a_breakpoint_pauses_and_true_goes_on_also_on_another_server(
    tmp_path: Path, agent_id: str, places: list[list[str]], text: str
) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        event = await waiting(client, agent_id)
    ids = set()
    for place in places:
        assert stands_before(event) == place
        ids.add(only(event)["interrupt_id"])
        async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
            event = await answer(client, event, True)
    assert len(ids) == len(places)
    assert (event["type"], event["status"]) == ("final", "ok")
    [told] = [one for one in event["messages"] if one["role"] == "assistant" and one["channel"] == "final"]
    assert told["parts"] == [{"type": "text", "text": text}]


async def test_false_ends_the_exchange_as_stopped_and_the_session_goes_on(client: ChatClient) -> None:
    event = await waiting(client, "before")
    final = await answer(client, event, False)
    assert (final["type"], final["status"]) == ("final", "stopped")
    check_exchange([one for one in client.events if one.get("exchange_id") == final["exchange_id"]])
    await client.send({"message": "again", "session_id": event["session_id"]})
    again = await client.until("awaiting_human")
    assert stands_before(again) == ["b"]
    assert said(client, await answer(client, again, True)) == "a b c"


@pytest.mark.parametrize("given", ["yes", 1, None, {}])
async def test_only_true_and_false_answer_a_breakpoint(client: ChatClient, given: Any) -> None:
    event = await waiting(client, "before")
    assert (await answer(client, event, given))["code"] == "bad_frame"
    assert said(client, await answer(client, event, True)) == "a b c"


async def test_a_question_may_follow_a_breakpoint(client: ChatClient) -> None:
    event = await waiting(client, "and_a_question")
    assert stands_before(event) == ["b"]
    event = await answer(client, event, True)
    assert only(event)["question"] == "Really?"
    assert said(client, await answer(client, event, "yes")) == "a b: yes"


async def test_a_breakpoint_beside_a_question_is_asked_about_too(client: ChatClient) -> None:
    event = await waiting(client, "beside_a_question")
    values = [request["value"] for request in requests(event)]
    assert values == ["Why?", {"before": ["sub/y"]}]
    assert said(client, await answer(client, event, "because", True)) == "asked: because"


async def test_calls_wait_at_a_breakpoint_before_the_tools(server: RunningServer, client: ChatClient) -> None:
    event = await waiting(client, "tools", calls(("send", {"to": "ann"})))
    assert stands_before(event) == ["tools"]
    shown = [one["message"]["channel"] for one in client.events if one["type"] == "stream"]
    assert shown == ["final", "tool_call"]
    assert said(client, await answer(client, event, True)) == "sent to ann"
    event = await waiting(client, "tools", calls(("send", {"to": "bob"})))
    final = await answer(client, event, False)
    assert final["status"] == "stopped"
    [result] = [one["parts"][0] for one in final["messages"] if one["channel"] == "tool_result"]
    assert result["ok"] is False


async def test_a_stop_or_the_end_of_the_time_ends_what_stands_at_a_breakpoint(tmp_path: Path) -> None:
    settings = {"limits": {"human_timeout_s": 1}}
    async with running_server(tmp_path, agents=AGENTS, settings=settings) as server, chat(server.address) as client:
        event = await waiting(client, "before")
        await client.send({"type": "stop", "session_id": event["session_id"]})
        assert (await client.until("final"))["status"] == "stopped"
        await waiting(client, "before")
        assert (await client.until("final"))["status"] == "stopped"


async def test_a_query_does_not_wait_at_a_breakpoint(client: ChatClient) -> None:
    events = await client.ask("go", mode="query", agent_id="before")
    error = events[-1]["error"]
    assert (error["code"], error["retryable"]) == ("limit_reached", False)


async def test_a_crash_before_the_pause_is_stored_passes_no_breakpoint(tmp_path: Path) -> None:
    """The last checkpoint then stands at the breakpoint, and nobody has been asked."""
    message = calls(("send", {"to": "ann"}))
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        event = await waiting(client, "tools", message)
        data = server.data
    interrupt(data, event["exchange_id"])
    async with running_server(tmp_path, agents=AGENTS) as server, rest(server) as http, chat(server.address) as client:
        async with http.stream("POST", f"/exchanges/{event['exchange_id']}/resume", json={}) as response:
            async for line in response.aiter_lines():
                if line.startswith("data:") and json.loads(line[5:])["type"] == "awaiting_human":
                    again = json.loads(line[5:])
                    break
        assert again["exchange_id"] != event["exchange_id"]
        assert stands_before(again) == ["tools"]
        final = await answer(client, again, True)
        assert final["status"] == "ok"
        results = [one["parts"][0] for one in final["messages"] if one["channel"] == "tool_result"]
        assert [(result["ok"], result["content"]) for result in results] == [(True, "sent to ann")]


def interrupt(data: Path, exchange_id: str) -> None:
    """Leave the exchange as a server does that dies in that moment, once another one has ended it."""
    with sqlite3.connect(data / "chat.sqlite3") as db:
        db.execute(
            "UPDATE exchanges SET status = 'interrupted', pending = NULL, ended_at = started_at WHERE id = ?",
            (exchange_id,),
        )
        db.execute("UPDATE sessions SET active_exchange_id = NULL, active_owner = NULL")
