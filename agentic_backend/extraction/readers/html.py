"""Pages in HTML: their content without menus and footers, as trafilatura finds it."""

from copy import deepcopy
from typing import Any

import lxml.html
import trafilatura
from lxml import etree
from trafilatura.settings import DEFAULT_CONFIG

from agentic_backend.extraction.document import Document
from agentic_backend.extraction.kinds import Refused
from agentic_backend.extraction.readers.markup import MarkupWriter
from agentic_backend.extraction.writing import Writer

_ASIDE = ("script", "style", "noscript", "template", "nav", "footer", "aside", "iframe", "svg", "head")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LEAST_PART, _SHORT, _MOST_ELEMENTS = 0.25, 500, 20_000


def read_html(text: str, most_characters: int) -> Document:
    """Raises Refused, and whatever the libraries raise."""
    writer = Writer(most_characters)
    if text.strip():
        tree = _tree_of(text)
        titles = [_words(each) for each in tree.iter("h1")]
        content = _content_of(tree)
        # Of some pages it leaves out the one heading that they stand below.
        if len(titles) == 1 and titles[0] not in [_words(each) for each in content.iter("h1", "head")]:
            writer.heading(1, titles[0])
        MarkupWriter(writer).walk(content)
    found = writer.document("html")
    if not found.blocks:
        raise Refused("the page has no text that can be read; a script may make it in a browser")
    return found


def _tree_of(text: str) -> Any:
    # Neither a DTD nor an entity is loaded, from wherever; the text has no other encoding than this any more.
    parser = lxml.html.HTMLParser(
        encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=False
    )
    tree = lxml.html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    # What people don't see is no text for models, nor are the links beside headings that lead to themselves.
    for element in [each for each in tree.iter() if _is_hidden(each) or _is_permalink(each)]:
        if element.getparent() is not None:
            element.drop_tree()
    return tree


def _is_permalink(element: Any) -> bool:
    if element.tag != "a" or (element.text_content() or "").strip() not in ("#", "¶", "§"):
        return False
    return any(each.tag in _HEADINGS for each in element.iterancestors())


def _is_hidden(element: Any) -> bool:
    style = "".join((element.get("style") or "").lower().split())
    return element.get("hidden") is not None or "display:none" in style or "visibility:hidden" in style


def _content_of(tree: Any) -> Any:
    """The part of the page that it is about; all but menus and the like where that is not clear."""
    whole = _without_asides(tree)
    length = _length(whole)
    # What it leaves out of a short page is not there for its own sake: of a few lines it takes the heading for a title.
    # Of a very large one it takes minutes to tell links from texts.
    if length < _SHORT or sum(1 for _ in whole.iter()) > _MOST_ELEMENTS:
        return whole
    config = _config()
    found = trafilatura.bare_extraction(
        tree,
        # Neither a second algorithm for articles alone, nor the page as one paragraph where it is short.
        fast=True,
        config=config,
        favor_recall=True,
        include_comments=False,
        include_tables=True,
        include_formatting=True,
    )
    body = getattr(found, "body", None)
    if body is None or _length(body) < _LEAST_PART * length:
        return whole
    return body


def _without_asides(tree: Any) -> Any:
    whole = deepcopy(tree)
    etree.strip_elements(whole, *_ASIDE, with_tail=False)
    body = whole.find("body")
    return whole if body is None else body


def _config() -> Any:
    config = deepcopy(DEFAULT_CONFIG)
    for name in ("MIN_EXTRACTED_SIZE", "MIN_OUTPUT_SIZE"):
        config.set("DEFAULT", name, "1")
    return config


def _words(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def _length(element: Any) -> int:
    return sum(len(text.strip()) for text in element.itertext())
