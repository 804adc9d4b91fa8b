"""FileJournal: deletions as lines of JSON in a directory, in a file for each process and month.

No two processes write to one file, so that instances may share the directory, on a network's file system too, and the
files of several directories may be put into one. A write is on the disk once it is answered. One that fails is taken
back, and its file is not written to again: what it may have left at the end is a line of its own.
"""

import asyncio
import errno
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from agentic_backend.stores.journal.deletion import Deletion, deletion_in
from agentic_backend.stores.journal.journal import JournalUnavailable, not_noted
from agentic_backend.stores.private_files import private_directory
from agentic_backend.system_errors import reason_of

log = logging.getLogger(__name__)
T = TypeVar("T")

_ID, _ENDING = "journal.id", ".jsonl"
_LINES, _LONGEST_LINE = 1_000, 1024 * 1024
# A month has no more days; a file is as old as its last line may be.
_MONTH = timedelta(days=31)


class FileJournal:
    def __init__(self, directory: Path, timeout_s: float) -> None:
        self._directory = directory
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._writer = uuid4().hex
        self._open: tuple[str, int] | None = None
        """The month and the descriptor of the file that is written to."""

    @property
    def place(self) -> str:
        return str(self._directory)

    async def journal_id(self) -> str | None:
        return await self._read(self._id)

    async def append(self, deletions: Sequence[Deletion]) -> None:
        lines = b"".join(deletion.line.encode() + b"\n" for deletion in deletions)
        await self._write(lines, max(deletion.at for deletion in deletions))

    async def prove(self) -> None:
        # An empty line says nothing.
        await self._write(b"\n", datetime.now(UTC))

    async def batches(self, since: datetime | None) -> AsyncIterator[Sequence[Deletion]]:
        for path in await self._read(self._files):
            if since is not None and _ends(path) <= since:
                continue
            place = number = 0
            while (found := await self._read(_lines_of, path, place)) is not None:
                lines, place = found
                deletions = [(number + index, line, deletion_in(line)) for index, line in enumerate(lines, start=1)]
                number += len(lines)
                for at, line, deletion in deletions:
                    if deletion is None and line.strip():
                        log.warning("deletion journal line unreadable", extra={"path": str(path), "line": at})
                yield [each for _, _, each in deletions if each is not None]

    async def check(self) -> None:
        await self._read(self._check)

    async def prune(self, before: datetime) -> None:
        await self._read(self._prune, before)

    async def aclose(self) -> None:
        with self._lock:
            self._close()

    async def _read(self, work: Callable[..., T], *args: object) -> T:
        """Raises JournalUnavailable."""
        try:
            return await asyncio.to_thread(work, *args)
        except OSError as error:
            raise JournalUnavailable(f"{self._directory}: {reason_of(error)}") from error

    async def _write(self, lines: bytes, at: datetime) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await asyncio.to_thread(self._write_lines, lines, at)
        except (OSError, TimeoutError) as error:
            log.error("deletion not noted", extra={"path": str(self._directory), "reason": reason_of(error)})
            raise not_noted() from error

    def _write_lines(self, lines: bytes, at: datetime) -> None:
        with self._lock:
            descriptor = self._file_of(f"{at.astimezone(UTC):%Y-%m}")
            end = os.lseek(descriptor, 0, os.SEEK_END)
            try:
                rest = memoryview(lines)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                os.fsync(descriptor)
            except BaseException:
                try:
                    os.ftruncate(descriptor, end)
                finally:
                    self._close()
                raise

    def _file_of(self, month: str) -> int:
        # If somebody has removed the file, what is written to it is lost.
        if self._open is not None and self._open[0] == month and os.fstat(self._open[1]).st_nlink:
            return self._open[1]
        self._close()
        private_directory(self._directory)
        if self._id() is None:
            self._make_id()
        # Another one after a failure.
        path = self._directory / f"{month}.{self._writer}{_ENDING}"
        self._writer = uuid4().hex
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._open = month, descriptor
        _sync_directory(self._directory)
        return descriptor

    def _close(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    def _id(self) -> str | None:
        try:
            return (self._directory / _ID).read_text().strip() or None
        except FileNotFoundError:
            return None

    def _make_id(self) -> None:
        # Complete before it has its name; of two processes, one's counts.
        path, part = self._directory / _ID, self._directory / f"{uuid4().hex}.part"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, uuid4().hex.encode())
            os.fsync(descriptor)
            os.link(part, path)
        except FileExistsError:
            pass
        finally:
            os.close(descriptor)
            part.unlink()

    def _check(self) -> None:
        self._files()
        directory = next(each for each in (self._directory, *self._directory.absolute().parents) if each.exists())
        if not directory.is_dir() or not os.access(directory, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(directory))

    def _files(self) -> list[Path]:
        if not self._directory.exists():
            return []
        # Not `glob`, which passes over a directory that can't be read.
        return sorted(self._directory / name for name in os.listdir(self._directory) if name.endswith(_ENDING))

    def _prune(self, before: datetime) -> None:
        for path in self._files():
            if _ends(path) <= before:
                path.unlink(missing_ok=True)


def _ends(path: Path) -> datetime:
    """A time after all of a file's lines. A file with another name is never too old."""
    try:
        return datetime.strptime(path.name[:7], "%Y-%m").replace(tzinfo=UTC) + _MONTH
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)


def _lines_of(path: Path, place: int) -> tuple[list[bytes], int] | None:
    """Some lines from this place on, and the place behind them; None at the end."""
    with open(path, "rb") as file:
        file.seek(place)
        lines = [line for _ in range(_LINES) if (line := file.readline(_LONGEST_LINE))]
        return (lines, file.tell()) if lines else None


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
