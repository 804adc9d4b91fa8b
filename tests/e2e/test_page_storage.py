"""The chat page in a browser that keeps nothing of it: blocked by its user, or full."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from support.chat_page import ChatPage, window
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

BLOCKED = """
for (const area of ["localStorage", "sessionStorage"]) {
  Object.defineProperty(window, area, { get() { throw new DOMException("blocked", "SecurityError"); } });
}
const refused = () => Promise.reject(new DOMException("blocked", "SecurityError"));
if (navigator.locks) Object.assign(LockManager.prototype, { request: refused, query: refused });
"""
FULL = """
Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };
"""


@pytest.mark.parametrize("storage", [BLOCKED, FULL], ids=["blocked", "full"])
async def test_a_browser_that_keeps_nothing_shows_a_page_that_works(
    browser: Browser, chat_server: RunningServer, storage: str
) -> None:
    async with window(browser, chat_server.address, color_scheme="light") as (context, watch):
        await context.add_init_script(storage)
        page = ChatPage(await context.new_page(), chat_server.address, watch)
        await page.open()
        await page.choose_agent("echo")
        await page.asked("one")
        await expect(page.answers.last).to_contain_text("echo: one")

        for _ in range(2):
            await page.by("account-menu").click()
            await page.by("open-settings").click()
            await page.by("choose-theme").select_option("dark")
            await page.tab.keyboard.press("Escape")
            await expect(page.tab.locator("html")).to_have_attribute("data-theme", "dark")

        # A choice that is asked for again each time counts too, until the page is left.
        await page.tab.locator("body").press("?")
        keys = page.tab.get_by_role("dialog").get_by_role("checkbox")
        await keys.uncheck()
        await page.tab.keyboard.press("Escape")
        await page.tab.get_by_test_id("messages").press("?")
        await expect(page.tab.get_by_role("dialog")).to_have_count(0)

        await page.composer.fill("half a question")
        await page.start_new_chat()
        await page.by("session-item").get_by_role("link").click()
        await expect(page.composer).to_have_value("half a question")
        session_id = page.session_id
        await page.tab.reload()
        await page.ended()
        assert page.session_id == session_id
        await page.asked("two")


async def test_who_can_not_be_signed_in_for_want_of_storage_is_told_so(browser: Browser, tmp_path: Path) -> None:
    realm = {"realm_url": "http://127.0.0.1:9/realms/none"}
    settings = {"auth": {"mode": "keycloak", "keycloak": realm}}
    async with (
        running_server(tmp_path, settings=settings) as server,
        window(browser, server.address) as (context, watch),
    ):
        await context.add_init_script(BLOCKED)
        tab = await context.new_page()
        await tab.goto(server.address)
        failed = ChatPage(tab, server.address, watch).by("sign-in-failed")
        await expect(failed).to_contain_text("site data that the browser blocks")
