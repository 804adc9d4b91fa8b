"""How the page loads: the time to its first paint, what it fetches, on loopback and on a slower network."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from browser import BROADBAND, Network, Traffic
from figures import median
from playwright.async_api import Browser, BrowserContext

ROUNDS = 7
_PATIENCE_MS = 60_000
_PAINTED = """() => new Promise((resolve) => {
  const painted = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  const wait = () => painted() === undefined ? requestAnimationFrame(wait) : resolve(painted());
  wait();
})"""
_READY = "[data-testid=composer]:enabled, textarea:enabled"


@dataclass(frozen=True)
class Load:
    """One load of the page: ms to the first paint and until one can write; requests by kind, bytes of all."""

    paint_ms: float
    ready_ms: float
    files: list[str]
    calls: list[str]
    bytes: int

    @property
    def requests(self) -> int:
        return len(self.files) + len(self.calls)


@dataclass(frozen=True)
class Loading:
    """The medians of several loads, and one of them."""

    paint_ms: float
    ready_ms: float
    sample: Load


async def load(context: BrowserContext, address: str, network: Network | None) -> Load:
    """Open the page in a new tab, and close it."""
    tab = await context.new_page()
    try:
        traffic = await Traffic.of(tab, network)
        await tab.goto(address, wait_until="commit")
        paint_ms: float = await tab.evaluate(_PAINTED)
        await tab.wait_for_selector(_READY, timeout=_PATIENCE_MS)
        ready_ms: float = await tab.evaluate("() => performance.now()")
        await tab.wait_for_load_state("networkidle")
        paths = [urlsplit(url).path for url in traffic.urls.values()]
        files = [path for path in paths if not path.startswith("/agentic/")]
        return Load(paint_ms, ready_ms, files, [path for path in paths if path not in files], traffic.bytes)
    finally:
        await tab.close()


async def measure(browser: Browser, address: str) -> dict[str, Loading]:
    """The loading by name: on loopback and at 40 ms and 10 Mbit/s, each with an empty cache and with a full one."""
    found = {}
    for name, network in {"loopback": None, "40 ms, 10 Mbit/s": BROADBAND}.items():
        cold, warm = [], []
        for _ in range(ROUNDS):
            context = await browser.new_context()
            cold.append(await load(context, address, network))
            warm.append(await load(context, address, network))
            await context.close()
        found |= {f"{name}, cold": _summed(cold), f"{name}, warm": _summed(warm)}
    return found


def _summed(loads: list[Load]) -> Loading:
    return Loading(median([each.paint_ms for each in loads]), median([each.ready_ms for each in loads]), loads[-1])
