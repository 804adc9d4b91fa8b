"""ScriptedEmbeddings: an embedding model that gives what a test wrote, and else tells texts apart by their words."""

import math
import re
from collections.abc import Mapping, Sequence
from zlib import crc32

from langchain_core.embeddings import Embeddings

_WORD = re.compile(r"\w+")


class ScriptedEmbeddings(Embeddings):
    """Texts with the same words have the same vector, and near ones the more words they share: always the same ones."""

    def __init__(
        self,
        vectors: Mapping[str, Sequence[float]] | None = None,
        *,
        dimensions: int = 256,
        errors: Sequence[Exception] = (),
    ) -> None:
        """`vectors` are those of these very texts. The first calls raise the `errors`, one each."""
        self._vectors = vectors or {}
        self._dimensions = dimensions
        self._errors = list(errors)
        self.asked: list[tuple[str, list[str]]] = []
        """Each call: `query` or `document`, and its texts."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._given("document", texts)

    def embed_query(self, text: str) -> list[float]:
        return self._given("query", [text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._given("document", texts)

    async def aembed_query(self, text: str) -> list[float]:
        return self._given("query", [text])[0]

    def _given(self, kind: str, texts: list[str]) -> list[list[float]]:
        self.asked.append((kind, texts))
        if self._errors:
            raise self._errors.pop(0)
        return [list(self._vectors[text]) if text in self._vectors else self._by_words(text) for text in texts]

    def _by_words(self, text: str) -> list[float]:
        numbers = [0.0] * self._dimensions
        for word in _WORD.findall(text.lower()) or [text]:
            # `hash` differs from process to process.
            numbers[crc32(word.encode()) % self._dimensions] += 1
        length = math.hypot(*numbers)
        return [number / length for number in numbers]
