"""The chat page and who uses it: tokens in the address, and conversations that are nobody else's."""

import pytest
from playwright.async_api import Browser, expect
from support.chat_page import ChatPage, chat_page
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

NOT_FOUND = r"status of 404"
UNAUTHENTICATED = r"status of 401"


async def test_another_user_sees_nothing_of_the_developers_conversations(
    browser: Browser, chat_server: RunningServer, page: ChatPage
) -> None:
    await page.asked("my name is Zorblax")
    await expect(page.by("session-item")).to_have_text("Name Zorblax")
    async with chat_page(browser, chat_server.address, "#token=dev:alice") as alices:
        await expect(alices.by("session-list")).to_have_text("Your conversations will be listed here.")
        await alices.by("session-search").fill("Zorblax")
        await expect(alices.by("search-state")).to_have_text("Nothing found.")
        await alices.by("session-search").fill("")

        alices.provokes(NOT_FOUND)
        await alices.open(f"#s={page.session_id}")
        await expect(alices.tab.get_by_role("alert")).to_be_visible()
        await expect(alices.tab.get_by_text("Zorblax")).to_have_count(0)

        await alices.start_new_chat()
        await alices.asked("what is my name?")
        await expect(alices.answers).to_contain_text("You have not told me your name yet.")
        await expect(alices.by("session-item")).to_have_text("Name")
    await page.tab.reload()
    await expect(page.by("session-item")).to_have_text("Name Zorblax")


async def test_a_token_leaves_the_address_at_once_and_lasts_as_long_as_its_tab(
    browser: Browser, chat_server: RunningServer
) -> None:
    async with chat_page(browser, chat_server.address, "#token=dev:alice") as page:
        assert "token" not in page.tab.url
        # Who brings a token has nowhere to sign out.
        await page.by("account-menu").click()
        await expect(page.by("open-settings")).to_be_visible()
        await expect(page.by("sign-out")).to_have_count(0)
        await page.tab.keyboard.press("Escape")
        await page.asked("my name is Alice")
        await page.tab.reload()
        await expect(page.by("session-item")).to_have_text("Name Alice")
        assert "token" not in page.tab.url
        other = await page.another_tab()
        await expect(other.by("session-list")).to_have_text("Your conversations will be listed here.")


async def test_a_token_that_has_expired_asks_for_a_new_one(browser: Browser, chat_server: RunningServer) -> None:
    async with chat_page(browser, chat_server.address, "#token=dev:alice:1") as page:
        page.provokes(UNAUTHENTICATED)
        await page.tab.reload()
        notice = page.by("connection-state")
        await expect(notice).to_have_attribute("data-phase", "signed_out")
        await expect(notice).to_contain_text("Please sign in again.")

        await page.tab.evaluate("location.hash = '#token=dev:alice'")
        await expect(notice).to_have_count(0)
        await page.asked("my name is Alice")


async def test_a_token_of_somebody_else_shows_their_conversations_only(
    browser: Browser, chat_server: RunningServer
) -> None:
    async with chat_page(browser, chat_server.address, "#token=dev:alice") as page:
        await page.asked("my name is Alice")
        await expect(page.by("session-item")).to_have_text("Name Alice")
        await page.composer.fill("a secret of Alice")
        page.provokes(NOT_FOUND)
        await page.tab.evaluate("location.hash += '&token=dev:bob'")
        await expect(page.tab.get_by_role("alert")).to_be_visible()
        await expect(page.composer).to_have_value("")
        await expect(page.tab.get_by_text("Alice")).to_have_count(0)
        await page.start_new_chat()
        await expect(page.by("session-list")).to_have_text("Your conversations will be listed here.")
        await expect(page.exchanges).to_have_count(0)
        await page.asked("my name is Bob")
        await expect(page.by("session-item")).to_have_text("Name Bob")
