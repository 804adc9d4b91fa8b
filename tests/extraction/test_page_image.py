"""A page of a PDF as an image: lines are drawn where they are said to stand, within bounds, whatever the file is."""

import os
import struct
import zlib
from tempfile import TemporaryFile

import pytest
from support.attached_files import a_pdf, a_png, pdf_of
from support.extracting import extracted
from support.further_cases import all_but_first, further
from support.made_documents import a_laid_out_pdf

from agentic_backend.errors import DocumentUnreadable
from agentic_backend.extraction.extractor import Bounds, draw_page
from agentic_backend.extraction.page_image import MOST_BYTES, packed_image, unpacked_image


async def drawn(data: bytes, number: int = 1) -> bytes:
    with TemporaryFile() as file:
        file.write(data)
        file.flush()
        return await draw_page(file, number, Bounds(timeout_s=30))


def size_of(image: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", image, 16)
    return width, height


def dark(image: bytes) -> list[tuple[int, int]]:
    """The places of dark pixels in a PNG as this server writes it."""
    width, height = size_of(image)
    [length] = struct.unpack_from(">I", image, 33)
    rows = zlib.decompress(image[41 : 41 + length])
    stride = 3 * width + 1
    return [(x, y) for y in range(height) for x in range(width) if rows[y * stride + 1 + 3 * x] < 128]


@pytest.mark.parametrize("rotate", all_but_first(90, 0))
async def test_lines_are_drawn_where_they_are_said_to_stand(rotate: int) -> None:
    pages = [("one", 40.0, 200.0, 12.0, False)], [("two", 40.0, 200.0, 12.0, False), ("three", 90.0, 50.0, 12.0, True)]
    data = a_laid_out_pdf(*pages, rotate=rotate)
    document, image = await extracted(data), await drawn(data, 2)
    width, height = size_of(image)
    page = document.pages[1]
    assert (width > height) == (page.width > page.height)
    [place] = [each for each in document.places(0, len(document.text)) if each.page == 2]
    scale = width / page.width
    ink = dark(image)
    inside = [
        [(x, y) for x, y in ink if left <= x / scale <= right and top <= y / scale <= bottom]
        for left, top, right, bottom in place.boxes
    ]
    assert len(inside) == 2 and all(inside)
    assert len({*inside[0], *inside[1]}) > 0.95 * len(ink)


def noise() -> bytes:
    pixels = zlib.compress(os.urandom(3 * 1_200 * 1_200), 0)
    content = b"300 0 0 300 0 0 cm /I Do"
    return pdf_of(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 4 0 R "
            b"/Resources << /XObject << /I 5 0 R >> >> >>",
            b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content),
            b"<< /Type /XObject /Subtype /Image /Width 1200 /Height 1200 /BitsPerComponent 8 /ColorSpace /DeviceRGB "
            b"/Filter /FlateDecode /Length %d >>\nstream\n%b\nendstream" % (len(pixels), pixels),
        ]
    )


@pytest.mark.parametrize("box", all_but_first(b"0 0 99999 2", b"0 0 2 99999", b"0 0 14400 14400"))
async def test_however_large_a_page_is_its_image_has_bounds(box: bytes) -> None:
    # `drawn` raises for an image beyond them.
    assert size_of(await drawn(a_pdf("x").replace(b"0 0 300 100", box)))


async def test_an_image_that_takes_many_bytes_is_a_smaller_one() -> None:
    image = await drawn(noise())
    assert size_of(image) == (600, 600) and len(image) <= MOST_BYTES


@pytest.mark.parametrize(
    ("data", "number", "words"),
    [
        (a_pdf("x"), 2, "the PDF has no page 2"),
        (b"# A text", 1, "only a PDF has pages"),
        further(a_pdf("x"), 0, "the PDF has no page 0"),
        further(a_laid_out_pdf([("x", 1, 1, 9, False)], password=True), 1, "the PDF is encrypted"),
        further(b"%PDF-1.5\nrubbish", 1, "the PDF can't be read"),
    ],
)
async def test_what_can_not_be_drawn_is_refused_in_words(data: bytes, number: int, words: str) -> None:
    with pytest.raises(DocumentUnreadable, match=words):
        await drawn(data, number)


IMAGE = a_png(10, 10)


@pytest.mark.parametrize(
    ("image", "size"),
    [
        (b"GIF" + IMAGE[3:], len(IMAGE)),
        (IMAGE, len(IMAGE) + 1),
        (a_png(4_001, 1, pixels=b""), None),
        (a_png(2_000, 2_000, pixels=b""), None),
        (a_png(0, 1, pixels=b""), None),
        (IMAGE[:20], 20),
        (IMAGE + bytes(MOST_BYTES), None),
    ],
)
def test_what_a_program_that_was_taken_over_draws_is_not_believed(image: bytes, size: int | None) -> None:
    said = packed_image(image)
    with pytest.raises(ValueError, match="no image"):
        unpacked_image(said, {"bytes": len(image) if size is None else size})
    assert unpacked_image(packed_image(IMAGE), {"bytes": len(IMAGE)}) == IMAGE
