"""What is opened in a conversation is in view, its top first, however long that is which stands around it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect
from support import approval_agents, asking_agents, paced_agent
from support.approval_agents import calls
from support.chat_page import ChatPage, chat_page
from support.paced_agent import Pace
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

SMALL = {"width": 800, "height": 440}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    agents = [*approval_agents.ENTRIES, *asking_agents.ENTRIES, paced_agent.ENTRY]
    async with running_server(tmp_path_factory.mktemp("server"), agents=agents) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, server: RunningServer) -> AsyncIterator[ChatPage]:
    async with chat_page(browser, server.address, viewport=SMALL) as page:
        yield page


async def stays_in_view(page: ChatPage, element: Locator) -> None:
    """Once the page has moved to wherever it moves to, the top of the element is in the view of the messages."""
    await expect(element).to_be_visible()
    frame = "requestAnimationFrame"
    await page.tab.evaluate(f"new Promise((done) => {frame}(() => {frame}(() => {frame}(done))))")
    top, view = [await each.bounding_box() for each in (element, page.by("messages"))]
    assert top and view and view["y"] - 1 <= top["y"] <= view["y"] + view["height"] - 20, (top, view)


async def test_a_question_is_edited_in_view(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    pace.finish()
    await page.asked("write 1500 words")
    await page.composer.press("ArrowUp")
    await expect(page.by("edited-question")).to_be_focused()
    await stays_in_view(page, page.by("question-editor"))
    await page.tab.keyboard.press("Escape")
    await expect(page.by("edit-question")).to_be_focused()
    await stays_in_view(page, page.by("edit-question"))
    # Also while the answer to another question is written.
    pace = paced_agent.begin()
    await page.ask("write 1500 words")
    pace.write(20)
    await page.exchanges.first.get_by_test_id("edit-question").click()
    pace.write(300)
    await page.writes(300)
    await stays_in_view(page, page.by("question-editor"))
    pace.finish()
    await page.ended(exchanges=2)


async def test_forms_and_what_they_lack_are_in_view(page: ChatPage) -> None:
    await page.choose_agent("approving")
    await page.ask(calls(*[("send_email", {"to": "ann@example.org", "body": "Hello Ann"})] * 3))
    cards = page.by("approval")
    await expect(cards).to_have_count(3)
    await expect(cards.first).to_be_focused()
    await stays_in_view(page, cards.first)
    await cards.last.get_by_test_id("reject").click()
    await expect(page.by("reject-message")).to_be_focused()
    await stays_in_view(page, page.by("reject-message"))
    await page.tab.keyboard.press("Escape")
    await page.by("reject-all").click()
    await page.by("confirm-reject").click()
    await page.ended()

    await page.start_new_chat()
    await page.choose_agent("booking")
    await page.ask("go on")
    await expect(page.by("approval")).to_be_focused()
    await stays_in_view(page, page.by("approval"))
    await page.by("send-answer").click()
    await expect(page.tab.get_by_label("Who travels?")).to_be_focused()
    await stays_in_view(page, page.by("answer-field").first)
