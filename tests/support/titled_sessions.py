"""Sessions that a model of the test's own names."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.experts.plain_chat.graph import build
from agentic_backend.offline.model import OfflineChatModel
from support.chat_client import check_exchange, final_text
from support.sessions import Sessions, open_sessions


class Journal:
    """What the models were asked, and in which order they spoke."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.prompts: list[list[BaseMessage]] = []


class TitleModel(BaseChatModel):
    """Answers with `title` once `go_on` is set, which it is at first; `{}` in it stands for what it is asked."""

    title: str = "A good name"
    error: Exception | None = None
    go_on: asyncio.Event
    journal: Journal

    @property
    def _llm_type(self) -> str:
        return "titles"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.journal.prompts.append(messages)
        self.journal.order.append("title")
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.title.replace("{}", messages[-1].text)))])


class Speaker(OfflineChatModel):
    """The agent's model: notes each of its tokens."""

    journal: Journal

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for word in ("one ", "two ", "three ", "four"):
            self.journal.order.append("token")
            yield ChatGenerationChunk(message=AIMessageChunk(word))
            await asyncio.sleep(0.01)


def title_model(**fields: Any) -> TitleModel:
    go_on = asyncio.Event()
    go_on.set()
    return TitleModel(go_on=go_on, journal=Journal(), **fields)


def speaking_graph(journal: Journal) -> CompiledGraph:
    return build(Speaker(journal=journal))


def titled_sessions(
    directory: Path, model: BaseChatModel, *, agents: dict[str, object] | None = None, **options: Any
) -> AbstractAsyncContextManager[Sessions]:
    """Sessions whose default model is `model`; their one agent has a model of its own."""
    journal = model.journal if isinstance(model, TitleModel) else Journal()
    agents = {"agent": speaking_graph(journal), **(agents or {})}
    return open_sessions(directory, agents, models={"default": model, **options.pop("models", {})}, **options)


async def answered(sessions: Sessions, message: str = "hello", **fields: Any) -> str:
    """Ask, and check that the answer is whole and is nothing but the answer; the session's id."""
    events = await sessions.ask(message, **fields)
    check_exchange(events)
    assert final_text(events) == "one two three four"
    assert [event["type"] for event in events if event["type"] == "stream"] == ["stream", "stream"]
    session_id: str = events[0]["session_id"]
    return session_id


async def is_titled(sessions: Sessions, session_id: str, title: str) -> None:
    """The session gets this title, and keeps it."""
    async with asyncio.timeout(10):
        while (await sessions.session(session_id)).title != title:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert (await sessions.session(session_id)).title == title
