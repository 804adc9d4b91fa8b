"""What the chat page makes of Markdown beyond paragraphs: formulas, notes, alerts, tasks, tables, images and code."""

import re
from collections.abc import AsyncIterator
from typing import Literal

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from support.chat_client import chat
from support.chat_page import ChatPage, chat_page, new_chat_in
from support.rest_client import rest
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

SVG = "data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%20width='40'%20height='30'/%3E"
WIDE = "| " + " | ".join(f"column{number}" for number in range(30)) + " |"
COLOUR = "(element) => getComputedStyle(element).color"


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page) as page:
        yield page


async def says(page: ChatPage, text: str) -> None:
    await page.asked(f"repeat after me: {text}")


async def test_formulas_are_mathml_and_money_is_not(page: ChatPage) -> None:
    await says(page, "It is \\(a^2\\) and \\[b\\] for $5 or $6.\n\n$$\n\\frac{c}{d}\n$$\n\n\\(\\unknowncommand{\\)")
    formulas = page.answers.locator(".formula")
    await expect(formulas.locator("math")).to_have_count(3)
    await expect(formulas.locator("mfrac")).to_have_count(1)
    await expect(page.answers.locator("p").first).to_contain_text("for $5 or $6.")
    await expect(formulas.last).to_have_text("\\unknowncommand{")


RENDERED = """async (texts) => {
  const { elementsOf, renderBlocks } = await import("/static/markdown.js");
  const elements = (text) => elementsOf(renderBlocks(text).blocks.map(({ html }) => html));
  return texts.map((text) => elements(text).map((element) => element.innerHTML).join(""));
}"""


async def rendered(page: ChatPage, texts: list[str]) -> list[str]:
    """The HTML of each text, without the elements of its blocks."""
    shown: list[str] = await page.tab.evaluate(RENDERED, texts)
    return shown


BOLD = """\
これは**私のやりたかったこと。**だからするの。
カッコに注意**（太字にならない）**文が続く場合に要警戒。
**[リンク](https://example.com)**も注意。（画像も同様）
先頭の**`コード`も注意。**
税込**¥10,000**で入手できます。
太郎は**"Hello"**といった
Go**「初心者」**を対象とした記事です。
**真“**她
**真—**她
真**“她”**她
**真。**她
𰻞𰻞**(ビャンビャン)**麺
葛󠄀**(こちらが正式表記)**城市
大塚︀**(U+585A U+FE00)** 大塚**(U+FA10)**
a**〽**a
**스크립트(script)**라고
ᅡ**(a)**""".splitlines()
"""From the examples of the CommonMark CJK-friendly Amendments; without them none of these is bold everywhere."""

NOT_BOLD = ["a**a«**a", "a**»a**a", "a**∇a**a", "a**a𝜵**a", "a**𐬻a**a", "她** 真**她"]


async def test_emphasis_beside_cjk_punctuation(page: ChatPage) -> None:
    for text, html in zip(BOLD, await rendered(page, BOLD), strict=True):
        assert "<strong>" in html and "*" not in html, text
    assert await rendered(page, NOT_BOLD) == NOT_BOLD
    assert await rendered(page, ["真_（她）_她", "__注意：__ 必ず"]) == ["真_（她）_她", "<strong>注意：</strong> 必ず"]


async def test_a_dollar_begins_a_formula_by_the_rule_of_pandoc(page: ChatPage) -> None:
    money = ["from $5 to $10", "$20,000 and $30,000", "$5/$6 a month", "set $HOME and $PATH", "$5, `a=$b`", "\\$a$"]
    for text, html in zip(money, await rendered(page, money), strict=True):
        assert "formula" not in html, text
    [html] = await rendered(page, ["$x$, $n$th of $5 and $a\\$b$; $\n$"])
    assert re.findall(r'data-tex="(.*?)"', html) == ["x", "n", "a\\$b"]


async def test_tags_that_markdown_lacks_have_no_attributes(page: ChatPage) -> None:
    [html, folded, text] = await rendered(
        page,
        [
            "H<sub onclick='x'>2</sub>O, 10<SUP>2</SUP>, <kbd style='color: red'>**Enter**</kbd>",
            "<details open ontoggle='x' name='n' class='c'><summary id='i'>More</summary>*hidden* at first</details>",
            "a <sub>b and <script>c</script> <kbd/>",
        ],
    )
    assert html == "H<sub>2</sub>O, 10<sup>2</sup>, <kbd><strong>Enter</strong></kbd>"
    assert folded == "<summary>More</summary><p><em>hidden</em> at first</p>"
    assert text == "a &lt;sub&gt;b and &lt;script&gt;c&lt;/script&gt; &lt;kbd/&gt;"
    await says(page, "<details>\n<summary>More</summary>\n\nhidden at first\n\n</details>")
    await expect(page.answers.get_by_text("hidden at first")).to_be_hidden()
    await page.answers.get_by_text("More", exact=True).click()
    await expect(page.answers.get_by_text("hidden at first")).to_be_visible()


async def test_tasks_alerts_and_notes(page: ChatPage) -> None:
    await says(page, "> [!WARNING]\n> Hot[^1]\n\n- [x] one\n- [ ] two\n\n[^1]: It is *really* hot.")
    await expect(page.answers.locator(".alert.warning .alert-title")).to_contain_text("Warning")
    await expect(page.answers.get_by_role("img", name="Done", exact=True)).to_have_count(1)
    await expect(page.answers.get_by_role("img", name="To do", exact=True)).to_have_count(1)

    mark, note = page.answers.locator(".note-mark a"), page.answers.locator(".notes li")
    await expect(note.locator("em")).to_have_text("really")
    address = page.tab.url
    await mark.click()
    await expect(note).to_be_focused()
    await note.get_by_role("link", name="Back to the text").click()
    await expect(mark).to_be_focused()
    assert page.tab.url == address, "the address names the session"


async def test_each_block_has_the_direction_of_its_text(page: ChatPage) -> None:
    await says(
        page, "مرحبا بالعالم\n\nHello\n\n- واحد\n\n| שלום |\n|---|\n| one |\n\n> مرحبا\n>\n> Hello\n\n```\nx\n```"
    )
    directions = await page.answers.locator(".blocks > *").evaluate_all(
        "(blocks) => blocks.map((block) => getComputedStyle(block).direction)"
    )
    assert directions[:3] == ["rtl", "ltr", "rtl"]
    assert directions[4] == "rtl"
    for selector in ("th", "td", "blockquote p"):
        for element in await page.answers.locator(selector).all():
            assert await element.evaluate("(element) => getComputedStyle(element).unicodeBidi") == "plaintext"
    await expect(page.answers.locator("pre")).to_have_attribute("dir", "ltr")


async def test_a_wide_table_scrolls_and_the_page_does_not(page: ChatPage) -> None:
    await says(page, f"{WIDE}\n{'|---' * 30}|\n{WIDE}\n\n| a |\n|---|\n| one<br>two |")
    table = page.answers.locator(".table").first
    assert await table.evaluate("(table) => table.scrollWidth > table.clientWidth + 100")
    assert await page.by("messages").evaluate("(view) => view.scrollWidth <= view.clientWidth")
    await table.focus()
    await page.tab.keyboard.press("ArrowRight")
    await page.tab.wait_for_function("(table) => table.scrollLeft > 0", arg=await table.element_handle())
    await expect(page.answers.locator("td br")).to_have_count(1)


async def test_svg_and_data_images_are_images_and_never_part_of_the_page(page: ChatPage) -> None:
    await says(page, f"![a box]({SVG})\n\n[a link]({SVG})\n\n<svg><circle/></svg>")
    image = page.answers.get_by_role("img", name="a box")
    await expect(image).to_have_js_property("naturalWidth", 40)
    await expect(page.answers.locator(".rich-text svg")).to_have_count(0)
    assert await page.answers.locator("a").get_attribute("href") is None


async def test_code_has_a_head_that_sticks_and_colours_of_both_themes(
    browser: Browser, shared_server: RunningServer
) -> None:
    colours = set()
    async with chat_page(browser, shared_server.address) as page:
        await says(
            page,
            "```python\n" + "def f(): return 'x'\n" * 100 + "```\n\n```mermaid\ngraph TD\n```\n\n```nolang\nx\n```",
        )
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for scheme in schemes:
            await page.tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            await page.tab.reload()
            await page.ended()
            keyword = page.answers.locator(".hljs-keyword").first
            colours.add(await keyword.evaluate(COLOUR))
            await expect(page.answers.locator("code").first).to_have_text(
                "def f(): return 'x'\n" * 100, use_inner_text=True
            )
            await expect(page.answers.get_by_role("button", name="Copy diagram source")).to_have_count(1)
            await expect(page.answers.locator("code").last).to_have_text("x\n", use_inner_text=True)

            await page.by("messages").evaluate("(view) => { view.scrollTop = view.scrollHeight / 2; }")
            head = page.answers.locator(".code-head").first
            below = "([head, view]) => head.getBoundingClientRect().top - view.getBoundingClientRect().top"
            handles = [await head.element_handle(), await page.by("messages").element_handle()]
            await page.tab.wait_for_function(f"(given) => Math.abs(({below})(given)) < 2", arg=handles)
    assert len(colours) == 2


async def test_long_code_is_folded_when_it_is_shown_and_copied_whole(
    page: ChatPage, shared_server: RunningServer
) -> None:
    code = "\n".join(f"line {number}" for number in range(1_000))
    await page.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    async with chat(shared_server.address) as client:
        final = (await client.ask(f"repeat after me: ```\n{code}\n```", agent_id="assistant"))[-1]
    await page.open(f"#s={final['session_id']}")
    await page.ended()
    shown = page.answers.locator("code")
    await expect(shown).to_contain_text("line 29\n")
    await expect(shown).not_to_contain_text("line 30")
    await page.answers.get_by_role("button", name="Copy", exact=True).click()
    await expect(page.answers.get_by_role("button", name="Copied")).to_be_visible()
    await page.copied(f"{code}\n")
    await page.answers.get_by_role("button", name="Show all 1,000 lines").click()
    await expect(shown).to_contain_text("line 999")
    await expect(page.answers.locator("pre")).to_be_focused()


async def test_a_question_of_20_000_lines_is_folded(page: ChatPage, shared_server: RunningServer) -> None:
    text = "hello\n" + "\n".join(f"paste {number}" for number in range(20_000))
    async with rest(shared_server) as http:
        session = (await http.post("/sessions", json={})).json()
        await http.post(f"/sessions/{session['id']}/messages", json={"content": text})
    await page.open(f"#s={session['id']}")
    await page.ended()
    question = page.by("message-user")
    await expect(question).to_contain_text("paste 5")
    await expect(question).not_to_contain_text("paste 50")
    unfold = question.get_by_role("button", name="Show all 20,001 lines")
    await expect(unfold).to_have_attribute("aria-expanded", "false")
    await unfold.click()
    await expect(question).to_contain_text("paste 19999")
    await question.get_by_role("button", name="Show less").click()
    await expect(question).not_to_contain_text("paste 50")
