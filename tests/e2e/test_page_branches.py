"""The chat page: asking again and editing make branches, between whose variants the user turns; none is ever lost."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, WebSocketRoute, expect
from support.chat_page import ChatPage, new_chat_in
from support.paced_agent import Pace
from support.recorded_agents import eventually
from support.rest_client import rest
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page) as page:
        yield page


HOSTILE = "<img src=x onerror=alert(1)> **not bold** ‮ [a](javascript:alert(1))"


async def edit(page: ChatPage, place: int, text: str, *, key: str = "Enter") -> None:
    """Write `text` in the place of the question with this number, and press the key."""
    await page.exchanges.nth(place).hover()
    await page.exchanges.nth(place).get_by_test_id("edit-question").click()
    await expect(page.by("edited-question")).to_be_focused()
    await page.by("edited-question").fill(text)
    await page.by("edited-question").press(key)


def place_of(page: ChatPage, exchange: int) -> Locator:
    return page.exchanges.nth(exchange).get_by_test_id("variant-place")


async def focused(page: ChatPage) -> str | None:
    """The test id of what has the focus; None: nothing has it."""
    found: str | None = await page.tab.evaluate(
        "document.activeElement === document.body ? null : document.activeElement.dataset.testid ?? ''"
    )
    return found


async def family(server: RunningServer, session_id: str) -> list[dict[str, Any]]:
    async with rest(server) as http:
        found: list[dict[str, Any]] = (await http.get(f"/sessions/{session_id}/branches")).json()["branches"]
        return found


async def test_an_edited_question_is_asked_in_a_branch_and_the_old_one_stays(
    page: ChatPage, shared_server: RunningServer
) -> None:
    await page.choose_agent("echo")
    for text in ("one", "two", "three"):
        await page.asked(text)
    root = page.session_id
    for answer, text in enumerate(("one", "two", "three")):
        await expect(page.answers.nth(answer)).to_contain_text(f"echo: {text}")
    before = await page.shown()
    await edit(page, 1, "another")
    await page.ended(exchanges=2)
    await expect(page.answers.last).to_contain_text("echo: another")
    assert page.session_id != root
    shown = await page.shown()
    assert shown[:2] == before[:2] and shown[2] == ("asked", "another")
    await expect(place_of(page, 1)).to_have_text("2/2")
    await expect(place_of(page, 0)).to_have_count(0)
    await expect(page.composer).to_be_focused()

    await page.by("previous-variant").click()
    await page.ended(exchanges=3)
    assert page.session_id == root and await page.shown() == before
    await expect(place_of(page, 1)).to_have_text("1/2")
    assert await focused(page) == "previous-variant"
    await page.tab.keyboard.press("ArrowRight")
    await expect(place_of(page, 1)).to_have_text("2/2")
    await page.ended(exchanges=2)
    assert await focused(page) == "next-variant" and await page.shown() == shown
    await expect(page.by("next-variant")).to_have_accessible_name("Next variant, Variant 2 of 2")

    await page.asked("more")
    branch = page.session_id
    await page.tab.reload()
    await page.ended(exchanges=3)
    assert page.session_id == branch
    await expect(place_of(page, 1)).to_have_text("2/2")
    await page.tab.go_back()
    await page.ended(exchanges=3)
    assert len(await family(shared_server, root)) == 2


async def test_an_answer_is_regenerated_as_often_as_one_likes(page: ChatPage, shared_server: RunningServer) -> None:
    await page.choose_agent("echo")
    await page.asked("one")
    root = page.session_id
    await page.asked("two")
    for number in (2, 3):
        await page.exchanges.nth(0).get_by_test_id("regenerate").click()
        await expect(place_of(page, 0)).to_have_text(f"{number}/{number}")
        await page.ended(exchanges=1)
        await expect(page.by("message-user")).to_contain_text("one")
    found = await family(shared_server, root)
    assert [one.get("parent") for one in found[1:]] == [{"session_id": root, "rank": 0}] * 2
    await page.asked("two in the third")
    await page.exchanges.nth(1).get_by_test_id("regenerate").click()
    await page.ended(exchanges=2)
    await expect(place_of(page, 0)).to_have_text("3/3")
    await expect(place_of(page, 1)).to_have_text("2/2")
    # Turning away and back shows what was used last of the third variant.
    last = page.session_id
    await page.exchanges.nth(0).get_by_test_id("previous-variant").click()
    await expect(place_of(page, 0)).to_have_text("2/3")
    await page.exchanges.nth(0).get_by_test_id("next-variant").click()
    await page.ended(exchanges=2)
    assert page.session_id == last
    await page.exchanges.nth(1).get_by_test_id("previous-variant").click()
    await expect(place_of(page, 1)).to_have_text("1/2")
    await page.exchanges.nth(0).get_by_test_id("previous-variant").click()
    await page.exchanges.nth(0).get_by_test_id("previous-variant").click()
    await page.ended(exchanges=2)
    assert page.session_id == root and (await page.shown())[2] == ("asked", "two")
    await expect(page.exchanges.nth(0).get_by_test_id("previous-variant")).to_have_attribute("aria-disabled", "true")


async def test_an_edit_can_be_given_up_and_needs_a_text(page: ChatPage, shared_server: RunningServer) -> None:
    await page.choose_agent("echo")
    await page.asked("one")
    root = page.session_id
    await edit(page, 0, "something else", key="Escape")
    await expect(page.by("question-editor")).to_have_count(0)
    assert await focused(page) == "edit-question"
    await page.tab.keyboard.press("Enter")
    await expect(page.by("edited-question")).to_have_value("one")
    await page.by("edited-question").fill("  ")
    await page.by("edited-question").press("Enter")
    await expect(page.by("question-editor")).to_be_visible()
    await page.by("edited-question").fill("line")
    await page.by("edited-question").press("Shift+Enter")
    await page.by("edited-question").press_sequentially("next")
    await page.by("cancel-edit").click()
    await expect(page.by("question-editor")).to_have_count(0)
    assert page.session_id == root and len(await family(shared_server, root)) == 1


async def test_an_edit_that_is_too_long_is_told_and_not_sent(page: ChatPage, shared_server: RunningServer) -> None:
    await page.choose_agent("echo")
    await page.asked("one")
    text = "äöü" * 60_000
    await edit(page, 0, text)
    await expect(page.by("too-long")).to_have_text("A message has at most 256 kB; this has 352 kB.")
    await expect(page.by("send-edit")).to_be_disabled()
    await expect(page.by("edited-question")).to_have_accessible_description(re.compile("at most 256 kB"))
    await expect(page.by("edited-question")).to_have_value(text)
    assert len(await family(shared_server, page.session_id)) == 1
    await page.by("edited-question").fill("äöü")
    await expect(page.by("too-long")).to_have_count(0)
    await page.by("send-edit").click()
    await expect(place_of(page, 0)).to_have_text("2/2")
    await expect(page.by("message-user")).to_contain_text("äöü")


async def test_the_arrow_up_edits_the_last_question(page: ChatPage) -> None:
    await page.choose_agent("echo")
    await page.asked("one")
    await page.asked("two")
    await page.composer.press("ArrowUp")
    await expect(page.by("edited-question")).to_have_value("two")
    await page.by("edited-question").fill("three")
    await page.by("send-edit").click()
    await expect(place_of(page, 1)).to_have_text("2/2")
    await page.ended(exchanges=2)
    await expect(page.by("message-user").last).to_contain_text("three")


async def test_the_list_has_one_entry_that_opens_what_was_open_last(
    own_page: ChatPage, chat_server: RunningServer
) -> None:
    await own_page.choose_agent("echo")
    await own_page.asked("one")
    root = own_page.session_id
    other = await own_page.another_tab(f"#s={root}")
    await other.ended()
    await edit(own_page, 0, "two")
    await expect(place_of(own_page, 0)).to_have_text("2/2")
    await own_page.ended()
    branch = own_page.session_id
    # Every window hears of the new variant, and of none that is gone.
    await expect(place_of(other, 0)).to_have_text("1/2")
    await expect(own_page.by("session-item")).to_have_count(1)
    for opened, text in ((branch, "two"), (root, "one")):
        if opened == root:
            await own_page.by("previous-variant").click()
            await expect(own_page.by("message-user")).to_contain_text("one")
        await own_page.start_new_chat()
        await own_page.by("session-item").get_by_role("link").click()
        await expect(own_page.by("message-user")).to_contain_text(text)
        assert own_page.session_id == opened
    async with rest(chat_server) as http:
        await http.delete(f"/sessions/{branch}")
    await expect(other.by("variants")).to_have_count(0)
    await expect(other.by("message-user")).to_contain_text("one")
    await other.tab.close()


async def test_a_branch_is_used_while_another_one_runs(
    page: ChatPage, pace: Pace, shared_server: RunningServer
) -> None:
    await page.choose_agent("paced")
    await page.ask("write 2 words")
    pace.write(20)
    await page.ended()
    root = page.session_id
    await page.ask("write 90 words")
    pace.write(10)
    await page.writes(1)
    await expect(page.exchanges.nth(1).get_by_test_id("edit-question")).to_have_count(0)
    await edit(page, 0, "write 80 words")
    await expect(page.exchanges).to_have_count(1)
    await eventually(lambda: pace.waiting == 2)
    pace.write(30)
    await page.writes(1)
    async with rest(shared_server) as http:
        running = [(await http.get(f"/sessions/{each}")).json() for each in (root, page.session_id)]
    assert all("active_exchange_id" in session for session in running)
    pace.finish()
    await page.ended(exchanges=1)
    await page.by("previous-variant").click()
    await page.ended(exchanges=2)
    assert page.session_id == root


async def test_what_is_written_goes_along_and_hostile_text_stays_text(page: ChatPage) -> None:
    await page.choose_agent("echo")
    await page.asked("one")
    await page.composer.fill("half a thought")
    await edit(page, 0, HOSTILE)
    await expect(place_of(page, 0)).to_have_text("2/2")
    await page.ended(exchanges=1)
    await expect(page.by("message-user").locator("p")).to_have_text(HOSTILE)
    await expect(page.by("message-user").locator("img, a, strong")).to_have_count(0)
    await expect(page.composer).to_have_value("half a thought")
    await page.by("previous-variant").click()
    await expect(page.by("message-user")).to_contain_text("one")
    await expect(page.composer).to_have_value("")


async def test_what_is_attached_is_asked_again_too(page: ChatPage) -> None:
    notes: Any = {"name": "notes.md", "mimeType": "text/markdown", "buffer": b"# Notes"}
    await page.choose_agent("echo")
    await page.by("file-input").set_input_files([notes])
    await expect(page.by("attached")).to_have_count(1)
    await page.asked("read this")
    await page.by("regenerate").click()
    await expect(place_of(page, 0)).to_have_text("2/2")
    await page.ended()
    await expect(page.by("message-user").get_by_test_id("file-chip")).to_contain_text("notes.md")
    await edit(page, 0, "read it again")
    await expect(place_of(page, 0)).to_have_text("2/2")
    await page.ended()
    await expect(page.by("message-user")).to_contain_text("read it again")
    await expect(page.by("message-user").get_by_test_id("file-chip")).to_contain_text("notes.md")


async def test_a_completed_conversation_goes_on_in_a_branch(page: ChatPage, shared_server: RunningServer) -> None:
    await page.choose_agent("echo")
    await page.asked("one")
    root = page.session_id
    async with rest(shared_server) as http:
        await http.post(f"/sessions/{root}/complete")
    await page.by("go-on-in-branch").click()
    await expect(page.composer).to_be_editable()
    assert page.session_id != root
    # What is asked there in another window is heard of.
    other = await page.another_tab(f"#s={page.session_id}")
    await other.ended()
    await other.asked("two")
    await page.ended(exchanges=2)
    await page.asked("three")
    assert [text for kind, text in await page.shown() if kind == "asked"] == ["one", "two", "three"]


async def test_a_branch_that_can_not_be_made_says_why_and_loses_nothing(own_page: ChatPage) -> None:
    await own_page.choose_agent("echo")
    await own_page.asked("one")
    own_page.provokes("503")
    refusal = {"code": "store_unavailable", "content": "Nothing was saved.", "retryable": True, "request_id": "r1"}
    await own_page.tab.route("**/fork", lambda route: route.fulfill(status=503, json={"error": refusal}))
    await edit(own_page, 0, "two")
    await expect(own_page.by("error-notice")).to_contain_text("Nothing was saved.")
    await expect(own_page.by("edited-question")).to_have_value("two")


async def test_a_branch_in_which_nothing_was_asked_hides_no_other(page: ChatPage, shared_server: RunningServer) -> None:
    await page.choose_agent("echo")
    await page.asked("one")
    await page.asked("two")
    root = page.session_id
    async with rest(shared_server) as http:
        forked = await http.post(f"/sessions/{root}/fork", json={"rank": 0})
    assert forked.status_code == 201
    await page.start_new_chat()
    await page.tab.reload()
    await page.by("session-item").get_by_role("link").first.click()
    await page.ended(exchanges=2)
    assert page.session_id == root
    await expect(page.by("variant-place")).to_have_count(0)


class Refusing:
    """Passes on what sockets carry, but for asks in branches of which it says that they come too often."""

    def __init__(self, root: str) -> None:
        self._root = root

    def route(self, socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def from_page(message: str | bytes) -> None:
            frame = json.loads(message)
            if frame["type"] != "ask" or frame.get("session_id") == self._root:
                return server.send(message)
            ids = {name: frame[name] for name in ("session_id", "client_exchange_id")}
            why = {"code": "rate_limited", "content": "Not now.", "retryable": True, "request_id": "r"}
            socket.send(json.dumps({"type": "error", "refused": "ask", "whose": "user", **why, **ids}))

        socket.on_message(from_page)


async def test_a_branch_whose_question_is_refused_is_given_up_and_the_question_is_not(
    own_page: ChatPage, chat_server: RunningServer
) -> None:
    await own_page.choose_agent("echo")
    await own_page.asked("one")
    await own_page.asked("two")
    root, before = own_page.session_id, await own_page.shown()
    await own_page.tab.route_web_socket("**/ws", Refusing(root).route)
    await own_page.tab.reload()
    await own_page.ended(exchanges=2)
    await own_page.composer.fill("written already")
    await edit(own_page, 0, "another")
    await expect(own_page.by("error-notice")).to_contain_text("Not now.")
    await own_page.ended(exchanges=2)
    assert own_page.session_id == root and await own_page.shown() == before
    await expect(own_page.composer).to_have_value("another\n\nwritten already")
    await expect(own_page.by("variant-place")).to_have_count(0)
    assert [one["id"] for one in await family(chat_server, root)] == [root]
    await own_page.asked("three")


async def test_edits_and_regenerations_count_apart(page: ChatPage) -> None:
    await page.choose_agent("echo")
    await page.asked("one")
    for number in (2, 3):
        await page.by("regenerate").click()
        answers = page.tab.get_by_role("group", name="Variants of this answer")
        await expect(answers).to_contain_text(f"{number}/{number}")
        await page.ended()
    await edit(page, 0, "two")
    questions = page.tab.get_by_role("group", name="Variants of this question")
    await expect(questions).to_contain_text("2/2")
    await expect(page.answers).to_contain_text("echo: two")
    await expect(answers).to_have_count(0)
    await page.by("regenerate").click()
    await expect(answers).to_contain_text("2/2")
    await page.ended()
    await questions.get_by_test_id("previous-variant").click()
    await expect(answers).to_contain_text("3/3")
    await expect(questions).to_contain_text("1/2")
    await answers.get_by_test_id("previous-variant").click()
    await expect(answers).to_contain_text("2/3")
    assert await focused(page) == "previous-variant"
    await page.tab.reload()
    await expect(answers).to_contain_text("2/3")
    await expect(questions).to_contain_text("1/2")


async def test_where_branches_differ_is_computed_from_the_family(page: ChatPage) -> None:
    """`variants.js` by itself: a root with forks at 0, 2 and 4, forks of forks, and an empty one."""
    family: list[dict[str, Any]] = []

    def add(name: str, parent: str | None, rank: int, next_rank: int, used: int) -> None:
        at = f"2026-01-01T00:00:{len(family):02}Z"
        member: dict[str, Any] = {"id": name, "next_rank": next_rank, "created_at": at, "updated_at": f"{used:04}"}
        family.append(member | ({"root_id": "r", "parent": {"session_id": parent, "rank": rank}} if parent else {}))

    add("r", None, 0, 6, 1)
    add("a", "r", 2, 8, 2)
    add("b", "a", 4, 6, 9)
    add("c", "r", 2, 4, 3)
    add("d", "r", 0, 2, 4)
    add("e", "r", 4, 4, 5)
    add("f", "a", 6, 8, 8)
    script = """async ({ family, ids }) => {
      const { variantsOf } = await import("/static/variants.js");
      return ids.map((id) => [...variantsOf(family, id)].sort(([a], [b]) => a - b)
        .map(([rank, { index, ids }]) => [rank, index, ids.join("")]));
    }"""
    ids = [member["id"] for member in family]
    found = await page.tab.evaluate(script, {"family": family, "ids": ids})
    assert dict(zip(ids, found, strict=True)) == {
        # The way of the root itself at 0 is shown by what was used last of all that goes through there.
        "r": [[0, 0, "bd"], [2, 0, "rbc"]],
        "a": [[0, 0, "bd"], [2, 1, "rbc"], [4, 0, "fb"], [6, 0, "af"]],
        "b": [[0, 0, "bd"], [2, 1, "rbc"], [4, 1, "fb"]],
        "c": [[0, 0, "bd"], [2, 2, "rbc"]],
        "d": [[0, 1, "bd"]],
        "e": [[0, 0, "bd"], [2, 0, "rbc"], [4, 1, "re"]],
        "f": [[0, 0, "bd"], [2, 1, "rbc"], [4, 0, "fb"], [6, 1, "af"]],
    }
