"""The chat page from right to left: its frame is mirrored, what is written keeps its own direction."""

from typing import Any

import pytest
from playwright.async_api import Locator, expect
from support.chat_page import ChatPage

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

CHOOSE = "(direction) => localStorage.setItem('chat.direction', direction)"
TOO_WIDE = """() => {
  const { scrollWidth, clientWidth } = document.documentElement;
  return scrollWidth - clientWidth;
}"""


async def left(element: Locator) -> float:
    box: Any = await element.bounding_box()
    return float(box["x"])


async def test_the_frame_is_mirrored_and_texts_keep_their_direction(page: ChatPage) -> None:
    await page.asked("my name is Zorblax")
    await page.asked("שלום, what is my name?")
    for direction in ("ltr", "rtl"):
        await page.tab.evaluate(CHOOSE, direction)
        await page.tab.reload()
        await page.ended(exchanges=2)
        is_mirrored = direction == "rtl"
        assert (await left(page.by("session-list")) > await left(page.composer)) is is_mirrored
        assert (await left(page.by("send")) < await left(page.composer)) is is_mirrored
        assert (await left(page.by("message-user").first) < await left(page.answers.first) + 50) is is_mirrored
        for text, its in ((page.answers.first.locator("p").first, "ltr"), (page.by("message-user").last, "rtl")):
            shown = text.locator("xpath=descendant-or-self::*[@dir='auto']").first
            assert await shown.evaluate("(element) => getComputedStyle(element).direction") == its


async def test_nothing_is_wider_than_a_phone_from_right_to_left(page: ChatPage) -> None:
    await page.tab.set_viewport_size({"width": 390, "height": 844})
    await page.tab.evaluate(CHOOSE, "rtl")
    await page.tab.reload()
    await page.asked("show me some markdown")
    assert await page.tab.evaluate(TOO_WIDE) == 0
    await expect(page.by("session-list")).not_to_be_in_viewport()
    await page.tab.get_by_role("button", name="Conversations").click()
    await expect(page.by("session-list")).to_be_in_viewport()
    assert await page.tab.evaluate(TOO_WIDE) == 0
