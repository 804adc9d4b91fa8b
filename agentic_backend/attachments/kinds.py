"""What an attachment is, told by its content: an image by its header, a text in UTF-8, or a document. Pure.

Only a header is read of an image, so that one whose pixels take gigabytes costs nothing here.
"""

import re
from codecs import getincrementaldecoder
from dataclasses import dataclass
from typing import BinaryIO

from agentic_backend.errors import BadFrame
from agentic_backend.extraction.document import DocumentKind
from agentic_backend.extraction.extractor import takes
from agentic_backend.extraction.kinds import ZIP, is_html, is_pdf

TEXT, HTML, PDF = "text/plain", "text/html", "application/pdf"
_OFFICE = "application/vnd.openxmlformats-officedocument"
DOCX, XLSX = f"{_OFFICE}.wordprocessingml.document", f"{_OFFICE}.spreadsheetml.sheet"
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
TYPES: dict[DocumentKind, str] = {"pdf": PDF, "docx": DOCX, "xlsx": XLSX, "html": HTML}
"""The media types of documents; whatever else has a text is TEXT."""

HEAD_BYTES = 1024 * 1024
"""How much of a file is read for its type: a camera's notes, before the size of a JPEG, take less."""

# Those that no text has; a log of a terminal has escapes and backspaces.
_CONTROLS = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f]")
# A JPEG's start of frame, which has its size; C4, C8 and CC are other things.
_SIZED = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD8)})


@dataclass(frozen=True, slots=True)
class ImageHead:
    """An image as its header tells; width and height in pixels."""

    mime: str
    width: int
    height: int


def image_head(head: bytes) -> ImageHead | None:
    """The image that begins with `head`; None if it is no image. Raises BadFrame if its header can't be read."""
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            if head[12:16] != b"IHDR":
                raise ValueError
            return ImageHead("image/png", _number(head[16:20], "big"), _number(head[20:24], "big"))
        if head.startswith((b"GIF87a", b"GIF89a")):
            return ImageHead("image/gif", _number(head[6:8], "little"), _number(head[8:10], "little"))
        if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
            return ImageHead("image/webp", *_webp_size(head))
        if head.startswith(b"\xff\xd8\xff"):
            return ImageHead("image/jpeg", *_jpeg_size(head))
    except (ValueError, IndexError):
        raise BadFrame("file: the image can't be read") from None
    return None


def taken_types() -> list[str]:
    """The media types that attachments may have, with the libraries that are installed."""
    return [*IMAGES, *(mime for kind, mime in TYPES.items() if takes(kind)), TEXT]


def is_page(text: str) -> bool:
    """Whether a text is a page of HTML that is read as people see it; without the libraries it is text."""
    return is_html(text) and takes("html")


def text_of(file: BinaryIO, most: int) -> str | None:
    """The file as text; None if it is none in UTF-8. Raises BadFrame if it has more than `most` characters."""
    file.seek(0)
    # A character has four bytes at most, and a mark may precede them; how much more there is doesn't matter.
    largest = 4 * most + 3
    data = file.read(largest + 1)
    if data.startswith(ZIP) or is_pdf(data):
        return None
    is_whole = len(data) <= largest
    try:
        text = getincrementaldecoder("utf-8-sig")().decode(data, final=is_whole)
    except UnicodeDecodeError:
        return None
    # No further: a search holds up all threads of the process.
    if _CONTROLS.search(text, 0, most):
        return None
    if len(text) > most:
        count = f"{len(text):,}" if is_whole else f"more than {most:,}"
        raise BadFrame(f"file: the text has {count} characters; at most {most:,} are read")
    return text


def _number(data: bytes, order: str) -> int:
    if not data:
        raise ValueError
    return int.from_bytes(data, "big" if order == "big" else "little")


def _webp_size(head: bytes) -> tuple[int, int]:
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + _number(head[24:27], "little"), 1 + _number(head[27:30], "little")
    if kind == b"VP8L" and head[20] == 0x2F:
        bits = _number(head[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        return _number(head[26:28], "little") & 0x3FFF, _number(head[28:30], "little") & 0x3FFF
    raise ValueError


def _jpeg_size(head: bytes) -> tuple[int, int]:
    place = 2
    while True:
        if head[place] != 0xFF:
            raise ValueError
        marker = head[place + 1]
        if marker == 0xFF:
            # Fills up to the marker.
            place += 1
        elif marker in _SIZED:
            return _number(head[place + 7 : place + 9], "big"), _number(head[place + 5 : place + 7], "big")
        else:
            place += 2 if marker in _WITHOUT_LENGTH else 2 + _segment(head[place + 2 : place + 4])


def _segment(length: bytes) -> int:
    """The length of a segment, which counts its own two bytes."""
    if (number := _number(length, "big")) < 2:
        raise ValueError
    return number
