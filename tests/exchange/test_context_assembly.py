"""What models are given of a session's past: as much as their context window takes, with an agent cold and warm."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from pydantic import Field
from support.chat_client import check_exchange, final_text
from support.phrase_model import check_history
from support.recorded_agents import entry_of
from support.sessions import WHOLE_HISTORY, Sessions, open_sessions

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.policy.prompt.token_counts import TokenCounts
from agentic_backend.stores.protocol.trail import PromptRecord, TrailQuery
from tests.stores.samples import run_exchanges

PROMPT = "You remember."
# Of a window of 1,000 tokens, 500 are left for the response.
WINDOW, ROOM = 1_000, 500
WORDS_30 = "word " * 30


class ReadingModel(OfflineChatModel):
    """Says "Yes." to a word; first calls a tool if the question begins with "look". Keeps what it is given."""

    heard: list[list[BaseMessage]] = Field(default_factory=list)

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.heard.append(list(messages))
        last = messages[-1]
        if isinstance(last, HumanMessage) and last.text.startswith("look"):
            chunk = {"name": "look", "args": "{}", "id": f"call-{len(messages)}", "index": 0}
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[chunk]))
        else:
            yield ChatGenerationChunk(message=AIMessageChunk("Yes."))

    @property
    def questions(self) -> list[str]:
        """The questions of the last call."""
        return [message.text.split()[0] for message in self.heard[-1] if isinstance(message, HumanMessage)]


class CountingModel(ReadingModel):
    """Has a tokenizer: a word is a token."""

    def get_token_ids(self, text: str) -> list[int]:
        return list(range(len(text.split())))


@tool
def look() -> str:
    """Look."""
    return WORDS_30


class Remembering(AgentFlow):
    async def async_init(self) -> None:
        self._graph = create_agent(self.chat_model(), tools=[look], middleware=[self.prompt_middleware()])

    def system_prompt(self) -> str:
        return PROMPT

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


def agents(*ids: str) -> dict[str, CatalogAgent]:
    return {agent_id: entry_of(Remembering, agent_id, model="reading") for agent_id in ids}


def with_window(model: type[ReadingModel], tokens: int | None) -> dict[str, ReadingModel]:
    return {"reading": model(profile=None if tokens is None else {"max_input_tokens": tokens})}


@asynccontextmanager
async def opened(directory: Path, models: dict[str, ReadingModel], **options: Any) -> AsyncIterator[Sessions]:
    """Sessions whose histories are never compacted, also if they do not fit: their store keeps no summaries."""
    async with open_sessions(directory, agents("a", "b"), models=models, profiles=WHOLE_HISTORY, **options) as sessions:
        sessions.store.go_away("keep_summary")
        yield sessions


async def ask(sessions: Sessions, message: str, session_id: str | None = None, **fields: Any) -> str:
    events = await sessions.ask(message, session_id=session_id, **fields)
    check_exchange(events)
    assert events[-1]["status"] == "ok", events[-1]
    return str(events[0]["session_id"])


@pytest.mark.parametrize("way", ["warm", "cold", "unseen"])
@pytest.mark.parametrize("kind", [ReadingModel, CountingModel])
async def test_a_conversation_of_any_length_gives_as_much_as_fits(
    tmp_path: Path, way: str, kind: type[ReadingModel]
) -> None:
    models = with_window(kind, WINDOW)
    model = models["reading"]
    async with opened(tmp_path, models, cache_size=8 if way == "warm" else 1) as it:
        session_id = None
        for number in range(15):
            session_id = await ask(it, f"{number} {WORDS_30 * 2}", session_id)
            if way == "cold":
                await ask(it, "in another session")
        await ask(it, "now", session_id, agent_id="b" if way == "unseen" else "a")
    counter = TokenCounts().of(model)
    given = [message for message in model.heard[-1] if message.type != "system"]
    used = counter.of_text(PROMPT) + sum(map(counter.of_message, given))
    one_more = sum(map(counter.of_message, [*given[:2]]))
    assert ROOM - one_more < used <= ROOM
    count = len(model.questions) - 1
    assert model.questions == [*map(str, range(15 - count, 15)), "now"]


async def test_of_an_unknown_window_the_last_messages_are_given(tmp_path: Path) -> None:
    models = with_window(ReadingModel, None)
    limits = LimitsSettings(history_exchanges=100)
    async with opened(tmp_path, models, limits=limits) as it:
        session_id = await ask(it, "0")
        for number in range(1, 28):
            await ask(it, f"{number}", session_id)
    assert models["reading"].questions == [*map(str, range(2, 28))]
    assert len(models["reading"].heard[-1]) == 1 + 50 + 1


@pytest.mark.parametrize("tokens", [560, 4_000])
async def test_of_a_long_past_the_newest_is_read_and_no_more_than_fits(
    tmp_path: Path, tokens: int, caplog: pytest.LogCaptureFixture
) -> None:
    models = with_window(CountingModel, tokens)
    limits = LimitsSettings(history_exchanges=10_000)
    async with opened(tmp_path, models, limits=limits) as it:
        session_id = await ask(it, "begin")
        session = await it.session(session_id)
        await run_exchanges(it.store.real, session, 300)
        with caplog.at_level(logging.INFO, "agentic_backend.exchange.past.recall"):
            await ask(it, "now", session_id, agent_id="b")
    read = next(record.__dict__["rows"] for record in caplog.records if "restore" in record.__dict__)
    given = len(models["reading"].heard[-1]) - 2
    assert given <= read <= max(1.6 * given, 64)
    # "What is it?" and "answer 7" are 11 tokens; the prompt and the question are 6.
    assert given == (tokens - min(800, tokens // 2) - 6) // 11 * 2


@pytest.mark.parametrize("cache_size", [1, 8])
async def test_a_tools_result_stays_with_its_call(tmp_path: Path, cache_size: int) -> None:
    models = with_window(CountingModel, 280)
    async with opened(tmp_path, models, cache_size=cache_size) as it:
        session_id = await ask(it, "look 0")
        for number in range(1, 8):
            await ask(it, "in another session")
            await ask(it, f"look {number}", session_id)
    for heard in models["reading"].heard:
        check_history([message.model_copy() for message in heard if message.type != "system"])
    assert models["reading"].questions.count("look") == 3


@pytest.mark.parametrize("cache_size", [1, 8])
@pytest.mark.parametrize("mode", ["chat", "query"])
async def test_a_message_that_cannot_fit_is_refused_before_a_model_is_called(
    tmp_path: Path, mode: str, cache_size: int
) -> None:
    models = with_window(CountingModel, WINDOW)
    model = models["reading"]
    async with opened(tmp_path, models, cache_size=cache_size) as it:
        session_id = await ask(it, "before") if mode == "chat" else None
        calls = len(model.heard)
        events = await it.ask("word " * 501, session_id=session_id, mode=mode)
        check_exchange(events)
        assert events[-1]["status"] == "error" and len(model.heard) == calls
        [error] = [event for event in events if event["type"] == "error"]
        assert error["code"] == "context_too_long" and not error["retryable"]
        assert "about 504 tokens, and there is room for 498" in error["content"]
        if mode == "chat":
            query = TrailQuery(PromptRecord, {"exchange_id": str(events[0]["exchange_id"])})
            [record] = (await it.store.real.trail(query)).records
            assert [section.text for section in record.sections] == [PROMPT], "it tells what left no room"
            await ask(it, "after", session_id)
            assert model.questions == ["before", "after"], "the refused message takes no history away"


class Odd(Remembering):
    def system_prompt(self) -> str:
        return f"\ud800 {PROMPT} " * 100_000


async def test_a_prompt_of_any_characters_and_any_length_ends_well(tmp_path: Path) -> None:
    models = with_window(CountingModel, None)
    async with open_sessions(tmp_path, {"a": entry_of(Odd, "a", model="reading")}, models=models) as it:
        events = await it.ask("Hi")
        assert events[-1]["status"] == "ok"
        [record] = (await it.store.real.trail(TrailQuery(PromptRecord, {}))).records
        assert record.sections[0].text.startswith("\ufffd ") and len(record.sections[0].text) < 1_100_000


async def test_the_prompt_and_its_size_are_kept_with_the_exchange(tmp_path: Path) -> None:
    async with opened(tmp_path, with_window(CountingModel, None)) as it:
        events = await it.ask("look at this")
        assert final_text(events) == "Yes."
        exchange_id, store = str(events[0]["exchange_id"]), it.store.real
        [record] = (await store.trail(TrailQuery(PromptRecord, {"exchange_id": exchange_id}))).records
        assert (record.agent_id, record.user_id, record.session_id) == ("a", "alice", events[0]["session_id"])
        [section] = record.sections
        assert (section.name, section.source, section.text, section.tokens) == ("core", "agent:a", PROMPT, 2)
        events = await it.ask("Hi", mode="query")
        query = TrailQuery(PromptRecord, {"exchange_id": str(events[0]["exchange_id"])})
        assert (await store.trail(query)).records == [], "nothing is stored of a query"
