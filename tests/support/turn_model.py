"""TurnModel: a chat model that says its turns in order, in pieces, with the differences between providers."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import ToolCall, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import PrivateAttr

_PIECE = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True)
class Turn:
    """`tokens` are the input and output tokens; `error` is raised after everything else."""

    text: str = ""
    thought: str = ""
    calls: Sequence[ToolCall] = ()
    tokens: tuple[int, int] | None = None
    finish_reason: str | None = None
    error: Exception | None = None


@dataclass
class Gate:
    """Holds a model before its `at`-th piece until it is opened."""

    at: int
    opened: asyncio.Event = field(default_factory=asyncio.Event)


def call(name: str, call_id: str, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args, id=call_id, type="tool_call")


class TurnModel(BaseChatModel):
    """`own_ids`: the pieces that have a provider's id. `blocks`: whether content is a list of blocks.

    If `streams` is false, a turn is not streamed. A call after the last turn raises IndexError.
    """

    turns: list[Turn]
    own_ids: Literal["none", "first", "all"] = "none"
    blocks: bool = False
    streams: bool = True
    gate: Gate | None = None
    _said: int = PrivateAttr(0)
    _own_id: str = PrivateAttr(default_factory=lambda: uuid4().hex)

    @property
    def _llm_type(self) -> str:
        return "turns"

    def _should_stream(self, **kwargs: Any) -> bool:
        return self.streams and super()._should_stream(**kwargs)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        """The model without tools: its turns contain their calls."""
        return self.bind()

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for place, chunk in enumerate(self._next_turn()):
            if self.gate is not None and self.gate.at == place:
                await self.gate.opened.wait()
            # A provider's tokens arrive one by one: let other tasks run in between.
            await asyncio.sleep(0)
            yield ChatGenerationChunk(message=chunk)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in self._next_turn():
            yield ChatGenerationChunk(message=chunk)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))

    def _next_turn(self) -> Iterator[AIMessageChunk]:
        turn, number = self.turns[self._said], self._said
        self._said += 1
        for place, chunk in enumerate(self._pieces(turn)):
            if self.own_ids == "all" or (self.own_ids == "first" and place == 0):
                chunk.id = f"{self._own_id}-{number}"
            yield chunk
        if turn.error is not None:
            raise turn.error

    def _pieces(self, turn: Turn) -> Iterator[AIMessageChunk]:
        yield AIMessageChunk([] if self.blocks else "")
        for piece in _PIECE.findall(turn.thought):
            if self.blocks:
                yield AIMessageChunk([{"type": "reasoning", "reasoning": piece, "index": 0}])
            else:
                yield AIMessageChunk("", additional_kwargs={"reasoning_content": piece})
        for piece in _PIECE.findall(turn.text):
            yield AIMessageChunk([{"type": "text", "text": piece, "index": 1}] if self.blocks else piece)
        for index, one in enumerate(turn.calls):
            encoded = json.dumps(one["args"])
            pieces = [
                tool_call_chunk(name=one["name"], args=encoded[:3], id=one["id"], index=index),
                tool_call_chunk(args=encoded[3:], index=index),
            ]
            for piece in pieces:
                yield AIMessageChunk([] if self.blocks else "", tool_call_chunks=[piece])
        if turn.error is None:
            yield self._last(turn)

    def _last(self, turn: Turn) -> AIMessageChunk:
        usage = None
        if turn.tokens is not None:
            heard, said = turn.tokens
            usage = UsageMetadata(input_tokens=heard, output_tokens=said, total_tokens=heard + said)
        metadata = {"model_name": "turns"} | ({"finish_reason": turn.finish_reason} if turn.finish_reason else {})
        return AIMessageChunk([] if self.blocks else "", usage_metadata=usage, response_metadata=metadata)
