"""Sharing and saving a conversation on the chat page, and reading what somebody else shares."""

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect
from support import paced_agent
from support.chat_page import ChatPage, chat_page
from support.rest_client import rest
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


async def shared(page: ChatPage) -> str:
    """A new link to the open conversation; the dialog stays open."""
    await page.by("session-menu").click()
    await page.by("share").click()
    await page.by("share-days").select_option("30")
    await page.by("make-link").click()
    link = await page.by("share-link").input_value()
    assert re.search(r"/#share/[\w-]{43}$", link)
    return link


async def test_another_user_reads_a_link_until_it_is_closed(browser: Browser, chat_server: RunningServer) -> None:
    async with (
        chat_page(browser, chat_server.address, "#token=dev:ann") as page,
        chat_page(browser, chat_server.address, "#token=dev:bob") as bob,
    ):
        await page.asked("What is 17 * 23? <b>**")
        seen = await page.shown()
        link = await shared(page)
        await expect(page.by("share-link")).to_be_focused()
        await expect(page.by("open-links").get_by_role("listitem")).to_have_count(1)

        # A link that is opened in a page that is there already.
        await bob.tab.evaluate("(link) => { location.href = link; }", link)
        await expect(bob.by("shared-banner")).to_contain_text("read-only, until")
        assert await bob.shown() == seen and ("called", "calculate") in seen
        for absent in ("composer", "rate-up", "trust", "session-menu", "account"):
            await expect(bob.by(absent)).to_have_count(0)
        await bob.tab.reload()
        await expect(bob.answers).to_contain_text("391")

        await page.by("revoke-link").click()
        await expect(page.by("open-links")).to_have_count(0)
        await page.tab.keyboard.press("Escape")
        bob.provokes("404")
        await bob.tab.reload()
        await expect(bob.tab.get_by_role("alert")).to_contain_text("may have expired or been revoked")
        await bob.tab.get_by_role("link", name="To your own conversations").click()
        await expect(bob.composer).to_be_visible()


async def test_who_has_answered_is_shown_as_people_know_it(browser: Browser, tmp_path: Path) -> None:
    agent = {**paced_agent.ENTRY, "name": "A Quick Fox", "icon": "QF"}
    async with (
        running_server(tmp_path, agents=[agent]) as server,
        chat_page(browser, server.address, "#token=dev:ann") as page,
        chat_page(browser, server.address, "#token=dev:bob") as bob,
    ):
        paced_agent.begin().finish()
        await page.choose_agent("paced")
        await page.asked("hello")
        await bob.tab.evaluate("(link) => { location.href = link; }", await shared(page))
        await expect(bob.by("author")).to_have_text("QFA Quick Fox")


async def test_a_long_conversation_is_read_page_by_page(browser: Browser, chat_server: RunningServer) -> None:
    async with chat_page(browser, chat_server.address) as page:
        await page.asked("first")
        await page.asked("second")
        link = await shared(page)

        async def in_small_pages(route: Route) -> None:
            await route.continue_(url=f"{route.request.url}{'&' if '?' in route.request.url else '?'}limit=2")

        await page.tab.route("**/shares/*", in_small_pages)
        await page.tab.evaluate("(link) => { location.href = link; }", link)
        await expect(page.exchanges).to_have_count(1)
        await page.by("read-on").click()
        await expect(page.exchanges).to_have_count(2)
        await expect(page.by("read-on")).to_have_count(0)


async def test_without_sharing_nothing_is_offered(browser: Browser, tmp_path: Path) -> None:
    settings = {"sharing": {"enabled": False}}
    async with running_server(tmp_path, settings=settings) as server, chat_page(browser, server.address) as page:
        await page.asked("hello")
        await page.by("session-menu").click()
        await expect(page.by("export-md")).to_be_visible()
        await expect(page.by("share")).to_have_count(0)


async def test_a_conversation_is_saved_as_a_file(page: ChatPage, chat_server: RunningServer) -> None:
    await page.asked("hello")
    async with rest(chat_server) as client:
        await client.patch(f"/sessions/{page.session_id}", json={"title": "../Größe \u202egnp.exe"})
    for kind in ("md", "json"):
        await page.by("session-menu").click()
        async with page.tab.expect_download() as download:
            await page.by(f"export-{kind}").click()
        saved = await download.value
        assert saved.suggested_filename == f"Größe gnp.exe.{kind}"
        text = Path(await saved.path()).read_text()
        assert "> hello" in text if kind == "md" else json.loads(text)["session"]["id"] == page.session_id
