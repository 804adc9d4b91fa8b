"""PhraseModel: the tests' offline model. It refuses histories that a provider would refuse, and can recite them."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk

from agentic_backend.offline.model import OfflineChatModel


class RefusedHistory(Exception):
    """A provider would answer this conversation with 400."""


def check_history(messages: Sequence[BaseMessage]) -> None:
    """Raise RefusedHistory if a provider would refuse `messages`.

    Combines the rules of OpenAI, Anthropic and Google: each model message with calls is directly followed by the
    results of exactly these calls, there are no other results, and no message is empty or repeated.
    """
    waiting: list[str | None] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                raise RefusedHistory(f"message {place} is the result of a call that is not directly before it")
            waiting.remove(message.tool_call_id)
            continue
        if waiting:
            raise RefusedHistory(f"message {place} stands where the result of a call must stand")
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        if not calls and not message.text.strip():
            raise RefusedHistory(f"message {place} is empty")
        waiting = [call["id"] for call in calls]
    if waiting:
        raise RefusedHistory("the last message has calls without results")
    ids = [message.id for message in messages if message.id is not None]
    if len(ids) != len(set(ids)):
        raise RefusedHistory("a message comes twice")
    if not any(isinstance(message, HumanMessage) for message in messages):
        raise RefusedHistory("no person has said anything")


RECITE = "recite the conversation"


def recited(messages: Sequence[BaseMessage]) -> str:
    """A conversation, one line per message: speaker, text, calls."""
    return "\n".join(f"{_speaker(message)}: {_said(message)}" for message in messages)


def _speaker(message: BaseMessage) -> str:
    return f"{message.type} {message.name}" if message.name else message.type


def _said(message: BaseMessage) -> str:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return " ".join([message.text, *(f"[{call['name']}({_arguments(call['args'])})]" for call in calls)]).strip()


def _arguments(args: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in args.items())


class PhraseModel(OfflineChatModel):
    """The offline model without delays, which refuses histories that a provider would refuse.

    For RECITE, it repeats the earlier conversation without system prompts.
    """

    words_per_second: float = 0.0

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        check_history(messages)
        async for chunk in super()._astream(_with_recital(messages), stop, run_manager, **kwargs):
            yield chunk

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        check_history(messages)
        yield from super()._stream(_with_recital(messages), stop, run_manager, **kwargs)


def _with_recital(messages: list[BaseMessage]) -> list[BaseMessage]:
    last = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
    if messages[last].text != RECITE:
        return messages
    before = [message for message in messages[:last] if message.type != "system"]
    return [HumanMessage(f"repeat after me: {recited(before)}")]
