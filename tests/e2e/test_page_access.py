"""The chat page without a mouse, on a phone, and for a screen reader."""

from typing import Any

import pytest
from playwright.async_api import Browser, Locator, expect
from support.chat_page import ChatPage, chat_page
from support.paced_agent import ASK, WORDS, Pace, first_words
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}
WIDTHS = (320, 390)
MOST_TABS = 40

TOOLS = "think about what time is it in Tokyo, and what is 12*34?"
WIDE = f"""\
{"long" * 60}

`{"code" * 60}`

```
{"a line of code that is wider than a phone " * 5}
```

| {" | ".join(f"column {number}" for number in range(12))} |
|{"---|" * 12}
| {" | ".join("wide cell" for _ in range(12))} |

https://example.org/{"path/" * 60}

{"> " * 16}a deep quotation

{"".join("  " * depth + "- a deep list" + chr(10) for depth in range(16))}
"""


async def tab_to(page: ChatPage, target: Locator) -> None:
    """Press Tab until `target` has the focus."""
    await expect(target).to_have_count(1)
    for _ in range(MOST_TABS):
        if await target.evaluate("(element) => element === document.activeElement"):
            return
        await page.tab.keyboard.press("Tab")
    raise AssertionError("the keyboard does not reach it")


async def test_a_chat_needs_no_mouse(page: ChatPage) -> None:
    keyboard = page.tab.keyboard
    await tab_to(page, page.by("agent-picker"))
    await keyboard.press("Enter")
    await expect(page.by("agent-search")).to_be_focused()
    await keyboard.type("echo")
    await keyboard.press("ArrowDown")
    await keyboard.press("Enter")
    await expect(page.by("agent-picker")).to_have_attribute("data-agent", "echo")
    await expect(page.by("agent-picker")).to_be_focused()
    await keyboard.press("ArrowDown")
    await keyboard.type("assistant")
    await keyboard.press("Enter")
    await expect(page.by("agent-picker")).to_have_attribute("data-agent", "assistant")

    await tab_to(page, page.composer)
    await keyboard.type("What time is it in Tokyo,")
    await keyboard.press("Shift+Enter")
    await keyboard.type("and what is 12*34?")
    await expect(page.composer).to_have_value("What time is it in Tokyo,\nand what is 12*34?")
    await keyboard.press("Enter")
    await page.ended()

    await page.unfold()
    card = page.by("tool-card").last
    await tab_to(page, card.get_by_role("button"))
    await keyboard.press("Enter")
    await expect(card.get_by_role("button")).to_have_attribute("aria-expanded", "true")
    await expect(card.get_by_test_id("tool-args")).to_be_visible()

    await tab_to(page, page.composer)
    await keyboard.type("count down from 1000")
    await keyboard.press("Enter")
    await page.writes(3)
    await tab_to(page, page.by("stop"))
    await keyboard.press("Enter")
    await page.ended("stopped", exchanges=2)
    await expect(page.by("send")).to_be_visible()


async def test_the_list_needs_no_mouse(page: ChatPage) -> None:
    keyboard = page.tab.keyboard
    await page.asked("my name is Zorblax")
    # The title would change under the hands of who writes another.
    await expect(page.by("session-item")).to_have_text("Name Zorblax")
    title = page.by("session-item").get_by_role("link")
    await tab_to(page, title)
    await keyboard.press("ArrowRight")
    await keyboard.press("Enter")
    await expect(page.by("rename-session")).to_be_focused()
    await keyboard.press("Enter")
    await keyboard.type("Renamed")
    await keyboard.press("Enter")
    await expect(page.by("session-item")).to_have_text("Renamed")

    await tab_to(page, page.by("new-chat"))
    await keyboard.press("Enter")
    await expect(page.exchanges).to_have_count(0)
    await expect(page.composer).to_be_focused()

    await tab_to(page, title)
    await keyboard.press("Enter")
    await page.ended()
    await expect(page.composer).to_be_focused()

    await tab_to(page, title)
    for key in ("ArrowRight", "Enter", "End", "Enter"):
        await keyboard.press(key)
    await expect(page.by("session-item")).to_have_count(0)
    await tab_to(page, page.by("undo"))
    await keyboard.press("Enter")
    await expect(page.by("session-item")).to_have_count(1)
    await expect(page.composer).to_be_focused()


async def test_the_list_can_be_skipped(page: ChatPage) -> None:
    await tab_to(page, page.tab.get_by_role("button", name="Skip to message"))
    await expect(page.tab.get_by_role("button", name="Skip to message")).to_be_in_viewport()
    await page.tab.keyboard.press("Enter")
    await expect(page.composer).to_be_focused()


async def test_a_screen_reader_hears_that_the_agent_works_and_how_its_answer_begins(page: ChatPage, pace: Pace) -> None:
    await expect(page.by("announcer")).to_have_count(0)
    await page.choose_agent("paced")
    await page.ask(ASK)
    pace.write(10)
    await page.writes(9)
    await expect(page.by("announcer")).to_have_text("The agent is working.")
    await expect(page.by("announcer")).to_have_attribute("aria-live", "polite")
    pace.finish()
    await page.ended()
    await expect(page.by("announcer")).to_have_text(f"{first_words(WORDS)[:200]}…")


async def assert_as_wide_as_its_window(page: ChatPage) -> None:
    too_wide = await page.tab.evaluate("""() => {
      scrollTo(1000, 0);
      const moved = scrollX;
      const scrollers = [document.documentElement, document.body, ...document.querySelectorAll(".messages, main")];
      return [moved, ...scrollers.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.className || e.localName)];
    }""")
    assert too_wide == [0]


async def test_nothing_is_wider_than_a_phone(browser: Browser, chat_server: RunningServer) -> None:
    async with chat_page(browser, chat_server.address, **PHONE) as page:
        for width in WIDTHS:
            await page.tab.set_viewport_size({"width": width, "height": 700})
            await assert_as_wide_as_its_window(page)
        for number, text in enumerate([f"repeat after me: {WIDE}", TOOLS], 1):
            await page.composer.fill(text)
            await page.by("send").tap()
            await page.ended(exchanges=number)
        await page.unfold()
        for button in await page.by("tool-card").get_by_role("button").all():
            await button.tap()
        await page.by("thought").locator("summary").tap()
        for width in WIDTHS:
            await page.tab.set_viewport_size({"width": width, "height": 700})
            await assert_as_wide_as_its_window(page)
            await expect(page.composer).to_be_in_viewport(ratio=1)
            await expect(page.by("send")).to_be_in_viewport(ratio=1)


async def test_the_list_is_a_drawer_on_a_phone(browser: Browser, chat_server: RunningServer) -> None:
    async with chat_page(browser, chat_server.address, **PHONE) as page:
        await page.composer.fill("my name is Zorblax")
        await page.by("send").tap()
        await page.ended()
        menu = page.tab.get_by_role("button", name="Conversations")
        await expect(page.by("new-chat")).not_to_be_in_viewport()
        await menu.tap()
        await expect(menu).to_have_attribute("aria-expanded", "true")
        await expect(page.by("new-chat")).to_be_in_viewport(ratio=1)
        await page.tab.keyboard.press("Escape")
        await expect(page.by("new-chat")).not_to_be_in_viewport()

        await menu.tap()
        await page.by("new-chat").tap()
        await expect(page.exchanges).to_have_count(0)
        await expect(page.by("new-chat")).not_to_be_in_viewport()
        await menu.tap()
        await page.by("session-item").get_by_role("link").tap()
        await page.ended()
        await expect(page.by("session-list")).not_to_be_in_viewport()
