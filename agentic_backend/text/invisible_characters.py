"""Characters that nobody sees, or that turn round what stands beside them: the one list of the server. Pure.

The page has the same list in web/format.js, by Unicode's names of properties; a test compares both, code point by code
point. Sources: General_Category of the Unicode version that Python has (`unicodedata.unidata_version`); and, as
`unicodedata` lacks them, Default_Ignorable_Code_Point and Bidi_Control of Unicode 14 to 17, which are the same. What a
version has not assigned is invisible: an older Python or browser shows as its code what a newer one draws.

- What a person consents to shows each of them as its code: names of tools, servers and arguments (`shown`), values
  (`shown_lines`, `shown_json`). In the names of files they are replaced.
- In prose (questions, answers, results, descriptions) what is harmless in its place may stay: on the page spaces,
  joiners (U+200C, U+200D) and the selectors of emoji (U+FE0E, U+FE0F); on a terminal all but what it would obey
  (`OBEYED`), because a stream comes in pieces and its font may know newer emoji than Python does.
- Matching leaves out `IGNORABLE` only: a space that isn't U+0020 still divides words.
"""

import json
import re
import unicodedata
from typing import Any

# What scripts and emoji need: joiners, fillers of Hangul, vowels of Khmer, selectors of Mongolian and of emoji.
_NEEDED = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u200c\u200d\u3164\ufe00-\ufe0f\uffa0"
_BIDI_CONTROLS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# The rest of Default_Ignorable_Code_Point, and the marks of annotations.
_HIDING = (
    f"{_BIDI_CONTROLS}\u00ad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Drawn as nothing, though their category says that they are seen: the blank of braille, the place of an object, the
# filler of Khitan, the blanks of hieroglyphs, a note without a head.
_BLANK = "\u2800\ufffc\U00016fe4\U00013441\U00013442\U0001d159"
_UNSEEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")

IGNORABLE = re.compile(f"[{_NEEDED}{_HIDING}]")
"""What Unicode calls ignorable by default, and the marks of annotations: a text reads the same without them."""
HIDING = re.compile(f"[{_HIDING}]+")
"""Runs of `IGNORABLE` that no script and no emoji needs, and that can carry a text that nobody sees."""
OBEYED = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI_CONTROLS}\u2028\u2029\ud800-\udfff]")
"""Controls but line feeds and tabs, controls of direction, separators of lines, and halves of characters."""

_OTHERS = re.compile(f"[{_NEEDED}{_HIDING}{_BLANK}]")
_MAYBE = re.compile("[^ -~]")
_MAYBE_IN_LINES = re.compile("[^\t\n -~]")


def is_invisible(character: str) -> bool:
    """Whether nobody sees `character` or, as of a space that isn't U+0020, nobody sees which one it is."""
    return character != " " and (unicodedata.category(character) in _UNSEEN or _OTHERS.match(character) is not None)


def is_space(character: str) -> bool:
    """Whether it is a space of any width, of General_Category Zs."""
    return unicodedata.category(character) == "Zs"


def shown(text: str) -> str:
    r"""`text` in one line, with each invisible character as its code: `\u{200b}`, as on the page."""
    return _MAYBE.sub(_shown, text)


def shown_lines(text: str) -> str:
    """The same; line feeds and tabs stay."""
    return _MAYBE_IN_LINES.sub(_shown, text)


def shown_json(value: Any, indent: int | None = None) -> str:
    r"""`value` as JSON, with each invisible character as JSON's escape (`\u200b`): what is read from it is `value`."""
    return _MAYBE_IN_LINES.sub(_as_escape, json.dumps(value, indent=indent, ensure_ascii=False))


def as_code(found: re.Match[str]) -> str:
    """The code of the character that was found."""
    return f"\\u{{{ord(found[0]):x}}}"


def _shown(found: re.Match[str]) -> str:
    return as_code(found) if is_invisible(found[0]) else found[0]


def _as_escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if is_invisible(found[0]) else found[0]
