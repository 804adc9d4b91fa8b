"""Agents within one graph: who speaks, who hands over, and text that comes as it is written."""

from pathlib import Path
from typing import Any

from graphs.catalog import AGENTS
from graphs.test_swarm import SUMMARY, WORK
from langchain.agents import create_agent
from langgraph_swarm import create_swarm
from support.run_client import only, run, run_client, text_of_run
from support.running_server import running_server

from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.offline.phrases import lorem

slow_graph = create_swarm(
    [create_agent(OfflineChatModel(words_per_second=40), [], name="clerk")], default_active_agent="clerk"
).compile()
SLOW: dict[str, Any] = {"id": "slow", "class_path": f"{__name__}:slow_graph"}


async def test_a_handoff_is_told_and_the_second_agent_answers(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server, run_client(server.address) as http:
        events = await run(http, WORK, agentId="swarm")
    assert [event["agentName"] for event in only(events, "agent_switch")] == ["alice", "bob"]
    assert [(event["from"], event["to"]) for event in only(events, "handoff")] == [("alice", "bob")]
    assert [event["name"] for event in only(events, "tool_end")] == ["transfer_to_bob", "shout"]
    assert text_of_run(events) == SUMMARY


async def test_an_agent_within_the_graph_answers_as_it_writes(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[SLOW]) as server, run_client(server.address) as http:
        events = await run(http, "write 20 words", agentId="slow")
    deltas = only(events, "text_delta")
    assert text_of_run(events) == lorem(20)
    assert len(deltas) > 3 and not any(event.get("replaces") for event in deltas)
