"""HTML, of pages and as mammoth makes it of DOCX, written as blocks."""

import re
from typing import Any

from lxml.etree import iterwalk

from agentic_backend.extraction.kinds import Refused
from agentic_backend.extraction.writing import Writer

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset(("ul", "ol", "dl", "list", "menu"))
_ITEMS = frozenset(("li", "item", "dt", "dd"))
_BLOCKS = frozenset(
    ("p", "div", "section", "article", "main", "header", "footer", "aside", "nav", "blockquote", "quote", "figure",
     "figcaption", "details", "summary", "address", "form", "fieldset", "center", "body", "html", "hgroup")
)  # fmt: skip
_INNER = _BLOCKS | _LISTS | _ITEMS | _HEADINGS.keys() | {"table", "pre", "head"}
_UNSEEN = frozenset(
    ("script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed", "canvas", "select",
     "button", "textarea", "input", "audio", "video", "title", "meta", "link")
)  # fmt: skip
_CELLS = ("td", "th", "cell")
_OF_PAGES = _HEADINGS.keys() | {"head", "table", "pre"}
_DEEPEST = 500
_MOST_SPAN = 1_000
_SPACES = re.compile(r"[ \t\r\n\f\xa0]+")
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source|brush)[-:]\s*([\w+#-]{1,30})")


class MarkupWriter:
    """Walks through an element of lxml, of HTML or as trafilatura has it, and writes its blocks."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def walk(self, element: Any, depth: int = 0) -> None:
        """Write the element's content. Raises Refused if it is too deep."""
        if depth > _DEEPEST:
            raise Refused("its parts are nested too deep")
        inline = [element.text or ""]
        for child in element:
            tag = _tag(child)
            if tag in _UNSEEN:
                pass
            elif tag in ("br", "lb"):
                inline.append("\v")
            elif tag in _INNER or (tag == "code" and _is_block_of_code(child)) or _has_blocks(child):
                self._flush(inline)
                self._block(child, tag, depth)
            else:
                inline.append(_inline(child))
            inline.append(child.tail or "")
        self._flush(inline)

    def _flush(self, inline: list[str]) -> None:
        self._writer.paragraph(_words("".join(inline)))
        inline.clear()

    def _block(self, element: Any, tag: str, depth: int) -> None:
        if tag in _HEADINGS or tag == "head":
            level = _HEADINGS.get(tag) or _HEADINGS.get(element.get("rend", ""), 2)
            self._writer.heading(level, _words(_inline(element)))
        elif tag == "table":
            self._table(element, depth)
        elif tag in ("pre", "code"):
            self._writer.code("".join(element.itertext()), _language(element))
        elif tag in _LISTS:
            self._list(element, depth)
        elif tag == "figcaption" or "caption" in element.get("class", "").split():
            figure = element.getparent()
            is_of_table = tag != "figcaption" or (figure is not None and figure.find(".//table") is not None)
            self._writer.paragraph(_words(_inline(element)), caption=is_of_table)
        else:
            self.walk(element, depth + 1)

    def _list(self, element: Any, depth: int, level: int = 1) -> None:
        if depth + level > _DEEPEST:
            raise Refused("its parts are nested too deep")
        for number, child in enumerate((each for each in element if _tag(each)), start=1):
            is_numbered = _tag(element) == "ol" or element.get("rend") == "ol"
            if _tag(child) in _LISTS:
                self._list(child, depth + 1, level + 1)
                continue
            inner = [each for each in child if _tag(each) in _LISTS]
            tables = [each for each in child.iter("table", "pre")]
            self._writer.item(
                level, _words(_inline(child, without=(*inner, *tables))), f"{number}." if is_numbered else "-"
            )
            for each in tables:
                self._block(each, _tag(each), depth + 1)
            for each in inner:
                self._list(each, depth + 1, level + 1)

    def _table(self, table: Any, depth: int) -> None:
        if _is_layout(table):
            for cell in _cells_of(table):
                self.walk(cell, depth + 1)
            return
        captions = [_words(_inline(each)) for each in table if _tag(each) == "caption"]
        rows: list[list[str]] = []
        # Cells that reach down into the rows below, by column: how many rows yet.
        reaching: dict[int, int] = {}
        for row in table.iter("tr", "row"):
            # A table within a table is a part of its cell.
            if next(row.iterancestors("table")) is table:
                rows.append(_row(row, reaching))
        if rows:
            self._writer.table(rows, " ".join(captions))


def _cells_of(table: Any) -> list[Any]:
    """The table's own cells, and not those of tables in them."""
    own = (each for each in table.iter(*_CELLS) if next(each.iterancestors("table"), None) is table)
    return list(own)


def _is_layout(table: Any) -> bool:
    """Whether a table is there to put things side by side: parts of a page, or one cell in each row."""
    if any(_tag(each) in _OF_PAGES for each in table.iter() if each is not table):
        return True
    if any(_tag(each) in ("caption", "th") or each.get("role") == "head" for each in table.iter()):
        return False
    rows = [row for row in table.iter("tr", "row") if next(row.iterancestors("table"), None) is table]
    return all(sum(_tag(cell) in _CELLS for cell in row) < 2 for row in rows)


def _row(row: Any, reaching: dict[int, int]) -> list[str]:
    """Texts of the cells, each in its column: what a cell spans beside itself is empty."""
    cells: list[str] = []

    def skip() -> None:
        while reaching.get(len(cells), 0) > 0:
            reaching[len(cells)] -= 1
            cells.append("")

    for cell in row:
        if _tag(cell) not in _CELLS:
            continue
        skip()
        down = _span(cell, "rowspan") - 1
        for place in range(_span(cell, "colspan")):
            if down:
                reaching[len(cells)] = down
            cells.append(_words(_inline(cell)) if place == 0 else "")
    skip()
    return cells


def _span(cell: Any, name: str) -> int:
    given = cell.get(name, "1").strip()
    return min(max(int(given), 1), _MOST_SPAN) if given.isascii() and given.isdigit() and len(given) < 9 else 1


def _tag(element: Any) -> str:
    """The element's name; empty for a comment or an instruction."""
    tag = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def _has_blocks(element: Any) -> bool:
    return any(_tag(each) in _INNER for each in element.iter()) if len(element) else False


def _is_block_of_code(element: Any) -> bool:
    return "\n" in "".join(element.itertext()).strip()


def _language(element: Any) -> str | None:
    for each in element.iter():
        if found := _LANGUAGE.search(each.get("class") or ""):
            return found[1].lower()
    return None


def _inline(element: Any, without: tuple[Any, ...] = ()) -> str:
    """The text in an element, a vertical tab for each break of a line."""
    if not len(element):
        return element.text or ""
    pieces: list[str] = []
    hidden: Any = None
    for event, each in iterwalk(element, events=("start", "end")):
        tag = _tag(each)
        if hidden is None and event == "start":
            if tag in _UNSEEN or each in without:
                hidden = each
            else:
                pieces.append(
                    ("\v" if tag in ("br", "lb") or (tag in _INNER and each is not element) else "") + (each.text or "")
                )
        elif event == "end":
            if hidden is each:
                hidden = None
            if hidden is None and each is not element:
                pieces.append(("\v" if tag in _INNER or tag in ("td", "th", "cell") else "") + (each.tail or ""))
    return "".join(pieces)


def _words(text: str) -> str:
    """The text with one space for each run of them, in the lines that breaks make."""
    lines = (_SPACES.sub(" ", line).strip() for line in text.split("\v"))
    return "\n".join(line for line in lines if line)
