"""Examines a file that was sent as an attachment: what it is, how large, and what a model can read of it.

What takes time runs in a thread or, for a PDF, in a process of its own; the event loop does none of it.
"""

import asyncio
import json
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from agentic_backend.attachments.kinds import HEAD_BYTES, PDF, TEXT, image_head, is_pdf, text_of
from agentic_backend.errors import BadFrame

MOST_PAGES = 500
"""Pages of a PDF that is read."""

PDF_TIMEOUT_S = 30.0
_PDF_CPU_S = 15
_PROGRAM = Path(__file__).with_name("pdf_text.py")
_PIECE = 1024 * 1024


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


class Examiner:
    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds

    async def examine(self, file: BinaryIO, room: AbstractAsyncContextManager[None]) -> Examined:
        """What `file` is, one of the operating system; a PDF is read once there is `room` for a process.

        Raises BadFrame, which says why it is not taken, and what `room` raises.
        """
        found = await asyncio.to_thread(self._examine, file)
        if found.mime != PDF:
            return found
        async with room:
            text = await self._pdf_text(file)
        return Examined(found.mime, found.size, found.sha256, text)

    def _examine(self, file: BinaryIO) -> Examined:
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
        if is_pdf(head):
            return Examined(PDF, size, digest.hexdigest())
        text = text_of(file, self._bounds.characters)
        return Examined(TEXT, size, digest.hexdigest(), text)

    async def _pdf_text(self, file: BinaryIO) -> str:
        await asyncio.to_thread(file.seek, 0)
        arguments = [str(_PROGRAM), str(MOST_PAGES), str(self._bounds.characters), str(_PDF_CPU_S)]
        # Isolated: nothing of the environment or of the working directory becomes code.
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            *arguments,
            # The program reads the file itself.
            stdin=file.fileno(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
        )
        try:
            async with asyncio.timeout(PDF_TIMEOUT_S):
                told, _ = await program.communicate()
        except TimeoutError:
            told = b""
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
        # A program that the operating system has ended says nothing, or not all.
        is_whole = program.returncode == 0
        answer = json.loads(told) if is_whole else {"refused": "the PDF takes too much time or memory to be read"}
        if "refused" in answer:
            raise BadFrame(f"file: {answer['refused']}")
        return str(answer["text"])
