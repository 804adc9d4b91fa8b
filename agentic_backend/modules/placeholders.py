"""Placeholders, which stand for values in texts that models read, such as `<EMAIL_1f3a5c7e>`.

A placeholder is a hash of the value, keyed by the session: the same value has the same one in all of a session, in
whatever form it is typed, on every instance and after a restart, and another one in any other session. Nothing is
stored.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b

from agentic_backend.text.pii_detectors import PII_TYPES, Found

_DIGITS, _FEWEST_DIGITS = 8, 4
# What a model's Markdown or HTML may put into a placeholder.
_MARKS = r"[*_`\\]{0,4}"
_TYPES = "|".join(PII_TYPES).replace("_", r"[\\]?_")
_PLACEHOLDER = re.compile(
    rf"(?:\\?(?:<|&lt;){_MARKS})?(?<![a-z])({_TYPES})[*_`\\ -]{{1,4}}"
    rf"([0-9a-f]{{{_FEWEST_DIGITS},{_DIGITS}}})(?![0-9a-z])(?:{_MARKS}(?:>|&gt;))?",
    re.IGNORECASE,
)

# As `placeholder` writes it; people quote it as it is shown to them.
_VERBATIM = re.compile(rf"<(?:{'|'.join(PII_TYPES)})_[0-9a-f]{{{_DIGITS}}}>", re.IGNORECASE)


def placeholder(found: Found, session: str) -> str:
    return f"<{found.type.upper()}_{_digest(found, session)}>"


def has_placeholder(text: str) -> bool:
    """Whether `text` has what could be a placeholder of any session."""
    return _PLACEHOLDER.search(text) is not None


def shows_placeholder(text: str) -> bool:
    """Whether `text` has what is hardly anything but a placeholder: "email feed" could be one, and isn't."""
    return any(map(_is_surely_one, _PLACEHOLDER.finditer(text)))


def _is_surely_one(match: re.Match[str]) -> bool:
    digits, between = match.group(2), match.string[match.end(1) : match.start(2)]
    return "_" in between or ";" in match.group() or "<" in match.group() or _is_whole_hash(digits)


def _is_whole_hash(digits: str) -> bool:
    return len(digits) == _DIGITS and not digits.isalpha()


def without_placeholders(text: str, instead: str) -> str:
    """`text` with `instead` in the place of each placeholder, of any session, that is written as it was made."""
    return _VERBATIM.sub(instead, text)


def restore(text: str, values: Iterable[Found], session: str) -> str:
    """`text` with `values` in the place of their placeholders; a placeholder of any other value stays.

    A value that was typed in several forms is in the last one of `values`.

    Also recognises one in another case, without its brackets, with Markdown inside it, and one whose hash is cut short
    but still fits a single value.
    """
    last = {(found.type, found.key): found for found in values}
    # By type and beginning of the hash; None where several values have it.
    known: dict[tuple[str, str], str | None] = {}
    for found in last.values():
        digest = _digest(found, session)
        for length in range(_FEWEST_DIGITS, _DIGITS + 1):
            key = found.type, digest[:length]
            known[key] = None if key in known else found.typed or found.value
    if not known:
        return text

    def value_of(match: re.Match[str]) -> str:
        type_ = match.group(1).replace("\\", "").lower()
        return known.get((type_, match.group(2).lower())) or match.group()

    return _PLACEHOLDER.sub(value_of, text)


def _digest(found: Found, session: str) -> str:
    key = blake2b(session.encode(), digest_size=32).digest()
    return blake2b(f"{found.type}\n{found.key}".encode(), key=key, digest_size=_DIGITS // 2).hexdigest()
