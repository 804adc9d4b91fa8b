"""Retries a model call whose response started and then failed before its first token.

Providers' packages retry only until a response starts. After that a model may think for a minute while a proxy cuts the
connection, or report an overload within the response. The call can be repeated because no text has been shown yet;
afterwards it can't.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from itertools import islice
from typing import Any

import httpx
import httpx2
from langchain_core.exceptions import ModelConnectionError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from agentic_backend.agents.models.mixins import with_mixins
from agentic_backend.agents.models.provider_failures import is_lasting, is_timeout
from agentic_backend.agents.models.provider_responses import standard_blocks
from agentic_backend.agents.run.at_work import note_retry
from agentic_backend.backoff import backoff

# Errors of a broken connection. Some packages pass on those of their HTTP client.
_BROKEN = (
    ModelConnectionError,
    httpx.NetworkError,
    httpx.ProtocolError,
    httpx2.NetworkError,
    httpx2.ProtocolError,
    ConnectionError,
)
# The longest time that a stream may hold the event loop, in seconds.
_TURN_S = 0.01
# The largest number of empty chunks to hold back.
_MOST_HELD = 1_000
# The same number of retries and the same delays as in OpenAI's package.
_RETRIES, _FIRST_RETRY_S, _LONGEST_RETRY_S = 2, 0.5, 8.0


def with_stream_retry(model: BaseChatModel) -> BaseChatModel:
    """Make `model` retry as often as its own option `max_retries` says; return it."""
    provider = type(model)
    mixins: list[type] = []
    if provider._stream is not BaseChatModel._stream:
        mixins.append(_StreamRetry)
    # LangChain's own _astream calls _stream, whose retries it must not repeat.
    if provider._astream is not BaseChatModel._astream:
        mixins.append(_AsyncStreamRetry)
    return with_mixins(model, *mixins)


class _StreamRetry:
    """A mixin that precedes the provider's class in the bases, if the provider streams to synchronous callers."""

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for wait_s in _waits(self):
            beginning = _Beginning()
            try:
                for chunk in super()._stream(*args, **kwargs):  # type: ignore[misc]
                    yield from beginning.pass_on(chunk)
                yield from beginning.held
                return
            except Exception as error:
                if beginning.is_over or wait_s is None or not _is_retryable(error, beginning):
                    raise
            note_retry()
            time.sleep(wait_s)


class _AsyncStreamRetry:
    """A mixin that precedes the provider's class in the bases, if the provider streams to asynchronous callers."""

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
                if beginning.is_over or wait_s is None or not _is_retryable(error, beginning):
                    raise
            note_retry()
            await asyncio.sleep(wait_s)


class _Turn:
    """Measures how long a stream with ready chunks has held the event loop."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        """When the stream last got the event loop."""

    def is_over(self) -> bool:
        now = time.monotonic()
        if now - self._began < _TURN_S:
            return False
        self._began = now
        return True


class _Beginning:
    """Holds chunks back until one has content, because a retry would repeat them: their usage would count twice."""

    def __init__(self) -> None:
        self.is_over = False
        """Whether a chunk has been passed on; then the call can't be retried."""
        self.held: list[ChatGenerationChunk] = []
        """The chunks held back."""

    def pass_on(self, chunk: ChatGenerationChunk) -> list[ChatGenerationChunk]:
        if self.is_over:
            return [chunk]
        self.held.append(chunk)
        # Bounded, because held chunks take memory.
        self.is_over = len(self.held) >= _MOST_HELD or _says_something(chunk.message)
        if not self.is_over:
            return []
        passed, self.held = self.held, []
        return passed


def _says_something(message: BaseMessage) -> bool:
    """Whether `message` has a tool call, or non-empty text or reasoning: an empty reasoning block may come first."""
    if isinstance(message.content, str):
        return bool(message.content or message.additional_kwargs or getattr(message, "tool_call_chunks", None))
    blocks = standard_blocks(message)
    # Blocks that LangChain can't read may have content.
    return blocks is None or any(
        block["type"] not in ("text", "reasoning") or block.get(block["type"]) for block in blocks
    )


def _is_retryable(error: Exception, beginning: _Beginning) -> bool:
    """Whether `error` is a broken connection, or an error that the provider reported within a started response."""
    if isinstance(error, _BROKEN):
        return True
    if is_timeout(error) or not getattr(error, "is_retryable", True) or is_lasting(error):
        return False
    if beginning.held:
        return True
    # For an error within a response, OpenAI's and Anthropic's packages set `body`, and a `response` with status 200 or
    # none. After another status the packages themselves have retried, if that may help.
    response = getattr(error, "response", None)
    return bool(getattr(error, "body", None)) and (response is None or response.status_code == HTTPStatus.OK)


def _waits(model: object) -> Iterator[float | None]:
    """The delay in seconds after each failed attempt; None after the last."""
    retries = getattr(model, "max_retries", None)
    yield from islice(backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S), max(0, _RETRIES if retries is None else retries))
    yield None
