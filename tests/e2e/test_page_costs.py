"""The chat page shows what exchanges and their conversation have cost, and nothing where no price is set."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from support.chat_page import chat_page
from support.running_server import FAST, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

PRICE = {"model": "*", "input_per_million": 0, "output_per_million": 1_000_000, "from": "2026-01-01"}
SETTINGS = {**FAST, "prices": [PRICE], "titles": {"enabled": False}}


def amount(text: str) -> float:
    assert text.startswith("$"), text
    return float(text.removeprefix("$").replace(",", ""))


async def test_each_exchange_and_the_conversation_have_their_cost(browser: Browser, tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, settings=SETTINGS) as server,
        chat_page(browser, server.address) as page,
    ):
        await expect(page.by("session-cost")).to_have_count(0)
        await page.asked("What is 17 * 23?")
        await expect(page.by("cost")).to_have_count(1)
        first = amount(await page.by("cost").inner_text())
        assert first > 0 and amount(await page.by("session-cost").inner_text()) == first
        await page.asked("hello")
        await expect(page.by("cost")).to_have_count(2)
        costs = [amount(text) for text in await page.by("cost").all_inner_texts()]
        assert costs[0] == first and costs[1] > 0
        await expect(page.by("session-cost")).to_have_text(f"${sum(costs):,.2f}")

        other = await page.another_tab(f"#s={page.session_id}")
        await expect(other.by("cost")).to_have_count(2)
        assert [amount(text) for text in await other.by("cost").all_inner_texts()] == costs


async def test_all_variants_of_a_conversation_were_paid_for(browser: Browser, tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, settings=SETTINGS) as server,
        chat_page(browser, server.address) as page,
    ):
        await page.asked("What is 17 * 23?")
        first = amount(await page.by("session-cost").inner_text())
        await page.by("regenerate").click()
        await expect(page.by("variant-place")).to_have_text("2/2")
        await page.ended()
        both = f"${first + amount(await page.by('cost').inner_text()):,.2f}"
        await expect(page.by("session-cost")).to_have_text(both)
        await page.by("session-usage").click()
        calls = page.by("usage-by-model").locator("tbody td").first
        await expect(calls).to_have_text("4")
        await page.tab.keyboard.press("Escape")
        await page.by("previous-variant").click()
        await expect(page.by("variant-place")).to_have_text("1/2")
        await page.tab.reload()
        await expect(page.by("session-cost")).to_have_text(both)


async def test_without_prices_there_is_no_cost(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, chat_page(browser, server.address) as page:
        asked_for: list[str] = []
        page.tab.on("request", lambda request: asked_for.append(request.url) if "/usage?" in request.url else None)
        await page.asked("hello")
        await page.asked("hello again")
        await expect(page.by("usage").last).to_be_visible()
        await expect(page.by("cost")).to_have_count(0)
        await expect(page.by("session-cost")).to_have_count(0)
        assert len(asked_for) == 1, "once, to learn that there are none"
