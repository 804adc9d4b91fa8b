"""Files that are made to harm: each is refused in words or read, soon, within its bounds, and makes no request."""

import os
import socket
from collections.abc import Callable
from string import ascii_uppercase as LETTERS

import pytest
from support.attached_files import a_pdf
from support.extracting import extracted, refused
from support.further_cases import further_but
from support.made_documents import (
    CONTENT_TYPES,
    a_docx,
    a_laid_out_pdf,
    a_paragraph,
    a_word_table,
    a_workbook,
    an_xlsx,
    forged_zip,
    zipped,
)

from agentic_backend.errors import DocumentUnreadable
from agentic_backend.extraction.extractor import Bounds

SMALL = Bounds(characters=400_000)
LAUGHS = (
    '<!DOCTYPE l [<!ENTITY l0 "'
    + "lol" * 10
    + '">'
    + "".join(f'<!ENTITY l{number} "{f"&l{number - 1};" * 10}">' for number in range(1, 10))
    + "]>"
)
CELL = '<sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>{text}</t></is></c></row></sheetData>'
FAR_ROW = '<sheetData><row r="999999999"><c r="A999999999"><v>1</v></c></row></sheetData>'
TYPES_OF_WORD = CONTENT_TYPES.format(part="word/document.xml", kind="wordprocessingml.document")


def far_cells() -> bytes:
    """A workbook of 30 kB that says it has 17 billion cells; made to a table, its few would take gigabytes."""
    cells = '<c r="A{0}"><v>1</v></c><c r="XFD{0}"><v>2</v></c>'
    rows = "".join(f'<row r="{number}">{cells.format(number)}</row>' for number in range(1, 500_000, 1_000))
    wide = "".join(f'<c r="{letter}{first}1"><v>1</v></c>' for letter in "ABCDEFGHIJKLMNOP" for first in LETTERS)
    return an_xlsx(f'<dimension ref="A1:XFD1048576"/><sheetData><row r="1">{wide}</row>{rows}</sheetData>')


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "laughs in a docx": (lambda: a_docx("<w:p><w:r><w:t>&l9;</w:t></w:r></w:p>", prolog=LAUGHS), "the DOCX file can't"),
    "laughs in a workbook": (lambda: an_xlsx(CELL.format(text="&l9;"), prolog=LAUGHS), "the workbook can't"),
    "a bomb": (lambda: zipped({"[Content_Types].xml": TYPES_OF_WORD, "a": bytes(300_000_000)}), "unpacks to more"),
    "a dense bomb": (lambda: zipped({"[Content_Types].xml": TYPES_OF_WORD, "a": bytes(30_000_000)}), "unpacks to more"),
    "many entries": (lambda: forged_zip(60_000), "unpacks to more"),
    "a deep docx": (
        lambda: a_docx("<w:a><w:b>" * 10_000 + "</w:b></w:a>" * 10_000),
        "can't be read",
    ),
    "a row that is far away": (lambda: an_xlsx(FAR_ROW), "1,048,576 rows"),
    "cells that are far away": (far_cells, "more than 400,000 characters"),
    "a million columns": (lambda: b",".join([b"a"] * 1_000_000), "16,384 columns|400,000"),
    "a line of 50 MB": (lambda: b"x" * 50_000_000, "more than 400,000 characters"),
    "a deep page": (
        lambda: b"<html><body>" + b"<div>" * 10_000 + b"x" + b"</div>" * 10_000,
        "no text that can be read",
    ),
    "deep lists": (lambda: b"<html><body>" + b"<ul><li>" * 10_000 + b"x", "no text that can be read"),
    "a page of pages": (lambda: a_pdf(*["x"] * 2_001), "has 2,001 pages; at most 2,000"),
    "a loop of pages": (lambda: a_pdf("x").replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]"), "the PDF"),
    "a content that is its page": (
        lambda: a_pdf("x").replace(b"/Contents 5", b"/Contents 4"),
        "the PDF has no text",
    ),
    "brackets in a PDF": (lambda: a_pdf(stream=b"[" * 1_000_000), "the PDF"),
    "a bomb in a PDF": (lambda: a_pdf(stream=b"BT (x) Tj ET\n" * 8_000_000), "the (text of the )?(PDF|file)"),
    "an encrypted PDF": (lambda: a_laid_out_pdf([("x", 1, 1, 9, False)], password=True), "the PDF is encrypted"),
    "a scan": (lambda: a_pdf(stream=b"0 0 100 100 re f"), "it may be a scan"),
    "nothing": (lambda: b"", "it is empty"),
    "white space": (lambda: b" \n" * 100, "no text"),
    "zeros": (lambda: bytes(100_000), "What is read is Markdown"),
    "noise": (lambda: b"\x00" + os.urandom(100_000), "What is read is Markdown"),
    "a program": (lambda: b"\x7fELF" + bytes(100), "a program is not read"),
    "an image": (lambda: b"\x89PNG\r\n\x1a\n" + bytes(100), "an image is not read"),
    "an archive": (lambda: zipped({"a.txt": "x"}), "an archive"),
    "a presentation": (
        lambda: zipped({"[Content_Types].xml": CONTENT_TYPES.format(part="a", kind="presentationml.presentation")}),
        "a presentation is not read",
    ),
    "a broken archive": (lambda: b"PK\x03\x04" + os.urandom(1_000), "the file is damaged"),
    "an old Office": (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1_000), "an old Office"),
    "an encrypted Office": (
        lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
        "the file is encrypted",
    ),
    "a zero in a text": (lambda: b"a\0b", "bytes that no text has"),
}


EVERY_TIME = ("laughs in a docx", "a bomb", "cells that are far away", "a loop of pages", "an encrypted PDF", "noise")


@pytest.mark.parametrize("kind", further_but(EVERY_TIME, HOSTILE))
async def test_what_is_made_to_harm_is_refused_in_words(kind: str) -> None:
    make, words = HOSTILE[kind]
    name = "a.csv" if kind in ("a million columns", "a line of 50 MB") else "a"
    with pytest.raises(DocumentUnreadable, match=words):
        await extracted(make(), name, SMALL)


DOCUMENTS: dict[str, Callable[[], bytes]] = {
    "a.docx": lambda: a_docx(a_paragraph("Groß" * 50, "Heading1"), a_word_table([["a", "b"], ["1", "2"]])),
    "a.xlsx": lambda: a_workbook({"One": [["a", "b"], [1, 2]]}),
    "a.pdf": lambda: a_pdf("one", "two", "three"),
    "a.html": lambda: ("<html><body><h1>Größe</h1>" + "<p>Ein Satz.</p>" * 50).encode(),
    "a.csv": lambda: ("Größe;Preis\r\n" + '"a";1\r\n' * 50).encode("utf-16"),
}


@pytest.mark.parametrize("name", further_but(["a.pdf"], DOCUMENTS))
async def test_what_is_cut_off_is_refused_in_words_or_read_as_far_as_it_goes(name: str) -> None:
    whole = DOCUMENTS[name]()
    for tenth in range(10):
        words = await refused(whole[: len(whole) * tenth // 10], name)
        assert words == "" or words.isprintable()
    assert await refused(whole, name) == ""


async def test_an_ending_tells_nothing_where_the_content_does() -> None:
    for name, make in DOCUMENTS.items():
        if name != "a.csv":
            assert f"a.{(await extracted(make(), 'a.csv')).kind}" == name


async def test_halves_of_characters_and_controls_are_in_no_text() -> None:
    odd = a_docx(a_paragraph("a b"), "<w:p><w:r><w:t>&#x1;</w:t></w:r></w:p>")
    assert (await refused(odd)).startswith("the DOCX file")
    page = "<html><body><p>a&#xD83D;&#xDE00;b&#0;c&#7;d</p></body></html>"
    text = (await extracted(page.encode())).text
    assert text.encode() and not any(ord(character) < 32 for character in text)


async def test_no_document_makes_a_request_or_reads_a_file() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        entities = f'<!DOCTYPE d [<!ENTITY e SYSTEM "{url}"><!ENTITY f SYSTEM "file:///etc/passwd">]>'
        office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
        outside = "".join(
            f'<Relationship Id="o{number}" Type="{office}/{kind}" Target="{target}" TargetMode="External"/>'
            for number, (kind, target) in enumerate(
                [("image", url), ("hyperlink", url), ("image", "file:///etc/passwd")]
            )
        )
        picture = (
            '<w:p><w:r><w:pict><v:imagedata xmlns:v="urn:schemas-microsoft-com:vml" r:id="o{0}"/></w:pict></w:r></w:p>'
        )
        external = {"xl/externalLinks/externalLink1.xml": f'<a href="{url}"/>'}
        made = [
            a_docx(a_paragraph("x"), *map(picture.format, (0, 2)), relationships=outside),
            a_docx("<w:p><w:r><w:t>x&e;&f;</w:t></w:r></w:p>", prolog=entities),
            an_xlsx(CELL.format(text="x&e;&f;"), prolog=entities, parts=external),
            f"{entities}<html><head><base href='{url}'><link rel='stylesheet' href='{url}'></head><body><p>x &e; &f;"
            f"<img src='{url}'><iframe src='{url}'></iframe><object data='{url}'></object></body></html>".encode(),
            f"<!DOCTYPE html SYSTEM '{url}'><html><body><p>x</p><script src='{url}'></script></body></html>".encode(),
        ]
        for document in made:
            words = await refused(document)
            assert words or "root:" not in (await extracted(document)).text
        with pytest.raises(BlockingIOError):
            listening.accept()
