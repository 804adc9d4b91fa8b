"""Tells the language of a text by its small words: English, German, French, or none of these. Pure."""

import re

from agentic_backend.applications.retrieval.judging import lexicon

_WORD = re.compile(r"[^\W\d_]+")
_LOOKED_AT = 4_000
"""Characters."""
_RARE = 12
"""Of so many words one at least is a small one, in a text that has some words."""
_ASKING = {
    "en": frozenset("what which who whom whose when where why how".split()),
    "de": frozenset(
        "wer wen wem wessen was wann wo wohin woher wodurch wofür wogegen womit woran worauf woraus worin wovon wozu "
        "warum weshalb wieso wie welche welchem welchen welcher welches machen gibt".split()
    ),
    "fr": frozenset("qui que quoi quel quelle quels quelles quand où comment pourquoi combien lequel laquelle".split()),
}
"""Words that questions begin with, which short ones may have alone of a language's own."""
_LETTERS = {"de": frozenset("äöüß"), "fr": frozenset("àâçèéêëîïôœùû")}
"""Letters that only one of the languages has."""


def language_of(text: str) -> str | None:
    """`en`, `de` or `fr`; None if the small words of none of them stand out."""
    words = [word.lower() for word in _WORD.findall(text[:_LOOKED_AT])]
    counts = {
        code: sum(word in lexicon.STOP_WORDS[code] or word in _ASKING[code] for word in words)
        for code in lexicon.LANGUAGES
    }
    best = max(counts, key=lambda code: counts[code])
    others = max((counts[code] for code in counts if code != best), default=0)
    if counts[best] > others and counts[best] * _RARE >= len(words):
        return best
    letters = {letter for word in words for letter in word if not letter.isascii()}
    telling = [code for code, own in _LETTERS.items() if letters and letters <= own]
    return telling[0] if len(telling) == 1 and counts[best] == counts[telling[0]] else None
