"""A call that fails before its first token is tried again, whichever way its provider streams."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from agentic_backend.agents.models import stream_retry
from agentic_backend.agents.models.stream_retry import with_stream_retry


class Whole(BaseChatModel):
    """A provider that does not stream. A call fails until it has been tried `failures` times."""

    failures: int = 0
    max_retries: int | None = 2
    # How often it was called.
    calls: int = 0

    @property
    def _llm_type(self) -> str:
        return "test"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        self.begin()
        return ChatResult(generations=[ChatGeneration(message=AIMessage("whole"))])

    def begin(self) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError("cut")


class Streams(Whole):
    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        self.begin()
        yield ChatGenerationChunk(message=AIMessageChunk("streamed"))


class StreamsAsync(Whole):
    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        self.begin()
        yield ChatGenerationChunk(message=AIMessageChunk("streamed"))


class StreamsBoth(StreamsAsync, Streams):
    pass


@pytest.fixture(autouse=True)
def no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_retry, "_FIRST_RETRY_S", 0.0)


async def stream(model: BaseChatModel) -> str:
    return "".join([chunk.text for chunk in await asyncio.to_thread(list, model.stream("hello"))])


async def astream(model: BaseChatModel) -> str:
    return "".join([chunk.text async for chunk in model.astream("hello")])


# A provider's class, and how it is called so that it streams.
STREAMED = pytest.mark.parametrize(
    ("provider", "call"),
    [(Streams, stream), (Streams, astream), (StreamsAsync, astream), (StreamsBoth, stream), (StreamsBoth, astream)],
)
Call = Callable[[BaseChatModel], Any]


@STREAMED
@pytest.mark.parametrize("retries", [0, 2])
async def test_a_call_is_tried_again_as_often_as_its_model_says(
    provider: type[Whole], call: Call, retries: int
) -> None:
    model = provider(failures=100, max_retries=retries)
    with pytest.raises(ConnectionError):
        await call(with_stream_retry(model))
    assert model.calls == retries + 1


@STREAMED
async def test_what_fails_twice_before_its_first_token_is_answered(provider: type[Whole], call: Call) -> None:
    model = provider(failures=2)
    assert await call(with_stream_retry(model)) == "streamed"
    assert model.calls == 3
    assert isinstance(model, provider)


@pytest.mark.parametrize(("provider", "call"), [(Whole, stream), (Whole, astream), (StreamsAsync, stream)])
async def test_a_provider_is_called_as_a_whole_where_it_does_not_stream(provider: type[Whole], call: Call) -> None:
    model = provider()
    assert await call(with_stream_retry(model)) == "whole"
    assert model.calls == 1
