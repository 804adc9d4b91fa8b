"""An approval's card shows what runs to the last character and digit, and an edit changes nothing else."""

import json
import re
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect
from support import acting_agents, approval_agents
from support.approval_agents import calls, runs
from support.chat_page import ChatPage, chat_page, new_chat_in
from support.further_cases import further
from support.running_server import RunningServer, running_server
from support.unseen_characters import UNSEEN, code

from agentic_backend.text.invisible_characters import is_invisible
from agentic_backend.text.normal_form import clean

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

WITHOUT_RAW_JSON = "delete JSON.rawJSON; delete JSON.isRawJSON"
OF_THE_PAGE = """async () => {
  const { visible } = await import("/static/format.js");
  const found = { unseen: [], other: [], unassigned: [] };
  for (let point = 0; point < 0x110000; point += 1) {
    const character = String.fromCodePoint(point);
    const shown = visible(character);
    if (shown === `\\\\u{${point.toString(16)}}`) found.unseen.push(point);
    else if (shown !== character) found.other.push(point);
    if (/\\p{Cn}/u.test(character)) found.unassigned.push(point);
  }
  // As one text: Playwright takes its time over every single value.
  return JSON.stringify(found);
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    directory = tmp_path_factory.mktemp("server")
    async with running_server(directory, agents=[*approval_agents.ENTRIES, *acting_agents.ENTRIES]) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage, notes: Path) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page) as page:
        yield page


async def card_of(page: ChatPage, agent: str, text: str) -> Locator:
    """The one card that waits once a new session of the agent is asked."""
    await page.choose_agent(agent)
    await page.ask(text)
    card = page.by("approval").and_(page.tab.locator("[data-state=open]"))
    await expect(card).to_have_count(1)
    return card


def action(name: str, **args: Any) -> str:
    return json.dumps({"action": name, "args": args})


async def test_the_page_and_the_server_have_one_list(page: ChatPage) -> None:
    told = json.loads(await page.tab.evaluate(OF_THE_PAGE))
    server = {point for point in range(0x110000) if is_invisible(chr(point))}
    unassigned = {point for point in range(0x110000) if unicodedata.category(chr(point)) == "Cn"}
    # The older version of Unicode shows the code of what the newer one has assigned.
    assert set(told["unseen"]) ^ server <= set(told["unassigned"]) ^ unassigned
    assert {ord(character) for character in UNSEEN.values()} <= set(told["unseen"]) & server
    assert told["other"] == []


# The graph's border cleans the others.
KEPT = [one for one in UNSEEN.values() if clean(one) == one]


async def test_what_the_border_cleans_is_shown_and_run_so(page: ChatPage, notes: Path) -> None:
    gone = [one for one in UNSEEN.values() if one not in KEPT]
    card = await card_of(page, "acting", action("send", **{f"to{place}": f"a{one}b" for place, one in enumerate(gone)}))
    cleaned = [clean(f"a{one}b") for one in gone]
    await expect(card.locator("dd pre")).to_have_text(cleaned)
    await card.get_by_test_id("approve").click()
    await page.ended()
    assert runs(notes) == [("send", {f"to{place}": one for place, one in enumerate(cleaned)})]


async def test_each_kind_is_shown_in_the_name_the_keys_and_the_values(page: ChatPage) -> None:
    args = {f"to{one}{place}": [f"ann{one}bob"] for place, one in enumerate(KEPT)}
    args |= {f"plain{place}": f"ann{one}bob" for place, one in enumerate(KEPT)}
    name = f"send{''.join(KEPT)}"
    card = await card_of(page, "acting", action(name, **args))
    await expect(card.locator("h3 code")).to_have_text(f"send{''.join(map(code, KEPT))}")
    keys = [f"to{code(one)}{place}" for place, one in enumerate(KEPT)]
    await expect(card.locator("dt")).to_have_text([*keys, *(f"plain{place}" for place in range(len(KEPT)))])
    values = await card.locator("dd pre").all_text_contents()
    # JSON has an escape of its own for it.
    escaped = {"\r": "\\r"}
    listed = [f'[\n  "ann{escaped.get(one, code(one))}bob"\n]' for one in KEPT]
    assert values == [*listed, *(f"ann{code(one)}bob" for one in KEPT)]


async def test_where_names_and_values_begin_and_end_is_seen(page: ChatPage) -> None:
    card = await card_of(page, "acting", action("send", **{"to ": " ann", "to": "\u00a0", "": "a\n\tb", "a\nb": ""}))
    await expect(card.locator("dt")).to_have_text(['"to "', "to", '""', r"a\u{a}b"])
    values = await card.locator("dd pre").all_text_contents()
    assert values == ['" ann"', r'"\u{a0}"', "a\n\tb", '""']


async def test_in_prose_stays_what_is_harmless(page: ChatPage) -> None:
    family, heart, key = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f", "1\ufe0f\u20e3"
    harmless = f"Wirklich\u00a0löschen? {family} {heart} {key} \u0645\u06cc\u200c\u062e"
    card = await card_of(page, "telling", f"{harmless}\u202e\u200b\u2800")
    question = card.get_by_test_id("approval-question")
    await expect(question).to_have_js_property("textContent", rf"{harmless}\u{{202e}}\u{{200b}}\u{{2800}}")


async def test_an_edit_shows_what_is_invisible_and_keeps_it(page: ChatPage, notes: Path) -> None:
    body = "Bonjour\u00a0Ann\u200b\u202e!\n\tBien à\u3000vous"
    card = await card_of(page, "approving", calls(("send_email", {"to": "ann\u2800", "body": body, "copies": 1})))
    await card.get_by_test_id("edit").click()
    unseen = card.get_by_test_id("unseen").locator("code")
    await expect(unseen).to_have_text([r"ann\u{2800}", r"Bonjour\u{a0}Ann\u{200b}\u{202e}! Bien à\u{3000}vous"])
    await card.get_by_label("To").fill("bob\u3164")
    await expect(unseen.first).to_have_text(r"bob\u{3164}")
    await card.get_by_label("To").fill("bob")
    await expect(unseen).to_have_count(1)
    await card.get_by_test_id("send-answer").click()
    await page.ended()
    assert runs(notes) == [("send_email", {"to": "bob", "body": body, "copies": 1})]


async def test_json_that_is_edited_has_escapes_of_what_is_invisible(page: ChatPage, notes: Path) -> None:
    args = {f"to{one}": f"ann{one}" for one in KEPT}
    card = await card_of(page, "acting", action("send", **args))
    await card.get_by_test_id("edit").click()
    field = page.by("edit-args")
    written = await field.input_value()
    assert not [one for one in written if is_invisible(one) and one != "\n"]
    await expect(page.by("unseen")).to_have_count(0)
    await field.fill(written.replace("{", '{"more\u2800": 1,', 1))
    await expect(page.by("unseen")).to_contain_text(r"more\u{2800}")
    await page.by("confirm-edit").click()
    await page.ended()
    assert runs(notes) == [("send", {"more\u2800": 1} | args)]


@pytest.mark.parametrize("to", ["ann\rbob", further("ann\r\nbob")])
async def test_what_no_field_of_html_holds_is_edited_as_json(page: ChatPage, notes: Path, to: str) -> None:
    card = await card_of(page, "approving", calls(("send_email", {"to": to, "copies": 1})))
    await card.get_by_test_id("edit").click()
    field = page.by("edit-args")
    await field.fill((await field.input_value()).replace("1", "2"))
    await page.by("confirm-edit").click()
    await page.ended()
    assert runs(notes) == [("send_email", {"to": to, "body": "", "copies": 2})]


NUMBERS = {
    "largest": 2**63 - 1,
    "smallest": -(2**63) + 1,
    "safe": 2**53 - 1,
    "beyond": 2**53 + 1,
    "float": 1e20,
    "whole": 9007199254740994.0,
    "tiny": 5e-324,
    "huge": 1.7976931348623157e308,
    "third": 1 / 3,
}


async def test_numbers_are_shown_edited_and_run_as_they_are(page: ChatPage, notes: Path) -> None:
    card = await card_of(page, "acting", action("pay", **NUMBERS, note="a"))
    shown = await card.locator("dd pre").all_text_contents()
    assert [json.loads(text) for text in shown[:-1]] == list(NUMBERS.values())
    await card.get_by_test_id("edit").click()
    field = page.by("edit-args")
    await field.fill((await field.input_value()).replace('"a"', '"b"'))
    await page.by("confirm-edit").click()
    await page.ended()
    [(_, args)] = runs(notes)
    # By their text, because 1e20 == 10**20.
    assert json.dumps(args) == json.dumps(NUMBERS | {"note": "b"})


@pytest.mark.parametrize("number", ["9223372036854775808", further("18446744073709551617"), "-9223372036854775809"])
async def test_an_edit_with_an_integer_beyond_64_bits_comes_back_refused(
    page: ChatPage, notes: Path, number: str
) -> None:
    card = await card_of(page, "approving", calls(("send_email", {"to": "ann"})))
    await card.get_by_test_id("edit").click()
    await page.by("edit-as-json").click()
    written = f'{{"to": "ann", "copies": {number}}}'
    await page.by("edit-args").fill(written)
    await page.by("confirm-edit").click()
    await expect(page.by("approval-refused")).to_contain_text("64 bits")
    await expect(page.by("edit-args")).to_have_value(written)
    await page.by("edit-args").fill(written.replace(number, "2"))
    await page.by("confirm-edit").click()
    await page.ended()
    assert runs(notes) == [("send_email", {"to": "ann", "body": "", "copies": 2})]


@pytest.mark.parametrize("number", ["NaN", further("-Infinity"), further("1e400"), str(2**63)])
async def test_what_cant_be_shown_as_it_is_cant_be_approved(page: ChatPage, notes: Path, number: str) -> None:
    card = await card_of(page, "approving", f'send_email {{"to": "ann", "copies": {number}}}')
    await expect(card.get_by_test_id("reject")).to_be_visible()
    await expect(card.get_by_test_id("approve")).to_have_count(0)
    await card.get_by_test_id("edit").click()
    await page.by("edit-args").fill('{"to": "ann", "copies": 3}')
    await page.by("confirm-edit").click()
    await page.ended()
    assert runs(notes) == [("send_email", {"to": "ann", "body": "", "copies": 3})]


async def test_a_browser_that_rounds_numbers_approves_none_that_it_may_have_rounded(
    browser: Browser, shared_server: RunningServer, notes: Path
) -> None:
    async with chat_page(browser, shared_server.address) as page:
        await page.tab.add_init_script(WITHOUT_RAW_JSON)
        await page.tab.reload()
        card = await card_of(page, "approving", calls(("send_email", {"to": "ann", "copies": 2**53 + 1})))
        await expect(card.get_by_role("button", name=re.compile("Approve|Edit"))).to_have_count(0)
        await card.get_by_test_id("reject").click()
        await page.by("confirm-reject").click()
        await page.ended()
        assert runs(notes) == []


ASKED_TO_APPROVE = """async (number) => {
  const { approved } = await import("/static/panels/approved.js");
  const { ApiError } = await import("/static/api.js");
  const { parseExactly } = await import("/static/client/exact-json.js");
  const asked = [];
  const approval = { asked_by: "app", title: "Pay", data: parseExactly(`{"sum": ${number}}`), sha256: "0".repeat(64) };
  const call = async ({ approved }) => {
    if (!approved) throw new ApiError({ status: 409, approval });
    return "ran";
  };
  const confirm = async ({ text }) => asked.push(text);
  return approved(call, { begun: async () => {}, confirm }).catch((error) => error.message + asked.join());
}"""


async def test_nor_is_one_approved_for_an_application(browser: Browser, shared_server: RunningServer) -> None:
    async with chat_page(browser, shared_server.address) as page:
        await page.tab.add_init_script(WITHOUT_RAW_JSON)
        await page.tab.reload()
        assert await page.tab.evaluate(ASKED_TO_APPROVE, "7") == "ran"
        refused = "This browser can't show the numbers to approve of."
        assert await page.tab.evaluate(ASKED_TO_APPROVE, str(2**53 + 1)) == refused


COPIED = """async (text) => {
  const { jsonCopy, parseExactly } = await import("/static/client/exact-json.js");
  return JSON.stringify(jsonCopy(parseExactly(text)));
}"""


@pytest.mark.parametrize(
    "number", ["1e20", "-1.5e300", str(10**400), str(2**64 + 1), "9007199254740994.0", "0.1", "-7"]
)
async def test_a_client_in_javascript_sends_each_number_as_it_read_it(page: ChatPage, number: str) -> None:
    assert await page.tab.evaluate(COPIED, f'[{{"n":{number}}}]') == f'[{{"n":{number}}}]'


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
async def test_a_client_in_javascript_sends_no_null_for_what_json_has_not(page: ChatPage, number: str) -> None:
    copy = f'import("/static/client/exact-json.js").then(({{ jsonCopy }}) => jsonCopy([{{ n: {number} }}]))'
    assert await page.tab.evaluate(f"{copy}.catch((error) => String(error))") == f"TypeError: JSON has no {number}"


ENTERED = {"1e20": "1e20", "+.5": "0.5", "5.": "5", "007": "7", "-0.25e-3": "-0.00025", "5.e3": "5000"}


async def test_numbers_are_entered_in_any_form_that_people_write(page: ChatPage) -> None:
    answers = """async (texts) => {
      const { answerIn, formOf } = await import("/static/answer-schema.js");
      const form = formOf({ type: "number" });
      return texts.map((answer) => JSON.stringify(answerIn(form, { answer }).answer));
    }"""
    assert await page.tab.evaluate(answers, list(ENTERED)) == list(ENTERED.values())
