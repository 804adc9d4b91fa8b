"""What the page reads bit by bit: a long list of conversations, long conversations, and a hit far up in one."""

import pytest
from playwright.async_api import expect
from support.chat_client import chat
from support.chat_page import ChatPage
from support.large_sessions import fill
from support.rest_client import rest
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


async def test_a_long_list_is_read_as_it_is_scrolled(page: ChatPage, chat_server: RunningServer) -> None:
    async with rest(chat_server) as client:
        for number in range(95):
            response = await client.post("/sessions", json={"title": f"Session {number:02}"})
            assert response.status_code == 201
    await page.tab.reload()
    await expect(page.by("session-item").first).to_have_text("Session 94")
    # The pages that are far from sight are not read.
    assert await page.by("session-item").count() < 95
    while await page.by("more-sessions").count():
        before = await page.by("session-item").count()
        await page.by("session-item").last.scroll_into_view_if_needed()
        await expect(page.by("session-item")).not_to_have_count(before)
    await expect(page.by("session-item")).to_have_text([f"Session {number:02}" for number in reversed(range(95))])


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


async def test_a_hit_far_up_in_a_conversation_is_brought_into_view(page: ChatPage, chat_server: RunningServer) -> None:
    async with chat(chat_server.address) as client:
        session_id = (await client.ask("the needle", agent_id="echo"))[0]["session_id"]
        for number in range(15):
            await client.ask(f"echo {number} {'hay ' * 60}", session_id=session_id)
    await page.by("session-search").fill("needle")
    await page.by("search-hit").last.click()
    await expect(page.by("message-user").first).to_contain_text("the needle")
    await expect(page.by("message-user").first).to_be_in_viewport()
