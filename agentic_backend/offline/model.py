"""OfflineChatModel: the chat model without a provider. It needs no network and no key, and is deterministic.

It knows a table of phrases (`phrases.PHRASES`) and streams like a provider: word by word, tool calls in pieces, usage
and a finish reason at the end. It can think, fail and hang on demand. Its answer depends only on the messages and its
tools.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput, ModelProfile
from langchain_core.language_models.chat_models import agenerate_from_stream, generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import ToolCall, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from agentic_backend.offline.forced_calls import ToolChoice, with_forced_call
from agentic_backend.offline.phrases import Plan, plan_answer

_FAILURE = "The offline model fails, as it was asked to."
_WORD = re.compile(r"\S+\s*|\s+")
_ARGUMENT_PIECES, _ARGUMENT_PIECE = 20, 12


class OfflineModelError(RuntimeError):
    """The failure that the person requested."""


class OfflineChatModel(BaseChatModel):
    """`words_per_second` 0 means without delay. Stop words and structured output are not supported."""

    words_per_second: float = Field(default=30.0, ge=0)
    countdown_per_second: float = Field(default=5.0, gt=0)
    # It tells of an image what it is.
    profile: ModelProfile | None = Field(default_factory=lambda: ModelProfile(image_inputs=True))

    @property
    def _llm_type(self) -> str:
        return "offline"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return LangSmithParams(ls_provider="offline", ls_model_name="offline", ls_model_type="chat")

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: ToolChoice = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model bound to `tools`. The text decides which are called; one that `tool_choice` forces is, anyway."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], tool_choice=tool_choice, **kwargs)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        plan = _plan(messages, kwargs)
        pause = self._pause(plan)
        for chunk in _chunks(plan):
            await asyncio.sleep(pause)
            yield ChatGenerationChunk(message=chunk)
        if plan.ending == "hang":
            await asyncio.Event().wait()
        if plan.ending == "fail":
            raise OfflineModelError(_FAILURE)
        yield ChatGenerationChunk(message=_last_chunk(plan, messages))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        plan = _plan(messages, kwargs)
        pause = self._pause(plan)
        for chunk in _chunks(plan):
            time.sleep(pause)
            yield ChatGenerationChunk(message=chunk)
        while plan.ending == "hang":
            time.sleep(1)
        if plan.ending == "fail":
            raise OfflineModelError(_FAILURE)
        yield ChatGenerationChunk(message=_last_chunk(plan, messages))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        # The inherited method would run `_generate` in a thread, which can't be cancelled.
        return await agenerate_from_stream(self._astream(messages, stop, run_manager, **kwargs))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))

    def _pause(self, plan: Plan) -> float:
        """The delay before each chunk, in seconds."""
        if plan.pace == "countdown":
            return 1 / self.countdown_per_second
        return 1 / self.words_per_second if self.words_per_second else 0.0


def _plan(messages: Sequence[BaseMessage], options: dict[str, Any]) -> Plan:
    # Without a provider's built-in tools, which are no functions.
    functions = [tool["function"] for tool in options.get("tools") or () if "function" in tool]
    plan = plan_answer(messages, {function["name"]: function.get("description", "") for function in functions})
    return with_forced_call(plan, messages, functions, options.get("tool_choice"))


def _chunks(plan: Plan) -> Iterator[AIMessageChunk]:
    """The thought and the text word by word, then the calls: first the name, then the arguments in pieces.

    Content is plain text, or content blocks if there is a thought.
    """
    for word in _WORD.findall(plan.thought):
        yield AIMessageChunk(content=[{"type": "reasoning", "reasoning": word, "index": 0}])
    for word in _WORD.findall(plan.text):
        yield AIMessageChunk(content=[{"type": "text", "text": word, "index": 1}] if plan.thought else word)
    for index, call in enumerate(plan.calls):
        pieces = [tool_call_chunk(name=call["name"], args="", id=call["id"], index=index)]
        pieces += [tool_call_chunk(args=piece, index=index) for piece in _pieces(_encoded(call))]
        for piece in pieces:
            yield AIMessageChunk(content=[] if plan.thought else "", tool_call_chunks=[piece])


def _last_chunk(plan: Plan, messages: Sequence[BaseMessage]) -> AIMessageChunk:
    return AIMessageChunk(
        content=[] if plan.thought else "",
        usage_metadata=_usage(plan, messages),
        response_metadata={"model_name": "offline", "finish_reason": "tool_calls" if plan.calls else plan.ending},
        chunk_position="last",
    )


def _usage(plan: Plan, messages: Sequence[BaseMessage]) -> UsageMetadata:
    """The usage, where a token is a word; a call costs its name and the words of its arguments."""
    input_tokens = sum(
        _words(message.text) + (_cost(message.tool_calls) if isinstance(message, AIMessage) else 0)
        for message in messages
    )
    output_tokens = _words(plan.thought) + _words(plan.text) + _cost(plan.calls)
    return UsageMetadata(
        input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens
    )


def _words(text: str) -> int:
    return len(text.split())


def _cost(calls: Sequence[ToolCall]) -> int:
    return sum(1 + _words(_encoded(call)) for call in calls)


def _encoded(call: ToolCall) -> str:
    return json.dumps(call["args"], ensure_ascii=False)


def _pieces(arguments: str) -> Iterator[str]:
    size = max(_ARGUMENT_PIECE, -(-len(arguments) // _ARGUMENT_PIECES))
    return (arguments[start : start + size] for start in range(0, len(arguments), size))
