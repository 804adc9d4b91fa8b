"""Sources are numbered in an answer and listed below it, as links that open."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import expect
from support.chat_page import ChatPage, new_chat_in
from support.running_server import RunningServer, running_server
from support.shipped_agents import SHIPPED

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path_factory.mktemp("server"), agents=SHIPPED) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def page(shared_page: ChatPage) -> AsyncIterator[ChatPage]:
    async with new_chat_in(shared_page) as page:
        yield page


async def test_the_shipped_documentation_agent_cites_what_opens(page: ChatPage) -> None:
    await page.choose_agent("documentation")
    await page.asked("Search the documents for close codes")
    marks, sources = page.answers.locator("a.citation"), page.by("source")
    await expect(sources.first).to_contain_text("Chat Protocol v2: Close codes")
    await expect(marks.first).to_have_text("[1]")
    # Two of them are passages of one document.
    await expect(marks).to_have_text(["[1]", "[2]", "[3]"])
    await expect(sources).to_have_count(3)

    await marks.last.click()
    await expect(sources.last).to_have_class("source current")
    await expect(sources.last).to_be_in_viewport()
    await expect(sources.last.get_by_role("link")).to_be_focused()
    assert "#s=" in page.tab.url

    await page.unfold()
    await page.by("tool-card").get_by_role("button").click()
    await expect(page.by("tool-result")).to_be_visible()
    await expect(page.by("tool-card").locator(".chip")).to_have_count(0)

    link = sources.first.get_by_role("link")
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    async with page.tab.context.expect_page() as opened:
        await link.click()
    document = await opened.value
    assert document.url.endswith("/documents/chat-protocol.md")
    await expect(document.locator("pre")).to_contain_text("# Chat Protocol v2")
    await document.close()

    await page.tab.reload()
    await expect(page.answers.locator("a.citation").first).to_have_text("[1]")
    await expect(page.by("trust")).to_be_visible()


LINKED = """async ([text, sources]) => {
  const { linkCitations } = await import("/static/citations.js");
  const { sourcesOf } = await import("/static/sources.js");
  const root = document.createElement("div");
  root.innerHTML = text;
  const item = { parts: [{ type: "text", text: root.textContent }], metadata: { sources } };
  linkCitations(root, sourcesOf({ messages: [] }, item), (number) => `s${number}`);
  return root.innerHTML.replaceAll(/ class="citation"| aria-label="[^"]*"/g, "");
}"""


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("a [1], b [1, 2]", 'a <a href="#s1">[1]</a>, b <a href="#s1">[1]</a><a href="#s2">[2]</a>'),
        ("a [3]", "a [3]"),
        ("<code>a[1]</code> <pre>[1]</pre>", "<code>a[1]</code> <pre>[1]</pre>"),
        ('<a href="x">[1]</a>', '<a href="x">[1]</a>'),
        ("[1] &lt;img src=x onerror=alert(1)&gt;", '<a href="#s1">[1]</a> &lt;img src=x onerror=alert(1)&gt;'),
    ],
)
async def test_only_marks_of_known_sources_become_links(page: ChatPage, text: str, linked: str) -> None:
    sources = [{"number": 1, "title": "One"}, {"number": 2, "title": "Two", "url": "https://example.org"}]
    assert await page.tab.evaluate(LINKED, [text, sources]) == linked


NUMBERED = """async (parts) => {
  const { sourcesOf } = await import("/static/sources.js");
  return sourcesOf({ messages: [] }, { parts, metadata: {} }).map(({ number }) => number);
}"""


async def test_two_passages_below_one_heading_are_two_sources(page: ChatPage) -> None:
    one = {"type": "link", "kind": "citation", "source_id": "1", "title": "Terms", "panel": "a/b"}
    parts = [one | {"panel_data": {"start": 0}}, one | {"source_id": "2", "panel_data": {"start": 9}}]
    assert await page.tab.evaluate(NUMBERED, parts) == [1, 2]
    assert await page.tab.evaluate(NUMBERED, [one, one]) == [1]


SHOWN = """async (sources) => {
  const { html, render } = await import("/static/components/html.js");
  const { Sources } = await import("/static/components/sources.js");
  const root = document.createElement("div");
  render(html`<${Sources} sources=${sources} idOf=${(number) => `s${number}`} />`, root);
  return [...root.querySelectorAll(".source")].map((source) => ({
    href: source.querySelector("a")?.href ?? null,
    text: source.textContent.trim(),
    images: source.querySelectorAll("img").length,
  }));
}"""


async def test_a_hostile_source_is_text_and_leads_nowhere(page: ChatPage) -> None:
    hostile = [
        {"number": 1, "title": "<img src=x onerror=alert(1)>", "href": "javascript:alert(1)"},
        {"number": 2, "title": "data", "href": "data:text/html,<script>alert(1)</script>"},
        {"number": 3, "title": "fine", "href": "https://example.org/a?b=c"},
    ]
    shown = await page.tab.evaluate(SHOWN, hostile)
    assert [one["href"] for one in shown] == [None, None, "https://example.org/a?b=c"], json.dumps(shown)
    assert all(one["images"] == 0 for one in shown)
    assert "<img src=x" in shown[0]["text"]
