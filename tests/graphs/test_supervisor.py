"""langgraph-supervisor in both output modes, with an agent of the functional API beside one of `create_agent`."""

from pathlib import Path

import pytest
from graphs.catalog import AGENTS
from graphs.talk import ask, moves, told
from support.chat_client import final_text
from support.phrase_model import RECITE
from support.running_server import RunningServer, running_server

TRANSFERRED = "Successfully transferred to writer"
BACK = "Successfully transferred back to supervisor"
LOOKED_UP = f"The tool `transfer_to_writer` answered:\n\n{TRANSFERRED}\n\n"
LOOKED_UP += "The tool `look_up` answered:\n\nfish means nothing"
WORK = 'call transfer_to_writer() and call look_up(word="fish")'

both_modes = pytest.mark.parametrize("agent_id", ["supervisor-last-message", "supervisor-full-history"])


@both_modes
async def test_the_work_of_an_agent_is_shown_and_the_supervisor_answers(server: RunningServer, agent_id: str) -> None:
    events = await ask(server.address, WORK, agent_id=agent_id)
    *before, (channel, _) = told(events)
    assert before == [
        ("tool_call", "transfer_to_writer"),
        ("tool_result", TRANSFERRED),
        ("tool_call", "look_up"),
        ("tool_result", "fish means nothing"),
        ("observation", LOOKED_UP),
        ("observation", "Transferring back to supervisor"),
        ("tool_call", "transfer_back_to_supervisor"),
        ("tool_result", BACK),
    ]
    assert channel == "final"
    assert moves(events, "handoff") == [("supervisor", "writer"), ("writer", "supervisor")]
    assert moves(events, "agent_switch") == [
        (agent_id, "supervisor"),
        ("supervisor", "writer"),
        ("writer", "supervisor"),
    ]


@both_modes
async def test_the_supervisor_remembers_what_its_output_mode_lets_it_see(tmp_path: Path, agent_id: str) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server:
        worked = await ask(server.address, WORK, agent_id=agent_id)
        session_id = worked[0]["session_id"]
        warm = final_text(await ask(server.address, RECITE, session_id=session_id))
    async with running_server(tmp_path, agents=AGENTS) as server:
        restarted = final_text(await ask(server.address, RECITE, session_id=session_id))
    calls = "ai writer: [look_up(word='fish')]\ntool look_up: fish means nothing\n"
    assert warm == (
        f"human: {WORK}\n"
        "ai supervisor: [transfer_to_writer()]\n"
        f"tool transfer_to_writer: {TRANSFERRED}\n"
        f"{calls if agent_id == 'supervisor-full-history' else ''}"
        f"ai writer: {LOOKED_UP}\n"
        "ai writer: Transferring back to supervisor [transfer_back_to_supervisor()]\n"
        f"tool transfer_back_to_supervisor: {BACK}\n"
        f"ai supervisor: {final_text(worked)}"
    )
    assert restarted.startswith(warm)


@both_modes
async def test_an_agent_of_the_functional_api_streams_too(server: RunningServer, agent_id: str) -> None:
    events = await ask(server.address, "call transfer_to_joker()", agent_id=agent_id)
    assert ("observation", "A message walks into a socket.") in told(events)
    [shown] = [e for e in events if e["type"] == "stream" and "walks" in str(e["message"]["parts"])]
    assert [e["text"] for e in events if e["type"] == "delta" and e["block"] == shown["block"]]
