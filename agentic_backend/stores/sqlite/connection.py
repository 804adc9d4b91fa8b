"""One connection to a SQLite file, on its own thread; SqliteStore owns it.

A whole read or transaction is one function, and runs in one hop to the thread. The thread takes calls in order, so
writers need no lock, and no transaction is open between two calls. A call that returns or raises has ended: if it is
cancelled or times out, it is rolled back unless its commit has begun. Only a file system that doesn't answer can leave
a call running; after StoreUnavailable its outcome is then unknown.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import aiosqlite

from agentic_backend.errors import AgenticError, StoreUnavailable
from agentic_backend.loop.loop_load import wait_served
from agentic_backend.stores.observing import Observer, ignore, observed
from agentic_backend.system_errors import Away, away_reason_of, summary_of

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_LOG = logging.getLogger("agentic_backend.stores.sqlite")
# While another connection has the lock, the thread asks for it again after so long, in seconds, and looks whether its
# caller still waits. SQLite would ask less and less often, and who came later got it first. It looks also after so many
# steps of SQLite's virtual machine.
_BUSY_S = 0.001
_STEPS = 10_000
# Time for an abandoned call to notice that, and to roll back.
_GRACE_S = 1.0
_OF_THE_DISK = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
)
_AWAY: dict[int, Away] = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_CANTOPEN: "no_permission",
    sqlite3.SQLITE_PERM: "no_permission",
    sqlite3.SQLITE_BUSY: "no_answer",
    sqlite3.SQLITE_INTERRUPT: "no_answer",
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRAGMAS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "PRAGMA foreign_keys = ON")


class _Call:
    """A call in the thread's queue; once `abandoned`, it ends as soon as it can."""

    abandoned = False


class SqliteConnection:
    def __init__(
        self,
        path: Path,
        *,
        timeout_s: float,
        observe: Observer | None,
        suspect: Callable[[], None],
        late: Callable[[], AgenticError],
    ) -> None:
        self._path = path
        self._late = late
        self._observe = observe
        self._suspect = suspect
        self._timeout_s = timeout_s
        self._call = _Call()
        self._trouble: str | None = None
        """Why the disk or the file takes no writes, as the log has named it; None while it does."""
        self._thread = aiosqlite.Connection(self._connect, iter_chunk_size=1)

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        timeout_s: float,
        observe: Observer | None = None,
        suspect: Callable[[], None] = ignore,
        late: Callable[[], AgenticError] = StoreUnavailable,
    ) -> Self:
        """Open or create the file at `path`. Each later call raises `late` after `timeout_s`; damage calls `suspect`.

        Raises StoreUnavailable.
        """
        connection = cls(path, timeout_s=timeout_s, observe=observe, suspect=suspect, late=late)
        with _unavailable("open"):
            try:
                async with asyncio.timeout(timeout_s + _GRACE_S):
                    await connection._thread
            except BaseException:
                # aiosqlite stops its thread but doesn't wait for it; it must not outlive the event loop.
                await asyncio.to_thread(connection._thread._thread.join, _GRACE_S)
                raise
        return connection

    async def aclose(self) -> None:
        """Close the connection after the pending calls. Raises StoreUnavailable if they don't end."""
        with _unavailable("close"):
            async with asyncio.timeout(self._timeout_s + _GRACE_S):
                await self._thread.close()

    async def read(self, operation: str, work: Work[T]) -> T:
        """The result of `work`, which may run more than once. Raises StoreUnavailable, and what `work` raises."""
        return await self._observed(operation, work)

    async def write(self, operation: str, work: Work[T]) -> T:
        """Like `read`, with `work` as one transaction: committed when it returns, rolled back when it raises."""
        try:
            result = await self._observed(operation, partial(self._transact, work))
        except StoreUnavailable as error:
            self._note_trouble(error.__cause__)
            raise
        if self._trouble is not None:
            _LOG.info("database takes writes again", extra={"reason": self._trouble})
            self._trouble = None
        return result

    def _note_trouble(self, cause: BaseException | None) -> None:
        """Name the cause once, however many writes it refuses."""
        reason = reason_of(cause)
        if _code_of(cause) in _OF_THE_DISK and reason != self._trouble:
            self._trouble = reason
            _LOG.error("database takes no writes", extra={"path": str(self._path), "reason": reason})

    async def _observed(self, operation: str, work: Work[T]) -> T:
        try:
            with observed(self._observe, operation, "sqlite", _why_away):
                return await self._run(operation, work)
        except StoreUnavailable as error:
            if _code_of(error.__cause__) in _DAMAGED:
                self._suspect()
            raise

    async def _run(self, operation: str, work: Work[T]) -> T:
        call = _Call()
        # aiosqlite has no public call for this: each of its methods runs one statement in one hop.
        hop = self._thread._execute(self._perform, call, work)  # type: ignore[no-untyped-call]
        running: asyncio.Task[T] = asyncio.ensure_future(hop)
        running.add_done_callback(_retrieve)
        with _unavailable(operation, self._late, lambda: self._trouble):
            try:
                await wait_served(running, self._timeout_s)
            finally:
                if not running.done():
                    # The call timed out, or the caller was cancelled: still wait for the end of the transaction.
                    call.abandoned = True
                    await asyncio.wait({running}, timeout=_GRACE_S)
            if not running.done():
                running.cancel()
                raise TimeoutError
            return running.result()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, timeout=self._timeout_s)
        try:
            for pragma in _PRAGMAS:
                self._set(db, pragma)
            db.execute(f"PRAGMA busy_timeout = {int(_BUSY_S * 1000)}")
        except sqlite3.Error:
            db.close()
            raise
        db.row_factory = sqlite3.Row
        db.set_progress_handler(lambda: self._call.abandoned, _STEPS)
        self._db = db
        return db

    def _set(self, db: sqlite3.Connection, pragma: str) -> None:
        # Of two connections that make a new file's first journal at once, SQLite refuses one without waiting.
        until = time.monotonic() + self._timeout_s
        while True:
            try:
                db.execute(pragma)
                return
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > until:
                    raise
            time.sleep(_BUSY_S)

    def _perform(self, call: _Call, work: Work[T]) -> T:
        self._call = call
        while not call.abandoned:
            try:
                return work(self._db)
            except sqlite3.OperationalError as error:
                if call.abandoned or not _is_busy(error):
                    raise
        raise TimeoutError

    def _transact(self, work: Work[T], db: sqlite3.Connection) -> T:
        db.execute("BEGIN IMMEDIATE")
        try:
            result = work(db)
            if self._call.abandoned:
                raise TimeoutError
            db.execute("COMMIT")
        except BaseException:
            db.rollback()
            raise
        return result


@contextmanager
def _unavailable(
    operation: str, late: Callable[[], AgenticError] = StoreUnavailable, told: Callable[[], str | None] = lambda: None
) -> Iterator[None]:
    """Turn SQLite's errors into StoreUnavailable, and timeouts into `late`; log only their names, `told()` no more."""
    try:
        yield
    except (sqlite3.Error, TimeoutError) as error:
        reason = reason_of(error)
        if reason != told():
            _LOG.warning("SQLite failed", extra={"operation": operation, "reason": reason})
        raise (late() if _is_late(error) else StoreUnavailable()) from error


def reason_of(error: BaseException | None) -> str:
    """SQLite's name of the error, or its type and the system's words; never its text."""
    return str(getattr(error, "sqlite_errorname", None) or (error and summary_of(error)))


def _why_away(error: BaseException) -> Away:
    return _AWAY.get(_code_of(error)) or away_reason_of(error)


def _code_of(error: BaseException | None) -> int:
    """The primary code, the low byte of an extended one; 0 for errors that have none, such as Python's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _is_busy(error: sqlite3.Error) -> bool:
    return _code_of(error) == sqlite3.SQLITE_BUSY


def _is_late(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT


def _retrieve(running: asyncio.Task[T]) -> None:
    """Read the outcome, so that asyncio doesn't log "never retrieved" if the caller was cancelled."""
    if not running.cancelled():
        running.exception()
