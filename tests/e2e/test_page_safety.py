"""The chat page and texts that nobody trusts: nothing in them runs, and nothing is asked of another host."""

import re

import httpx
import pytest
from playwright.async_api import expect
from support.chat_page import ChatPage
from support.recorded_agents import eventually
from support.rest_client import rest
from support.running_server import RunningServer

pytestmark = [pytest.mark.chromium, pytest.mark.asyncio(loop_scope="module")]

RUN = "window.executed=1"
HOSTILE = [
    f"<script>{RUN}</script>",
    '<script src="https://outside.example/x.js"></script>',
    f'<img src="x" onerror="{RUN}">',
    f'<svg onload="{RUN}"><use href="https://outside.example/x.svg#x"></svg>',
    f'<iframe srcdoc="<script>parent.executed=1</script>" src="javascript:parent.{RUN}"></iframe>',
    f'<details open ontoggle="{RUN}"><summary>more</summary></details>',
    f'<form action="https://outside.example"><button formaction="javascript:{RUN}">go</button></form>',
    '<style>@import url("https://outside.example/x.css"); * { display: none }</style>',
    '<link rel="stylesheet" href="https://outside.example/x.css"><base href="https://outside.example/">',
    '<meta http-equiv="refresh" content="0; url=https://outside.example/">',
    '<object data="https://outside.example/x"></object><embed src="https://outside.example/x">',
    f"[a link](javascript:{RUN})",
    f"[a link](JaVaScRiPt:{RUN})",
    f"[a link](&#106;avascript:{RUN})",
    f"[a link](\x01javascript:{RUN})",
    f"<javascript:{RUN}>",
    f"[a page](data:text/html,<script>opener.{RUN}</script>)",
    f'[a link](https://outside.example "\\" onmouseover=\\"{RUN}")',
    f'[a link](https://outside.example/"onmouseover="{RUN})',
    "![a picture](https://outside.example/pixel.png)",
    "![a picture](//outside.example/pixel.png)",
    "![a picture](http://outside.example/pixel.png)",
    f"![a picture](javascript:{RUN})",
    f'![a" onerror="{RUN}](x:y)',
    f"![a picture](data:image/svg+xml,%3Csvg%20xmlns=%22http://www.w3.org/2000/svg%22%20onload=%22{RUN}%22/%3E)",
    f'```<img/src=x/onerror="{RUN}">\n</code></pre><img src=x onerror="{RUN}">\n```',
    f"`</code><img src=x onerror={RUN}>`",
    f"| a |\n|---|\n| <img src=x onerror={RUN}> |",
    "&lt;script&gt;window.executed=1&lt;/script&gt;",
    '<button class="show-image" data-src="https://outside.example/pixel.png">show</button>',
    f"[a link](data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%20onload='{RUN}'/%3E)",
    f"\\(\\href{{javascript:{RUN}}}{{a}} \\url{{https://outside.example}} \\class{{show-image}}{{b}}\\)",
    "$$\\includegraphics{https://outside.example/pixel.png} \\htmlStyle{background:url(//outside.example)}{c}$$",
    f"\\(\\text{{</math><img src=x onerror={RUN}>}} \\color{{red;background:url(//outside.example/x)}}{{d}}\\)",
    "\\[\\def\\a{\\a\\a}\\a \\rule{99999em}{99999em}\\]",
    f'```show-image" onmouseover="{RUN}\n<b>\n```',
    f'a[^"onmouseover="{RUN}] b[^<img>]\n\n[^"onmouseover="{RUN}]: <img src=x onerror="{RUN}">\n[^<img>]: ![x](x:y)',
    f"> [!NOTE] <img src=x onerror={RUN}>\n> - [x] <img src=x onerror={RUN}>",
    "[a link](#s=another) [b](//outside.example#text-1-note-1)",
]

INSPECT = """() => {
  const elements = [...document.querySelectorAll("#page, #page *, head *")];
  const shown = [...document.querySelectorAll("[data-testid=message-final] *")];
  return {
    executed: window.executed ?? null,
    base: document.baseURI,
    handlers: elements.flatMap((e) => e.getAttributeNames()).filter((name) => /^on|^srcdoc$|^formaction$/.test(name)),
    links: shown.filter((e) => e.href && !e.matches(".note-link")).map((e) => [e.protocol, e.rel, e.target]),
    notes: shown.filter((e) => e.matches(".note-link")).map((e) => e.getAttribute("href")),
    sources: shown.filter((e) => e.src).map((e) => new URL(e.src).protocol),
    tags: [...new Set(shown.map((e) => e.localName))].sort(),
  };
}"""

MISBEHAVE = """async () => {
  const added = (name, properties) => document.body.append(Object.assign(document.createElement(name), properties));
  console.error("said aloud");
  setTimeout(() => { throw new Error("not caught"); });
  added("script", { textContent: "window.executed = 1" });
  await new Promise((failed) => added("img", { src: "https://outside.example/x.png", onerror: failed }));
  await fetch("https://outside.example/x").catch(() => {});
}"""

HARMLESS = set(
    "a article blockquote br button code details div em footer h1 h2 h3 h4 h5 h6 hr img li ol p path pre s section "
    "span strong summary sup svg table tbody td th thead tr ul math mi mo mn mrow mspace mstyle mtext".split()
)


async def assert_harmless(page: ChatPage, server: RunningServer) -> None:
    found = await page.tab.evaluate(INSPECT)
    assert found["executed"] is None
    assert found["base"].startswith(server.address)
    assert found["handlers"] == []
    assert {protocol for protocol, _, _ in found["links"]} <= {"https:", "http:", "mailto:"}
    assert all(rel == "noopener noreferrer" and target == "_blank" for _, rel, target in found["links"])
    assert all(re.fullmatch(r"#text-\d+-note-\d+(-mark)?", target) for target in found["notes"])
    assert set(found["sources"]) <= {"data:"}
    assert set(found["tags"]) <= HARMLESS
    assert page.problems == []
    assert len(page.tab.context.pages) == 1


async def test_hostile_markdown_runs_nothing_and_asks_nothing_of_another_host(
    page: ChatPage, chat_server: RunningServer
) -> None:
    for index, text in enumerate(HOSTILE, start=1):
        await page.ask(f"repeat after me: {text}")
        await page.ended(exchanges=index)
        # The page keeps only what is near: each answer is looked at while it is.
        for link in await page.answers.last.locator("a").all():
            await link.hover()
        await assert_harmless(page, chat_server)
    await page.asked("repeat after me: " + "\n\n".join(HOSTILE))
    await expect(page.answers.last).to_contain_text(f"<script>{RUN}</script>")
    await assert_harmless(page, chat_server)

    await page.tab.reload()
    await page.ended(exchanges=len(HOSTILE) + 1)
    await assert_harmless(page, chat_server)


async def test_hostile_texts_elsewhere_are_shown_as_they_are(page: ChatPage, chat_server: RunningServer) -> None:
    text = f"<img src=x onerror={RUN}>"
    await page.asked(f'call calculate(expression="{text}")')
    await page.unfold()
    await page.by("tool-card").get_by_role("button").click()
    await expect(page.by("tool-args")).to_contain_text(text)
    await expect(page.by("message-user")).to_contain_text(text)
    async with rest(chat_server) as client:
        response = await client.patch(f"/sessions/{page.session_id}", json={"title": text})
        assert response.status_code == 200
    await page.tab.reload()
    await expect(page.by("title")).to_have_text(text)
    await expect(page.by("session-item")).to_have_text(text)
    await assert_harmless(page, chat_server)


async def test_a_picture_of_another_host_is_loaded_when_its_reader_wants_it(page: ChatPage) -> None:
    await page.asked("repeat after me: ![a cat](https://outside.example/cat.png)")
    assert page.problems == []
    page.provokes(r"outside request: https://outside\.example/cat\.png$|ERR_NAME_NOT_RESOLVED")
    async with page.tab.expect_request("https://outside.example/cat.png") as request:
        await page.answers.get_by_role("button", name="Show image from outside.example: a cat").click()
    assert not (await (await request.value).all_headers()).get("referer")
    await expect(page.answers.get_by_role("img", name="a cat")).to_have_count(1)


async def test_the_page_and_its_files_forbid_what_they_do_not_need(chat_server: RunningServer) -> None:
    async with httpx.AsyncClient(base_url=chat_server.address) as client:
        pages = [await client.get(path) for path in ("/", "/static/main.js", "/static/style.css", "/agentic/v1/agents")]
    for response in pages:
        assert response.status_code == 200
        directives = dict(part.strip().split(" ", 1) for part in response.headers["content-security-policy"].split(";"))
        assert directives["default-src"] == "'none'"
        assert directives["script-src"] == directives["style-src"] == directives["connect-src"] == "'self'"
        assert directives["frame-ancestors"] == directives["base-uri"] == directives["form-action"] == "'none'"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["x-dns-prefetch-control"] == "off"


async def test_the_page_has_no_inline_script_and_no_inline_style(chat_server: RunningServer) -> None:
    async with httpx.AsyncClient(base_url=chat_server.address) as client:
        text = (await client.get("/")).text
    scripts = re.findall(r"<script([^>]*)>([^<]*)</script>", text)
    assert scripts and all("src=" in attributes and not body for attributes, body in scripts)
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|https?://", text)


async def test_the_browser_enforces_the_policy_and_these_tests_see_it(page: ChatPage) -> None:
    await page.tab.evaluate(MISBEHAVE)
    assert await page.tab.evaluate("window.executed") is None
    expected = [
        "console: said aloud",
        "uncaught: not caught",
        "policy violated: script-src-elem inline",
        "policy violated: connect-src https://outside.example/x",
        "outside request: https://outside.example/x.png",
    ]
    # The browser tells of them in its own time.
    await eventually(lambda: all(note in "\n".join(page.problems) for note in expected))
    page.provokes("")
