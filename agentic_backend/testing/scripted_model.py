"""ScriptedModel: a chat model that says what a test wrote, turn by turn, in pieces as a provider's model does."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from agentic_backend.testing.agent_fault import script_ended

_PIECE = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True)
class Call:
    """A call of a tool. Without an `id` the model gives it one, such as `call-2-1-3`: the second model that the test
    asks, its first turn, the third call.
    """

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    id: str | None = None


def call(name: str, /, **args: Any) -> Call:
    """The call of the tool `name` with these arguments."""
    return Call(name, args)


@dataclass(frozen=True)
class Turn:
    """What the model says in one call of it: its reasoning, its text, its calls of tools, all of them at once.

    `tokens` are the counts that it tells, of input and output. It waits `delay_s` seconds before its first piece and
    `pace_s` before each further one, and raises `error` after all else. `finish_reason` is why it ended, in the words
    of OpenAI, such as `length` or `content_filter`; without one it is `tool_calls` with calls, else `stop`.
    """

    text: str = ""
    reasoning: str = ""
    calls: Sequence[Call] = ()
    tokens: tuple[int, int] | None = None
    delay_s: float = 0.0
    pace_s: float = 0.0
    error: Exception | None = None
    finish_reason: str | None = None


@dataclass(frozen=True)
class ModelAsk:
    """What the model was given in one call of it: the messages, and the names of the tools that it was offered."""

    messages: list[BaseMessage]
    tools: list[str]


Said = str | Call | Sequence[Call] | Exception | Turn
"""A turn in short: a text, a call, several calls at once, or an error."""
Scripted = Said | Callable[[list[BaseMessage]], Said]
"""A turn, or a function that makes one of the messages that the model is given."""


_models = count(1)
"""Numbers the scripts of one test, in the order in which they are first asked."""


def number_models_anew() -> None:
    """A test begins: its models' numbers are the same whichever tests ran before."""
    global _models
    _models = count(1)


class _Script:
    """The place in the turns; shared by copies of a model, so that they go on where another one stopped."""

    def __init__(self, turns: Sequence[Scripted]) -> None:
        self.turns = turns
        self.asks: list[ModelAsk] = []
        # What it was last numbered by, and its number there.
        self._numbering: count[int] | None = None
        self._model = 0

    def next_turn(self, messages: list[BaseMessage], tools: Sequence[Any]) -> tuple[str, Turn]:
        """The turn, and the beginning of its calls' ids: unique among all models of a test. Raises ScriptEnded."""
        number = len(self.asks)
        self.asks.append(ModelAsk(list(messages), [_tool_name(tool) for tool in tools]))
        if number >= len(self.turns):
            raise script_ended(len(self.turns))
        scripted = self.turns[number]
        said = scripted(messages) if callable(scripted) else scripted
        if self._numbering is not _models:
            self._numbering, self._model = _models, next(_models)
        return f"call-{self._model}-{number + 1}", _turn_of(said)


class ScriptedModel(BaseChatModel):
    """Says `turns` in order, one at each call of the model. A call after the last one raises ScriptEnded.

    Where several agents or branches call it at the same time, the order of the turns is not certain: give each a model
    of its own, or functions as turns.
    """

    streams: bool = True
    """Whether it streams its turns; a model without streaming says each at once."""
    _script: _Script = PrivateAttr()

    def __init__(self, *turns: Scripted, **options: Any) -> None:
        super().__init__(**options)
        self._script = _Script(turns)

    @property
    def asks(self) -> list[ModelAsk]:
        """What the model was given, one for each call of it so far."""
        return self._script.asks

    @property
    def unsaid(self) -> int:
        """The number of turns that nobody has asked for."""
        return max(0, len(self._script.turns) - len(self._script.asks))

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _should_stream(self, **kwargs: Any) -> bool:
        return self.streams and super()._should_stream(**kwargs)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        """The model, which notes the tools in `asks`; which of them it calls is up to its turns."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        ids, turn = self._script.next_turn(messages, kwargs.get("tools", ()))
        await asyncio.sleep(turn.delay_s)
        for piece in _pieces(ids, turn):
            yield ChatGenerationChunk(message=piece)
            # A provider's tokens arrive one by one: other tasks run in between.
            await asyncio.sleep(turn.pace_s)
        if turn.error is not None:
            raise turn.error

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        ids, turn = self._script.next_turn(messages, kwargs.get("tools", ()))
        time.sleep(turn.delay_s)
        for piece in _pieces(ids, turn):
            yield ChatGenerationChunk(message=piece)
            time.sleep(turn.pace_s)
        if turn.error is not None:
            raise turn.error

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))


def _turn_of(said: Said) -> Turn:
    match said:
        case Turn():
            return said
        case str():
            return Turn(said)
        case Exception():
            return Turn(error=said)
        case Call():
            return Turn(calls=[said])
    return Turn(calls=said)


def _pieces(ids: str, turn: Turn) -> Iterator[AIMessageChunk]:
    """The turn word by word; its calls without an id get one that begins with `ids`."""
    yield AIMessageChunk(content="")
    for word in _PIECE.findall(turn.reasoning):
        yield AIMessageChunk(content="", additional_kwargs={"reasoning_content": word})
    for word in _PIECE.findall(turn.text):
        yield AIMessageChunk(content=word)
    for index, one in enumerate(turn.calls):
        call_id = one.id or f"{ids}-{index + 1}"
        # As providers do: the name comes first, the arguments follow.
        yield AIMessageChunk(
            content="", tool_call_chunks=[tool_call_chunk(name=one.name, args="", id=call_id, index=index)]
        )
        yield AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(args=json.dumps(one.args), index=index)])
    if turn.error is None:
        yield _last(turn)


def _last(turn: Turn) -> AIMessageChunk:
    usage = None
    if turn.tokens is not None:
        read, written = turn.tokens
        usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
    reason = turn.finish_reason or ("tool_calls" if turn.calls else "stop")
    metadata = {"model_name": "scripted", "finish_reason": reason}
    return AIMessageChunk(content="", usage_metadata=usage, response_metadata=metadata)


def _tool_name(tool: Any) -> str:
    described = tool.get("function", tool) if isinstance(tool, dict) else {}
    return str(described.get("name", ""))
