"""Agents of the database, as admins write them, and modules that they may and may not name."""

from typing import Any

from support.rest_client import rest
from support.running_server import RunningServer

ECHO = "support.test_agents:echo_graph"
ON: dict[str, Any] = {
    "enabled": True,
    "look_every_s": 0.1,
    "classes": [
        "agentic_backend.experts.assistant.*",
        "support.test_agents:echo_graph",
        "support.reexporting:*",
        "agentic_backend.experts.configured.*",
    ],
}
SETTINGS: dict[str, Any] = {"agents": {"database": ON}}


def entry(agent_id: str = "helper", class_path: str = ECHO, more: str = "") -> str:
    return f"# An agent of the database.\nid: {agent_id}\nname: Helper\nclass_path: {class_path}\n{more}"


async def call(
    server: RunningServer, method: str, path: str = "", body: Any = None, token: str | None = None
) -> tuple[int, Any]:
    """The status, and the JSON or the text of the answer."""
    async with rest(server, token) as client:
        response = await client.request(method, f"/admin/agents{path}", **({} if body is None else {"json": body}))
        is_json = response.headers.get("content-type", "").startswith("application/json")
        return response.status_code, response.json() if is_json else response.text


async def served_ids(server: RunningServer) -> list[str]:
    async with rest(server) as client:
        return [agent["id"] for agent in (await client.get("/agents")).json()["agents"]]
