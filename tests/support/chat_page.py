"""The chat page as its user sees it, in a browser that records all problems.

A console error, an uncaught exception, a violation of the content security policy, or a request to any host except the
server and the sign-in server fails the test, unless the test has announced it with `provokes`.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

PATIENCE_MS = 30_000

expect.set_options(timeout=PATIENCE_MS)

_REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", ({ effectiveDirective, blockedURI }) =>
  console.error(`policy violated: ${effectiveDirective} ${blockedURI}`));
"""

# Copying is asynchronous, and nothing can be read while something is being copied.
_COPIED = """async ([text, more]) => {
  for (let tries = 0; ; tries += 1) {
    try {
      const [item] = await navigator.clipboard.read();
      const read = async (type) => (await item.getType(type)).text();
      const found = await Promise.all(item.types.toSorted().map(read));
      const plain = found.at(-1);
      if ((more ? plain?.startsWith(text) : plain === text) || tries > 300) return found;
    } catch (error) {
      if (error.name !== "InvalidStateError") throw error;
    }
    await new Promise(requestAnimationFrame);
  }
}"""

Shown = tuple[str, str]
"""A message as the user sees it: `asked`, `observed`, `called`, `result` or `answered`, and its text."""


class Watch:
    """Records the problems in all tabs of a browser context."""

    def __init__(self, context: BrowserContext, addresses: tuple[str, ...]) -> None:
        self._hosts = {urlsplit(address).netloc for address in addresses}
        self._problems: list[str] = []
        self._provoked: list[str] = []
        context.on("console", lambda message: message.type == "error" and self._note(f"console: {message.text}"))
        context.on("weberror", lambda error: self._note(f"uncaught: {error.error}"))
        context.on("request", lambda request: self._requested(request.url))
        context.on("page", lambda page: page.on("websocket", lambda socket: self._requested(socket.url)))

    def provokes(self, pattern: str) -> None:
        self._provoked.append(pattern)

    @property
    def problems(self) -> list[str]:
        return [note for note in self._problems if not any(re.search(pattern, note) for pattern in self._provoked)]

    def _note(self, problem: str) -> None:
        self._problems.append(problem)

    def _requested(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.netloc not in self._hosts:
            self._note(f"outside request: {url}")


class ChatPage:
    """One tab. `tab` is Playwright's page."""

    def __init__(self, tab: Page, address: str, watch: Watch) -> None:
        self.tab = tab
        self._address = address
        self._watch = watch
        self.composer = self.by("composer")
        self.answers = self.by("message-final")
        self.exchanges = tab.locator("section.exchange")
        """Those near the view: the others have only their place."""
        self.places = tab.locator(".slot")

    def by(self, test_id: str) -> Locator:
        return self.tab.get_by_test_id(test_id)

    def provokes(self, pattern: str) -> None:
        """Ignore problems that match `pattern`: the test provokes them."""
        self._watch.provokes(pattern)

    @property
    def problems(self) -> list[str]:
        """The unprovoked problems so far in all tabs of the window."""
        return self._watch.problems

    async def open(self, fragment: str = "") -> None:
        await self.tab.goto(f"{self._address}/{fragment}")
        await expect(self.composer.or_(self.tab.get_by_role("alert")).first).to_be_visible()

    async def another_tab(self, fragment: str = "") -> "ChatPage":
        """A second tab of the same browser window."""
        other = ChatPage(await self.tab.context.new_page(), self._address, self._watch)
        await other.open(fragment)
        return other

    async def start_new_chat(self) -> None:
        """Leave the conversation for a new one, and wait until the page shows nothing of the old one."""
        await self.by("new-chat").click()
        await expect(self.places).to_have_count(0)
        await expect(self.exchanges).to_have_count(0)

    async def choose_agent(self, agent_id: str) -> None:
        """Choose whom the new conversation asks."""
        await self.by("agent-picker").click()
        await self.tab.locator(f'[data-testid=agent-option][data-agent="{agent_id}"]').click()

    async def sign_out(self) -> None:
        await self.by("account-menu").click()
        await self.by("sign-out").click()

    async def ask(self, text: str) -> None:
        await self.composer.fill(text)
        await self.composer.press("Enter")

    async def asked(self, text: str, *, status: str = "ok") -> None:
        """Ask, and wait until the exchange has ended with `status`."""
        before = await self.places.count()
        await self.ask(text)
        await self.ended(status, exchanges=before + 1)

    async def ended(self, status: str = "ok", *, exchanges: int = 1) -> None:
        """Wait until the page has this number of `exchanges` and the last one has `status`."""
        await expect(self.places).to_have_count(exchanges)
        await expect(self.exchanges.last).to_have_attribute("data-status", status)

    async def writes(self, words: int = 3) -> None:
        """Wait until an answer that is being written has this number of words."""
        pattern = re.compile(rf"(\S+\s+){{{words}}}")
        await expect(self.answers.and_(self.tab.locator("[data-streaming=true]"))).to_have_text(pattern)

    async def copied(self, text: str, *, more: bool = False) -> str | None:
        """Wait until this text, or one that begins with it, is copied; the HTML that is copied with it.

        The tab needs the permission `clipboard-read`.
        """
        *html, found = await self.tab.evaluate(_COPIED, [text, more])
        assert found.startswith(text) if more else found == text
        return html[0] if html else None

    @property
    def session_id(self) -> str:
        """The session in the address."""
        return urlsplit(self.tab.url).fragment.removeprefix("s=")

    async def unfold(self) -> None:
        """Unfold the run of every exchange that is in the page, once there is one."""
        await expect(self.by("run-head").first).to_be_visible()
        await self._unfold()

    async def _unfold(self) -> None:
        folded = self.tab.locator(".run-head[aria-expanded=false]")
        while await folded.count():
            await folded.first.click()
        # The first waits for its component.
        await expect(self.tab.locator(".run.open:not(:has(.steps))")).to_have_count(0)

    async def shown(self) -> list[Shown]:
        """All messages, from top to bottom; their runs are unfolded."""
        await self._unfold()
        items: list[list[str]] = await self.tab.evaluate(_SHOWN)
        return [(kind, plain(text)) for kind, text in items]


_SHOWN = """() => {
  const kinds = {
    "message-user": ["asked", "p"],
    "observation": ["observed", ".rich-text"],
    "tool-card": ["called", null],
    "tool-result": ["result", null],
    "message-final": ["answered", ".rich-text"],
  };
  const selector = Object.keys(kinds).map((id) => `[data-testid=${id}]`).join();
  return [...document.querySelectorAll(selector)].map((element) => {
    const [kind, inner] = kinds[element.dataset.testid];
    if (kind === "called") return [kind, element.dataset.tool];
    const shown = inner ? element.querySelector(inner) : element;
    if (inner !== ".rich-text" || !shown) return [kind, shown?.textContent ?? ""];
    const blocks = [...shown.querySelectorAll(":scope > .blocks > *")];
    return [kind, blocks.map((block) => block.textContent).join(" ")];
  });
}"""


def shown_of(messages: list[dict[str, Any]]) -> list[Shown]:
    """The expected view of stored messages whose Markdown has only paragraphs and code."""
    shown: list[Shown] = []
    results = {
        (message["exchange_id"], part["call_id"]): part
        for message in messages
        for part in message["parts"]
        if "content" in part
    }
    for message in messages:
        for part in message["parts"]:
            if part["type"] == "tool_call":
                result = results[message["exchange_id"], part["call_id"]]
                shown += [("called", part["name"]), ("result", plain(result["content"]))]
            elif message["metadata"].get("extras", {}).get("resumes"):
                # The question is shown only at its first place.
                continue
            elif part["type"] == "text" and message["channel"] in ("final", "observation"):
                said = "answered" if message["channel"] == "final" else "observed"
                shown.append(("asked" if message["role"] == "user" else said, plain(part["text"])))
    return shown


def plain(text: str) -> str:
    return " ".join(text.replace("`", "").split())


@asynccontextmanager
async def chat_page(browser: Browser, address: str, fragment: str = "", **options: Any) -> AsyncIterator[ChatPage]:
    """The page of the server at `address` in a new window with these `options`."""
    async with window(browser, address, **options) as (context, watch):
        page = ChatPage(await context.new_page(), address, watch)
        await page.open(fragment)
        yield page


@asynccontextmanager
async def new_chat_in(page: ChatPage, *, agent: str | None = None) -> AsyncIterator[ChatPage]:
    """A new conversation in a page that several tests share, for a third of the cost of a page.

    It asks `agent`; None: whoever was chosen last.

    Such tests leave nothing in the page: nothing typed, no route, no setting, and nothing that they have announced.
    Their other tabs are closed.
    """
    await page.start_new_chat()
    if agent and await page.by("agent-picker").get_attribute("data-agent") != agent:
        await page.choose_agent(agent)
    yield page
    for tab in page.tab.context.pages:
        if tab is not page.tab:
            await tab.close()
    assert page.problems == [], page.problems


@asynccontextmanager
async def window(browser: Browser, *addresses: str, **options: Any) -> AsyncIterator[tuple[BrowserContext, Watch]]:
    """An empty window whose pages may send requests to these addresses only.

    Without `reduced_motion` its user wants no motion: what moves costs a quarter of a core without a graphics card.
    """
    context = await browser.new_context(**{"reduced_motion": "reduce"} | options)
    try:
        context.set_default_timeout(PATIENCE_MS)
        await context.add_init_script(_REPORT_VIOLATIONS)
        watch = Watch(context, addresses)
        try:
            yield context, watch
        except BaseException as error:
            error.add_note(f"The browser noted: {watch.problems}")
            raise
        assert watch.problems == [], watch.problems
    finally:
        await context.close()
