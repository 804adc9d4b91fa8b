"""Where sentences end, in English, German and French, and in scripts with `。`. In linear time.

A missed end joins two sentences, which does little harm; a false one tears a sentence apart. So where it is not clear,
such as behind an initial or a number of two digits ("3. Oktober"), none ends.
"""

import re
from collections.abc import Iterator

SHORTEST = 20
"""Characters: what is shorter stays with what follows it."""

# The looking back keeps a long run of dots from being gone through at each of them.
_END = re.compile(
    "(?<![.!?…])[.!?…]++[\"'”’“»\u203a)\\]*_]*+(?:[ \u00a0\u202f]»)?(?P<space>\\s++)"
    "|[。｡\uff01\uff1f]++[」』”’》\uff09]*+\\s*+"  # with wide !, ? and )
)
_OPENING = "\"'“„\u201a\u2018«\u2039([*_¿¡ \u00a0\u202f"
_INITIALS = re.compile(r"(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,2}|[^\W\d_]|\d{1,2}")
_ABBREVIATIONS = frozenset(
    # en
    "mr mrs ms dr prof st mt jr sr gen col lt sgt capt rep sen gov rev hon pres vs approx dept est fig figs eq eqs no "
    "nos vol vols pp ed eds cf al ca ch sec para jan feb mar apr jun jul aug sep sept oct nov dec "
    # de
    "bzw ca evtl ggf inkl insb bspw sog vgl nr str abs art abb abschn anm bd bearb bes betr bez dipl ing fr geb gem hl "
    "hr hrn hrsg jh kap lfd max min mio mrd tsd mind od s sog tab tel u ungef verf vorm nachm zit ziff zzgl "
    # fr
    "m mm mme mlle mgr me éd env av apr ex p chap coll fasc ibid réf resp tél art al suiv vol".split()
)


def sentence_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Where a sentence begins within the span, without the first."""
    before = start
    for found in _END.finditer(text, start, end):
        place = found.end()
        if place - before < SHORTEST or place >= end:
            continue
        if found["space"] is None or _ends(text, before, found.start(), place, end):
            yield place
            before = place


def is_ended(text: str) -> bool:
    """Whether a line is at the end of a sentence, so that it is no title."""
    return text.rstrip(" \t\"'”’»)]*_").endswith((".", "!", "?", "…", "。", "\uff01", "\uff1f", ";", ","))


def _ends(text: str, before: int, mark: int, place: int, end: int) -> bool:
    following = text[place : min(place + 8, end)].lstrip(_OPENING)[:1]
    if following.islower():
        return False
    if text[mark] != "." or text[mark + 1] in ".!?":
        return True
    words = text[max(before, mark - 24) : mark].split()
    if not words or text[mark - 1].isspace():
        return True
    word = words[-1].lstrip(_OPENING)
    return word.casefold() not in _ABBREVIATIONS and _INITIALS.fullmatch(word) is None
