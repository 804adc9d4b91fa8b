"""Upload: reads the one file of a `multipart/form-data` body, piece by piece, into a file that has no name on the disk.

So a large file is never in memory, and a process that dies leaves nothing behind. Each piece is parsed in a thread: a
body can be made so that parsing takes long.
"""

import asyncio
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from agentic_backend.errors import BadFrame, MessageTooLarge, StoreUnavailable
from agentic_backend.loop.loop_load import served_timeout

_TIMEOUT_S = 300.0
# The heads of the part, and the boundaries around it.
_HEAD_BYTES, BESIDE_FILE = 8_192, 16_384
# A media type with a boundary has some 100 characters; a long one takes long to read.
_LONGEST_TYPE = 1_024


@dataclass(frozen=True, slots=True)
class Upload:
    """An uploaded file with the name that its sender gave it. Who has it closes the file."""

    name: str
    file: BinaryIO


async def read_upload(request: Request, field: str, most_bytes: int) -> Upload:
    """The file called `field` in the request's body.

    Raises BadFrame, MessageTooLarge as soon as too much has come, and StoreUnavailable if the disk is full.
    """
    content_type = request.headers.get("content-type", "")
    if len(content_type) > _LONGEST_TYPE:
        raise BadFrame("content-type: too long")
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise BadFrame("body: expected multipart/form-data")
    if int(request.headers.get("content-length", "0")) > most_bytes + BESIDE_FILE:
        # Before anything of it is read.
        raise _too_large(field, most_bytes)
    try:
        reading = await asyncio.to_thread(_Reading, boundary, field, most_bytes)
    except FormParserError:
        raise BadFrame("body: its boundary is too long") from None
    except OSError as error:
        # No file can be made: the disk is full or read-only, or too many files are open.
        raise StoreUnavailable from error
    try:
        async with served_timeout(_TIMEOUT_S):
            async for piece in request.stream():
                await asyncio.to_thread(reading.take, piece)
        return await asyncio.to_thread(reading.result)
    except BaseException as error:
        reading.file.close()
        raise _refused(error, field) from error


def _refused(error: BaseException, field: str) -> BaseException:
    match error:
        case TimeoutError():
            return BadFrame("The body did not arrive in time.")
        case ClientDisconnect():
            # The client has gone and won't read this, but a typed error keeps it out of the server's errors.
            return BadFrame("The body broke off.")
        case FormParserError() | ValueError():
            return BadFrame(f"body: expected multipart/form-data with one file, called {field!r}")
        case OSError():
            return StoreUnavailable()
    return error


def _too_large(field: str, most_bytes: int) -> MessageTooLarge:
    return MessageTooLarge(f"{field}: larger than the limit of {most_bytes} bytes")


class _Reading:
    """The state of one parser. Its methods run in threads, one after the other."""

    def __init__(self, boundary: bytes, field: str, most_bytes: int) -> None:
        self._field = field
        self._most_bytes = most_bytes
        self._name: str | None = None
        self._size = 0
        """The bytes of the file so far."""
        self._taken = 0
        """The bytes of the body so far."""
        self._head: list[list[bytearray]] = []
        """The names and values of the part's headers."""
        self._head_bytes = 0
        self._is_whole = False
        callbacks: Any = {
            "on_part_begin": self._begin_part,
            "on_header_begin": lambda: self._head.append([bytearray(), bytearray()]),
            "on_header_field": lambda data, start, end: self._add_to_head(0, data[start:end]),
            "on_header_value": lambda data, start, end: self._add_to_head(1, data[start:end]),
            "on_headers_finished": self._end_head,
            "on_part_data": self._add_data,
            "on_end": self._end,
        }
        self._parser = MultipartParser(boundary, callbacks)
        self.file: BinaryIO = TemporaryFile()

    def take(self, piece: bytes) -> None:
        self._taken += len(piece)
        if self._taken > self._most_bytes + BESIDE_FILE:
            # The parser skips what is before the file and after it, however much that is.
            raise _too_large(self._field, self._most_bytes)
        self._parser.write(piece)

    def result(self) -> Upload:
        """Raises BadFrame if the body ended too early."""
        if self._name is None or not self._is_whole:
            raise BadFrame(f"{self._field}: expected one file under this name")
        # Whoever is given it reads from its beginning.
        self.file.seek(0)
        return Upload(self._name, self.file)

    def _begin_part(self) -> None:
        if self._name is not None:
            raise BadFrame(f"{self._field}: expected one file, and nothing beside it")

    def _add_to_head(self, place: int, data: bytes) -> None:
        self._head_bytes += len(data)
        if self._head_bytes > _HEAD_BYTES or not self._head:
            raise BadFrame("body: the head of its part is too long")
        self._head[-1][place] += data

    def _end_head(self) -> None:
        head = {bytes(name).lower(): bytes(value) for name, value in self._head}
        _, options = parse_options_header(head.get(b"content-disposition"))
        if options.get(b"name") != self._field.encode() or b"filename" not in options:
            raise BadFrame(f"{self._field}: expected one file under this name")
        self._name = options[b"filename"].decode(errors="replace")

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        self._size += end - start
        if self._size > self._most_bytes:
            raise _too_large(self._field, self._most_bytes)
        self.file.write(data[start:end])

    def _end(self) -> None:
        self.file.flush()
        self._is_whole = True
