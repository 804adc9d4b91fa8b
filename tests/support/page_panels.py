"""The panels of `support.panel_application` in the page, as a test opens them and speaks for them."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from playwright.async_api import Frame

from support import asking_agents, panel_application
from support.approval_agents import ENTRIES
from support.chat_page import ChatPage
from support.running_server import FAST, RunningServer, running_server

APPLICATION = {"class_path": panel_application.PATH}
AGENTS = [
    panel_application.AGENT,
    *ENTRIES,
    *(one for one in asking_agents.ENTRIES if one["id"] in ("transfer", "size")),
]


def panels_server(directory: Path, **settings: Any) -> AbstractAsyncContextManager[RunningServer]:
    """A server with the application and these agents."""
    return running_server(directory, agents=AGENTS, settings={**FAST, "applications": [APPLICATION], **settings})


async def opened(page: ChatPage, title: str = "Board") -> Frame:
    """The frame of a panel, once its document is there."""
    await page.by("panel-menu").click()
    await page.by("panel").filter(has=page.tab.get_by_text(title, exact=True)).click()
    return await frame_of(page, title)


async def frame_of(page: ChatPage, title: str) -> Frame:
    element = await page.tab.locator(f'iframe[title="{title}"]').element_handle()
    assert element is not None
    frame = await element.content_frame()
    assert frame is not None
    await until(frame, "typeof opened !== 'undefined'")
    await frame.evaluate("opened")
    return frame


async def until(frame: Frame, condition: str) -> None:
    """Wait until an expression holds in the frame, where Playwright's own waiting is not allowed to evaluate any."""
    async with asyncio.timeout(30):
        while not await frame.evaluate(f"Boolean({condition})"):
            await asyncio.sleep(0.02)


async def asked(frame: Frame, method: str, params: dict[str, Any] | None = None) -> Any:
    """The page's answer to a request of the panel's."""
    return await frame.evaluate("([method, params]) => request(method, params)", [method, params or {}])
