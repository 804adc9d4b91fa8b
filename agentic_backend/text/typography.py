r"""A text as people read it: what is written in escapes, set in typography or marked up, as plain characters.

`decoded` reads escapes (`&#64;`, `%40`, `\u0040`). `set_plainly` reads what is left as a person does: any space as a
space, any hyphen as a hyphen, any digit as a digit; nothing of what nobody sees and of marks; `(at)` as `@`. Each
character knows what it stands for. Both take time that is linear in the length of the text.
"""

import re
import unicodedata
from html import unescape
from urllib.parse import unquote

from agentic_backend.text.invisible_characters import IGNORABLE
from agentic_backend.text.plain_text import PlainText

_ESCAPE = re.compile(
    # Of HTML; those of names and numbers without their semicolon too, as browsers read them.
    r"&(?:\#[0-9]{1,7};?|\#x[0-9a-f]{1,6};?|[a-z][a-z0-9]{1,31};?)|<br ?/?>"
    # One character of UTF-8 in a URL.
    r"|%[0-7][0-9a-f]|%[cd][0-9a-f]%[89ab][0-9a-f]|%e[0-9a-f](?:%[89ab][0-9a-f]){2}|%f[0-7](?:%[89ab][0-9a-f]){3}"
    # Of JSON, whose backslashes are doubled where JSON stands in JSON.
    r"|\\{1,4}(?:u[0-9a-f]{4}|u\{[0-9a-f]{1,6}\}|x[0-9a-f]{2}|[nrt/])",
    re.IGNORECASE,
)
# What is escaped twice is read too.
_ROUNDS = 2
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "/": "/"}

_HYPHENS = "-\u058a\u2010\u2011\u2043\ufe63\uff0d"
_EN_DASH = "\u2013"
# Between words a dash divides; elsewhere people write it for a hyphen.
_DASH = re.compile(rf"(?<![^\W\d_]){_EN_DASH}|{_EN_DASH}(?![^\W\d_])")
_DOTS = "\u00b7\u2024\u2027\u2219\u22c5\u3002\uff61"

_TAG = (
    r"</?(?P<tag>a|b|i|u|s|em|strong|code|mark|span|small|tt|kbd|font|wbr|bdi|nobr)"
    r"(?:\s[^<>\n]{0,200})?/?>"
)
_LONGEST_TAG = 210
_LINK_START = r"\[(?=[^\[\]\n]{1,100}\]\([^()\s]{1,300}\))"
_LINK_END = r"\]\([^()\s]{1,300}\)"
# As CommonMark: underscores within a word mark nothing, nor do stars between spaces. Stars between digits are of code.
_EMPHASIS = (
    r"(?<![\d*])\*{1,3}+(?=\S)|(?<![\s*])\*{1,3}+(?!\d)|(?<![/`])`{1,3}+(?!/)|~~"
    r"|(?<!\w)_{1,3}+(?!_)|(?<!_)_{1,3}+(?!\w)"
)
_MARK = re.compile(rf"{_TAG}|{_LINK_START}|{_LINK_END}|{_EMPHASIS}|\\(?P<escaped>[ -/:-@\[-`{{-~\n])", re.IGNORECASE)
_MARKING = re.compile(r"[*_`~<\[\]\\]")
_PAIRED = re.compile(rf"{_TAG}|(?P<link>\[|{_LINK_END})|{_EMPHASIS}", re.IGNORECASE)
_LINK_REST = re.compile(_LINK_END)

_BRACKETED = (
    r"[\[({] {0,2}(?:(?P<at>at|AT|@|\u00e4t|arobase)|(?P<dot>dot|DOT|\.|punkt|point)|(?P<sign>:|://|/)) {0,2}[\])}]"
)
_HXXP = r"[hH][xX]{2}[pP](?=[sS]?\W)"
# Without the space before it: a search that begins with what is rare is fast.
_IS_DEFANGED = re.compile(rf"{_BRACKETED}|{_HXXP}")
_DEFANGED = re.compile(rf"(?<=\w) ?{_BRACKETED} ?|{_HXXP}")


def decoded(text: str) -> PlainText:
    plain = PlainText.of(text)
    for _ in range(_ROUNDS):
        if "&" in plain.text or "%" in plain.text or "\\" in plain.text or "<" in plain.text:
            plain = plain.sub(_ESCAPE, lambda found: _decode(found[0]))
    return plain


def set_plainly(plain: PlainText) -> PlainText:
    """`plain`, once it is `decoded`, without typography, marks and what keeps an address from being a link."""
    if not plain.text.isascii():
        read = {one: _plain_character(one) for one in set(plain.text) if one > "\x7f"}
        changed = "".join(one for one, plainly in read.items() if plainly != one)
        if changed:
            plain = plain.sub(re.compile(f"[{re.escape(changed)}]"), lambda found: read[found[0]])
        plain = plain.sub(_DASH, lambda _: "-")
    if _MARKING.search(plain.text):
        plain = plain.sub(_MARK, lambda found: found["escaped"] or "")
    return plain.sub(_DEFANGED, _fanged) if _IS_DEFANGED.search(plain.text) else plain


def with_halves_of_marks(text: str, start: int, end: int) -> tuple[int, int]:
    """The place of `text[start:end]` with the other half of each pair of marks that has one half in it.

    Only of halves that touch it: of `**ada**@example.org` both, of `**ada@example.org**` none.
    """
    opened: list[re.Match[str]] = []
    for mark in _PAIRED.finditer(text, start, end):
        if not _closes(mark):
            opened.append(mark)
        elif opened and _kind(opened[-1]) == _kind(mark):
            opened.pop()
        else:
            start = _start_of(mark, text, start)
    for mark in reversed(opened):
        closing = _LINK_REST.match(text, end) if mark["link"] else None
        if closing is not None:
            end = closing.end()
        elif not mark["link"]:
            end += len(half) if text.startswith(half := _closing(mark), end) else 0
    return start, end


def _kind(mark: re.Match[str]) -> str:
    return mark["tag"] or ("[" if mark["link"] else mark[0])


def _closes(mark: re.Match[str]) -> bool:
    if mark["tag"]:
        return mark[0].startswith("</")
    if mark["link"]:
        return mark[0] != "["
    # What comes behind a word ends its emphasis, what comes before one begins it.
    text, start, end = mark.string, mark.start(), mark.end()
    return text[max(0, start - 1) : start].isalnum() or not text[end : end + 1].isalnum()


def _start_of(closing: re.Match[str], text: str, start: int) -> int:
    """Where what `closing` closes begins, if that is right before `start`; else `start`."""
    if closing["tag"]:
        tag = re.compile(rf"<{closing['tag']}(?:\s[^<>\n]{{0,200}})?>\Z", re.IGNORECASE)
        opening = tag.search(text, max(0, start - _LONGEST_TAG), start)
        return start if opening is None else opening.start()
    half = _kind(closing)
    return start - len(half) if text.endswith(half, 0, start) else start


def _closing(mark: re.Match[str]) -> str:
    return f"</{mark['tag']}>" if mark["tag"] else mark[0]


def _decode(escape: str) -> str:
    match escape[0]:
        case "&":
            return unescape(escape)
        case "<":
            return "\n"
        case "%":
            return unquote(escape, errors="replace")
    code = escape.lstrip("\\")
    if code[0].lower() in "ux":
        number = int(code[1:].strip("{}"), 16)
        return chr(number) if number <= 0x10FFFF else escape
    return _CONTROLS[code.lower()]


def _plain_character(character: str) -> str:
    category = unicodedata.category(character)
    if IGNORABLE.match(character) or category == "Mn":
        return ""
    if category in ("Zs", "Zl", "Zp"):
        return " " if category == "Zs" else "\n"
    if character in _HYPHENS:
        return "-"
    if category == "Pd" or character == "\u2212":
        return _EN_DASH
    if character in _DOTS:
        return "."
    if category == "Nd":
        return str(unicodedata.digit(character))
    compatible = unicodedata.normalize("NFKC", character)
    return compatible if len(compatible) == 1 and compatible.isascii() else character


def _fanged(found: re.Match[str]) -> str:
    if found["at"]:
        return "@"
    if found["dot"]:
        return "."
    return found["sign"] or "http"
