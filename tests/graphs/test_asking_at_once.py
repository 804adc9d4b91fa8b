"""Parts of a graph that ask at the same time: each question reaches a person, and each answer its question."""

from pathlib import Path

import pytest
from graphs.asking_at_once import begin, begun
from graphs.deciding import answer, decide, entries, requests, said, waiting
from support.chat_client import ChatClient, Event, chat
from support.further_cases import each_once
from support.running_server import running_server

TOOLS = (
    "tools",
    "tools_in_threads",
    "agents_as_tools",
    "tools_in_a_function",
    "tools_in_a_plain_function",
    "graph_in_a_function",
    "graph_in_a_plain_function",
)
TASKS = ("sends", "tasks")
REFUSED = (
    "gathered",
    "begun_before",
    "in_a_group",
    "waited_for",
    "in_threads",
    "graphs",
    "tools_by_hand",
    "parallel",
    "in_a_pool",
    "workflow",
)
AGENTS = entries("asking_at_once", *TOOLS, *TASKS, *REFUSED, "one_place", "alone", "handing_over", "then_stops")
TOLD = "A: free; B: yes to B; C: yes to C"


def names(event: Event) -> dict[str, str]:
    """The ids of the questions, by whom is to be paid."""
    return {
        request["question"].removeprefix("Pay ").rstrip("?"): request["interrupt_id"] for request in requests(event)
    }


@pytest.mark.parametrize(("agent_id", "answered"), each_once([*TOOLS, *TASKS], ["BC", "CB"]))
async def test_what_asks_at_once_is_asked_at_once_and_gets_its_own_answers(
    client: ChatClient, agent_id: str, answered: str
) -> None:
    begin("CB", "BC")
    event = await waiting(client, agent_id)
    asked = names(event)
    assert sorted(asked) == ["B", "C"]
    for to in answered:
        event = await decide(client, event, **{asked[to]: f"yes to {to}"})
    assert said(client, event) == TOLD
    if agent_id in TOOLS:
        assert sorted(begun) == ["A", "B", "B", "C", "C"], "what has ended is not done again"


@pytest.mark.parametrize("agent_id", ["tools", "graph_in_a_plain_function", "tasks"])
async def test_each_gets_its_own_answer_on_another_server(tmp_path: Path, agent_id: str) -> None:
    begin("CB", "BC")
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        asked = names(event := await waiting(client, agent_id))
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        event = await decide(client, event, **{asked["C"]: "yes to C"})
        assert event["type"] == "awaiting_human"
    async with running_server(tmp_path, agents=AGENTS) as server, chat(server.address) as client:
        final = await decide(client, event, **{asked["B"]: "yes to B"})
    assert (final["type"], final.get("status")) == ("final", "ok"), final
    assert TOLD in str(final["messages"])


async def test_calls_that_have_one_place_only_ask_one_after_the_other(client: ChatClient) -> None:
    begin()
    event = await waiting(client, "one_place")
    for to in "BC":
        assert list(names(event)) == [to]
        event = await answer(client, event, f"yes to {to}")
    assert said(client, event) == TOLD


@pytest.mark.parametrize("agent_id", REFUSED)
async def test_what_can_not_be_told_apart_is_refused_before_anybody_is_asked(
    client: ChatClient, agent_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    begin()
    error = await waiting(client, agent_id)
    assert (error["type"], error["code"], error["retryable"]) == ("error", "ambiguous_interrupt", False), error
    assert "'ask" in error["content"] and "asking_at_once.py:" in error["content"] and "`@task`" in error["content"]
    [refused] = {(one.function, one.node) for one in caplog.records if one.message == "interrupt refused"}
    assert refused[0].startswith("ask")


async def test_what_asks_one_after_the_other_is_asked_behind_tasks_and_threads_too(client: ChatClient) -> None:
    begin()
    event = await waiting(client, "alone")
    for to in "BCDEF":
        assert list(names(event)) == [to]
        event = await answer(client, event, to.lower())
    assert said(client, event) == "A: free; B: b; C: c; D: d; E: e; F: f"


async def test_a_graph_within_one_of_several_calls_hands_over_to_a_node_beside_the_tools(client: ChatClient) -> None:
    begin()
    assert said(client, await waiting(client, "handing_over")) == "done"


async def test_what_was_answered_is_not_asked_again_at_a_breakpoint_of_the_same_node(client: ChatClient) -> None:
    begin()
    event = await answer(client, await waiting(client, "then_stops"), "yes")
    assert [request["value"] for request in requests(event)] == [{"before": ["outer/says"]}]
    assert said(client, await answer(client, event, True)) == "B: yes; C: go"
