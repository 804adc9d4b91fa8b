"""The shipped agents in a server that is started as a newcomer starts it: in an empty folder, without any setting."""

import os
from pathlib import Path

from support.chat_client import chat, check_exchange, final_text
from support.recorded_agents import eventually
from support.server_process import serving


def operations_servers(of: int) -> list[int]:
    """The processes of the MCP server that a server has started."""
    children = Path(f"/proc/{of}/task").glob("*/children")
    found = [int(child) for task in children for child in task.read_text().split()]
    return [child for child in found if b"operations_server" in Path(f"/proc/{child}/cmdline").read_bytes()]


async def test_the_team_looks_after_its_own_server_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server:
        async with chat(server.address) as client:
            events = await client.ask("Is the server healthy, and list the metrics", agent_id="team")
            check_exchange(events)
            assert "The server is alive and ready." in final_text(events)
            assert "chat_exchange (counter)" in final_text(events)
            logged = await client.ask("show me the last 5 lines of the log", session_id=events[0]["session_id"])
            assert '"message":"exchange ended"' in final_text(logged)
        [started] = operations_servers(server.pid)
        assert await server.stop() == 0
        await eventually(lambda: not os.path.exists(f"/proc/{started}"))
