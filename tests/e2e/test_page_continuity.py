"""The chat page over time: reloads, second tabs, lost connections and servers that restart lose and double nothing."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, WebSocket, expect
from support import paced_agent
from support.chat_page import ChatPage, chat_page, new_chat_in, shown_of
from support.paced_agent import ASK, WORDS, Pace, first_words
from support.ports import free_port
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server
from support.tcp_line import TcpLine, tcp_line

from agentic_backend.relay.log import exchange_log

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page, agent="assistant") as page:
        yield page


NETWORK_ERRORS = r"net::ERR_|WebSocket connection to"


async def ask_paced(page: ChatPage) -> None:
    """Ask the agent that writes no faster than its test wants."""
    await page.choose_agent("paced")
    await page.ask(ASK)


async def assert_reads(page: ChatPage, words: int) -> None:
    """The last answer is being written, and consists of exactly its first words."""
    await expect(page.answers.last).to_have_attribute("data-streaming", "true")
    await expect(page.answers.last.locator(".rich-text")).to_have_text(first_words(words), use_inner_text=True)


async def assert_shows_what_is_stored(page: ChatPage, server: RunningServer) -> None:
    async with rest(server) as client:
        assert await page.shown() == shown_of(await messages_of(client, page.session_id))


async def test_a_reload_in_the_middle_of_an_answer_loses_and_doubles_nothing(
    page: ChatPage, shared_server: RunningServer, pace: Pace
) -> None:
    await ask_paced(page)
    for words in (30, 60, 90):
        pace.write(30)
        await assert_reads(page, words)
        await page.tab.reload()
        await assert_reads(page, words)
    pace.finish()
    await page.ended()
    await expect(page.answers).to_have_count(1)
    await assert_shows_what_is_stored(page, shared_server)


async def test_a_reload_between_tools_and_answer_loses_and_doubles_nothing(
    page: ChatPage, shared_server: RunningServer
) -> None:
    await page.ask("What is 12*34, and wait 1 second")
    await page.unfold()
    await expect(page.by("tool-card")).to_have_count(2)
    await page.tab.reload()
    await page.ended()
    await page.unfold()
    await expect(page.by("tool-card")).to_have_count(2)
    await assert_shows_what_is_stored(page, shared_server)


async def test_a_reload_before_the_first_word_does_not_ask_twice(
    page: ChatPage, shared_server: RunningServer, pace: Pace
) -> None:
    await ask_paced(page)
    await expect(page.exchanges).to_have_attribute("data-status", "running")
    await page.tab.reload()
    await page.ended("running")
    pace.finish()
    await page.ended()
    await assert_shows_what_is_stored(page, shared_server)


async def test_two_tabs_of_a_session_show_the_same(page: ChatPage, shared_server: RunningServer, pace: Pace) -> None:
    await ask_paced(page)
    pace.write(10)
    await assert_reads(page, 10)
    tabs = [page, await page.another_tab(f"#s={page.session_id}")]
    await assert_reads(tabs[1], 10)
    pace.write(WORDS - 10 + 1)
    for tab in tabs:
        await tab.ended()
        await assert_shows_what_is_stored(tab, shared_server)

    await tabs[1].ask(ASK)
    pace.write(20)
    for tab in tabs:
        await assert_reads(tab, 20)
    pace.finish()
    for tab in tabs:
        await tab.ended(exchanges=2)
        await assert_shows_what_is_stored(tab, shared_server)


async def test_an_answer_can_be_stopped_from_another_tab(page: ChatPage, shared_server: RunningServer) -> None:
    await page.ask("hang after 20 tokens")
    await page.writes(19)
    other = await page.another_tab(f"#s={page.session_id}")
    await other.writes(19)
    await other.by("stop").click()
    for tab in (page, other):
        await tab.ended("stopped")
        await assert_shows_what_is_stored(tab, shared_server)


async def test_a_conversation_that_was_left_meanwhile_shows_all_of_its_answer(
    page: ChatPage, shared_server: RunningServer, pace: Pace
) -> None:
    await ask_paced(page)
    pace.write(10)
    await assert_reads(page, 10)
    left = page.session_id
    await page.start_new_chat()
    await page.choose_agent("assistant")
    await page.asked("my name is Zorblax")
    pace.write(20)
    await page.tab.locator(f"[data-session='{left}'] .session-title").click()
    await assert_reads(page, 30)
    pace.finish()
    await page.ended()
    await assert_shows_what_is_stored(page, shared_server)


async def test_a_lost_connection_in_the_middle_of_an_answer_loses_and_doubles_nothing(
    browser: Browser, tmp_path: Path, pace: Pace
) -> None:
    async with server_behind_a_line(tmp_path) as (server, line), chat_page(browser, line.address) as page:
        page.provokes(NETWORK_ERRORS)
        await ask_paced(page)
        for words in (10, 50, 90):
            pace.write(10)
            await assert_reads(page, words)
            await line.cut()
            pace.write(30)
            await assert_reads(page, words + 30)
        pace.finish()
        await page.ended()
        await expect(page.by("connection-state")).to_have_count(0)
        await assert_shows_what_is_stored(page, server)


async def test_a_page_whose_place_is_gone_when_it_comes_back_loses_and_doubles_nothing(
    browser: Browser, tmp_path: Path, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server merges what others have read meanwhile, so this page gets a `reset`."""
    monkeypatch.setattr(exchange_log, "COMPACT_AFTER", 1)
    async with (
        server_behind_a_line(tmp_path) as (server, line),
        chat_page(browser, line.address) as page,
    ):
        page.provokes(NETWORK_ERRORS)
        frames = frames_received(page)
        await ask_paced(page)
        pace.write(10)
        await assert_reads(page, 10)
        async with chat_page(browser, server.address, f"#s={page.session_id}") as other:
            await line.hold()
            for words in (20, 30, 40):
                pace.write(10)
                await assert_reads(other, words)
            await assert_reads(page, 10)
            line.release()
            await assert_reads(page, 40)
        pace.finish()
        await page.ended()
        await assert_shows_what_is_stored(page, server)
        assert "reset" in [frame["type"] for frame in frames]


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


@asynccontextmanager
async def server_behind_a_line(directory: Path) -> AsyncIterator[tuple[RunningServer, TcpLine]]:
    async with tcp_line() as line:
        own = {"server": {"port": 0, "grace_s": 0.2, "allowed_origins": [line.address]}}
        async with running_server(directory, agents=[paced_agent.ENTRY], settings=own) as server:
            line.target = urlsplit(server.address).port or 0
            yield server, line


def frames_received(page: ChatPage) -> list[dict[str, Any]]:
    """Every frame that the page receives on the sockets that it opens from now on."""
    frames: list[dict[str, Any]] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framereceived", lambda frame: frames.append(json.loads(frame)))

    page.tab.on("websocket", listen)
    return frames


Switch = Callable[[], Awaitable[None]]


@asynccontextmanager
async def restartable_server(directory: Path) -> AsyncIterator[tuple[RunningServer, Switch, Switch]]:
    """A server that keeps its ports and its data, and what stops it and starts it again."""
    settings: dict[str, Any] = {"server": {"port": free_port(), "internal_port": free_port(), "grace_s": 0.2}}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server(directory, settings=settings))

        async def start() -> None:
            await stack.enter_async_context(running_server(directory, settings=settings))

        yield server, stack.aclose, start
