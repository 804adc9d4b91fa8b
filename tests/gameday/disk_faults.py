"""Faults of the disk that the SQLite file is on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from gameday.fault import Fault
from gameday.site import Site
from gameday.sites import needed

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
]
