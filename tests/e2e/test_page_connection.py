"""What the page says while the network or the server is away, and how long an answer has been worked on."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, expect
from support.chat_page import ChatPage, chat_page
from support.paced_agent import ASK, Pace
from support.page_sockets import Sockets
from support.running_server import running_server
from support.tcp_line import tcp_line

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

SECOND = 1_000
NETWORK_ERRORS = r"net::ERR_|WebSocket connection to"
GO = """(online) => {
  Object.defineProperty(navigator, "onLine", { configurable: true, get: () => online });
  dispatchEvent(new Event(online ? "online" : "offline"));
}"""


async def test_a_page_says_at_once_that_it_is_offline_and_comes_back_with_the_network(
    browser: Browser, tmp_path: Path
) -> None:
    async with tcp_line() as line:
        own = {"server": {"port": 0, "grace_s": 0.2, "allowed_origins": [line.address]}}
        async with running_server(tmp_path, settings=own) as server:
            line.target = urlsplit(server.address).port or 0
            async with chat_page(browser, line.address) as page:
                page.provokes(NETWORK_ERRORS)
                await page.tab.clock.install()
                await page.tab.reload()
                await page.asked("my name is Zorblax")

                line.swallow()
                await page.tab.evaluate(GO, False)
                # The clock has not moved: no heartbeat can have told of it.
                await expect(page.by("connection-state")).to_have_text(
                    "You are offline. What you write is sent when you are back.Retry now"
                )
                await page.ask("what is my name?")
                await expect(page.by("waiting-for-server")).to_be_visible()

                await page.tab.clock.fast_forward(6 * SECOND)
                await expect(page.by("connection-state")).to_have_attribute("data-phase", "reconnecting")
                # A browser may send a request on a kept connection, which would wait for ever.
                await line.cut()
                await page.tab.evaluate(GO, True)
                await page.ended(exchanges=2)
                await expect(page.answers.last).to_contain_text("Zorblax")
                await expect(page.by("connection-state")).to_have_count(0)


async def test_a_network_that_is_not_gone_after_all_costs_no_socket(page: ChatPage) -> None:
    sockets = Sockets()
    await sockets.watch(page)
    await page.tab.evaluate(GO, False)
    await page.asked("what is my name?")
    await expect(page.by("connection-state")).to_have_count(0)
    assert sockets.opened == 1


async def test_waiting_for_the_server_is_not_working(page: ChatPage, pace: Pace) -> None:
    sockets = Sockets()
    await sockets.watch(page)
    await page.start_new_chat()
    await page.choose_agent("paced")
    sockets.hold()
    await sockets.close(1011)
    await expect(page.by("connection-state")).to_be_visible()
    await page.ask(ASK)
    await expect(page.by("waiting-for-server")).to_have_text("Waiting for the server…")
    sockets.release()
    await page.tab.clock.run_for(SECOND)
    await expect(page.by("working")).to_contain_text("Working…")
    await page.tab.clock.run_for(12 * SECOND)
    await expect(page.by("working")).to_have_text(re.compile(r"Working…(1[2-9]|[2-9]\d) s"))
    pace.finish()
    await page.ended()
