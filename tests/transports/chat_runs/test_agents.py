"""Agents within one graph: who speaks, who hands over, and text that comes as it is written."""

from pathlib import Path

from graphs.catalog import AGENTS
from graphs.test_swarm import SUMMARY, WORK
from support.run_client import only, run, run_client, text_of_run
from support.running_server import running_server


async def test_a_handoff_is_told_and_the_second_agent_answers_word_by_word(tmp_path: Path) -> None:
    slow = {"models": {"default": {"model": "offline", "options": {"words_per_second": 50}}}}
    async with running_server(tmp_path, agents=AGENTS, settings=slow) as server, run_client(server.address) as http:
        events = await run(http, WORK, agentId="swarm")
    assert [event["agentName"] for event in only(events, "agent_switch")] == ["alice", "bob"]
    assert [(event["from"], event["to"]) for event in only(events, "handoff")] == [("alice", "bob")]
    assert [event["name"] for event in only(events, "tool_end")] == ["transfer_to_bob", "shout"]
    assert text_of_run(events) == SUMMARY
    answer = events[events.index(only(events, "tool_end")[-1]) :]
    assert len(only(answer, "text_delta")) > 1 and not any(event.get("replaces") for event in answer)
