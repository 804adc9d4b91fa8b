"""The chat page's list of conversations: search, rename, delete, new, deep links, and long lists."""

import re

import pytest
from playwright.async_api import Locator, expect
from support.chat_client import chat
from support.chat_page import ChatPage
from support.large_sessions import fill
from support.rest_client import rest
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

NOT_FOUND = r"status of 404"


def item(page: ChatPage, title: str) -> Locator:
    return page.by("session-item").filter(has_text=title)


async def open_item(page: ChatPage, title: str) -> None:
    await item(page, title).get_by_role("button").first.click()


async def ask_in_new_chat(page: ChatPage, text: str, title: str) -> str:
    """Ask in a new conversation, wait until it is named, and return its id."""
    await page.by("new-chat").click()
    await expect(page.exchanges).to_have_count(0)
    await page.asked(text)
    await expect(page.by("title")).to_have_text(title)
    await expect(item(page, title)).to_have_count(1)
    return page.session_id


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


async def test_the_browsers_back_button_opens_the_conversation_before(page: ChatPage) -> None:
    await ask_in_new_chat(page, "my name is Zorblax", "Name Zorblax")
    await ask_in_new_chat(page, "what is 12*34?", "12*34")
    await open_item(page, "Name Zorblax")
    await expect(page.by("message-user")).to_contain_text("my name is Zorblax")
    await page.tab.go_back()
    await expect(page.by("message-user")).to_contain_text("what is 12*34?")


async def test_search_finds_titles_and_texts(page: ChatPage) -> None:
    await ask_in_new_chat(page, "my name is Zorblax", "Name Zorblax")
    await ask_in_new_chat(page, "what is 12*34?", "12*34")
    search = page.by("session-search")
    await search.fill("zorbl")
    await expect(page.by("session-item")).to_have_text(["Name Zorblax"])
    await search.fill("408")
    await expect(page.by("session-item")).to_have_text(["12*34"])
    await search.fill("nothing has this text")
    await expect(page.by("session-list")).to_have_text("Nothing found.")
    await search.fill("")
    await expect(page.by("session-item")).to_have_count(2)


async def test_a_conversation_can_be_renamed(page: ChatPage) -> None:
    await ask_in_new_chat(page, "my name is Zorblax", "Name Zorblax")
    await item(page, "Name Zorblax").hover()
    await item(page, "Name Zorblax").get_by_test_id("rename-session").click()
    await page.by("rename-input").fill("About <me> & you")
    await page.by("rename-input").press("Enter")
    await expect(page.by("session-item")).to_have_text("About <me> & you")
    await expect(page.by("title")).to_have_text("About <me> & you")

    await item(page, "About").hover()
    await item(page, "About").get_by_test_id("rename-session").click()
    await page.by("rename-input").fill("not kept")
    await page.by("rename-input").press("Escape")
    await expect(page.by("session-item")).to_have_text("About <me> & you")

    await page.tab.reload()
    await page.ended()
    await expect(page.by("session-item")).to_have_text("About <me> & you")
    await page.asked("what is my name?")
    await expect(page.by("title")).to_have_text("About <me> & you")


async def test_a_conversation_can_be_deleted(page: ChatPage, chat_server: RunningServer) -> None:
    kept = await ask_in_new_chat(page, "my name is Zorblax", "Name Zorblax")
    deleted = await ask_in_new_chat(page, "what is 12*34?", "12*34")
    await item(page, "12*34").hover()
    await item(page, "12*34").get_by_test_id("delete-session").click()
    await page.by("cancel").click()
    await expect(page.by("confirm-dialog")).to_have_count(0)
    await expect(page.by("session-item")).to_have_count(2)

    await item(page, "12*34").get_by_test_id("delete-session").click()
    await page.by("confirm").click()
    await expect(page.by("session-item")).to_have_text(["Name Zorblax"])
    await expect(page.exchanges).to_have_count(0)
    await expect(page.by("title")).to_have_text("")
    assert page.session_id == ""
    async with rest(chat_server) as client:
        assert (await client.get(f"/sessions/{deleted}")).status_code == 404
        assert (await client.get(f"/sessions/{kept}")).status_code == 200
    await page.asked("my name is Zorblax")


async def test_a_conversation_whose_answer_is_being_written_can_be_deleted(page: ChatPage) -> None:
    await page.ask("count down from 1000")
    await page.writes(3)
    await page.by("session-item").hover()
    await page.by("delete-session").click()
    await page.by("confirm").click()
    await expect(page.by("session-item")).to_have_count(0)
    await expect(page.exchanges).to_have_count(0)
    await page.asked("my name is Zorblax")
    await expect(page.by("session-item")).to_have_count(1)


async def test_what_is_written_but_not_sent_stays_with_its_conversation(page: ChatPage) -> None:
    await ask_in_new_chat(page, "my name is Zorblax", "Name Zorblax")
    await page.composer.fill("half a sentence")
    await page.by("new-chat").click()
    await expect(page.composer).to_have_value("")
    await page.composer.fill("another one")
    await open_item(page, "Name Zorblax")
    await expect(page.composer).to_have_value("half a sentence")
    await page.by("new-chat").click()
    await expect(page.composer).to_have_value("another one")


async def test_a_deep_link_opens_its_conversation(page: ChatPage) -> None:
    session_id = await ask_in_new_chat(page, "my name is Zorblax", "Name Zorblax")
    other = await page.another_tab(f"#s={session_id}")
    await other.ended()
    await expect(other.by("title")).to_have_text("Name Zorblax")
    await other.by("new-chat").click()
    await expect(other.tab).not_to_have_url(re.compile("#s="))


async def test_a_deep_link_to_nothing_says_so_and_leads_on(page: ChatPage) -> None:
    page.provokes(NOT_FOUND)
    await page.open("#s=no-such-session")
    await expect(page.tab.get_by_role("alert")).to_be_visible()
    await page.by("new-chat").click()
    await page.asked("my name is Zorblax")


async def test_a_long_list_is_read_page_by_page(page: ChatPage, chat_server: RunningServer) -> None:
    async with rest(chat_server) as client:
        for number in range(35):
            response = await client.post("/sessions", json={"title": f"Session {number:02}"})
            assert response.status_code == 201
    await page.tab.reload()
    await expect(page.by("session-item")).to_have_count(30)
    await page.by("more-sessions").click()
    await expect(page.by("session-item")).to_have_text([f"Session {number:02}" for number in reversed(range(35))])
    await expect(page.by("more-sessions")).to_have_count(0)


async def test_a_long_conversation_is_read_from_its_end(page: ChatPage, chat_server: RunningServer) -> None:
    async with chat(chat_server.address) as client:
        events = await client.ask("echo 0", agent_id="echo")
        session_id = events[0]["session_id"]
        for number in range(1, 60):
            await client.ask(f"echo {number}", session_id=session_id)
    await page.open(f"#s={session_id}")
    await expect(page.by("message-user").last).to_contain_text("echo 59")
    await expect(page.answers.last).to_be_in_viewport()
    await expect(page.by("load-earlier")).to_have_count(1)
    await page.by("load-earlier").focus()
    await page.tab.keyboard.press("Enter")
    await expect(page.by("load-earlier")).to_have_count(0)
    await page.by("messages").evaluate("(view) => (view.scrollTop = 0)")
    await expect(page.by("message-user").first).to_contain_text("echo 0")


READ = """async (id) => {
  const { Api } = await import("/static/api.js");
  const { readMessages } = await import("/static/history.js");
  const api = new Api(new URL("/agentic/v1/", location), async () => null);
  const { next_rank: nextRank } = await api.session(id);
  const messages = await readMessages(api, id, 0, nextRank);
  return { nextRank, ranks: messages.map(({ rank }) => rank) };
}"""


async def test_a_conversation_of_several_mib_is_read_to_its_end(page: ChatPage, chat_server: RunningServer) -> None:
    """Each page of it is a MiB, with fewer messages than were asked for."""
    [session_id] = await fill(chat_server.data / "chat.sqlite3", "developer", sessions=1, mib_each=4)
    read = await page.tab.evaluate(READ, session_id)
    assert read["nextRank"] == 65
    assert read["ranks"] == list(range(65))
