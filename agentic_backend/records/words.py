"""The words of texts, as they are searched: folded, and stemmed in the languages that have a stemmer here.

What is stored of a record are the stems of its own language. A word that is looked for is in no language, and stands
for its stems in all of them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from Stemmer import Stemmer  # type: ignore[import-not-found]

from agentic_backend.text.normal_form import normal_form

VERSION = 1
"""Of what is made of a text: one more whenever the same text would have other words."""
MOST_WORDS = 64
"""So many different words are looked for, the first ones."""
LONGEST_QUERY = 2_000
"""So many characters are looked at of what is looked for, the first ones."""
_LANGUAGES = {"de": "german", "en": "english", "fr": "french"}
_LONGEST_WORD = 64
# Scripts that are written without spaces between words; of a run of these, each two neighbours are a word.
_UNSPACED = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_RUNS = re.compile(f"([{_UNSPACED}]+)|[^\\W_{_UNSPACED}]+")


def counted_words(texts: Iterable[str | None], language: str | None) -> str:
    """The words of the texts, in a language by its code, and how often each comes, for `read_words`."""
    stem_of = _stemmer(_language(language))
    counts: dict[str, int] = {}
    for word, count in Counter(word for text in texts if text is not None for word in _words(text)).items():
        stem = stem_of(word)
        counts[stem] = counts.get(stem, 0) + count
    by_count: dict[int, list[str]] = {}
    for word, count in sorted(counts.items()):
        by_count.setdefault(count, []).append(word)
    return "\n".join(f"{count} {' '.join(words)}" for count, words in sorted(by_count.items()))


def read_words(counted: str) -> Iterator[tuple[int, Sequence[str]]]:
    """What `counted_words` has written: the words that come once, those that come twice, and so on."""
    for line in counted.split("\n") if counted else ():
        count, *words = line.split(" ")
        yield int(count), words


def sought_words(query: str) -> list[tuple[tuple[str, ...], int]]:
    """The words that are looked for, each with what it may be in an index, and how often it comes."""
    counts = Counter(_words(query[:LONGEST_QUERY]))
    stemmers = [_stemmer(language) for language in (None, *_LANGUAGES)]
    return [
        (tuple(dict.fromkeys(stem_of(word) for stem_of in stemmers)), count)
        for word, count in list(counts.items())[:MOST_WORDS]
    ]


def _words(text: str) -> Iterator[str]:
    folded = text.casefold() if text.isascii() else normal_form("NFKC", normal_form("NFKC", text).casefold())
    for run in _RUNS.finditer(folded):
        found = run[0]
        if run[1] is None:
            yield found[:_LONGEST_WORD]
        elif len(found) == 1:
            yield found
        else:
            yield from (found[at : at + 2] for at in range(len(found) - 1))


def _language(code: str | None) -> str | None:
    """The language of a code such as `en` or `en-GB`, if it has a stemmer."""
    primary = (code or "").lower().partition("-")[0]
    return primary if primary in _LANGUAGES else None


def _stemmer(language: str | None) -> Callable[[str], str]:
    """What makes a word its stem, for one thread; a word of no language stays as it is."""
    if language is None:
        return str
    # Without a cache: to look there takes as long.
    stem_of: Callable[[str], str] = Stemmer(_LANGUAGES[language], 0).stemWord
    return stem_of
