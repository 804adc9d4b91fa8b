"""Asks a model again whose response began, and failed before its first token.

Providers' packages try again until a response begins, and no longer. A model may think for a minute after that, over a
connection that any proxy may cut, or tell within the response that it is overloaded; nobody has read anything yet. What
has been read can't be said again.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from types import new_class
from typing import Any

import httpx
import httpx2
from langchain_core.exceptions import ModelConnectionError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from agentic_backend.agents.content_blocks import standard_blocks
from agentic_backend.agents.model_failures import is_timeout

# Some packages let their HTTP client's errors through.
_BROKEN = (
    ModelConnectionError,
    httpx.NetworkError,
    httpx.ProtocolError,
    httpx2.NetworkError,
    httpx2.ProtocolError,
    ConnectionError,
)
_TURN_S = 0.01
_MOST_HELD = 1_000
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
            except Exception as error:
                if beginning.is_over or wait_s is None or not _may_pass(error, beginning):
                    raise
            time.sleep(wait_s)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        turn = _Turn()
        for wait_s in _waits(self):
            beginning = _Beginning()
            try:
                async for chunk in super()._astream(*args, **kwargs):  # type: ignore[misc]
                    for passed in beginning.pass_on(chunk):
                        yield passed
                    if turn.is_over():
                        await asyncio.sleep(0)
                for held in beginning.held:
                    yield held
                return
            except Exception as error:
                if beginning.is_over or wait_s is None or not _may_pass(error, beginning):
                    raise
            await asyncio.sleep(wait_s)


class _Turn:
    """How long a stream whose chunks are all there already has kept the event loop to itself."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def is_over(self) -> bool:
        now = time.monotonic()
        if now - self._began < _TURN_S:
            return False
        self._began = now
        return True


class _Beginning:
    """Holds the chunks back that say nothing yet: usage, say, which would count twice if they came again."""

    def __init__(self) -> None:
        self.is_over = False
        self.held: list[ChatGenerationChunk] = []

    def pass_on(self, chunk: ChatGenerationChunk) -> list[ChatGenerationChunk]:
        if self.is_over:
            return [chunk]
        self.held.append(chunk)
        # What is held takes memory; a stream of so many empty chunks is none to ask for again.
        self.is_over = len(self.held) >= _MOST_HELD or _says_something(chunk.message)
        if not self.is_over:
            return []
        passed, self.held = self.held, []
        return passed


def _says_something(message: BaseMessage) -> bool:
    """Whether `message` has a call, or text or thought that isn't empty: reasoning may be announced long before."""
    if isinstance(message.content, str):
        return bool(message.content or message.additional_kwargs or getattr(message, "tool_call_chunks", None))
    blocks = standard_blocks(message)
    # What LangChain can't read somebody else may.
    return blocks is None or any(
        block["type"] not in ("text", "reasoning") or block.get(block["type"]) for block in blocks
    )


def _may_pass(error: Exception, beginning: _Beginning) -> bool:
    """Whether `error` is a broken connection, or something that the provider told within a response that had begun."""
    if isinstance(error, _BROKEN):
        return True
    if is_timeout(error) or not getattr(error, "is_retryable", True):
        return False
    if beginning.held:
        return True
    # OpenAI's package and Anthropic's raise the latter with its `body` and with a response that was OK, or none. One of
    # another status has been asked again by the packages themselves, if that may help.
    response = getattr(error, "response", None)
    return bool(getattr(error, "body", None)) and (response is None or response.status_code == HTTPStatus.OK)


def _waits(model: object) -> Iterator[float | None]:
    """The seconds to wait after each attempt that fails; None after the last."""
    retries = getattr(model, "max_retries", None)
    for attempt in range(_RETRIES if retries is None else retries):
        yield min(_WAIT_S * 2**attempt, _WAIT_AT_MOST_S) * random.uniform(0.75, 1.25)
    yield None
