"""The chat page over time: reloads, second tabs, lost connections and servers that restart lose and double nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, WebSocket, expect
from support.chat_page import ChatPage, chat_page, shown_of
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server
from support.tcp_line import tcp_line

from agentic_backend.server import bind

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

SLOW = {"models": {"default": {"model": "offline", "options": {"words_per_second": 60}}}}
ASK = "write 120 words"
NETWORK_ERRORS = r"net::ERR_|WebSocket connection to"


@pytest_asyncio.fixture(loop_scope="module")
async def slow_server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """An answer of this server takes a while."""
    async with running_server(tmp_path, settings=SLOW) as server:
        yield server


async def assert_shows_what_is_stored(page: ChatPage, server: RunningServer) -> None:
    async with rest(server) as client:
        assert await page.shown() == shown_of(await messages_of(client, page.session_id))


async def test_a_reload_in_the_middle_of_an_answer_loses_and_doubles_nothing(
    browser: Browser, slow_server: RunningServer
) -> None:
    async with chat_page(browser, slow_server.address) as page:
        await page.ask(ASK)
        for words in (5, 40):
            await page.writes(words)
            await page.tab.reload()
        await page.writes(50)
        await page.ended()
        await expect(page.answers).to_have_count(1)
        await assert_shows_what_is_stored(page, slow_server)


async def test_a_reload_between_tools_and_answer_loses_and_doubles_nothing(
    page: ChatPage, chat_server: RunningServer
) -> None:
    await page.ask("What is 12*34, and wait 1 second")
    await expect(page.by("tool-card")).to_have_count(2)
    await page.tab.reload()
    await expect(page.by("tool-card").last).to_have_attribute("data-state", "running")
    await page.ended()
    await expect(page.by("tool-card")).to_have_count(2)
    await assert_shows_what_is_stored(page, chat_server)


async def test_a_reload_before_the_first_word_does_not_ask_twice(browser: Browser, slow_server: RunningServer) -> None:
    async with chat_page(browser, slow_server.address) as page:
        await page.asked("my name is Zorblax")
        await page.ask("what is my name?")
        await expect(page.exchanges.last).not_to_have_attribute("data-status", "sending")
        await page.tab.reload()
        await page.ended(exchanges=2)
        await assert_shows_what_is_stored(page, slow_server)


async def test_two_tabs_of_a_session_show_the_same(browser: Browser, slow_server: RunningServer) -> None:
    async with chat_page(browser, slow_server.address) as first:
        await first.ask(ASK)
        await first.writes(10)
        second = await first.another_tab(f"#s={first.session_id}")
        await second.writes(20)
        for tab in (first, second):
            await tab.ended()
            await assert_shows_what_is_stored(tab, slow_server)

        await second.ask(ASK)
        await first.writes(10)
        for tab in (first, second):
            await tab.ended(exchanges=2)
            await assert_shows_what_is_stored(tab, slow_server)


async def test_an_answer_can_be_stopped_from_another_tab(browser: Browser, slow_server: RunningServer) -> None:
    async with chat_page(browser, slow_server.address) as first:
        await first.ask("count down from 1000")
        await first.writes(3)
        second = await first.another_tab(f"#s={first.session_id}")
        await second.writes(3)
        await second.by("stop").click()
        for tab in (first, second):
            await tab.ended("stopped")
            await assert_shows_what_is_stored(tab, slow_server)


async def test_leaving_a_conversation_and_coming_back_shows_all_of_its_answer(
    browser: Browser, slow_server: RunningServer
) -> None:
    async with chat_page(browser, slow_server.address) as page:
        await page.ask(ASK)
        await page.writes(5)
        await page.by("new-chat").click()
        await page.asked("my name is Zorblax")
        await page.by("session-item").last.get_by_role("button").first.click()
        await expect(page.by("message-user")).to_contain_text(ASK)
        await page.ended()
        await assert_shows_what_is_stored(page, slow_server)


async def test_a_lost_connection_in_the_middle_of_an_answer_loses_and_doubles_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    async with tcp_line() as line:
        settings = {**SLOW, "server": {"port": 0, "grace_s": 0.2, "allowed_origins": [line.address]}}
        async with running_server(tmp_path, settings=settings) as server:
            line.target = urlsplit(server.address).port or 0
            async with chat_page(browser, line.address) as page:
                page.provokes(NETWORK_ERRORS)
                new_sockets: list[WebSocket] = []
                page.tab.on("websocket", lambda socket: new_sockets.append(socket))
                await page.ask("write 200 words")
                for words in (10, 60):
                    await page.writes(words)
                    await line.cut()
                await page.ended()
                assert len(new_sockets) >= 2
                await expect(page.by("connection-state")).to_have_count(0)
                await assert_shows_what_is_stored(page, server)


async def test_the_page_comes_back_after_a_restart_of_the_server(browser: Browser, tmp_path: Path) -> None:
    async with restartable_server(tmp_path) as (server, stop, start), chat_page(browser, server.address) as page:
        page.provokes(NETWORK_ERRORS)
        await page.asked("my name is Zorblax")
        before = await page.shown()
        await stop()
        await expect(page.by("connection-state")).to_have_attribute("data-phase", "reconnecting")
        await start()
        await expect(page.by("connection-state")).to_have_count(0)
        assert await page.shown() == before
        await page.asked("what is my name?")
        await expect(page.answers.last).to_contain_text("Your name is Zorblax.")
        await assert_shows_what_is_stored(page, server)


async def test_an_answer_that_a_restart_cuts_off_is_shown_as_interrupted(browser: Browser, tmp_path: Path) -> None:
    async with restartable_server(tmp_path) as (server, stop, start), chat_page(browser, server.address) as page:
        page.provokes(NETWORK_ERRORS)
        await page.ask("hang after 20 tokens")
        await page.writes(19)
        await stop()
        await start()
        await page.ended("interrupted")
        await expect(page.by("ending")).to_have_text("Interrupted")
        await assert_shows_what_is_stored(page, server)
        await page.asked("my name is Zorblax")


async def test_what_is_asked_while_the_server_is_away_is_asked_when_it_is_back(
    browser: Browser, tmp_path: Path
) -> None:
    async with restartable_server(tmp_path) as (server, stop, start), chat_page(browser, server.address) as page:
        page.provokes(NETWORK_ERRORS)
        await page.asked("my name is Zorblax")
        await stop()
        await expect(page.by("connection-state")).to_be_visible()
        await page.ask("what is my name?")
        await expect(page.by("message-user").last).to_contain_text("what is my name?")
        await start()
        await page.ended(exchanges=2)
        await expect(page.answers.last).to_contain_text("Your name is Zorblax.")
        await assert_shows_what_is_stored(page, server)


Switch = Callable[[], Awaitable[None]]


@asynccontextmanager
async def restartable_server(directory: Path) -> AsyncIterator[tuple[RunningServer, Switch, Switch]]:
    """A server that keeps its ports and its data, and what stops it and starts it again."""
    settings: dict[str, Any] = {"server": {**free_ports(), "grace_s": 0.2}}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server(directory, settings=settings))

        async def start() -> None:
            await stack.enter_async_context(running_server(directory, settings=settings))

        yield server, stack.aclose, start


def free_ports() -> dict[str, int]:
    with bind("127.0.0.1", 0) as public, bind("127.0.0.1", 0) as internal:
        return {"port": public.getsockname()[1], "internal_port": internal.getsockname()[1]}
