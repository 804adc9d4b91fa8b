"""`make bench-page`: what the chat page costs its users, in Chromium, each figure beside its target, in PAGE.md.

`python page.py PART…` measures single parts and prints their lines. The figures are of a machine that has nothing else
to do; CPU is that of the page's main thread, from Chromium's traces.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import page_loading
import page_sessions
import page_streaming
import servers
from figures import percentile
from playwright.async_api import Browser
from support.chromium import chromium

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Figure:
    """One line: what was measured, its target (None if it has none), and what was got, in `unit`."""

    name: str
    got: float
    unit: str
    target: float | None = None

    def line(self) -> str:
        wanted = "" if self.target is None else f"≤ {self.target:,g} {self.unit}"
        met = "" if self.target is None else ("yes" if self.got <= self.target else "**no**")
        return f"| {self.name} | {wanted} | {self.got:,.{0 if self.got >= 100 else 1}f} {self.unit} | {met} |"


async def loading(browser: Browser, address: str) -> list[Figure]:
    found = await page_loading.measure(browser, address)
    paints = {"loopback, cold": 500.0, "40 ms, 10 Mbit/s, cold": 1_200.0}
    lines = [Figure(f"first paint, {name}", each.paint_ms, "ms", paints.get(name)) for name, each in found.items()]
    lines += [Figure(f"one can write, {name}", each.ready_ms, "ms") for name, each in found.items()]
    cold, warm = found["loopback, cold"].sample, found["loopback, warm"].sample
    return [
        *lines,
        Figure("bytes over the network, cold", cold.bytes / 1024, "KiB", 150),
        Figure("requests, cold", cold.requests, "requests", 12),
        Figure("requests for files, warm (1 is the document)", len(warm.files), "requests", 1),
    ]


async def opening(browser: Browser, address: str) -> list[Figure]:
    opened = await page_sessions.opens(browser, address)
    return [
        Figure("a session of 200 messages opens", opened.shown_ms, "ms", 300),
        Figure("its CPU", opened.cpu_ms, "ms", 200),
    ]


async def holding(browser: Browser, address: str) -> list[Figure]:
    nodes = await page_sessions.nodes_of_500_answers(browser, address)
    return [Figure("nodes with 500 answers", nodes, "nodes", 30_000)]


async def scrolling(browser: Browser, address: str) -> list[Figure]:
    scrolled = await page_sessions.scrolls(browser, address)
    return [
        Figure("scrolling through 5,000 messages, p95 from frame to frame", scrolled.p95_ms, "ms", 34),
        Figure("the longest of these", scrolled.most_ms, "ms"),
    ]


async def pasting(browser: Browser, address: str) -> list[Figure]:
    pasted = await page_sessions.pastes(browser, address)
    return [
        Figure("20,000 lines are pasted", pasted.paste_ms, "ms"),
        Figure("a letter typed after them is shown", pasted.letter_ms, "ms", 50),
    ]


async def streaming(browser: Browser, address: str) -> list[Figure]:
    target = page_streaming.TARGET_MS
    floor = percentile(await page_streaming.measure_floor(browser, address), 95)
    return [
        *(
            Figure(f"CPU per frame while {name} streams, p95", percentile(costs, 95), "ms", target)
            for name, costs in (await page_streaming.measure(browser, address)).items()
        ),
        Figure("the same while a script appends plain text: Chromium's own share", floor, "ms"),
    ]


PARTS: dict[str, Callable[[Browser, str], Awaitable[list[Figure]]]] = {
    "loading": loading,
    "opening": opening,
    "holding": holding,
    "scrolling": scrolling,
    "pasting": pasting,
    "streaming": streaming,
}


async def measure(parts: Sequence[str]) -> list[Figure]:
    found = []
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory)
        await page_sessions.store_sessions(data / "chat.sqlite3")
        with servers.product(data) as server:
            for part in parts:
                # A browser of its own, so that no part has the leftovers of another.
                async with chromium() as browser:
                    found += await PARTS[part](browser, server.address)
    return found


def page(figures: Sequence[Figure], version: str, load: float) -> str:
    """PAGE.md."""
    lines = "\n".join(figure.line() for figure in figures)
    loads, sessions = page_loading.ROUNDS, page_sessions.ROUNDS
    return f"""# The page's figures

`make bench-page` on {datetime.now(UTC):%Y-%m-%d}, Chromium {version}, the server and the browser on one machine.
Medians of {loads} loads and of {sessions} sessions that are opened. Cold is a profile that has never seen the page,
warm one that has. The machine has {os.cpu_count()} cores, and its load was {load:.1f} when this began: with more than
1 or 2, other work was measured too. All requests count: the document, files and REST calls. CPU is that of the page's
main thread, from Chromium's traces.

| figure | target | got | reached |
|---|---|---|---|
{lines}

## Where a frame's time goes

The server sends an answer's text 25 times a second, so p95 is a frame that shows new text, however fast the model
writes. A third of its time, some 2.5 ms, is the page's own work: what came on the socket is parsed, and what it
changes is rendered. The rest is style, layout, pre-paint, paint and layers, which Chromium needs for new lines however
they got there: a script that appends plain text, with no Markdown and no framework, costs the last line of the table.
Where that line is above 4 ms, no page reaches the target. The frames between two pieces of text cost about 1 ms.
"""


async def _version() -> str:
    async with chromium() as browser:
        return browser.version


def main(arguments: Sequence[str]) -> None:
    load = os.getloadavg()[0]
    figures = asyncio.run(measure(arguments or list(PARTS)))
    for figure in figures:
        print(figure.line())
    if not arguments:
        (HERE / "PAGE.md").write_text(page(figures, asyncio.run(_version()), load))


if __name__ == "__main__":
    main(sys.argv[1:])
