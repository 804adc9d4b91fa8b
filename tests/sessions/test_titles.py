"""Titles: a session's name comes beside its first answer, and nothing that happens to it touches the answer."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from support.chat_client import check_exchange, final_text
from support.recorded_agents import eventually
from support.sessions import USER, Sessions, events_of, open_sessions

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.auth.user import User
from agentic_backend.config.limits import LimitsSettings
from agentic_backend.experts.plain_chat.graph import build
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.protocol.messages import Session
from agentic_backend.relay.exchange_log import ExchangeLog
from agentic_backend.sessions.titles import UNNAMED, provisional_title

SECRET = "the secret of the person"


class Journal:
    """What the models were asked, and in which order they spoke."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.prompts: list[list[BaseMessage]] = []


class TitleModel(BaseChatModel):
    """Answers with `title` once `go_on` is set, which it is at first."""

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
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.title))])


class Speaker(OfflineChatModel):
    """The agent's model: notes each of its tokens; with `beside`, the last one comes once a title is asked for."""

    journal: Journal
    beside: bool = False

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for word in ("one ", "two ", "three ", "four"):
            if self.beside and word == "four":
                await eventually(lambda: "title" in self.journal.order)
            self.journal.order.append("token")
            yield ChatGenerationChunk(message=AIMessageChunk(word))
            await asyncio.sleep(0.01)


def title_model(**fields: Any) -> TitleModel:
    go_on = asyncio.Event()
    go_on.set()
    return TitleModel(go_on=go_on, journal=Journal(), **fields)


def speaking_graph(journal: Journal, beside: bool) -> CompiledGraph:
    return build(Speaker(journal=journal, beside=beside))


class Watcher:
    def __init__(self) -> None:
        self.titles: list[str] = []

    def exchange_started(self, log: ExchangeLog) -> None:
        """Not of interest here."""

    def session_changed(self, session: Session) -> None:
        self.titles.append(session.title)


def titled_sessions(
    directory: Path, model: BaseChatModel, *, beside: bool = False, **options: Any
) -> AbstractAsyncContextManager[Sessions]:
    """Sessions whose default model is `model`; their one agent has a model of its own."""
    journal = model.journal if isinstance(model, TitleModel) else Journal()
    return open_sessions(directory, {"agent": speaking_graph(journal, beside)}, models={"default": model}, **options)


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


async def test_the_default_model_names_a_session_once_its_answer_has_begun(tmp_path: Path) -> None:
    model = title_model()
    async with titled_sessions(tmp_path, model, beside=True) as sessions:
        watcher = Watcher()
        log = await sessions.begin("hello\n  there")
        assert log.session_id is not None
        sessions.relay.watchers.watch(log.session_id, watcher, exchanges_too=False)
        [started, *_] = await events_of(log)
        assert started["session"]["title"] == "hello there"
        await eventually(lambda: watcher.titles)
        assert watcher.titles == ["A good name"]
        assert (await sessions.session(log.session_id)).title == "A good name"
    assert model.journal.order[0] == "token", "never before the first token"
    assert model.journal.order.index("title") < 4, "beside the answer, not after it"
    [[_, prompt]] = model.journal.prompts
    assert prompt.text == "hello\n  there"


async def test_the_tokens_of_a_title_are_no_tokens_of_the_answer(tmp_path: Path) -> None:
    streaming = OfflineChatModel(words_per_second=0)
    async with titled_sessions(tmp_path, streaming) as sessions:
        session_id = await answered(sessions, "write a poem about the sea")
        async with asyncio.timeout(10):
            while (await sessions.session(session_id)).title == "write a poem about the sea":
                await asyncio.sleep(0.01)


async def test_a_session_is_named_once(tmp_path: Path) -> None:
    model = title_model()
    async with titled_sessions(tmp_path, model) as sessions:
        session_id = await answered(sessions)
        await answered(sessions, "and again", session_id=session_id)
        await answered(sessions, mode="query")
        await asyncio.sleep(0.05)
    assert len(model.journal.prompts) == 1


@pytest.mark.parametrize(("own", "title"), [(None, "A good name"), ("My own name", "My own name")])
async def test_a_session_that_was_opened_first_is_named_unless_it_has_a_name(
    tmp_path: Path, own: str | None, title: str
) -> None:
    async with titled_sessions(tmp_path, title_model()) as sessions:
        opened = await sessions.service.open(USER, None, own, "default")
        assert opened.title == (own or UNNAMED)
        await answered(sessions, session_id=opened.id)
        await is_titled(sessions, opened.id, title)


async def test_a_title_loses_against_the_name_that_the_user_has_given(tmp_path: Path) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        watcher = Watcher()
        session_id = await answered(sessions)
        sessions.relay.watchers.watch(session_id, watcher, exchanges_too=False)
        await sessions.service.rename(USER, session_id, "The user's name")
        model.go_on.set()
        await is_titled(sessions, session_id, "The user's name")
        assert watcher.titles == ["The user's name"]


async def test_a_title_comes_too_late_for_a_deleted_session(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        session_id = await answered(sessions)
        await sessions.service.delete(USER, session_id)
        model.go_on.set()
        await asyncio.sleep(0.05)
        assert await sessions.store.real.get_session(session_id) is None
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ('  "A quoted name."\n', "A quoted name"),
        ("two\nlines", "two lines"),
        ("x" * 500, "x" * 80),
        ("", "hello"),
        (' " ', "hello"),
    ],
)
async def test_a_title_is_one_short_line(tmp_path: Path, answer: str, title: str) -> None:
    async with titled_sessions(tmp_path, title_model(title=answer)) as sessions:
        session_id = await answered(sessions)
        await is_titled(sessions, session_id, title)


async def test_a_title_model_that_fails_harms_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = title_model(error=ValueError(SECRET))
    async with titled_sessions(tmp_path, model) as sessions:
        session_id = await answered(sessions, SECRET)
        await eventually(lambda: caplog.records and caplog.records[-1].message == "session not named")
        assert (await sessions.session(session_id)).title == SECRET
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_a_store_that_is_away_harms_nothing_but_the_title(tmp_path: Path) -> None:
    async with titled_sessions(tmp_path, title_model()) as sessions:
        with sessions.store.away("rename_session"):
            session_id = await answered(sessions)
            await eventually(lambda: sessions.store.refused)
        assert (await sessions.session(session_id)).title == "hello"


async def test_a_title_model_that_hangs_holds_up_neither_the_answer_nor_the_end(tmp_path: Path) -> None:
    model, limits = title_model(), LimitsSettings(titles_timeout_s=3600)
    model.go_on.clear()
    async with asyncio.timeout(30):
        async with titled_sessions(tmp_path, model, limits=limits, grace_s=3600) as sessions:
            await answered(sessions)
            await eventually(lambda: model.journal.prompts)


async def test_a_title_model_that_hangs_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, limits = title_model(), LimitsSettings(titles_timeout_s=0.05)
    model.go_on.clear()
    async with titled_sessions(tmp_path, model, limits=limits) as sessions:
        session_id = await answered(sessions)
        await eventually(lambda: caplog.records)
        assert (await sessions.session(session_id)).title == "hello"


async def test_few_titles_are_asked_for_at_the_same_time(tmp_path: Path) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        await asyncio.gather(*(answered(sessions, f"hello {number}") for number in range(10)))
        await eventually(lambda: len(model.journal.prompts) >= 4)
        assert len(model.journal.prompts) == 4, "one user's do not take all places"
        users = [User(id=f"user {number}", name="") for number in range(20)]
        logs = [await sessions.begin("hello", user=user) for user in users]
        for log in logs:
            await events_of(log)
        await eventually(lambda: len(model.journal.prompts) >= 8)
        assert len(model.journal.prompts) == 8
        model.go_on.set()
        # Their places are free once all titles are stored.
        await eventually(lambda: not sessions.relay._tasks)
        session_id = await answered(sessions, "hello again")
        await eventually(lambda: model.journal.prompts[-1][-1].text == "hello again")
        await is_titled(sessions, session_id, "A good name")


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("hello", "hello"),
        ("  two\n\nlines ", "two lines"),
        ("   ", UNNAMED),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("a " * 100, "a " * 29 + "a…"),
    ],
)
def test_until_then_a_session_is_called_by_the_beginning_of_its_message(message: str, title: str) -> None:
    assert provisional_title(message) == title


@given(st.lists(st.sampled_from(["a", "bc", "long" * 15, " ", "\n", "\t ", "\u3000", "…"]), max_size=250))
def test_of_any_message_that_is_the_beginning_of_its_words(pieces: list[str]) -> None:
    words = " ".join("".join(pieces).split())
    expected = words if len(words) <= 60 else words[:59].rstrip() + "…"
    assert provisional_title("".join(pieces)) == (expected or UNNAMED)
