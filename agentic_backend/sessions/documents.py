"""Documents: reads files of users and of applications, a few at once in this process, fairly by whose they are."""

import asyncio
from tempfile import TemporaryFile
from typing import BinaryIO
from uuid import uuid4

from agentic_backend.errors import StoreUnavailable
from agentic_backend.extraction.document import Document
from agentic_backend.extraction.extractor import Bounds, draw_page, extract, too_large
from agentic_backend.sessions.bulkhead import Bulkhead

# Each is a process of its own, and may take a while.
_AT_ONCE, _WAIT_S = 2, 120.0


class Documents:
    def __init__(self) -> None:
        self._room = Bulkhead(
            per_user=1,
            in_all=_AT_ONCE,
            wait_s=_WAIT_S,
            content="Too many documents are read at the moment; try again soon.",
        )

    async def read(self, file: BinaryIO, name: str, bounds: Bounds, whose: str | None) -> Document:
        """What is written in `file`, one of the operating system, once it is the turn of `whose`.

        Each has one turn at a time; None is somebody else each time.

        Raises DocumentUnreadable, RateLimited if no turn comes, and Overloaded if no process can be started.
        """
        async with self._room.entered(uuid4().hex if whose is None else whose):
            return await extract(file, name, bounds)

    async def read_bytes(self, data: bytes, name: str, bounds: Bounds, whose: str) -> Document:
        """The same of bytes. Raises StoreUnavailable where no file can be made for them."""
        with await _temporary_file(data, bounds) as file:
            return await self.read(file, name, bounds, whose)

    async def draw_page(self, data: bytes, number: int, bounds: Bounds, whose: str) -> bytes:
        """A page of a PDF as a PNG, see `extractor`; in turns as `read_bytes`, and it raises the same."""
        with await _temporary_file(data, bounds) as file:
            async with self._room.entered(whose):
                return await draw_page(file, number, bounds)


async def _temporary_file(data: bytes, bounds: Bounds) -> BinaryIO:
    if len(data) > bounds.bytes:
        raise too_large(bounds)
    try:
        return await asyncio.to_thread(_file_of, data)
    except OSError as error:
        raise StoreUnavailable from error


def _file_of(data: bytes) -> BinaryIO:
    # Closed where it is read.
    file: BinaryIO = TemporaryFile()
    try:
        file.write(data)
        file.flush()
    except BaseException:
        file.close()
        raise
    return file
