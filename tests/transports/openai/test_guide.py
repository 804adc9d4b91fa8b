"""The page docs/how-to/ask-with-an-openai-client.md, and the chapter of docs/doors.md: what they show runs."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest
import pytest_asyncio
from langchain_openai import ChatOpenAI
from openai import OpenAI
from support.documents import DOCS, blocks
from support.doors_guide import chapter, printed
from support.running_server import ASSISTANT, RunningServer, running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

CAREFUL = {**ASSISTANT, "id": "careful", "default": False, "require_approval": ["slow_task"]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path_factory.mktemp("server"), agents=[ASSISTANT, CAREFUL]) as server:
        yield server


async def test_the_page_prints_what_it_says(server: RunningServer) -> None:
    page = DOCS / "how-to" / "ask-with-an-openai-client.md"
    code = "\n".join(block.text for block in blocks(page) if block.language == "python")
    code = code.replace("http://127.0.0.1:8000", server.address)
    names: dict[str, Any] = {"OpenAI": OpenAI, "ChatOpenAI": ChatOpenAI, "TOKEN": "dev:guide"}
    with redirect_stdout(StringIO()) as shown:
        await asyncio.to_thread(exec, compile(code, page.name, "exec"), names)
    models, sum_, asked, done, name, again = shown.getvalue().splitlines()
    assert models == "['assistant', 'careful']" and sum_ == again == "12*34 = 408."
    assert asked.startswith("request_approval ") and "slow_task" in asked
    assert done and "Ann" in name


async def test_the_call_of_the_chapter_is_answered(server: RunningServer) -> None:
    [command] = re.findall(r"```sh\n(.*?)```", chapter("OpenAI"), re.DOTALL)
    answer = json.loads(await printed(command, server))
    assert answer["choices"][0]["message"]["content"] == "6*7 = 42."
