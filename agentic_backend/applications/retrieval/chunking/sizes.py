"""How long a text is, in tokens as models count them, about; and how what is too long is cut."""

import re
import unicodedata
from collections.abc import Iterator

# About what a tokenizer makes one token of: up to seven Latin letters, three digits, a sign, a character of a script
# that has no spaces. A tokenizer for English has fewer, so a text is rather shorter than it is said to be.
_PIECE = re.compile(
    r"[A-Za-z\u00c0-\u024f]{1,7}|[0-9]{1,3}"
    r"|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]"
    r"|\w{1,3}|[^\w\s]|\s{2,8}"
)
MOST_CHARACTERS = 8
"""Of a token, at most, with a space."""
_WIDE_CLAUSE_ENDS = frozenset("、。\uff0c\uff1b\uff1a\uff01\uff1f")  # with wide , ; : ! ?
_CLAUSE_ENDS = frozenset(",;:.!?)]}»”–—") | _WIDE_CLAUSE_ENDS
_JOINERS = frozenset("\u200d\ufe0f")


def tokens_in(text: str) -> int:
    return len(_PIECE.findall(text))


def pieces_of(text: str, start: int, end: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Cut a span into pieces of about the same size, each with the number of its tokens, up to `most`: at ends of lines
    or else of clauses, else between words, else anywhere. What stands between the pieces is whitespace."""
    starts = [found.start() for found in _PIECE.finditer(text, start, end)]
    first, begun = 0, start
    while (left := len(starts) - first) > most:
        aim = -(-left // -(-left // most))
        cut = _best_cut(text, starts, first + aim * 3 // 4, first + aim, first + min(most, aim * 5 // 4))
        yield begun, _before_spaces(text, begun, starts[cut]), cut - first
        first, begun = cut, _after_spaces(text, starts[cut], end)
        while first < len(starts) and starts[first] < begun:
            first += 1
    if begun < end:
        yield begun, end, len(starts) - first


def _best_cut(text: str, starts: list[int], least: int, aim: int, most: int) -> int:
    """The number of the token before which to cut."""
    best, best_score = most, -1.0
    for number in range(least, most + 1):
        place = starts[number]
        here, before = text[place], text[place - 1]
        if before == "\n" or here == "\n":
            score = 3.0
        elif before.isspace() or here.isspace():
            score = 2.0 if text[place - 2] in _CLAUSE_ENDS else 1.0
        elif before in _WIDE_CLAUSE_ENDS:
            score = 2.0
        elif here in _JOINERS or before == "\u200d" or unicodedata.combining(here):
            # A character of several code points stays whole.
            continue
        else:
            score = 0.0
        score -= abs(number - aim) / (most - least + 1) * 0.9
        if score > best_score:
            best, best_score = number, score
    return best


def _before_spaces(text: str, start: int, end: int) -> int:
    while end > start + 1 and text[end - 1].isspace():
        end -= 1
    return end


def _after_spaces(text: str, start: int, end: int) -> int:
    while start < end and text[start].isspace():
        start += 1
    return start
