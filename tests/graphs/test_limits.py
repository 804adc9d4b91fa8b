"""The limits of a catalog entry: each ends the exchange with an error that says which, whatever the graph does."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from graphs.limited import entry, noted
from support.chat_client import ChatClient, Event, chat, check_exchange, final_text, text_of
from support.recorded_agents import eventually
from support.rest_client import rest, sse_events
from support.running_server import RunningServer, running_server

AGENTS = [
    entry("busy", "busy"),
    entry("tools", "busy", limits={"tool_calls": 2}),
    entry("models", "busy", limits={"model_calls": 2}),
    entry("tokens", "costly", limits={"tokens": 25}),
    entry("unreported-tokens", "busy", limits={"tokens": 40}),
    entry("by-hand-tools", "by_hand", limits={"tool_calls": 2}),
    entry("by-hand-models", "by_hand", limits={"model_calls": 3}),
    entry("catching", "catching", limits={"model_calls": 3}),
    entry("steps", "busy", limits={"steps": 6}),
    entry("own-steps", "stepping"),
    entry("other-steps", "stepping", limits={"steps": 30}),
    entry("named", "busy", limits={"steps": 6}, name="Busy bee"),
    entry("named-tools", "busy", limits={"tool_calls": 2}, name="Busy bee"),
    entry("named-endless", "endless", limits={"run_s": 1}, name="Busy bee"),
    entry("silent", "silent", limits={"silence_s": 0.5}),
    entry("speechless", "speechless", limits={"silence_s": 0.5}),
    entry("hanging-tool", "hanging_tool", limits={"tool_s": 0.5}),
    entry("hanging-beside", "hanging_beside", limits={"tool_s": 0.5}),
    entry("reporting-tool", "reporting_tool", limits={"tool_s": 1.5}),
    entry("endless", "endless", limits={"run_s": 1}),
    entry("asking", "asking", limits={"model_calls": 2}),
    entry("asking-tools", "asking", limits={"tool_calls": 2}),
    entry("asking-slowly", "asking", limits={"run_s": 1.5}),
    entry("expert", "Expert"),
    entry("bounded-expert", "Expert", limits={"model_calls": 1}),
    entry("stepping-expert", "Expert", limits={"steps": 2}),
    entry("silent-expert", "SilentExpert"),
    entry("brief-expert", "SilentExpert", limits={"run_s": 0.3}),
    entry("leader", "Leader", type="leader", crew=["expert"], limits={"tool_calls": 4}),
    entry("patient", "Leader", type="leader", crew=["bounded-expert"]),
    entry("stepping-leader", "Leader", type="leader", crew=["stepping-expert"]),
    entry("brief-leader", "Leader", type="leader", crew=["brief-expert"]),
    entry("leader-of-silence", "Leader", type="leader", crew=["silent-expert"], limits={"silence_s": 0.5}),
]


def serving(directory: Path) -> AbstractAsyncContextManager[RunningServer]:
    return running_server(directory, agents=AGENTS)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    noted.clear()
    async with serving(tmp_path) as server:
        yield server


def check_limit(events: Sequence[Event], content: str) -> None:
    """The exchange has ended with `limit_reached`, whose content is this, and keeps the contract."""
    check_exchange(list(events))
    final = events[-1]
    error = final["error"]
    assert (final["status"], error["code"], error["content"]) == ("error", "limit_reached", content)
    assert (error["whose"], error["retryable"]) == ("client", False)
    open_calls = {part["call_id"] for part in _parts(final) if part["type"] == "tool_call"}
    assert open_calls == {part["call_id"] for part in _parts(final) if part["type"] == "tool_result"}


def _parts(final: Event) -> list[dict[str, Any]]:
    return [part for message in final["messages"] for part in message["parts"]]


async def asked(server: RunningServer, message: str, agent_id: str, **fields: Any) -> list[Event]:
    async with chat(server.address) as client:
        return await client.ask(message, agent_id=agent_id, **fields)


@pytest.mark.parametrize(
    ("agent_id", "limit", "ran"),
    [
        ("tools", "tool_calls of 2", 2),
        ("models", "model_calls of 2", 2),
        ("tokens", "tokens of 25: its models used 30", 2),
        ("by-hand-tools", "tool_calls of 2", 2),
        ("by-hand-models", "model_calls of 3", 3),
        ("steps", "steps of 6: it came to no end", 3),
        ("own-steps", "steps of 9: it came to no end", 4),
    ],
)
async def test_a_busy_agent_ends_at_its_limit(server: RunningServer, agent_id: str, limit: str, ran: int) -> None:
    events = await asked(server, "work 100", agent_id)
    check_limit(events, f"The agent '{agent_id}' has reached its limit {limit}.")
    assert noted == ["ran"] * ran, "nothing ran beyond the limit"
    said = [
        text_of(message) for message in events[-1]["messages"][1:] if message["channel"] in ("observation", "final")
    ]
    assert said[:2] == ["After 0.", "After 1."], "what was said is kept"


@pytest.mark.parametrize(
    ("agent_id", "ran"),
    [("busy", 3), ("more", 3), ("by-hand", 3), ("delegating", 3), ("own-steps-within", 2), ("leader", 3)],
)
async def test_no_graph_takes_more_steps_than_the_settings_say(tmp_path: Path, agent_id: str, ran: int) -> None:
    noted.clear()
    agents = [
        entry("busy", "busy"),
        entry("more", "busy", limits={"steps": 100}),
        entry("by-hand", "by_hand"),
        entry("delegating", "delegating"),
        entry("own-steps-within", "busy", limits={"steps": 5}),
        entry("expert", "EndlessExpert"),
        entry("leader", "Leader", type="leader", crew=["expert"]),
    ]
    async with running_server(tmp_path, agents=agents, settings={"limits": {"steps": 6}}) as server:
        events = await asked(server, "work 1" if agent_id in ("leader", "delegating") else "work 100", agent_id)
    assert noted == ["ran"] * ran
    if agent_id == "leader":
        told = str([part for part in _parts(events[-1]) if part["type"] == "tool_result"])
        assert "'expert' has reached its limit steps of 6" in told
    else:
        most = 5 if agent_id == "own-steps-within" else 6
        check_limit(events, f"The agent '{agent_id}' has reached its limit steps of {most}: it came to no end.")


async def test_within_its_limits_an_agent_ends_well(server: RunningServer) -> None:
    for agent_id, message in [("tools", "2"), ("models", "1"), ("tokens", "1"), ("steps", "2"), ("other-steps", "12")]:
        events = await asked(server, message, agent_id)
        check_exchange(events)
        assert final_text(events) == f"After {message}."


async def test_the_entry_says_more_steps_than_the_graph_s_own_limit(server: RunningServer) -> None:
    check_limit(
        await asked(server, "work 100", "other-steps"),
        "The agent 'other-steps' has reached its limit steps of 30: it came to no end.",
    )


async def test_tokens_that_a_provider_does_not_report_are_estimated(server: RunningServer) -> None:
    events = await asked(server, "work 100", "unreported-tokens")
    assert events[-1]["error"]["content"].startswith(
        "The agent 'unreported-tokens' has reached its limit tokens of 40: its models used "
    )
    assert 1 <= len(noted) <= 3


async def test_a_graph_that_catches_everything_ends_at_its_limit_too(server: RunningServer) -> None:
    check_limit(
        await asked(server, "hello", "catching"), "The agent 'catching' has reached its limit model_calls of 3."
    )


async def test_each_exchange_counts_anew(server: RunningServer) -> None:
    async with chat(server.address) as client:
        first = await client.ask("work 2", agent_id="tools")
        session_id = first[0]["session_id"]
        for _ in range(2):
            assert final_text(await client.ask("work 2", session_id=session_id)) == "After 2."
        check_limit(
            await client.ask("work 3", session_id=session_id),
            "The agent 'tools' has reached its limit tool_calls of 2.",
        )
        assert final_text(await client.ask("work 1", session_id=session_id)) == "After 1.", "the session goes on"


async def test_a_silent_node_is_not_a_silent_model(server: RunningServer) -> None:
    check_limit(
        await asked(server, "hello", "silent"),
        "The agent 'silent' has reached its limit silence_s of 0.5 seconds: its node 'think' gave no sign of life.",
    )


async def test_a_silent_model_is_a_model_timeout(server: RunningServer) -> None:
    events = await asked(server, "hang forever", "speechless")
    check_exchange(events)
    assert (events[-1]["status"], events[-1]["error"]["code"]) == ("error", "model_timeout")


@pytest.mark.parametrize("agent_id", ["hanging-tool", "hanging-beside"])
async def test_a_tool_that_does_not_end_is_named_also_while_others_report(server: RunningServer, agent_id: str) -> None:
    check_limit(
        await asked(server, "work 1", agent_id),
        f"The agent '{agent_id}' has reached its limit tool_s of 0.5 seconds: the tool 'hang' did not end.",
    )


async def test_a_tool_that_gives_signs_of_life_may_take_longer(server: RunningServer) -> None:
    events = await asked(server, "work 1", "reporting-tool")
    check_exchange(events)
    assert events[-1]["status"] == "ok"


async def test_a_run_whose_client_left_ends_at_its_limit(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "hello", "agent_id": "endless"})
        started = await client.until("started")
    async with chat(server.address) as client:
        await client.send(
            {"type": "follow", "session_id": started["session_id"], "exchange_id": started["exchange_id"]}
        )
        await client.until("final")
        check_limit(client.events, "The agent 'endless' has reached its limit run_s of 1 seconds.")


async def test_a_query_has_the_same_limits(server: RunningServer) -> None:
    check_limit(
        await asked(server, "work 9", "tools", mode="query"), "The agent 'tools' has reached its limit tool_calls of 2."
    )
    check_limit(
        await asked(server, "hello", "endless", mode="query"),
        "The agent 'endless' has reached its limit run_s of 1 seconds.",
    )


async def test_an_answer_by_sse_has_the_same_limits(server: RunningServer) -> None:
    async with rest(server) as http:
        session = (await http.post("/sessions", json={"agent_id": "tools"})).json()
        path = f"/sessions/{session['id']}/messages"
        async with http.stream("POST", path, json={"content": "work 9"}) as response:
            events = [event async for event in sse_events(response)]
    check_limit(events, "The agent 'tools' has reached its limit tool_calls of 2.")


async def answer(client: ChatClient, awaiting: Event) -> None:
    answers = {one["interrupt_id"]: "yes" for one in awaiting["payload"]["requests"]}
    place = {"session_id": awaiting["session_id"], "exchange_id": awaiting["exchange_id"]}
    await client.send({"type": "human_resume", **place, "payload": {"answers": answers}})


async def answered_elsewhere(directory: Path, awaiting: Event) -> Event:
    """Answer on a new server; the pause or the end that follows."""
    async with serving(directory) as server, chat(server.address) as client:
        await answer(client, awaiting)
        while True:
            event = await client.until("awaiting_human", "final")
            if event.get("payload") != awaiting["payload"]:
                return event


@pytest.mark.parametrize(
    ("agent_id", "limit", "ran"), [("asking", "model_calls of 2", 2), ("asking-tools", "tool_calls of 2", 2)]
)
async def test_calls_count_across_pauses_and_servers(tmp_path: Path, agent_id: str, limit: str, ran: int) -> None:
    noted.clear()
    async with serving(tmp_path) as server, chat(server.address) as client:
        await client.send({"message": "work 100", "agent_id": agent_id})
        paused = await client.until("awaiting_human")
    second = await answered_elsewhere(tmp_path, paused)
    assert second["type"] == "awaiting_human", "a tool that goes on after its pause counts once"
    final = await answered_elsewhere(tmp_path, second)
    assert final["error"]["content"] == f"The agent '{agent_id}' has reached its limit {limit}."
    assert noted == ["yes"] * ran


async def test_waiting_for_a_person_is_not_running(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "work 1", "agent_id": "asking-slowly"})
        awaiting = await client.until("awaiting_human")
        await asyncio.sleep(2)
        await answer(client, awaiting)
        assert (await client.until("final"))["status"] == "ok"


async def test_what_was_interrupted_goes_on_counting(tmp_path: Path) -> None:
    noted.clear()
    agents = [entry("held", "holding", limits={"tool_calls": 3})]
    async with running_server(tmp_path, agents=agents) as server, chat(server.address) as client:
        await client.send({"message": "work 100", "agent_id": "held"})
        started = await client.until("started")
        await eventually(lambda: noted == ["began", "ran", "began"])
    async with running_server(tmp_path, agents=agents) as server, rest(server) as http:
        path = f"/exchanges/{started['exchange_id']}/resume"
        async with http.stream("POST", path, json={}) as response:
            events = [event async for event in sse_events(response)]
    check_limit(events, "The agent 'held' has reached its limit tool_calls of 3.")
    assert noted == ["began", "ran", "began", "began", "ran", "began", "ran"], "the one that was cut counts once"


async def test_what_experts_do_counts_for_their_leader(server: RunningServer) -> None:
    events = await asked(server, "work 100", "leader")
    check_limit(events, "The agent 'leader' has reached its limit tool_calls of 4.")
    assert noted == ["ran"] * 2, "a question, two notes, a question"


@pytest.mark.parametrize(
    ("leader", "limit"),
    [
        ("patient", "'bounded-expert' has reached its limit model_calls of 1."),
        ("stepping-leader", "'stepping-expert' has reached its limit steps of 2: it came to no end."),
        ("brief-leader", "'brief-expert' has reached its limit run_s of 0.3 seconds."),
    ],
)
async def test_an_expert_s_own_limit_ends_its_answer_and_the_leader_goes_on(
    server: RunningServer, leader: str, limit: str
) -> None:
    events = await asked(server, "work 1", leader)
    check_exchange(events)
    assert final_text(events) == "After 1."
    [result] = [part for part in _parts(events[-1]) if part["type"] == "tool_result" and part["ok"] is False]
    assert limit in result["content"]


async def test_a_silent_node_of_an_expert_is_named(server: RunningServer) -> None:
    check_limit(
        await asked(server, "work 1", "leader-of-silence"),
        "The agent 'leader-of-silence' has reached its limit silence_s of 0.5 seconds: "
        "its node 'think' gave no sign of life.",
    )


@pytest.mark.parametrize(
    ("agent_id", "limit"),
    [
        ("named", "steps of 6: it came to no end"),
        ("named-tools", "tool_calls of 2"),
        ("named-endless", "run_s of 1 seconds"),
    ],
)
async def test_people_are_told_the_name_of_the_agent_that_has_reached_a_limit(
    server: RunningServer, agent_id: str, limit: str
) -> None:
    check_limit(await asked(server, "work 100", agent_id), f"The agent 'Busy bee' has reached its limit {limit}.")
