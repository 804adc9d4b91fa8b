"""The chat page: the menu of the open conversation, and what it does to it."""

import pytest
from playwright.async_api import expect
from support.chat_page import ChatPage

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


async def test_a_conversation_ends_for_good_after_a_confirmation(page: ChatPage) -> None:
    await page.asked("my name is Zorblax")
    button = page.by("session-menu")
    await button.focus()
    await page.tab.keyboard.press("ArrowDown")
    await expect(page.by("end-session")).to_be_focused()
    await page.tab.keyboard.press("Escape")
    await expect(page.tab.get_by_role("menu")).to_have_count(0)
    await expect(button).to_be_focused()

    await button.click()
    await page.by("end-session").click()
    await expect(page.tab.get_by_role("menu")).to_have_count(0)
    await page.by("confirm").click()
    await expect(page.tab.get_by_text("This conversation is completed.")).to_be_visible()
    await page.tab.reload()
    await expect(page.tab.get_by_text("This conversation is completed.")).to_be_visible()


async def test_a_menu_opens_and_closes_by_its_button_and_by_a_click_elsewhere(page: ChatPage) -> None:
    await page.asked("my name is Zorblax")
    menu = page.tab.get_by_role("menu")
    button = page.by("session-menu")
    await button.click()
    await expect(menu).to_be_visible()
    await button.click()
    await expect(menu).to_have_count(0)
    await button.click()
    await expect(menu).to_be_visible()
    await page.by("messages").click()
    await expect(menu).to_have_count(0)
    await expect(button).to_have_attribute("aria-expanded", "false")
