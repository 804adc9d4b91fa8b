"""The chat page of an author, while the catalog is written."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from support.chat_page import chat_page
from support.server_process import serving

CATALOG = """agents:
  - id: assistant
    class_path: agentic_backend.experts.assistant.assistant:Assistant
"""
# The key is in line 6, column 5.
WRONG = """  - id: second
    class_path: agentic_backend.experts.assistant.assistant:Assistant
    descripton: Short for something.
"""

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


async def test_what_is_wrong_with_a_save_is_shown_with_its_place_until_it_is_mended(
    browser: Browser, tmp_path: Path
) -> None:
    catalog = tmp_path / "agents_catalog.yaml"
    catalog.write_text(CATALOG)
    async with serving("--reload", cwd=tmp_path) as server, chat_page(browser, server.address) as page:
        problems = page.by("reload-problems")
        await page.asked("what is 6*7?")
        await expect(problems).to_have_count(0)
        catalog.write_text(CATALOG + WRONG)
        await expect(problems).to_contain_text("agents_catalog.yaml:6:5")
        await expect(problems).to_contain_text("What was there before goes on.")
        await page.asked("what is 6*7?")
        await page.tab.reload()
        await expect(problems).to_contain_text("agents_catalog.yaml:6:5")
        catalog.write_text(CATALOG + WRONG.replace("descripton", "description"))
        await expect(problems).to_have_count(0)
        await page.start_new_chat()
        await page.choose_agent("second")
