"""What every graph gets from the server without a change: streams, memory, stop, several people at once."""

import asyncio
from pathlib import Path

import pytest
from graphs.catalog import AGENTS, GRAPHS
from support.chat_client import ChatClient, chat, check_exchange, final_text
from support.further_cases import further
from support.running_server import RunningServer, running_server

every_graph = pytest.mark.parametrize("agent_id", GRAPHS)
# One of each make: tools, models and graphs beside or within one another, a state of its own, a node that blocks.
MAKES = [
    *("parallel-tools", "parallel-models", "nested-private", "supervisor-last-message", "swarm", "deep-agent"),
    *("own-state", "blocking"),
]
each_make = pytest.mark.parametrize("agent_id", [name if name in MAKES else further(name) for name in GRAPHS])


async def tell_name(client: ChatClient, agent_id: str, name: str) -> str:
    """Tell the agent the name in a new session; the session's id."""
    events = await client.ask(f"my name is {name}", agent_id=agent_id)
    check_exchange(events)
    assert final_text(events) == f"Nice to meet you, {name}! I will remember your name."
    session_id: str = events[0]["session_id"]
    return session_id


async def knows_name(client: ChatClient, session_id: str, name: str) -> None:
    """The agent knows the name in a later exchange of the session."""
    events = await client.ask("what is my name?", session_id=session_id)
    check_exchange(events)
    assert final_text(events) == f"Your name is {name}."


@every_graph
async def test_the_answer_streams_before_its_final(server: RunningServer, agent_id: str) -> None:
    async with chat(server.address) as client:
        events = await client.ask("write 50 words", agent_id=agent_id)
    check_exchange(events)
    assert events[-1]["status"] == "ok"
    [answer] = [e for e in events if e["type"] == "stream" and e["message"] == events[-1]["messages"][-1]]
    deltas = [event for event in events if event["type"] == "delta" and event["block"] == answer["block"]]
    assert "".join(delta["text"] for delta in deltas) == final_text(events)
    assert len(final_text(events).split()) == 50


@every_graph
async def test_memory_goes_on_and_survives_an_eviction_and_a_restart(tmp_path: Path, agent_id: str) -> None:
    settings = {"agents": {"cache_size": 1}}
    async with running_server(tmp_path, agents=AGENTS, settings=settings) as server, chat(server.address) as client:
        session_id = await tell_name(client, agent_id, "Zorblax")
        await knows_name(client, session_id, "Zorblax")
        await tell_name(client, agent_id, "Somebody")
        await knows_name(client, session_id, "Zorblax")
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        await knows_name(client, session_id, "Zorblax")


@each_make
async def test_after_a_stop_in_the_middle_the_session_goes_on(server: RunningServer, agent_id: str) -> None:
    async with chat(server.address) as client:
        session_id = await tell_name(client, agent_id, "Zorblax")
        began = len(client.events)
        await client.send({"message": "count down slowly from 500", "session_id": session_id})
        await client.until("delta")
        await client.send({"type": "stop", "session_id": session_id})
        final = await client.until("final")
        check_exchange([event for event in client.events[began:] if event.get("exchange_id") == final["exchange_id"]])
        assert final["status"] == "stopped"
        await knows_name(client, session_id, "Zorblax")


@each_make
async def test_people_who_talk_at_the_same_time_never_hear_each_other(server: RunningServer, agent_id: str) -> None:
    async def talk(name: str) -> None:
        async with chat(server.address) as client:
            session_id = await tell_name(client, agent_id, name)
            for _ in range(3):
                await knows_name(client, session_id, name)
        assert {event["session_id"] for event in client.events if "seq" in event} == {session_id}

    names = ["Ada", "Grace", "Barbara", "Frances"]
    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(talk(name))
