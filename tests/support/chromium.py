"""The machine's own Chromium, driven by Playwright. It reaches this machine and nothing else."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

from support.services import require

NOT_LOOPBACK = "chat.example.org"
"""A name that leads to this machine, but that a browser doesn't take for it."""

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # What a page asks of another host fails there and then.
    f"--host-resolver-rules=MAP {NOT_LOOPBACK} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
_LAUNCH_MS = 30_000


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser without a window."""
    executable = next(filter(None, map(shutil.which, _NAMES)), None)
    require("Chromium", executable is not None, f"none of {', '.join(_NAMES)} is on the PATH")
    # Chromium's sandbox refuses to start for root.
    arguments = [*_ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=arguments, timeout=_LAUNCH_MS)
        try:
            yield browser
        finally:
            await browser.close()
