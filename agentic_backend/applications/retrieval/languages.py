"""Tells the language of a text by its small words: English, German, French, or none of these. Pure."""

import re

from agentic_backend.applications.retrieval.judging import lexicon

_WORD = re.compile(r"[^\W\d_]+")
_LOOKED_AT = 4_000
"""Characters."""
_RARE = 12
"""Of so many words one at least is a small one, in a text that has some words."""


def language_of(text: str) -> str | None:
    """`en`, `de` or `fr`; None if the small words of none of them stand out."""
    words = [word.lower() for word in _WORD.findall(text[:_LOOKED_AT])]
    counts = {code: sum(word in lexicon.STOP_WORDS[code] for word in words) for code in lexicon.LANGUAGES}
    best = max(counts, key=lambda code: counts[code])
    others = max((counts[code] for code in counts if code != best), default=0)
    return best if counts[best] > others and counts[best] * _RARE >= len(words) else None
