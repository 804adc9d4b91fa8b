"""What a tab of Chromium tells about the page: its requests, on a slower network too, and its CPU, from a trace."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, CDPSession, Page

_TRACED = ["devtools.timeline", "disabled-by-default-devtools.timeline"]


@dataclass(frozen=True)
class Network:
    """`latency_ms` is of each request, `bytes_per_s` the throughput in both directions."""

    latency_ms: float
    bytes_per_s: float


BROADBAND = Network(latency_ms=40, bytes_per_s=10_000_000 / 8)


@dataclass
class Traffic:
    """What a tab has fetched. Files that the browser took from its cache are not in it."""

    urls: dict[str, str] = field(default_factory=dict)
    bytes: int = 0

    @classmethod
    async def of(cls, tab: Page, network: Network | None) -> "Traffic":
        """Listen to `tab`, from now on on `network`; None is the machine's own."""
        traffic, session = cls(), await tab.context.new_cdp_session(tab)
        session.on("Network.requestWillBeSent", traffic._sent)
        session.on("Network.requestServedFromCache", lambda event: traffic.urls.pop(event["requestId"], None))
        session.on("Network.responseReceived", traffic._answered)
        session.on("Network.loadingFinished", traffic._finished)
        await session.send("Network.enable")
        if network is not None:
            await _slow_down(session, network)
        return traffic

    def _sent(self, event: dict[str, Any]) -> None:
        if not event["request"]["url"].startswith(("data:", "blob:")):
            self.urls[event["requestId"]] = event["request"]["url"]

    def _answered(self, event: dict[str, Any]) -> None:
        response = event["response"]
        if response.get("fromDiskCache") or response.get("fromPrefetchCache"):
            self.urls.pop(event["requestId"], None)

    def _finished(self, event: dict[str, Any]) -> None:
        if event["requestId"] in self.urls:
            self.bytes += int(event["encodedDataLength"])


async def _slow_down(session: CDPSession, network: Network) -> None:
    conditions = {
        "offline": False,
        "latency": network.latency_ms,
        "downloadThroughput": network.bytes_per_s,
        "uploadThroughput": network.bytes_per_s,
    }
    await session.send("Network.emulateNetworkConditions", conditions)


@dataclass(frozen=True)
class Trace:
    """The tasks of the tab's main thread, each with its CPU time in ms."""

    task_cpu_ms: list[float]

    @property
    def cpu_ms(self) -> float:
        return sum(self.task_cpu_ms)


@asynccontextmanager
async def traced(browser: Browser, tab: Page) -> AsyncIterator[list[Trace]]:
    """Trace `tab`; the list has the trace when the context is left."""
    traces: list[Trace] = []
    await browser.start_tracing(page=tab, categories=_TRACED)
    try:
        yield traces
    finally:
        traces.append(_read(json.loads(await browser.stop_tracing())["traceEvents"]))


def _read(events: list[dict[str, Any]]) -> Trace:
    mains = {(event["pid"], event["tid"]) for event in events if _names_main_thread(event)}
    tasks = [event for event in events if event["name"] == "RunTask" and event["ph"] == "X"]
    by_thread = {main: [task for task in tasks if (task["pid"], task["tid"]) == main] for main in mains}
    # Of several renderers the tab's is the one that works; the others are empty ones that Chromium keeps.
    own = max(by_thread.values(), key=lambda each: sum(task.get("tdur", 0) for task in each), default=[])
    return Trace([task.get("tdur", 0) / 1000 for task in own])


def _names_main_thread(event: dict[str, Any]) -> bool:
    return event["name"] == "thread_name" and event["args"].get("name") == "CrRendererMain"
