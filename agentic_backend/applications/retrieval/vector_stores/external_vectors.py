"""ExternalVectors: the vectors of chunks in a store beside the database.

The database stays what is right: what the store finds is read from there, so a vector that is left over leads to no
text. A chunk's record is written before its vector, and removed together with a note of the vector, which a chore
removes from the store later, however long that is away. A key is used once, so what comes late harms nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from math import hypot
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.embeddings import Embeddings

from agentic_backend.application import Application, ApplicationUnavailable, Record, RecordConflict, RecordWrite
from agentic_backend.applications.retrieval.records import LEFT_VECTORS, OF_USERS, LeftVectors, StoredChunk
from agentic_backend.applications.retrieval.vector_stores.vector_store import ExternalVectorStore, VectorStoreSettings

if TYPE_CHECKING:
    from langchain_core.vectorstores import VectorStore

T = TypeVar("T")
log = logging.getLogger(__name__)

_CALL_S = 20.0
_THREADS = 4
_AWAY_S = 30.0
"""How long nothing is embedded for a store that has failed."""
_LATE = timedelta(hours=1)
"""When vectors are removed once more, which somebody was adding when they were removed."""
_REMOVED_AT_ONCE = 200


class ExternalVectors:
    def __init__(self, application: Application, settings: VectorStoreSettings | None) -> None:
        self._application = application
        self._name = None if settings is None else settings.name
        self._kind = None if settings is None else settings.made()
        self._stores: dict[int, _Store] = {}
        """By the dimensions of their vectors."""
        self._opening = asyncio.Lock()
        self._open = AsyncExitStack()
        self._failed_at: float | None = None
        self._threads = ThreadPoolExecutor(_THREADS, "vector-store")

    async def aclose(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._open.aclose()

    def require(self) -> None:
        """Before something is embedded for nothing. Raises ApplicationUnavailable if the store has failed just now."""
        if self._failed_at is not None and monotonic() - self._failed_at < _AWAY_S:
            raise _away()

    async def add(self, index: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Add vectors by the keys of their chunks, which are stored. Raises ApplicationUnavailable."""
        if vectors:
            # They are of one model.
            dimensions = len(next(iter(vectors.values())))
            await self._asked(dimensions, partial(_Store.add, index=index, vectors=vectors))

    async def nearest(self, vector: Sequence[float], indexes: Sequence[str], limit: int) -> Sequence[tuple[str, str]]:
        """The index and the key of the chunks whose vectors are nearest, the nearest first.

        They are as the store has them: some may be gone. Raises ApplicationUnavailable.
        """
        return await self._asked(len(vector), partial(_Store.nearest, vector=vector, indexes=indexes, limit=limit))

    def leaving(self, removed: Mapping[str, Record]) -> list[RecordWrite]:
        """What is written with the removal of these, by their keys, so that vectors of chunks go too; one at most."""
        left = tuple(
            (each.dimensions, _id_of(key))
            for key, each in removed.items()
            if isinstance(each, StoredChunk) and each.dimensions is not None
            # Those of a store that has another name stay there.
            if each.index.endswith(f"@{self._name}")
        )
        if self._name is None or not left:
            return []
        own = self._application.records_of(LEFT_VECTORS).of_application()
        return [own.adding(LeftVectors(store=self._name, ids=left))]

    async def forget(self, user_id: str) -> None:
        """Let all vectors of a user's collections go. Raises StoreUnavailable."""
        own, cursor = self._application.records_of(OF_USERS.chunks).of_user(user_id), None
        while self._name is not None:
            page = await own.find(limit=_REMOVED_AT_ONCE, cursor=cursor)
            await self._application.write(self.leaving({each.key: each.value for each in page.records}))
            if (cursor := page.next_cursor) is None:
                return

    async def remove_left(self) -> None:
        """Remove what is left, and later once more what somebody was adding. Raises ApplicationUnavailable."""
        own = self._application.records_of(LEFT_VECTORS).of_application()
        async for each in own.each():
            is_late = each.created_at < datetime.now(UTC) - _LATE
            if each.value.was_removed and not is_late:
                continue
            # Of a store that has another name nothing can be removed.
            if each.value.store == self._name:
                for dimensions in {dimensions for dimensions, _ in each.value.ids}:
                    ids = [id for of, id in each.value.ids if of == dimensions]
                    await self._asked(dimensions, partial(_Store.remove, ids=ids))
            with suppress(RecordConflict):
                if is_late:
                    await own.remove(each)
                else:
                    await own.change(each, each.value.model_copy(update={"was_removed": True}))

    async def _asked(self, dimensions: int, ask: Callable[["_Store"], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(_CALL_S):
                answer = await ask(await self._store(dimensions))
        except Exception as error:
            # Whatever it is: an author's class, a driver, a server.
            self._failed_at = monotonic()
            log.warning("vector store failed", extra={"error": type(error).__name__})
            raise _away() from None
        self._failed_at = None
        return answer

    async def _store(self, dimensions: int) -> "_Store":
        async with self._opening:
            if dimensions not in self._stores:
                assert self._kind is not None
                given = _Given(dimensions)
                opened = await self._open.enter_async_context(self._kind.open(given, dimensions))
                self._stores[dimensions] = _Store(self._kind, opened, given, self._threads)
            return self._stores[dimensions]


def _away() -> ApplicationUnavailable:
    return ApplicationUnavailable("The vector store does not answer.")


def _id_of(key: str) -> str:
    """The id of a chunk's vector: some stores take none but UUIDs."""
    return str(uuid5(NAMESPACE_OID, key))


class _Given(Embeddings):
    """Embeds nothing: it is asked for the vectors of keys, while it is given them."""

    def __init__(self, dimensions: int) -> None:
        self._vectors: dict[str, Sequence[float]] = {}
        # Some stores try out how many numbers a vector has.
        self._any = [1.0, *[0.0] * (dimensions - 1)]

    @contextmanager
    def knowing(self, vectors: Mapping[str, Sequence[float]]) -> Iterator[None]:
        self._vectors.update(vectors)
        try:
            yield
        finally:
            for key in vectors:
                self._vectors.pop(key, None)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = self._vectors.get(text, self._any)
        length = hypot(*vector) or 1.0
        return [number / length for number in vector]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return self.embed_query(text)


class _Store:
    """One of LangChain's stores, whose vectors have the same number of dimensions."""

    def __init__(
        self, kind: ExternalVectorStore, store: "VectorStore", given: _Given, threads: ThreadPoolExecutor
    ) -> None:
        self._kind = kind
        self._store = store
        self._given = given
        self._threads = threads

    async def add(self, index: str, vectors: Mapping[str, Sequence[float]]) -> None:
        keys = list(vectors)
        metadatas = [{"index": index} for _ in keys]
        with self._given.knowing(vectors):
            await self._do("add_texts", keys, metadatas=metadatas, ids=list(map(_id_of, keys)))

    async def nearest(self, vector: Sequence[float], indexes: Sequence[str], limit: int) -> Sequence[tuple[str, str]]:
        asked = uuid4().hex
        with self._given.knowing({asked: vector}):
            found = await self._do("similarity_search", asked, k=limit, **self._kind.within(indexes))
        return [(each.metadata["index"], each.page_content) for each in found]

    async def remove(self, ids: list[str]) -> None:
        await self._do("delete", ids)

    async def _do(self, name: str, *arguments: Any, **named: Any) -> Any:
        from langchain_core.vectorstores import VectorStore

        if type(self._store).asimilarity_search is not VectorStore.asimilarity_search:
            return await getattr(self._store, f"a{name}")(*arguments, **named)
        # In threads of its own, so that one that hangs takes none from others.
        work = partial(getattr(self._store, name), *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
