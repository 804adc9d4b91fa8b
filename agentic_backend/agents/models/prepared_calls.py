"""Prepares each call of a model that the server has built, whichever graph makes it: the tools that the run's user may
use, the images of the run, and the ids of the call.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import lru_cache
from types import new_class
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from agentic_backend.agents.models.attached_images import with_images
from agentic_backend.agents.models.named_calls import with_ids
from agentic_backend.agents.tools.offered_tools import allowed

Messages = Sequence[BaseMessage]


def with_prepared_calls(model: BaseChatModel) -> BaseChatModel:
    """Make `model` prepare its calls; return it."""
    model.__class__ = _preparing(type(model))
    return model


# To make a class of Pydantic takes longer than to make a model.
@lru_cache(maxsize=16)
def _preparing(provider: type[BaseChatModel]) -> type[BaseChatModel]:
    mixins: list[type] = [_Generates]
    # LangChain sees by its methods whether a model streams.
    if provider._stream is not BaseChatModel._stream:
        mixins.append(_Streams)
    if provider._astream is not BaseChatModel._astream:
        mixins.append(_AsyncStreams)
    # A subclass, not a wrapper: LangChain and authors may check for the provider's class.
    return new_class(provider.__name__, (*mixins, provider))


class _Generates:
    """A mixin that precedes the provider's class in the bases."""

    def _generate(self, messages: Messages, *args: Any, **kwargs: Any) -> ChatResult:
        given = _given(self, messages)
        return super()._generate(given, *args, **_options(self, kwargs))  # type: ignore[misc, no-any-return]

    async def _agenerate(self, messages: Messages, *args: Any, **kwargs: Any) -> ChatResult:
        given = _given(self, messages)
        return await super()._agenerate(given, *args, **_options(self, kwargs))  # type: ignore[misc, no-any-return]


class _Streams:
    """A mixin for a provider that streams to synchronous callers."""

    def _stream(self, messages: Messages, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        given = _given(self, messages)
        return super()._stream(given, *args, **_options(self, kwargs))  # type: ignore[misc, no-any-return]


class _AsyncStreams:
    """A mixin for a provider that streams to asynchronous callers."""

    def _astream(self, messages: Messages, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        given = _given(self, messages)
        return super()._astream(given, *args, **_options(self, kwargs))  # type: ignore[misc, no-any-return]


def _options(model: object, options: dict[str, Any]) -> dict[str, Any]:
    return with_ids(type(model), allowed(options))


def _given(model: object, messages: Messages) -> list[BaseMessage]:
    assert isinstance(model, BaseChatModel)
    return with_images(model, messages)
