"""The chat page in a browser that is killed: what was typed is there when it is opened again."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect
from support.chat_page import ChatPage, Watch
from support.chromium import persistent_window
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


@asynccontextmanager
async def opened(profile: Path, address: str) -> AsyncIterator[ChatPage]:
    """The page in a browser of its own, which keeps what it has in `profile`."""
    async with async_playwright() as playwright:
        context = await persistent_window(playwright, profile)
        watch = Watch(context, (address,))
        page = ChatPage(await context.new_page(), address, watch)
        await page.open()
        yield page
        await context.close()
        assert watch.problems == []


def kill(profile: Path) -> None:
    """Kill the browser that uses `profile`, with all its processes, as a crash of the machine would."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(profile) in (process / "cmdline").read_text():
                os.kill(int(process.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.05)


async def test_what_was_typed_outlasts_a_browser_that_is_killed(chat_server: RunningServer, tmp_path: Path) -> None:
    profile = tmp_path / "profile"

    def is_written() -> bool:
        files = (profile / "Default" / "Local Storage").rglob("*.log")
        return any("Zorblax" in file.read_bytes().decode("latin-1").replace("\0", "") for file in files)

    async with opened(profile, chat_server.address) as page:
        await page.composer.fill("my name is Zorblax")
        # The browser writes what a page keeps within seconds.
        await until(is_written)
        async with asyncio.timeout(30):
            closed = page.tab.context.wait_for_event("close")
            kill(profile)
            await closed
    async with opened(profile, chat_server.address) as page:
        await expect(page.composer).to_have_value("my name is Zorblax")
        await page.composer.press("Enter")
        await page.ended()
