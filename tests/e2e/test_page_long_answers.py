"""Long answers don't keep the chat page busy, and end as the same text, in the same order."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import expect
from support.chat_client import chat
from support.chat_page import ChatPage, new_chat_in
from support.markdown_texts import MIXED
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

SECTION = (
    "## Section\n\n" + "Some *words* in a [paragraph](https://example.org). " * 12 + "\n\n- one\n- **two**\n- `three`\n"
)
NUMBERED = "\n".join(f"{SECTION}\nThis was section {number}.\n" for number in range(150))
"""Of 130,000 characters."""
TABLE = "| a | b |\n|---|---|\n" + "".join(f"| row {number} | **{number}** |\n" for number in range(400))
LIST = "".join(f"- item *{number}*\n" for number in range(300))


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page) as page:
        yield page


LAID = """
const { GrowingText } = await import("/static/growing-text.js");
const { elementsOf, renderBlocks } = await import("/static/markdown.js");
const laid = () => {
  const [view, root] = [document.createElement("div"), document.createElement("div")];
  Object.assign(view.style, { position: "fixed", inset: "0", overflow: "auto" });
  root.className = "rich-text";
  view.append(root);
  document.body.append(view);
  return root;
};
const removed = (root) => root.parentElement.remove();
const shown = (root, text) => new Promise((done) => new GrowingText(root).show(text, false, done));
"""

LONGEST = f"""async ([text, part]) => {{
  {LAID}
  const whole = laid();
  const begun = performance.now();
  whole.append(...elementsOf(renderBlocks(part).blocks.map(({{ html }}) => html)));
  whole.getBoundingClientRect();
  const atOnce = performance.now() - begun;
  removed(whole);
  await new Promise(requestAnimationFrame);

  const root = laid();
  const tasks = [];
  const noted = (list) => tasks.push(...list.getEntries().map(({{ duration }}) => duration));
  const observer = new PerformanceObserver(noted);
  observer.observe({{ type: "longtask" }});
  await shown(root, text);
  await new Promise((done) => setTimeout(done, 100));
  observer.disconnect();
  removed(root);
  return [Math.max(0, ...tasks), atOnce];
}}"""


async def test_no_step_of_a_long_text_takes_as_long_as_half_of_it(page: ChatPage) -> None:
    longest, half = await page.tab.evaluate(LONGEST, [NUMBERED, NUMBERED[: len(NUMBERED) // 2]])
    assert longest < half


SAME = f"""async (text) => {{
  {LAID}
  const [whole, root] = [laid(), laid()];
  whole.append(...elementsOf(renderBlocks(text, {{ folds: true }}).blocks.map(({{ html }}) => html)));
  await shown(root, text);
  const blocks = [...root.children].flatMap((group) => [...group.children]);
  for (const button of root.querySelectorAll(".unfold-table")) button.remove();
  for (const each of [whole, ...blocks]) {{
    for (const math of each.querySelectorAll(".formula")) math.textContent = math.dataset.tex;
    for (const code of each.querySelectorAll("code")) code.textContent = code.textContent;
    each.normalize();
  }}
  const htmlOf = ({{ outerHTML }}) => outerHTML.replace(/(?:text-\\d+)?-note/g, "note");
  const expected = [...whole.children].map(htmlOf);
  const different = blocks.findIndex((block, at) => htmlOf(block) !== expected[at]);
  const result = [blocks.length - expected.length, different < 0 ? null : htmlOf(blocks[different])];
  removed(whole);
  removed(root);
  return result;
}}"""


async def test_it_ends_as_the_text_at_once(page: ChatPage) -> None:
    for text in (f"{MIXED}\n\n{LIST}\n{TABLE}", f"{SECTION * 20}\n> {LIST}\n\n{TABLE}\n```\n{LIST}"):
        assert await page.tab.evaluate(SAME, text) == [0, None]


IN_VIEW = f"""async (text) => {{
  {LAID}
  const root = laid();
  const view = root.parentElement;
  const done = shown(root, text);
  while (!root.lastElementChild) await new Promise(requestAnimationFrame);
  view.scrollTop = view.scrollHeight;
  while (root.lastElementChild?.matches(".unshown") ?? true) await new Promise(requestAnimationFrame);
  const before = root.querySelectorAll(".unshown").length;
  await done;
  const after = root.querySelectorAll(".unshown").length;
  removed(root);
  return [before, after];
}}"""


async def test_what_is_in_view_is_shown_first(page: ChatPage) -> None:
    before, after = await page.tab.evaluate(IN_VIEW, NUMBERED)
    assert before > 0 and after == 0


async def test_what_is_printed_is_whole(page: ChatPage) -> None:
    shown = f"""async (text) => {{
      {LAID}
      const root = laid();
      new GrowingText(root).show(text, false);
      const before = root.textContent.includes("This was section 149.");
      dispatchEvent(new Event("beforeprint"));
      const printed = root.textContent.includes("This was section 149.");
      dispatchEvent(new Event("afterprint"));
      removed(root);
      return [before, printed];
    }}"""
    assert await page.tab.evaluate(shown, NUMBERED) == [False, True]


async def test_a_long_table_is_folded_when_it_is_shown(page: ChatPage, shared_server: RunningServer) -> None:
    async with chat(shared_server.address) as client:
        final = (await client.ask(f"repeat after me: {TABLE}", agent_id="assistant"))[-1]
    await page.open(f"#s={final['session_id']}")
    await page.ended()
    rows = page.answers.locator("tr")
    await expect(rows).to_have_count(31)
    await page.answers.get_by_role("button", name="Show all 400 rows").click()
    await expect(rows).to_have_count(401)
    await expect(page.answers.locator(".table")).to_be_focused()
    texts = await page.answers.locator("td:first-child").all_text_contents()
    assert texts == [f"row {number}" for number in range(400)]
    await expect(page.answers.get_by_role("row", name="row 399 399")).to_have_count(1)


COSTS = f"""async ([text, end]) => {{
  {LAID}
  const root = laid();
  root.classList.add("streaming");
  const growing = new GrowingText(root);
  growing.show(text, true);
  while (root.textContent.length < text.length * 0.99) await new Promise(requestAnimationFrame);
  const costs = [];
  for (let at = 0; at < end.length; at += 40) {{
    await new Promise(requestAnimationFrame);
    const begun = performance.now();
    growing.show(text + end.slice(0, at), true);
    root.getBoundingClientRect();
    costs.push(performance.now() - begun);
  }}
  removed(root);
  return costs.sort((one, other) => one - other)[costs.length >> 1];
}}"""


async def test_long_code_costs_about_as_much_as_text_while_it_is_written(page: ChatPage) -> None:
    line = "    total = total + number  # and so on, and on\n"
    code = await page.tab.evaluate(COSTS, ["```text\n" + line * 8_000, line * 25])
    text = await page.tab.evaluate(COSTS, ["\n\n".join(["words " * 80] * 800), "words " * 200])
    assert code < 5 * text


COLOURED = f"""async ([code, pieces]) => {{
  {LAID}
  const root = laid();
  const growing = new GrowingText(root);
  for (let at = 0; at < code.length; at += Math.ceil(code.length / pieces)) growing.show(code.slice(0, at), true);
  growing.show(code, false);
  const words = () => [...root.querySelectorAll(".hljs-keyword")].map(({{ textContent }}) => textContent).join();
  while (!/class/.test(words())) await new Promise(requestAnimationFrame);
  getSelection().selectAllChildren(root.querySelector("pre"));
  const result = [words(), getSelection().toString(), root.querySelector("code").textContent];
  getSelection().removeAllRanges();
  removed(root);
  return result;
}}"""


async def test_long_code_is_coloured_and_selected_as_one(page: ChatPage) -> None:
    inside = '"""\n' + "if this is a text\n" * 500 + '"""\n'
    code = "def f():\n" + inside + "x = 1\n" * 150 + "class C: ..."
    words, selected, text = await page.tab.evaluate(COLOURED, [f"```python\n{code}\n```\n", 40])
    assert words == "def,class"
    assert selected.removesuffix("\n") == code == text.removesuffix("\n")
