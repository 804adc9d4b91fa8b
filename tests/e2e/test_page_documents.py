"""The panel of the retrieval application: collections, what an answer rests on, documents at the places of passages."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Frame, FrameLocator, Locator, expect
from services.axe import violations
from support.chat_page import ChatPage, chat_page
from support.chromium import chromium
from support.collections_of_documents import FLOOD, LEAVE, PATH, collection, serving
from support.rest_client import plain_http
from support.running_server import FAST, RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

AGENTS: list[dict[str, Any]] = [
    {"id": "documents", "default": True, "tuning": {"retrieval": {"collections": "all"}}},
    {"id": "attached", "tuning": {"retrieval": {}}},
    {
        "id": "helped",
        "tuning": {"retrieval": {"collections": "all", "rerank_model": "default", "judge_model": "default"}},
    },
]
# Characters before the passage are two units of JavaScript's strings each, and what looks like HTML is text.
_PARTS = "".join(f"## Part {n} 😀\n\nNothing of note. {'🚆 ' * 200}\n\n" for n in range(20))
HANDBOOK = "# Handbook\n\n" + _PARTS + LEAVE.replace("Every employee", "<i>Every</i> employee")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    settings = {
        **FAST,
        "applications": [{"class_path": PATH}],
        "auth": {"developer": {"groups": ["staff"]}},
        "limits": {"attachment_bytes": 100_000},
    }
    directory = tmp_path_factory.mktemp("documents")
    async with running_server(directory, agents=AGENTS, settings=settings, assistant=False) as server:
        async with rest(server) as client:
            await serving(client)
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage, client: httpx.AsyncClient) -> ChatPage:
    """A new conversation, without collections; the panel is closed."""
    # Of a conversation that has asked no documents there is no turn.
    shared_page.provokes("404")
    for each in (await client.get("/collections")).json()["collections"]:
        await client.delete(f"/collections/{each['id']}")
    for button in await shared_page.by("close-panel").all():
        await button.click()
    await shared_page.start_new_chat()
    await shared_page.choose_agent("documents")
    return shared_page


@pytest_asyncio.fixture(loop_scope="module")
async def client(shared_server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with rest(shared_server) as client:
        yield client


def rest(server: RunningServer, user: str = "developer") -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer dev:{user}"}
    return plain_http(base_url=f"{server.address}/apps/retrieval", headers=headers, timeout=60)


async def opened(page: ChatPage) -> FrameLocator:
    await page.by("panel-menu").click()
    await page.by("panel").click()
    panel = page.tab.frame_locator('iframe[title="Documents"]')
    await expect(panel.get_by_role("tablist", name="Documents")).to_be_visible()
    return panel


async def frame_of(page: ChatPage) -> Frame:
    element = await page.tab.locator('iframe[title="Documents"]').element_handle()
    assert element is not None
    frame = await element.content_frame()
    assert frame is not None
    return frame


async def drop(page: ChatPage, target: Locator, *paths: Path, taken: bool = True) -> None:
    """Drop files and folders of the disk on something in the panel, as a person does; `taken` is whether the page is
    to take them in its place.
    """
    box = await target.bounding_box()
    assert box is not None
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2, "data": data}
    browser = await page.tab.context.new_cdp_session(page.tab)

    async def drag(*kinds: str) -> None:
        for kind in kinds:
            await browser.send("Input.dispatchDragEvent", {"type": kind, **at})

    await drag("dragEnter", "dragOver")
    if taken:
        await expect(page.by("drop-cover")).to_be_visible()
        await drag("dragEnter", "dragOver")
    await drag("drop")
    await browser.detach()
    await expect(page.by("drop-cover")).to_have_count(0)


async def test_files_that_are_dropped_are_asked_and_what_is_cited_opens_at_its_place(
    page: ChatPage, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    panel = await opened(page)
    await panel.get_by_label("Name of a new collection").fill("Terms")
    await panel.get_by_role("button", name="Make").click()
    await expect(panel.get_by_role("heading", name="Terms")).to_be_focused()
    (tmp_path / "flood.md").write_text(FLOOD)
    (tmp_path / "handbook.md").write_text(HANDBOOK)
    await drop(page, panel.get_by_text("Drop files here"), tmp_path / "flood.md", tmp_path / "handbook.md")
    await expect(panel.get_by_role("status")).to_have_text("2 of 2 files sent")
    for name in ("flood.md", "handbook.md"):
        await expect(panel.get_by_role("button", name=name, exact=True)).to_be_visible()

    await panel.get_by_role("tab", name="This answer").click()
    await page.asked("When does leave that is not taken expire?")
    await expect(panel.get_by_role("row", name="By words")).to_be_visible()
    await panel.get_by_role("tab", name="Judge").click()
    judged = panel.get_by_role("listitem").filter(has_text="31 March")
    await expect(judged).to_contain_text("Supported")
    await judged.get_by_role("button", name="Passage 1").click()
    await expect(panel.locator("mark")).to_contain_text("31 March")
    await page.tab.keyboard.press("Escape")
    await expect(judged.get_by_role("button", name="Passage 1")).to_be_focused()
    await panel.get_by_role("tab", name="Fusion").click()
    turn = (await client.get(f"/sessions/{page.session_id}/turn")).json()
    passage = json.loads(turn["told"])["passages"][0]
    first = panel.get_by_role("tabpanel").get_by_role("listitem").first
    await expect(first).to_contain_text("By words: 1")
    await first.get_by_role("button", name="handbook.md").click()
    mark = panel.locator("mark")
    await expect(mark).to_be_in_viewport()
    assert "31 March" in passage["text"] and "<i>Every</i>" in passage["text"]
    assert await mark.text_content() == HANDBOOK[passage["start"] : passage["end"]]
    await expect(panel.get_by_text("may have changed")).to_have_count(0)
    await panel.get_by_role("button", name="Read what is before").click()
    await expect(panel.locator(".text")).to_contain_text("# Handbook")
    assert await mark.text_content() == HANDBOOK[passage["start"] : passage["end"]]
    await mark.press("Escape")
    await expect(first.get_by_role("button", name="handbook.md")).to_be_focused()


async def test_what_a_model_has_done_for_an_answer_is_shown(page: ChatPage, client: httpx.AsyncClient) -> None:
    await collection(client, "Terms", flood=FLOOD, leave=LEAVE)
    panel = await opened(page)
    await page.choose_agent("helped")
    await page.asked("What of paid leave, and of groundwater?")
    await panel.get_by_role("tab", name="This answer").click()
    # The offline model neither names passages nor judges.
    await expect(panel.get_by_role("row", name="Reranking")).to_contain_text("It gave no answer that can be used.")
    await panel.get_by_role("tab", name="Judge").click()
    await expect(panel.get_by_text("Judged by words alone")).to_be_visible()


async def test_a_collection_is_attached_shared_and_removed(
    page: ChatPage, client: httpx.AsyncClient, shared_server: RunningServer
) -> None:
    await collection(client, "Terms", flood=FLOOD, leave=LEAVE)
    await page.choose_agent("attached")
    panel = await opened(page)
    box = panel.get_by_role("checkbox", name="Ask “Terms” in this conversation")
    await expect(box).to_be_disabled()
    await page.asked("hello")
    await box.check()
    await expect(panel.get_by_role("status")).to_have_text("Saved.")
    await page.asked("What of groundwater?")
    assert "never covered" in (await page.shown())[-1][1]

    await panel.get_by_role("button", name="Terms").click()
    await panel.get_by_role("button", name="Share").click()
    await panel.get_by_label("Share with").select_option("staff")
    await panel.get_by_role("button", name="Save").click()
    await expect(panel.get_by_text("Shared with staff")).to_be_visible()
    async with rest(shared_server, "ann") as ann:
        [seen] = (await ann.get("/collections")).json()["collections"]
        assert (seen["title"], seen["is_own"]) == ("Terms", False)

    await panel.get_by_role("button", name="Remove leave.md").click()
    await panel.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(panel.get_by_role("button", name="leave.md", exact=True)).to_have_count(0)
    await expect(panel.get_by_role("button", name="Remove flood.md")).to_be_focused()
    remove = panel.get_by_role("button", name="Remove", exact=True)
    await remove.click()
    await page.tab.keyboard.press("Escape")
    await expect(panel.get_by_role("dialog")).to_have_count(0)
    await expect(remove).to_be_focused()
    await remove.click()
    await panel.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(panel.get_by_label("Name of a new collection")).to_be_visible()
    assert (await client.get("/collections")).json()["collections"] == []


async def test_a_folder_is_taken_with_its_paths_and_what_does_not_fit_is_named(
    page: ChatPage, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    files = {"terms/flood.md": FLOOD, "terms/.hidden": "a", "large.md": "a" * 100_001, "empty.md": ""}
    for name, text in files.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(text)
    await collection(client, "Mine")
    panel = await opened(page)
    await panel.get_by_role("button", name="Mine").click()
    async with page.tab.expect_file_chooser() as chooser:
        await panel.get_by_role("button", name="Choose a folder").click()
    await (await chooser.value).set_files(tmp_path / "mine")
    await expect(panel.get_by_role("button", name="mine/terms/flood.md", exact=True)).to_be_visible()
    for words in ("1 of 3 files sent", "1 hidden file", "large.md: It is larger than 100 kB", "empty.md: It is empty"):
        await expect(panel.locator("section")).to_contain_text(words)


async def test_folders_are_dropped_with_all_that_is_in_them(
    page: ChatPage, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    for name in ("mine/terms/old/flood.md", "mine/.git/config", "mine/leave.md", "beside.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(FLOOD)
    for name in ("mine/nothing", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine/link").symlink_to(tmp_path)
    id = await collection(client, "Mine")
    panel = await opened(page)
    await panel.get_by_role("button", name="Mine").click()
    place, status = panel.get_by_text("Drop files here"), panel.get_by_role("status")
    await drop(page, place, tmp_path / "empty")
    await expect(status).to_have_text("There is no file in it.")
    await drop(page, place, tmp_path / "mine", tmp_path / "beside.md")
    await expect(status).to_have_text("3 of 3 files sent")
    await expect(panel.locator("section")).to_contain_text("1 hidden file")
    documents = (await client.get(f"/collections/{id}/documents")).json()["documents"]
    assert {each["name"] for each in documents} == {"mine/terms/old/flood.md", "mine/leave.md", "beside.md"}
    # Nothing of it is attached to the conversation.
    await expect(page.by("tray")).to_have_count(0)


async def test_more_than_the_bounds_is_refused_whole(page: ChatPage, client: httpx.AsyncClient, tmp_path: Path) -> None:
    for name in ("many", "large", "deep" + "/in" * 51):
        (tmp_path / name).mkdir(parents=True)
    for number in range(10_001):
        (tmp_path / "many" / str(number)).touch()
    with (tmp_path / "large/flood.md").open("wb") as file:
        file.truncate(10_000_000_001)
    id = await collection(client, "Mine")
    panel = await opened(page)
    await panel.get_by_role("button", name="Mine").click()
    for name, words in REFUSALS.items():
        (tmp_path / name / "leave.md").write_text(LEAVE)
        await drop(page, panel.get_by_text("Drop files here"), tmp_path / name)
        await expect(panel.get_by_role("status")).to_have_text(words)
    async with page.tab.expect_file_chooser() as chooser:
        await panel.get_by_role("button", name="Choose a folder").click()
    await (await chooser.value).set_files(tmp_path / "many")
    await expect(panel.get_by_role("status")).to_have_text(REFUSALS["many"])
    assert (await client.get(f"/collections/{id}/documents")).json()["documents"] == []


REFUSALS = {
    "many": "More than 10,000 files at once are not taken.",
    "large": "More than 10,000 MB at once are not taken.",
    "deep": "Folders within more than 50 others are not taken.",
}


async def test_files_come_from_a_frame_with_a_process_of_its_own(
    shared_server: RunningServer, client: httpx.AsyncClient, page: ChatPage, tmp_path: Path
) -> None:
    """As Chrome has it on computers, and the Chromium of the other tests only if it is told to."""
    for name in ("leave.md", "mine/flood.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(FLOOD)
    await collection(client, "Mine")
    async with chromium("--site-per-process") as browser, chat_page(browser, shared_server.address) as other:
        panel = await opened(other)
        await panel.get_by_role("button", name="Mine").click()
        async with other.tab.expect_file_chooser() as chooser:
            await panel.get_by_role("button", name="Choose files").click()
        await (await chooser.value).set_files(tmp_path / "leave.md")
        await expect(panel.get_by_role("button", name="leave.md", exact=True)).to_be_visible()
        await drop(other, panel.get_by_text("Drop files here"), tmp_path / "mine")
        await expect(panel.get_by_role("button", name="mine/flood.md", exact=True)).to_be_visible()


async def test_where_no_collection_is_open_nothing_is_taken_and_the_page_stays(
    page: ChatPage, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    id = await collection(client, "Mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/flood.md").write_text(FLOOD)
    panel, before = await opened(page), page.tab.url
    await drop(page, panel.get_by_role("button", name="Mine"), tmp_path / "mine", taken=False)
    await expect(panel.get_by_role("status")).to_have_text("Open a collection first, then drop files into it.")
    assert page.tab.url == before
    assert (await client.get(f"/collections/{id}/documents")).json()["documents"] == []


@pytest.mark.axe
async def test_it_is_walked_by_keys_and_no_state_breaks_a_rule_of_wcag(
    page: ChatPage, client: httpx.AsyncClient
) -> None:
    await collection(client, "Terms", "staff", flood=FLOOD)
    await page.asked("Is damage by groundwater covered?")
    panel = await opened(page)
    frame = await frame_of(page)
    keys = page.tab.keyboard
    tab = panel.get_by_role("tab", name="Collections")
    await expect(panel.get_by_role("button", name="Terms")).to_be_visible()
    assert await violations(frame) == []
    await page.by("close-panel").focus()
    await keys.press("Tab")
    await expect(tab).to_be_focused()
    for name in ("Name of a new collection", "Make", "Ask “Terms” in this conversation", "Terms"):
        await keys.press("Tab")
        await expect(panel.locator(":focus")).to_have_accessible_name(name)
    await keys.press("Enter")
    await expect(panel.get_by_role("heading", name="Terms")).to_be_focused()
    assert await violations(frame) == []
    await panel.get_by_role("button", name="Share").press("Enter")
    assert await violations(frame) == []
    await keys.press("Escape")
    await keys.press("Escape")
    await expect(panel.get_by_role("button", name="Terms")).to_be_focused()
    await tab.press("ArrowRight")
    await expect(panel.get_by_role("tab", name="This answer")).to_be_focused()
    await panel.get_by_role("tab", name="Retrieval").focus()
    await page.tab.emulate_media(color_scheme="dark")
    await page.tab.set_viewport_size({"width": 390, "height": 800})
    for name in ("Fusion", "Context", "Judge"):
        assert await violations(frame) == []
        await keys.press("ArrowRight")
        await expect(panel.get_by_role("tab", name=name)).to_be_focused()
    assert await violations(frame) == []
    await keys.press("Home")
    await keys.press("ArrowRight")
    await panel.get_by_role("button", name="flood.md").press("Enter")
    await expect(panel.locator("mark")).to_be_focused()
    assert await violations(frame) == []
    # Out of the document, and then out of the panel.
    await keys.press("Escape")
    await expect(panel.get_by_role("button", name="flood.md")).to_be_focused()
    await keys.press("Escape")
    await expect(page.by("panel-beside")).to_have_count(0)
    await page.tab.emulate_media(color_scheme="light")
    await page.tab.set_viewport_size({"width": 1280, "height": 720})
