"""Embedding: makes vectors of many texts in batches, each counted, priced and paid as a call of a model.

All vectors come, or an error: what had been made before it is dropped, though it is paid for.
"""

import time
from array import array
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

from agentic_backend.agents.models.embedder import Batch, Embedder, EmbeddingFailed, Kind
from agentic_backend.agents.models.provider_failures import failure_type
from agentic_backend.errors import ContextTooLong, ModelError
from agentic_backend.loop.event_loop import in_thread_if_long
from agentic_backend.policy.prompt.token_counts import tokens_of_bytes
from agentic_backend.policy.usage.usage_ledger import Payer, UsageLedger
from agentic_backend.streaming.model.model_calls import Asked, CallTokens, ModelCall

MOST_TEXTS, MOST_CHARACTERS = 2_000, 4_000_000
"""The most that are embedded at once."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of texts, in their order. `vectors` are `array("f")`, all of the same length, `dimensions`."""

    model: str
    """What made them: only vectors of one model and one length can be compared."""
    dimensions: int
    vectors: "Sequence[array[float]]" = field(repr=False)
    tokens: int
    is_estimated: bool
    """Whether the server has estimated the tokens, or some of them."""


@dataclass(frozen=True, slots=True)
class EmbeddingEstimate:
    """What it would take to embed texts. `cost` and `currency` are None if the settings have no price."""

    model: str
    tokens: int
    calls: int
    cost: float | None
    currency: str | None


class Embedding:
    def __init__(self, ledger: UsageLedger) -> None:
        self._ledger = ledger

    async def embed(self, embedder: Embedder, texts: Sequence[str], payer: Payer, kind: Kind) -> Embedded:
        """Raises ValueError for what is no text, BudgetExceeded, ContextTooLong, and what the embedder raises."""
        if kind not in ("query", "document"):
            raise ValueError(f"{kind!r} is no kind of texts: query, document")
        sizes = await _sizes(texts, MOST_TEXTS, MOST_CHARACTERS)
        batches = list(_batches(embedder, texts, sizes))
        if payer.user_id:
            budgets = self._ledger.budgets
            await budgets.check(payer.user_id, budgets.paying_group(payer.groups))
        vectors: list[array[float]] = []
        tokens, is_estimated = 0, False
        for batch, size in batches:
            made = await self._call(embedder, batch, size, payer, kind)
            if vectors and len(made.vectors[0]) != len(vectors[0]):
                told = f"The embedding model '{embedder.model}' has given vectors of different lengths."
                raise ModelError(told, retryable=False)
            vectors += made.vectors
            tokens += tokens_of_bytes(size) if made.tokens is None else made.tokens
            is_estimated |= made.tokens is None
        return Embedded(embedder.model, len(vectors[0]) if vectors else 0, vectors, tokens, is_estimated)

    async def estimate(self, embedder: Embedder, texts: Sequence[str], more: int = 0) -> EmbeddingEstimate:
        """`more` are bytes of further texts. Raises ValueError for what is no text, and ContextTooLong."""
        sizes = await _sizes(texts, len(texts), None)
        batches = list(_batches(embedder, texts, sizes))
        tokens = sum(tokens_of_bytes(size) for _, size in batches) + (tokens_of_bytes(more) if more else 0)
        calls = len(batches) + -(-more // embedder.batch_characters)
        cost = self._ledger.cost(embedder.model, CallTokens(tokens, 0))
        amount, currency = (None, None) if cost is None else (cost.amount, cost.currency)
        return EmbeddingEstimate(embedder.model, tokens, calls, amount, currency)

    async def _call(self, embedder: Embedder, texts: Sequence[str], size: int, payer: Payer, kind: Kind) -> Batch:
        call_id, estimated = str(uuid4()), tokens_of_bytes(size)
        # Held until the call has ended: so long its payer's budget counts it.
        asked = Asked((), most_output=0, input_tokens=estimated)
        self._ledger.begin(call_id, embedder.model, asked, payer)
        began = time.monotonic()
        error, tokens, has_cost = "", None, True
        try:
            made = await embedder.embed(texts, kind, payer.user_id)
            tokens = made.tokens
        except EmbeddingFailed as failed:
            error, has_cost = failed.error_type, failed.has_cost
            raise failed.error from None
        except BaseException as failed:
            error, has_cost = failure_type(failed), isinstance(failed, CancelledError)
            raise
        finally:
            self._ledger.count(
                ModelCall(
                    id=call_id,
                    model=embedder.model,
                    purpose="embedding",
                    duration_s=time.monotonic() - began,
                    tokens=None if tokens is None else CallTokens(tokens, 0),
                    error=error,
                    provider=embedder.provider,
                    requested=embedder.model,
                    asked=asked if tokens is None and has_cost else None,
                ),
                payer,
            )
        return made


async def _sizes(texts: Sequence[str], most: int, most_characters: int | None) -> list[int]:
    """The bytes of each text. Raises ValueError."""
    if not isinstance(texts, list | tuple) or not all(type(text) is str and text for text in texts):
        raise ValueError("the texts have to be a list of texts that are not empty")
    characters = sum(map(len, texts))
    if len(texts) > most or (most_characters is not None and characters > most_characters):
        raise ValueError(f"at most {MOST_TEXTS} texts with {MOST_CHARACTERS} characters are embedded at once")
    return await in_thread_if_long(characters, _bytes_of, texts)


def _bytes_of(texts: Sequence[str]) -> list[int]:
    with suppress(UnicodeEncodeError):
        return [len(text.encode()) for text in texts]
    raise ValueError("a text is no valid Unicode")


def _batches(embedder: Embedder, texts: Sequence[str], sizes: Sequence[int]) -> Iterator[tuple[Sequence[str], int]]:
    """The texts in batches, each with its bytes. Raises ContextTooLong."""
    batch: list[str] = []
    characters = size = 0
    for text, own in zip(texts, sizes, strict=True):
        if len(text) > embedder.batch_characters:
            content = f"A text is longer than {embedder.batch_characters:,} characters, which is the most that "
            raise ContextTooLong(f"{content}the embedding model '{embedder.model}' is given.")
        if batch and (len(batch) >= embedder.batch_texts or characters + len(text) > embedder.batch_characters):
            yield batch, size
            batch, characters, size = [], 0, 0
        batch.append(text)
        characters += len(text)
        size += own
    if batch:
        yield batch, size
