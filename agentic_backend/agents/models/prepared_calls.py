"""Prepares each call of a model that the server has built, whichever graph makes it: the tools that the run's user may
use, the images of the run, and the ids of the call.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from agentic_backend.agents.models.attached_images import with_images
from agentic_backend.agents.models.mixins import with_mixins
from agentic_backend.agents.tools.offered_tools import allowed
from agentic_backend.tracing.spans import sent_on

Messages = Sequence[BaseMessage]


# Tells providers of the call and the trace that a request of theirs belongs to, where their packages have a place.
#
# OpenAI's clients are the server's own and tell it by themselves (see provider_responses).

_PLACES: Mapping[str, tuple[str, ...]] = {
    "langchain_anthropic": ("extra_headers",),
    "langchain_google_genai": ("http_options", "headers"),
}
"""Where the headers of one request stand among the options of a call, by the package of the model's class."""


def with_ids(model: type, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a call of a `model` with the ids; headers that the options have themselves win."""
    place = _place_of(model)
    return options if place is None else _put(options, place, sent_on())


@lru_cache(maxsize=64)
def _place_of(model: type) -> tuple[str, ...] | None:
    # Not by isinstance: few servers have these packages.
    packages = [each.__module__.partition(".")[0] for each in model.__mro__ if issubclass(each, BaseChatModel)]
    return next((_PLACES[package] for package in packages if package in _PLACES), None)


def _put(options: Mapping[str, Any], place: tuple[str, ...], headers: Mapping[str, str]) -> dict[str, Any]:
    first, *rest = place
    inside = options.get(first) or {}
    return {**options, first: _put(inside, tuple(rest), headers) if rest else {**headers, **inside}}


def with_prepared_calls(model: BaseChatModel) -> BaseChatModel:
    """Make `model` prepare its calls; return it."""
    provider = type(model)
    mixins: list[type] = [_Generates]
    # LangChain sees by its methods whether a model streams.
    if provider._stream is not BaseChatModel._stream:
        mixins.append(_Streams)
    if provider._astream is not BaseChatModel._astream:
        mixins.append(_AsyncStreams)
    return with_mixins(model, *mixins)


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
