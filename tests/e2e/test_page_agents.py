"""The chat page: whom one asks and how, and the menu of the open conversation."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from support.chat_page import ChatPage, chat_page
from support.paced_agent import Pace
from support.running_server import running_server

ECHO = "support.test_agents:echo_graph"
AGENTS: list[dict[str, Any]] = [
    {"id": "fox", "name": "Fox", "icon": "🦊", "description": "Sly, and knows the woods.", "class_path": ECHO},
    {"id": "plain", "name": "Plain talk", "tags": ["simple"], "class_path": ECHO},
    {"id": "hostile", "name": "<b>x</b>" * 20, "description": "<img src=x onerror=alert(1)>", "class_path": ECHO},
    *[{"id": f"more{n}", "name": f"More {n}", "class_path": ECHO} for n in range(4)],
]

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


async def test_a_conversation_ends_for_good_after_a_confirmation(page: ChatPage) -> None:
    await page.asked("my name is Zorblax")
    button = page.by("session-menu")
    await button.focus()
    await page.tab.keyboard.press("ArrowDown")
    await expect(page.by("rename-open")).to_be_focused()
    await page.tab.keyboard.press("e")
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


async def test_agents_are_found_chosen_remembered_and_liked(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server, chat_page(browser, server.address) as page:
        picker, options = page.by("agent-picker"), page.by("agent-option")
        await picker.click()
        await expect(options).to_have_count(8)
        await page.by("agent-search").fill("WOODS")
        await expect(options).to_have_count(1)
        await expect(options.locator(".agent-mark")).to_have_text("🦊")
        await options.click()
        await expect(picker).to_have_attribute("data-agent", "fox")

        await picker.click()
        await page.by("agent-search").fill("simple")
        await expect(options.locator(".agent-mark")).to_have_text("PT")
        await page.by("agent-favourite").click()
        await expect(page.by("agent-favourite")).to_have_attribute("aria-pressed", "true")
        await page.by("agent-search").fill("no such agent")
        await expect(page.tab.get_by_text("Nothing found.")).to_be_visible()
        await page.by("agent-search").fill("")
        await expect(options.first).to_have_attribute("data-agent", "plain")
        await page.tab.keyboard.press("Escape")
        await expect(picker).to_be_focused()

        await page.tab.reload()
        await expect(picker).to_have_attribute("data-agent", "fox")
        await page.asked("hello")
        await expect(page.by("author")).to_contain_text("Fox")
        await expect(page.by("author").locator(".agent-mark")).to_have_text("🦊")
        await picker.click()
        await expect(options.first).to_have_attribute("data-agent", "plain")


async def test_another_agent_takes_over_within_a_conversation(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=AGENTS) as server, chat_page(browser, server.address) as page:
        await page.choose_agent("fox")
        await page.asked("hello")
        await page.choose_agent("plain")
        await expect(page.by("session-agent")).to_have_text("Plain talk")
        await page.asked("and you?")
        await expect(page.by("author").locator("h2")).to_have_text(["Fox", "Plain talk"])
        await page.tab.reload()
        await page.ended(exchanges=2)
        await expect(page.by("session-agent")).to_have_text("Plain talk")
        await expect(page.by("author").locator("h2")).to_have_text(["Fox", "Plain talk"])
        await page.start_new_chat()
        await expect(page.by("session-agent")).to_have_text("Fox")


async def test_a_temporary_chat_remembers_what_was_said_in_it(page: ChatPage) -> None:
    await page.choose_agent("assistant")
    await page.by("mode-query").click()
    await page.asked("my name is Zorblax")
    await page.asked("what is my name?")
    await expect(page.answers.last).to_contain_text("Zorblax")


async def test_nothing_of_a_temporary_chat_is_kept(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    await page.by("mode-query").click()
    await expect(page.by("query-hint")).to_contain_text("Temporary chat")
    await page.ask("write 20 words")
    pace.write(4)
    await page.writes()
    await expect(page.by("query-tag")).to_be_visible()
    pace.finish()
    await page.ended()
    await page.asked("write 21 words")
    await expect(page.exchanges).to_have_count(2)
    assert page.session_id == ""
    await expect(page.by("session-item")).to_have_count(0)
    kept = await page.tab.evaluate("JSON.stringify(localStorage)")
    assert "words" not in kept

    await page.start_new_chat()
    await expect(page.by("query-hint")).to_have_count(0)
    await page.asked("write 22 words")
    await expect(page.by("session-item")).to_have_count(1)


async def test_a_temporary_chat_can_be_stopped_and_stops_when_it_is_left(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    await page.by("mode-query").click()
    await page.ask("write 20 words")
    pace.write(4)
    await page.writes()
    await page.by("stop").click()
    pace.write(1)
    await page.ended("stopped")
    await page.ask("write 30 words")
    pace.write(4)
    await page.writes()
    await page.start_new_chat()
    pace.finish()
    await page.asked("my name is Zorblax")
    await expect(page.exchanges).to_have_count(1)


async def test_a_profile_can_be_chosen_for_what_is_asked(page: ChatPage) -> None:
    await page.by("session-menu").click()
    await page.tab.get_by_role("menuitemradio", name="Profile: compact").click()
    await page.asked("my name is Zorblax")
    await page.by("session-menu").click()
    await expect(page.tab.get_by_role("menuitemradio", checked=True)).to_have_text("Profile: compact")


async def test_a_conversation_is_renamed_from_its_menu(page: ChatPage) -> None:
    await page.asked("my name is Zorblax")
    await page.by("session-menu").click()
    await page.by("rename-open").click()
    await expect(page.by("rename-input")).to_be_focused()
    await page.by("rename-input").fill("<i>Other</i>")
    await page.tab.keyboard.press("Enter")
    await expect(page.by("title")).to_have_text("<i>Other</i>")
    await expect(page.by("session-item")).to_have_text("<i>Other</i>")
