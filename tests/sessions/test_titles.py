"""Titles: a session's name comes after its first answer, and nothing that happens to it touches the answer."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from support.chat_client import check_exchange, final_text
from support.held_agents import Hold, held_graph
from support.recorded_agents import eventually
from support.sessions import USER, Sessions, events_of, open_sessions

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.auth.user import User
from agentic_backend.config.limits import LimitsSettings
from agentic_backend.config.titles import TitlesSettings
from agentic_backend.experts.plain_chat.graph import build
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.protocol.messages import Channel, Role, Session, utc_now
from agentic_backend.protocol.parts import TextPart
from agentic_backend.relay.exchange_log import ExchangeLog
from agentic_backend.sessions import titles
from agentic_backend.sessions.titles import UNNAMED, provisional_title
from agentic_backend.stores.base import SessionChange
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, SessionRecord
from agentic_backend.stores.sqlite import SqliteStore

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


class Watcher:
    def __init__(self) -> None:
        self.titles: list[str] = []

    def exchange_started(self, log: ExchangeLog) -> None:
        """Not of interest here."""

    def session_changed(self, session: Session) -> None:
        self.titles.append(session.title)


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


async def test_the_default_model_names_a_session_once_it_is_answered(tmp_path: Path) -> None:
    model = title_model()
    async with titled_sessions(tmp_path, model) as sessions:
        watcher = Watcher()
        log = await sessions.begin("hello\n  there")
        assert log.session_id is not None
        sessions.relay.watchers.watch(log.session_id, watcher, exchanges_too=False)
        [started, *_] = await events_of(log)
        assert started["session"]["title"] == "hello there"
        await eventually(lambda: watcher.titles)
        assert watcher.titles == ["A good name"]
        assert (await sessions.session(log.session_id)).title == "A good name"
    assert model.journal.order == ["token"] * 4 + ["title"], "after the answer, not beside it"
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
        await sessions.service.change(USER, session_id, SessionChange(title="The user's name"))
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
        with sessions.store.away("name_session"):
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


@asynccontextmanager
async def calling_models(sessions: Sessions, hold: Hold, count: int) -> AsyncIterator[None]:
    """So many model calls run in the block."""
    logs = [await sessions.begin("hello", agent_id="held", user=User(id=f"held {n}", name="")) for n in range(count)]
    await eventually(lambda: hold.held == count)
    yield
    hold.released.set()
    for log in logs:
        await events_of(log)


async def answered_of(sessions: Sessions, user_id: str, message: str) -> str | None:
    log = await sessions.begin(message, user=User(id=user_id, name=""))
    await events_of(log)
    return log.session_id


async def test_one_title_is_asked_for_where_few_models_run(tmp_path: Path) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        ids = [await answered(sessions, f"hello {number}") for number in range(3)]
        await asyncio.sleep(0.05)
        assert [prompt[-1].text for prompt in model.journal.prompts] == ["hello 0"]
        model.go_on.set()
        for session_id in ids:
            await is_titled(sessions, session_id, "A good name")
        assert [prompt[-1].text for prompt in model.journal.prompts] == ["hello 0", "hello 1", "hello 2"]


async def test_no_more_titles_are_asked_for_than_a_tenth_of_the_running_model_calls(tmp_path: Path) -> None:
    model, hold = title_model(), Hold()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model, agents={"held": held_graph(hold)}) as sessions:
        async with calling_models(sessions, hold, 49):
            for number in range(4):
                await answered_of(sessions, "one", f"one {number}")
            await asyncio.sleep(0.05)
            assert len(model.journal.prompts) == 2, "one user's don't take all places"
            for number in range(4):
                await answered_of(sessions, "two", f"two {number}")
            await asyncio.sleep(0.05)
            asked = sorted(prompt[-1].text for prompt in model.journal.prompts)
            assert asked == ["one 0", "one 1", "two 0", "two 1"]
        model.go_on.set()
        await eventually(lambda: len(model.journal.prompts) == 8 + 49)


async def test_users_take_turns(tmp_path: Path) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        for number in range(4):
            await answered_of(sessions, "one", f"one {number}")
        last = await answered_of(sessions, "two", "two")
        model.go_on.set()
        async with asyncio.timeout(10):
            while (await sessions.session(last)).title != "A good name":
                await asyncio.sleep(0.01)
        await eventually(lambda: len(model.journal.prompts) == 5)
    order = [prompt[-1].text for prompt in model.journal.prompts]
    assert order.index("two") < order.index("one 2")


async def test_a_full_queue_drops_the_oldest_of_whoever_has_the_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(titles, "_WAITING_AT_MOST", 3)
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        modest = [await answered_of(sessions, "two", "two 0"), await answered_of(sessions, "two", "two 1")]
        greedy = [await answered_of(sessions, "one", f"one {number}") for number in range(4)]
        model.go_on.set()
        await eventually(lambda: len(model.journal.prompts) == 4)
        for session_id in (*modest, *greedy[2:]):
            assert session_id is not None
            await is_titled(sessions, session_id, "A good name")
        assert [(await sessions.session(each)).title for each in greedy[:2]] == ["one 0", "one 1"]
        # What was dropped is named after the next exchange.
        await events_of(await sessions.begin("again", session_id=greedy[0], user=User(id="one", name="")))
        assert greedy[0] is not None
        await is_titled(sessions, greedy[0], "A good name")
        exposition = sessions.kpi.exposition("")[0].decode()
        assert 'chat_titles_total{outcome="dropped"} 2.0' in exposition
        assert 'chat_titles_total{outcome="named"} 5.0' in exposition


async def test_a_queue_full_of_users_with_one_session_each_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(titles, "_WAITING_AT_MOST", 3)
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        ids = [await answered_of(sessions, f"user {number}", f"hello {number}") for number in range(8)]
        model.go_on.set()
        for session_id in (ids[0], *ids[5:]):
            assert session_id is not None
            await is_titled(sessions, session_id, "A good name")
        last = await answered_of(sessions, "another", "hello")
        assert last is not None
        await is_titled(sessions, last, "A good name")


async def test_a_session_that_was_not_named_is_named_after_its_next_exchange(tmp_path: Path) -> None:
    model = title_model(error=ValueError("away"))
    async with titled_sessions(tmp_path, model) as sessions:
        session_id = await answered(sessions, "hello")
        await eventually(lambda: "title" in model.journal.order)
        await eventually(lambda: not sessions.relay._tasks)
        model.error = None
        assert (await sessions.session(session_id)).title == "hello"
        await answered(sessions, "How are you?", session_id=session_id)
        await is_titled(sessions, session_id, "A good name")
        assert model.journal.prompts[-1][-1].text == "How are you?"


async def test_what_a_process_leaves_unnamed_the_next_one_names(tmp_path: Path) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        ids = [await answered(sessions, f"hello {number}") for number in range(2)]
        await eventually(lambda: model.journal.prompts)
    async with titled_sessions(tmp_path, title_model()) as sessions:
        for session_id in ids:
            assert (await sessions.session(session_id)).unnamed
            await answered(sessions, "again", session_id=session_id)
            await is_titled(sessions, session_id, "A good name")


async def test_a_session_whose_server_crashed_is_named_when_its_exchange_is_ended(tmp_path: Path) -> None:
    store, now = await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=5), utc_now()
    ids = {"user_id": USER.id, "agent_id": "agent"}
    session = SessionRecord(id="s", title="hello", unnamed=True, created_at=now, updated_at=now, **ids)
    exchange = ExchangeRecord(id="e", session_id="s", request_id="r", started_at=now, owner="dead", **ids)
    asked = MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=[TextPart(text="hello")])
    await store.begin_exchange(exchange, asked, session)
    await store.aclose()
    async with titled_sessions(tmp_path, title_model()) as sessions:
        assert (await sessions.record("e")).status == "interrupted"
        await is_titled(sessions, "s", "A good name")


async def test_a_name_that_is_like_a_provisional_title_stays(tmp_path: Path) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        opened = await sessions.service.open(USER, None, "hello", "default")
        await answered(sessions, "hello", session_id=opened.id)
        renamed = await answered(sessions, "hello")
        await sessions.service.change(USER, renamed, SessionChange(title="hello"))
        model.go_on.set()
        for session_id in (opened.id, renamed):
            await is_titled(sessions, session_id, "hello")


async def test_a_model_of_their_own_names_sessions(tmp_path: Path) -> None:
    default, small = title_model(), title_model(title="A small name")
    settings = TitlesSettings(model="small")
    async with titled_sessions(tmp_path, default, models={"small": small}, titles=settings) as sessions:
        await is_titled(sessions, await answered(sessions), "A small name")
    assert default.journal.prompts == []


async def test_sessions_are_not_named_where_that_is_off(tmp_path: Path) -> None:
    model = title_model()
    async with titled_sessions(tmp_path, model, titles=TitlesSettings(enabled=False)) as sessions:
        await is_titled(sessions, await answered(sessions, "hello\nthere"), "hello there")
    assert model.journal.prompts == []


async def test_a_blank_message_names_nothing(tmp_path: Path) -> None:
    model = title_model()
    async with titled_sessions(tmp_path, model) as sessions:
        session_id = await answered(sessions, " \n ")
        await asyncio.sleep(0.05)
        assert (model.journal.prompts, (await sessions.session(session_id)).title) == ([], UNNAMED)
        await answered(sessions, "hello", session_id=session_id)
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
