"""Tokens: the figures and words of a text, in a form that is the same however they are written. Pure.

A figure has readings, because "1.204" may be a whole number or a decimal one. In a script without spaces between words,
pairs of characters stand for words. Takes time that is linear in the text.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from agentic_backend.text.normal_form import normal_form

Figure = frozenset[str]
"""The readings of one figure, as decimal numbers in ASCII digits."""

# Punctuation and symbols end a word. Marks don't: many scripts write their vowels with them.
_NO_WORD = (
    r"\s!-/:-@\[-`{-~\u00a0-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf\u2000-\u206f\u20a0-\u20cf\u2190-\u2bff"
    r"\u2e00-\u2e7f\u3000-\u3004\u3008-\u3020\u3030\u060c\u061b\u061f\u06d4\u0964\u0965"
)
# Thai to Myanmar, Khmer, kana, Han, Hangul.
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
_TOKEN = re.compile(
    rf"\d{{1,40}}(?:[.,'\u2019]\d{{1,40}})*|[{_UNSPACED}]+|[^\d{_NO_WORD}{_UNSPACED}][^{_NO_WORD}{_UNSPACED}]*"
)
_RUN = re.compile(rf"[{_UNSPACED}]+")
_SPACED_GROUP = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3})")
_TIME = re.compile(r"(?<=\d)T(?=\d)")
# The names of each month in English, German, French and Spanish, from which its number is read beside another one.
_MONTHS = (
    "january jan januar jänner janvier enero",
    "february feb februar février febrero",
    "march mar märz mär mars marzo",
    "april apr avril abril",
    "may mai mayo",
    "june jun juni juin junio",
    "july jul juli juillet julio",
    "august aug août agosto",
    "september sep sept septembre septiembre",
    "october oct oktober okt octobre octubre",
    "november nov novembre noviembre",
    "december dec dezember dez décembre diciembre",
)
_MONTH_OF = {name: str(number) for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_MONTH_NAME = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
# Without "\b" before the name: a pattern that begins with letters is found much faster.
_DAY_AND_MONTH = re.compile(rf"(\d)(?:st|nd|rd|th)?\.? (?:of |de )?({_MONTH_NAME})\b")
_MONTH_AND_DAY = re.compile(rf"({_MONTH_NAME})\.? (?=\d)")
_GROUPED = re.compile(r"\d{1,3}(?P<sign>[.,'\u2019])\d{3}(?:(?P=sign)\d{3})*(?:(?!(?P=sign))[.,](?P<rest>\d+))?")
_DECIMAL = re.compile(r"(\d+)[.,](\d+)")
_DIGITS = re.compile(r"\d+")
_SHORT = 100
# In JSON texts.
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt])")


class Tokens(NamedTuple):
    figures: set[Figure]
    words: set[str]
    """Case-folded, of any length."""


def plain(text: str) -> str:
    """`text` without JSON's escapes, with one form for each character, and with times apart from their dates."""
    if "\\" in text:
        text = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)) if escape[1] else " ", text)
    text = _TIME.sub(" ", text)
    if not text.isascii():
        text = normal_form("NFKC", _SPACED_GROUP.sub("", text))
    return text


def folded(text: str) -> str:
    """`text` as it is compared: plain, case-folded, and with the numbers of months in dates."""
    text = plain(text).casefold()
    text = _DAY_AND_MONTH.sub(lambda date: f"{date[1]} {_MONTH_OF[date[2]]} ", text)
    return _MONTH_AND_DAY.sub(_month_and_day, text)


def _month_and_day(date: re.Match[str]) -> str:
    is_end_of_word = date.start() > 0 and date.string[date.start() - 1].isalnum()
    return date[0] if is_end_of_word else f" {_MONTH_OF[date[1]]} "


def tokens_of(text: str) -> Tokens:
    figures: set[Figure] = set()
    words: set[str] = set()
    for token in set(_TOKEN.findall(folded(text))):
        if token[0].isdecimal():
            figures.update(_figures(token))
        elif _is_unspaced(token):
            words.update(_pairs(token))
        else:
            words.add(token)
    return Tokens(figures, words)


def names_of(text: str) -> set[str]:
    """The words of a sentence that a capital letter marks as names, case-folded; its first word tells nothing."""
    in_order = [token for token in _TOKEN.findall(plain(text)) if not token[0].isdecimal()]
    return {token.casefold() for token in in_order[1:] if len(token) > 2 and token[0].isupper()}


def is_pair(word: str) -> bool:
    """Whether it stands for a part of a word only."""
    return len(word) == 2 and _is_unspaced(word)


def has_only_figures(text: str) -> bool:
    """Whether a text is short and has no word, as a calculator's result."""
    return len(text) <= _SHORT and all(token[0].isdecimal() for token in _TOKEN.findall(text))


class Wanted:
    """Finds some tokens in texts, without making all of the texts' own."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self._tokens = frozenset(tokens)
        self._has_figures = any(token[0].isdecimal() for token in self._tokens)
        self._has_pairs = any(map(is_pair, self._tokens))

    def among(self, text: str) -> set[str]:
        """Those of the tokens that `text` has, which is `folded`."""
        there = set(_TOKEN.findall(text))
        found = set(there & self._tokens)
        if self._has_figures:
            for token in there:
                # A number of ASCII digits alone is its own only reading.
                if token[0].isdecimal() and (token[0] == "0" or not (token.isascii() and token.isdecimal())):
                    found.update(reading for figure in _figures(token) for reading in figure & self._tokens)
        if self._has_pairs and not text.isascii():
            found.update(pair for token in there if _is_unspaced(token) for pair in _pairs(token) & self._tokens)
        return found


def _is_unspaced(token: str) -> bool:
    return not token.isascii() and _RUN.match(token) is not None


def _pairs(token: str) -> set[str]:
    return set(map("".join, pairwise(token)))


def _figures(token: str) -> Sequence[Figure]:
    """The figure that the digits and signs of `token` are; several if they are a date or a version."""
    if token.isdecimal():
        return [frozenset({str(int(token))})]
    readings = []
    if (grouped := _GROUPED.fullmatch(token)) is not None:
        whole = token[: grouped.start("rest") - 1] if grouped["rest"] else token
        readings.append(_decimal("".join(filter(str.isdecimal, whole)), grouped["rest"] or ""))
    if (decimal := _DECIMAL.fullmatch(token)) is not None:
        readings.append(_decimal(decimal[1], decimal[2]))
    return [frozenset(readings)] if readings else [frozenset({str(int(part))}) for part in _DIGITS.findall(token)]


def _decimal(whole: str, rest: str) -> str:
    digits = "".join(str(int(digit)) for digit in rest).rstrip("0")
    return f"{int(whole)}.{digits}" if digits else str(int(whole))
