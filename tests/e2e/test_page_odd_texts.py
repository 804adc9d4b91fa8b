"""Half a character that somebody types is sent as text that any server reads; what the server can't read comes back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect
from support import approval_agents
from support.approval_agents import calls, runs
from support.chat_page import ChatPage, chat_page
from support.page_sockets import Garbling
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

TYPE = """(field, text) => {
  field.value = JSON.parse(text);
  field.dispatchEvent(new Event("input", { bubbles: true }));
}"""


@pytest_asyncio.fixture(loop_scope="module")
async def server(tmp_path: Path, notes: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=approval_agents.ENTRIES) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, server: RunningServer) -> AsyncIterator[ChatPage]:
    async with chat_page(browser, server.address) as page:
        yield page


async def write(field: Locator, json_text: str) -> None:
    """Type what is written in JSON, because no tool for tests sends half a character."""
    await field.evaluate(TYPE, json_text)


async def card_of(page: ChatPage) -> Locator:
    await page.choose_agent("approving")
    await page.ask(calls(("send_email", {"to": "ann"})))
    card = page.by("approval").and_(page.tab.locator("[data-state=open]"))
    await expect(card).to_have_count(1)
    return card


async def test_half_a_character_is_asked_and_decided_as_one_that_is_unknown(
    page: ChatPage, server: RunningServer, notes: Path
) -> None:
    await write(page.composer, r'"repeat after me: half \ud83d\ud83d\ude00 \\ud83d"')
    await page.composer.press("Enter")
    await page.ended()
    said = "half \ufffd\U0001f600 \\ud83d"
    async with rest(server) as http:
        [asked, *_] = await messages_of(http, page.session_id)
    assert asked["parts"][0]["text"] == f"repeat after me: {said}"
    await expect(page.answers).to_contain_text(said)

    await page.start_new_chat()
    card = await card_of(page)
    await card.get_by_test_id("edit").click()
    await page.by("edit-as-json").click()
    await page.by("edit-args").fill(r'{"to": "ann", "body": "\ude00"}')
    await page.by("confirm-edit").click()
    await page.ended()
    assert [args["body"] for _, args in runs(notes)] == ["\ufffd"]


async def test_an_ask_that_the_server_could_not_read_comes_back_to_the_composer(page: ChatPage) -> None:
    await Garbling.on(page, "ask")
    await page.ask("my name is Zorblax")
    await expect(page.by("error-notice")).to_contain_text("not JSON")
    await expect(page.composer).to_have_value("my name is Zorblax")
    await expect(page.places).to_have_count(0)
    await page.composer.press("Enter")
    await page.ended()
    await expect(page.by("error-notice")).to_have_count(0)
    await expect(page.answers).to_contain_text("Zorblax")


async def test_a_decision_that_the_server_could_not_read_can_be_made_again(page: ChatPage, notes: Path) -> None:
    await Garbling.on(page, "human_resume")
    card = await card_of(page)
    await card.get_by_test_id("approve").click()
    await expect(page.by("approval-refused")).to_contain_text("not JSON")
    await card.get_by_test_id("approve").click()
    await page.ended()
    assert len(runs(notes)) == 1
