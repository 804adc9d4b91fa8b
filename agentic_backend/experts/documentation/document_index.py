"""Search in a folder of Markdown documents: split by headings, ranked by words (Okapi BM25). Pure except for reading.

An index is immutable. The indexes of the last folders searched are cached until a file changes.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

SHIPPED = Path(__file__).parent / "documents"
SHIPPED_LINKS = "/documents/{file}"
"""Where the server serves them."""

MAX_INDEXES = 8
MAX_FILES = 200
MAX_FILE_CHARACTERS = 200_000
MAX_QUERY_CHARACTERS = 500
MAX_EXCERPT = 800

# The usual BM25 parameters: the saturation of repeated words, and the penalty for long passages.
_SATURATION, _LENGTH_WEIGHT = 1.5, 0.75
_HEADING_WEIGHT = 3

_COMMON_WORDS = frozenset(
    "a about an and are as at be by can do does for from has have how i in is it its me my of on or so that the their "
    "them there they this to was what when where which who why will with you your".split()
)


@dataclass(frozen=True, slots=True)
class Passage:
    """The text under one heading. `words` counts the words for the search."""

    title: str
    heading: str
    file: str
    text: str
    words: Counter[str] = field(repr=False, compare=False)

    @property
    def length(self) -> int:
        return self.words.total()

    def shown(self) -> dict[str, str]:
        text = self.text if len(self.text) <= MAX_EXCERPT else self.text[:MAX_EXCERPT].rsplit(maxsplit=1)[0] + " …"
        return {"title": self.title, "heading": self.heading, "file": self.file, "text": text}


class DocumentIndex:
    def __init__(self, passages: Iterable[Passage]) -> None:
        self._passages = tuple(passages)
        # The statistics for BM25: the mean length of a passage, and the number of passages with each word.
        self._mean_length = sum(passage.length for passage in self._passages) / max(1, len(self._passages))
        self._passages_with = Counter(word for passage in self._passages for word in passage.words)

    @property
    def titles(self) -> list[str]:
        return list(dict.fromkeys(passage.title for passage in self._passages))

    def search(self, query: str, limit: int = 3) -> list[Passage]:
        """Up to `limit` passages that match `query`, best first; each shares at least one word with it."""
        words = set(words_of(query[:MAX_QUERY_CHARACTERS]))
        scores = [(self._score(words, passage), passage) for passage in self._passages]
        found = sorted((entry for entry in scores if entry[0] > 0), key=lambda entry: -entry[0])
        return [passage for _, passage in found[:limit]]

    def _score(self, words: set[str], passage: Passage) -> float:
        relative_length = passage.length / (self._mean_length or 1)
        damping = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * relative_length)
        return sum(
            self._rarity(word) * times * (_SATURATION + 1) / (times + damping)
            for word in words
            if (times := passage.words[word])
        )

    def _rarity(self, word: str) -> float:
        having = self._passages_with[word]
        return math.log(1 + (len(self._passages) - having + 0.5) / (having + 0.5))


def documents_in(folder: Path) -> DocumentIndex:
    """The current index of the Markdown files below `folder`. Reads files: don't call it in the event loop."""
    files = sorted(folder.rglob("*.md"))[:MAX_FILES]
    return _index(folder, tuple((file, file.stat().st_mtime_ns) for file in files))


@lru_cache(MAX_INDEXES)
def _index(folder: Path, files: tuple[tuple[Path, int], ...]) -> DocumentIndex:
    """The index of these (file, modification time) pairs."""
    return DocumentIndex(
        passage
        for file, _ in files
        for passage in split(
            file.relative_to(folder).as_posix(), file.read_text("utf-8", errors="replace")[:MAX_FILE_CHARACTERS]
        )
    )


_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*")


def split(file: str, markdown: str) -> Iterator[Passage]:
    """The passages of a document, one per heading. The first heading is also the title."""
    title, heading, lines = file, file, list[str]()
    untitled, in_code = True, False
    for line in markdown.splitlines():
        in_code ^= line.startswith("```")
        match = None if in_code else _HEADING.fullmatch(line)
        if match is None:
            lines.append(line)
            continue
        yield from _passage(title, heading, file, lines)
        heading, lines = match[2], []
        if untitled:
            title, untitled = heading, False
    yield from _passage(title, heading, file, lines)


def _passage(title: str, heading: str, file: str, lines: Sequence[str]) -> Iterator[Passage]:
    if text := "\n".join(lines).strip():
        words = Counter(words_of(text))
        for word in words_of(f"{title} {heading}"):
            words[word] += _HEADING_WEIGHT
        yield Passage(title, heading, file, text, words)


def words_of(text: str) -> list[str]:
    """The significant words of `text` in lower case, plurals as singulars."""
    words = re.findall(r"[^\W_]+", text.casefold())
    return [_singular(word) for word in words if word not in _COMMON_WORDS]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
