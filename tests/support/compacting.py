"""Sessions with short chat profiles, a model that summarises as told, and an agent that notes what it is given."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import MessagesState
from langgraph.types import interrupt

from agentic_backend.config.topics.chat_profiles import ChatProfile, ChatProfiles
from agentic_backend.config.topics.sessions import TitlesSettings
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.stores.protocol.trail import SummaryRecord, TrailQuery
from agentic_backend.stores.records import SessionRecord
from support.chat_client import check_exchange
from support.phrase_model import check_history
from support.recorded_agents import entry_of, one_node
from support.sessions import Event, Sessions, open_sessions

SHORT = ChatProfile(max_history_turns=4, compaction_threshold_tokens=100_000)
PROFILES = ChatProfiles(
    {
        "default": SHORT,
        "by_tokens": ChatProfile(compaction_threshold_tokens=200),
        "in_prompt": SHORT.model_copy(update={"summary_position": "system_prompt"}),
        "without": SHORT.model_copy(update={"include_summary_in_context": False}),
        "tutor": ChatProfile(instructions="Ask back."),
        "roomy": ChatProfile(max_history_turns=100, compaction_threshold_tokens=100_000),
    }
)


class Summariser(BaseChatModel):
    """Summarises with `texts`, the last one for good, once `go_on` is set, which it is at first."""

    texts: list[str | Exception]
    asked: list[str]
    go_on: asyncio.Event

    @property
    def _llm_type(self) -> str:
        return "summariser"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.asked.append(messages[-1].text)
        await self.go_on.wait()
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        if isinstance(text, Exception):
            raise text
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def summariser(*texts: str | Exception) -> Summariser:
    go_on = asyncio.Event()
    go_on.set()
    return Summariser(texts=list(texts) or ["They talk of cats."], asked=[], go_on=go_on)


class Given:
    """An agent that answers each question, and notes what it was given before it."""

    def __init__(self) -> None:
        self.histories: list[list[str]] = []

        def answer(state: MessagesState) -> dict[str, Any]:
            *before, question = state["messages"]
            check_history([message.model_copy() for message in state["messages"]])
            self.histories.append([message.text for message in before])
            if question.text == "ask me":
                return {"messages": [AIMessage(f"You said {interrupt('What?')}")]}
            if question.text.startswith("look"):
                call = {"name": "look", "args": {}, "id": f"call {len(self.histories)}"}
                result = ToolMessage("seen", tool_call_id=str(call["id"]))
                return {"messages": [AIMessage("", tool_calls=[call]), result, AIMessage(f"re: {question.text}")]}
            return {"messages": [AIMessage(f"re: {question.text}")]}

        self.graph = one_node(answer)

    @property
    def last(self) -> list[str]:
        return self.histories[-1]


def compacting(
    directory: Path, model: BaseChatModel, agent: Given, *, window: int | None = None, **options: Any
) -> AbstractAsyncContextManager[Sessions]:
    """Sessions with `agent`, whose model takes `window` tokens; `model` summarises."""
    own = OfflineChatModel(profile=None if window is None else {"max_input_tokens": window})
    options = {"profiles": PROFILES, "titles": TitlesSettings(enabled=False), **options}
    entry = entry_of(agent.graph, "agent", model="own")
    return open_sessions(directory, {"agent": entry}, models={"default": model, "own": own}, **options)


async def asked(sessions: Sessions, session_id: str | None, *messages: str, **fields: Any) -> list[Event]:
    """Ask all of it, one after the other; the events of the last one."""
    events: list[Event] = []
    for message in messages:
        events = await sessions.ask(message, session_id=session_id, **fields)
        check_exchange(events)
        session_id = events[0]["session_id"]
    return events


async def begun(sessions: Sessions, count: int, **fields: Any) -> str:
    """A session of `count` turns; its id."""
    events = await asked(sessions, None, "q0", **fields)
    session_id: str = events[0]["session_id"]
    await asked(sessions, session_id, *(f"q{number}" for number in range(1, count)))
    return session_id


async def compacted(sessions: Sessions, session_id: str, *, not_to: str | None = None) -> SessionRecord:
    """Wait until the session has a summary, another one than `not_to`."""
    async with asyncio.timeout(10):
        while (session := await sessions.session(session_id)).summary_id in (None, not_to):
            await asyncio.sleep(0.01)
    return session


async def summaries(sessions: Sessions, session_id: str) -> list[SummaryRecord]:
    """The session's summaries, the oldest first."""
    page = await sessions.store.real.trail(TrailQuery(SummaryRecord, {"session_id": session_id}))
    return page.records[::-1]


def activities(events: list[Event]) -> list[dict[str, Any]]:
    return [event["data"] for event in events if event["type"] == "activity" and event["kind"] == "compacted"]


def turns(first: int, last: int) -> list[str]:
    return [text for number in range(first, last + 1) for text in (f"q{number}", f"re: q{number}")]
