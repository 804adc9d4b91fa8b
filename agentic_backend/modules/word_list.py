"""WordList: finds any of many words and phrases in a folded text, in time that is linear in the text's length.

A word must stand alone: "ass" isn't found in "class". In scripts without spaces between words it is found anywhere.
"""

import re
from collections.abc import Iterable, Iterator

from agentic_backend.modules.folded_text import fold
from agentic_backend.modules.linear_pattern import LinearPattern
from agentic_backend.text.plain_text import UNSPACED

# Without the underscore, which marks emphasis in Markdown.
_TOKEN = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(f"[{UNSPACED}]")


class WordList:
    def __init__(self, words: Iterable[str]) -> None:
        self._phrases: dict[str, list[tuple[str, ...]]] = {}
        """The tokens of each phrase, by its first token; the longest first."""
        unspaced: list[str] = []
        for word in words:
            folded = fold(word).text.strip()
            tokens = tuple(_TOKEN.findall(folded))
            if _UNSPACED.search(folded) or not tokens:
                unspaced.append(folded)
            else:
                self._phrases.setdefault(tokens[0], []).append(tokens)
        for phrases in self._phrases.values():
            phrases.sort(key=len, reverse=True)
        self._unspaced = LinearPattern("|".join(map(re.escape, unspaced))) if unspaced else None

    def find(self, folded: str) -> Iterator[tuple[int, int]]:
        """The places of the words in `folded`, which is a text that `fold` has made."""
        if self._phrases:
            yield from self._find_phrases(folded)
        if self._unspaced is not None:
            yield from self._unspaced.find(folded)

    def _find_phrases(self, folded: str) -> Iterator[tuple[int, int]]:
        found = list(_TOKEN.finditer(folded))
        tokens = [token.group() for token in found]
        for index, token in enumerate(tokens):
            for phrase in self._phrases.get(token, ()):
                if tuple(tokens[index : index + len(phrase)]) == phrase:
                    yield found[index].start(), found[index + len(phrase) - 1].end()
                    break
