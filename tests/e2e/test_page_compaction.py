"""The chat page: a quiet line tells that earlier messages were summarised."""

import sqlite3
from pathlib import Path

import pytest
import yaml
from playwright.async_api import Browser, expect
from support.chat_page import chat_page
from support.recorded_agents import eventually
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


def is_summarised(server: RunningServer) -> bool:
    with sqlite3.connect(f"file:{server.data / 'chat.sqlite3'}?mode=ro", uri=True) as database:
        return bool(database.execute("SELECT count(*) FROM sessions WHERE summary_id IS NOT NULL").fetchone()[0])


async def test_a_quiet_line_tells_that_earlier_messages_were_summarised(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "chat_profiles.yaml"
    file.write_text(yaml.safe_dump({"profiles": {"default": {"max_history_turns": 2}}}))
    settings = {"chat_profiles": {"file": str(file)}}
    async with running_server(tmp_path, settings=settings) as server, chat_page(browser, server.address) as page:
        for question in ("my name is Zorblax", "hello", "hello again"):
            await page.asked(question)
        await expect(page.by("activity")).to_have_count(0)
        await eventually(lambda: is_summarised(server))
        await page.asked("what is my name?")
        await expect(page.by("activity")).to_have_text("Earlier messages were summarised")
        await expect(page.answers.last).to_contain_text("Zorblax")
