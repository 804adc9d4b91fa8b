"""MCP's reference server, over stdio and streamable HTTP."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from services.mcp_everything import everything_program
from support.mcp_agents import built, call, refused, told, tool_user, tools_of
from support.ports import free_port

from agentic_backend.testing import ScriptedModel
from agentic_backend.testing import call as tool_call

# The first run fetches the server, in a fixture.
pytestmark = pytest.mark.mcp_everything

PATIENCE_S = 20


@pytest.fixture(scope="session")
def program() -> str:
    return everything_program()


@pytest.fixture(params=["stdio", "streamable_http"])
async def everything(request: pytest.FixtureRequest, program: str) -> AsyncIterator[dict[str, Any]]:
    """The settings of a server of the test's own."""
    if request.param == "stdio":
        yield {"transport": "stdio", "command": "node", "args": [program, "stdio"]}
        return
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *("node", program, "streamableHttp"),
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while b"listening" not in (line := await process.stderr.readline()):
                assert line, "the server has ended"
        yield {"url": f"http://127.0.0.1:{port}/mcp"}
    finally:
        process.kill()
        await process.communicate()


async def test_its_tools_are_found_and_called(everything: dict[str, Any]) -> None:
    async with built(tool_user({"everything": everything})) as agent:
        assert {"echo", "get-sum", "get-tiny-image", "trigger-long-running-operation"} <= set(tools_of(agent))
        assert await told(agent, "echo", message="hello") == "Echo: hello"
        assert await told(agent, "get-sum", a=2, b=3) == "The sum of 2 and 3 is 5."


async def test_arguments_that_a_tool_does_not_take_fail(everything: dict[str, Any]) -> None:
    async with built(tool_user({"everything": everything})) as agent:
        assert "Invalid arguments" in await refused(agent, "get-sum", a="two", b=3)
        assert await told(agent, "get-sum", a=2, b=3)


async def test_images_links_and_structured_results_become_parts(everything: dict[str, Any]) -> None:
    async with built(tool_user({"everything": everything})) as agent:
        [image] = (await call(agent, "get-tiny-image")).artifact["parts"]
        assert base64.b64decode(image["url"].removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
        links = (await call(agent, "get-resource-links", count=2)).artifact["parts"]
        assert [(link["type"], link["kind"]) for link in links] == [("link", "related")] * 2
        assert "temperature" in await told(agent, "get-structured-content", location="Chicago")


async def test_progress_is_told_while_a_tool_runs(everything: dict[str, Any]) -> None:
    model = ScriptedModel(tool_call("trigger-long-running-operation", duration=0.3, steps=3), "Done.")
    async with built(tool_user({"everything": everything}, model=model)) as agent:
        stream = agent.get_compiled_graph().astream({"messages": [("human", "go")]}, stream_mode="custom")
        events = [event async for event in stream]
    assert [(event["call_id"], event["progress"], event["total"]) for event in events] == [
        ("call-1-1-1", 1, 3),
        ("call-1-1-1", 2, 3),
        ("call-1-1-1", 3, 3),
    ]


async def test_a_long_operation_is_cut_at_its_timeout(everything: dict[str, Any]) -> None:
    async with built(tool_user({"everything": {**everything, "tool_timeout_s": 3}})) as agent:
        assert await refused(agent, "trigger-long-running-operation", duration=30, steps=3) == (
            "The tool did not end within 3 seconds."
        )
        assert await told(agent, "echo", message="next") == "Echo: next"
