"""Faults of the disk that the SQLite file is on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
from gameday.fault import Fault
from gameday.site import Site
from gameday.sites import needed, succeeds
from support.rest_client import plain_http

from agentic_backend.loop.event_loop import running

ASK = ("words 3 0", None)
PANEL = ("stores.json", "Takes writes")
FELT = "Asks are refused with `store_unavailable`; what is stored can be read."


@asynccontextmanager
async def full_disk(site: Site) -> AsyncIterator[None]:
    ballast = needed(site.disk) / "ballast"
    await asyncio.to_thread(fill, ballast)
    try:
        yield
    finally:
        ballast.unlink()


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(512))


@asynccontextmanager
async def no_writes(site: Site) -> AsyncIterator[None]:
    """A file that takes no writes stands for a file system that was mounted read-only by the kernel."""
    log = site.data / "chat.sqlite3-wal"
    # tmpfs knows no such attribute.
    if site.disk is not None or not await asyncio.to_thread(succeeds, "chattr", "+i", log):
        pytest.skip("no file can be made immutable here")
    try:
        yield
    finally:
        assert await asyncio.to_thread(succeeds, "chattr", "-i", log)


@asynccontextmanager
async def damaged_pages(site: Site) -> AsyncIterator[None]:
    """Pages of messages are overwritten; afterwards a backup is restored."""
    file = site.data / "chat.sqlite3"
    # A server that ends moves all from the log into the file.
    await site.restart()
    backup = await asyncio.to_thread(file.read_bytes)
    await asyncio.to_thread(overwrite, file)
    try:
        yield
    finally:
        await site.stop()
        for left in site.data.glob("chat.sqlite3-*"):
            left.unlink()
        await asyncio.to_thread(file.write_bytes, backup)
        await site.restart()


@asynccontextmanager
async def full_log_disk(site: Site) -> AsyncIterator[None]:
    """Standard error is a file on a full disk; what operators can still read is the tail."""

    async def read_tail() -> None:
        while True:
            with suppress(httpx.HTTPError):
                site.server.stderr = (await http.get(f"http://127.0.0.1:{site.internal_port}/log")).text
            await asyncio.sleep(0.5)

    with open("/dev/full", "wb") as full:
        site.options = {"stderr": full.fileno()}
        try:
            await site.restart()
            async with plain_http() as http, running(read_tail()):
                yield
        finally:
            site.options = {}
            await site.restart()


def overwrite(file: Path) -> None:
    """All pages after those of the schema."""
    with file.open("r+b") as pages:
        size = pages.seek(0, 2)
        pages.seek(size // 4)
        pages.write(b"\xa5" * (size - size // 4))


DISK_FAULTS = [
    Fault(
        name="full disk",
        site="alone",
        inject=full_disk,
        alert="StoreRefusesWrites",
        panel=PANEL,
        runbook="SQLITE_FULL",
        log="database takes no writes",
        fields={"reason": "SQLITE_FULL"},
        felt=FELT,
        ask=ASK,
        outcome="store_unavailable",
        ready="store_unavailable",
    ),
    Fault(
        name="full disk of the log",
        site="alone",
        inject=full_log_disk,
        alert="LogNotWritten",
        panel=("saturation.json", "Log that is not written"),
        runbook="No space left on device",
        log="log not written",
        fields={"reason": "No space left on device"},
        felt="Nothing.",
        ask=ASK,
        sooner={"> 30": "> 3"},
    ),
    Fault(
        name="read-only file",
        site="rooted",
        inject=no_writes,
        alert="StoreRefusesWrites",
        panel=PANEL,
        runbook="its rights or mount",
        log="database takes no writes",
        fields={"reason": "SQLITE_IOERR_WRITE|SQLITE_READONLY"},
        felt=FELT,
        ask=ASK,
        outcome="store_unavailable",
        ready="store_unavailable",
    ),
    Fault(
        name="damaged pages",
        site="rooted",
        inject=damaged_pages,
        alert="StoreDamaged",
        panel=("stores.json", "Damaged pages"),
        runbook="quick_check",
        log="database damaged",
        fields={"advice": "restore a backup"},
        felt="What lies in the damaged pages fails with `store_unavailable`; where an answer can't be saved, its "
        "socket is closed. The instance gets no new clients.",
        ask=ASK,
        # A page that the server has in its cache is as it was.
        outcome="store_unavailable|connection lost",
        ready="store_damaged",
    ),
]
