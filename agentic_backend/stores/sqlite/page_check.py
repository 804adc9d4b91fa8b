"""PagesWatch: checks the pages of a SQLite file for damage, at the start, once a day, and when a query finds some.

SQLite notices a damaged page only when it reads it, perhaps weeks later, and writes in the meantime may make it worse.
So a server doesn't start on a file that is known to be damaged. The check of a large file continues while the server
runs: damage is then reported by the log, by readiness and by a metric, and the server continues, since it may still
save much. The check reads every page, but pages have no checksums: a changed text stays unnoticed.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path

from agentic_backend.kpi import Kpi
from agentic_backend.loop.event_loop import running
from agentic_backend.stores.opening import CannotOpenStore
from agentic_backend.stores.sqlite.connection import reason_of

log = logging.getLogger(__name__)

START_S = 2.0
"""The longest time that a start waits for the check, in seconds."""
_SOON_S, _DAILY_S = 1.0, 24 * 3600.0
# Between two checks: queries may go on finding what the check does not find.
_REST_S = 60.0
# Steps of SQLite's virtual machine after which the check looks whether it should end.
_STEPS = 10_000
_FINDINGS, _LONGEST_FINDING = 3, 200
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check: `damage` describes it for an operator; `is_whole` if all pages were read."""

    damage: str | None
    is_whole: bool
    took_s: float


class PagesWatch:
    """Owned by the composition root; `damage` is the damage found while the server runs, None if there is none."""

    def __init__(self, file: Path, kpi: Kpi) -> None:
        self._file = file
        self._kpi = kpi
        self.damage: str | None = None
        self._suspected = asyncio.Event()
        """A page was found damaged by a query, so the file is checked now."""

    def suspect(self) -> None:
        """Check the file soon, unless it is known to be damaged."""
        if self.damage is None:
            self._suspected.set()

    async def check(self, at_most_s: float | None) -> Checked:
        checked = await check_pages(self._file, at_most_s)
        self._kpi.dependencies.store_damaged(checked.damage is not None)
        how = {"took_s": round(checked.took_s, 3), "is_whole": checked.is_whole}
        if checked.damage is not None:
            log.error("database damaged", extra={**how, "advice": advice(self._file, checked.damage)})
            self.damage = checked.damage
        elif checked.is_whole:
            log.info("database checked", extra=how)
        else:
            log.info("database checked in part", extra=how)
        return checked

    async def run(self, first_after_s: float) -> None:
        """Check the whole file after `first_after_s`, then every day and where it is suspected, until cancelled."""
        wait_s = first_after_s
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._suspected.wait()
            self._suspected.clear()
            wait_s = _DAILY_S
            try:
                await self.check(None)
            except sqlite3.Error as error:
                log.warning("database not checked", extra={"reason": reason_of(error)})
            await asyncio.sleep(_REST_S)


@asynccontextmanager
async def watched_pages(file: Path, kpi: Kpi, start_s: float = START_S) -> AsyncIterator[PagesWatch]:
    """Check for `start_s` before the context opens, and the rest while it is open. Raises CannotOpenStore."""
    watch = PagesWatch(file, kpi)
    try:
        checked = await watch.check(start_s)
    except sqlite3.Error:
        # Opening the store will fail next, and report the reason.
        checked = Checked(None, False, 0.0)
    if checked.damage is not None:
        raise CannotOpenStore(advice(file, checked.damage))
    async with running(watch.run(_DAILY_S if checked.is_whole else _SOON_S)):
        yield watch


def advice(file: Path, damage: str) -> str:
    """A text for operators: what is damaged, and what to do."""
    return (
        f"{file.parent}: {file.name} is damaged ({damage}): keep a copy of it with its -wal, then restore a backup, or "
        f"save what can be read: sqlite3 {file.name} .recover | sqlite3 new.sqlite3"
    )


async def check_pages(file: Path, at_most_s: float | None) -> Checked:
    """Check the pages of the file, if it exists, for at most `at_most_s` seconds. Raises sqlite3.Error."""
    check = _Check(file, at_most_s)
    try:
        return await asyncio.to_thread(check.run)
    except asyncio.CancelledError:
        # The thread ends soon after.
        check.is_abandoned = True
        raise


class _Check:
    def __init__(self, file: Path, at_most_s: float | None) -> None:
        self._file = file
        self._at_most_s = at_most_s
        self.is_abandoned = False

    def run(self) -> Checked:
        self._began = time.monotonic()
        if not self._file.exists():
            return Checked(None, True, 0.0)
        with closing(sqlite3.connect(f"{self._file.absolute().as_uri()}?mode=rw", uri=True)) as db:
            db.set_progress_handler(self._is_over, _STEPS)
            try:
                findings = _findings(db)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                return Checked(None, False, self._took_s)
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode & 0xFF not in _DAMAGED:
                    raise
                findings = [str(error)]
            return Checked("; ".join(findings) or None, True, self._took_s)

    @property
    def _took_s(self) -> float:
        return time.monotonic() - self._began

    def _is_over(self) -> bool:
        return self.is_abandoned or (self._at_most_s is not None and self._took_s > self._at_most_s)


def _findings(db: sqlite3.Connection) -> list[str]:
    """The damaged tables' names, then SQLite's findings, which quote no row; empty if the file is whole."""
    found = _quick_check(db)
    if not found:
        return []
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    damaged = [name for name in tables if _is_damaged(db, name)]
    return [*([f"in {', '.join(damaged)}"] if damaged else []), *found]


def _quick_check(db: sqlite3.Connection, table: str | None = None) -> list[str]:
    wanted = f"('{table}')" if table else f"({_FINDINGS})"
    rows = [str(row[0]) for row in db.execute(f"PRAGMA quick_check{wanted}")]
    if rows == ["ok"]:
        return []
    lines = [line for row in rows for line in row.splitlines() if not line.startswith("***")]
    return [line[:_LONGEST_FINDING] for line in lines[:_FINDINGS]]


def _is_damaged(db: sqlite3.Connection, table: str) -> bool:
    try:
        return bool(_quick_check(db, table))
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return True
