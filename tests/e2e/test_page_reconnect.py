"""The chat page and connections that end: close codes, half-open sockets, what is asked meanwhile, what goes on."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, expect
from support import fault_agents, paced_agent
from support.chat_client import ChatClient, chat
from support.chat_page import ChatPage, chat_page, shown_of
from support.fault_agents import notes, words
from support.further_cases import LONG
from support.paced_agent import ASK, Pace
from support.page_sockets import Draining, Heartbeat, Repeated, Sockets, WithoutStore
from support.ports import free_port
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server
from support.server_process import ServerProcess, serving
from support.tcp_line import tcp_line

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

# From the end of a socket to the next one, by the page's own clock: the test's own steps may take any time.
NOTE_WAITS = """() => {
  let closedAt = 0;
  window.waited = [];
  window.WebSocket = class extends window.WebSocket {
    constructor(...how) {
      super(...how);
      waited.push(Date.now() - closedAt);
      this.addEventListener("close", () => { closedAt = Date.now(); });
    }
  };
}"""
NETWORK_ERRORS = r"net::ERR_|WebSocket connection to"
CONFLICT = r"status of 409"
SECOND = 1_000


async def test_the_page_comes_back_by_itself_after_a_code_that_says_so(page: ChatPage) -> None:
    sockets = Sockets()
    await sockets.watch(page)
    for opened, code in enumerate((1012, 4008, 1001, 1011) if LONG else (1012, 4008), 2):
        sockets.hold()
        await sockets.close(code)
        await expect(page.by("connection-state")).to_have_attribute("data-phase", "reconnecting")
        sockets.release()
        await page.asked("what is my name?")
        await expect(page.answers.last).to_contain_text("Zorblax")
        await expect(page.by("connection-state")).to_have_count(0)
        assert sockets.opened == opened
        # The next wait is a first one again.
        await page.tab.clock.fast_forward(6 * SECOND)


async def test_a_conversation_that_could_not_be_followed_is_followed_again(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    await page.ask("write 20 words")
    pace.write(4)
    await page.writes()
    sockets = WithoutStore()
    await page.tab.route_web_socket("**/ws", sockets.relay)
    await page.tab.clock.install()
    await page.tab.reload()
    for follows in (1, 2):
        while sockets.follows < follows:
            await page.tab.wait_for_timeout(50)
        await expect(page.exchanges).to_have_attribute("data-status", "running")
        await page.tab.clock.fast_forward(3 * SECOND)
    await page.writes()
    assert sockets.follows == 3
    await expect(page.by("error-notice")).to_have_count(0)
    pace.finish()
    await page.ended()


async def test_the_page_stays_away_after_a_code_that_says_so_until_its_user_wants_it_back(page: ChatPage) -> None:
    sockets = Sockets()
    await sockets.watch(page)
    for opened, code in enumerate((4403, 1009), 1):
        await sockets.close(code)
        await expect(page.by("connection-state")).to_have_attribute("data-phase", "refused")
        await page.tab.clock.fast_forward(300 * SECOND)
        await page.tab.wait_for_timeout(300)
        assert sockets.opened == opened
        await page.by("connection-state").get_by_role("button", name="Connect again").click()
        await page.asked("what is my name?")
        assert sockets.opened == opened + 1


async def test_the_page_waits_where_too_many_connections_are_open(page: ChatPage) -> None:
    sockets = Sockets()
    await sockets.watch(page)
    await sockets.close(4429)
    await expect(page.by("connection-state")).to_contain_text("Too many connections")
    await page.tab.clock.fast_forward(25 * SECOND)
    await page.tab.wait_for_timeout(300)
    assert sockets.opened == 1
    await page.tab.clock.fast_forward(40 * SECOND)
    await page.asked("what is my name?")
    assert sockets.opened == 2


async def test_attempts_that_fail_again_and_again_become_rarer(page: ChatPage) -> None:
    sockets = Sockets()
    await sockets.watch(page)
    await page.tab.evaluate(NOTE_WAITS)
    for attempt in range(1, 6):
        # The shortest that the wait may be, and the longest.
        shortest = 500 * 2 ** (attempt - 1) / 2
        sockets.hold()
        await sockets.close(1011)
        await expect(page.by("connection-state")).to_be_visible()
        await page.tab.clock.run_for(2 * shortest)
        sockets.release()
        await expect(page.by("connection-state")).to_have_count(0)
        assert sockets.opened == attempt + 1
        waited: list[int] = await page.tab.evaluate("waited")
        # The end of the first socket is not noted; a timer may be a millisecond early.
        assert len(waited) == attempt and (attempt == 1 or waited[-1] >= shortest - 1)


async def test_a_socket_that_swallows_everything_is_given_up(browser: Browser, tmp_path: Path, pace: Pace) -> None:
    async with tcp_line() as line:
        own = {"server": {"port": 0, "grace_s": 0.2, "allowed_origins": [line.address]}}
        async with running_server(tmp_path, agents=[paced_agent.ENTRY], settings=own) as server:
            line.target = urlsplit(server.address).port or 0
            async with chat_page(browser, line.address) as page:
                page.provokes(NETWORK_ERRORS)
                sockets: list[Any] = []
                page.tab.on("websocket", lambda socket: sockets.append(socket))
                await page.tab.clock.install()
                await page.tab.reload()
                await page.choose_agent("paced")
                await page.ask(ASK)
                pace.write(10)
                await page.writes(9)

                # The first may be that of the page before it was loaded anew.
                opened, heartbeat = len(sockets), Heartbeat(sockets[-1])
                # Nothing comes for a long time, but the other end answers when it is asked.
                for _ in range(3):
                    await page.tab.clock.fast_forward(21 * SECOND)
                    await heartbeat.answered()
                    await page.tab.clock.fast_forward(11 * SECOND)
                assert heartbeat.pings > 1
                assert len(sockets) == opened

                line.swallow()
                pace.finish()
                await page.tab.clock.fast_forward(21 * SECOND)
                await page.tab.wait_for_timeout(300)
                await page.tab.clock.fast_forward(11 * SECOND)
                await page.ended()
                assert len(sockets) == opened + 1
                async with rest(server) as client:
                    assert await page.shown() == shown_of(await messages_of(client, page.session_id))


async def test_who_comes_back_to_a_dead_socket_has_a_new_one_soon(browser: Browser, tmp_path: Path) -> None:
    async with tcp_line() as line:
        own = {"server": {"port": 0, "grace_s": 0.2, "allowed_origins": [line.address]}}
        async with running_server(tmp_path, settings=own) as server:
            line.target = urlsplit(server.address).port or 0
            async with chat_page(browser, line.address) as page:
                page.provokes(NETWORK_ERRORS)
                await page.tab.clock.install()
                await page.tab.reload()
                await page.asked("my name is Zorblax")
                sockets: list[Any] = []
                page.tab.on("websocket", lambda socket: sockets.append(socket))
                line.swallow()
                await page.tab.evaluate("dispatchEvent(new Event('online'))")
                await page.tab.clock.fast_forward(5 * SECOND)
                await page.asked("what is my name?")
                assert len(sockets) == 1


async def test_an_ask_that_has_to_wait_is_sent_by_itself(browser: Browser, tmp_path: Path, pace: Pace) -> None:
    async with busy_server(tmp_path, pace) as (server, running), chat_page(browser, server.address) as page:
        sockets = await Repeated.on(page)
        await page.ask("my name is Zorblax")
        await expect(page.by("kept")).to_contain_text("Too many exchanges are running")
        await expect(page.by("kept")).to_contain_text("Your message is sent")
        pace.finish()
        await running.until("final")
        sockets.pass_on.set()
        await page.ended()
        await expect(page.answers).to_contain_text("Zorblax")
        await expect(page.exchanges).to_have_count(1)


async def test_an_ask_that_waited_in_vain_goes_back_to_where_it_was_written(
    browser: Browser, tmp_path: Path, pace: Pace
) -> None:
    async with busy_server(tmp_path, pace) as (server, _), chat_page(browser, server.address) as page:
        sockets = await Repeated.on(page)
        await page.ask("my name is Zorblax")
        await expect(page.by("kept")).to_be_visible()
        sockets.pass_on.set()
        await expect(page.by("error-notice")).to_contain_text("Try again in 1 s.")
        await expect(page.composer).to_have_value("my name is Zorblax")
        await expect(page.exchanges).to_have_count(0)

        sockets.pass_on.clear()
        await page.composer.press("Enter")
        await expect(page.by("kept")).to_be_visible()
        await page.by("stop").click()
        await expect(page.composer).to_have_value("my name is Zorblax")
        await expect(page.exchanges).to_have_count(0)
        pace.finish()


async def test_a_page_that_is_sent_away_asks_when_the_server_is_back(browser: Browser, tmp_path: Path) -> None:
    """It is idle, while the answer of another goes on."""
    fault_agents.write_catalog(tmp_path)
    port = free_port()
    async with (
        serving("--port", port, cwd=tmp_path, environment={"AGENTIC_SERVER__GRACE_S": "60"}) as first,
        chat_page(browser, first.address) as page,
        chat(first.address) as other,
    ):
        page.provokes(NETWORK_ERRORS)
        await page.asked("words 3 0")
        await other.send({"type": "ask", "message": "pause 60"})
        assert (await other.receive())["type"] == "started"
        first.process.send_signal(signal.SIGTERM)
        await expect(page.by("connection-state")).to_contain_text("The server restarts")
        assert first.process.returncode is None
        await page.ask("words 5 0")
        # A second one cuts the grace short.
        await first.stop(signal.SIGTERM)
        await expect(page.by("connection-state")).to_contain_text("The server restarts")
        async with serving("--port", port, cwd=tmp_path) as second:
            await page.ended(exchanges=2)
            await expect(page.by("connection-state")).to_have_count(0)
            await expect(page.answers.last).to_contain_text(words(5))
            await assert_shows_what_is_stored(page, second)


async def test_an_ask_that_a_server_that_goes_refuses_is_sent_again_on_a_new_socket(page: ChatPage) -> None:
    sockets = Draining("ask")
    await page.tab.route_web_socket("**/ws", sockets.relay)
    await page.tab.reload()
    await page.asked("my name is Zorblax")
    await expect(page.answers).to_contain_text("Zorblax")
    await expect(page.exchanges).to_have_count(1)
    await expect(page.by("connection-state")).to_have_count(0)
    assert (sockets.refused, sockets.opened) == (1, 2)


async def test_a_decision_that_a_server_that_goes_refuses_is_sent_again(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    agents = [entry | {"class_path": f"support.{entry['class_path']}"} for entry in fault_agents.ENTRIES]
    async with (
        running_server(tmp_path, agents=agents, assistant=False) as server,
        chat_page(browser, server.address) as page,
    ):
        sockets = Draining("human_resume")
        await page.tab.route_web_socket("**/ws", sockets.relay)
        await page.tab.reload()
        await page.choose_agent("approved")
        await page.ask("send a|words 5 0")
        await page.by("approve").click()
        await page.ended()
        await expect(page.answers).to_contain_text(words(5))
        assert sockets.refused == 1
    assert [value for value, _ in notes(tmp_path)] == ["a"]


async def test_an_interrupted_answer_is_continued_and_nothing_runs_twice(browser: Browser, tmp_path: Path) -> None:
    fault_agents.write_catalog(tmp_path)
    port = free_port()
    async with serving("--port", port, cwd=tmp_path) as first, chat_page(browser, first.address) as page:
        page.provokes(NETWORK_ERRORS)
        await page.ask("note a|stumble b|words 5 0")
        await page.unfold()
        await expect(page.by("tool-card")).to_have_count(2)
        await expect(page.by("tool-card").last).to_have_attribute("data-state", "running")
        while len(notes(tmp_path)) < 2:
            await page.tab.wait_for_timeout(50)
        other = await page.another_tab(f"#s={page.session_id}")
        await other.ended("running")
        await first.stop(signal.SIGKILL)
        async with serving("--port", port, cwd=tmp_path) as second:
            for tab in (page, other):
                await tab.ended("interrupted")
            await page.by("continue").click()
            for tab in (page, other):
                await tab.ended(exchanges=2)
                await expect(tab.by("message-user")).to_have_count(1)
                await expect(tab.by("continued")).to_have_text("Continued")
                await expect(tab.by("continue")).to_have_count(0)
                await expect(tab.answers.last).to_contain_text(words(5))
                await assert_shows_what_is_stored(tab, second)
    assert [value for value, _ in notes(tmp_path)] == ["a", "b", "b"]


async def test_an_interrupted_answer_of_which_nothing_was_kept_can_be_asked_for_again(
    browser: Browser, tmp_path: Path
) -> None:
    fault_agents.write_catalog(tmp_path)
    port = free_port()
    async with serving("--port", port, cwd=tmp_path) as first, chat_page(browser, first.address) as page:
        page.provokes(NETWORK_ERRORS)
        page.provokes(CONFLICT)
        await page.ask("words 300 20")
        await page.writes(10)
        await first.stop(signal.SIGKILL)
        async with serving("--port", port, cwd=tmp_path):
            await page.ended("interrupted")
            await expect(page.by("error-notice")).to_contain_text("Nothing of it was kept")
            await expect(page.by("continue")).to_have_count(0)
            await page.by("ask-again").click()
            await expect(page.by("message-user")).to_contain_text(["words 300 20"] * 2)


@asynccontextmanager
async def busy_server(directory: Path, pace: Pace) -> AsyncIterator[tuple[RunningServer, ChatClient]]:
    """A server that runs one exchange at a time, and does, until `pace` lets that end; the client that asked for it."""
    settings = {"limits": {"max_running": 1}}
    async with (
        running_server(directory, agents=[paced_agent.ENTRY], settings=settings) as server,
        chat(server.address) as client,
    ):
        await client.send({"type": "ask", "message": ASK, "agent_id": "paced"})
        assert (await client.receive())["type"] == "started"
        yield server, client


async def assert_shows_what_is_stored(page: ChatPage, server: ServerProcess) -> None:
    async with rest(RunningServer(server.address, server.internal or "", Path())) as client:
        assert await page.shown() == shown_of(await messages_of(client, page.session_id))
