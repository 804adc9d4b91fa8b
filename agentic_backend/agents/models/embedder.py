"""Embedder: makes vectors of texts, wherever: at a provider, in this process, or in a worker process."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agentic_backend.errors import AgenticError

Kind = Literal["query", "document"]
"""What texts are: some models tell what is looked for from what is found."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one call of an embedder gives: a vector for each text, in their order."""

    vectors: "Sequence[array[float]]" = field(repr=False)
    tokens: int | None
    """None if nobody has counted them."""


class EmbeddingFailed(Exception):
    """A call has failed: what its caller is told, `error_type` of the metrics, and whether it may have cost."""

    def __init__(self, error: AgenticError, error_type: str, *, has_cost: bool) -> None:
        super().__init__(error_type)
        self.error = error
        self.error_type = error_type
        self.has_cost = has_cost


class Embedder(Protocol):
    model: str
    """What it is called in usage, prices and metrics; vectors of another one can't be compared."""
    provider: str
    """LangChain's name of it, or empty."""
    batch_texts: int
    batch_characters: int
    # The most of one call.

    async def embed(self, texts: Sequence[str], kind: Kind, user_id: str) -> Batch:
        """The vectors of at most `batch_texts` texts. Raises EmbeddingFailed, and errors of the server."""
        ...
