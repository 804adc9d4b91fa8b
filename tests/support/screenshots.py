"""`make screenshots`: the pictures of the chat page in docs/images, made anew over servers of their own."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, expect
from services.keycloak import Keycloak

from support.chat_page import ChatPage, chat_page
from support.chromium import chromium
from support.demo_agents import ENTRIES, QUESTION, RELEASE, store_earlier_sessions
from support.keycloak_page import keycloak_page
from support.running_server import running_server

IMAGES = Path(__file__).parents[2] / "docs" / "images"

_LARGEST = 150_000
_DESKTOP = {"viewport": {"width": 1280, "height": 900}}
_PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 1.5,
    "has_touch": True,
    "is_mobile": True,
}


@dataclass(frozen=True)
class Look:
    """How the page is looked at: the suffix of the pictures' names, and the options of the window."""

    suffix: str
    options: dict[str, Any] = field(default_factory=dict)


LIGHT, DARK = Look("", _DESKTOP), Look("-dark", {**_DESKTOP, "color_scheme": "dark"})
PHONE = Look("-phone", _PHONE)


async def welcome(page: ChatPage) -> None:
    await expect(page.by("starter").first).to_be_visible()


async def ask(page: ChatPage, text: str) -> None:
    # On a phone Enter begins a line.
    await page.composer.fill(text)
    await page.by("send").click()


async def answer(page: ChatPage) -> None:
    await ask(page, QUESTION)
    await page.ended()
    await expect(page.tab.locator(".formula math").first).to_be_visible()
    await page.by("messages").evaluate("(view) => view.scrollTo(0, 0)")


async def run(page: ChatPage) -> None:
    await answer(page)
    await page.by("run-head").first.click()


async def approval(page: ChatPage) -> None:
    await page.choose_agent("releases")
    await ask(page, RELEASE)
    await expect(page.by("approval")).to_be_visible()


async def administration(page: ChatPage) -> None:
    await page.tab.evaluate("location.assign('#admin/new-agent')")
    await page.by("template").first.click()
    await page.by("save-entry").click()
    await page.by("try-agent").click()
    await ask(page, "What is 17 * 23?")
    await page.ended()
    await page.by("yaml").focus()
    await page.tab.keyboard.press("Control+End")
    await page.tab.keyboard.type("stre")
    await expect(page.tab.locator(".cm-completionInfo")).to_be_visible()
    await expect(page.by("problem")).to_be_visible()


PICTURES = {
    "welcome": (welcome, [LIGHT, PHONE]),
    "chat-page": (answer, [LIGHT, DARK, PHONE]),
    "run": (run, [LIGHT]),
    "approval": (approval, [LIGHT]),
    "administration": (administration, [LIGHT]),
}
"""What leads to each state, and in which looks it is taken."""


async def main() -> None:
    async with chromium() as browser:
        for name, (lead_to, looks) in PICTURES.items():
            for look in looks:
                async with _new_page(browser, look.options) as page:
                    await lead_to(page)
                    await _take(page, IMAGES / f"{name}{look.suffix}.png")
        async with _signed_in(browser) as page:
            await ask(page, QUESTION)
            await page.ended()
            await page.by("account-menu").click()
            await _take(page, IMAGES / "sign-in.png")


@asynccontextmanager
async def _new_page(browser: Browser, options: dict[str, Any]) -> AsyncIterator[ChatPage]:
    """The page of a server that knows some sessions."""
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        data.mkdir()
        await store_earlier_sessions(data)
        settings = {"agents": {"database": {"enabled": True}}}
        async with running_server(Path(directory), agents=ENTRIES, settings=settings, assistant=False) as server:
            async with chat_page(browser, server.address, locale="en", reduced_motion="reduce", **options) as page:
                yield page


@asynccontextmanager
async def _signed_in(browser: Browser) -> AsyncIterator[ChatPage]:
    """The page of Alice, who has signed in through a Keycloak."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "keycloak"
        home.mkdir()
        keycloak = Keycloak(home)
        await asyncio.to_thread(keycloak.start)
        try:
            auth = {"mode": "keycloak", "keycloak": {"realm_url": keycloak.realm_url}}
            async with running_server(
                Path(directory), agents=ENTRIES, settings={"auth": auth}, assistant=False
            ) as server:
                options = {"locale": "en", "reduced_motion": "reduce", **_DESKTOP}
                async with keycloak_page(browser, server.address, keycloak, "alice", **options) as page:
                    yield page
        finally:
            await asyncio.to_thread(keycloak.stop)


async def _take(page: ChatPage, file: Path) -> None:
    await page.tab.wait_for_load_state("networkidle")
    await page.tab.mouse.move(0, 0)
    # What fades in or moves is done by then.
    await page.tab.wait_for_timeout(500)
    picture = await page.tab.screenshot(path=file, animations="disabled", caret="hide")
    assert len(picture) <= _LARGEST, f"{file.name} has {len(picture)} bytes"


if __name__ == "__main__":
    asyncio.run(main())
