"""The chat page's list of conversations: search, rename, delete, new, pins, the archive, deep links."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Route, expect
from support.chat_client import chat
from support.chat_page import ChatPage, new_chat_in
from support.rest_client import rest
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

NOT_FOUND = r"status of 404"


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage, shared_server: RunningServer) -> AsyncIterator[ChatPage]:
    """With an empty list."""
    async with new_chat_in(shared_page, agent="assistant") as page, rest(shared_server) as client:
        for archived in ("false", "true"):
            for session in (await client.get("/sessions", params={"archived": archived})).json()["sessions"]:
                await client.delete(f"/sessions/{session['id']}")
        await expect(page.by("session-item")).to_have_count(0)
        yield page


def item(page: ChatPage, title: str) -> Locator:
    return page.by("session-item").filter(has_text=title)


async def choose(page: ChatPage, title: str, action: str) -> None:
    """Choose an action in the menu of a conversation."""
    await item(page, title).hover()
    await item(page, title).get_by_test_id("item-menu").click()
    await item(page, title).get_by_test_id(action).click()


async def open_item(page: ChatPage, title: str) -> None:
    await item(page, title).get_by_role("link").click()


async def ask_in_new_chat(page: ChatPage, text: str, title: str) -> str:
    """Ask in a new conversation, wait until it is named, and return its id."""
    await page.start_new_chat()
    await page.asked(text)
    await expect(page.by("title")).to_have_text(title)
    await expect(item(page, title)).to_have_count(1)
    return page.session_id


async def ask_elsewhere(page: ChatPage, server: RunningServer, text: str, title: str) -> str:
    """Ask in a new conversation of another client, wait until the page lists its name, and return its id."""
    async with chat(server.address) as client:
        session_id: str = (await client.ask(text))[-1]["session_id"]
    await expect(item(page, title)).to_have_count(1)
    return session_id


async def test_conversations_are_listed_newest_first_and_can_be_opened(page: ChatPage) -> None:
    first = await ask_in_new_chat(page, "my name is Zorblax", "Name Zorblax")
    second = await ask_in_new_chat(page, "what is 12*34?", "12*34")
    assert first != second
    await expect(page.by("session-item")).to_have_text(["12*34", "Name Zorblax"])

    await open_item(page, "Name Zorblax")
    await expect(page.by("message-user")).to_contain_text("my name is Zorblax")
    await expect(page.answers).to_contain_text("Nice to meet you, Zorblax!")
    assert page.session_id == first

    await page.asked("what is my name?")
    await expect(page.by("session-item")).to_have_text(["Name Zorblax", "12*34"])


async def test_the_browsers_back_button_opens_the_conversation_before(
    page: ChatPage, shared_server: RunningServer
) -> None:
    await ask_elsewhere(page, shared_server, "my name is Zorblax", "Name Zorblax")
    await ask_elsewhere(page, shared_server, "what is 12*34?", "12*34")
    await open_item(page, "12*34")
    await expect(page.by("message-user")).to_contain_text("what is 12*34?")
    await open_item(page, "Name Zorblax")
    await expect(page.by("message-user")).to_contain_text("my name is Zorblax")
    await page.tab.go_back()
    await expect(page.by("message-user")).to_contain_text("what is 12*34?")


async def test_search_shows_where_the_words_are_and_opens_it_by_keys(
    page: ChatPage, shared_server: RunningServer
) -> None:
    named = await ask_elsewhere(page, shared_server, "my name is Zorblax", "Name Zorblax")
    sums = await ask_elsewhere(page, shared_server, "what is 12*34?", "12*34")
    search = page.by("session-search")
    await search.fill("zorbl")
    await expect(page.by("search-result")).to_have_text(["Name Zorblax"])
    await expect(page.by("search-hit").last).to_have_text("my name is Zorblax")
    await expect(page.by("search-hit").last.locator("mark")).to_have_text("Zorbl")
    for _ in range(5):
        await search.press("ArrowDown")
    await expect(page.by("search-hit").last).to_have_attribute("aria-selected", "true")
    chosen = await page.by("search-hit").last.get_attribute("id")
    await expect(search).to_have_attribute("aria-activedescendant", chosen or "")
    await search.press("Enter")
    await expect(page.by("message-user")).to_contain_text("my name is Zorblax")
    assert page.session_id == named

    await search.fill("408 nothing-else")
    await expect(page.by("search-state")).to_have_text("Nothing found.")
    await search.fill("408")
    await page.by("search-hit").first.click()
    await expect(page.by("message-user")).to_contain_text("what is 12*34?")
    assert page.session_id == sums
    await search.press("Escape")
    await expect(search).to_have_value("")
    await expect(page.by("session-item")).to_have_count(2)
    await page.tab.keyboard.press("Escape")


async def test_what_was_found_stays_when_more_of_it_can_not_be_read(
    own_page: ChatPage, chat_server: RunningServer
) -> None:
    await ask_elsewhere(own_page, chat_server, "my name is Zorblax", "Name Zorblax")

    async def break_off(route: Route) -> None:
        if "cursor=" in route.request.url:
            return await route.abort()
        response = await route.fetch()
        await route.fulfill(response=response, json=await response.json() | {"next_cursor": "next"})

    own_page.provokes("Failed to load")
    await own_page.tab.route("**/search?*", break_off)
    await own_page.by("session-search").fill("zorbl")
    await expect(own_page.by("search-result")).to_have_count(1)
    await own_page.by("more-found").click()
    await expect(own_page.by("search-state")).to_contain_text("can't be reached")
    await expect(own_page.by("search-result")).to_have_count(1)
    await expect(own_page.by("more-found")).to_be_visible()


async def test_what_is_found_is_never_more_than_text(own_page: ChatPage, chat_server: RunningServer) -> None:
    async with rest(chat_server) as client:
        title = "<img src=x onerror=alert(1)> needle \u202e<b>"
        assert (await client.post("/sessions", json={"title": title})).status_code == 201
    await own_page.by("session-search").fill("needle")
    await expect(own_page.by("search-result")).to_have_text(title)
    assert await own_page.by("search-result").locator("img, b").count() == 0


async def test_a_conversation_can_be_renamed(page: ChatPage) -> None:
    await ask_in_new_chat(page, "my name is Zorblax", "Name Zorblax")
    await choose(page, "Name Zorblax", "rename-session")
    await page.by("rename-input").fill("About <me> & you")
    await page.by("rename-input").press("Enter")
    await expect(page.by("session-item")).to_have_text("About <me> & you")
    await expect(page.by("title")).to_have_text("About <me> & you")
    await expect(item(page, "About").get_by_role("link")).to_be_focused()

    await choose(page, "About", "rename-session")
    await page.by("rename-input").fill("not kept")
    await page.by("rename-input").press("Escape")
    await expect(page.by("session-item")).to_have_text("About <me> & you")
    await expect(item(page, "About").get_by_role("link")).to_be_focused()

    await page.tab.reload()
    await page.ended()
    await expect(page.by("session-item")).to_have_text("About <me> & you")
    await page.asked("what is my name?")
    await expect(page.by("title")).to_have_text("About <me> & you")


async def status_of(server: RunningServer, session_id: str) -> int:
    async with rest(server) as client:
        return (await client.get(f"/sessions/{session_id}")).status_code


async def test_a_deletion_can_be_undone_and_happens_when_its_time_is_over(
    own_page: ChatPage, chat_server: RunningServer
) -> None:
    await own_page.tab.clock.install()
    await own_page.tab.reload()
    await ask_in_new_chat(own_page, "my name is Zorblax", "Name Zorblax")
    deleted = await ask_in_new_chat(own_page, "what is 12*34?", "12*34")
    await choose(own_page, "12*34", "delete-session")
    await expect(own_page.by("session-item")).to_have_text(["Name Zorblax"])
    await expect(own_page.by("undo-notice")).to_contain_text("“12*34” deleted")
    await expect(own_page.exchanges).to_have_count(0)
    await own_page.by("undo").click()
    await expect(own_page.by("session-item")).to_have_text(["12*34", "Name Zorblax"])
    await expect(own_page.by("message-user")).to_contain_text("what is 12*34?")
    await expect(own_page.by("undo-notice")).to_have_count(0)
    await expect(own_page.composer).to_be_focused()
    assert await status_of(chat_server, deleted) == 200

    other = await own_page.another_tab()
    await expect(other.by("session-item")).to_have_count(2)
    await own_page.tab.bring_to_front()
    await choose(own_page, "12*34", "delete-session")
    await expect(own_page.by("session-item")).to_have_text(["Name Zorblax"])
    assert own_page.session_id == ""
    assert await other.by("session-item").count() == 2
    # By itself, after some seconds.
    await own_page.tab.clock.fast_forward(10_000)
    await expect(own_page.by("undo-notice")).to_have_count(0)
    await expect(other.by("session-item")).to_have_text(["Name Zorblax"])
    assert await status_of(chat_server, deleted) == 404
    await own_page.asked("my name is Zorblax")


async def test_who_leaves_the_page_has_deleted(page: ChatPage, shared_server: RunningServer) -> None:
    deleted = await ask_in_new_chat(page, "my name is Zorblax", "Name Zorblax")
    await choose(page, "Name Zorblax", "delete-session")
    await expect(page.by("undo-notice")).to_be_visible()
    await page.tab.reload()
    await expect(page.by("session-list")).to_have_text("Your conversations will be listed here.")
    assert await status_of(shared_server, deleted) == 404


async def test_a_conversation_whose_answer_is_being_written_can_be_deleted(page: ChatPage) -> None:
    await page.ask("count down from 1000")
    await page.writes(3)
    await choose(page, "count down", "delete-session")
    await expect(page.by("session-item")).to_have_count(0)
    await expect(page.exchanges).to_have_count(0)
    await page.asked("my name is Zorblax")
    await expect(page.by("session-item")).to_have_count(1)


async def test_pinned_conversations_come_first_in_every_window(page: ChatPage, shared_server: RunningServer) -> None:
    await ask_elsewhere(page, shared_server, "my name is Zorblax", "Name Zorblax")
    await ask_elsewhere(page, shared_server, "what is 12*34?", "12*34")
    other = await page.another_tab()
    await page.tab.bring_to_front()
    await choose(page, "Name Zorblax", "pin-session")
    for window in (page, other):
        await expect(window.by("session-item")).to_have_text(["Name Zorblax", "12*34"])
        await expect(window.by("session-list").get_by_role("heading")).to_have_text(["Pinned", "Today"])
    await page.tab.reload()
    await expect(page.by("session-item")).to_have_text(["Name Zorblax", "12*34"])
    await choose(page, "Name Zorblax", "pin-session")
    await expect(other.by("session-item")).to_have_text(["12*34", "Name Zorblax"])


async def test_the_menu_of_the_open_conversation_does_what_its_row_s_does(page: ChatPage) -> None:
    await page.choose_agent("assistant")
    await ask_in_new_chat(page, "my name is Zorblax", "Name Zorblax")
    headings = page.by("session-list").get_by_role("heading")
    for heading in ("Pinned", "Today"):
        await page.by("session-menu").click()
        await page.by("pin-session").click()
        await expect(headings).to_have_text([heading])
    await page.by("session-menu").click()
    await page.by("archive-session").click()
    await expect(page.by("session-item")).to_have_count(0)
    await page.by("session-menu").click()
    await expect(page.by("archive-session")).to_have_text("Take out of the archive")
    await page.by("archive-session").click()
    await expect(page.by("session-item")).to_have_count(1)
    await page.by("session-menu").click()
    await page.by("delete-session").click()
    await expect(page.by("session-item")).to_have_count(0)
    assert page.session_id == ""
    await page.by("undo").click()
    await expect(page.by("title")).to_have_text("Name Zorblax")


async def test_what_is_archived_is_put_away_until_somebody_goes_on_with_it(
    page: ChatPage, shared_server: RunningServer
) -> None:
    await ask_elsewhere(page, shared_server, "my name is Zorblax", "Name Zorblax")
    await ask_elsewhere(page, shared_server, "what is 12*34?", "12*34")
    await choose(page, "Name Zorblax", "archive-session")
    await expect(page.by("session-item")).to_have_text(["12*34"])
    await page.by("undo").click()
    await expect(page.by("session-item")).to_have_count(2)
    await choose(page, "Name Zorblax", "archive-session")
    await expect(page.by("session-item")).to_have_text(["12*34"])

    await page.by("list-menu").click()
    await page.by("show-archive").click()
    await expect(page.by("session-item")).to_have_text(["Name Zorblax"])
    await expect(page.by("archive-back")).to_be_focused()
    await open_item(page, "Name Zorblax")
    await page.ended()
    await page.asked("what is my name?")
    await expect(page.by("session-list")).to_have_text("Nothing is archived.")
    await page.by("archive-back").click()
    await expect(page.by("session-item")).to_have_text(["Name Zorblax", "12*34"])


async def test_several_are_archived_or_deleted_at_once(page: ChatPage, shared_server: RunningServer) -> None:
    async with rest(shared_server) as client:
        for number in range(5):
            assert (await client.post("/sessions", json={"title": f"Session {number}"})).status_code == 201
    await expect(page.by("session-item")).to_have_count(5)
    await page.by("list-menu").click()
    await page.by("select-several").click()
    await expect(page.by("delete-selected")).to_have_attribute("aria-disabled", "true")
    for number in (0, 2, 4):
        await page.tab.get_by_role("checkbox", name=f"Session {number}").click()
    await expect(page.by("selection-bar")).to_contain_text("3 selected")
    await page.by("archive-selected").click()
    await expect(page.by("session-item")).to_have_text(["Session 3", "Session 1"])
    await page.by("undo").click()
    await expect(page.by("session-item")).to_have_count(5)

    await page.by("list-menu").click()
    await page.by("select-several").click()
    await page.tab.get_by_role("checkbox", name="Session 1").click()
    await page.tab.get_by_role("checkbox", name="Session 3").press("Space")
    await page.by("delete-selected").click()
    await expect(page.by("undo-notice")).to_contain_text("2 conversations deleted")
    await expect(page.by("session-item")).to_have_text(["Session 4", "Session 2", "Session 0"])
    await page.by("undo-notice").get_by_role("button", name="Dismiss").click()
    async with rest(shared_server) as client:
        await expect(page.by("undo-notice")).to_have_count(0)
        other = await page.another_tab()
        await expect(other.by("session-item")).to_have_text(["Session 4", "Session 2", "Session 0"])
        assert len((await client.get("/sessions")).json()["sessions"]) == 3


async def test_what_runs_waits_and_has_ended_is_shown_in_every_window(
    page: ChatPage, shared_server: RunningServer
) -> None:
    other = await page.another_tab()
    async with chat(shared_server.address) as client:
        await client.send({"message": "count down slowly from 1000"})
        session_id = (await client.until("delta"))["session_id"]
        for window in (page, other):
            await expect(window.tab.get_by_role("img", name="Running")).to_be_visible()
        await client.send({"type": "stop", "session_id": session_id})
        await client.until("final")
    for window in (page, other):
        await expect(window.tab.get_by_role("img", name="Running")).to_have_count(0)
        await expect(window.tab.get_by_role("img", name="Unread")).to_be_visible()
    await page.tab.reload()
    await expect(page.tab.get_by_role("img", name="Unread")).to_be_visible()
    await page.by("session-item").get_by_role("link").click()
    for window in (page, other):
        await expect(window.tab.get_by_role("img", name="Unread")).to_have_count(0)


async def test_nothing_is_asked_of_the_server_while_nothing_changes(
    own_page: ChatPage, chat_server: RunningServer
) -> None:
    async with chat(chat_server.address) as client:
        await client.send({"message": "count down slowly from 1000"})
        session_id = (await client.until("delta"))["session_id"]
        await own_page.tab.clock.install()
        await own_page.tab.reload()
        await expect(own_page.tab.get_by_role("img", name="Running")).to_be_visible()
        await own_page.tab.wait_for_load_state("networkidle")
        asked: list[str] = []
        own_page.tab.on("request", lambda request: asked.append(request.url))
        # Longer than the page once waited between two looks.
        await own_page.tab.clock.fast_forward(11_000)
        # A request that begins is told of within this time.
        await own_page.tab.wait_for_timeout(300)
        assert [url for url in asked if "/sessions" in url or "/exchanges" in url] == []
        await client.send({"type": "stop", "session_id": session_id})


async def test_the_list_folds_and_is_remembered(own_page: ChatPage) -> None:
    await ask_in_new_chat(own_page, "my name is Zorblax", "Name Zorblax")
    await expect(own_page.tab.locator("#show-sidebar")).to_be_hidden()
    await own_page.by("hide-sidebar").click()
    await expect(own_page.by("session-list")).to_be_hidden()
    await expect(own_page.tab.locator("#show-sidebar")).to_be_focused()
    await own_page.tab.reload()
    await own_page.ended()
    await expect(own_page.by("session-list")).to_be_hidden()
    await own_page.tab.keyboard.press("Control+k")
    await expect(own_page.by("session-search")).to_be_focused()
    await expect(own_page.by("session-item")).to_have_text(["Name Zorblax"])


async def test_what_is_written_but_not_sent_stays_with_its_conversation(own_page: ChatPage) -> None:
    await ask_in_new_chat(own_page, "my name is Zorblax", "Name Zorblax")
    await own_page.composer.fill("half a sentence")
    await own_page.start_new_chat()
    await expect(own_page.composer).to_have_value("")
    await own_page.composer.fill("another one")
    await open_item(own_page, "Name Zorblax")
    await expect(own_page.composer).to_have_value("half a sentence")
    await own_page.start_new_chat()
    await expect(own_page.composer).to_have_value("another one")


async def test_conversations_are_links_and_each_is_one_stop_of_the_tab_key(own_page: ChatPage) -> None:
    for text in ("my name is Zorblax", "hello"):
        await own_page.start_new_chat()
        await own_page.asked(text)
    page, titles = own_page.tab, own_page.tab.locator(".session-title")
    await own_page.by("session-search").fill("zorblax")
    found = own_page.by("search-result").first
    await expect(found).to_be_visible()
    async with page.context.expect_page() as from_search:
        await found.click(button="middle")
    await own_page.by("session-search").fill("")
    async with page.context.expect_page() as from_list:
        await titles.last.click(button="middle")
    async with page.context.expect_page() as anew:
        await own_page.by("new-chat").click(modifiers=["Control"])
    for opened, shows in ((from_search, True), (from_list, True), (anew, False)):
        tab = await opened.value
        await expect(tab.get_by_test_id("message-user" if shows else "mode-chat").first).to_be_visible()
        await tab.close()
    await expect(own_page.by("message-user")).to_contain_text("hello")

    await titles.first.focus()
    await page.keyboard.press("ArrowRight")
    await expect(own_page.by("item-menu").first).to_be_focused()
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("Tab")
    await expect(titles.last).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(own_page.by("message-user")).to_contain_text("Zorblax")
    assert len(page.context.pages) == 1


async def test_a_deep_link_opens_its_conversation(page: ChatPage, shared_server: RunningServer) -> None:
    session_id = await ask_elsewhere(page, shared_server, "my name is Zorblax", "Name Zorblax")
    other = await page.another_tab(f"#s={session_id}")
    await other.ended()
    await expect(other.by("title")).to_have_text("Name Zorblax")
    await other.start_new_chat()
    await expect(other.tab).not_to_have_url(re.compile("#s="))


async def test_a_deep_link_to_nothing_says_so_and_leads_on(own_page: ChatPage) -> None:
    own_page.provokes(NOT_FOUND)
    await own_page.open("#s=no-such-session")
    await expect(own_page.tab.get_by_role("alert")).to_be_visible()
    await own_page.start_new_chat()
    await own_page.asked("my name is Zorblax")


async def test_a_conversation_that_another_window_deletes_closes(page: ChatPage, shared_server: RunningServer) -> None:
    session_id = await ask_in_new_chat(page, "my name is Zorblax", "Name Zorblax")
    async with rest(shared_server) as client:
        assert (await client.delete(f"/sessions/{session_id}")).status_code == 204
    await expect(page.exchanges).to_have_count(0)
    await expect(page.by("session-item")).to_have_count(0)
    assert page.session_id == ""
