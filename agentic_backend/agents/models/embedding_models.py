"""EmbeddingModels: the embedding models of the settings, built once and shared by all applications."""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from langchain_core.embeddings import Embeddings

from agentic_backend.agents.code.class_path import resolve
from agentic_backend.agents.models.embedder import Batch, EmbeddingFailed, Kind
from agentic_backend.agents.models.provider_failures import failure_type, may_have_cost, typed_failure
from agentic_backend.agents.models.provider_responses import bounded_clients
from agentic_backend.agents.models.vectors import NoVectors, vectors_of
from agentic_backend.config.topics.embeddings import EmbeddingSettings
from agentic_backend.errors import OTHER, AgenticError, ContextTooLong, ModelError
from agentic_backend.loop.event_loop import in_thread_if_long

_LONGEST_NAME = 200
# What OpenAI's package has told of the tokens of a call.
_told_tokens: ContextVar[list[int] | None] = ContextVar("told_tokens", default=None)


class EmbeddingModels:
    def __init__(self, models: "Mapping[str, EmbeddingModel] | None" = None) -> None:
        self.models = models or {}
        """By their names in the settings."""

    @property
    def request_names(self) -> frozenset[str]:
        """What their providers are asked for."""
        return frozenset(model.model for model in self.models.values())


class EmbeddingModel:
    """An `Embedder` made of a class of LangChain's."""

    def __init__(self, embeddings: Embeddings, settings: EmbeddingSettings) -> None:
        provider, _, name = (settings.model or "").partition(":")
        self._embeddings = embeddings
        self._timeout_s = settings.timeout_s
        self.model = (name or _name_of(embeddings) or settings.class_path or "unknown")[:_LONGEST_NAME]
        dimensions = settings.options.get("dimensions")
        self.version = self.model if dimensions is None else f"{self.model}:{dimensions}"
        """What its vectors can be told by: those of another version can't be compared."""
        self.provider = provider
        self.batch_texts = settings.batch_texts
        self.batch_characters = settings.batch_characters

    async def embed(self, texts: Sequence[str], kind: Kind, user_id: str = "") -> Batch:
        """See Embedder. A provider's package may try again within the time."""
        told: list[int] = []
        entered = _told_tokens.set(told)
        try:
            async with asyncio.timeout(self._timeout_s):
                given = await self._given(list(texts), kind)
            numbers = len(given) * len(given[0]) if isinstance(given, list) and given and _has_length(given[0]) else 0
            vectors = await in_thread_if_long(numbers, vectors_of, given, len(texts))
        except NoVectors as error:
            told_so = ModelError(f"The embedding model '{self.model}' has given {error}.", retryable=False)
            raise EmbeddingFailed(told_so, OTHER, has_cost=True) from None
        except Exception as error:
            # Each provider raises its own errors.
            failure = embedding_failure(error, self.model)
            raise EmbeddingFailed(failure, failure_type(error), has_cost=may_have_cost(error)) from None
        finally:
            _told_tokens.reset(entered)
        return Batch(vectors, sum(told) if told else None)

    async def _given(self, texts: list[str], kind: Kind) -> Any:
        if kind == "document":
            return await self._embeddings.aembed_documents(texts)
        return [await self._embeddings.aembed_query(text) for text in texts]


def embedding_failure(error: BaseException, model: str) -> AgenticError:
    """The typed error for the exception of a call."""
    found = typed_failure(error, model, kind="embedding model")
    if isinstance(found, ContextTooLong):
        return ContextTooLong(f"A text is too long for the embedding model '{model}'.")
    return found


def build_embedding(settings: EmbeddingSettings) -> EmbeddingModel:
    """Build what the settings describe. Blocks; raises what its package raises, and ClassPathError."""
    if settings.class_path is not None:
        target = resolve(settings.class_path)
        if not (inspect.isclass(target) and issubclass(target, Embeddings)):
            raise TypeError(f"{settings.class_path!r} is no class of LangChain's Embeddings")
        return EmbeddingModel(target(**settings.options), settings)
    # Imported here, because few servers have one.
    from langchain.embeddings import init_embeddings

    assert settings.model is not None, "the settings are validated"
    if not settings.model.startswith("openai:"):
        return EmbeddingModel(init_embeddings(settings.model, **settings.options), settings)
    options = {
        # Else it fetches a tokenizer, and counts in the event loop; longer texts are refused by the provider.
        "check_embedding_ctx_length": False,
        **settings.options,
        **bounded_clients(settings.options.get("openai_proxy")),
        "openai_proxy": None,
    }
    built: Any = init_embeddings(settings.model, **options)
    built.async_client = _Counting(built.async_client)
    return EmbeddingModel(built, settings)


class _Counting:
    """The client of OpenAI's package, noting the tokens that a response tells, which LangChain drops."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def create(self, **asked: Any) -> Any:
        response = await self._client.create(**asked)
        tokens = getattr(getattr(response, "usage", None), "prompt_tokens", None)
        told = _told_tokens.get()
        if told is not None and type(tokens) is int and tokens >= 0:
            told.append(tokens)
        return response


def _name_of(embeddings: Embeddings) -> str:
    for attribute in ("model", "model_name"):
        name = getattr(embeddings, attribute, None)
        if isinstance(name, str) and name:
            return name
    return ""


def _has_length(value: object) -> bool:
    return isinstance(value, list | tuple)
