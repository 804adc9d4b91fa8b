"""Vector stores in memory, which tests look at, hold and let fail."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from agentic_backend.applications.retrieval.vector_stores.vector_store import ExternalVectorStore

STORES: dict[str, dict[int, InMemoryVectorStore]] = {}
"""By their names, and by the dimensions of their vectors."""
GOES_ON: dict[str, asyncio.Event] = {}
"""What the stores with these names wait for when they are given vectors."""
FAILING: list[str] = []
"""The names of stores that fail when they are given vectors next."""
HANGS_UNTIL = threading.Event()
"""What stores of HangingVectors wait for."""


class _Kept(InMemoryVectorStore):
    def __init__(self, name: str, embeddings: Embeddings) -> None:
        super().__init__(embeddings)
        self._name = name

    async def aadd_documents(self, documents: list[Document], ids: list[str] | None = None, **more: Any) -> list[str]:
        if self._name in FAILING:
            FAILING.remove(self._name)
            raise ConnectionError
        if (goes_on := GOES_ON.get(self._name)) is not None:
            await goes_on.wait()
        return await super().aadd_documents(documents, ids, **more)


class KeptVectors(ExternalVectorStore):
    store: str

    @asynccontextmanager
    async def open(self, embeddings: Embeddings, dimensions: int) -> AsyncIterator[VectorStore]:
        stores = STORES.setdefault(self.store, {})
        kept = stores.setdefault(dimensions, _Kept(self.store, embeddings))
        kept.embedding = embeddings
        yield kept

    def within(self, indexes: Sequence[str]) -> Mapping[str, Any]:
        return {"filter": lambda document: document.metadata["index"] in indexes}


class _Hanging(VectorStore):
    """Does without `async` what it does, and never ends."""

    def add_texts(self, *_: Any, **__: Any) -> Any:
        HANGS_UNTIL.wait(60)

    similarity_search = add_texts
    from_texts = add_texts


class HangingVectors(ExternalVectorStore):
    @asynccontextmanager
    async def open(self, embeddings: Embeddings, dimensions: int) -> AsyncIterator[VectorStore]:
        yield _Hanging()
