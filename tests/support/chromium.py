"""The machine's own Chromium, driven by Playwright. It can only reach this machine."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Playwright, async_playwright

from support.services import require

NOT_LOOPBACK = "chat.example.org"
"""A name of this machine that the browser does not treat as loopback."""

# The shell is the same engine without the window around it, for two thirds of the CPU time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Requests to other hosts fail at once.
    f"--host-resolver-rules=MAP {NOT_LOOPBACK} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
_LAUNCH_MS = 30_000


def _options(*more: str) -> dict[str, Any]:
    executable = next(filter(None, map(shutil.which, _NAMES)), None)
    require("Chromium", executable is not None, f"none of {', '.join(_NAMES)} is on the PATH")
    # Chromium's sandbox refuses to start for root.
    arguments = [*_ARGUMENTS, *more, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    return {"executable_path": executable, "args": arguments, "timeout": _LAUNCH_MS}


async def persistent_window(playwright: Playwright, profile: Path) -> BrowserContext:
    """A window of a headless browser of its own, which keeps what it has in the folder `profile`."""
    return await playwright.chromium.launch_persistent_context(profile, **_options())


@asynccontextmanager
async def chromium(*arguments: str) -> AsyncIterator[Browser]:
    """A headless browser, with more arguments than its usual ones."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**_options(*arguments))
        try:
            yield browser
        finally:
            await browser.close()
