"""A run is one line that unfolds: what was called, for how long, with whose approval; the same after a reload."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect
from support import wire_agents
from support.approval_agents import ENTRIES as ASKING
from support.approval_agents import calls
from support.chat_page import ChatPage, chat_page, new_chat_in
from support.running_server import RunningServer, running_server
from support.shipped_agents import SHIPPED

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

GUIDE = {
    "id": "guide",
    "type": "leader",
    "crew": ["sentinel"],
    "class_path": "agentic_backend.experts.team.team_leader:TeamLeader",
}
EMAIL = ("send_email", {"to": "ann@example.org", "body": "Hello"})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    agents = [*SHIPPED, GUIDE, *ASKING, *wire_agents.ENTRIES]
    async with running_server(tmp_path_factory.mktemp("server"), agents=agents) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage, notes: Path) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page, agent="assistant") as page:
        yield page


def head(page: ChatPage) -> Locator:
    return page.by("run-head")


async def test_a_run_is_one_line_until_it_is_unfolded(page: ChatPage) -> None:
    await page.asked("What time is it in Tokyo, and what is 12*34?")
    await expect(head(page)).to_have_count(1)
    await expect(head(page)).to_have_text(re.compile(r"^Used 2 tools· [\d.]+ (ms|s)$"))
    await expect(page.by("tool-card")).to_have_count(0)
    await head(page).focus()
    await page.tab.keyboard.press("Enter")
    await expect(head(page)).to_have_attribute("aria-expanded", "true")
    await expect(head(page)).to_be_focused()
    cards = page.by("tool-card")
    await expect(cards.locator(".tool-name")).to_have_text(["Current time", "Calculate"])
    await cards.last.get_by_role("button").click()
    await expect(cards.last.locator("dt")).to_have_text("expression")
    await expect(cards.last.locator("dd")).to_have_text("12*34")
    await page.tab.reload()
    await expect(head(page)).to_have_attribute("aria-expanded", "false")
    await expect(head(page)).to_have_text(re.compile(r"^Used 2 tools· "))


async def test_while_it_works_the_line_tells_what_at_and_for_how_long(page: ChatPage) -> None:
    await page.ask("wait 3 seconds")
    await expect(page.by("doing")).to_have_text("Slow task")
    await expect(head(page)).to_have_text(re.compile(r"^Working…Slow task· [1-9]\d* s$"))
    await expect(page.by("working")).to_have_count(1)
    await page.ended()
    await expect(head(page)).to_have_text(re.compile(r"^Used 1 tool· [3-9]\.\d s$"))


async def test_an_expert_is_a_node_of_the_tree_and_nothing_is_told_twice(page: ChatPage) -> None:
    await page.choose_agent("team")
    await page.asked("Ask documentation: search the documents for close codes")

    async def check() -> None:
        await expect(head(page)).to_have_text(re.compile(r"^Used 1 tool · Asked Documentation· "))
        await page.unfold()
        expert = page.by("step-agent")
        await expect(expert).to_have_attribute("data-agent", "documentation")
        await expect(expert.locator(".steps").get_by_test_id("tool-card")).to_have_attribute(
            "data-tool", "search_documents"
        )
        await expect(page.by("tool-card")).to_have_count(2)
        await expect(page.by("activity")).to_have_count(0)
        await expect(page.by("observation")).to_have_count(0)

    await check()
    await page.tab.reload()
    await check()


async def test_an_expert_that_the_reader_may_not_ask_has_its_name_too(
    browser: Browser, shared_server: RunningServer
) -> None:
    async with chat_page(browser, shared_server.address, "#token=dev:alice") as page:
        await page.choose_agent("guide")
        await page.asked("Is the server healthy?")
        await expect(head(page)).to_contain_text("Asked Sentinel")
        await page.tab.reload()
        await expect(head(page)).to_contain_text("Asked Sentinel")


async def test_a_result_is_shown_by_its_kind(page: ChatPage) -> None:
    await page.choose_agent("documentation")
    await page.asked("Search the documents for close codes")
    await page.unfold()
    await page.by("tool-card").get_by_role("button").click()
    result = page.by("tool-result")
    await expect(result.locator("th")).to_have_text(["number", "title", "heading", "file", "text"])
    await expect(result.locator("tbody tr").first).to_contain_text("chat-protocol.md")


RESULT = """async (content) => {
  const { html, render } = await import("/static/components/html.js");
  const { Result } = await import("/static/components/result.js");
  const root = document.createElement("div");
  document.body.append(root);
  render(html`<${Result} result=${{ ok: true, content }} />`, root);
  await new Promise((done) => setTimeout(done, 200));
  const shown = root.querySelector("[data-testid=tool-result]").innerHTML;
  root.remove();
  return shown;
}"""


async def test_hostile_results_are_only_text(page: ChatPage) -> None:
    for content in (
        '{"<img src=x onerror=alert(1)>": ["<script>alert(1)</script>", 12345678901234567890]}',
        '[{"a": "<img src=x onerror=alert(1)>"}, {"b": {"c": "<b>"}}]',
        "# Title\n<img src=x onerror=alert(1)> [x](javascript:alert(1))",
        '{"not": json',
        "[" * 100_000,
    ):
        shown: str = await page.tab.evaluate(RESULT, content)
        assert "<img" not in shown and "<script" not in shown and 'href="javascript' not in shown
    whole: str = await page.tab.evaluate(RESULT, '{"n": 12345678901234567890}')
    assert "12345678901234567890" in whole


async def test_who_approved_and_both_arguments_are_told_after_a_reload_too(page: ChatPage) -> None:
    await page.choose_agent("approving")
    await page.ask(calls(EMAIL))
    await page.by("approval").get_by_test_id("edit").click()
    await page.by("edit-as-json").click()
    await page.by("edit-args").fill('{"to": "bob@example.org", "body": "Hello"}')
    await page.by("confirm-edit").click()
    await page.ended()
    for _ in range(2):
        await expect(page.by("approval")).to_have_count(0)
        await page.unfold()
        card = page.by("tool-card")
        await expect(card.get_by_test_id("decision")).to_have_text("Approved with changes")
        await card.get_by_role("button").first.click()
        await expect(card.get_by_test_id("tool-args")).to_contain_text("ann@example.org")
        await expect(card.get_by_test_id("edited-args")).to_contain_text("bob@example.org")
        await expect(card.get_by_test_id("decided-by")).to_contain_text("by developer")
        await page.tab.reload()


async def test_progress_that_stays_is_there_after_a_reload(page: ChatPage) -> None:
    await page.choose_agent("tells-steps")
    await page.asked("count")
    live = await page.by("activity").all_inner_texts()
    assert any("Looked through 7 files" in text for text in live)
    await page.tab.reload()
    await page.ended()
    await expect(page.by("activity")).to_have_text(live)


async def test_an_error_tells_its_cause_its_code_and_the_way_on(page: ChatPage) -> None:
    await page.asked("fail at once", status="error")
    for _ in range(2):
        notice = page.by("error-notice")
        await expect(notice).to_have_attribute("data-code", re.compile("model_"))
        await expect(notice.locator("p").first).to_contain_text("again")
        await expect(notice.get_by_test_id("request-id")).to_have_text(re.compile(r"^\w{8,}"))
        await expect(notice.get_by_test_id("copy-request-id")).to_be_visible()
        await page.tab.reload()
    await page.by("try-again").click()
    await page.ended("error", exchanges=2)
