"""What long sessions cost the page: to open one of 200 messages, to scroll through 5,000, to hold 500 answers."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from browser import traced
from figures import median, percentile
from playwright.async_api import Browser, Page

from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, TokenUsage
from agentic_backend.protocol.parts import TextPart
from agentic_backend.stores.base import ExchangeEnd, Fence
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, SessionRecord
from agentic_backend.stores.sqlite import SqliteStore

ROUNDS = 5
USER = "developer"
MESSAGES = {"opened": 200, "held": 1_000, "scrolled": 5_000}
"""The sessions, and how many messages each has; every second one is an answer."""

_PATIENCE_MS = 60_000
_SCROLL_S = 4
_WINDOW = {"width": 1280, "height": 800}

_ANSWER = """The train to **Lindau** leaves at 9:{minute:02}. There are three things to know, `none` is urgent:

- It has no restaurant, so bring something along.
- Seats are *not* reserved, except in coach 7.
- In Ulm you have {minute} minutes to change.

| stop | arrives | leaves |
|---|---|---|
| Ulm | 10:{minute:02} | 10:{minute:02} |
| Ravensburg | 11:04 | 11:05 |

```python
def leaves(minute: int) -> str:
    return f"9:{{minute:02}}"
```

Ask again when you know [which way](https://example.org/{number}) you come back.
"""


async def store_sessions(file: Path) -> None:
    """Store the sessions in the database of a server that does not run yet. Their ids are the keys of MESSAGES."""
    store = await SqliteStore.open(file, timeout_s=60)
    try:
        for session_id, messages in MESSAGES.items():
            await _store(store, session_id, messages // 2)
    finally:
        await store.aclose()


async def _store(store: SqliteStore, session_id: str, exchanges: int) -> None:
    now = datetime.now(UTC)
    fields = {"user_id": USER, "agent_id": "no-delay"}
    session = SessionRecord(id=session_id, title=session_id, created_at=now, updated_at=now, **fields)
    await store.create_session(session)
    for number in range(exchanges):
        id = f"{session_id}-{number}"
        exchange = ExchangeRecord(id=id, session_id=session_id, request_id=id, started_at=now, **fields)
        begun = await store.begin_exchange(exchange, _said(Role.USER, f"When does train {number} leave?"))
        text = _ANSWER.format(number=number, minute=number % 60)
        end = ExchangeEnd(status=ExchangeStatus.OK, usage=TokenUsage(), last_seq=4)
        await store.append(Fence(session_id, id, begun.session.next_rank), [_said(Role.ASSISTANT, text)], end)


def _said(role: Role, text: str) -> MessageDraft:
    return MessageDraft(role=role, channel=Channel.FINAL, parts=[TextPart(text=text)])


@dataclass(frozen=True)
class Opened:
    """From the choice of the session to its newest answer on the screen, and the main thread's CPU until it rests."""

    shown_ms: float
    cpu_ms: float


async def opens(browser: Browser, address: str) -> Opened:
    """A session of 200 messages is opened on a page that has just been loaded."""
    times, cpu = [], []
    for _ in range(ROUNDS):
        async with await browser.new_context(viewport=_WINDOW) as context:
            tab = await context.new_page()
            await tab.goto(address)
            await tab.get_by_test_id("composer").wait_for()
            await tab.wait_for_load_state("networkidle")
            times.append(await tab.evaluate(_OPEN, "opened"))
        async with await browser.new_context(viewport=_WINDOW) as context:
            # A trace slows the page, so it is a load of its own.
            tab = await context.new_page()
            await tab.goto(address)
            await tab.get_by_test_id("composer").wait_for()
            await tab.wait_for_load_state("networkidle")
            async with traced(browser, tab) as traces:
                await tab.evaluate(_OPEN, "opened")
                await tab.wait_for_load_state("networkidle")
                await asyncio.sleep(0.5)
            cpu.append(traces[0].cpu_ms)
    return Opened(median(times), median(cpu))


_OPEN = """(id) => new Promise((resolve) => {
  const began = performance.now();
  const shown = () => {
    const answers = document.querySelectorAll("[data-testid=message-final]");
    const last = answers[answers.length - 1]?.getBoundingClientRect();
    return last && last.height > 100 && last.top < innerHeight;
  };
  const wait = () => requestAnimationFrame(() => (shown() ? resolve(performance.now() - began) : wait()));
  location.hash = `s=${id}`;
  wait();
})"""


async def nodes_of_500_answers(browser: Browser, address: str) -> int:
    """All nodes of the document, texts included, when every message of the session has been on the screen."""
    async with await browser.new_context(viewport=_WINDOW) as context:
        tab = await context.new_page()
        await _show(tab, address, "held")
        await _to_first(tab)
        nodes: int = await tab.evaluate(_NODES)
        return nodes


_NODES = """() => {
  const walker = document.createTreeWalker(document, NodeFilter.SHOW_ALL);
  let nodes = 1;
  while (walker.nextNode()) nodes += 1;
  return nodes;
}"""


@dataclass(frozen=True)
class Scrolled:
    """The times between frames while the view moves, in ms, and the nodes at the end."""

    p95_ms: float
    most_ms: float
    nodes: int


async def scrolls(browser: Browser, address: str) -> Scrolled:
    """The wheel is turned upwards through the session of 5,000 messages, as fast as a hand does."""
    async with await browser.new_context(viewport=_WINDOW) as context:
        tab = await context.new_page()
        await _show(tab, address, "scrolled")
        session = await context.new_cdp_session(tab)
        await tab.evaluate(_COUNT_FRAMES)
        gesture = {"x": 700, "y": 400, "yDistance": 3_000 * _SCROLL_S, "speed": 3_000, "gestureSourceType": "mouse"}
        await session.send("Input.synthesizeScrollGesture", gesture)
        frames: list[float] = await tab.evaluate("() => window.frames_ms")
        return Scrolled(percentile(frames, 95), max(frames), await tab.evaluate(_NODES))


_COUNT_FRAMES = """() => {
  window.frames_ms = [];
  let last = performance.now();
  const frame = (now) => {
    window.frames_ms.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""


@dataclass(frozen=True)
class Pasted:
    """20,000 lines are pasted into the composer: until they are shown, and then until a typed letter is, in ms."""

    paste_ms: float
    letter_ms: float


async def pastes(browser: Browser, address: str) -> Pasted:
    async with await browser.new_context(viewport=_WINDOW) as context:
        tab = await context.new_page()
        await tab.goto(address)
        await tab.get_by_test_id("composer").focus()
        paste_ms: float = await tab.evaluate(_PASTE, "\n".join(f"{number} a line" for number in range(20_000)))
        await tab.evaluate(_TIME_LETTERS)
        for _ in range(ROUNDS):
            await tab.keyboard.press("x")
            await tab.wait_for_timeout(300)
        return Pasted(paste_ms, median(await tab.evaluate("() => window.letters_ms")))


_PASTE = """(text) => new Promise((resolve) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", text);
  const began = performance.now();
  const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
  document.activeElement.dispatchEvent(event);
  requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)));
})"""

_TIME_LETTERS = """() => {
  window.letters_ms = [];
  addEventListener("keydown", ({ timeStamp }) => {
    requestAnimationFrame(() => setTimeout(() => window.letters_ms.push(performance.now() - timeStamp)));
  });
}"""


async def _show(tab: Page, address: str, session_id: str) -> None:
    await tab.goto(f"{address}/#s={session_id}")
    await tab.get_by_test_id("message-final").last.wait_for(timeout=_PATIENCE_MS)
    await tab.wait_for_load_state("networkidle")


async def _to_first(tab: Page) -> None:
    """Read and scroll until the session's first question is shown."""
    first = tab.get_by_text("When does train 0 leave?", exact=True)
    view = tab.get_by_test_id("messages")
    for _ in range(400):
        if await first.count():
            return
        await view.evaluate("(view) => { view.scrollTop = 0; }")
        earlier = tab.get_by_test_id("load-earlier")
        if await earlier.count():
            await earlier.first.evaluate("(button) => button.click()")
        await tab.wait_for_timeout(100)
    raise AssertionError("the first message was not reached")
