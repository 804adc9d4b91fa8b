"""The results of MCP tools in the documents that their servers have for them: MCP's reference servers in the page."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import FrameLocator, expect
from services.mcp_everything import app_program
from support.chat_page import ChatPage
from support.mcp_agents import MODULE
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.mcp_everything, pytest.mark.asyncio(loop_scope="module")]


def _server(name: str, **env: str) -> dict[str, Any]:
    return {"transport": "stdio", "command": "node", "args": [app_program(name), "--stdio"], "env": env}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    directory = tmp_path_factory.mktemp("apps")
    debug = _server("server-debug", DEBUG_LOG_FILE=str(directory / "debug.log"))
    servers = {"debug": debug, "time": _server("server-basic-vanillajs")}
    uses = [{"id": server_id} for server_id in servers]
    entry = {"class_path": f"{MODULE}:Approving", "tuning": {"mcp_servers": uses}}
    agents = [{"id": "user", **entry}, {"id": "gated", "require_approval": ["debug/debug-refresh"], **entry}]
    async with running_server(directory, agents=agents, settings={"mcp_servers": servers}) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> ChatPage:
    await shared_page.start_new_chat()
    await shared_page.choose_agent("user")
    return shared_page


def app_of(page: ChatPage) -> FrameLocator:
    return page.by("mcp-app").locator("iframe").content_frame


async def called(page: ChatPage, call: str) -> str:
    """The text of the result of a call that the agent makes."""
    await page.asked(f"call {call}")
    await page.unfold()
    result = await page.by("tool-result").text_content()
    assert result
    return result


async def test_a_result_is_shown_in_the_document_of_its_server_whenever_it_is_opened(page: ChatPage) -> None:
    time = await called(page, "get-time()")
    await expect(app_of(page).locator("#server-time")).to_have_text(time)
    await page.tab.reload()
    await expect(app_of(page).locator("#server-time")).to_have_text(time)


async def test_it_is_given_the_whole_result_and_its_arguments(page: ChatPage) -> None:
    await called(page, 'debug-tool(contentType="mixed")')
    shown = app_of(page).locator("body")
    for text in ("Mixed content: text block", "image/png", "audio/wav", "processedAt", "contentType"):
        await expect(shown).to_contain_text(text)


async def test_what_it_asks_in_the_persons_name_is_read_before(page: ChatPage) -> None:
    await called(page, "get-time()")
    page.provokes("The person does not send it")
    app = app_of(page)
    await app.get_by_role("textbox").first.fill("words of the app")
    dialog = page.tab.get_by_role("dialog").filter(has_text="Send this message?")
    for answer, exchanges in ("Cancel", 1), ("Send", 2):
        await app.get_by_role("button", name="Send Message").click()
        await expect(dialog).to_contain_text("MCP server time, Get Time: Send this message?")
        await expect(dialog).to_contain_text("words of the app")
        await dialog.get_by_role("button", name=answer).click()
        await page.ended(exchanges=exchanges)
    assert ("asked", "words of the app") in await page.shown()


async def test_it_calls_the_tools_of_its_server(page: ChatPage) -> None:
    before = await called(page, "get-time()")
    app = app_of(page)
    await expect(app.locator("#server-time")).to_have_text(before)
    await app.get_by_role("button", name="Get Server Time").click()
    await expect(app.locator("#server-time")).to_have_text(re.compile(r"^\d{4}-\d\d-\d\dT"))
    await expect(app.locator("#server-time")).not_to_have_text(before)


async def test_a_person_approves_of_a_call_that_needs_it(page: ChatPage) -> None:
    await page.choose_agent("gated")
    await called(page, 'debug-tool(contentType="text")')
    page.provokes("The person does not approve of it|409")
    app, dialog = app_of(page), page.tab.get_by_role("dialog").filter(has_text="Approve of this?")
    refresh = app.get_by_role("button", name="Refresh")
    await refresh.click()
    await expect(dialog).to_contain_text("MCP server debug, Debug Tool: Approve of this?")
    await expect(dialog).to_contain_text("Refresh Debug Info")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(dialog).to_have_count(0)
    await expect(app.locator("#event-log")).not_to_contain_text("Server timestamp")
    await refresh.click()
    await dialog.get_by_role("button", name="Approve").click()
    await expect(app.locator("#event-log")).to_contain_text("Server timestamp")


async def test_what_it_tells_models_waits_for_the_next_message(page: ChatPage) -> None:
    await called(page, 'debug-tool(contentType="text")')
    page.provokes("Only texts and structured content can be told")
    app, attached = app_of(page), page.by("attached")
    for kind in "Image", "Text":
        await app.get_by_role("button", name=f"Update ({kind})").click()
    await expect(attached).to_contain_text("From Debug Tool (debug).txt")
    await page.asked("What is there?")
    await expect(attached).to_have_count(0)
    await expect(page.by("message-user").last).to_contain_text("From Debug Tool (debug).txt")
