"""DOCX, by the styles of its paragraphs: mammoth makes HTML of it, which is written as blocks."""

import io
from typing import Any
from xml.dom import expatbuilder, minidom

import lxml.html
import mammoth

from agentic_backend.extraction.document import Document
from agentic_backend.extraction.kinds import Refused
from agentic_backend.extraction.readers.markup import MarkupWriter
from agentic_backend.extraction.writing import Writer

# Beside mammoth's own; Word stores these names in English, whatever language it speaks. `!` is another paragraph.
_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='title'] => h1:fresh
p[style-name='Subtitle'] => p:fresh
p[style-name='Caption'] => p.caption:fresh
p[style-name='caption'] => p.caption:fresh
p[style-name='Code'] => pre:separator('\\n')
p[style-name='HTML Preformatted'] => pre:separator('\\n')
p[style-name='Source Code'] => pre:separator('\\n')
p[style-name='Plain Text'] => p:fresh
"""


class _WithoutDtd(expatbuilder.ExpatBuilderNS):
    """Builds what minidom does, of XML without a DTD: Office writes none, and entities take any time."""

    def start_doctype_decl_handler(self, *_: Any) -> None:
        raise Refused("the DOCX file can't be read: it has a DTD")


def read_docx(data: bytes, most_characters: int) -> Document:
    """Raises Refused, and whatever the libraries raise."""
    # What mammoth calls, in this process alone.
    minidom.parse = _parse  # type: ignore[assignment]
    made = mammoth.convert_to_html(
        io.BytesIO(data), style_map=_STYLES, convert_image=_no_image, external_file_access=False
    )
    writer = Writer(most_characters)
    if made.value:
        # One element around all, so that it is walked as a page's body is.
        tree = lxml.html.fragment_fromstring(made.value, create_parent="div")
        for back in tree.xpath("//a[starts-with(@href, '#') and contains(@href, 'note-ref-')][. = '↑']"):
            # The way back from a note is of no use in a text.
            back.drop_tree()
        MarkupWriter(writer).walk(tree)
    found = writer.document("docx")
    if not found.blocks:
        raise Refused("the DOCX file has no text, only images perhaps")
    return found


def _parse(file: Any) -> Any:
    builder: Any = _WithoutDtd()
    return builder.parseFile(file)


def _no_image(_: Any) -> list[Any]:
    return []
