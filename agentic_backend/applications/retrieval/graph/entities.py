"""Entities of texts, without a model: names, capitalised nouns, quoted terms, and ids such as `AB-1234`. Pure.

Each has a key, the same for all of its forms: whatever the case, articles, possessives, plurals, legal forms,
punctuation and the form in Unicode. A key is one word for searches, which begins as no word of a text does.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

from agentic_backend.applications.retrieval.judging.lexicon import STOP_WORDS, TITLES

MOST_ENTITIES = 16
"""Of one chunk."""
MOST_ASKED = 64
"""Keys of one question."""
_MARK = "\u02bc"
"""Before each word of a key: a letter, so that the key is one word."""
_LONGEST_KEY, _MOST_OF_RUN, _MOST_OF_PHRASE = 60, 5, 4

_TOKEN = re.compile("[^\\W_]+(?:[-\u2010'\u2019&/.][^\\W_]+)*")
_QUOTED = re.compile(
    '["\u201e\u201c\u00ab\u00bb]([^"\u201e\u201c\u201d\u00ab\u00bb\n]{2,60})["\u201c\u201d\u00ab\u00bb]'
)
_STARTS = re.compile(r"[.!?:|\u2026]|\n\s*\n|\n\s*[-*+\u2022]")
"""Between two words of which the second begins a sentence, an item or a cell."""
_PARTS = re.compile(r"[^\W\d_]+|\d+")
_POSSESSIVE = re.compile("['\u2019\u02bc]s?(?!\\w)")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_UNSPACED = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
"""Of scripts without spaces between words, in which a key would not be one word."""
_ARTICLES = frozenset(
    "the a an der die das dem den des ein eine einen einem einer eines le la les un une du l d qu".split()
)
_BEFORE = _ARTICLES | TITLES
_LEGAL_FORMS = frozenset(
    "corp corporation inc incorporated ltd limited llc plc co company gmbh ag kg ug se sa sas sarl bv nv".split()
)
_BETWEEN = frozenset(("of", "de", "du", "von", "van", "di", "da"))
"""What stands within names in small letters."""
_SMALL = frozenset().union(*STOP_WORDS.values())


def entities_of(text: str) -> tuple[str, ...]:
    """The keys of what a text mentions, up to `MOST_ENTITIES`, each once: the most telling first."""
    text = _UNSEEN.sub("", unicodedata.normalize("NFKC", text))
    counts: Counter[str] = Counter()
    telling: set[str] = set()
    for quoted in _QUOTED.finditer(text):
        if len(_TOKEN.findall(quoted[1])) <= _MOST_OF_PHRASE and (key := key_of(quoted[1])):
            counts[key] += 1
            telling.add(key)
    for words, begins in _runs(text):
        if (key := key_of(" ".join(words))) is None:
            continue
        if len(words) > 1 or sum(letter.isupper() or letter.isdigit() for letter in words[0]) > 1:
            telling.add(key)
        elif begins:
            # Any word has a capital letter there.
            continue
        counts[key] += 1
    best = sorted(counts, key=lambda key: (key not in telling, -counts[key]))
    return tuple(best[:MOST_ENTITIES])


def asked_entities(question: str) -> tuple[str, ...]:
    """The keys of all that a question may name, in whatever case, up to `MOST_ASKED`: the last first."""
    words = _TOKEN.findall(_UNSEEN.sub("", unicodedata.normalize("NFKC", question)))
    keys: dict[str, None] = {}
    for end in range(len(words), 0, -1):
        if len(keys) >= MOST_ASKED:
            break
        if _is_small(words[end - 1]):
            continue
        for start in range(max(0, end - _MOST_OF_PHRASE), end):
            if not _is_small(words[start]) and (key := key_of(" ".join(words[start:end]))):
                keys[key] = None
    return tuple(keys)[:MOST_ASKED]


def key_of(name: str) -> str | None:
    """The key of an entity; None of what can't be one."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", _UNSEEN.sub("", name)).casefold())
    parts = _PARTS.findall(_POSSESSIVE.sub("", folded))
    while len(parts) > 1 and parts[0] in _BEFORE:
        del parts[0]
    while len(parts) > 1 and parts[-1] in _LEGAL_FORMS:
        del parts[-1]
    if not parts or (len(parts) == 1 and (len(parts[0]) < 2 or parts[0].isdigit())) or _UNSPACED.search(folded):
        return None
    parts[-1] = _singular(parts[-1])
    key = "".join(_MARK + part for part in parts)
    return key if len(key) <= _LONGEST_KEY else None


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _runs(text: str) -> Iterator[tuple[list[str], bool]]:
    """Capitalised words that stand together, and whether they begin a sentence."""
    run: list[str] = []
    between: list[str] = []
    begins, last = True, 0
    for token in _TOKEN.finditer(text):
        word, gap = token[0], text[last : token.start()]
        goes_on = bool(run) and _joins(gap, (between or run)[-1]) and len(run) < _MOST_OF_RUN
        starts = last == 0 or (not goes_on and _STARTS.search(gap) is not None)
        last = token.end()
        if _is_name(word):
            if not goes_on:
                yield from _trimmed(run, begins)
                run, begins = [], starts
            run += [*between, word] if goes_on else [word]
            between = []
        elif goes_on and word in _BETWEEN and len(between) < 2:
            between.append(word)
        else:
            yield from _trimmed(run, begins)
            run, between = [], []
    yield from _trimmed(run, begins)


def _trimmed(run: Sequence[str], begins: bool) -> Iterator[tuple[list[str], bool]]:
    """The run without the small words that it begins with, as sentences do."""
    words = list(run)
    while words and _is_small(words[0]):
        del words[0]
        begins = False
    if words:
        yield words, begins


def _joins(gap: str, before: str) -> bool:
    if _POSSESSIVE.search(before):
        return False
    if gap.strip() in ("", "&"):
        return gap.count("\n") < 2
    return gap in (". ", ".") and (len(before) == 1 or before.casefold() in TITLES)


def _is_name(word: str) -> bool:
    return word[0].isupper() or (any(map(str.isdigit, word)) and any(map(str.isupper, word)))


def _is_small(word: str) -> bool:
    return word.casefold() in _SMALL and not (len(word) > 1 and word.isupper())
