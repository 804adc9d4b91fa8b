"""A graph's own channels beside `messages` go from one exchange to the next as they are."""

from pathlib import Path

from graphs.catalog import AGENTS
from graphs.talk import ask
from support.chat_client import final_text
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
