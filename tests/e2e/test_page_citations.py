"""The citations of an answer open in their application's panel, where they stand, and show what they say."""

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import FrameLocator, expect
from services.axe import violations
from support.chat_page import ChatPage, new_chat_in
from support.cited_documents import documents_of, facts
from support.collections_of_documents import BY_WORDS, LEAVE, PATH, collection, put, serving, settled
from support.further_cases import further
from support.made_documents import a_laid_out_pdf
from support.rest_client import plain_http
from support.running_server import FAST, RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

AGENTS: list[dict[str, Any]] = [{"id": "documents", "default": True, "tuning": {"retrieval": {"collections": "all"}}}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    settings = {
        **FAST,
        "applications": [{"class_path": PATH, "settings": BY_WORDS}],
        "auth": {"developer": {"groups": ["staff"]}},
    }
    directory = tmp_path_factory.mktemp("citations")
    async with running_server(directory, agents=AGENTS, settings=settings, assistant=False) as server:
        async with rest(server) as client:
            await serving(client)
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    # What is gone is asked for, and of a conversation that has asked no documents there is no turn.
    shared_page.provokes("404")
    for button in await shared_page.by("close-panel").all():
        await button.click()
    async with new_chat_in(shared_page) as page:
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def client(shared_server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with rest(shared_server) as client:
        yield client
        for each in (await client.get("/collections")).json()["collections"]:
            await client.delete(f"/collections/{each['id']}")


def rest(server: RunningServer, user: str = "developer") -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer dev:{user}"}
    return plain_http(base_url=f"{server.address}/apps/retrieval", headers=headers, timeout=60)


def panel_of(page: ChatPage) -> FrameLocator:
    return page.tab.frame_locator('iframe[title="Documents"]')


@pytest.mark.parametrize(("questions", "each"), [(6, 1), further(34, 3)])
async def test_each_citation_opens_its_document_at_the_passage(
    page: ChatPage, client: httpx.AsyncClient, questions: int, each: int
) -> None:
    made = await client.post("/collections", json={"title": "Tariffs"})
    asked = facts(questions)
    for name, content in documents_of(asked).items():
        await put(client, made.json()["id"], name, content)
    assert {one["state"] for one in (await settled(client, made.json()["id"])).values()} == {"ready"}
    panel, opened = panel_of(page), set()
    clicked = 0
    for fact in asked:
        await page.asked(fact.question)
        cited = page.answers.last.get_by_role("listitem").filter(has=page.tab.locator("a.citation"))
        assert fact.sentence in await cited.first.inner_text()
        for place in range(min(each, await cited.count())):
            sentence = re.sub(r"\s*\[\d+\].*", "", await cited.nth(place).inner_text())
            await cited.nth(place).locator("a.citation").first.click()
            await expect(panel.locator("mark")).to_contain_text(sentence)
            name = await panel.get_by_role("heading").first.inner_text()
            opened.add(name)
            if name.endswith(".pdf"):
                await expect(panel.locator(".spot").first).to_be_in_viewport()
                await expect(panel.get_by_role("img", name="tariffs.pdf · page")).to_be_visible()
            else:
                await expect(panel.locator("mark")).to_be_in_viewport()
            await expect(panel.get_by_text("may have changed")).to_have_count(0)
            await expect(panel.locator(".head")).to_contain_text(re.compile(r"Score 0\.\d{4}.*By words: \d"))
            await panel.locator("mark").press("Escape")
            await expect(panel.locator("mark")).to_have_count(0)
            clicked += 1
    assert opened == documents_of(asked).keys()
    assert clicked >= (100 if each > 1 else 6)


async def test_a_citation_shows_the_passage_as_long_as_it_may_be_read(
    page: ChatPage, shared_server: RunningServer
) -> None:
    async with rest(shared_server, "ann") as ann:
        rules = await collection(ann, "Staff rules", "staff", leave=LEAVE)
        await page.asked("When does leave that is not taken expire?")
        preview, cited = page.by("link-preview"), page.answers.last.locator("a.citation").first
        await cited.hover()
        await expect(preview).to_contain_text("expires on 31 March")
        await expect(cited).to_have_attribute("aria-describedby", "link-preview")
        # The pointer may go there and scroll in it, and Escape closes it.
        await preview.hover()
        text = preview.locator("p")
        await text.evaluate("(text) => { text.style.maxHeight = '1rem'; text.scrollTop = 5; }")
        await page.tab.evaluate("new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))")
        await expect(preview).to_be_visible()
        await page.tab.keyboard.press("Escape")
        await expect(preview).to_have_count(0)

        # By keys.
        await cited.focus()
        await page.tab.keyboard.press("Tab")
        await page.tab.keyboard.press("Shift+Tab")
        await expect(cited).to_have_accessible_name("Source 1")
        await expect(preview).to_contain_text("expires on 31 March")
        await page.tab.keyboard.press("Enter")
        panel = panel_of(page)
        await expect(panel.locator("mark")).to_be_focused()
        await expect(preview).to_have_count(0)
        await page.tab.keyboard.press("Escape")
        await page.by("close-panel").click()
        await expect(cited).to_be_focused()

        await ann.put(f"/collections/{rules}", json={"title": "Staff rules"})
        source = page.answers.last.locator(".source-open").first
        await source.hover()
        await expect(preview).to_have_text("This is no longer there, or no longer yours to read.")
        await source.click()
        await expect(panel.get_by_role("alert")).to_contain_text("no longer yours to read")
        await expect(panel.locator("mark")).to_have_count(0)


@pytest.mark.axe
async def test_no_state_of_a_citation_breaks_a_rule_of_wcag(page: ChatPage, client: httpx.AsyncClient) -> None:
    made = (await client.post("/collections", json={"title": "Tariffs"})).json()["id"]
    [fact] = facts(1)
    await put(client, made, "tariffs.pdf", a_laid_out_pdf([(fact.sentence, 40.0, 240.0, 10.0, False)]))
    await settled(client, made)
    await page.asked(fact.question)
    await page.answers.last.locator("a.citation").hover()
    await expect(page.by("link-preview")).to_contain_text(fact.sentence)
    assert await violations(page.tab.main_frame) == []
    await page.answers.last.locator(".source-open").click()
    await expect(panel_of(page).get_by_role("img", name="tariffs.pdf · page 1")).to_be_visible()
    element = await page.tab.locator('iframe[title="Documents"]').element_handle()
    assert element is not None and (frame := await element.content_frame()) is not None
    assert await violations(frame) == []
    await page.tab.emulate_media(color_scheme="dark")
    assert await violations(frame) == []
    await page.tab.emulate_media(color_scheme="light")
