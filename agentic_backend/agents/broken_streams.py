"""Asks a model again whose connection broke before its first token.

Providers' packages try again until a response begins, and no longer. A model may think for a minute after that, over a
connection that any proxy may cut; nobody has read anything yet. What has been read can't be said again.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from types import new_class
from typing import Any

import httpx
from langchain_core.exceptions import ModelConnectionError
from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatGenerationChunk

# Some packages let their HTTP client's errors through.
_BROKEN = (ModelConnectionError, httpx.NetworkError, httpx.ProtocolError, ConnectionError)
_RETRIES, _WAIT_S, _WAIT_AT_MOST_S = 2, 0.5, 8.0


def asking_again(model: BaseChatModel) -> BaseChatModel:
    """`model`, which from now on asks again, as often as its own option `max_retries` says."""
    provider = type(model)
    if provider._stream is BaseChatModel._stream:
        # It answers as a whole, or through its `_stream` not at all.
        return model
    # A subclass, not a wrapper: what LangChain and authors ask of the provider's class stays true.
    model.__class__ = new_class(provider.__name__, (_AskingAgain, provider))
    return model


class _AskingAgain:
    """Goes before a provider's class."""

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for wait_s in _waits(self):
            beginning = _Beginning()
            try:
                for chunk in super()._stream(*args, **kwargs):  # type: ignore[misc]
                    yield from beginning.pass_on(chunk)
                yield from beginning.held
                return
            except _BROKEN:
                if beginning.is_over or wait_s is None:
                    raise
            time.sleep(wait_s)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for wait_s in _waits(self):
            beginning = _Beginning()
            try:
                async for chunk in super()._astream(*args, **kwargs):  # type: ignore[misc]
                    for passed in beginning.pass_on(chunk):
                        yield passed
                for held in beginning.held:
                    yield held
                return
            except _BROKEN:
                if beginning.is_over or wait_s is None:
                    raise
            await asyncio.sleep(wait_s)


class _Beginning:
    """Holds the chunks back that say nothing yet: usage, say, which would count twice if they came again."""

    def __init__(self) -> None:
        self.is_over = False
        self.held: list[ChatGenerationChunk] = []

    def pass_on(self, chunk: ChatGenerationChunk) -> list[ChatGenerationChunk]:
        if self.is_over:
            return [chunk]
        self.held.append(chunk)
        message = chunk.message
        self.is_over = bool(message.content or message.additional_kwargs or getattr(message, "tool_call_chunks", None))
        if not self.is_over:
            return []
        passed, self.held = self.held, []
        return passed


def _waits(model: object) -> Iterator[float | None]:
    """The seconds to wait after each attempt that fails; None after the last."""
    retries = getattr(model, "max_retries", None)
    for attempt in range(_RETRIES if retries is None else retries):
        yield min(_WAIT_S * 2**attempt, _WAIT_AT_MOST_S) * random.uniform(0.75, 1.25)
    yield None
