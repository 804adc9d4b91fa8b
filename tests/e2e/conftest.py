"""What the tests of the chat page may use: a browser for each file, and a page of a new server for each test, or one
page that the tests of a file share; and what those of workers run on.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support import paced_agent
from support.approval_agents import NOTES_VARIABLE
from support.chat_page import ChatPage, chat_page
from support.chromium import chromium
from support.paced_agent import Pace
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def pace() -> Pace:
    """How fast the agent `paced` writes: not a word before the test says so."""
    return paced_agent.begin()


@pytest_asyncio.fixture(loop_scope="module")
async def chat_server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server in the loop of the browser."""
    async with running_server(tmp_path, agents=[*ENTRIES, paced_agent.ENTRY]) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def own_page(browser: Browser, chat_server: RunningServer) -> AsyncIterator[ChatPage]:
    async with chat_page(browser, chat_server.address) as page:
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def page(own_page: ChatPage) -> ChatPage:
    """Where tests share a page, their file makes this a new conversation in it, and `own_page` is for the others."""
    return own_page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    agents = [*ENTRIES, paced_agent.ENTRY]
    async with running_server(tmp_path_factory.mktemp("shared-server"), agents=agents) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_page(browser: Browser, shared_server: RunningServer) -> AsyncIterator[ChatPage]:
    async with chat_page(browser, shared_server.address) as page:
        yield page


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the tools tell that they ran."""
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path / "notes.txt"))
    return tmp_path / "notes.txt"


ON_SERVICES = [pytest.param(*one.values, marks=[*one.marks, pytest.mark.redis]) for one in ON_MONGODB]


@pytest.fixture(params=["sqlite", *ON_SERVICES])
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[list[str]]:
    """The arguments that tell workers what they share: the server's own file and sockets, or a MongoDB and a Redis."""
    if request.param == "sqlite":
        yield []
        return
    async with fresh_database(server_url(request.param, request)) as url:
        yield ["--store", url, "--broadcast", request.getfixturevalue("redis_url")]
