"""What a user chooses for the page: theme, language, direction, notifications; and the count of what has ended."""

import re

import pytest
from playwright.async_api import Browser, expect
from support import paced_agent
from support.chat_client import chat
from support.chat_page import ChatPage, chat_page
from support.paced_agent import Pace
from support.page_sockets import HeldAnswers
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

HIDE = """(isHidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
  const visibilityState = isHidden ? "hidden" : "visible";
  Object.defineProperty(document, "visibilityState", { configurable: true, get: () => visibilityState });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
NOTING = """() => {
  window.noted = [];
  window.asked = 0;
  window.Notification = class {
    static permission = "default";
    static async requestPermission() { window.asked += 1; return (this.permission = window.answer ?? "granted"); }
    constructor(title, options) { window.noted.push([title, options.body]); }
    close() {}
  };
}"""

NOTIFICATIONS_CLOCK = """() => {
  // For them 11 s pass between any two looks at the clock. The connection must not take it for silence.
  const now = Date.now;
  let passed = 0;
  Date.now = () => now() + (/Notifications|#follow/.test(new Error().stack) ? (passed += 11_000) : 0);
}"""

FEW_FRAMES = """() => {
  // As in a tab in the background: no frames, and timers once a second.
  const set = setTimeout;
  window.requestAnimationFrame = () => 0;
  window.setTimeout = (callback, ms, ...given) => set(callback, Math.max(ms, 1_000), ...given);
}"""


async def background(page: ChatPage) -> str:
    colour: str = await page.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


async def choose(page: ChatPage, item: str) -> None:
    await page.by("account-menu").click()
    await page.by(item).click()


async def choose_theme(page: ChatPage, name: str) -> None:
    await choose(page, "open-settings")
    await page.by("choose-theme").select_option(name)
    await page.tab.keyboard.press("Escape")


async def test_a_theme_is_chosen_and_kept_in_every_tab(browser: Browser, chat_server: RunningServer) -> None:
    async with chat_page(browser, chat_server.address, color_scheme="light") as page:
        light = await background(page)
        await choose_theme(page, "dark")
        dark = await background(page)
        assert dark != light
        other = await page.another_tab()
        assert await background(other) == dark
        await choose(page, "open-settings")
        await expect(page.by("choose-theme")).to_have_value("dark")
        await page.tab.keyboard.press("Escape")
        await expect(page.by("account-menu")).to_be_focused()
        await choose_theme(page, "light")
        await page.tab.emulate_media(color_scheme="dark")
        assert await background(page) == light
        await expect(other.tab.locator("html")).to_have_attribute("data-theme", "light")
        await choose_theme(page, "system")
        assert await background(page) == dark


async def test_a_chosen_theme_is_there_before_the_page_s_modules(browser: Browser, chat_server: RunningServer) -> None:
    async with chat_page(browser, chat_server.address, color_scheme="light") as page:
        await choose_theme(page, "dark")
        dark = await background(page)
        await page.tab.route("**/main.js", lambda route: route.abort())
        page.provokes("ERR_FAILED")
        await page.tab.reload()
        assert await background(page) == dark


async def test_language_and_direction_are_chosen_on_the_page(browser: Browser, chat_server: RunningServer) -> None:
    async with chat_page(browser, chat_server.address) as page:
        await choose(page, "open-settings")
        await expect(page.by("apply-settings")).to_have_count(0)
        await page.by("choose-language").select_option("de")
        await page.by("choose-direction").select_option("rtl")
        await page.by("apply-settings").click()
        await expect(page.tab.locator("html[lang=de][dir=rtl]")).to_be_attached()
        await choose(page, "open-settings")
        await expect(page.tab.get_by_role("heading", name="Einstellungen")).to_be_visible()
        await page.by("choose-language").select_option("")
        await page.by("choose-direction").select_option("")
        await page.by("apply-settings").click()
        await expect(page.tab.locator("html[lang=en][dir=ltr]")).to_be_attached()


async def hide(page: ChatPage, *, seconds: float) -> None:
    """The user looks elsewhere, for so long by the page's clock."""
    await page.tab.evaluate(HIDE, True)
    await page.tab.evaluate("(ms) => { const now = Date.now; Date.now = () => now() + ms; }", seconds * 1_000)


async def test_who_looks_elsewhere_is_told_once_they_wish_it(page: ChatPage, pace: Pace) -> None:
    await page.tab.evaluate(NOTING)
    await page.choose_agent("paced")
    for wishes in (False, True):
        if wishes:
            await choose(page, "open-settings")
            await page.by("notifications").click()
            await expect(page.by("notifications")).to_be_checked()
            await page.tab.keyboard.press("Escape")
        assert await page.tab.evaluate("window.asked") == int(wishes)
        await page.ask(paced_agent.ASK)
        pace.write(5)
        await page.writes()
        await hide(page, seconds=11)
        pace.write(200)
        await expect(page.tab).to_have_title(re.compile(r"^\(1\) "))
        await page.ended(exchanges=1 + wishes)
        assert await page.tab.evaluate("window.noted") == ([["paced", "Has answered."]] if wishes else [])
        await page.tab.evaluate(HIDE, False)
        await expect(page.tab).to_have_title(re.compile(r"^[^(]"))


async def test_a_short_answer_and_one_that_is_seen_are_not_told(page: ChatPage, pace: Pace) -> None:
    await page.tab.evaluate(NOTING)
    await choose(page, "open-settings")
    await page.by("notifications").click()
    await page.tab.keyboard.press("Escape")
    await page.choose_agent("paced")
    for hidden_s in (None, 1):
        await page.ask(paced_agent.ASK)
        if hidden_s is not None:
            await hide(page, seconds=hidden_s)
        pace.write(200)
        await page.ended(exchanges=1 if hidden_s is None else 2)
    await expect(page.tab).to_have_title(re.compile(r"^\(1\) "))
    assert await page.tab.evaluate("window.noted") == []


async def test_what_waits_for_the_user_is_told(page: ChatPage) -> None:
    """In a new conversation that has got its session since the page looked last."""
    held = await HeldAnswers.on(page)
    held.pass_on.clear()
    await switch_notifications_on(page)
    await page.choose_agent("asking")
    await hide(page, seconds=0)
    await page.tab.evaluate(NOTIFICATIONS_CLOCK)
    await page.ask("go on")
    await expect(page.exchanges).to_have_attribute("data-status", "sending")
    await page.tab.evaluate(FEW_FRAMES)
    held.pass_on.set()
    await page.ended("awaiting_human")
    await expect(page.tab).to_have_title(re.compile(r"^\(1\) "))
    assert await page.tab.evaluate("window.noted") == [["asking", "Waits for your decision."]]


async def switch_notifications_on(page: ChatPage) -> None:
    await page.tab.evaluate(NOTING)
    await choose(page, "open-settings")
    await page.by("notifications").click()
    await page.tab.keyboard.press("Escape")


async def test_what_happens_in_another_conversation_is_told(
    page: ChatPage, pace: Pace, chat_server: RunningServer
) -> None:
    await switch_notifications_on(page)
    await page.choose_agent("paced")
    await page.ask(paced_agent.ASK)
    pace.write(5)
    await page.writes()
    await page.start_new_chat()
    await hide(page, seconds=11)
    pace.write(200)
    await expect(page.tab).to_have_title(re.compile(r"^\(1\) "))

    await page.tab.evaluate(NOTIFICATIONS_CLOCK)
    async with chat(chat_server.address) as client:
        await client.send({"message": "go on", "agent_id": "asking"})
        await expect(page.tab).to_have_title(re.compile(r"^\(2\) "))
        await client.send({"message": "fail", "agent_id": "raising"})
        await expect(page.tab).to_have_title(re.compile(r"^\(3\) "))
    assert await page.tab.evaluate("window.noted") == [
        ["paced", "Has answered."],
        ["asking", "Waits for your decision."],
        ["raising", "Ended without an answer"],
    ]


async def test_another_conversation_is_not_told_of_while_a_tab_shows_it(
    page: ChatPage, pace: Pace, chat_server: RunningServer
) -> None:
    await switch_notifications_on(page)
    other = await page.another_tab()
    await hide(page, seconds=0)
    async with chat(chat_server.address) as client:
        for seen_by_none in (False, True):
            await client.send({"message": paced_agent.ASK, "agent_id": "paced"})
            await expect(page.tab.get_by_role("img", name="Running")).to_be_visible()
            await hide(page, seconds=11)
            pace.write(paced_agent.WORDS + 1)
            await client.until("final")
            await expect(page.tab.get_by_role("img", name="Running")).to_have_count(0)
            await expect(page.tab).to_have_title(re.compile(r"^\(1\) " if seen_by_none else r"^[^(]"))
            # And then nobody sees any of them.
            await other.tab.evaluate(HIDE, True)
    assert await page.tab.evaluate("window.noted") == [["paced", "Has answered."]]


async def test_a_browser_that_refuses_is_told_of(page: ChatPage) -> None:
    await page.tab.evaluate(NOTING)
    await page.tab.evaluate("window.answer = 'denied'")
    await choose(page, "open-settings")
    await page.by("notifications").click()
    await expect(page.by("settings").get_by_role("status")).to_contain_text("doesn't allow")
    await expect(page.by("notifications")).not_to_be_checked()
