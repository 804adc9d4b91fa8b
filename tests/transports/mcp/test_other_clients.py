"""MCP's client for TypeScript at this door, and its inspector."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from services.mcp_clients import inspector_program, mcp_modules
from support.chat_client import PATIENCE_S
from support.rest_client import rest
from support.running_server import RunningServer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.mcp_clients]

_PROGRAM = Path(__file__).parent / "driven.mjs"
_NODE_S = 60


async def printed(*arguments: str) -> Any:
    """The JSON that a program of node prints."""
    node = await asyncio.create_subprocess_exec(
        "node", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(_NODE_S):
        out, problems = await node.communicate()
    assert node.returncode == 0, problems.decode()
    return json.loads(out)


async def test_the_client_for_typescript_finds_what_it_expects(server: RunningServer) -> None:
    got = await printed(str(_PROGRAM), str(mcp_modules()), f"{server.address}/mcp", "dev:typescript")
    assert got["version"] == "2025-11-25"
    async with rest(server, "dev:typescript") as http:
        agents = [agent["id"] for agent in (await http.get("/agents")).json()["agents"]]
        assert got["tools"] == [*agents, "get_answer"]
        assert got["answer"] == got["text"] == "12*34 = 408."
        assert "calls calculate" in got["progress"]
        [form] = got["forms"]
        assert "send_email" in form and got["approved"] == "sent to ann@example.org"
        assert got["isCut"] and got["afterCut"] == "ok"
        assert "no more" in got["aborted"]
        async with asyncio.timeout(PATIENCE_S):
            while any("status" in each for each in (await http.get("/sessions")).json()["sessions"]):
                await asyncio.sleep(0.05)
    assert got["resources"] >= 3 and got["resource"].startswith("# ")
    assert got["unknown"] == {"code": -32602}
    assert got["refused"]["isError"] and got["refused"]["structuredContent"]["error"]["code"] == "session_not_found"


async def test_the_inspector_lists_and_calls_agents(server: RunningServer) -> None:
    common = (inspector_program(), "--cli", f"{server.address}/mcp", "--transport", "http")
    common += ("--header", "Authorization: Bearer dev:inspector", "--method")
    tools = (await printed(*common, "tools/list"))["tools"]
    assert "assistant" in [tool["name"] for tool in tools]
    call = ("tools/call", "--tool-name", "assistant", "--tool-arg", "message=What is 12*34?")
    answer = await printed(*common, *call)
    assert answer["structuredContent"]["answer"] == "12*34 = 408."
    assert (await printed(*common, "resources/list"))["resources"]
    assert (await printed(*common, "resources/templates/list"))["resourceTemplates"]
