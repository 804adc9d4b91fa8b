"""Long conversations: only what is near is in the page, what is read stays where it is, and any message is reached."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, Route, expect
from support.chat_client import chat
from support.chat_page import ChatPage, chat_page, new_chat_in
from support.further_cases import LONG
from support.large_sessions import fill_with_talk
from support.rest_client import rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

EXCHANGES = 2_500 if LONG else 1_000
WHOLE = 120
"""The exchanges of a session that is to be in the page as a whole."""
NODES = "document.getElementsByTagName('*').length"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[RunningServer, str]]:
    """A server, and the id of a session with thousands of messages."""
    directory: Path = tmp_path_factory.mktemp("long")
    await fill_with_talk(directory / "chat.sqlite3", "developer", exchanges=WHOLE)
    session_id = await fill_with_talk(directory / "chat.sqlite3", "developer", exchanges=EXCHANGES)
    settings = {"store": {"url": f"sqlite:{directory / 'chat.sqlite3'}"}}
    async with running_server(directory, agents=ENTRIES, settings=settings) as server:
        yield server, session_id


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_page(browser: Browser, served: tuple[RunningServer, str]) -> AsyncIterator[ChatPage]:
    server, _ = served
    async with chat_page(browser, server.address) as page:
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage, served: tuple[RunningServer, str]) -> AsyncIterator[ChatPage]:
    _, session_id = served
    async with new_chat_in(shared_page) as page:
        await page.tab.reload()
        await page.open(f"#s={session_id}")
        await expect(asked(page, EXCHANGES - 1)).to_be_visible()
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def shorter_page(shared_page: ChatPage, served: tuple[RunningServer, str]) -> AsyncIterator[ChatPage]:
    server, longer = served
    async with rest(server) as http:
        sessions = (await http.get("/sessions")).json()["sessions"]
    [session_id] = [each["id"] for each in sessions if each["id"] != longer]
    async with new_chat_in(shared_page) as page:
        await page.tab.reload()
        await page.open(f"#s={session_id}")
        await expect(asked(page, WHOLE - 1)).to_be_visible()
        await page.tab.evaluate(PRINTS)
        yield page


def asked(page: ChatPage, number: int) -> Locator:
    return page.by("message-user").get_by_text(f"Question {number}", exact=True)


async def scroll(page: ChatPage, top: int | str) -> None:
    await page.by("messages").evaluate(f"(view) => (view.scrollTop = {top})")


async def top_of(page: ChatPage, number: int) -> float:
    box = await asked(page, number).bounding_box()
    assert box is not None
    return box["y"]


async def test_opening_reads_only_the_last_messages(browser: Browser, served: tuple[RunningServer, str]) -> None:
    server, session_id = served
    read: list[str] = []
    async with chat_page(browser, server.address) as page:
        page.tab.on("request", lambda request: read.append(request.url) if f"/{session_id}/" in request.url else None)
        await page.open(f"#s={session_id}")
        await expect(page.answers.last).to_be_in_viewport()
    calls = [url.split("/")[-1].split("?")[0] for url in read]
    assert (calls.count("messages"), calls.count("exchanges")) == (1, 1)


async def test_scrolling_up_reads_on_and_the_page_stays_small(page: ChatPage) -> None:
    before: int = await page.tab.evaluate(NODES)
    for number in (EXCHANGES - 51, EXCHANGES - 101, EXCHANGES - 151):
        await page.by("messages").hover()
        async with page.tab.expect_response(lambda response: "/messages?" in response.url):
            await scroll(page, 0)
        await expect(page.by("message-user").filter(has_text=f"Question {number}")).to_have_count(1, timeout=10_000)
    await expect(page.exchanges.first).to_be_attached()
    assert await page.tab.evaluate(NODES) < 3 * before + 2_000
    assert await page.exchanges.count() < 100


async def test_what_is_read_stays_where_it_is_while_earlier_messages_come(page: ChatPage) -> None:
    await scroll(page, 2_000)
    first = page.by("message-user").first
    await expect(first).to_be_attached()
    await painted(page.tab)
    number = await visible_question(page.tab)
    before = await top_of(page, number)
    await page.by("load-earlier").evaluate("(button) => button.click()")
    await expect(page.tab.locator(".slot")).to_have_count(100)
    await painted(page.tab)
    assert abs(await top_of(page, number) - before) <= 2


async def painted(tab: Page) -> None:
    """Once what has changed is in the view."""
    frame = "requestAnimationFrame"
    await tab.evaluate(f"new Promise((done) => {frame}(() => {frame}(() => {frame}(done))))")


async def visible_question(tab: Page) -> int:
    """The number of a question in the view."""
    text: str = await tab.evaluate("""() => {
      const { top, bottom } = document.querySelector(".messages").getBoundingClientRect();
      const isInView = (element) => {
        const box = element.getBoundingClientRect();
        return box.top > top && box.bottom < bottom;
      };
      return [...document.querySelectorAll("[data-testid=message-user]")].find(isInView).textContent;
    }""")
    return int(text.split("Question ")[1].split()[0])


async def test_a_rank_in_the_address_leads_to_its_message(browser: Browser, served: tuple[RunningServer, str]) -> None:
    server, session_id = served
    async with chat_page(browser, server.address) as page:
        await page.open(f"#s={session_id}/200")
        await expect(asked(page, 100)).to_be_in_viewport()
        await expect(page.tab.locator(".question.hit")).to_contain_text("Question 100")
        assert page.session_id == session_id
        assert await page.tab.evaluate(NODES) < 6_000 + 2 * EXCHANGES


async def test_a_selection_and_the_focus_stay_when_they_leave_the_view(page: ChatPage) -> None:
    await asked(page, EXCHANGES - 1).evaluate("(element) => getSelection().selectAllChildren(element)")
    await page.exchanges.nth(-2).get_by_test_id("copy-answer").focus()
    held = await page.tab.evaluate("document.activeElement.closest('.exchange').dataset.exchange")
    for _ in range(3):
        before = await page.places.count()
        await scroll(page, 0)
        await expect(page.places).not_to_have_count(before)
        await expect(page.tab.locator("[data-unfilled]").last).to_be_attached()
    assert await page.tab.evaluate("document.activeElement.closest('.exchange')?.dataset.exchange") == held
    assert await page.tab.evaluate("getSelection().toString()") == f"Question {EXCHANGES - 1}"


async def test_a_print_has_all_that_is_loaded(page: ChatPage) -> None:
    await expect(page.tab.locator("[data-unfilled]").first).to_be_attached()
    await page.tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    await expect(page.tab.locator("[data-unfilled]")).to_have_count(0)
    await expect(page.exchanges).to_have_count(50)
    await page.tab.evaluate("dispatchEvent(new Event('afterprint'))")
    await expect(page.tab.locator("[data-unfilled]").first).to_be_attached()


PRINTS = """() => {
  window.print = () => (window.printed = document.querySelectorAll(".exchange").length);
}"""
SELECTED = "() => [...getSelection().toString().matchAll(/Question \\d+/g)].length"


async def test_what_is_printed_found_and_selected_is_the_whole_conversation(shorter_page: ChatPage) -> None:
    page = shorter_page
    await page.tab.keyboard.press("Control+p")
    await expect(page.by("whole-note")).to_contain_text("is being loaded")
    await page.tab.wait_for_function(f"() => window.printed === {WHOLE}")
    await expect(page.by("whole-note")).to_be_hidden()
    await page.tab.evaluate("dispatchEvent(new Event('afterprint'))")
    await expect(page.tab.locator("[data-unfilled]").first).to_be_attached()

    await page.tab.keyboard.press("Control+f")
    await expect(page.exchanges).to_have_count(WHOLE)
    # In a field that selects what is written there.
    await page.composer.press("Control+a")
    assert await page.tab.evaluate(SELECTED) == 0
    await page.by("messages").focus()
    await page.tab.keyboard.press("Control+a")
    await page.tab.wait_for_function(f"() => ({SELECTED})() === {WHOLE}")


async def test_a_print_says_what_is_not_in_it(shorter_page: ChatPage) -> None:
    page = shorter_page
    page.provokes("ERR_")
    read = 0

    async def once(route: Route) -> None:
        nonlocal read
        read += 1
        await (route.continue_() if read == 1 else route.abort())

    await page.tab.route("**/messages?*", once)
    await page.tab.reload()
    await expect(asked(page, WHOLE - 1)).to_be_visible()
    await page.tab.evaluate(PRINTS)
    await page.tab.keyboard.press("Control+p")
    await page.tab.wait_for_function("() => window.printed === 50")
    await expect(page.by("whole-note")).to_contain_text("Earlier messages could not be loaded")
    await page.tab.emulate_media(media="print")
    await expect(page.tab.get_by_text("Earlier messages were not loaded")).to_be_visible()
    await page.tab.emulate_media(media="screen")
    await page.tab.unroute_all()


async def test_a_new_answer_is_followed_to_its_end(page: ChatPage, served: tuple[RunningServer, str]) -> None:
    server, session_id = served
    await scroll(page, "view.scrollHeight")
    async with chat(server.address) as client:
        await client.ask("write 400 words", session_id=session_id, agent_id="assistant")
    await expect(page.by("message-user").last).to_contain_text("write 400 words")
    await expect(page.answers.last.locator(".answer-footer")).to_be_in_viewport()
