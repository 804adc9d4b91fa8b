"""The chat page: a developer sees beside the answer that the agent's code has blocked the server."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from support.chat_page import chat_page
from support.running_server import running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

SLEEPING = {"id": "sleeping", "class_path": "graphs.loop_blocking:sleeping"}

TWICE = {"id": "sleeping_twice", "class_path": "graphs.loop_blocking:sleeping_twice"}


async def test_the_line_that_blocked_stays_beside_the_answer(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[SLEEPING]) as server, chat_page(browser, server.address) as page:
        await page.choose_agent("sleeping")
        await page.ask("hello")
        await page.ended()
        await expect(page.answers).to_contain_text("slept")
        told = page.by("activity")
        await expect(told).to_have_count(1)
        await expect(told).to_contain_text("The node 'sleep' of 'sleeping' blocked the server for")
        await expect(told).to_contain_text("loop_blocking.py:")


async def test_a_line_that_blocks_again_and_again_is_told_once(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[TWICE]) as server, chat_page(browser, server.address) as page:
        await page.choose_agent("sleeping_twice")
        await page.ask("hello")
        await page.ended()
        await expect(page.answers).to_contain_text("slept twice")
        await expect(page.by("activity")).to_have_count(1)
