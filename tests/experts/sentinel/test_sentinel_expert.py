"""The sentinel over a real socket, with the MCP server that ships with it, in a process of its own."""

import logging
from pathlib import Path
from typing import Any

import pytest
from graphs.talk import ask, told
from support.chat_client import chat, final_text
from support.running_server import running_server
from support.shipped_agents import BESIDE_THE_ASSISTANT

from agentic_backend.experts.sentinel.operations import operations_settings


async def test_it_looks_at_health_metrics_and_log(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=BESIDE_THE_ASSISTANT) as server:
        logging.getLogger("tests.sentinel").warning("the cat is on the keyboard")
        events = await ask(server.address, "Is the server healthy?", agent_id="sentinel")
        assert told(events)[0] == ("tool_call", "server_health")
        assert final_text(events) == "The server is alive and ready."
        session_id = events[0]["session_id"]
        measured = await ask(server.address, "What do the metrics say about exchanges?", session_id=session_id)
        assert "chat_exchange_total{agent_id='sentinel', status='ok'} 1" in final_text(measured)
        logged = await ask(server.address, "Show me the last 5 lines of the log", session_id=session_id)
        assert "the cat is on the keyboard" in final_text(logged)


def test_its_server_learns_where_the_internal_listener_is() -> None:
    assert operations_settings("http://127.0.0.1:9000").args[-2:] == ("--internal", "http://127.0.0.1:9000")
    assert operations_settings(None).args[-2:] == ("--internal", "")


@pytest.mark.parametrize(
    ("operations", "use", "reason"),
    [
        ({"transport": "stdio", "command": "/no/such/program"}, {}, "The MCP server 'operations' can't be reached."),
        (None, {"require_tools": ["mend"]}, "The MCP server 'operations' lacks the tools mend."),
    ],
    ids=["can not start", "lacks a tool"],
)
async def test_where_its_tools_are_missing_the_others_serve_on(
    tmp_path: Path, operations: dict[str, Any] | None, use: dict[str, Any], reason: str
) -> None:
    uses = {"mcp_servers": [{"id": "operations", **use}]}
    agents = [{**one, "tuning": uses} if one["id"] == "sentinel" else one for one in BESIDE_THE_ASSISTANT]
    settings = {"mcp_servers": {"operations": operations}} if operations else None
    async with running_server(tmp_path, agents=agents, settings=settings) as server:
        for agent_id in ("sentinel", "team"):
            async with chat(server.address) as client:
                events = await client.ask("Is the server healthy?", agent_id=agent_id)
            [error] = [event for event in events if event["type"] == "error"]
            assert (error["code"], error["content"]) == ("agent_unavailable", reason)
        found = await ask(server.address, "Search the documents for close codes", agent_id="documentation")
        assert "Chat Protocol v2" in final_text(found)
