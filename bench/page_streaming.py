"""What a streaming answer costs the page: the main thread's CPU time for each frame, from Chromium's own trace.

A frame's cost is the CPU time of all of the main thread's tasks since the frame before: what arrives on the socket,
what preact and the Markdown renderer make of it, colours, style, layout and paint.
"""

import asyncio
import json
from collections import Counter
from typing import Any

from playwright.async_api import Browser

AGENTS = {
    "mixed": "18 kB of mixed text",
    "list": "one long list",
    "table": "one long table",
    "long": "78 kB",
    "usual": "18 kB at 100 tokens/s",
}
"""The texts by the agent that writes each."""

TARGET_MS = 4.0
_LONGEST_S = 120.0
_CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline"]
_FRAME = "Commit"

_ENDED = """() => new Promise((ended) => {
  const isOver = () => document.querySelector("section.exchange[data-status=ok]") !== null;
  const observer = new MutationObserver(() => isOver() && (observer.disconnect(), ended()));
  observer.observe(document.body, { attributeFilter: ["data-status"], subtree: true });
  if (isOver()) ended();
})"""
"""Resolves when the answer has ended. Playwright's own way to wait looks at the page in each frame."""

_APPENDED = """() => new Promise((ended) => {
  const answer = document.querySelector("[data-testid=message-final]");
  const scroller = answer.closest(".messages");
  const step = (frame) => {
    if (frame % 5 === 0) answer.append(document.createElement("p"));
    answer.lastChild.append("a word, another one, and ".repeat(5));
    scroller.scrollTop = scroller.scrollHeight;
    if (frame < 150) requestAnimationFrame(() => step(frame + 1));
    else ended();
  };
  step(0);
})"""
"""Some 130 letters in each frame, as fast as the answers stream, and the view goes along."""


async def measure(browser: Browser, address: str) -> dict[str, list[float]]:
    """For each text the CPU time in ms of each frame while it streams; `address` serves the agents above."""
    return {name: await _frames(browser, address, agent) for agent, name in AGENTS.items()}


async def measure_floor(browser: Browser, address: str) -> list[float]:
    """The same for plain text that a script appends below an answer: what is left is Chromium's own."""
    return await _frames(browser, address, "list", _APPENDED)


async def _frames(browser: Browser, address: str, agent: str, script: str = _ENDED) -> list[float]:
    """Traces until `script` has ended: while the answer streams, or, with another one, after its end."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        session = await context.request.post(f"{address}/agentic/v1/sessions", data={"agent_id": agent})
        tab = await context.new_page()
        await tab.goto(f"{address}/#s={(await session.json())['id']}")
        await tab.get_by_test_id("session-agent").wait_for()
        composer = tab.get_by_test_id("composer")
        await composer.fill("Write.")
        await composer.press("Enter")
        await tab.locator("[data-testid=message-final]").wait_for()
        if script != _ENDED:
            await asyncio.wait_for(tab.evaluate(_ENDED), _LONGEST_S)
        await browser.start_tracing(page=tab, categories=_CATEGORIES)
        await asyncio.wait_for(tab.evaluate(script), _LONGEST_S)
        trace = json.loads(await browser.stop_tracing())
    finally:
        await context.close()
    return frame_costs(trace["traceEvents"])


def frame_costs(events: list[dict[str, Any]]) -> list[float]:
    """The CPU time in ms that the tab's main thread spends on each frame that it hands over."""
    main = _main_thread(events)
    own = sorted((event for event in events if (event["pid"], event["tid"]) == main), key=lambda event: event["ts"])
    costs, cost = [], 0.0
    for event in own:
        if event["name"] == "RunTask":
            cost += event.get("tdur", 0) / 1000
        elif event["name"] == _FRAME:
            # Within its task, which has begun before.
            costs.append(cost)
            cost = 0.0
    return costs


def _main_thread(events: list[dict[str, Any]]) -> tuple[int, int]:
    """Of several renderers the tab's is the one that makes frames."""
    frames = Counter((event["pid"], event["tid"]) for event in events if event["name"] == _FRAME)
    return frames.most_common(1)[0][0]
