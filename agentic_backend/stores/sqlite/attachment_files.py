"""The contents of attachments beside a SQLite file: one private file each, named by the attachment's id.

All work on files runs in threads. A content is on the disk, and complete, before it has its name.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import ParamSpec, TypeVar

from agentic_backend.errors import AttachmentNotFound, StoreUnavailable
from agentic_backend.stores.private_files import private_directory, private_file

P = ParamSpec("P")
T = TypeVar("T")

_PIECE = 1024 * 1024
_UNFINISHED = ".part"


class AttachmentFiles:
    def __init__(self, database: Path) -> None:
        self._directory = database.parent / "attachments" / database.name

    async def write(self, attachment_id: str, content: AsyncIterator[bytes]) -> None:
        """Raises AttachmentNotFound if it is removed meanwhile, StoreUnavailable, and what `content` raises."""
        path = self._directory / attachment_id
        part = path.with_name(path.name + _UNFINISHED)
        await _on_disk(self._begin, part)
        async for piece in content:
            await _on_disk(_append, part, piece)
        await _on_disk(_finish, part, path)

    async def read(self, attachment_id: str) -> AsyncIterator[bytes]:
        """Raises AttachmentNotFound and StoreUnavailable."""
        place = 0
        while piece := await _on_disk(_piece_of, self._directory / attachment_id, place):
            yield piece
            place += len(piece)

    async def remove(self, ids: Collection[str]) -> None:
        """Raises StoreUnavailable."""
        await _on_disk(self._remove, ids)

    def _begin(self, part: Path) -> None:
        private_directory(self._directory.parent)
        private_directory(self._directory)
        private_file(part)

    def _remove(self, ids: Collection[str]) -> None:
        for attachment_id in ids:
            (self._directory / attachment_id).unlink(missing_ok=True)
            (self._directory / f"{attachment_id}{_UNFINISHED}").unlink(missing_ok=True)


async def _on_disk(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except FileNotFoundError:
        # Removed, perhaps meanwhile.
        raise AttachmentNotFound from None
    except OSError as error:
        raise StoreUnavailable from error


# Each opens and closes the file itself: nothing stays open if its caller gives up.


def _append(part: Path, piece: bytes) -> None:
    # Not made anew if it was removed meanwhile.
    with open(part, "r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(piece)


def _piece_of(path: Path, place: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        file.seek(place)
        return file.read(_PIECE)


def _finish(part: Path, path: Path) -> None:
    with open(part, "rb", buffering=0) as file:
        os.fsync(file.fileno())
    part.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
