"""Files read as the server reads them: by the program that is made for each."""

from tempfile import TemporaryFile

from agentic_backend.errors import DocumentUnreadable
from agentic_backend.extraction.document import Block, Document
from agentic_backend.extraction.extractor import Bounds, extract


async def extracted(data: bytes, name: str = "file", bounds: Bounds | None = None) -> Document:
    with TemporaryFile() as file:
        file.write(data)
        file.flush()
        return await extract(file, name, bounds or Bounds())


async def refused(data: bytes, name: str = "file", bounds: Bounds | None = None) -> str:
    """The words with which the file is refused; empty if it is read."""
    try:
        await extracted(data, name, bounds)
    except DocumentUnreadable as error:
        return error.content
    return ""


def outline(document: Document) -> list[tuple[object, ...]]:
    """Each block in short: its kind, its text, its path, and what else it has."""
    return [(block.kind, document.text_of(block), block.path, *_more(block)) for block in document.blocks]


def _more(block: Block) -> list[object]:
    return [each for each in (block.level, block.language, block.caption) if each is not None]
