"""What a text is, whatever its bytes: told to be none, or refused as too long, without reading all of it."""

import io

import pytest

from agentic_backend.attachments.kinds import DOCX, HTML, IMAGES, PDF, TEXT, XLSX, is_page, taken_types, text_of
from agentic_backend.errors import BadFrame
from agentic_backend.extraction import extractor


@pytest.mark.parametrize("text", ["", "x" * 10, "ö" * 10, "😀" * 10])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_text_is_read_with_all_its_characters(mark: bytes, text: str) -> None:
    assert text_of(io.BytesIO(mark + text.encode()), 10) == text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x" * 11, "has 11 characters; at most 10"),
        ("😀".encode() * 11, "has more than 10 characters; at most 10"),
        ("ö".encode() * 1_000_000, "has more than 10 characters; at most 10"),
        (b"x" * 100 + b"\xff", "has more than 10 characters"),
    ],
)
def test_what_is_too_long_is_refused(content: bytes, words: str) -> None:
    file = io.BytesIO(content)
    with pytest.raises(BadFrame, match=words):
        text_of(file, 10)
    assert file.tell() <= 44


@pytest.mark.parametrize("content", [b"x\xff", b"\0" * 100, "ö".encode()[:1], b"PK\x03\x04", b" %PDF-1.5"])
def test_what_is_no_text_in_utf_8_is_left_to_what_reads_documents(content: bytes) -> None:
    assert text_of(io.BytesIO(content), 10) is None


def test_without_the_extra_a_page_is_text_and_office_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "<!doctype html><p>x</p>"
    assert is_page(page) and {DOCX, XLSX, HTML} < {*taken_types()}
    monkeypatch.setattr(extractor, "_is_installed", lambda library: library == "pypdfium2")
    assert not is_page(page) and taken_types() == [*IMAGES, PDF, TEXT]
