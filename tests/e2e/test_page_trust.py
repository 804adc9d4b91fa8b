"""The chat page tells under an answer what it rests on, when the line is opened."""

from pathlib import Path

import pytest
import yaml
from playwright.async_api import Browser, expect
from support.chat_page import ChatPage, chat_page
from support.hostile_modules import entry
from support.running_server import running_server
from support.test_agents import ENTRIES as TEST_AGENTS
from support.trust_agents import ENTRIES

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


async def opened(page: ChatPage) -> None:
    await page.start_new_chat()
    await page.choose_agent("looking")
    await page.asked("What's the weather in Paris?")
    await page.by("trust").get_by_role("button", name="What this rests on").click()
    await expect(page.by("trust-statements")).to_be_visible()


async def test_statements_tools_and_sources_are_told_when_the_line_is_opened(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES) as server, chat_page(browser, server.address) as page:
        asked_for: list[str] = []
        page.tab.on("request", lambda one: asked_for.append(one.url) if one.url.endswith("/trust") else None)
        await opened(page)
        assert len(asked_for) == 1
        known, row, unknown = await page.by("trust-statements").locator("li").all()
        await expect(known).to_contain_text("It is 21 degrees and sunny in Paris, says the Almanac of Weather.")
        await expect(row).to_contain_text("Paris · calm")
        await expect(page.by("trust")).to_contain_text("That is no proof.")
        await expect(known.get_by_role("button", name="weather")).to_be_visible()
        link = known.get_by_role("link", name="Almanac of Weather")
        await expect(link).to_have_attribute("href", "https://example.org/almanac")
        await expect(unknown).to_contain_text("The model's own words")
        looked, failed = await page.by("trust-tools").locator("li").all()
        await expect(looked).to_contain_text("Succeeded")
        await expect(looked).to_contain_text(
            "Nobody was asked. The settings of the agent 'looking' don't require approval of this tool."
        )
        await expect(failed).to_contain_text("send_postcard")
        await expect(failed).to_contain_text("Failed")
        await expect(page.by("trust-objections")).to_have_count(0)


async def test_a_statement_leads_to_the_card_of_its_tool_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES) as server, chat_page(browser, server.address) as page:
        await opened(page)
        await page.by("trust-statements").get_by_role("button", name="weather").focus()
        await page.tab.keyboard.press("Enter")
        card = page.by("tool-card").filter(has_text="weather")
        await expect(card.get_by_role("button")).to_be_focused()
        await expect(card).to_be_in_viewport()


async def test_nothing_that_a_model_says_is_html_there(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES) as server, chat_page(browser, server.address) as page:
        await opened(page)
        await expect(page.by("trust-statements")).to_contain_text("<img src=x onerror=")
        await expect(page.by("trust").locator("img")).to_have_count(0)
        assert await page.tab.title() != "hacked"


async def test_a_blocked_message_says_which_module_objected(browser: Browser, tmp_path: Path) -> None:
    modules = tmp_path / "modules.yaml"
    modules.write_text(yaml.safe_dump({"modules": [entry("words", settings={"before": "block_word"})]}))
    settings = {"modules": {"file": str(modules)}}
    async with running_server(tmp_path, settings=settings) as server, chat_page(browser, server.address) as page:
        await page.asked("my secret", status="blocked")
        await page.by("trust").get_by_role("button", name="What this rests on").click()
        await expect(page.by("trust-objections")).to_have_text("The module words blocked the message.")
        await expect(page.by("trust-statements")).to_have_count(0)


async def test_an_answer_that_a_module_has_changed_says_so(browser: Browser, tmp_path: Path) -> None:
    modules = tmp_path / "modules.yaml"
    modules.write_text(yaml.safe_dump({"modules": [entry("words", settings={"after": "redact"})]}))
    settings = {"modules": {"file": str(modules)}}
    agents = [one for one in TEST_AGENTS if one["id"] == "echo"]
    served = running_server(tmp_path, agents=agents, settings=settings)
    async with served as server, chat_page(browser, server.address) as page:
        await page.choose_agent("echo")
        await page.asked("my secret")
        await expect(page.answers).to_contain_text("***")
        await page.by("trust").get_by_role("button", name="What this rests on").click()
        await expect(page.by("trust-objections")).to_have_text("The module words changed the answer.")


async def test_an_answer_without_tools_and_sources_has_no_such_line(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, chat_page(browser, server.address) as page:
        await page.asked("hello")
        await expect(page.by("usage")).to_be_visible()
        await expect(page.by("trust")).to_have_count(0)


async def test_a_failure_is_told_and_opening_it_again_tries_again(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES) as server, chat_page(browser, server.address) as page:
        page.provokes("503")
        answers = [503]

        async def fail_once(route: object) -> None:
            if answers:
                body = {"error": {"code": "store_unavailable", "content": "The store is away."}}
                await route.fulfill(status=answers.pop(), json=body)  # type: ignore[attr-defined]
            else:
                await route.continue_()  # type: ignore[attr-defined]

        await page.tab.route("**/trust", fail_once)
        await page.choose_agent("looking")
        await page.asked("What's the weather in Paris?")
        line = page.by("trust").get_by_role("button", name="What this rests on")
        await line.click()
        await expect(page.by("trust-failure")).to_have_text("The store is away.")
        await line.click()
        await line.click()
        await expect(page.by("trust-statements")).to_be_visible()
