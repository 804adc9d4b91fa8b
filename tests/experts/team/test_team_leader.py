"""The shipped leader and its crew over a real socket, answered by the offline model."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from graphs.talk import ask, moves, told
from support.chat_client import Event, chat, check_exchange, final_text
from support.phrase_model import RECITE
from support.rest_client import rest
from support.running_server import RunningServer, running_server
from support.shipped_agents import BESIDE_THE_ASSISTANT, GRAPH_LEADER, RECITING

BOTH = "Is the server healthy, and what do the documents say about close codes?"
LEADER = "agentic_backend.experts.team.team_leader:TeamLeader"
HEALTHY = "The server is alive and ready."


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=[*BESIDE_THE_ASSISTANT, RECITING, GRAPH_LEADER]) as server:
        yield server


def results(events: list[Event]) -> list[tuple[bool, str]]:
    parts = [message["parts"][0] for message in events[-1]["messages"] if message["channel"] == "tool_result"]
    return [(part["ok"], part["content"]) for part in parts]


def kept_within(server: RunningServer) -> list[tuple[str]]:
    """The agents of the stored messages that an expert kept to itself, which doesn't show on the wire."""
    sql = "SELECT metadata ->> '$.extras.agent' FROM messages WHERE inner IS NOT NULL ORDER BY rank"
    with closing(sqlite3.connect(server.data / "chat.sqlite3")) as db:
        return db.execute(sql).fetchall()


async def test_it_asks_the_sentinel(server: RunningServer) -> None:
    events = await ask(server.address, "Is the server healthy?", agent_id="team")
    assert told(events) == [
        ("tool_call", "ask_sentinel"),
        ("tool_call", "server_health"),
        ("tool_result", HEALTHY),
        ("observation", HEALTHY),
        ("tool_result", HEALTHY),
        ("final", f"**sentinel** says:\n\n{HEALTHY}"),
    ]
    assert moves(events, "handoff") == [("team", "sentinel"), ("sentinel", "team")]
    assert moves(events, "agent_switch") == [("team", "sentinel"), ("sentinel", "team")]
    assert await asyncio.to_thread(kept_within, server) == [("sentinel",), ("sentinel",)]


async def test_it_asks_documentation_whose_words_stream_and_whose_sources_are_shown(server: RunningServer) -> None:
    events = await ask(server.address, "Search the documents for close codes", agent_id="team")
    assert moves(events, "handoff") == [("team", "documentation"), ("documentation", "team")]
    [observation] = [event for event in events if event.get("message", {}).get("channel") == "observation"]
    deltas = [event for event in events if event["type"] == "delta" and event["block"] == observation["block"]]
    assert deltas
    assert {event["channel"] for event in deltas} == {"observation"}
    links = [part for message in events[-1]["messages"] for part in message["parts"] if part["type"] == "link"]
    assert (links[0]["kind"], links[0]["file_name"]) == ("citation", "chat-protocol.md")
    assert final_text(events).startswith("**documentation** says:\n\nThis is what the documents say:")


async def test_it_asks_both_at_once_and_gives_one_answer(server: RunningServer) -> None:
    events = await ask(server.address, BOTH, agent_id="team")
    handoffs = moves(events, "handoff")
    assert sorted(handoffs[:2]) == [("team", "documentation"), ("team", "sentinel")], "both before an answer"
    assert sorted(handoffs[2:]) == [("documentation", "team"), ("sentinel", "team")]
    assert told(events)[1] == ("tool_call", "ask_sentinel, ask_documentation")
    assert [channel for channel, _ in told(events)].count("final") == 1
    assert HEALTHY in final_text(events)
    assert "Chat Protocol v2" in final_text(events)


async def test_an_expert_that_fails_is_a_failed_result_and_the_others_are_heard(server: RunningServer) -> None:
    events = await ask(server.address, "Ask documentation: fail at once. Is the server healthy?", agent_id="team")
    assert sorted(results(events)) == [
        (False, "The agent 'documentation' failed."),
        (True, HEALTHY),
        (True, HEALTHY),
    ]
    assert final_text(events) == (
        f"The tool `ask_documentation` failed: The agent 'documentation' failed.\n\n**sentinel** says:\n\n{HEALTHY}"
    )


async def test_an_expert_without_a_name_of_its_own_is_called_by_its_id(tmp_path: Path) -> None:
    service = {"id": "service", "type": "leader", "crew": ["plain-chat"], "class_path": LEADER}
    async with running_server(tmp_path, agents=[*BESIDE_THE_ASSISTANT, service]) as server:
        events = await ask(server.address, "Ask plain-chat: echo hello", agent_id="service")
    assert moves(events, "agent_switch") == [("service", "plain-chat"), ("plain-chat", "service")]
    assert told(events)[1] == ("observation", "hello")


async def test_the_thoughts_of_an_expert_are_shown(server: RunningServer) -> None:
    events = await ask(server.address, "Ask documentation: think about fish", agent_id="team")
    channels = [channel for channel, _ in told(events)]
    assert channels == ["tool_call", "thought", "observation", "tool_result", "final"]
    assert any(event["type"] == "delta" and event["channel"] == "thought" for event in events)


async def test_stopped_in_the_middle_of_an_experts_answer_it_can_be_asked_again(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "Ask documentation: count down slowly from 500", "agent_id": "team"})
        counting = await client.until("delta")
        await client.send({"type": "stop", "exchange_id": counting["exchange_id"]})
        final = await client.until("final")
        check_exchange([event for event in client.events if event.get("exchange_id") == final["exchange_id"]])
        assert final["status"] == "stopped"
        assert [ok for ok, _ in results([final])] == [False]
        again = await client.ask("Is the server healthy?", session_id=final["session_id"])
    check_exchange(again)
    assert HEALTHY in final_text(again)


async def test_it_remembers_questions_and_answers_and_not_how_they_were_found(tmp_path: Path) -> None:
    agents = [*BESIDE_THE_ASSISTANT, RECITING]
    question = "Is the server healthy"
    expected = (
        f"human: {question}?\n"
        f"ai: [ask_sentinel(question='{question}')]\n"
        f"tool ask_sentinel: {HEALTHY}\n"
        f"ai: **sentinel** says:\n\n{HEALTHY}"
    )
    async with running_server(tmp_path, agents=agents) as server:
        events = await ask(server.address, f"{question}?", agent_id="reciting")
        session_id = events[0]["session_id"]
        warm = final_text(await ask(server.address, RECITE, session_id=session_id))
        again = await ask(server.address, f"{question}?", session_id=session_id)
    async with running_server(tmp_path, agents=agents) as server:
        restarted = final_text(await ask(server.address, RECITE, session_id=session_id))
    assert warm == expected
    assert results(again) == results(events)
    assert restarted.startswith(f"{expected}\n")
    assert restarted.endswith(expected)


async def test_whoever_may_use_a_leader_is_answered_by_its_experts(tmp_path: Path) -> None:
    agents = [
        {**entry, "access": {"roles": ["operator"]}} if entry["id"] == "sentinel" else entry
        for entry in BESIDE_THE_ASSISTANT
    ]
    async with running_server(tmp_path, agents=agents) as server:
        async with chat(server.address) as client:
            [refused] = await client.ask("Is the server healthy?", agent_id="sentinel")
        assert refused["code"] == "forbidden"
        assert HEALTHY in final_text(await ask(server.address, "Is the server healthy?", agent_id="team"))


async def test_a_leader_may_delegate_by_a_graph_whose_nodes_are_its_crew(server: RunningServer) -> None:
    text = "search the documents for documentation of agents"
    events = await ask(server.address, text, agent_id="router")
    assert [channel for channel, _ in told(events)] == ["tool_call", "tool_result", "final"]
    assert moves(events, "handoff") == [("router", "documentation")]
    assert moves(events, "agent_switch") == [("router", "documentation")]
    again = await ask(server.address, "plain-chat, echo what did I say first?", session_id=events[0]["session_id"])
    assert moves(again, "agent_switch") == [("router", "plain-chat")]


async def test_people_are_told_the_names_of_agents_also_after_a_reload(server: RunningServer) -> None:
    events = await ask(server.address, "Is the server healthy?", agent_id="team")
    live = [(event["kind"], event["data"]) for event in events if event["type"] == "activity"]
    to = {"from": "team", "to": "sentinel", "from_name": "Team", "to_name": "Sentinel"}
    back = {"from": "sentinel", "to": "team", "from_name": "Sentinel", "to_name": "Team"}
    assert live == [("handoff", to), ("agent_switch", to), ("handoff", back), ("agent_switch", back)]
    async with rest(server) as http:
        [exchange] = (await http.get(f"/sessions/{events[0]['session_id']}/exchanges")).json()["exchanges"]
    assert [(one["kind"], one["data"]) for one in exchange["activities"]] == live
