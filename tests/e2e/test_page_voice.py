"""Voice: answers are read aloud and questions dictated, by the browser's own engines, which headless ones lack."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from support.chat_page import ChatPage, window
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

# They only note what they are given, and do what the test tells them.
ENGINES = """
window.said = [];
window.cancelled = 0;
Object.defineProperty(window, "speechSynthesis", { value: {
  speak: (utterance) => said.push(utterance),
  cancel: () => { cancelled += 1; },
} });
window.SpeechSynthesisUtterance = class { constructor(text) { this.text = text; } };
window.SpeechRecognition = class {
  start() { window.listening = this; }
  abort() { this.isAborted = true; this.onend(); }
  hear(...texts) { this.onresult({ results: texts.map((transcript) => [{ transcript }]) }); }
};
"""
SAID = "() => said.map(({ lang, text }) => [lang, text])"


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, chat_server: RunningServer) -> AsyncIterator[ChatPage]:
    async with window(browser, chat_server.address, locale="en") as (context, watch):
        await context.add_init_script(ENGINES)
        page = ChatPage(await context.new_page(), chat_server.address, watch)
        await page.open()
        yield page
        assert page.problems == []


async def says(page: ChatPage) -> Any:
    return await page.tab.evaluate(SAID)


async def test_an_answer_is_read_aloud_in_its_language_without_its_code(page: ChatPage) -> None:
    await page.choose_agent("assistant")
    text = "## Das Wetter\n\nDie Sonne scheint, und es ist **warm**. Der Wind ist nicht stark.\n\n```\nx = 1\n```"
    await page.asked(f"repeat after me: {text}")
    button = page.by("read-aloud")
    await expect(page.answers.locator("pre")).to_be_attached()
    await button.click()
    await expect(button).to_have_accessible_name("Stop reading")
    assert await says(page) == [
        ["de", "Das Wetter"],
        ["de", "Die Sonne scheint, und es ist warm."],
        ["de", "Der Wind ist nicht stark."],
        ["de", "Code."],
    ]
    await page.tab.evaluate("() => said.at(-1).onend()")
    await expect(button).to_have_accessible_name("Read aloud")

    await button.click()
    await expect(button).to_have_accessible_name("Stop reading")
    before = await page.tab.evaluate("() => cancelled")
    await button.click()
    await expect(button).to_have_accessible_name("Read aloud")
    assert await page.tab.evaluate("() => cancelled") > before

    await button.click()
    await page.tab.evaluate("() => said.at(-1).onerror()")
    await expect(page.answers).to_contain_text("The browser has no voice for this.")


async def test_what_is_read_aloud_ends_with_its_conversation_and_with_the_next(page: ChatPage) -> None:
    await page.choose_agent("assistant")
    await page.asked("repeat after me: one")
    await page.asked("repeat after me: two")
    first, second = page.by("read-aloud").nth(0), page.by("read-aloud").nth(1)
    await first.click()
    await expect(first).to_have_accessible_name("Stop reading")
    await second.click()
    await expect(second).to_have_accessible_name("Stop reading")
    await expect(first).to_have_accessible_name("Read aloud")
    before = await page.tab.evaluate("() => cancelled")
    await page.start_new_chat()
    await page.tab.wait_for_function("before => cancelled > before", arg=before)


async def listens(page: ChatPage) -> None:
    await page.by("dictate").click()
    await page.tab.wait_for_function("() => window.listening && !listening.isAborted")


async def test_what_is_dictated_goes_behind_what_is_written(page: ChatPage) -> None:
    await page.choose_agent("assistant")
    await page.composer.fill("repeat after me:")
    await listens(page)
    await expect(page.by("dictation")).to_have_text("The browser listens. Esc ends it.")
    await page.tab.evaluate("() => { listening.hear('hello'); listening.hear('hello', ' my word'); }")
    await expect(page.composer).to_have_value("repeat after me: hello my word")
    await page.composer.press_sequentially("!")
    await page.tab.evaluate("() => listening.hear('hello', ' my word', ' it works')")
    await expect(page.composer).to_have_value("repeat after me: hello my word! it works")
    await page.composer.press("Enter")
    await page.ended()
    await expect(page.answers).to_contain_text("hello my word! it works")
    await expect(page.by("dictate")).to_have_attribute("aria-pressed", "false")
    await page.tab.evaluate("() => listening.hear('too late')")
    await expect(page.composer).to_have_value("")


async def test_dictation_ends_by_escape_and_says_what_it_lacks(page: ChatPage) -> None:
    await listens(page)
    await page.composer.press("Escape")
    await expect(page.by("dictate")).to_have_attribute("aria-pressed", "false")
    await expect(page.by("dictation")).to_have_count(0)
    await listens(page)
    await page.tab.evaluate("() => { listening.onerror({ error: 'not-allowed' }); listening.onend(); }")
    await expect(page.by("dictation")).to_have_text("The browser does not let this page listen.")
    await expect(page.by("dictate")).to_have_attribute("aria-pressed", "false")
