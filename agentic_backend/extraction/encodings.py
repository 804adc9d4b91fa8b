"""Bytes as text: by their mark, as UTF-8, or in the encoding that they are probably in."""

import codecs
import re
from contextlib import suppress

from agentic_backend.extraction.kinds import Refused, is_html, neither

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    # Before UTF-16, whose mark they begin with.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE_MARKS = tuple(mark for mark, _ in _MARKS if mark != codecs.BOM_UTF8)
_GUESSED = (
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r", "shift_jis", "euc_jp",
    "gb18030", "big5", "euc_kr", "cp850", "mac_roman",
)  # fmt: skip
_PREFERRED = "cp1252"
_SAMPLE = 64 * 1024
# Those that no text has; a log of a terminal has escapes and backspaces.
_CONTROLS = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f]")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_GOOD_FOR_BAD = 8
_HIGH = re.compile(rb"[\x80-\xff]")
_DECLARED = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})|<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})",
    re.IGNORECASE,
)


def load_encodings(data: bytes) -> None:
    """Import all that decoding of this may need."""
    for _, encoding in _MARKS:
        codecs.lookup(encoding)
    with suppress(UnicodeDecodeError):
        data.decode()
        return
    from charset_normalizer import from_bytes

    for name in _GUESSED:
        codecs.lookup(name)
    from_bytes("größe, Äpfel".encode("cp1252"), cp_isolation=list(_GUESSED)).best()


def text_in(data: bytes) -> str:
    """The text, with `\\n` at the ends of its lines. Raises Refused if there is none."""
    text = _decoded(data).replace("\r\n", "\n").replace("\r", "\n")
    if _CONTROLS.search(text):
        raise neither("it has bytes that no text has")
    return text


def page_in(data: bytes, *, is_named: bool) -> str | None:
    """The text of a page of HTML, in the encoding that it declares; None if it is none.

    `is_named`: whether its name says that it is one. Raises Refused if it can't be read.
    """
    if data.startswith(_WIDE_MARKS):
        text = text_in(data)
        return text if is_html(text) or (is_named and text.lstrip().startswith("<")) else None
    # ASCII is the same in all other encodings that pages have.
    head = data[:_SAMPLE].removeprefix(codecs.BOM_UTF8).decode("latin-1")
    if not is_html(head) and not (is_named and head.lstrip().startswith("<")):
        return None
    if not data.startswith(codecs.BOM_UTF8) and (found := _DECLARED.search(data[:4096])):
        # What says of itself that it is in UTF-16 could not be read if it were.
        with suppress(LookupError, UnicodeError, OSError):
            encoding = codecs.lookup((found[1] or found[2]).decode()).name
            if not encoding.startswith(("utf-16", "utf-32", "utf-7")):
                # As browsers do.
                return data.decode("cp1252" if encoding in ("iso8859-1", "ascii") else encoding, "replace")
    return _decoded(data)


def _decoded(data: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                raise Refused("the text can't be read: it has bytes that are none of its encoding") from None
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    # A byte or two that are broken in much that is UTF-8; in another encoding hardly anything is.
    if not bad or bad * _GOOD_FOR_BAD <= sum(map(len, _BEYOND_ASCII.findall(text))) - bad:
        return text
    if b"\0" in data:
        return _without_mark(data)
    return data.decode(_guessed(data), "replace")


def _without_mark(data: bytes) -> str:
    """A text in UTF-16 whose mark is missing: of most characters one byte is zero."""
    sample = data[:_SAMPLE]
    for offset, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if sample[offset::2].count(0) * 2 > len(sample) // 2 and not sample[1 - offset :: 2].count(0):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError:
                break
    raise neither("it has bytes that no text has")


def _guessed(data: bytes) -> str:
    from charset_normalizer import from_bytes

    matches = from_bytes(_sample(data), cp_isolation=list(_GUESSED))
    best = matches.best()
    if best is None:
        raise neither("it has bytes that no text has")
    # Where several fit alike, the one that most files are in.
    for match in matches:
        is_as_good = match.chaos <= best.chaos and match.coherence >= best.coherence
        if is_as_good and _PREFERRED in (match.encoding, *match.could_be_from_charset):
            return _PREFERRED
    return str(best.encoding)


def _sample(data: bytes) -> bytes:
    """Pieces around what is not ASCII: a long beginning in English tells nothing."""
    if len(data) <= _SAMPLE:
        return data
    found = _HIGH.search(data)
    first = found.start() if found else 0
    return data[max(0, first - 512) : first + _SAMPLE]
