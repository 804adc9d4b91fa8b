"""OpenAI's client for JavaScript at this door."""

import asyncio
import json
from pathlib import Path

import pytest
from services.openai_client import openai_modules
from support.rest_client import rest
from support.running_server import RunningServer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.openai_client]

_PROGRAM = Path(__file__).parent / "driven.mjs"
_NODE_S = 60


async def test_the_client_for_javascript_finds_what_it_expects(server: RunningServer) -> None:
    arguments = (str(openai_modules()), f"{server.address}/v1", "dev:javascript")
    node = await asyncio.create_subprocess_exec(
        "node", str(_PROGRAM), *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(_NODE_S):
        out, problems = await node.communicate()
    assert node.returncode == 0, problems.decode()
    got = json.loads(out)
    async with rest(server, "dev:javascript") as http:
        assert got["models"] == [agent["id"] for agent in (await http.get("/agents")).json()["agents"]]
    assert got["whole"] == got["streamed"] == got["text"] == "12*34 = 408." and got["tokens"] > 0
    assert got["approved"] == "sent to ann@example.org"
    assert got["response"] == "echo: hello"
    assert got["events"][0] == "response.created" and got["events"][-1] == "response.completed"
    assert got["refused"] == {"status": 404, "code": "agent_not_found", "isTyped": True}
