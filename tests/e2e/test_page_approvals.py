"""The chat page where an agent asks a person: cards to decide on, in any order, in any tab, after any interruption."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from playwright.async_api import Browser, Locator, WebSocketRoute, expect
from support.approval_agents import ENTRIES, WHY, calls, runs, write_catalog
from support.chat_page import ChatPage, chat_page, new_chat_in, shown_of
from support.hostile_modules import entry
from support.ports import free_port
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server
from support.server_process import serving

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

NETWORK_ERRORS = r"net::ERR_|WebSocket connection to"
EMAIL = ("send_email", {"to": "ann@example.org", "body": "Hello Ann"})
FILE = ("delete_file", {"path": "/tmp/old"})
SENT = ("send_email", EMAIL[1] | {"copies": 1})
CLICK_AS_A_REPLAY_BEGINS = """
  const { get, set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
  const button = () => document.querySelector("[data-testid=approve]");
  window.clicks = 0;
  let before = Promise.resolve();
  const heardInOrder = (hear) => (event) => {
    before = before.then(async () => {
      const begins = JSON.parse(event.data).type === "started";
      while (begins && !button()) await new Promise((resolve) => setTimeout(resolve, 10));
      hear(event);
      // The page has heard it, and not shown it yet.
      if (begins) button().click(), window.clicks++;
    });
  };
  Object.defineProperty(WebSocket.prototype, "onmessage", {
    get,
    set(hear) { set.call(this, hear && heardInOrder(hear)); },
  });
"""
HOLD_WHAT_IS_SENT = """() => {
  const { send } = WebSocket.prototype;
  const held = [];
  WebSocket.prototype.send = function (frame) { held.push(() => send.call(this, frame)); };
  window.sendWhatIsHeld = () => { WebSocket.prototype.send = send; held.forEach((sendIt) => sendIt()); };
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path_factory.mktemp("server"), agents=ENTRIES) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage, notes: Path) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page) as page:
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def own_page(browser: Browser, tmp_path: Path, notes: Path) -> AsyncIterator[ChatPage]:
    """For tests that change the page, or look at the list of conversations."""
    async with running_server(tmp_path, agents=ENTRIES) as server, chat_page(browser, server.address) as page:
        yield page


def cards(page: ChatPage, state: str = "open") -> Locator:
    return page.by("approval").and_(page.tab.locator(f"[data-state={state}]"))


async def ask(page: ChatPage, agent: str, text: str, *, waiting: int = 1) -> None:
    """Ask a new session, until so many cards wait."""
    await page.choose_agent(agent)
    await page.ask(text)
    await expect(cards(page)).to_have_count(waiting)


THREE_DAYS_AHEAD = """
const { now } = Date;
Date = class extends Date {
  static now = () => now() + 3 * 86_400_000;
  constructor(...given) {
    super(...(given.length ? given : [Date.now()]));
  }
};
"""


async def test_the_clock_of_the_browser_decides_neither_what_is_expired_nor_what_was_today(page: ChatPage) -> None:
    await ask(page, "approving", calls(EMAIL))
    tab = await page.tab.context.new_page()
    await tab.add_init_script(THREE_DAYS_AHEAD)
    await tab.goto(page.tab.url)
    await expect(tab.get_by_test_id("approval-expiry")).to_have_text(re.compile(r"Expires in \d+ "))
    await expect(tab.get_by_test_id("session-list").get_by_role("heading").first).to_have_text("Today")
    await cards(page).get_by_test_id("approve").click()
    await page.ended()


async def test_a_call_runs_once_it_is_approved(page: ChatPage, notes: Path) -> None:
    await ask(page, "approving", calls(EMAIL))
    card = cards(page)
    await expect(card).to_have_role("group")
    await expect(card).to_have_accessible_name("send_email needs your approval")
    await expect(card.get_by_test_id("approval-question")).to_have_text(WHY)
    await expect(card.locator("dt")).to_have_text(["to", "body"])
    await expect(card.locator("dd pre")).to_have_text(["ann@example.org", "Hello Ann"])
    await expect(card.get_by_test_id("approval-expiry")).to_have_text(re.compile(r"Expires in \d+ "))
    await expect(page.by("tool-card")).to_have_count(0)
    assert runs(notes) == []

    await card.get_by_test_id("approve").click()
    await page.ended()
    await expect(page.answers).to_contain_text("sent to ann@example.org")
    await page.unfold()
    await expect(page.by("decision")).to_have_text("Approved")
    await expect(page.by("approval")).to_have_count(0)
    assert runs(notes) == [SENT]


async def test_a_call_is_asked_about_with_its_title_as_text_and_with_its_name(page: ChatPage, notes: Path) -> None:
    await ask(page, "approving", calls(FILE))
    await expect(cards(page)).to_have_accessible_name("<b>Look\\u{202e} only delete_file needs your approval")
    await expect(cards(page).locator("h3 code")).to_have_text("delete_file")
    await cards(page).get_by_test_id("approve").click()
    await page.ended()
    await page.unfold()
    await expect(page.by("tool-card").locator(".tool-name")).to_have_text("<b>Look\\u{202e} only")
    assert [name for name, _ in runs(notes)] == ["delete_file"]


async def test_a_rejected_call_does_not_run_and_the_agent_is_told_why(page: ChatPage, notes: Path) -> None:
    await ask(page, "approving", calls(EMAIL))
    await cards(page).get_by_test_id("reject").click()
    await expect(page.by("reject-message")).to_be_focused()
    await page.by("reject-message").fill("write to Bob")
    await page.by("confirm-reject").click()
    await page.ended()
    await page.unfold()
    await expect(page.by("tool-result")).to_contain_text("write to Bob")
    await expect(page.by("decision")).to_have_text("Rejected")
    assert runs(notes) == []


async def test_escape_closes_a_form_and_leaves_what_waits(page: ChatPage, notes: Path) -> None:
    await ask(page, "approving", calls(EMAIL, EMAIL), waiting=2)
    card = cards(page).first
    for form in ("edit", "edit-as-json", "reject", "reject-all"):
        opener = page.by(form) if form == "reject-all" else card.get_by_test_id(form.removesuffix("-as-json"))
        await opener.click()
        if form == "edit-as-json":
            await page.by(form).click()
        fields = page.tab.locator(".decision-form :is(input, textarea)")
        await expect(fields.first).to_be_focused()
        # Wherever in the form the focus is.
        await page.tab.keyboard.press("Tab")
        await expect(fields.first).not_to_be_focused()
        await page.tab.keyboard.press("Escape")
        await expect(fields).to_have_count(0)
        await expect(opener).to_be_focused()

        # Nor does it end the exchange from anywhere else.
        for place in (opener, card, page.composer, page.by("new-chat")):
            await place.focus()
            await page.tab.keyboard.press("Escape")
        await expect(cards(page)).to_have_count(2)
    for _ in range(2):
        await cards(page).first.get_by_test_id("approve").click()
    await page.ended()
    assert runs(notes) == [SENT, SENT]


async def test_arguments_can_be_edited_and_nothing_that_is_no_object_is_sent(page: ChatPage, notes: Path) -> None:
    await ask(page, "approving", calls(("send_email", {"to": "ann@example.org", "copies": 9007199254740993})))
    card = cards(page)
    await expect(card.locator("dd pre")).to_have_text(["ann@example.org", "9007199254740993"])
    await card.get_by_test_id("edit").click()
    await page.by("edit-as-json").click()
    field = page.by("edit-args")
    await expect(field).to_be_focused()
    await expect(field).to_have_value(re.compile("9007199254740993"))
    for wrong, words in (('{"to": ', "not JSON"), ("[1]", "JSON object"), ("12345678901234567890", "JSON object")):
        await field.fill(wrong)
        await expect(page.by("edit-problem")).to_contain_text(words)
        await expect(page.by("confirm-edit")).to_be_disabled()
    await field.fill('{"to": "bob@example.org", "copies": 9007199254740995}')
    await page.by("confirm-edit").click()
    await page.ended()
    await page.unfold()
    await expect(page.by("decision")).to_have_text("Approved with changes")
    await page.by("tool-card").get_by_role("button").click()
    await expect(page.by("edited-args")).to_contain_text("bob@example.org")
    assert runs(notes) == [("send_email", {"to": "bob@example.org", "body": "", "copies": 9007199254740995})]


async def test_an_edit_that_the_tool_would_not_take_comes_back_as_it_was_written(page: ChatPage, notes: Path) -> None:
    await ask(page, "approving", calls(EMAIL))
    await cards(page).get_by_test_id("edit").click()
    await page.by("edit-as-json").click()
    written = '{"to": "bob@example.org", "copies": "many"}'
    await page.by("edit-args").fill(written)
    await page.by("confirm-edit").click()
    await expect(page.by("approval-refused")).to_contain_text("copies")
    await expect(page.by("edit-args")).to_have_value(written)
    await page.by("edit-args").fill(written.replace('"many"', "2"))
    await page.by("confirm-edit").click()
    await page.ended()
    assert runs(notes) == [("send_email", {"to": "bob@example.org", "body": "", "copies": 2})]


@pytest.mark.parametrize("count", [1, 2])
async def test_a_reason_that_a_module_blocks_comes_back_with_what_it_says(
    browser: Browser, tmp_path: Path, notes: Path, count: int
) -> None:
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [entry(settings={"before": "block_word"})]}))
    settings = {"modules": {"file": str(file)}}
    async with (
        running_server(tmp_path, agents=ENTRIES, settings=settings) as server,
        chat_page(browser, server.address) as page,
    ):
        await ask(page, "approving", calls(*[EMAIL] * count), waiting=count)
        await page.by("reject" if count == 1 else "reject-all").click()
        await page.by("reject-message").fill("my secret")
        await page.by("confirm-reject").click()
        await expect(page.by("approval-refused")).to_have_text(["That is not said here."] * count)
        await expect(page.by("reject-message")).to_have_value("my secret")
        await page.by("reject-message").fill("not now")
        await page.by("confirm-reject").click()
        await page.ended()
        assert runs(notes) == []


async def test_long_arguments_are_folded_and_shown_to_the_last_sign(page: ChatPage) -> None:
    body = "\n".join(f"line {number}" for number in range(60)) + "\u202e\u200b"
    await ask(page, "approving", calls(("send_email", {"to": "", "body": body})))
    values = cards(page).locator("dd pre")
    await expect(values.first).to_have_text('""')
    await expect(values.last).to_have_text(body[:-2] + r"\u{202e}\u{200b}", use_inner_text=False)
    folded = await values.last.bounding_box()
    await cards(page).get_by_role("button", name=re.compile("Show all")).click()
    await expect(cards(page).get_by_role("button", name="Show less")).to_be_visible()
    unfolded = await values.last.bounding_box()
    assert folded is not None and unfolded is not None
    assert folded["height"] < 200 < unfolded["height"]


async def test_a_question_is_answered_by_one_of_its_choices(page: ChatPage) -> None:
    await ask(page, "choosing", "where?")
    await expect(cards(page)).to_have_accessible_name("A fork in the road")
    await expect(page.by("approval-question")).to_have_text("Which way?")
    await expect(page.by("choice")).to_have_text(["Leftalong the river", "Rightthrough the hills"])
    await page.by("choice").last.click()
    await page.ended()
    await expect(page.answers).to_have_text(re.compile("You went r."))
    await expect(cards(page, "settled")).to_contain_text("Right")


async def test_a_question_without_choices_is_answered_in_words(page: ChatPage) -> None:
    await ask(page, "inquiring", "hello")
    await expect(page.by("send-answer")).to_be_disabled()
    await page.by("answer").fill("Zorblax")
    await page.by("answer").press("Enter")
    await page.ended()
    await expect(page.answers).to_contain_text("Hello Zorblax.")
    await expect(cards(page, "settled")).to_contain_text("Zorblax")


async def test_several_calls_are_decided_one_by_one(page: ChatPage, notes: Path) -> None:
    await ask(page, "approving", calls(EMAIL, FILE), waiting=2)
    await expect(cards(page).last.get_by_test_id("edit")).to_have_count(0)
    await cards(page).last.get_by_test_id("approve").click()
    await expect(cards(page)).to_have_count(1)
    await page.unfold()
    await expect(page.by("decision")).to_have_text("Approved")
    await expect(page.by("approve-all")).to_have_count(0)
    await page.ended("awaiting_human")
    assert runs(notes) == []

    await cards(page).get_by_test_id("reject").click()
    await page.by("confirm-reject").click()
    await page.ended()
    await page.unfold()
    await expect(page.by("decision")).to_have_text(["Rejected", "Approved"])
    assert runs(notes) == [FILE]


async def test_several_calls_are_approved_at_once(page: ChatPage, notes: Path) -> None:
    await ask(page, "approving", calls(EMAIL, FILE), waiting=2)
    await page.by("approve-all").click()
    await page.ended()
    await page.unfold()
    await expect(page.by("decision")).to_have_text(["Approved", "Approved"])
    assert sorted(runs(notes)) == [FILE, SENT]


async def test_several_calls_are_rejected_at_once_for_one_reason(page: ChatPage, notes: Path) -> None:
    await ask(page, "approving", calls(EMAIL, FILE), waiting=2)
    await page.by("reject-all").click()
    await page.by("reject-message").fill("not today")
    await page.by("confirm-reject").click()
    await page.ended()
    await page.unfold()
    await expect(page.by("decision")).to_have_text(["Rejected", "Rejected"])
    assert runs(notes) == []


async def test_arguments_are_edited_in_the_form_of_their_schema(page: ChatPage, notes: Path) -> None:
    await ask(page, "approving", calls(("send_email", {"to": "ann@example.org", "copies": 9007199254740993})))
    card = cards(page)
    await card.get_by_test_id("edit").click()
    await expect(card.get_by_label("Copies")).to_have_value("9007199254740993")
    await card.get_by_label("Copies").fill("many")
    await card.get_by_test_id("send-answer").click()
    await expect(card.get_by_test_id("answer-problem")).to_have_text("This must be a whole number.")
    await card.get_by_label("Copies").fill("9007199254740995")
    await card.get_by_test_id("edit-as-json").click()
    await expect(page.by("edit-args")).to_have_value(re.compile("9007199254740995"))
    await page.by("confirm-edit").click()
    await page.ended()
    assert runs(notes) == [("send_email", {"to": "ann@example.org", "body": "", "copies": 9007199254740995})]


async def test_decisions_made_in_a_row_all_count(page: ChatPage, notes: Path) -> None:
    several = [("delete_file", {"path": f"/tmp/{number}"}) for number in range(5)]
    await ask(page, "approving", calls(*several), waiting=5)
    for _ in several:
        await cards(page).first.get_by_test_id("approve").click()
    await page.ended()
    assert sorted(runs(notes), key=str) == several


async def test_a_refused_decision_brings_its_card_back_with_the_words_of_the_server(
    browser: Browser, shared_server: RunningServer, notes: Path
) -> None:
    async with chat_page(browser, shared_server.address) as page:
        is_tampering = True

        def relay(route: WebSocketRoute) -> None:
            to_server = route.connect_to_server()

            def pass_on(frame: str | bytes) -> None:
                pattern = r'"args_sha256":"[0-9a-f]{64}"'
                wrong = f'"args_sha256":"{"0" * 64}"'
                to_server.send(re.sub(pattern, wrong, str(frame)) if is_tampering else frame)

            route.on_message(pass_on)

        await page.tab.route_web_socket("**/ws", relay)
        await page.tab.reload()
        await ask(page, "approving", calls(EMAIL))
        await cards(page).get_by_test_id("approve").click()
        await expect(page.by("approval-refused")).to_have_text("The arguments are not those that were shown.")
        await expect(cards(page)).to_be_focused()
        assert runs(notes) == []

        is_tampering = False
        await cards(page).get_by_test_id("approve").click()
        await page.ended()
        assert runs(notes) == [SENT]


async def test_what_one_tab_decides_the_other_sees(own_page: ChatPage, notes: Path) -> None:
    await ask(own_page, "approving", calls(EMAIL, FILE), waiting=2)
    other = await own_page.another_tab(f"#s={own_page.session_id}")
    await expect(cards(other)).to_have_count(2)
    await cards(other).first.get_by_test_id("reject").click()
    await other.by("confirm-reject").click()
    await expect(cards(own_page)).to_have_count(1)
    await own_page.unfold()
    await expect(own_page.by("decision")).to_have_text("Rejected")
    await cards(own_page).get_by_test_id("approve").click()
    for tab in (own_page, other):
        await tab.ended()
        await tab.unfold()
        await expect(tab.by("decision")).to_have_text(["Rejected", "Approved"])
    assert runs(notes) == [FILE]


async def test_what_waits_is_there_again_after_a_reload(
    page: ChatPage, shared_server: RunningServer, notes: Path
) -> None:
    await ask(page, "approving", calls(EMAIL, FILE), waiting=2)
    await cards(page).first.get_by_test_id("approve").click()
    await expect(cards(page)).to_have_count(1)
    # Shown at once, but a page that goes before it is sent takes it along.
    await page.unfold()
    await expect(page.by("decision")).to_have_text("Approved")
    await page.tab.reload()
    await page.ended("awaiting_human")
    await expect(cards(page)).to_have_count(1)
    await page.unfold()
    await expect(page.by("decision")).to_have_text("Approved")
    await cards(page).get_by_test_id("approve").click()
    await page.ended()
    assert sorted(runs(notes)) == [FILE, SENT]
    async with rest(shared_server) as client:
        assert await page.shown() == shown_of(await messages_of(client, page.session_id))


async def test_what_waits_can_be_decided_after_a_restart_of_the_server(
    browser: Browser, tmp_path: Path, notes: Path
) -> None:
    write_catalog(tmp_path)
    port = free_port()
    async with serving("--port", port, cwd=tmp_path) as first, chat_page(browser, first.address) as page:
        page.provokes(NETWORK_ERRORS)
        await ask(page, "approving", calls(EMAIL, FILE), waiting=2)
        await cards(page).first.get_by_test_id("approve").click()
        await expect(cards(page)).to_have_count(1)
        await first.stop()
        await cards(page).get_by_test_id("approve").click()
        await expect(cards(page, "sent")).to_have_count(1)
        async with serving("--port", port, cwd=tmp_path):
            await page.ended()
            await page.unfold()
            await expect(page.by("decision")).to_have_text(["Approved", "Approved"])
    assert sorted(runs(notes)) == [FILE, SENT]


async def test_stop_ends_what_waits_and_the_next_ask_works(page: ChatPage, notes: Path) -> None:
    await ask(page, "approving", calls(EMAIL))
    await expect(page.by("composer-hint")).to_contain_text("waits for your decision")
    await page.ask("something else")
    await expect(page.by("queued-text")).to_have_text("something else")
    await expect(page.exchanges).to_have_count(1)

    await page.by("stop").click()
    await page.ended("stopped")
    # It waited for an answer that has not ended well.
    await expect(page.by("queued-send")).to_be_visible()
    await page.by("queued-remove").click()
    await expect(page.by("approval")).to_have_count(0)
    await page.unfold()
    await expect(page.by("tool-card")).to_have_attribute("data-state", "failed")
    await expect(page.by("composer-hint")).to_have_count(0)
    await page.ask(calls(FILE))
    await cards(page).get_by_test_id("approve").click()
    await page.ended(exchanges=2)
    assert runs(notes) == [FILE]


async def test_cards_need_no_mouse_and_take_the_focus_of_nobody_who_writes(own_page: ChatPage, notes: Path) -> None:
    keyboard = own_page.tab.keyboard
    await ask(own_page, "approving", calls(EMAIL, FILE), waiting=2)
    await expect(cards(own_page).first).to_be_focused()
    await keyboard.press("Tab")
    await expect(cards(own_page).first.get_by_test_id("approve")).to_be_focused()
    await keyboard.press("Enter")
    await expect(cards(own_page)).to_have_count(1)
    await expect(cards(own_page)).to_be_focused()
    await keyboard.press("Tab")
    await keyboard.press("Enter")
    await own_page.ended()
    await expect(own_page.composer).to_be_focused()

    await own_page.tab.evaluate(HOLD_WHAT_IS_SENT)
    await keyboard.type(calls(EMAIL))
    await keyboard.press("Enter")
    await keyboard.type("and then")
    # Not before: a card that is shown sooner would rightly take the focus of the empty composer.
    await own_page.tab.evaluate("sendWhatIsHeld()")
    await expect(cards(own_page)).to_have_count(1)
    await keyboard.type(" more")
    await expect(own_page.composer).to_have_value("and then more")
    await own_page.by("composer-hint").get_by_role("button").click()
    await expect(cards(own_page)).to_be_focused()


async def test_what_is_written_in_a_card_outlasts_the_decision_on_another(page: ChatPage) -> None:
    await ask(page, "approving", calls(EMAIL, FILE), waiting=2)
    await cards(page).last.get_by_test_id("reject").click()
    await page.by("reject-message").fill("keep it")
    await cards(page).first.get_by_test_id("approve").click()
    await expect(page.by("run-head")).to_contain_text("Used 1 tool")
    await expect(page.by("reject-message")).to_have_value("keep it")
    await page.by("confirm-reject").click()
    await page.ended()


async def test_the_list_marks_what_waits_for_its_user(own_page: ChatPage) -> None:
    await ask(own_page, "approving", calls(EMAIL))
    mark = own_page.by("session-item").get_by_role("img", name="Waits for you")
    await expect(mark).to_be_visible()
    await own_page.start_new_chat()
    await expect(mark).to_be_visible()
    await own_page.tab.reload()
    await expect(mark).to_be_visible()
    await own_page.by("session-item").get_by_role("link").click()
    await cards(own_page).get_by_test_id("approve").click()
    await own_page.ended()
    await expect(mark).to_have_count(0)


async def test_a_click_at_the_moment_of_a_replay_counts(own_page: ChatPage) -> None:
    await ask(own_page, "approving", calls(EMAIL))
    await own_page.start_new_chat()
    await own_page.tab.add_init_script(CLICK_AS_A_REPLAY_BEGINS)
    await own_page.tab.reload()
    await own_page.by("session-item").get_by_role("link").click()
    await own_page.ended()
    assert await own_page.tab.evaluate("window.clicks") == 1


async def test_no_decision_is_sent_twice(own_page: ChatPage) -> None:
    frames: list[dict[str, Any]] = []
    own_page.tab.on("websocket", lambda socket: socket.on("framesent", lambda frame: frames.append(json.loads(frame))))
    await own_page.tab.reload()
    await ask(own_page, "approving", calls(EMAIL))
    await cards(own_page).get_by_test_id("approve").dblclick()
    await own_page.ended()
    assert [frame["type"] for frame in frames].count("human_resume") == 1
