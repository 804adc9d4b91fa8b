"""The chat page: choosing an agent, asking, and the ways in which an answer is shown."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from support.chat_page import ChatPage, chat_page
from support.paced_agent import Pace
from support.running_server import running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

GUIDE: dict[str, Any] = {
    "id": "guide",
    "name": "City guide",
    "description": "Knows the time everywhere.",
    "tags": ["travel", "clocks"],
    "class_path": "agentic_backend.experts.assistant.assistant:Assistant",
    "chat": {"starters": ["What time is it in Tokyo?", "What time is it in Oslo?"]},
}


async def test_a_new_chat_offers_the_agents_and_what_each_could_be_asked(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[GUIDE]) as server, chat_page(browser, server.address) as page:
        picker = page.by("agent-picker")
        await expect(picker).to_have_attribute("data-agent", "assistant")
        await picker.click()
        await expect(page.by("agent-option")).to_have_count(2)
        await picker.click()
        await page.choose_agent("guide")
        for text in ("Knows the time everywhere.", "travel", "clocks"):
            await expect(page.tab.get_by_text(text, exact=True)).to_be_visible()
        await expect(page.by("starter")).to_have_text(GUIDE["chat"]["starters"])

        # It is there to be written on, and not sent.
        await page.by("starter").first.click()
        await expect(page.composer).to_be_focused()
        await expect(page.composer).to_have_value("What time is it in Tokyo?")
        await page.composer.press("Enter")
        await page.ended()
        await expect(page.by("message-user")).to_contain_text("What time is it in Tokyo?")
        await expect(page.by("session-agent")).to_have_text("City guide")


async def test_enter_asks_and_the_answer_is_markdown_while_it_streams(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    await page.ask("show me some markdown")
    await expect(page.composer).to_have_value("")
    await expect(page.by("message-user")).to_contain_text("show me some markdown")
    await expect(page.by("working")).to_be_visible()

    pace.write(12)
    await expect(page.answers.locator("h1")).to_have_text("Markdown, as agents write it")
    await expect(page.answers).to_have_attribute("data-streaming", "true")
    await expect(page.answers.locator("strong")).to_have_text("bold")
    await expect(page.by("stop")).to_be_visible()
    await expect(page.by("working")).to_have_count(0)
    await expect(page.by("usage")).to_have_count(0)

    pace.finish()
    await page.ended()
    await expect(page.answers).to_have_count(1)
    for element in ("strong", "em", "p code", "ol > li", "ol ul > li", "blockquote"):
        await expect(page.answers.locator(element).first).to_be_visible()
    await expect(page.answers.locator("tbody tr")).to_have_count(3)
    await expect(page.answers.locator(".code-head span")).to_have_text("python")
    await expect(page.answers.locator("pre")).to_contain_text('    return f"Hello, {name}!"')
    await expect(page.answers.locator("a")).to_have_attribute("rel", "noopener noreferrer")
    await expect(page.by("usage")).to_contain_text("offline")
    await expect(page.by("send")).to_be_visible()


async def test_a_conversation_gets_its_title_in_the_list_and_above_it(page: ChatPage) -> None:
    await page.asked("my name is Zorblax")
    item = page.by("session-item")
    await expect(item).to_have_text("Name Zorblax")
    await expect(item.get_by_role("link")).to_have_attribute("aria-current", "page")
    await expect(page.by("title")).to_have_text("Name Zorblax")
    await expect(page.tab).to_have_title("Name Zorblax – Chat")


async def test_a_thought_is_a_card_that_can_be_opened(page: ChatPage) -> None:
    await page.asked("think about what is 12*34")
    await page.unfold()
    thought = page.by("thought")
    await expect(thought).to_have_count(1)
    await expect(thought.locator("summary")).to_contain_text("Thought")
    await expect(thought.locator(".card-body")).to_be_hidden()
    await thought.locator("summary").click()
    await expect(thought.locator(".card-body")).to_contain_text("I am asked")
    await expect(page.answers.last).to_contain_text("408")


async def test_a_thought_stays_open_while_it_is_written(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    await page.ask("think about the weather")
    pace.write(3)
    await expect(page.by("thought").locator("summary")).to_have_text("Thinking…")
    await expect(page.by("thought").locator(".card-body")).to_have_text("I am asked:")
    await expect(page.by("thought").locator(".card-body")).to_be_visible()
    pace.finish()
    await page.ended()
    await expect(page.by("thought").locator(".card-body")).to_be_hidden()


async def test_tools_called_at_once_have_a_card_each_with_its_result(page: ChatPage) -> None:
    await page.asked("What time is it in Tokyo, and what is 12*34?")
    await page.unfold()
    await expect(page.by("observation")).to_have_text("Let me look that up with current_time and calculate.")
    cards = page.by("tool-card")
    await expect(cards).to_have_count(2)
    await expect(cards.locator(".tool-name")).to_have_text(["Current time", "Calculate"])
    for index in range(2):
        await expect(cards.nth(index)).to_have_attribute("data-state", "ok")
    await expect(page.by("tool-result")).to_contain_text(["In Tokyo it is", "12*34 = 408"])

    await cards.last.get_by_role("button").click()
    await expect(cards.last.get_by_test_id("tool-args")).to_have_text("expression12*34", use_inner_text=False)
    await expect(page.answers).to_contain_text("12*34 = 408")


async def test_a_tool_that_fails_says_so_on_its_card(page: ChatPage) -> None:
    await page.asked("What is 1/0?")
    await page.unfold()
    card = page.by("tool-card")
    await expect(card).to_have_attribute("data-state", "failed")
    await expect(card.get_by_role("img", name="Failed")).to_be_visible()
    await expect(page.by("tool-result")).to_have_text("Nothing can be divided by zero.")
    await expect(page.answers).to_contain_text("failed")


UNDER = """(button) => {
  const middle = (element) => {
    const { x, y, width, height } = element.getBoundingClientRect();
    return [x + width / 2, y + height / 2];
  };
  const view = document.querySelector("[data-testid=messages]");
  view.scrollTop += middle(document.querySelector(".code-head"))[1] - middle(button)[1];
  return button.contains(document.elementFromPoint(...middle(button)));
}"""


async def test_the_button_to_the_latest_is_above_all_that_is_read(page: ChatPage) -> None:
    await page.tab.set_viewport_size({"width": 700, "height": 420})
    await page.asked("show me some markdown")
    await page.asked("show me some markdown")
    await page.by("messages").evaluate("(view) => view.scrollTo(0, 0)")
    button = page.by("jump-to-latest")
    await expect(button).to_be_visible()
    assert await button.evaluate(UNDER)
    await button.click()
    await expect(button).to_have_count(0)
    await expect(page.by("usage").last).to_be_in_viewport()
