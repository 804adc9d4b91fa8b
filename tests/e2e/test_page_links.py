"""Links and code in answers: what is read is what is there, and no link brings the page anything."""

import json

import pytest
from playwright.async_api import expect
from support.chat_page import ChatPage

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

APPLE, ASCII_APPLE = "\u0430\u0440\u0440\u04cf\u0435.com", "xn--80ak6aa92e.com"
LOOKALIKES = [
    APPLE,
    "p\u0430ypal.com",
    "payp\u0430l.com",
    "\u0261oogle.com",
    "\u03b1\u03bd\u03c1\u03b1\u03bd\u03bf\u03c1.com",
]
HOSTS = [
    "münchen.de",
    "例え.jp",
    "пример.рф",
    "παράδειγμα.ελ",
    "мой-сайт.рф",
    "קום.קום",
    "日本語テスト.jp",
    "한국.kr",
    "a-b.example",
    "người.vn",
]
TURNED = 'if access != "none\u202e \u2066# only for admins\u2069 \u2066":\n\n\u202e\n    allow()\n'
COLOUR = "(element) => getComputedStyle(element).color"
ARE_IN_ORDER = """(element) => {
  const range = document.createRange();
  const lefts = [...element.textContent].map((_, index) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    let left = index;
    while (walker.nextNode() && left >= walker.currentNode.data.length) left -= walker.currentNode.data.length;
    range.setStart(walker.currentNode, left);
    range.setEnd(walker.currentNode, left + 1);
    return range.getBoundingClientRect().left;
  });
  const text = element.textContent;
  const [from, to] = [text.indexOf("only"), text.indexOf("admins") + 5];
  return lefts.slice(from, to).every((at, index) => at <= lefts[from + index + 1]);
}"""


async def answered(page: ChatPage, text: str) -> None:
    await page.asked(f"repeat after me: {text}")


async def imported(page: ChatPage, name: str, values: list[str]) -> list[str | None]:
    """What the function of links.js makes of each of the values."""
    found: list[str | None] = await page.tab.evaluate(
        "async ([name, values]) => values.map((await import('/static/links.js'))[name])",
        [name, values],
    )
    return found


async def test_hosts_that_look_like_others_are_shown_in_ascii(page: ChatPage) -> None:
    shown = await imported(page, "withHonestHosts", [f"see {host}/path" for host in LOOKALIKES])
    assert len(shown) == len(LOOKALIKES) and all(text and text.isascii() and "xn--" in text for text in shown)
    whole = [f"https://{host}/π" for host in HOSTS]
    assert await imported(page, "withHonestHosts", whole) == whole


async def test_no_link_leads_to_this_page_with_a_fragment(page: ChatPage) -> None:
    host = page.tab.url.split("#")[0]
    dead = ["#token=dev:mallory", "#s=1", f"{host}#token=x", f"{host}?a=b#x", "/#token=x", "/docs#a=b&%74oken=x"]
    assert await imported(page, "safeHref", dead) == [None] * len(dead)
    alive = ["https://other.example/#token=x", "https://other.example/docs#s=1", "mailto:a@b.example"]
    assert await imported(page, "safeHref", alive) == alive


async def test_links_in_answers_say_where_they_lead(page: ChatPage) -> None:
    await answered(
        page,
        f"[settings](#token=dev:mallory) https://{ASCII_APPLE} [{APPLE}](https://other.example) "
        f"[a *{APPLE[:2]}*{APPLE[2:]}](https://other.example)",
    )
    links = page.answers.locator("a")
    await expect(links.nth(0)).to_have_text("settings")
    assert await links.nth(0).get_attribute("href") is None
    colours = [await each.evaluate(COLOUR) for each in (links.nth(0), page.answers.locator("p"), links.nth(1))]
    assert colours[0] == colours[1] != colours[2], "it looks like what it is"
    await expect(links.nth(1)).to_have_text(f"https://{ASCII_APPLE}")
    await expect(links.nth(2)).to_have_text(ASCII_APPLE)
    await expect(links.nth(3)).to_have_text(f"a {ASCII_APPLE}")


@pytest.mark.parametrize("language", ["", "python"])
async def test_code_is_read_in_the_order_in_which_it_runs(page: ChatPage, language: str) -> None:
    await answered(page, f"```{language}\n{TURNED}```\n\nand `a\u202eb`, [c\u202ed](https://other.example) end")
    code = page.answers.locator("pre code")
    if language:
        await expect(code.locator(".hljs-string")).to_have_count(1)
    await expect(code.locator(".bidi")).to_have_count(5)
    assert await code.evaluate("(element) => element.textContent") == TURNED, "what is copied"
    shown = await code.locator(".bidi").first.evaluate("(element) => getComputedStyle(element, '::before').content")
    assert json.loads(shown) == "U+202E"
    assert await code.evaluate(ARE_IN_ORDER)
    inline = page.answers.locator(":not(pre) > code")
    await expect(inline.locator(".bidi")).to_have_attribute("title", "U+202E")
    for element in (inline, page.answers.locator("a")):
        assert await element.evaluate("(element) => getComputedStyle(element).unicodeBidi") == "isolate"
