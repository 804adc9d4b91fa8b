"""Tells the language of a text by its commonest words: English, German, French, or none of these. Pure."""

import re

_WORD = re.compile(r"[^\W\d_]+")
_LOOKED_AT = 4_000
"""Characters."""
_COMMON = {
    "en": "the of and to in is that for it was on are as with be by this from at which what how does have not or who "
    "when where why can their has will were been its did an would there your about if they you",
    "de": "der die und das den von zu ist mit sich des auf für im dem nicht ein eine als auch es an werden aus er hat "
    "dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis mehr "
    "durch man sein wurde wer was wann wo warum welche welcher welches gibt kann ich wir",
    "fr": "le la les de des du et est en un une que dans qui par pour au sur pas plus ce se il sont avec ne aux son ou "
    "été cette mais comme sa leur ont ces être deux fait nous vous elle quel quelle quels quelles comment où quand "
    "pourquoi peut je d l qu n s y a",
}
_COMMON_WORDS = {language: frozenset(words.split()) for language, words in _COMMON.items()}


def language_of(text: str) -> str | None:
    """`en`, `de` or `fr`; None where the common words of none of them stand out."""
    words = [word.lower() for word in _WORD.findall(text[:_LOOKED_AT])]
    counts = sorted(
        ((sum(word in common for word in words), language) for language, common in _COMMON_WORDS.items()), reverse=True
    )
    (most, found), (next_most, _) = counts[0], counts[1]
    return found if most > next_most and most * 12 >= len(words) else None
