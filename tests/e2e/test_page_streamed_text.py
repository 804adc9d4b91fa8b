"""Text that streams can be touched: what is selected, focused, scrolled and clicked in it stays while it grows."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import expect
from support.chat_page import ChatPage, new_chat_in
from support.markdown_texts import ROW, TOUCHED
from support.paced_agent import Pace

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page) as page:
        yield page


SELECTED = "() => getSelection().toString()"
MARK = "(element) => { element.marked = true; }"
MARKED = "(element) => element.marked === true"


async def written_up_to(page: ChatPage, pace: Pace, text: str, *, words: int = 1) -> None:
    """Let the agent write, this many words in a frame, until the answer has this text."""
    for _ in range(400):
        if text in (await page.answers.inner_text() if await page.answers.count() else ""):
            return
        pace.write(words)
        await page.tab.evaluate("() => new Promise(requestAnimationFrame)")
    raise AssertionError(f"not written: {text}")


async def ask(page: ChatPage, text: str) -> None:
    await page.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.choose_agent("paced")
    await page.ask(f"repeat after me: {text}")


async def test_what_is_selected_stays_selected_and_every_copy_copies(page: ChatPage, pace: Pace) -> None:
    await ask(page, TOUCHED)
    await written_up_to(page, pace, "first = 1")
    paragraph = page.answers.locator("p").first
    await paragraph.evaluate(MARK)
    await paragraph.click(click_count=3)
    selected = await page.tab.evaluate(SELECTED)
    assert selected.strip() == "A paragraph that is closed."
    await written_up_to(page, pace, "third = 3")
    assert await page.tab.evaluate(SELECTED) == selected

    closed, written = (page.answers.locator(".copy-code").nth(index) for index in range(2))
    await closed.click()
    await page.copied("print('closed')\n")
    await written.click()
    await page.copied("first = 1\nsecond = 2\nthird = 3", more=True)
    await written.focus()
    pace.finish()
    await page.ended()
    await expect(written).to_be_focused()
    assert await paragraph.evaluate(MARKED)


async def test_what_is_selected_in_the_last_paragraph_stays_while_it_grows(page: ChatPage, pace: Pace) -> None:
    await ask(page, "One *two* three four five six seven eight nine ten")
    await written_up_to(page, pace, "three four")
    await page.answers.locator("p").evaluate(
        "(p) => getSelection().setBaseAndExtent(p.firstChild, 0, p.lastChild, ' three'.length)"
    )
    pace.finish()
    await page.ended()
    await expect(page.answers.locator("p")).to_have_text("One two three four five six seven eight nine ten")
    assert await page.tab.evaluate(SELECTED) == "One two three"


async def test_code_that_is_written_stays_scrolled_and_wrapped(page: ChatPage, pace: Pace) -> None:
    wide = "x = " + "+".join(str(number) for number in range(200))
    await ask(page, f"```python\n{wide}\nsecond = 2\n{wide}\nfourth = 4\n```\n\nEnd")
    await written_up_to(page, pace, "second")
    code = page.answers.locator("pre")
    await code.evaluate("(pre) => { pre.scrollLeft = 300; }")
    await written_up_to(page, pace, "fourth")
    assert await code.evaluate("(pre) => pre.scrollLeft") == 300

    wrap = page.answers.get_by_role("button", name="Wrap")
    await wrap.click()
    await expect(wrap).to_have_attribute("aria-pressed", "true")
    assert await code.evaluate("(pre) => pre.scrollWidth <= pre.clientWidth")
    pace.finish()
    await page.ended()
    await expect(wrap).to_have_attribute("aria-pressed", "true")
    await expect(page.answers.locator(".hljs-number").first).to_be_visible()


async def test_closed_items_and_rows_are_the_same_elements_at_the_end(page: ChatPage, pace: Pace) -> None:
    items = "\n".join(f"- item{number} of a list" for number in range(6))
    rows = "\n".join(ROW.format(number=number) for number in range(6))
    await ask(page, f"{items}\n\n| a | b |\n|---|---|\n{rows}\n\nEnd")
    await written_up_to(page, pace, "item3")
    item = page.answers.locator("li").nth(1)
    await item.evaluate(MARK)
    await written_up_to(page, pace, "row3")
    row = page.answers.locator("tbody tr").nth(1)
    await row.evaluate(MARK)
    await page.answers.locator(".table").evaluate("(table) => { table.scrollLeft = 40; }")
    pace.finish()
    await page.ended()
    await expect(page.answers.locator("li")).to_have_count(6)
    await expect(page.answers.locator("tbody tr")).to_have_count(6)
    assert await item.evaluate(MARKED)
    assert await row.evaluate(MARKED)
    assert await page.answers.locator(".table").evaluate("(table) => table.scrollLeft") == 40


ROOM = """(table) => {
  const cells = [...table.rows[1].cells].map((cell) => cell.getBoundingClientRect().width);
  return [cells.reduce((sum, width) => sum + width), table.parentElement.clientWidth, table.parentElement.scrollWidth];
}"""


@pytest.mark.parametrize("words", [1, 13])
async def test_the_columns_of_a_long_table_get_more_room_where_there_is_some(
    page: ChatPage, pace: Pace, words: int
) -> None:
    cell = " ".join(["wide"] * words)
    rows = "\n".join(f"| {cell} | row{number} |" for number in range(70))
    await ask(page, f"| a | b |\n|---|---|\n{rows}\n\nEnd")
    in_row = words + 4
    await written_up_to(page, pace, "row11", words=in_row)
    table = page.answers.locator("table")
    needed, room, _ = await table.evaluate(ROOM)
    for _ in range(300):
        pace.write(in_row)
        await page.tab.evaluate("() => new Promise(requestAnimationFrame)")
        if await page.answers.locator("table.frozen").count():
            break
    given, _, scrolled = await table.evaluate(ROOM)
    assert needed < given == pytest.approx(min(needed * 1.25, room), abs=2)
    assert scrolled == room
    pace.finish()
    await page.ended()


async def test_an_image_that_was_asked_for_stays_while_its_paragraph_grows(own_page: ChatPage, pace: Pace) -> None:
    own_page.provokes(r"outside request: https://outside\.example/|ERR_NAME_NOT_RESOLVED")
    await ask(own_page, "Look ![cat](https://outside.example/cat.png) at this and more words to come")
    await written_up_to(own_page, pace, "at this")
    await own_page.answers.get_by_role("button", name="Show image").click()
    await expect(own_page.answers.get_by_role("img", name="cat")).to_be_focused()
    pace.finish()
    await own_page.ended()
    await expect(own_page.answers.get_by_role("img", name="cat")).to_be_focused()


async def test_an_answer_is_shown_as_it_was_written_while_its_renderer_cannot_be_loaded(own_page: ChatPage) -> None:
    own_page.provokes(r"growing-text\.js|ERR_FAILED")
    await own_page.tab.route("**/growing-text.js*", lambda route: route.abort())
    await own_page.tab.reload()
    await own_page.asked("repeat after me: **Bold** <b>words</b>")
    await expect(own_page.answers.last).to_contain_text("**Bold** <b>words</b>")

    await own_page.tab.unroute("**/growing-text.js*")
    await expect(own_page.answers.last.locator("strong")).to_have_text("Bold")
