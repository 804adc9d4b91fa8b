"""Files that people attach, made by hand: no library that reads them has made them."""

import struct
import zlib
from typing import Any

import httpx


def a_png(width: int = 2, height: int = 2, *, pixels: bytes | None = None) -> bytes:
    """A grey image; without all its pixels where `pixels` are given."""
    rows = (b"\0" + b"\x80" * width) * height if pixels is None else pixels
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    made = b"\x89PNG\r\n\x1a\n"
    for kind, data in chunks:
        made += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return made


def a_pdf(*pages: str, stream: bytes | None = None) -> bytes:
    """A PDF with a line of text on each page; `stream` stands for the content of the first one."""
    texts = [f"BT /F1 12 Tf 20 50 Td ({text}) Tj ET".encode("latin-1") for text in pages or ("",)]
    if stream is not None:
        texts[0] = stream
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(texts)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(texts):
        place = 5 + 2 * number
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 100] /Contents {place} 0 R "
            f"/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        packed = zlib.compress(text, 9)
        head = f"<< /Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode()
        objects.append(head + packed + b"\nendstream")
    return pdf_of(objects)


def pdf_of(objects: list[bytes], trailer: bytes = b"") -> bytes:
    """A PDF with these objects, the first one its root, and what else its trailer says."""
    made, places = bytearray(b"%PDF-1.5\n"), []
    for number, content in enumerate(objects, start=1):
        places.append(len(made))
        made += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    start = len(made)
    made += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    made += b"".join(b"%010d 00000 n \n" % place for place in places)
    made += b"trailer\n<< /Root 1 0 R %b/Size %d >>\nstartxref\n%d\n%%%%EOF\n" % (trailer, len(objects) + 1, start)
    return bytes(made)


async def upload(http: httpx.AsyncClient, content: bytes, name: str = "notes.txt") -> httpx.Response:
    return await http.post("/attachments", files={"file": (name, content, "application/x-anything")})


async def uploaded(http: httpx.AsyncClient, content: bytes, name: str = "notes.txt") -> dict[str, Any]:
    """The attachment that the upload makes."""
    answer = await upload(http, content, name)
    assert answer.status_code == 201, answer.text
    shown: dict[str, Any] = answer.json()
    return shown
