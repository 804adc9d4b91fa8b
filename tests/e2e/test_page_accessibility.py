"""The chat page for people who don't see it, see little, or use no mouse: WCAG 2.2 AA, by axe-core and by hand."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from services.axe import violations
from support import approval_agents, paced_agent, test_agents
from support.approval_agents import NOTES_VARIABLE, calls
from support.chat_page import ChatPage, chat_page
from support.paced_agent import Pace
from support.running_server import running_server

pytestmark = [pytest.mark.axe, pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

EMAIL = ("send_email", {"to": "ann@example.org", "body": "Hello"})
State = Callable[[ChatPage, Pace], Awaitable[None]]
# WCAG 1.4.11 asks for 3:1 at what shows where a control is.
CONTRAST_OF_BORDERS = """(selector) => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([red, green, blue]) => {
    const linear = [red, green, blue].map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll(selector)].filter((element) => element.offsetParent).map((element) => {
    const lights = [channels(getComputedStyle(element).borderTopColor), behind(element.parentElement)].map(luminance);
    return { html: element.outerHTML.slice(0, 80), ratio: (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05) };
  });
}"""

MOVING = "document.getAnimations().filter(({ playState }) => playState === 'running').length"
UNSEEN_HEIGHT = """() => {
  const { scrollHeight, clientHeight } = document.querySelector("[data-testid=messages]");
  return scrollHeight - clientHeight;
}"""


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChatPage]:
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path / "notes.txt"))
    agents = [*test_agents.ENTRIES, *approval_agents.ENTRIES, paced_agent.ENTRY]
    async with running_server(tmp_path, agents=agents) as server, chat_page(browser, server.address) as page:
        yield page


async def first_visit(page: ChatPage, pace: Pace) -> None:
    await expect(page.composer).to_be_visible()


async def streaming(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    await page.ask("show me some markdown")
    pace.write(60)
    await page.writes(20)


async def wide_code(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    pace.finish()
    await page.asked("show me some markdown")
    await page.asked("use a tool: what time is it in Tokyo?")


async def approval(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("approving")
    await page.ask(calls(EMAIL, EMAIL))
    await expect(page.by("approval")).to_have_count(2)
    await page.by("approval").first.get_by_test_id("edit").click()


async def dialog(page: ChatPage, pace: Pace) -> None:
    await page.asked("my name is Zorblax")
    await page.by("session-menu").click()
    await page.tab.get_by_role("menuitem", name="End").click()
    await expect(page.by("confirm-dialog")).to_be_visible()


async def error(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("raising")
    await page.asked("break", status="error")


async def wide_code_dark_and_on_a_phone(page: ChatPage, pace: Pace) -> None:
    await wide_code(page, pace)
    assert await violations(page.tab) == []
    await page.tab.emulate_media(color_scheme="dark")
    assert await violations(page.tab) == []
    await page.tab.emulate_media(color_scheme="light")
    await page.tab.set_viewport_size({"width": 390, "height": 844})


STATES: list[State] = [first_visit, streaming, wide_code_dark_and_on_a_phone, approval, dialog, error]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
async def test_nothing_breaks_a_rule_of_wcag(page: ChatPage, pace: Pace, state: State) -> None:
    await state(page, pace)
    assert await violations(page.tab) == []
    await expect(page.tab.locator("#page h1:not(.rich-text h1)")).to_have_count(1)
    pace.finish()


async def test_own_questions_have_an_outline_where_colours_are_forced(page: ChatPage) -> None:
    await page.asked("my name is Zorblax")
    outline = "(question) => getComputedStyle(question).outlineColor"
    assert await page.by("message-user").evaluate(outline) == "rgba(0, 0, 0, 0)"
    await page.tab.emulate_media(forced_colors="active")
    assert await page.by("message-user").evaluate(outline) != "rgba(0, 0, 0, 0)"


async def test_borders_of_what_can_be_used_are_seen(page: ChatPage, pace: Pace) -> None:
    await approval(page, pace)
    schemes: list[Any] = ["light", "dark"]
    for scheme in schemes:
        await page.tab.emulate_media(color_scheme=scheme)
        borders: list[dict[str, Any]] = await page.tab.evaluate(
            CONTRAST_OF_BORDERS, "textarea, select, input, .button:not(.primary, .danger), .composer"
        )
        assert borders
        assert [border for border in borders if border["ratio"] < 3] == [], scheme


async def test_who_wants_no_motion_sees_none(page: ChatPage, pace: Pace) -> None:
    await page.tab.emulate_media(reduced_motion="no-preference")
    await streaming(page, pace)
    assert await page.tab.evaluate(MOVING) > 0
    await page.tab.emulate_media(reduced_motion="reduce")
    assert await page.tab.evaluate(MOVING) == 0
    pace.finish()
    await page.ended()
    assert await page.tab.evaluate(MOVING) == 0


async def test_forced_colours_keep_what_can_be_used_and_where_the_focus_is(page: ChatPage, pace: Pace) -> None:
    await page.tab.emulate_media(forced_colors="active")
    await wide_code(page, pace)
    seen = "[document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]"
    for _ in range(8):
        await page.tab.keyboard.press("Shift+Tab")
        assert "none" not in await page.tab.evaluate(seen)
    assert await violations(page.tab) == []


async def test_the_focus_is_never_lost(page: ChatPage, pace: Pace) -> None:
    focus = "document.activeElement.tagName"
    await dialog(page, pace)
    await page.tab.keyboard.press("Escape")
    await expect(page.by("confirm-dialog")).to_have_count(0)
    assert await page.tab.evaluate(focus) != "BODY"
    await page.start_new_chat()
    assert await page.tab.evaluate(focus) != "BODY"
    await page.choose_agent("approving")
    await page.ask(calls(EMAIL))
    await page.by("approval").get_by_test_id("approve").press("Enter")
    await page.ended()
    assert await page.tab.evaluate(focus) != "BODY"


async def test_announcements_are_short(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    pace.finish()
    await page.asked("show me some markdown")
    said = await page.by("announcer").text_content() or ""
    assert 0 < len(said) <= 250


async def test_a_printed_conversation_is_a_document(page: ChatPage, pace: Pace) -> None:
    await wide_code(page, pace)
    await page.tab.emulate_media(media="print")
    await expect(page.answers.first).to_be_visible()
    await expect(page.by("title")).to_be_visible()
    for hidden in (page.composer, page.by("session-list"), page.by("copy-answer").first):
        await expect(hidden).to_be_hidden()
    # All of it, and not only what is in view.
    assert await page.tab.evaluate(UNSEEN_HEIGHT) <= 1
