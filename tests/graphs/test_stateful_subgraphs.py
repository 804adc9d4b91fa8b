"""Subgraphs that are compiled with `checkpointer=True` keep their memory within the session."""

from pathlib import Path
from typing import Any

import pytest
from graphs.talk import ask, told
from support.chat_client import Event, chat, check_exchange, final_text
from support.rest_client import rest
from support.running_server import RunningServer, running_server

NAMES = ["counting", "forgetting", "nested", "agent", "tooled"]
AGENTS = [{"id": name, "class_path": f"graphs.stateful:{name}"} for name in NAMES]


async def failing(server: RunningServer, message: str, **fields: Any) -> Event:
    async with chat(server.address) as client:
        events = await client.ask(message, **fields)
    check_exchange(events)
    assert events[-1]["status"] == "error"
    return events[0]


@pytest.mark.parametrize("agent_id", ["counting", "nested"])
async def test_a_subgraph_goes_on_with_its_memory_warm_and_cold(tmp_path: Path, agent_id: str) -> None:
    settings = {"agents": {"cache_size": 1}}
    async with running_server(tmp_path, agents=AGENTS, settings=settings) as server:
        first = await ask(server.address, "one", agent_id=agent_id)
        session_id = first[0]["session_id"]
        assert final_text(first) == "1 ['one']"
        assert final_text(await ask(server.address, "two", session_id=session_id)) == "2 ['one', 'two']"
        assert final_text(await ask(server.address, "one", agent_id=agent_id)) == "1 ['one']", "another session"
        assert final_text(await ask(server.address, "three", session_id=session_id)) == "3 ['one', 'two', 'three']"
        assert final_text(await ask(server.address, "one", agent_id=agent_id, mode="query")) == "1 ['one']"
    async with running_server(tmp_path, agents=AGENTS) as server:
        fourth = final_text(await ask(server.address, "four", session_id=session_id))
    assert fourth == "4 ['one', 'two', 'three', 'four']"


async def test_a_subgraph_without_a_memory_of_its_own_begins_anew(server: RunningServer) -> None:
    session_id = (await ask(server.address, "one", agent_id="forgetting"))[0]["session_id"]
    assert final_text(await ask(server.address, "two", session_id=session_id)) == "1 ['two']"


async def test_an_agent_as_such_a_subgraph_remembers_what_it_was_told(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server:
        session_id = (await ask(server.address, "my name is Zorblax", agent_id="agent"))[0]["session_id"]
    async with running_server(tmp_path, agents=AGENTS) as server:
        events = await ask(server.address, "what is my name?", session_id=session_id)
    assert told(events) == [("final", "Your name is Zorblax.")]


async def test_a_subgraph_within_a_tool_keeps_its_memory(server: RunningServer) -> None:
    session_id = (await ask(server.address, "go", agent_id="tooled"))[0]["session_id"]
    events = await ask(server.address, "go", session_id=session_id)
    assert ("tool_result", "2 ['w0', 'w1']") in told(events)


async def test_the_memory_is_as_the_last_exchange_left_it_also_if_that_failed(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server:
        session_id = (await ask(server.address, "one", agent_id="counting"))[0]["session_id"]
        await failing(server, "fail", session_id=session_id)
    async with running_server(tmp_path, agents=AGENTS) as server:
        assert final_text(await ask(server.address, "two", session_id=session_id)) == "2 ['one', 'fail', 'two']"


async def test_a_subgraph_that_asks_a_person_goes_on_with_its_memory(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        session_id = (await client.ask("one", agent_id="counting"))[0]["session_id"]
        await client.send({"message": "ask", "session_id": session_id})
        waiting = await client.until("awaiting_human")
    [request] = waiting["payload"]["requests"]
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        place = {name: waiting[name] for name in ("session_id", "exchange_id")}
        await client.send({"type": "human_resume", **place, "payload": {"answers": {request["interrupt_id"]: "yes"}}})
        assert final_text([await client.until("final")]) == "2 ['one', 'ask', 'yes']"
        assert final_text(await client.ask("two", session_id=session_id)) == "3 ['one', 'ask', 'yes', 'two']"


async def test_a_question_that_was_stopped_is_not_asked_again(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "ask", "agent_id": "counting"})
        waiting = await client.until("awaiting_human")
        await client.send({"type": "stop", "session_id": waiting["session_id"]})
        await client.until("final")
        events = await client.ask("two", session_id=waiting["session_id"])
    assert final_text(events).endswith("'two']")


async def test_a_reset_of_the_state_begins_the_memory_anew(server: RunningServer) -> None:
    session_id = (await ask(server.address, "one", agent_id="counting"))[0]["session_id"]
    async with rest(server) as http:
        assert (await http.delete(f"/sessions/{session_id}/state")).is_success
    assert final_text(await ask(server.address, "two", session_id=session_id)) == "1 ['two']"
