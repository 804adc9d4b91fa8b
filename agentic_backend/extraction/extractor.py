"""Reads a file in a process of its own, which is ended whatever the file makes of it.

Whoever calls this bounds how many are read at once: see `sessions/documents.py`.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from agentic_backend.errors import DocumentUnreadable, Overloaded
from agentic_backend.extraction.document import Document, DocumentKind, unpacked
from agentic_backend.extraction.page_image import unpacked_image

T = TypeVar("T")

MOST_ANSWER_BYTES = 64 * 1024 * 1024
"""What a process may say of a file beside four bytes for each character."""

_PROGRAM = Path(__file__).with_name("program.py")
_MEMORY_BYTES = 1024 * 1024 * 1024
_PIECE = 256 * 1024
_LONGEST_WORDS = 500
_OUT_OF_BOUNDS = "the file takes too much time or memory to be read"
_LIBRARIES: dict[DocumentKind, tuple[str, ...]] = {
    "pdf": ("pypdfium2",),
    "html": ("trafilatura", "lxml"),
    "docx": ("mammoth", "lxml"),
    "xlsx": ("openpyxl",),
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that a file may be, and take to be read. `timeout_s` is by the clock, `cpu_s` of a processor."""

    bytes: int = 64 * 1024 * 1024
    characters: int = 4_000_000
    pages: int = 2_000
    cpu_s: int = 30
    timeout_s: float = 60.0


async def extract(file: BinaryIO, name: str, bounds: Bounds) -> Document:
    """What is written in `file`, one of the operating system; `name` tells what its content can't.

    Raises DocumentUnreadable, whose words say why, and Overloaded if no process can be started.
    """
    answer = await _answer_of_program(file, bounds, name=name[-1_000:])
    return await asyncio.to_thread(_document_in, answer)


async def draw_page(file: BinaryIO, number: int, bounds: Bounds) -> bytes:
    """A page of the PDF in `file`, counted from 1: a PNG of at most 2 MiB and 2.5 million pixels.

    Raises as `extract`.
    """
    answer = await _answer_of_program(file, bounds, page=number)
    return _said_in(answer, unpacked_image)


def too_large(bounds: Bounds) -> DocumentUnreadable:
    return DocumentUnreadable(f"the file has more than {bounds.bytes:,} bytes")


def takes(kind: DocumentKind) -> bool:
    """Whether what reads files of this kind is installed."""
    return all(_is_installed(library) for library in _LIBRARIES.get(kind, ()))


@cache
def _is_installed(library: str) -> bool:
    return find_spec(library) is not None


def _size_of(file: BinaryIO) -> int:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


async def _answer_of_program(file: BinaryIO, bounds: Bounds, **what: str | int) -> bytes:
    size = await asyncio.to_thread(_size_of, file)
    if not size:
        raise DocumentUnreadable("it is empty")
    if size > bounds.bytes:
        raise too_large(bounds)
    asked = {
        **what,
        "characters": bounds.characters,
        "pages": bounds.pages,
        "cpu_s": bounds.cpu_s,
        "memory_bytes": _MEMORY_BYTES,
    }
    try:
        # Isolated: nothing of the environment or of the working directory becomes code.
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(_PROGRAM),
            json.dumps(asked),
            # The program reads the file itself.
            stdin=file.fileno(),
            stdout=PIPE,
            stderr=DEVNULL,
            env={},
        )
    except OSError:
        raise Overloaded from None
    try:
        async with asyncio.timeout(bounds.timeout_s):
            answer = await _said(program, MOST_ANSWER_BYTES + 4 * bounds.characters)
            status = await program.wait()
    except TimeoutError:
        raise DocumentUnreadable(_OUT_OF_BOUNDS) from None
    finally:
        if program.returncode is None:
            with suppress(ProcessLookupError):
                program.kill()
            await program.wait()
    # A program that the operating system has ended says nothing, or not all.
    if status != 0:
        raise DocumentUnreadable(_OUT_OF_BOUNDS)
    return answer


async def _said(program: Process, most_bytes: int) -> bytes:
    """All that the program says. Raises DocumentUnreadable if it is more than a document may be."""
    assert program.stdout is not None
    pieces, size = [], 0
    while piece := await program.stdout.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > most_bytes:
            raise DocumentUnreadable("what is read of the file is more than is kept")
    return b"".join(pieces)


def _document_in(answer: bytes) -> Document:
    return _said_in(answer, unpacked)


def _said_in(answer: bytes, read: Callable[[bytes, Any], T]) -> T:
    """What `read` finds in an answer.

    Raises DocumentUnreadable, also for an answer that is none: the file may have taken the program over.
    """
    try:
        head: Any = json.loads(answer.partition(b"\n")[0])
        refused = head.get("refused")
        if refused is None:
            return read(answer, head)
    except (ValueError, AttributeError, RecursionError):
        refused = None
    words = refused if type(refused) is str and refused.isprintable() else "the file can't be read"
    raise DocumentUnreadable(words[:_LONGEST_WORDS])
