"""Examines a file that was sent as an attachment: what it is, how large, and what a model can read of it.

What takes time runs in a thread or, for a document, in a process of its own; the event loop does none of it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import BinaryIO

from agentic_backend.attachments.kinds import HEAD_BYTES, TEXT, TYPES, image_head, is_page, text_of
from agentic_backend.errors import BadFrame, DocumentUnreadable
from agentic_backend.extraction.document import Document
from agentic_backend.extraction.extractor import Bounds as DocumentBounds
from agentic_backend.extraction.kinds import TAKEN

MOST_PAGES = 500
"""Pages of a PDF that is read."""

_CPU_S, _TIMEOUT_S = 15, 30.0
_PIECE = 1024 * 1024

ReadDocument = Callable[[BinaryIO, str, DocumentBounds], Awaitable[Document]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that an attachment may be: characters of its text, pixels of an image."""

    characters: int
    pixels: int


@dataclass(frozen=True, slots=True)
class Examined:
    """What a file is. `size` is in bytes, `sha256` in hex; `text` is None for an image."""

    mime: str
    size: int
    sha256: str
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class _Unread:
    """A document that has not been read yet."""

    size: int
    sha256: str


class Examiner:
    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds

    async def examine(self, file: BinaryIO, name: str, read: ReadDocument) -> Examined:
        """What `file` is, one of the operating system; `read` reads a document.

        Raises BadFrame, which says why it is not taken, and what `read` raises.
        """
        found = await asyncio.to_thread(self._examine, file)
        if isinstance(found, Examined):
            return found
        bounds = DocumentBounds(found.size, self._bounds.characters, MOST_PAGES, _CPU_S, _TIMEOUT_S)
        try:
            document = await read(file, name, bounds)
        except DocumentUnreadable as error:
            also = ", and images (PNG, JPEG, GIF, WebP)" if TAKEN in error.content else ""
            raise BadFrame(f"file: {error.content}{also}") from None
        return Examined(TYPES.get(document.kind, TEXT), found.size, found.sha256, document.text)

    def _examine(self, file: BinaryIO) -> Examined | _Unread:
        digest, size = sha256(), 0
        file.seek(0)
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
        if not size:
            raise BadFrame("file: it is empty")
        file.seek(0)
        head = file.read(HEAD_BYTES)
        if (image := image_head(head)) is not None:
            pixels = image.width * image.height
            if not 0 < pixels <= self._bounds.pixels:
                sides, most = f"{image.width} x {image.height}", f"{self._bounds.pixels:,}"
                raise BadFrame(f"file: the image has {sides} pixels; at most {most} are taken, and at least one")
            return Examined(image.mime, size, digest.hexdigest())
        text = text_of(file, self._bounds.characters)
        if text is None or is_page(text):
            return _Unread(size, digest.hexdigest())
        return Examined(TEXT, size, digest.hexdigest(), text)
