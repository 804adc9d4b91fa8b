"""WorkerEmbedder: an embedding model of an application's own, which computes in one of its worker processes."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from agentic_backend.agents.models.embedder import Batch, Kind
from agentic_backend.agents.models.vectors import NoVectors, vectors_of
from agentic_backend.errors import ApplicationUnavailable
from agentic_backend.loop.event_loop import in_thread_if_long


@dataclass(frozen=True)
class WorkerEmbedder:
    """Says that a worker of the application's embeds texts.

    Its method is called with a list of texts and `"query"` or `"document"`, and answers with a vector for each: as
    bytes, the float32 numbers of all one after the other, or as a list of lists of floats.
    """

    model: str
    """What the model is called in usage, prices and metrics; one with other vectors is called otherwise."""
    worker: str
    """The name of the worker."""
    _: KW_ONLY
    method: str = "embed"
    batch_texts: int = 64
    """The most texts of one call."""
    batch_characters: int = 100_000
    """The most characters of one call; a text that is longer is refused."""
    timeout_s: float = 30
    """How long one call may take, in seconds, with the turn that it waits for."""


class EmbeddingInWorker:
    """An `Embedder` of what an application declares."""

    provider = ""

    def __init__(self, declared: WorkerEmbedder, call: Callable[..., Awaitable[Any]]) -> None:
        """`call` is `Workers.call`."""
        self._declared = declared
        self._call = call
        self.model = declared.model
        self.batch_texts = declared.batch_texts
        self.batch_characters = declared.batch_characters

    async def embed(self, texts: Sequence[str], kind: Kind, user_id: str) -> Batch:
        """See Embedder. Raises ApplicationUnavailable."""
        declared = self._declared
        given = await self._call(declared.worker, user_id, declared.method, [list(texts), kind], declared.timeout_s)
        try:
            vectors = await in_thread_if_long(_size_of(given), vectors_of, given, len(texts))
        except NoVectors as error:
            content = f"The embedding model '{self.model}' has given {error}."
            raise ApplicationUnavailable(content, retryable=False) from None
        return Batch(vectors, None)


def _size_of(given: object) -> int:
    if isinstance(given, list):
        return sum(len(each) for each in given if isinstance(each, list))
    return len(given) // 4 if isinstance(given, bytes) else 0
