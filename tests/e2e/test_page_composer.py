"""The chat page's composer: what is typed outlasts everything, the queue of one, keys, and limits."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route, WebSocketRoute, expect
from support.chat_page import ChatPage, chat_page, new_chat_in
from support.paced_agent import Pace
from support.rest_client import rest
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page, agent="assistant") as page:
        yield page


KEPT = "prefix => Object.keys(localStorage).filter((key) => key.startsWith(prefix)).map((key) => localStorage[key])"


async def is_kept(page: ChatPage, text: str, kind: str = "chat.draft") -> None:
    """Wait until the browser keeps a draft, or an ask, with this text."""
    await page.tab.wait_for_function(f"([prefix, text]) => ({KEPT})(prefix).join().includes(text)", arg=[kind, text])


class Deaf:
    """Sockets that swallow what the page sends, until they are let through."""

    def __init__(self) -> None:
        self.is_deaf = True

    async def watch(self, page: ChatPage) -> None:
        await page.tab.route_web_socket("**/ws", self._route)
        await page.tab.reload()
        await expect(page.composer).to_be_visible()

    async def _route(self, route: WebSocketRoute) -> None:
        if not self.is_deaf:
            route.connect_to_server()


async def test_drafts_outlast_a_reload_each_in_its_conversation_and_tab(own_page: ChatPage) -> None:
    await own_page.asked("my name is Zorblax")
    session = own_page.session_id
    await own_page.composer.fill("half a question")
    await own_page.start_new_chat()
    await expect(own_page.composer).to_have_value("")
    await own_page.composer.fill("a new one")
    other = await own_page.another_tab()
    await expect(other.composer).to_have_value("")
    await other.composer.fill("another new one")

    await own_page.tab.reload()
    await expect(own_page.composer).to_have_value("a new one")
    await other.tab.reload()
    await expect(other.composer).to_have_value("another new one")
    await own_page.open(f"#s={session}")
    await own_page.tab.reload()
    await expect(own_page.composer).to_have_value("half a question")
    await own_page.ended()
    await own_page.asked("half a question")
    await own_page.tab.reload()
    await own_page.ended(exchanges=2)
    await expect(own_page.composer).to_have_value("")


async def test_a_new_tab_takes_over_the_draft_of_one_that_is_gone(own_page: ChatPage) -> None:
    other = await own_page.another_tab()
    await other.composer.fill("never sent")
    await is_kept(other, "never sent")
    await other.tab.close()
    third = await own_page.another_tab()
    await expect(third.composer).to_have_value("never sent")
    # It belongs to one tab only.
    fourth = await own_page.another_tab()
    await expect(fourth.composer).to_have_value("")


async def test_an_ask_that_was_not_acknowledged_is_sent_again_after_a_reload_and_counts_once(
    own_page: ChatPage,
) -> None:
    deaf = Deaf()
    await deaf.watch(own_page)
    await own_page.ask("my name is Zorblax")
    await expect(own_page.exchanges).to_have_attribute("data-status", "sending")
    await is_kept(own_page, "Zorblax", "chat.ask")
    await own_page.tab.reload()
    await expect(own_page.by("message-user")).to_have_text("You my name is Zorblax", use_inner_text=True)

    deaf.is_deaf = False
    await own_page.tab.reload()
    await own_page.ended()
    await expect(own_page.composer).to_have_value("")
    await own_page.tab.reload()
    await own_page.ended()
    assert await own_page.tab.evaluate(f"({KEPT})('chat.ask')") == []


async def test_an_ask_whose_acknowledgement_was_lost_counts_once(own_page: ChatPage) -> None:
    """The server has got it, and answered; the page has heard nothing of that."""
    is_deaf = True

    def route(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        socket.on_message(server.send)
        if is_deaf:
            server.on_message(lambda message: None)

    await own_page.asked("hello")
    session = own_page.session_id
    await own_page.tab.route_web_socket("**/ws", route)
    await own_page.tab.reload()
    await own_page.ended()
    await own_page.ask("my name is Zorblax")
    await expect(own_page.exchanges.last).to_have_attribute("data-status", "sending")
    other = await own_page.another_tab(f"#s={session}")
    await other.ended(exchanges=2)

    await own_page.tab.reload()
    await own_page.ended(exchanges=2)

    is_deaf = False
    await own_page.tab.reload()
    await own_page.tab.wait_for_function(f"() => !({KEPT})('chat.ask').length")
    await own_page.ended(exchanges=2)
    await own_page.asked("what is my name?")
    await expect(own_page.exchanges).to_have_count(3)
    assert await own_page.tab.evaluate(f"({KEPT})('chat.ask')") == []


async def test_what_is_sent_while_an_answer_is_written_is_asked_when_that_has_ended(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    await page.ask("write 20 words")
    pace.write(4)
    await page.writes()
    await page.ask("write 21 words")
    await expect(page.by("queued-text")).to_have_text("write 21 words")
    await expect(page.composer).to_have_value("")

    # There is room for one.
    await page.ask("and another")
    await expect(page.composer).to_have_value("and another")
    await page.composer.fill("")

    await page.by("queued-edit").click()
    await expect(page.by("queued")).to_have_count(0)
    await expect(page.composer).to_be_focused()
    await expect(page.composer).to_have_value("write 21 words")
    await page.ask("write 22 words")
    await is_kept(page, "write 22 words")
    await page.tab.reload()
    await expect(page.by("queued-text")).to_have_text("write 22 words")

    pace.finish()
    await page.ended(exchanges=2)
    await expect(page.by("message-user").last).to_contain_text("write 22 words")
    await expect(page.by("queued")).to_have_count(0)


async def test_what_is_queued_is_asked_though_what_it_waits_for_ended_while_the_page_was_loading(
    own_page: ChatPage, pace: Pace, chat_server: RunningServer
) -> None:
    ended, checked = asyncio.Event(), asyncio.Event()

    def follow_late(route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        async def pass_on(data: str | bytes) -> None:
            if '"follow"' in str(data):
                await ended.wait()
            server.send(data)

        route.on_message(pass_on)

    async def read_late(route: Route) -> None:
        if "after_rank" in route.request.url:
            await checked.wait()
        await route.continue_()

    await own_page.choose_agent("paced")
    await own_page.ask("write 20 words")
    pace.write(4)
    await own_page.writes()
    await own_page.ask("write 22 words")
    await is_kept(own_page, "queued")
    await own_page.tab.route_web_socket("**/ws", follow_late)
    await own_page.tab.route("**/messages?*", read_late)
    own_page.tab.on("response", lambda response: re.search(r"/exchanges/\w+$", response.url) and checked.set())
    async with own_page.tab.expect_response("**/exchanges?*"):
        await own_page.tab.reload()
    await expect(own_page.exchanges).to_have_attribute("data-status", "running")
    pace.finish()
    async with rest(chat_server) as client, asyncio.timeout(30):
        while (await client.get(f"/sessions/{own_page.session_id}")).json()["next_rank"] < 2:
            await asyncio.sleep(0.05)
    ended.set()
    await own_page.ended(exchanges=2)
    assert checked.is_set()


QUEUED_EARLIER = """(hours) => {
  for (const key of Object.keys(localStorage).filter((key) => key.startsWith("chat.draft"))) {
    const row = JSON.parse(localStorage[key]);
    if (row.value.queued) row.value.queued.at -= hours * 3_600_000;
    localStorage[key] = JSON.stringify(row);
  }
}"""


async def test_what_was_queued_a_day_ago_is_written_again_and_not_sent(own_page: ChatPage, pace: Pace) -> None:
    await own_page.choose_agent("paced")
    await own_page.ask("write 20 words")
    pace.write(4)
    await own_page.writes()
    await own_page.ask("my name is Zorblax")
    await expect(own_page.by("queued-text")).to_have_text("my name is Zorblax")
    await own_page.composer.fill("and so on")
    await is_kept(own_page, "and so on")
    await own_page.tab.evaluate(QUEUED_EARLIER, 23)
    await own_page.tab.reload()
    await expect(own_page.by("queued-text")).to_have_text("my name is Zorblax")
    await expect(own_page.composer).to_have_value("and so on")

    await own_page.tab.evaluate(QUEUED_EARLIER, 2)
    await own_page.tab.reload()
    await expect(own_page.composer).to_have_value("my name is Zorblax\n\nand so on")
    await expect(own_page.by("queued")).to_have_count(0)
    pace.finish()
    await own_page.ended()
    await expect(own_page.exchanges).to_have_count(1)
    await expect(own_page.composer).to_have_value("my name is Zorblax\n\nand so on")


TELL_LATE = """async () => {
  for (const key of Object.keys(localStorage).filter((key) => key.startsWith("chat.draft"))) {
    const row = JSON.parse(localStorage[key]);
    row.value.text = "what was written before";
    dispatchEvent(new StorageEvent("storage", { key, newValue: JSON.stringify(row) }));
  }
  await new Promise((resolve) => setTimeout(resolve, 300));
}"""


async def test_what_the_page_before_kept_last_does_not_undo_what_is_written(own_page: ChatPage) -> None:
    await own_page.asked("my name is Zorblax")
    await own_page.composer.fill("and so on")
    await is_kept(own_page, "and so on")
    await own_page.tab.evaluate(TELL_LATE)
    await own_page.composer.press_sequentially("!")
    await expect(own_page.composer).to_have_value("and so on!")
    await is_kept(own_page, "and so on!")


async def test_what_is_sent_before_its_conversation_is_there_is_asked_in_it(own_page: ChatPage) -> None:
    await own_page.asked("my name is Zorblax")
    session_id = own_page.session_id
    opened = asyncio.Event()

    async def hold(route: Route) -> None:
        await opened.wait()
        await route.continue_()

    await own_page.tab.route(f"**/sessions/{session_id}", hold)
    await own_page.tab.reload()
    await own_page.ask("what is my name?")
    await expect(own_page.by("queued-text")).to_have_text("what is my name?")
    await expect(own_page.by("queued-send")).to_have_count(0)
    await expect(own_page.composer).to_have_value("")
    opened.set()
    await own_page.ended(exchanges=2)
    await expect(own_page.by("queued")).to_have_count(0)
    await expect(own_page.answers.last).to_contain_text("Zorblax")


async def test_what_is_written_outlasts_the_deletion_of_its_conversation_elsewhere(
    own_page: ChatPage, chat_server: RunningServer
) -> None:
    await own_page.asked("my name is Zorblax")
    await own_page.composer.fill("half a question")
    await is_kept(own_page, "half a question")
    other = await own_page.another_tab()
    async with rest(chat_server) as client:
        await client.delete(f"/sessions/{own_page.session_id}")
    await expect(own_page.exchanges).to_have_count(0)
    await expect(own_page.composer).to_have_value("half a question")
    await expect(other.by("session-item")).to_have_count(0)
    # Nothing is kept of a conversation that is gone.
    await own_page.tab.wait_for_function(f"() => ({KEPT})('chat.draft').length === 1")
    await own_page.tab.reload()
    await expect(own_page.composer).to_have_value("half a question")


async def test_what_is_queued_stays_when_the_answer_is_stopped(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    await page.ask("write 20 words")
    pace.write(4)
    await page.writes()
    await page.ask("my name is Zorblax")
    await page.by("stop").click()
    await page.ended("stopped")
    await expect(page.by("queued-text")).to_have_text("my name is Zorblax")
    pace.finish()
    await page.by("queued-send").click()
    await page.ended(exchanges=2)


async def test_what_is_queued_can_be_removed(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    await page.ask("write 20 words")
    pace.write(4)
    await page.writes()
    await page.ask("my name is Zorblax")
    await page.by("queued-remove").click()
    pace.finish()
    await page.ended()
    await expect(page.by("queued")).to_have_count(0)
    await expect(page.exchanges).to_have_count(1)


async def test_keys_search_begin_write_and_list_themselves(own_page: ChatPage) -> None:
    await own_page.asked("my name is Zorblax")
    await own_page.tab.keyboard.press("Control+k")
    await expect(own_page.by("session-search")).to_be_focused()
    # What is typed is no shortcut.
    await own_page.tab.keyboard.type("?/")
    await expect(own_page.by("session-search")).to_have_value("?/")
    await own_page.tab.keyboard.press("Control+Shift+O")
    await expect(own_page.exchanges).to_have_count(0)
    await expect(own_page.composer).to_be_focused()
    await own_page.composer.press_sequentially("?/")
    await expect(own_page.composer).to_have_value("?/")

    await own_page.by("new-chat").focus()
    await own_page.tab.keyboard.press("/")
    await expect(own_page.composer).to_be_focused()
    await expect(own_page.composer).to_have_value("?/")
    await own_page.by("new-chat").focus()
    await own_page.tab.keyboard.press("?")
    await expect(own_page.by("shortcuts")).to_contain_text("Search conversations")
    await own_page.by("single-keys").uncheck()
    await own_page.tab.keyboard.press("Escape")
    await expect(own_page.by("shortcuts")).to_have_count(0)
    await expect(own_page.by("new-chat")).to_be_focused()
    await own_page.tab.keyboard.press("?")
    await own_page.by("session-menu").click()
    await own_page.by("show-shortcuts").click()
    await expect(own_page.by("shortcuts")).to_have_count(1)


async def test_escape_stops_only_when_nothing_else_closes_by_it(page: ChatPage, pace: Pace) -> None:
    await page.choose_agent("paced")
    await page.ask("write 20 words")
    pace.write(4)
    await page.writes()
    await page.by("session-menu").click()
    await page.tab.keyboard.press("Escape")
    await expect(page.tab.get_by_role("menu")).to_have_count(0)
    await page.by("session-search").focus()
    await page.tab.keyboard.press("Escape")
    pace.write(4)
    await page.writes(7)
    await page.composer.focus()
    await page.composer.dispatch_event("keydown", {"key": "Escape", "isComposing": True})
    pace.write(2)
    await page.writes(9)
    await page.tab.keyboard.press("Escape")
    await page.ended("stopped")


async def test_the_upward_key_in_an_empty_composer_takes_up_the_last_question(page: ChatPage) -> None:
    await page.asked("my name is Zorblax")
    await page.composer.fill("x")
    await page.composer.press("ArrowUp")
    await expect(page.composer).to_have_value("x")
    await page.composer.fill("")
    await page.composer.press("ArrowUp")
    await expect(page.tab.locator("textarea:focus")).to_have_value("my name is Zorblax")


async def test_enter_of_an_input_method_and_with_shift_sends_nothing(page: ChatPage) -> None:
    session = await page.tab.context.new_cdp_session(page.tab)
    await page.composer.focus()
    await session.send("Input.imeSetComposition", {"text": "にほ", "selectionStart": 2, "selectionEnd": 2})
    await session.send("Input.dispatchKeyEvent", {"type": "keyDown", "key": "Enter", "windowsVirtualKeyCode": 229})
    await page.composer.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    await session.send("Input.insertText", {"text": "日本"})
    await page.composer.press("Shift+Enter")
    await page.composer.press_sequentially("is Japan")
    await expect(page.composer).to_have_value("日本\nis Japan")
    await expect(page.exchanges).to_have_count(0)
    await page.composer.press("Enter")
    await page.ended()


async def test_the_enter_that_ends_a_composition_saves_and_picks_nothing(page: ChatPage) -> None:
    """As Safari tells it: not as composing any more, but by its code."""
    ends = {"key": "Enter", "keyCode": 229}
    await page.asked("my name is Zorblax")
    session_id = page.session_id
    await page.by("session-menu").click()
    await page.tab.get_by_role("menuitem", name="Rename").click()
    title = page.by("rename-input")
    await title.fill("half a title")
    await title.dispatch_event("keydown", ends)
    await expect(title).to_be_focused()
    await title.press("Escape")

    await page.start_new_chat()
    search = page.by("session-search")
    await search.fill("Zorblax")
    await expect(page.by("search-result").first).to_be_visible()
    await search.dispatch_event("keydown", ends)
    assert page.session_id != session_id
    await search.press("Enter")
    await page.ended()

    await page.by("agent-picker").click()
    agents = page.by("agent-search")
    await agents.fill("paced")
    await agents.dispatch_event("keydown", ends)
    await expect(agents).to_be_focused()


async def test_on_a_touched_screen_enter_is_a_line_and_the_button_sends(
    browser: Browser, shared_server: RunningServer
) -> None:
    phone = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
    async with chat_page(browser, shared_server.address, **phone) as page:
        await expect(page.composer).to_have_attribute("enterkeyhint", "enter")
        await page.composer.tap()
        await page.composer.press_sequentially("my name is")
        await page.composer.press("Enter")
        await page.composer.press_sequentially("Zorblax")
        await expect(page.composer).to_have_value("my name is\nZorblax")
        await page.by("send").tap()
        await page.ended()


async def test_a_message_that_is_too_long_is_told_before_it_is_sent(page: ChatPage) -> None:
    text = "äöü" * 60_000
    await page.composer.fill(text)
    await expect(page.by("too-long")).to_contain_text("A message has at most 256 kB; this has 352 kB.")
    await expect(page.by("send")).to_be_disabled()
    await page.composer.press("Enter")
    await expect(page.exchanges).to_have_count(0)
    await expect(page.composer).to_have_value(text)
    await page.composer.fill("äöü")
    await expect(page.by("too-long")).to_have_count(0)
    await page.composer.press("Enter")
    await page.ended()


async def paste(page: ChatPage, lines: int) -> None:
    await page.composer.focus()
    await page.tab.evaluate(
        """(lines) => {
          const data = new DataTransfer();
          data.setData("text/plain", Array.from({ length: lines }, (_, line) => `line ${line}`).join("\\n"));
          const paste = { clipboardData: data, bubbles: true, cancelable: true };
          document.activeElement.dispatchEvent(new ClipboardEvent("paste", paste));
        }""",
        lines,
    )


async def test_twenty_thousand_lines_can_be_pasted_and_written_on(page: ChatPage) -> None:
    await page.composer.fill("Sum this up:")
    await paste(page, 20_000)
    await expect(page.by("pasted")).to_contain_text("20,000 lines · 204 kB")
    await page.composer.press_sequentially(" and more")
    await expect(page.composer).to_have_value("Sum this up: and more")
    await page.tab.reload()
    await expect(page.by("pasted")).to_contain_text("20,000 lines")
    await page.composer.press("Enter")
    await page.ended()
    await expect(page.by("pasted")).to_have_count(0)
    await expect(page.by("message-user")).to_contain_text("Sum this up: and more")
    await expect(page.by("message-user")).to_contain_text("Show all 20,002 lines")


async def test_a_paste_beside_the_field_is_undone_and_brought_back(page: ChatPage) -> None:
    await page.composer.press_sequentially("Sum up:")
    await paste(page, 600)
    await page.composer.press_sequentially("!")
    await expect(page.by("pasted")).to_contain_text("600 lines")
    # First what was typed since.
    await page.composer.press("Control+z")
    await expect(page.composer).to_have_value("Sum up:")
    await expect(page.by("pasted")).to_be_visible()
    await page.composer.press("Control+z")
    await expect(page.by("pasted")).to_have_count(0)
    await expect(page.composer).to_have_value("Sum up:")

    await paste(page, 700)
    for back in (page.by("undo").click, lambda: page.composer.press("Control+z")):
        await page.by("pasted-remove").click()
        await expect(page.by("pasted")).to_have_count(0)
        await back()
        await expect(page.by("pasted")).to_contain_text("700 lines")
    await page.composer.fill("")
    await page.by("pasted-remove").click()
    await page.by("undo-notice").get_by_role("button", name="Dismiss").click()


TABLES = [
    # As spreadsheets give them: a cell of two lines is in quotation marks, one stands over two columns.
    (
        'Item\tPrice\r\n"black\ntea"\t2|50\r\nAll\t\r\n',
        "<style>td { color: red }</style><table><tr><td style='color: red'>Item<td>Price<tr><td>black<br>\n  tea"
        "<td>2|50<tr><td colspan=2>All</table>",
        "| Item | Price |\n| --- | --- |\n| black<br>tea | 2\\|50 |\n| All |  |",
    ),
    # As word processors do, with text around it; a table that has another only lays out.
    (
        "Prices\n\nItem\tPrice\nTea\t2\nMint\n\nThe end",
        "<table><tr><td><p>Prices<table><tr><th><p>Item</p><th><p>Price</p><tr><td>Tea<td rowspan=2>2<tr><td>Mint"
        "</table>The end</table>",
        "Prices\n\n| Item | Price |\n| --- | --- |\n| Tea | 2 |\n| Mint |  |\n\nThe end",
    ),
    ("one\ttwo", "<table><tr><td>one<td>two</table>", "one\ttwo"),
    ("| a | b |\n|---|---|\n| **1** | 2 |", "<table><tr><th>a<th>b<tr><td><b>1</b><td>2</table>", None),
]


async def test_pasted_tables_are_markdown(page: ChatPage) -> None:
    convert = "async ([text, html]) => (await import('/static/pasted-tables.js')).withTables(text, html)"
    for text, html, markdown in TABLES:
        assert await page.tab.evaluate(convert, [text, html]) == (text if markdown is None else markdown)


async def test_what_is_too_long_for_a_message_can_be_attached(page: ChatPage) -> None:
    await paste(page, 30_000)
    await expect(page.by("too-long")).to_contain_text("A message has at most 256 kB; this has")
    await expect(page.by("send")).to_be_disabled()
    await page.by("attach-long").click()
    await expect(page.by("too-long")).to_have_count(0)
    await expect(page.by("pasted")).to_have_count(0)
    await expect(page.tab.get_by_text("Pasted text.txt")).to_be_visible()
    await page.asked("what is in it?")
    await expect(page.by("message-user")).to_contain_text("Pasted text.txt")
