"""Panels of applications in the page: their places, what they are told, and what they may do."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Frame, expect
from support.chat_page import ChatPage, chat_page
from support.documents import DOCS, blocks
from support.page_panels import asked, frame_of, opened, panels_server, until
from support.running_server import FAST, RunningServer, running_server

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with panels_server(tmp_path_factory.mktemp("panels")) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> ChatPage:
    for button in await shared_page.by("close-panel").all():
        await button.click()
    await expect(shared_page.by("close-panel")).to_have_count(0)
    await shared_page.start_new_chat()
    return shared_page


async def heard(frame: Frame, method: str, count: int = 1) -> list[dict[str, Any]]:
    """The parameters of what the panel is told by this method, once it has been told so often."""
    found = f"heard.filter(({{ method }}) => method === '{method}')"
    await until(frame, f"{found}.length >= {count}")
    messages: list[dict[str, Any]] = await frame.evaluate(f"{found}.map(({{ params }}) => params)")
    return messages


async def acted(page: ChatPage, frame: Frame, task: str) -> Any:
    """What a task of the panel's comes to, which a person has begun in it by a click."""
    await frame.evaluate(f"() => {{ done = null; task = async () => {task}; }}")
    await page.tab.frame_locator(f'iframe[title="{await title_of(frame)}"]').locator("#act").click()
    await until(frame, "done")
    return await frame.evaluate("done")


async def title_of(frame: Frame) -> str:
    return await (await frame.frame_element()).get_attribute("title") or ""


SAY = {"name": "say", "arguments": {"parts": {"board": "a/b"}, "body": {"words": "hello"}}}


async def test_it_calls_its_application_as_the_person_and_hears_of_refusals(page: ChatPage) -> None:
    frame = await opened(page)
    answer = await asked(
        frame,
        "tools/call",
        SAY | {"arguments": {"parts": {"board": "b"}, "body": {"words": "hello"}, "query": {"loudly": "true"}}},
    )
    # A number that JavaScript does not have is as near as it can be.
    said = {"who": "developer", "board": "b", "words": "HELLO", "large": pytest.approx(2**60)}
    assert answer["result"]["structuredContent"] == said
    # A slash in a part is none of the server's paths.
    refused = await asked(frame, "tools/call", SAY)
    assert refused["result"]["isError"] and refused["result"]["structuredContent"]["error"]["code"] == "not_found"
    nonsense = await asked(
        frame, "tools/call", {"name": "say", "arguments": {"parts": {"board": "b"}, "body": {"words": "nonsense"}}}
    )
    assert nonsense["result"]["structuredContent"]["error"] == {
        "code": "forbidden",
        "content": "Not here.",
        "status": 403,
    }
    assert nonsense["result"]["content"] == [{"type": "text", "text": "Not here."}]
    page.provokes("404|403")


async def test_it_sends_a_file_that_the_person_has_chosen(page: ChatPage) -> None:
    frame = await opened(page)
    # The page that asks is of an opaque origin, and the file is one of a disk.
    chosen = page.tab.frame_locator('iframe[title="Board"]').locator("#file")
    await chosen.set_input_files({"name": "ä b.txt", "mimeType": "text/plain", "buffer": "Grüße".encode()})
    answer = await frame.evaluate(
        "request('tools/call', { name: 'pin', arguments: { parts: { board: 'b' }, "
        "upload: document.getElementById('file').files[0] } })"
    )
    pinned = {"who": "developer", "board": "b", "name": "ä b.txt", "text": "Grüße"}
    assert answer["result"]["structuredContent"] == pinned
    told = await frame.evaluate("opened")
    assert told["hostCapabilities"]["experimental"]["uploads"]["most_bytes"] > 0


async def test_a_person_approves_of_what_a_call_does(page: ChatPage) -> None:
    frame = await opened(page)
    page.provokes("409")
    given = "{ parts: { board: 'b' }, body: { words: 'all of it' } }"
    erase = f"request('tools/call', {{ name: 'erase', arguments: {given} }})"
    alone = await frame.evaluate(erase)
    assert alone["error"]["message"] == "A person has to begin this in the panel."
    dialog = page.tab.get_by_role("dialog").filter(has_text="Approve of this?")
    for button, answer in ("Cancel", "The person does not approve of it."), ("Approve", "erased"):
        asking = asyncio.create_task(acted(page, frame, erase))
        for words in ("Boards, Board: Approve of this?", "Erase the board", "all of it"):
            await expect(dialog).to_contain_text(words)
        await dialog.get_by_role("button", name=button).click()
        assert answer in str(await asking)


WRONG = [
    ("tools/call", {"name": "get_info"}, -32602),
    ("tools/call", {"name": "say", "arguments": {"parts": {"board": ".."}, "body": {"words": "a"}}}, -32602),
    ("tools/call", {"name": "say"}, -32602),
    ("resources/read", {"uri": "ui://boards"}, -32601),
    ("__proto__", {}, -32601),
    ("ui/open-link", {"url": "javascript:alert(1)"}, -32602),
    ("ui/message", {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}, -32602),
    ("agentic/decide", {"decisions": []}, -32602),
]


async def test_what_is_not_there_or_wrong_is_refused(page: ChatPage) -> None:
    frame = await opened(page)
    codes = [(await asked(frame, method, params))["error"]["code"] for method, params, _ in WRONG]
    assert codes == [code for _, _, code in WRONG]


async def test_it_is_told_of_theme_and_language_and_is_as_high_as_it_says(page: ChatPage) -> None:
    frame = await opened(page, "Small board")
    context = await frame.evaluate("context")
    assert (context["theme"], context["locale"], context["displayMode"]) == ("light", "en", "inline")
    assert "--color-text-primary" in context["styles"]["variables"]
    await expect(page.by("panel-sidebar").locator("iframe")).to_have_css("height", "123px")
    await page.tab.evaluate("document.documentElement.dataset.theme = 'dark'")
    changed = "ui/notifications/host-context-changed"
    await until(frame, f"heard.some(({{ method, params }}) => method === '{changed}' && params.theme === 'dark')")
    await page.tab.evaluate("delete document.documentElement.dataset.theme")


async def test_in_place_of_the_conversation_it_has_its_room_until_it_is_closed(page: ChatPage) -> None:
    await page.composer.fill("half a question")
    await opened(page, "Whole board")
    await expect(page.composer).to_have_count(0)
    await page.by("close-panel").click()
    await expect(page.composer).to_have_value("half a question")
    await page.composer.fill("")
    await opened(page)
    await page.by("close-panel").click()
    await expect(page.by("panel-menu")).to_be_focused()
    await expect(page.by("close-panel")).to_have_count(0)


async def test_a_part_is_shown_by_its_panel(page: ChatPage) -> None:
    await page.choose_agent("drawing-boards")
    await page.asked('use the tool draw with {"title": "a boat"}')
    await page.unfold()
    frame = await frame_of(page, "Drawing")
    [shown] = await heard(frame, "ui/notifications/tool-result")
    assert shown == {
        "content": [{"type": "text", "text": "A drawing of **a boat**."}],
        "structuredContent": {"title": "a boat"},
    }
    await expect(page.tab.get_by_text("A drawing of")).to_have_count(0)


async def test_a_link_opens_in_the_panel_that_it_names(page: ChatPage) -> None:
    await page.choose_agent("drawing-boards")
    await page.asked('use the tool point with {"words": "b7"}')
    await page.unfold()
    await page.by("tool-card").get_by_role("button").click()
    # Who does not see its panel is told the words.
    await expect(page.tab.locator(".chip", has_text="admins")).to_be_visible()
    chip = page.tab.locator("button.chip", has_text="b7")
    await chip.click()
    frame = await frame_of(page, "Board")
    assert await heard(frame, "agentic/notifications/link") == [{"data": {"words": "b7"}}]
    await chip.click()
    assert len(await heard(frame, "agentic/notifications/link", 2)) == 2
    await page.by("close-panel").click()
    await expect(chip).to_be_focused()
    # Whoever opens it otherwise is not led there again.
    frame = await opened(page)
    await asked(frame, "ping")
    assert await frame.evaluate("heard.filter(({ method }) => method.includes('link'))") == []


ASK = "request('ui/message', { role: 'user', content: [{ type: 'text', text: 'hello from the board' }] })"


async def test_it_asks_when_a_person_begins_it_and_follows_the_conversation(page: ChatPage) -> None:
    frame = await opened(page)
    await asked(frame, "agentic/follow")
    assert await heard(frame, "agentic/notifications/session") == [{"session_id": None}]
    await page.composer.focus()
    refused = (await frame.evaluate(ASK))["error"]
    assert refused["message"] == "A person has to begin this in the panel."
    await expect(page.places).to_have_count(0)
    assert (await acted(page, frame, ASK))["result"] == {}
    await page.ended()
    await until(frame, "heard.some(({ params }) => params.type === 'final')")
    [_, session] = await heard(frame, "agentic/notifications/session", 2)
    assert session["session_id"] == page.session_id
    events = await heard(frame, "agentic/notifications/event")
    assert {event["session_id"] for event in events} == {page.session_id}
    assert (await page.shown())[0] == ("asked", "hello from the board")


async def test_one_that_may_not_ask_follow_or_decide_is_refused(page: ChatPage) -> None:
    frame = await opened(page, "Small board")
    message = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    for method, params in (("ui/message", message), ("agentic/follow", {}), ("agentic/decide", {"decisions": [{}]})):
        assert "may not" in (await asked(frame, method, params))["error"]["message"]


DECIDE = """(async () => {
  const { params: { payload } } = heard.findLast(({ params }) => params.type === 'awaiting_human');
  const decisions = payload.requests.map(({ interrupt_id, call_id }) => ({
    interrupt_id, call_id, action: 'ACTION', message: 'words for the model',
  }));
  return request('agentic/decide', { decisions });
})()"""


@pytest.mark.parametrize(
    ("agent", "answer", "shown"),
    [
        ("transfer", "yes", ("Shall I do it?", "Transfer $500 to Bob", '"iban": "DE02"', 'Answer: "yes"')),
        ("size", "l", ("Which size?", "Answer: Large")),
    ],
)
async def test_a_person_sees_what_it_answers_and_to_what(
    page: ChatPage, agent: str, answer: str, shown: tuple[str, ...]
) -> None:
    frame = await opened(page)
    await asked(frame, "agentic/follow")
    await page.choose_agent(agent)
    await page.ask("go")
    await until(frame, f"heard.some(({{ params }}) => params.type === 'awaiting_human' && '{agent}')")
    payload = "heard.findLast(({ params }) => params.type === 'awaiting_human').params.payload"
    given = f"{{ interrupt_id: {payload}.requests[0].interrupt_id, action: 'answer', answer: '{answer}' }}"
    deciding = asyncio.create_task(acted(page, frame, f"request('agentic/decide', {{ decisions: [{given}] }})"))
    dialog = page.by("confirm-dialog")
    for words in shown:
        await expect(dialog).to_contain_text(words)
    await page.by("confirm").click()
    assert (await deciding)["result"] == {}
    await page.ended()


async def test_a_person_sees_what_it_decides_before_it_counts(page: ChatPage) -> None:
    frame = await opened(page)
    await asked(frame, "agentic/follow")
    await page.choose_agent("approving")
    await page.ask('send_email {"to": "ann@example.org"}')
    await until(frame, "heard.some(({ params }) => params.type === 'awaiting_human')")
    for wrong in ("edit everything", "edit"):
        assert "error" in await acted(page, frame, DECIDE.replace("ACTION", wrong))
    deciding = asyncio.create_task(acted(page, frame, DECIDE.replace("ACTION", "reject")))
    dialog = page.by("confirm-dialog")
    # Nobody has read it yet.
    await expect(page.by("confirm")).to_be_disabled()
    for shown in ("Boards, Board: Decide this?", '"to": "ann@example.org"', "words for the model"):
        await expect(dialog).to_contain_text(shown)
    await expect(dialog).not_to_contain_text("\\u")
    await page.by("cancel").click()
    assert (await deciding)["error"]["message"] == "The person does not decide so."
    # The click on the page's own button has begun nothing.
    again = await frame.evaluate(DECIDE.replace("ACTION", "reject"))
    assert again["error"]["message"] == "A person has to begin this in the panel."
    await expect(page.exchanges.last).to_have_attribute("data-status", "awaiting_human")
    deciding = asyncio.create_task(acted(page, frame, DECIDE.replace("ACTION", "reject")))
    await page.by("confirm").click()
    assert (await deciding)["result"] == {}
    await page.ended()


async def test_a_person_sees_where_a_link_leads_before_it_is_opened(page: ChatPage) -> None:
    frame = await opened(page)
    opening = asyncio.create_task(acted(page, frame, "request('ui/open-link', { url: 'http://example.org/a' })"))
    await expect(page.by("confirm-dialog")).to_contain_text("http://example.org/a")
    await page.by("cancel").click()
    assert (await opening)["error"]["message"] == "The person does not open it."


async def test_what_it_asks_leaves_what_is_written_alone(page: ChatPage) -> None:
    frame = await opened(page)
    await page.composer.fill("half a question")
    await page.tab.locator("input[type=file]").set_input_files(
        {"name": "secret.txt", "mimeType": "text/plain", "buffer": b"a secret"}
    )
    attached = page.tab.get_by_text("secret.txt")
    await expect(attached).to_be_visible()
    assert (await acted(page, frame, ASK))["result"] == {}
    await page.ended()
    await expect(page.composer).to_have_value("half a question")
    await expect(attached).to_have_count(1)
    await page.composer.fill("")
    await page.tab.get_by_role("button", name="Remove secret.txt").click()


async def test_whoever_opens_a_conversation_sees_it_instead_of_the_panel(page: ChatPage) -> None:
    await opened(page, "Whole board")
    await page.by("new-chat").click()
    await expect(page.by("panel-instead")).to_have_count(0)
    await expect(page.composer).to_be_focused()


async def test_on_a_narrow_screen_it_is_alone_until_escape(page: ChatPage) -> None:
    await page.tab.set_viewport_size({"width": 390, "height": 800})
    frame = await opened(page)
    await expect(page.by("close-panel")).to_be_focused()
    await page.tab.keyboard.press("Tab")
    await until(frame, "document.activeElement.id === 'act'")
    await page.tab.keyboard.press("Escape")
    await expect(page.by("panel-beside")).to_have_count(0)
    await expect(page.by("panel-menu")).to_be_focused()
    await page.tab.set_viewport_size({"width": 1280, "height": 720})


async def test_the_pages_keys_work_in_it_unless_somebody_types(page: ChatPage) -> None:
    await opened(page)
    inside = page.tab.frame_locator('iframe[title="Board"]')
    await inside.locator("#note").press("/")
    await expect(inside.locator("#note")).to_have_value("/")
    await inside.locator("#act").press("/")
    await expect(page.composer).to_be_focused()


async def test_a_page_without_panels_loads_nothing_of_theirs(browser: Browser, tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, chat_page(browser, server.address) as page:
        await page.asked("hello")
        loaded = await page.tab.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
        assert [name for name in loaded if "panel" in name or "frame" in name] == [] != loaded


async def test_the_panel_of_the_documentation_writes_and_asks(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [module] = [block.text for block in blocks(DOCS / "applications.md") if "class HouseBoard" in block.text]
    [document] = [block.text for block in blocks(DOCS / "applications.md") if block.language == "html"]
    (tmp_path / "server").mkdir()
    (tmp_path / "house_board.py").write_text(module)
    (tmp_path / "house_board.html").write_text(document)
    monkeypatch.syspath_prepend(tmp_path)
    settings = {**FAST, "applications": [{"class_path": "house_board:HouseBoard"}]}
    async with (
        running_server(tmp_path / "server", settings=settings) as server,
        chat_page(browser, server.address) as page,
    ):
        await page.by("panel-menu").click()
        await page.by("panel").click()
        inside = page.tab.frame_locator('iframe[title="Board"]')
        await inside.get_by_label("A line").fill("Tea is out.")
        await inside.get_by_role("button", name="Write").click()
        await expect(inside.locator("li")).to_have_text("developer: Tea is out.")
        await inside.get_by_role("button", name="Ask about it").click()
        await page.ended()
        assert (await page.shown())[0] == ("asked", "What do you make of this? developer: Tea is out.")
    sys.modules.pop("house_board", None)
