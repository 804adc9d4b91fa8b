"""Texts that are read as they are: plain text and source code. Their blocks are found in them."""

from collections.abc import Iterator

from agentic_backend.extraction.document import Document
from agentic_backend.extraction.writing import Blocks


def read_text(text: str) -> Document:
    """Each paragraph is a block: lines without an empty one between them."""
    blocks = Blocks()
    for start, end in _paragraphs(text):
        blocks.add("paragraph", start, end)
    return Document("text", text, tuple(blocks.found))


def read_code(text: str, language: str | None) -> Document:
    """Each piece that begins at the left margin after an empty line is a block, such as a function."""
    blocks, begun, last = Blocks(), -1, 0
    for start, end in _paragraphs(text):
        if begun >= 0 and not text[start].isspace() and text[start] not in ")]}":
            blocks.add("code", begun, last, language=language)
            begun = -1
        begun, last = start if begun < 0 else begun, end
    if begun >= 0:
        blocks.add("code", begun, last, language=language)
    return Document("code", text, tuple(blocks.found))


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """The spans of lines without an empty one between them."""
    place, begun, last = 0, -1, 0
    for line in text.split("\n"):
        if line.strip():
            begun, last = place if begun < 0 else begun, place + len(line)
        elif begun >= 0:
            yield begun, last
            begun = -1
        place += len(line) + 1
    if begun >= 0:
        yield begun, last
