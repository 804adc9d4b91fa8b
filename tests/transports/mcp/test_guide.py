"""The page docs/how-to/ask-with-an-mcp-client.md, and the chapter of docs/doors.md: what they show runs."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from services.mcp_clients import inspector_program, mcp_modules
from support.documents import DOCS, blocks
from support.doors_guide import chapter, printed
from support.running_server import RunningServer, running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

_IMPORTS = """
import {{ Client }} from "{sdk}/client/index.js";
import {{ StreamableHTTPClientTransport }} from "{sdk}/client/streamableHttp.js";
const TOKEN = "dev:guide";
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def shown(language: str) -> str:
    page = DOCS / "how-to" / "ask-with-an-mcp-client.md"
    [block] = [block.text for block in blocks(page) if block.language == language]
    return block


async def test_the_python_of_the_page_prints_what_it_says(server: RunningServer) -> None:
    code = shown("python").replace("http://127.0.0.1:8000", server.address)
    names: dict[str, Any] = {"ClientSession": ClientSession, "streamable_http_client": streamable_http_client}
    names |= {"httpx": httpx, "TOKEN": "dev:guide"}
    exec(compile(code, "the page", "exec"), names)
    with redirect_stdout(StringIO()) as out:
        await names["main"]()
    tools, name = out.getvalue().splitlines()
    assert tools == "['assistant', 'get_answer']" and "Ann" in name


@pytest.mark.mcp_clients
async def test_the_javascript_of_the_page_prints_what_it_says(server: RunningServer, tmp_path: Path) -> None:
    code = shown("js").replace("http://127.0.0.1:8000", server.address)
    imports = _IMPORTS.format(sdk=mcp_modules() / "@modelcontextprotocol" / "sdk" / "dist" / "esm")
    program = tmp_path / "page.mjs"
    program.write_text(imports + code + "await client.close();\n")
    assert await printed(f"node {program}", server) == "12*34 = 408.\n"


@pytest.mark.mcp_clients
async def test_the_inspector_of_the_page_calls_an_agent(server: RunningServer) -> None:
    command = shown("sh").replace("npx @modelcontextprotocol/inspector@1", f"node {inspector_program()}")
    assert json.loads(await printed(command, server))["structuredContent"]["answer"] == "12*34 = 408."


async def test_the_call_of_the_chapter_is_answered(server: RunningServer) -> None:
    [command] = re.findall(r"```sh\n(.*?)```", chapter("MCP"), re.DOTALL)
    [data] = re.findall(r"data: (.*)", await printed(command, server))
    assert json.loads(data)["result"]["structuredContent"]["answer"] == "6*7 = 42."
