"""A graph's own channels beside `messages` go from one exchange to the next as they are."""

from pathlib import Path

import pytest
from graphs.catalog import AGENTS
from graphs.own_state import saver
from graphs.talk import ask
from support.chat_client import final_text
from support.phrase_model import RECITE
from support.running_server import running_server


async def test_state_survives_an_eviction_and_a_restart_without_passing_its_reducers_again(tmp_path: Path) -> None:
    settings = {"agents": {"cache_size": 1}}
    async with running_server(tmp_path, agents=AGENTS, settings=settings) as server:
        session_id = (await ask(server.address, "one", agent_id="own-state"))[0]["session_id"]
        warm = final_text(await ask(server.address, "show the state", session_id=session_id))
        assert warm == "['one []', 'show the state []'] 2 good 2"
        other = final_text(await ask(server.address, "show the state", agent_id="own-state"))
        assert other == "['show the state []'] 1 good 1"
        await ask(server.address, "three", session_id=session_id)
    async with running_server(tmp_path, agents=AGENTS) as server:
        restarted = final_text(await ask(server.address, "show the state", session_id=session_id))
        assert restarted == "['one []', 'show the state []', 'three []', 'show the state []'] 4 good 4"
    assert not saver.storage, "it would grow with every exchange"


@pytest.mark.parametrize("agent_id", ["pydantic-state", "dataclass-state"])
async def test_state_may_have_any_form(tmp_path: Path, agent_id: str) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server:
        session_id = (await ask(server.address, "echo one", agent_id=agent_id))[0]["session_id"]
        assert final_text(await ask(server.address, "count", session_id=session_id)) == "run 1"
    async with running_server(tmp_path, agents=AGENTS) as server:
        assert final_text(await ask(server.address, "count", session_id=session_id)) == "run 2"
        recited = final_text(await ask(server.address, RECITE, session_id=session_id))
    assert recited == "human: echo one\nai: one\nhuman: count\nai: run 1\nhuman: count\nai: run 2"
