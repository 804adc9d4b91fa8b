"""The UI resources of MCP servers through the whole server: kept with their session, and never active."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from services.mcp_raw import raw_server
from support.chat_client import chat
from support.mcp_agents import MODULE
from support.rest_client import rest
from support.running_server import RunningServer, running_server

URI = "ui://look/app.html"
HTML = "<!doctype html><script>alert(1)</script>"
LOOK = {"name": "look", "_meta": {"ui": {"resourceUri": URI}}}
RESULT = {"content": [{"type": "text", "text": "seen"}]}
RESOURCE = {"contents": [{"uri": URI, "mimeType": "text/html;profile=mcp-app", "text": HTML}]}
SERVERS = {"raw": raw_server([LOOK], result=RESULT, resource=RESOURCE)}
AGENT = {"id": "user", "class_path": f"{MODULE}:ToolUser", "tuning": {"mcp_servers": [{"id": "raw"}]}}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=[AGENT], settings={"mcp_servers": SERVERS}) as server:
        yield server


async def shown(server: RunningServer, user: str = "dev:ann", **fields: Any) -> tuple[str, list[dict[str, Any]]]:
    """The session, and the parts in which results are shown."""
    async with chat(server.address, token=user) as client:
        end = (await client.ask("call look()", agent_id="user", **fields))[-1]
    parts = [part for message in end["messages"] for part in message["parts"]]
    return end.get("session_id"), [part["data"] for part in parts if part["type"] == "custom"]


async def test_a_session_keeps_a_resource_once_until_it_is_deleted(server: RunningServer) -> None:
    session_id, [first] = await shown(server)
    _, [second] = await shown(server, session_id=session_id)
    _, [other] = await shown(server)
    assert first["resource"] == second["resource"] != other["resource"]
    path = first["resource"].removeprefix("/agentic/v1")
    async with rest(server, "dev:ann") as ann, rest(server, "dev:bob") as bob:
        found = await ann.get(path)
        assert found.text == HTML
        # A browser that is led there shows no document.
        assert found.headers["content-type"] == "text/plain; charset=utf-8"
        assert found.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert (await bob.get(path)).status_code == 404
        refused = await ann.post(
            f"/sessions/{session_id}/messages", json={"content": "look", "attachments": [path.split("/")[-1]]}
        )
        assert refused.json()["error"]["code"] == "attachment_not_found"
        assert (await ann.delete(f"/sessions/{session_id}")).status_code == 204
        assert (await ann.get(path)).status_code == 404
        assert (await ann.get(other["resource"].removeprefix("/agentic/v1"))).status_code == 200


async def test_a_query_shows_results_without(server: RunningServer) -> None:
    assert await shown(server, mode="query") == (None, [])


async def test_what_there_is_no_room_for_is_shown_without(tmp_path: Path) -> None:
    large = RESOURCE["contents"][0] | {"text": HTML + "a" * 600}
    servers = {"raw": raw_server([LOOK], result=RESULT, resource={"contents": [large]})}
    settings = {"mcp_servers": servers, "limits": {"attachments_per_user_bytes": 1_024}}
    async with running_server(tmp_path, agents=[AGENT], settings=settings) as server:
        assert len((await shown(server))[1]) == 1
        assert (await shown(server))[1] == []
