"""PhraseModel: the tests' offline model. It refuses what a provider would refuse, and recites what it is given."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk

from agentic_backend.agents.offline_model import OfflineChatModel


class RefusedHistory(Exception):
    """A conversation that a provider answers with 400."""


def check_history(messages: Sequence[BaseMessage]) -> None:
    """Raise RefusedHistory where a provider would refuse `messages`.

    The union of what OpenAI, Anthropic and Google demand: each model message with calls is directly followed by the
    results of exactly these calls, no result stands elsewhere, and no message is empty or comes twice.
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
    """A conversation in lines: who spoke, the text, the calls."""
    return "\n".join(f"{_speaker(message)}: {_said(message)}" for message in messages)


def _speaker(message: BaseMessage) -> str:
    return f"{message.type} {message.name}" if message.name else message.type


def _said(message: BaseMessage) -> str:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return " ".join([message.text, *(f"[{call['name']}({_arguments(call['args'])})]" for call in calls)]).strip()


def _arguments(args: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in args.items())


class PhraseModel(OfflineChatModel):
    """The offline model, as fast as it goes, which refuses what a provider would refuse.

    Asked to RECITE, it tells what was said before in the conversation, system prompts left out.
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
