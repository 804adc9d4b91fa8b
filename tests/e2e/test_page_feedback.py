"""Feedback on answers, and what answers and conversations took, on the chat page."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from support.chat_page import ChatPage, chat_page
from support.rest_client import rest
from support.running_server import FAST, RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

HOSTILE = "<img src=x onerror=alert(1)> & \u202e größer"


async def said(server: RunningServer, page: ChatPage) -> list[dict[str, Any]]:
    async with rest(server) as client:
        found: list[dict[str, Any]] = (await client.get(f"/sessions/{page.session_id}/feedback")).json()["feedback"]
        return found


async def test_an_answer_is_rated_with_a_comment_which_stays(page: ChatPage, chat_server: RunningServer) -> None:
    await page.asked("hello")
    await page.by("rate-down").click()
    await expect(page.by("comment-text")).to_be_focused()
    await page.by("comment-text").fill(HOSTILE)
    await page.by("send-comment").click()
    await expect(page.by("rating-comment")).to_have_count(0)
    await expect(page.by("rate-down")).to_be_focused()
    [kept] = await said(chat_server, page)
    assert (kept["rating"], kept["comment"]) == ("down", HOSTILE)

    await page.tab.reload()
    await expect(page.by("rate-down")).to_have_attribute("aria-pressed", "true")
    await expect(page.by("rate-up")).to_have_attribute("aria-pressed", "false")
    await page.by("comment").click()
    await expect(page.by("comment-text")).to_have_value(HOSTILE)
    await page.tab.keyboard.press("Escape")
    await expect(page.by("rating-comment")).to_have_count(0)

    # The comment stays with another rating, and goes when that is taken back.
    await page.by("rate-up").click()
    await expect(page.by("rate-up")).to_have_attribute("aria-pressed", "true")
    await page.by("rate-up").click()
    await expect(page.by("rate-up")).to_have_attribute("aria-pressed", "false")
    assert await said(chat_server, page) == []


async def test_what_is_said_of_an_answer_is_not_shown_at_those_of_another_conversation(page: ChatPage) -> None:
    await page.asked("hello")
    await page.by("rate-up").click()
    await expect(page.by("rate-up")).to_have_attribute("aria-pressed", "true")
    page.provokes("Failed to load")
    await page.tab.route("**/feedback", lambda route: route.abort())
    await page.start_new_chat()
    await page.asked("hello again")
    await expect(page.by("rate-up")).to_have_attribute("aria-pressed", "false")


async def test_feedback_that_fails_says_why(page: ChatPage) -> None:
    await page.asked("hello")
    page.provokes("503|status of 503|Failed to load")
    refusal = {"error": {"code": "store_unavailable", "content": "No store.", "retryable": True, "request_id": "r"}}
    await page.tab.route("**/feedback", lambda route: route.fulfill(status=503, json=refusal))
    await page.by("rate-up").click()
    await expect(page.tab.get_by_role("alert")).to_be_visible()
    await expect(page.by("rate-up")).to_have_attribute("aria-pressed", "false")


async def test_a_panel_tells_what_an_answer_and_a_conversation_took(browser: Browser, tmp_path: Path) -> None:
    price = {"model": "*", "input_per_million": 0, "output_per_million": 1_000_000, "from": "2026-01-01"}
    settings = {**FAST, "prices": [price], "titles": {"enabled": False}}
    async with running_server(tmp_path, settings=settings) as server, chat_page(browser, server.address) as page:
        await page.asked("What is 17 * 23?")
        cost = await page.by("cost").inner_text()
        await page.by("usage").click()
        panel = page.by("usage-panel")
        await expect(panel).to_be_focused()
        await expect(panel.get_by_role("row")).to_have_count(2)
        await expect(panel.get_by_role("row").nth(1)).to_contain_text(cost)
        tokens_out = panel.get_by_role("row").nth(1).get_by_role("cell").nth(2)
        await expect(panel.get_by_role("columnheader").nth(3)).to_have_text("Tokens out")
        await expect(tokens_out).to_have_text(re.compile(r"\d+"))
        # What the table has for all calls is not said of the last one as well.
        await expect(panel.locator("dt")).to_have_text("Time of the model")
        await page.tab.keyboard.press("Escape")
        await expect(page.by("usage")).to_be_focused()

        await page.asked("hello")
        await page.by("session-usage").click()
        await expect(panel.get_by_role("row").nth(1)).to_contain_text(await page.by("session-cost").inner_text())
