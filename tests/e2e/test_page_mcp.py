"""The chat page: what the tools of MCP servers show beside their texts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from services.mcp_echo import echo_over_stdio
from support.chat_page import ChatPage, chat_page
from support.mcp_agents import MODULE
from support.running_server import running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

AGENT = {
    "id": "local",
    "name": "Local",
    "class_path": f"{MODULE}:ToolUser",
    "tuning": {"mcp_servers": [{"id": "local"}]},
}


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, tmp_path: Path) -> AsyncIterator[ChatPage]:
    settings = {"mcp_servers": {"local": echo_over_stdio()}}
    async with running_server(tmp_path, agents=[AGENT], settings=settings) as server:
        async with chat_page(browser, server.address) as page:
            await page.choose_agent("local")
            yield page


async def test_a_tools_picture_and_link_are_shown_without_unfolding_its_run(page: ChatPage) -> None:
    await page.asked("call picture()")
    media = page.tab.locator(".run-media")
    await expect(media.locator("img.picture")).to_have_js_property("naturalWidth", 1)
    await expect(media.get_by_role("link", name="pixels")).to_have_attribute("href", "https://example.org/pixels")


async def test_a_structured_result_is_shown_when_its_card_is_opened(page: ChatPage) -> None:
    await page.asked("call structured()")
    await page.unfold()
    card = page.by("tool-card")
    await expect(card.locator("code")).to_have_count(0)
    await card.get_by_role("button").first.click()
    await expect(card.locator("code")).to_contain_text('"degrees": 21')


async def test_a_reload_shows_the_same(page: ChatPage) -> None:
    await page.asked("call picture()")
    await page.tab.reload()
    await expect(page.exchanges.locator("img.picture")).to_have_js_property("naturalWidth", 1)


async def test_a_call_has_the_title_that_its_tool_declares_after_a_reload_too(page: ChatPage) -> None:
    await page.asked("call structured()")
    for _ in range(2):
        await page.unfold()
        name = page.by("tool-card").locator(".tool-name")
        await expect(name).to_have_text("Weather of a city")
        await expect(name).to_have_attribute("title", "structured")
        await page.tab.reload()
