"""deepagents: files and todos survive, and what a sub-agent does within its tool stays with it."""

from pathlib import Path

from graphs.catalog import AGENTS
from graphs.talk import ask, moves, stop_at, told
from support.chat_client import final_text
from support.phrase_model import RECITE
from support.running_server import RunningServer, running_server

WRITE = 'call write_file(file_path="/a.txt", content="hello")'
READ = 'call read_file(file_path="/a.txt")'
PLAN = 'call write_todos(todos=[{"content": "dig", "status": "pending"}])'
DELEGATE = 'call task(description="call dig(place=\\"the garden\\")", subagent_type="researcher")'
FOUND = "The tool `dig` answered:\n\nFound a coin in the garden"


async def test_a_sub_agent_works_within_its_tool(server: RunningServer) -> None:
    events = await ask(server.address, DELEGATE, agent_id="deep-agent")
    assert told(events) == [
        ("tool_call", "task"),
        ("tool_call", "dig"),
        ("tool_result", "Found a coin in the garden"),
        ("observation", FOUND),
        ("tool_result", FOUND),
        ("final", f"The tool `task` answered:\n\n{FOUND}"),
    ]
    assert moves(events, "agent_switch") == [("deep-agent", "researcher"), ("researcher", "deep-agent")]
    [spoken] = [e for e in events if e["type"] == "stream" and e["message"]["channel"] == "observation"]
    assert {e["channel"] for e in events if e["type"] == "delta" and e["block"] == spoken["block"]} == {"observation"}


async def test_what_a_sub_agent_did_is_not_given_to_the_agent_again(tmp_path: Path) -> None:
    conversation = (
        f"human: {DELEGATE}\n"
        """ai: [task(description='call dig(place="the garden")', subagent_type='researcher')]\n"""
        f"tool task: {FOUND}\n"
        f"ai: The tool `task` answered:\n\n{FOUND}"
    )
    async with running_server(tmp_path, agents=AGENTS) as server:
        session_id = (await ask(server.address, DELEGATE, agent_id="deep-agent"))[0]["session_id"]
        assert final_text(await ask(server.address, RECITE, session_id=session_id)) == conversation
    async with running_server(tmp_path, agents=AGENTS) as server:
        assert final_text(await ask(server.address, RECITE, session_id=session_id)).startswith(conversation)


async def test_two_sub_agents_at_once_are_told_apart(server: RunningServer) -> None:
    other = DELEGATE.replace("the garden", "the cellar")
    events = await ask(server.address, f"{DELEGATE} and {other}", agent_id="deep-agent")
    messages = told(events)
    assert messages.count(("tool_call", "dig")) == 2
    for place in ("the garden", "the cellar"):
        found = f"The tool `dig` answered:\n\nFound a coin in {place}"
        assert messages.index(("observation", found)) < messages.index(("tool_result", found))


async def test_files_and_todos_survive_an_eviction_and_a_restart(tmp_path: Path) -> None:
    settings = {"agents": {"cache_size": 1}}
    async with running_server(tmp_path, agents=AGENTS, settings=settings) as server:
        session_id = (await ask(server.address, f"{WRITE} and {PLAN}", agent_id="deep-agent"))[0]["session_id"]
        assert "hello" in final_text(await ask(server.address, READ, session_id=session_id))
        assert "hello" not in final_text(await ask(server.address, READ, agent_id="deep-agent"))
        assert "hello" in final_text(await ask(server.address, READ, session_id=session_id))
    async with running_server(tmp_path, agents=AGENTS) as server:
        assert "hello" in final_text(await ask(server.address, READ, session_id=session_id))
        assert "dig: pending" in final_text(await ask(server.address, "call show_todos()", session_id=session_id))


async def test_a_file_that_was_written_before_a_stop_is_there_after_it(server: RunningServer) -> None:
    final = await stop_at(server.address, "tool_result", WRITE, "slow-deep-agent", then="delta")
    assert "hello" in final_text(await ask(server.address, READ, session_id=final["session_id"]))


async def test_a_stop_within_a_sub_agent_leaves_the_agent_its_own_call(server: RunningServer) -> None:
    delegate = 'call task(description="call dig_deeper()", subagent_type="researcher")'
    final = await stop_at(server.address, "tool_call", delegate, "deep-agent", count=2)
    assert [message["channel"] for message in final["messages"]].count("tool_result") == 2
    recited = final_text(await ask(server.address, RECITE, session_id=final["session_id"])).splitlines()
    assert [line.partition(":")[0] for line in recited] == ["human", "ai", "tool task"]
    assert recited[-1] == "tool task: Stopped before it gave a result."
