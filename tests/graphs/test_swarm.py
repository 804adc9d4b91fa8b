"""langgraph-swarm: who is active, and what was done, survives into the next exchange."""

from pathlib import Path

from graphs.catalog import AGENTS
from graphs.talk import ask, moves, told
from support.chat_client import chat, final_text
from support.phrase_model import RECITE
from support.running_server import RunningServer, running_server

WORK = 'tell me what you do: call transfer_to_bob() and call shout(word="hey")'
SUMMARY = (
    "The tool `transfer_to_bob` answered:\n\nSuccessfully transferred to bob\n\nThe tool `shout` answered:\n\nHEY!"
)
CONVERSATION = f"""\
human: call add(a=1, b=2)
ai alice: [add(a=1, b=2)]
tool add: The sum is 3
ai alice: The tool `add` answered:

The sum is 3
human: {WORK}
ai alice: Let me look that up with `transfer_to_bob`. [transfer_to_bob()]
tool transfer_to_bob: Successfully transferred to bob
ai bob: Let me look that up with `shout`. [shout(word='hey')]
tool shout: HEY!
ai bob: {SUMMARY}"""
"""What each agent is given after both asks, whoever made the messages."""


async def work(server: RunningServer) -> str:
    """The session in which Alice has added, then handed over to Bob, who has shouted."""
    session_id: str = (await ask(server.address, "call add(a=1, b=2)", agent_id="swarm"))[0]["session_id"]
    await ask(server.address, WORK, session_id=session_id)
    return session_id


async def test_a_handoff_is_shown_and_the_second_agent_answers(server: RunningServer) -> None:
    events = await ask(server.address, WORK, agent_id="swarm")
    assert told(events) == [
        ("observation", "Let me look that up with `transfer_to_bob`."),
        ("tool_call", "transfer_to_bob"),
        ("tool_result", "Successfully transferred to bob"),
        ("observation", "Let me look that up with `shout`."),
        ("tool_call", "shout"),
        ("tool_result", "HEY!"),
        ("final", SUMMARY),
    ]
    assert moves(events, "agent_switch") == [("swarm", "alice"), ("alice", "bob")]
    assert moves(events, "handoff") == [("alice", "bob")]


async def test_the_active_agent_and_all_that_was_done_survive(tmp_path: Path) -> None:
    """Warm, after an eviction, and after a restart the second agent goes on with the same conversation."""
    settings = {"agents": {"cache_size": 1}}
    async with running_server(tmp_path, agents=AGENTS, settings=settings) as server:
        session_id = await work(server)
        warm = await ask(server.address, RECITE, session_id=session_id)
        assert moves(warm, "agent_switch") == [("swarm", "bob")]
        assert final_text(warm) == CONVERSATION
        other = await ask(server.address, RECITE, agent_id="swarm")
        assert moves(other, "agent_switch") == [("swarm", "alice")]
        evicted = await ask(server.address, "what did I say first?", session_id=session_id)
        assert moves(evicted, "agent_switch") == [("swarm", "bob")]
        assert final_text(evicted) == 'First you said: "call add(a=1, b=2)"'
    async with running_server(tmp_path, agents=AGENTS) as server:
        restarted = await ask(server.address, RECITE, session_id=session_id)
        assert moves(restarted, "agent_switch") == [("swarm", "bob")]
        assert final_text(restarted).startswith(CONVERSATION)
        back = await ask(server.address, "call transfer_to_alice()", session_id=session_id)
        assert moves(back, "handoff") == [("bob", "alice")]
        assert moves(await ask(server.address, RECITE, session_id=session_id), "agent_switch") == [("swarm", "alice")]


async def test_a_handoff_counts_though_the_exchange_is_stopped_after_it(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "call transfer_to_bob() and count down slowly from 500", "agent_id": "swarm"})
        handoff = await client.until("activity")
        while handoff["kind"] != "handoff":
            handoff = await client.until("activity")
        await client.until("activity")
        await client.send({"type": "stop", "session_id": handoff["session_id"]})
        await client.until("final")
    events = await ask(server.address, RECITE, session_id=handoff["session_id"])
    assert moves(events, "agent_switch") == [("swarm", "bob")]
    assert "tool transfer_to_bob: Successfully transferred to bob" in final_text(events)


async def test_another_agent_in_the_same_session_gets_nothing_of_the_swarms_state(server: RunningServer) -> None:
    session_id = await work(server)
    await ask(server.address, "hello", session_id=session_id, agent_id="own-state")
    events = await ask(server.address, RECITE, session_id=session_id)
    assert moves(events, "agent_switch") == [("swarm", "bob")]
