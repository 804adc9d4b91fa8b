"""Markdown that streams into the chat page ends as the same elements that the whole text makes, however it is cut."""

import pytest
import pytest_asyncio
from playwright.async_api import Page
from support.chat_page import ChatPage
from support.markdown_texts import EVERY_MARK, HOSTILE, MIXED, TEXTS

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(shared_page: ChatPage) -> ChatPage:
    """Of all tests: they run the page's modules, and leave the page as it is."""
    return shared_page


GROW = """async ([text, cuts]) => {
  const { GrowingText } = await import("/static/growing-text.js");
  const shown = (grow) => {
    const root = document.createElement("div");
    root.className = "rich-text";
    document.body.append(root);
    grow(new GrowingText(root));
    // What is coloured, typeset or numbered by itself comes later, or differs from text to text.
    for (const math of root.querySelectorAll(".formula")) math.textContent = math.dataset.tex;
    for (const code of root.querySelectorAll("code")) code.textContent = code.textContent;
    root.normalize();
    root.remove();
    root.innerHTML = root.innerHTML.replace(/text-\\d+-note/g, "note");
    return root;
  };
  const whole = shown((growing) => growing.show(text, false));
  const streamed = shown((growing) => {
    for (const cut of cuts) growing.show(text.slice(0, cut), true);
    growing.show(text, false);
  });
  return whole.isEqualNode(streamed) ? null : `${whole.innerHTML}\\n  ${streamed.innerHTML}`;
}"""


def cuts_of(text: str, seed: int) -> list[int]:
    """Where a text is cut: after each character for seed 0, else after pieces of a length that changes."""
    cuts, at, step = [], 0, seed
    while at < len(text):
        step = 1 if seed == 0 else step * 31 % (7 * seed + 2) + 1
        at += step
        cuts.append(min(at, len(text)))
    return cuts


async def differences(tab: Page, texts: list[str], seeds: list[int]) -> list[str]:
    """Each text that has grown into other elements than those it makes at once, with both."""
    found = []
    for text in texts:
        for seed in seeds:
            if difference := await tab.evaluate(GROW, [text, cuts_of(text, seed)]):
                found.append(f"{text!r} cut by seed {seed}\n  {difference}")
    return found


async def test_a_text_that_grows_ends_as_the_text_at_once(page: ChatPage) -> None:
    assert await differences(page.tab, [*TEXTS, MIXED], [0, 1, 2, 5]) == []


async def test_so_does_a_hostile_one(page: ChatPage) -> None:
    assert await differences(page.tab, HOSTILE, [0, 3]) == []


async def test_so_does_a_long_table_whose_rows_stand_in_groups(page: ChatPage) -> None:
    rows = "".join(f"| {number} | {'wide ' * (number % 7)}`code` |\n" for number in range(70))
    table = f"| a | b |\n|--:|---|\n{rows}"
    assert await differences(page.tab, [table, f"{table}\nEnd", f"{table}- a list\n\n{table}"], [3, 9]) == []


FLASHES = """async (text) => {
  const { GrowingText } = await import("/static/growing-text.js");
  const root = document.createElement("div");
  document.body.append(root);
  const growing = new GrowingText(root);
  const seen = new Set();
  for (let end = 1; end <= text.length; end += 1) {
    growing.show(text.slice(0, end), true);
    const shown = root.cloneNode(true);
    for (const own of shown.querySelectorAll(".formula, .alert-mark")) own.remove();
    if (/[*_`~|[\\]$\\\\<>&#^]|--|:-|\\d\\.(\\s|$)/.test(shown.textContent)) {
      seen.add(`${JSON.stringify(text.slice(Math.max(0, end - 30), end))} shows ${shown.textContent.slice(-40)}`);
    }
  }
  root.remove();
  return [...seen];
}"""


async def test_no_mark_is_shown_while_its_text_is_written(page: ChatPage) -> None:
    assert await page.tab.evaluate(FLASHES, EVERY_MARK) == []


OPENED = """async ([before, after]) => {
  const { GrowingText } = await import("/static/growing-text.js");
  const root = document.createElement("div");
  document.body.append(root);
  const growing = new GrowingText(root);
  growing.show(before, true);
  root.querySelector("summary").click();
  growing.show(before + after, true);
  const { open, textContent } = root.querySelector("details");
  root.remove();
  return [open, textContent];
}"""


async def test_details_that_their_reader_has_opened_stay_open_while_they_grow(page: ChatPage) -> None:
    opened = await page.tab.evaluate(OPENED, ["<details><summary>More</summary>\n\none", " two"])
    assert opened == [True, "Moreone two"]


RESTS = """async (text) => {
  const { GrowingText } = await import("/static/growing-text.js");
  const root = document.createElement("div");
  document.body.append(root);
  const growing = new GrowingText(root);
  let renderings = 0;
  const observer = new MutationObserver(() => (renderings += 1));
  observer.observe(root, { characterData: true, childList: true, subtree: true });
  for (let end = text.length - 200; end < text.length; end += 1) {
    growing.show(text.slice(0, end), true);
    await null;
  }
  const before = renderings;
  growing.show(text, true);
  while (root.textContent !== text) await new Promise(requestAnimationFrame);
  observer.disconnect();
  root.remove();
  return before;
}"""


async def test_a_very_long_paragraph_is_not_rendered_with_each_word_and_is_shown_to_its_end(page: ChatPage) -> None:
    assert await page.tab.evaluate(RESTS, "word " * 20_000 + "end") < 100
