"""What is copied of a conversation: its texts, as rich text and as text, without the page's own words and colours."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import expect
from support.chat_page import ChatPage, new_chat_in

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

ANSWER = """# Head

It is \\(x^2\\), **so**:

- [x] done
- two [there](https://example.org/)

```python
def f():
    return "x"
```

| a | b |
|---|--:|
| 1 | 2 |"""
CODE = '<pre dir="ltr"><code class="language-python">def f():\n    return "x"\n</code></pre>'
RICH = (
    '<h1 dir="auto">Head</h1><p dir="auto">It is \\(x^2\\), <strong>so</strong>:</p><ul dir="auto"><li>☑ done</li>'
    f'<li>two <a href="https://example.org/">there</a></li></ul><div>{CODE}</div>'
    "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>"
)
TEXT = 'Head\n\nIt is \\(x^2\\), so:\n\n☑ done\ntwo there\ndef f():\n    return "x"\n\na\tb\n1\t2'


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page, agent="assistant") as page:
        await page.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield page


async def select(page: ChatPage, start: str, end: str | None = None) -> None:
    """Select from the beginning of what matches the one selector to the end of what matches the other."""
    await page.tab.evaluate(
        """([start, end]) => {
          const [first, last] = [start, end ?? start].map((selector) => document.querySelector(selector));
          getSelection().setBaseAndExtent(first, 0, last, last.childNodes.length);
        }""",
        [start, end],
    )


async def test_texts_are_copied_rich_and_plain(page: ChatPage) -> None:
    await page.asked(f"repeat after me: {ANSWER}")
    await expect(page.answers.locator("math")).to_be_attached()
    await expect(page.answers.locator(".hljs-keyword").first).to_be_attached()
    await page.by("copy-answer").click()
    assert await page.copied(ANSWER) == RICH
    await page.answers.locator(".copy-code").click()
    assert await page.copied('def f():\n    return "x"\n') == CODE
    await page.by("copy-question").click()
    assert await page.copied(f"repeat after me: {ANSWER}") is None

    await select(page, ".answer .blocks")
    await page.tab.keyboard.press("Control+c")
    assert await page.copied(TEXT) == RICH
    await select(page, "body")
    await page.tab.keyboard.press("Control+c")
    await page.copied(f"You\n\nrepeat after me: {ANSWER}\n\nassistant\n{TEXT}")
    # A part of a formula is all of it, a line of code is code.
    await select(page, ".answer math mi", ".answer p strong")
    await page.tab.keyboard.press("Control+c")
    assert await page.copied("\\(x^2\\), so") == "\\(x^2\\), <strong>so</strong>"
    await select(page, ".answer pre code")
    await page.tab.keyboard.press("Control+c")
    assert await page.copied('def f():\n    return "x"') == CODE
