"""The questions of the retrieval application's own panel: alone, and as turns of chat sessions."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import FrameLocator, Route, expect
from services.axe import violations
from support.chat_page import ChatPage
from support.collections_of_documents import BY_WORDS, FLOOD, PATH, collection, serving
from support.rest_client import plain_http
from support.running_server import FAST, RunningServer, running_server

from agentic_backend.application import ModelTimeout
from agentic_backend.applications.retrieval.runs.sessions import Sessions
from agentic_backend.applications.retrieval.runs.steps import Pipeline

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

AGENTS: list[dict[str, Any]] = [{"id": "documents", "default": True, "tuning": {"retrieval": {}}}]
QUESTION = "Is damage by groundwater covered?"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    application = {"class_path": PATH, "settings": {**BY_WORDS, "chat_profiles": {"default": {"max_history_turns": 2}}}}
    directory = tmp_path_factory.mktemp("document-chat")
    settings = {**FAST, "applications": [application]}
    async with running_server(directory, agents=AGENTS, settings=settings, assistant=False) as server:
        async with rest(server) as client:
            await serving(client)
            await collection(client, "Terms", flood=FLOOD)
        yield server


def rest(server: RunningServer) -> httpx.AsyncClient:
    headers = {"authorization": "Bearer dev:developer"}
    return plain_http(base_url=f"{server.address}/apps/retrieval", headers=headers, timeout=60)


@pytest_asyncio.fixture(loop_scope="module")
async def client(shared_server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with rest(shared_server) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def panel(shared_page: ChatPage, client: httpx.AsyncClient, shared_server: RunningServer) -> FrameLocator:
    """The panel where it asks, opened anew, of somebody who has no chat session."""
    # What is deleted meanwhile is not found.
    shared_page.provokes("404")
    for each in await sessions(client, shared_server):
        await client.delete(f"{shared_server.address}/api/chat/session/{each}")
    for button in await shared_page.by("close-panel").all():
        await button.click()
    await shared_page.by("panel-menu").click()
    await shared_page.by("panel").click()
    panel = shared_page.tab.frame_locator('iframe[title="Documents"]')
    await panel.get_by_role("tab", name="Ask").click()
    await expect(panel.get_by_label("Question")).to_be_visible()
    return panel


async def sessions(client: httpx.AsyncClient, server: RunningServer) -> list[str]:
    listed = (await client.get(f"{server.address}/api/chat/sessions")).json()["sessions"]
    return [each["session_id"] for each in listed]


async def ask(panel: FrameLocator, query: str) -> None:
    """Ask, and wait for the answer."""
    await panel.get_by_label("Question").fill(query)
    await panel.get_by_label("Question").press("Enter")
    await expect(panel.get_by_role("listitem").filter(has_text=query).first).to_be_visible()
    await expect(panel.get_by_role("progressbar")).to_have_count(0)


async def test_a_question_is_answered_with_what_was_done_and_its_citation_opens(
    panel: FrameLocator, shared_page: ChatPage
) -> None:
    await expect(panel.get_by_label("Question")).to_have_attribute(
        "placeholder", "Ask a question, such as: Is damage by groundwater covered?"
    )
    await ask(panel, QUESTION)
    await expect(panel.get_by_role("row", name="By words")).to_be_visible()
    for tab, words in (
        ("Fusion", "flood.md"),
        ("Context", "flood.md"),
        ("Generation", "tokens"),
        ("Judge", "Supported"),
    ):
        await panel.get_by_role("tab", name=tab).click()
        await expect(panel.locator("#run-panel")).to_contain_text(words)
    citation = panel.get_by_role("region", name="The last answer").get_by_role("button", name="Passage 1").first
    await citation.click()
    await expect(panel.locator("mark")).to_contain_text("never covered")
    await expect(panel.get_by_text("may have changed")).to_have_count(0)
    await shared_page.tab.keyboard.press("Escape")
    await expect(citation).to_be_focused()


async def test_a_chat_goes_on_is_compacted_and_ended(
    panel: FrameLocator, client: httpx.AsyncClient, shared_server: RunningServer
) -> None:
    await panel.get_by_role("button", name="Chat").click()
    await expect(panel.get_by_role("button", name="Chat")).to_have_attribute("aria-pressed", "true")
    await expect(panel.get_by_label("Question")).to_have_attribute(
        "placeholder", "Ask a follow-up question, or type “Quit” to end the session"
    )
    for query in ("What of groundwater?", "What of a flood?", "What of the deductible?"):
        await ask(panel, query)
    [session] = await sessions(client, shared_server)
    await expect(panel.get_by_role("heading", name=f"Session {session[:8]}", exact=True)).to_be_visible()
    await expect(panel.get_by_role("region", name="History").get_by_role("listitem")).to_have_count(3)
    await ask(panel, "What of a claim?")
    await expect(panel.get_by_text("2 earlier turns were summarised.")).to_be_visible()
    await expect(panel.get_by_text("Summary of earlier turns")).to_be_visible()

    await panel.get_by_role("button", name="End session").click()
    dialog = panel.get_by_role("dialog")
    await dialog.get_by_role("button", name="Cancel").click()
    assert await sessions(client, shared_server) == [session]
    await panel.get_by_role("button", name="End session").click()
    await dialog.get_by_role("button", name="End session").click()
    await expect(panel.get_by_role("status")).to_have_text("The session has ended.")
    assert await sessions(client, shared_server) == []


async def test_quit_or_a_query_ends_the_session_and_another_is_gone_on_with(
    panel: FrameLocator, client: httpx.AsyncClient, shared_server: RunningServer
) -> None:
    made = await client.post(f"{shared_server.address}/api/run", json={"query": "What of a claim?", "mode": "chat"})
    session = made.json()["session_id"]
    await panel.get_by_role("button", name="Chat").click()
    await panel.get_by_text("Go on with another session").click()
    await panel.get_by_role("button", name=session[:8]).click()
    await expect(panel.get_by_role("listitem").filter(has_text="What of a claim?")).to_be_visible()
    await expect(panel.get_by_role("tab", name="Retrieval")).to_be_visible()
    await panel.get_by_label("Question").fill("quit")
    await panel.get_by_role("button", name="Ask", exact=True).click()
    await expect(panel.get_by_role("heading", name="New session")).to_be_visible()
    assert await sessions(client, shared_server) == []

    await ask(panel, "What of groundwater?")
    await panel.get_by_role("button", name="Query").click()
    await expect(panel.get_by_text("Your next question ends the chat session")).to_be_visible()
    await ask(panel, QUESTION)
    assert await sessions(client, shared_server) == []
    await panel.get_by_role("button", name="Chat").click()
    await expect(panel.get_by_role("heading", name="New session")).to_be_visible()


async def test_the_history_of_one_session_stands_below_no_other(
    panel: FrameLocator, shared_page: ChatPage, client: httpx.AsyncClient, shared_server: RunningServer
) -> None:
    asked = {"query": "What of a claim?", "mode": "chat"}
    session = (await client.post(f"{shared_server.address}/api/run", json=asked)).json()["session_id"]
    await panel.get_by_role("button", name="Chat").click()
    await ask(panel, "What of groundwater?")
    path = "**/api/chat/session/*"
    shared_page.provokes("ERR_FAILED")
    await shared_page.tab.route(path, lambda route: route.abort())
    await panel.get_by_text("Go on with another session").click()
    await panel.get_by_role("button", name=session[:8]).click()
    await expect(panel.get_by_role("heading", name=f"Session {session[:8]}", exact=True)).to_be_visible()
    await expect(panel.get_by_role("alert")).to_be_visible()
    await expect(panel.get_by_role("listitem").filter(has_text="What of groundwater?")).to_have_count(0)
    await shared_page.tab.unroute(path)


async def test_a_session_that_has_gone_is_told_and_the_question_stays(
    panel: FrameLocator, client: httpx.AsyncClient, shared_server: RunningServer
) -> None:
    await panel.get_by_role("button", name="Chat").click()
    await ask(panel, "What of groundwater?")
    [session] = await sessions(client, shared_server)
    await client.delete(f"{shared_server.address}/api/chat/session/{session}")
    await panel.get_by_label("Question").fill(QUESTION)
    await panel.get_by_label("Question").press("Enter")
    await expect(panel.get_by_text("This session is no longer there.").first).to_be_visible()
    await expect(panel.get_by_label("Question")).to_have_value(QUESTION)
    await ask(panel, QUESTION)
    assert len(await sessions(client, shared_server)) == 1


async def test_what_goes_wrong_is_told_and_the_chat_goes_on(
    panel: FrameLocator, client: httpx.AsyncClient, shared_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> str:
        raise ModelTimeout

    await panel.get_by_role("button", name="Chat").click()
    for query in ("What of groundwater?", "What of a flood?", "What of the deductible?"):
        await ask(panel, query)
    with monkeypatch.context() as patch:
        patch.setattr(Sessions, "_summary", fails)
        await ask(panel, QUESTION)
    await expect(panel.get_by_text("2 earlier turns could not be summarised, and were dropped.")).to_be_visible()
    with monkeypatch.context() as patch:
        patch.setattr(Pipeline, "_said", fails)
        await panel.get_by_label("Question").fill("What of a claim?")
        await panel.get_by_label("Question").press("Enter")
        await expect(panel.get_by_role("alert")).to_have_text("The model took too long. Try again.")
    await expect(panel.get_by_label("Question")).to_have_value("What of a claim?")

    [old] = await sessions(client, shared_server)
    with monkeypatch.context() as patch:
        patch.setattr(Sessions, "has_expired", lambda _, session: session.key == old)
        await ask(panel, "What of a claim?")
        await expect(panel.get_by_text("The session had expired. A new one has begun.")).to_be_visible()
        [new] = await sessions(client, shared_server)
    await expect(panel.get_by_role("heading", name=f"Session {new[:8]}")).to_be_visible()
    await expect(panel.get_by_role("region", name="History").get_by_role("listitem")).to_have_count(1)


@pytest.mark.axe
async def test_while_a_turn_runs_it_says_so_and_the_tabs_stay(panel: FrameLocator, shared_page: ChatPage) -> None:
    await ask(panel, QUESTION)
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    tab = shared_page.tab
    await tab.route("**/api/run/*", hold)
    await panel.get_by_label("Question").fill("What of a flood?")
    await panel.get_by_label("Question").press("Enter")
    await expect(panel.get_by_role("progressbar", name="The documents are being searched…")).to_be_visible()
    await expect(panel.get_by_role("row", name="By words")).to_be_visible()
    await tab.emulate_media(color_scheme="dark")
    await tab.set_viewport_size({"width": 390, "height": 800})
    element = await tab.locator('iframe[title="Documents"]').element_handle()
    frame = await element.content_frame() if element else None
    assert frame is not None
    assert await violations(frame) == []
    assert await frame.evaluate("document.documentElement.scrollWidth") <= 390
    held.set()
    await expect(panel.get_by_role("progressbar")).to_have_count(0)
    await tab.unroute("**/api/run/*")
    await panel.get_by_role("button", name="Chat").click()
    assert await violations(frame) == []
    await tab.emulate_media(color_scheme="light")
    await tab.set_viewport_size({"width": 1280, "height": 720})
