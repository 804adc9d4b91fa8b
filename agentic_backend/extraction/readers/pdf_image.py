"""A page of a PDF as an image, as PDFium draws it: a PNG, which needs no other library."""

import struct
import zlib
from math import isfinite, sqrt

import pypdfium2

from agentic_backend.extraction.kinds import Refused
from agentic_backend.extraction.page_image import LONGEST_SIDE, MOST_BYTES, MOST_PIXELS, PNG
from agentic_backend.extraction.readers.pdf import opened_pdf

_WIDTH = 1_200
"""In pixels: enough to read the letters of a page of text."""
_LARGEST_SCALE = 4.0
_TRIES = 4


def draw_page(data: bytes, number: int) -> bytes:
    """The page with this number, from 1, within the bounds of `page_image`; a smaller image where it takes many bytes.

    Raises Refused, and whatever the library raises.
    """
    pdf = opened_pdf(data)
    if not 1 <= number <= len(pdf):
        raise Refused(f"the PDF has no page {number:,}")
    page = pdf[number - 1]
    width, height = page.get_size()
    if not (isfinite(width * height) and width * height > 0):
        raise Refused("the page has no size")
    scale = min(
        _LARGEST_SCALE,
        _WIDTH / width,
        (LONGEST_SIDE - 1) / max(width, height),
        0.98 * sqrt(MOST_PIXELS / (width * height)),
    )
    for _ in range(_TRIES):
        drawn = _png(page, scale)
        if len(drawn) <= MOST_BYTES:
            return drawn
        scale /= 2
    raise Refused("the image of the page is too large")


def _png(page: pypdfium2.PdfPage, scale: float) -> bytes:
    bitmap = page.render(scale=scale, rev_byteorder=True)
    width, height, stride = bitmap.width, bitmap.height, bitmap.stride
    pixels = memoryview(bitmap.buffer).cast("B")
    # Each row begins with its filter: none.
    rows = b"".join(b"\0" + pixels[row * stride : row * stride + 3 * width].tobytes() for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    made = [
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    ]
    return PNG + b"".join(made)
