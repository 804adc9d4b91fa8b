"""What the chat page shows of answers that are more than text, or none."""

from pathlib import Path

import pytest
from graphs.texts import AGENTS
from playwright.async_api import Browser, expect
from support import showing_application
from support.chat_page import chat_page
from support.running_server import running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


async def test_answers_show_their_json_sources_images_and_their_absence(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server, chat_page(browser, server.address) as page:

        async def ask(agent_id: str) -> None:
            await page.start_new_chat()
            await page.choose_agent(agent_id)
            await page.ask("hello")
            await page.ended()
            await expect(page.answers).to_have_count(1)

        await ask("silent")
        await expect(page.by("no-answer")).to_have_text("The agent ended without an answer.")
        await ask("structured-by-provider")
        await expect(page.answers.locator("pre")).to_contain_text('"city": "Zürich"')
        await ask("citing-openai")
        sources = page.answers.get_by_label("Sources")
        await expect(sources.locator("a")).to_have_attribute("href", "https://example.org/a")
        await expect(sources.locator(".source-number")).to_have_text(["1", "2"])
        await ask("drawing")
        await expect(page.answers.locator("img.picture")).to_have_count(1)
        await expect(page.by("no-answer")).to_have_count(0)


async def test_of_a_form_that_it_does_not_know_the_page_shows_the_words(browser: Browser, tmp_path: Path) -> None:
    settings = {"applications": [{"class_path": showing_application.PATH}]}
    async with (
        running_server(tmp_path, agents=[showing_application.AGENT], settings=settings) as server,
        chat_page(browser, server.address) as page,
    ):
        await page.choose_agent("painter")
        await page.asked('use the tool paint with {"how": "sketch"}')
        await page.unfold()
        await expect(page.tab.get_by_text("of Zorblax's")).to_have_text("A boat of Zorblax's.")
        await expect(page.tab.locator("strong", has_text="boat")).to_be_visible()
