"""Agents within and beside each other: what is shown of each, and what the next exchange is given."""

import pytest
from graphs.odd_names import NAMES
from graphs.parallel_models import WORDS, first_words_together
from graphs.talk import ask, moves, told
from support.chat_client import final_text
from support.phrase_model import RECITE
from support.running_server import RunningServer

USE = 'call inner_tool(word="x")'
USED = "The tool `inner_tool` answered:\n\ninner x"


async def test_two_subgraphs_deep_a_shared_conversation_is_the_roots(server: RunningServer) -> None:
    events = await ask(server.address, USE, agent_id="nested-shared")
    assert told(events) == [("tool_call", "inner_tool"), ("tool_result", "inner x"), ("final", USED)]
    assert moves(events, "agent_switch") == [("nested-shared", "inner")]
    recited = await ask(server.address, RECITE, session_id=events[0]["session_id"])
    assert final_text(recited) == (
        f"human: {USE}\nai inner: [inner_tool(word='x')]\ntool inner_tool: inner x\nai inner: {USED}"
    )


async def test_what_an_agent_said_within_a_node_is_shown_but_not_given_to_the_graph_again(
    server: RunningServer,
) -> None:
    events = await ask(server.address, "echo hello", agent_id="nested-private")
    assert told(events) == [
        ("tool_call", "inner_tool"),
        ("tool_result", "inner secret"),
        ("observation", "The tool `inner_tool` answered:\n\ninner secret"),
        ("observation", "Consulted, in 4 messages."),
        ("final", "hello"),
    ]
    recited = await ask(server.address, RECITE, session_id=events[0]["session_id"])
    assert final_text(recited) == "human: echo hello\nai: Consulted, in 4 messages.\nai: hello"


async def test_an_answer_that_a_node_hands_on_in_its_own_name_is_told_once(server: RunningServer) -> None:
    events = await ask(server.address, USE, agent_id="nested-copying")
    assert told(events) == [("tool_call", "inner_tool"), ("tool_result", "inner x"), ("final", USED)]
    recited = await ask(server.address, RECITE, session_id=events[0]["session_id"])
    assert final_text(recited) == f"human: {USE}\nai: {USED}"


async def test_of_a_researcher_within_a_node_the_graph_remembers_what_the_node_handed_on(server: RunningServer) -> None:
    events = await ask(server.address, "echo hello", agent_id="nested-pipeline")
    found = "The tool `inner_tool` answered:\n\ninner fact"
    assert told(events) == [
        ("tool_call", "inner_tool"),
        ("tool_result", "inner fact"),
        ("observation", found),
        ("final", "hello"),
    ]
    recited = await ask(server.address, RECITE, session_id=events[0]["session_id"])
    assert final_text(recited) == f"human: echo hello\nai: {found}\nai: hello"


async def test_a_message_in_a_short_form_is_told_once_though_it_is_handed_over_twice(server: RunningServer) -> None:
    events = await ask(server.address, "echo one", agent_id="nested-short-form")
    assert told(events) == [("observation", "Let me see."), ("final", "one")]
    events = await ask(server.address, "echo two", session_id=events[0]["session_id"])
    assert told(events) == [("observation", "Let me see."), ("final", "two")]


async def test_models_that_speak_at_the_same_time_have_a_block_each(server: RunningServer) -> None:
    with first_words_together():
        events = await ask(server.address, "echo done", agent_id="parallel-models")
    left, right = " ".join(["left"] * WORDS), " ".join(["right"] * WORDS)
    assert sorted(told(events)) == [("final", "done"), ("observation", left), ("observation", right)]
    blocks = [event["block"] for event in events if event["type"] == "delta"]
    assert blocks.index(1) < len(blocks) - 1 - blocks[::-1].index(0), "the second began before the first had ended"
    recited = final_text(await ask(server.address, RECITE, session_id=events[0]["session_id"]))
    assert sorted(recited.splitlines()) == sorted(["human: echo done", f"ai: {left}", f"ai: {right}", "ai: done"])


async def test_nodes_may_be_called_anything(server: RunningServer) -> None:
    events = await ask(server.address, "echo done", agent_id="odd-names")
    passed = [("observation", f"Passing {name}.") for name in NAMES[:-1]]
    assert told(events) == [*passed, ("final", "done")]
    assert not moves(events, "agent_switch")


@pytest.mark.parametrize("agent_id", ["odd-names", "nested-shared"])
async def test_a_conversation_is_restored_as_it_was_whoever_spoke(server: RunningServer, agent_id: str) -> None:
    session_id = (await ask(server.address, "echo one", agent_id=agent_id))[0]["session_id"]
    first = final_text(await ask(server.address, RECITE, session_id=session_id))
    assert final_text(await ask(server.address, RECITE, session_id=session_id)).startswith(f"{first}\n")
