"""The page docs/how-to/show-agents-in-an-ag-ui-front-end.md, and the chapter of docs/doors.md: what they show runs."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from services.ag_ui_client import ag_ui_modules
from support.documents import DOCS, blocks
from support.doors_guide import chapter, printed
from support.running_server import ASSISTANT, RunningServer, running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

CAREFUL = {**ASSISTANT, "id": "careful", "default": False, "require_approval": ["slow_task"]}
_IMPORTS = """
import {{ createRequire }} from "node:module";
const {{ HttpAgent }} = createRequire("{modules}/")("@ag-ui/client");
const TOKEN = "dev:guide";
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path_factory.mktemp("server"), agents=[CAREFUL]) as server:
        yield server


@pytest.mark.ag_ui_client
async def test_the_page_prints_what_it_says(server: RunningServer, tmp_path: Path) -> None:
    page = DOCS / "how-to" / "show-agents-in-an-ag-ui-front-end.md"
    code = "".join(block.text for block in blocks(page) if block.language == "js")
    program = tmp_path / "page.mjs"
    code = code.replace("http://127.0.0.1:8000", server.address)
    program.write_text(_IMPORTS.format(modules=ag_ui_modules()) + code)
    assert (await printed(f"node {program}", server)).splitlines() == ["12*34 = 408.", "slow_task 1", "assistant"]


async def test_the_call_of_the_chapter_is_answered(server: RunningServer) -> None:
    [command] = re.findall(r"```sh\n(.*?)```", chapter("AG-UI"), re.DOTALL)
    events = [json.loads(data) for data in re.findall(r"data: (.*)", await printed(command, server))]
    assert "".join(each["delta"] for each in events if each["type"] == "TEXT_MESSAGE_CONTENT") == "6*7 = 42."
