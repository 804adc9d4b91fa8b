"""Workflows of the functional API are served as graphs are, where their input has messages."""

from pathlib import Path

import pytest
from graphs.talk import ask, told
from graphs.workflows import effects
from support.chat_client import chat, check_exchange, final_text
from support.running_server import RunningServer, running_server

NAMES = ["message", "text", "message_as_text", "mapping", "typed", "model", "data", "remembering", "made"]
NAMES += ["perhaps", "messages_of_langgraph", "based_model", "based_data"]
OTHERS = ["counting", "hoarding", "with_tools", "asking", "structured", "single"]
AGENTS = [{"id": name, "class_path": f"graphs.workflows:{name}"} for name in [*NAMES, *OTHERS]]


SHOWN = '{"length":3}'
"""What `structured` answers to the third message of a session."""


@pytest.mark.parametrize("agent_id", NAMES)
async def test_a_workflow_streams_its_answer_and_knows_what_was_said(tmp_path: Path, agent_id: str) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server:
        events = await ask(server.address, "my name is Zorblax", agent_id=agent_id)
        session_id = events[0]["session_id"]
        assert told(events) == [("final", "Nice to meet you, Zorblax! I will remember your name.")]
        deltas = [event["text"] for event in events if event["type"] == "delta"]
        assert "".join(deltas) == final_text(events)
        assert (
            final_text(await ask(server.address, "what is my name?", session_id=session_id)) == "Your name is Zorblax."
        )
    async with running_server(tmp_path, agents=AGENTS) as server:
        assert (
            final_text(await ask(server.address, "what is my name?", session_id=session_id)) == "Your name is Zorblax."
        )
        alone = await ask(server.address, "what is my name?", agent_id=agent_id, mode="query")
        assert "Zorblax" not in final_text(alone)


async def test_what_a_workflow_saves_is_there_in_the_next_exchange_of_its_session(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server:
        events = await ask(server.address, "go", agent_id="counting")
        session_id = events[0]["session_id"]
        assert final_text(events) == "1: 1 given"
        assert final_text(await ask(server.address, "go", session_id=session_id)) == "2: 1 given"
        assert final_text(await ask(server.address, "go", agent_id="counting")) == "1: 1 given"
    async with running_server(tmp_path, agents=AGENTS) as server:
        assert final_text(await ask(server.address, "go", session_id=session_id)) == "3: 1 given"


async def test_a_workflow_whose_memory_was_too_large_to_keep_is_given_the_conversation_again(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server:
        events = await ask(server.address, "one", agent_id="hoarding")
        session_id = events[0]["session_id"]
        assert final_text(events) == "False ['one']"
        second = await ask(server.address, "hoard", session_id=session_id)
        assert final_text(second) == "True ['hoard']"
        third = await ask(server.address, "three", session_id=session_id)
        said = ["one", "False ['one']", "hoard", "True ['hoard']", "three"]
        assert final_text(third) == f"False {said}"
    async with running_server(tmp_path, agents=AGENTS) as server:
        assert final_text(await ask(server.address, "four", session_id=session_id)) == "True ['four']"


async def test_a_workflow_is_given_what_was_said_in_an_exchange_that_failed(server: RunningServer) -> None:
    session_id = (await ask(server.address, "one", agent_id="hoarding"))[0]["session_id"]
    async with chat(server.address) as client:
        failed = await client.ask("fail", session_id=session_id)
    assert failed[-1]["status"] == "error"
    third = final_text(await ask(server.address, "three", session_id=session_id))
    assert third.startswith("True ['fail', ") and third.endswith("'three']") and "'one'" not in third


async def test_a_workflow_is_given_what_another_agent_has_answered_since(server: RunningServer) -> None:
    events = await ask(server.address, "one", agent_id="hoarding")
    session_id = events[0]["session_id"]
    await ask(server.address, "go", session_id=session_id, agent_id="structured")
    third = await ask(server.address, "three", session_id=session_id, agent_id="hoarding")
    assert final_text(third) == f"True {['go', SHOWN, 'three']}"


async def test_tasks_show_their_calls_and_results(server: RunningServer) -> None:
    events = await ask(server.address, "go", agent_id="with_tools")
    assert told(events) == [
        ("observation", "Let me see."),
        ("tool_call", "add"),
        ("tool_result", "3"),
        ("final", "It is 3."),
    ]


async def test_a_task_may_ask_a_person_and_what_had_ended_is_not_done_again(tmp_path: Path) -> None:
    effects.clear()
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        await client.send({"message": "go", "agent_id": "asking"})
        waiting = await client.until("awaiting_human")
    [request] = waiting["payload"]["requests"]
    assert request["question"] == "Sure?"
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        place = {name: waiting[name] for name in ("session_id", "exchange_id")}
        await client.send({"type": "human_resume", **place, "payload": {"answers": {request["interrupt_id"]: "yes"}}})
        assert final_text([await client.until("final")]) == "prepared yes"
    assert effects == ["prepared"]


async def test_a_value_without_messages_is_answered_as_json(server: RunningServer) -> None:
    assert final_text(await ask(server.address, "go", agent_id="structured")) == '{"length":1}'


async def test_a_workflow_without_messages_says_what_it_needs(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("go", agent_id="single")
    check_exchange(events)
    assert events[-1]["error"]["code"] == "agent_unavailable" and "takes no messages" in events[-1]["error"]["content"]
