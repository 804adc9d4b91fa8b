"""How sessions end: by the word "quit", at a limit, unused, and what happens then."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from services.mongodb import fresh_database, further_on_mongodb
from support.connected_sessions import connected
from support.held_agents import Hold, held_graph
from support.recorded_agents import echoing_graph, entry_of, eventually
from support.sessions import USER, Sessions, events_of, open_sessions, until

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.catalog.catalog import SessionLimits
from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.config.topics.sessions import SessionsSettings
from agentic_backend.errors import SessionBusy, SessionCompleted, SessionNotFound, StoreUnavailable, TooManyRuns
from agentic_backend.policy.scopes.policies_file import KnownNames, read_policies
from agentic_backend.protocol.events import SessionChanged
from agentic_backend.protocol.messages import ExchangeStatus, SessionState
from agentic_backend.relay.feed import open_feed
from agentic_backend.sessions import session_service
from agentic_backend.sessions.session_ends import EndReason, SessionEnds
from agentic_backend.sessions.upkeep.housekeeping import inactivity
from agentic_backend.stores.base import SessionPage, SessionQuery
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.records import SessionRecord

FAREWELL = "Goodbye!"


def limited(**limits: Any) -> CatalogAgent:
    agent = entry_of(echoing_graph(), "limited")
    return replace(agent, settings=agent.settings.model_copy(update={"session_limits": SessionLimits(**limits)}))


class Ended(list[str]):
    """The ids of the sessions whose end was told."""

    def __call__(self, session: SessionRecord, user: User | None) -> None:
        self.append(session.id)


@pytest.fixture
def ended() -> Ended:
    return Ended()


@asynccontextmanager
async def opened(
    directory: Path,
    mongodb: str | None,
    ended: Ended,
    agents: Mapping[str, object],
    limits: LimitsSettings | None = None,
) -> AsyncIterator[Sessions]:
    async with AsyncExitStack() as stack:
        database = None
        if mongodb is not None:
            database = await MongoStore.open(await stack.enter_async_context(fresh_database(mongodb)), timeout_s=20)
        ending = SessionsSettings(farewell=FAREWELL)
        sessions = open_sessions(directory, agents, database=database, ending=ending, on_ended=ended, limits=limits)
        yield await stack.enter_async_context(sessions)


def texts_of(messages: list[dict[str, Any]]) -> list[str]:
    return [message["parts"][0]["text"] for message in messages]


@pytest.mark.parametrize("word", ["quit", "Quit", " QUIT\n"])
@further_on_mongodb("mongodb")
async def test_quit_ends_the_session(tmp_path: Path, mongodb: str | None, ended: Ended, word: str) -> None:
    async with opened(tmp_path, mongodb, ended, {"echo": echoing_graph()}) as sessions:
        session_id = (await sessions.ask("hello"))[-1]["session_id"]
        final = (await sessions.ask(word, session_id=session_id))[-1]
        assert (final["type"], final["status"], final["session"]["state"]) == ("final", "ok", "completed")
        assert texts_of(final["messages"]) == [word, FAREWELL]
        assert texts_of(await sessions.stored(session_id))[-2:] == [word, FAREWELL]
        assert ended == [session_id]
        with pytest.raises(SessionCompleted):
            await sessions.begin("more", session_id=session_id)


async def test_quit_ends_a_session_that_it_opens(tmp_path: Path, mongodb: str | None, ended: Ended) -> None:
    async with opened(tmp_path, mongodb, ended, {"echo": echoing_graph()}) as sessions:
        final = (await sessions.ask("quit", client_exchange_id="x"))[-1]
        assert final["session"]["state"] == "completed" and texts_of(final["messages"]) == ["quit", FAREWELL]
        again = (await sessions.ask("quit", client_exchange_id="x"))[-1]
        assert again["exchange_id"] == final["exchange_id"]
        assert ended == [final["session_id"]]


@pytest.mark.parametrize("message", ["quit.", "I quit", "quit quit"])
async def test_another_message_is_no_quit(tmp_path: Path, ended: Ended, message: str) -> None:
    async with opened(tmp_path, None, ended, {"echo": echoing_graph()}) as sessions:
        final = (await sessions.ask(message))[-1]
        assert final["session"]["state"] == "active" and FAREWELL not in texts_of(final["messages"])
    assert ended == []


async def test_quit_is_a_question_in_a_query(tmp_path: Path, ended: Ended) -> None:
    async with opened(tmp_path, None, ended, {"echo": echoing_graph()}) as sessions:
        final = (await sessions.ask("quit", mode="query"))[-1]
        assert final["status"] == "ok" and texts_of(final["messages"])[-1] != FAREWELL
    assert ended == []


async def test_quit_waits_for_what_runs(tmp_path: Path, ended: Ended, hold: Hold) -> None:
    async with opened(tmp_path, None, ended, {"held": held_graph(hold)}) as sessions:
        running = await sessions.begin("hello")
        with pytest.raises(SessionBusy):
            await sessions.begin("quit", session_id=running.session_id)
        assert (await sessions.session(running.session_id)).state is SessionState.ACTIVE
        hold.released.set()
        await events_of(running)


def asking_graph() -> CompiledGraph:
    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(interrupt({"question": "Which one?"}))]}

    return StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile()


@pytest.mark.parametrize("restarts", [False, True])
async def test_quit_ends_a_session_that_waits_for_a_person(
    tmp_path: Path, mongodb: str | None, ended: Ended, *, restarts: bool
) -> None:
    agents = {"asking": asking_graph()}
    async with AsyncExitStack() as stack:
        sessions = await stack.enter_async_context(opened(tmp_path, mongodb, ended, agents))
        waiting = await sessions.begin("hello")
        await until(waiting, "awaiting_human")
        if restarts and mongodb is None:
            sessions = await stack.enter_async_context(opened(tmp_path, mongodb, ended, agents))
        final = (await sessions.ask("quit", session_id=waiting.session_id))[-1]
        assert (final["status"], final["session"]["state"]) == ("ok", "completed")
        assert texts_of(final["messages"]) == ["quit", FAREWELL]
        assert (await sessions.record(waiting.exchange_id)).status is ExchangeStatus.STOPPED
        assert ended == [waiting.session_id]


async def test_quit_is_possible_for_whom_too_much_waits(tmp_path: Path, ended: Ended) -> None:
    agents = {"asking": asking_graph()}
    async with opened(tmp_path, None, ended, agents, LimitsSettings(waiting_per_user=1)) as sessions:
        waiting = await sessions.begin("hello")
        await until(waiting, "awaiting_human")
        with pytest.raises(TooManyRuns):
            await sessions.begin("hello")
        final = (await sessions.ask("quit", session_id=waiting.session_id))[-1]
        assert (final["status"], final["session"]["state"]) == ("ok", "completed")


async def test_the_agents_of_an_ended_session_are_closed(tmp_path: Path, ended: Ended) -> None:
    async with opened(tmp_path, None, ended, {"echo": echoing_graph()}) as sessions:
        session_id = (await sessions.ask("hello"))[-1]["session_id"]
        assert len(sessions.factory._idle) == 1
        await sessions.ask("quit", session_id=session_id)
        async with asyncio.timeout(10):
            while sessions.factory._idle or sessions.factory._in_use:
                await asyncio.sleep(0.01)


async def test_the_ask_beyond_the_most_messages_ends_the_session(
    tmp_path: Path, mongodb: str | None, ended: Ended
) -> None:
    async with opened(tmp_path, mongodb, ended, {"limited": limited(max_messages=2)}) as sessions:
        session_id = (await sessions.ask("one"))[-1]["session_id"]
        second = (await sessions.ask("two", session_id=session_id, client_exchange_id="2"))[-1]
        assert (await sessions.session(session_id)).state is SessionState.ACTIVE
        sessions.relay.evict_session(session_id, [second["exchange_id"]])
        repeated = await sessions.begin("two", session_id=session_id, client_exchange_id="2")
        assert repeated.exchange_id == second["exchange_id"]
        with pytest.raises(SessionCompleted, match="max_messages of 2"):
            await sessions.begin("three", session_id=session_id)
        assert (await sessions.session(session_id)).state is SessionState.COMPLETED
        with pytest.raises(SessionCompleted):
            await sessions.begin("four", session_id=session_id)
    assert ended == [session_id]


async def test_an_ask_after_the_longest_duration_ends_the_session(tmp_path: Path, ended: Ended) -> None:
    async with opened(tmp_path, None, ended, {"limited": limited(max_duration_s=0.2)}) as sessions:
        session_id = (await sessions.ask("one"))[-1]["session_id"]
        await asyncio.sleep(0.25)
        with pytest.raises(SessionCompleted, match=r"max_duration_s of 0\.2"):
            await sessions.begin("two", session_id=session_id)
    assert ended == [session_id]


async def test_completing_and_deleting_tell_of_the_end_once(tmp_path: Path, mongodb: str | None, ended: Ended) -> None:
    async with opened(tmp_path, mongodb, ended, {"echo": echoing_graph()}) as sessions:
        first, second = [(await sessions.ask("hello"))[-1]["session_id"] for _ in range(2)]
        await sessions.service.complete(USER, first)
        await sessions.service.complete(USER, first)
        await sessions.service.delete(USER, first)
        await sessions.service.delete(USER, second)
    assert ended == [first, second]


@asynccontextmanager
async def with_a_still_owner(directory: Path, ended: Ended) -> AsyncIterator[tuple[Sessions, str, str]]:
    """An instance, and a session of which another one runs an exchange that nothing stops: both by their ids."""
    hold = Hold()
    async with open_sessions(directory, {"held": held_graph(hold)}, alone=False) as owner:
        log = await owner.begin("hello")
        await eventually(lambda: hold.held)
        assert log.session_id is not None
        async with open_sessions(directory, {"held": held_graph(hold)}, on_ended=ended, alone=False) as other:
            yield other, log.session_id, log.exchange_id
        hold.released.set()
        await owner.idle(log.session_id)


async def test_completing_does_not_wait_for_an_owner_that_stands_still(
    tmp_path: Path, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_service, "_STOP_AT_ONCE_S", 0.1)
    async with with_a_still_owner(tmp_path, ended) as (sessions, session_id, _):
        completed = await sessions.service.complete(USER, session_id)
        assert (completed.state, completed.active_exchange_id is None) == (SessionState.COMPLETED, False)
        assert ended == [session_id]


async def test_an_end_is_told_though_nobody_waits_for_it(tmp_path: Path, ended: Ended) -> None:
    async with with_a_still_owner(tmp_path, ended) as (sessions, session_id, exchange_id):
        completing = asyncio.create_task(sessions.service.complete(USER, session_id))
        await eventually(lambda: (log := sessions.relay.find(exchange_id)) is not None and log.is_followed)
        completing.cancel()
        await asyncio.wait({completing})
        assert ended == [session_id]


async def test_who_completes_what_is_deleted_meanwhile_shows_it_nobody(
    tmp_path: Path, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, None, ended, {"echo": echoing_graph()}) as sessions:
        session_id = (await sessions.service.open(USER, "echo", None, None)).id
        shown: list[object] = []
        monkeypatch.setattr(sessions.relay, "session_changed", shown.append)
        delete = partial(sessions.service.delete, USER, session_id)
        with pytest.raises(SessionNotFound):
            await sessions.service._ends.end(session_id, EndReason.ASKED, USER, delete)
    assert (ended, shown) == ([session_id], [])


async def test_a_submission_finds_a_session_that_is_used_while_it_looks(
    tmp_path: Path, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moves from the second page to the first one, which was read before."""
    monkeypatch.setattr(session_service, "_SESSIONS_PER_READ", 1)
    (file := tmp_path / "policies.yaml").write_text("assignments: {essay: {}}")
    policies = read_policies(file, KnownNames((), (), ()))
    async with open_sessions(tmp_path, {"echo": echoing_graph()}, policies=policies, on_ended=ended) as sessions:
        older, newer = [(await sessions.ask("hello", scope={"assignment": "essay"}))[-1]["session_id"] for _ in "12"]
        list_sessions, pages = sessions.store.real.list_sessions, list[str | None]()

        async def uses_the_older(query: SessionQuery) -> SessionPage:
            page = await list_sessions(query)
            pages.append(query.cursor)
            if len(pages) == 1:
                await sessions.ask("and this?", session_id=older)
            return page

        monkeypatch.setattr(sessions.store.real, "list_sessions", uses_the_older)
        completed = await sessions.service.complete_submitted(USER, "essay", None)
        assert {session.id for session in completed} == {older, newer} == set(ended)


@pytest.mark.parametrize("behind", [timedelta(), timedelta(minutes=5)])
async def test_an_end_is_told_once_whatever_the_clocks_of_the_instances_show(
    tmp_path: Path, mongodb: str | None, ended: Ended, behind: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, mongodb, ended, {"echo": echoing_graph()}) as sessions:
        session_id = (await sessions.ask("hello"))[-1]["session_id"]
        at = sessions.store.real.now()
        monkeypatch.setattr(sessions.store.real, "now", lambda: at)
        await ends_of(sessions).end(session_id, EndReason.ASKED, USER)
        monkeypatch.setattr(sessions.store.real, "now", lambda: at - behind)
        await ends_of(sessions).end(session_id, EndReason.ASKED, USER)
    assert ended == [session_id]


@pytest.mark.parametrize("operation", ["complete_session", "append"])
async def test_quit_ends_the_session_though_its_server_dies(
    tmp_path: Path, mongodb: str | None, ended: Ended, operation: str
) -> None:
    """It dies between the beginning of the exchange and the session's end, or between that and the exchange's end."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(fresh_database(mongodb)) if mongodb is not None else None

        @asynccontextmanager
        async def process(**options: Any) -> AsyncIterator[Sessions]:
            store = await MongoStore.open(database, timeout_s=20) if database is not None else None
            agents = {"echo": echoing_graph()}
            async with open_sessions(tmp_path, agents, database=store, on_ended=ended, **options) as sessions:
                yield sessions

        async with process() as dying:
            session_id = (await dying.ask("hello"))[-1]["session_id"]
            dying.store.go_away(operation)
            with suppress(StoreUnavailable):
                await dying.begin("quit", session_id=session_id)
            async with process() as later:
                session = await later.idle(session_id)
                assert session.state is SessionState.COMPLETED
                with pytest.raises(SessionCompleted):
                    await later.begin("more", session_id=session_id)
            dying.store.come_back()
    assert ended == [session_id]


async def test_unused_sessions_are_completed_and_no_others(
    tmp_path: Path, mongodb: str | None, ended: Ended, hold: Hold
) -> None:
    agents = {"echo": echoing_graph(), "held": held_graph(hold)}
    async with opened(tmp_path, mongodb, ended, agents) as sessions:
        running = await sessions.begin("hello", agent_id="held")
        unused = [(await sessions.ask("hello"))[-1]["session_id"] for _ in range(3)]
        await asyncio.sleep(0.8)
        used = (await sessions.ask("hello"))[-1]["session_id"]
        between = (await sessions.session(used)).updated_at - timedelta(seconds=0.6)
        after_h = (sessions.store.real.now() - between) / timedelta(hours=1)
        await sessions.housekeeping.do(inactivity(sessions.store.as_store, ends_of(sessions), after_h))
        assert sorted(ended) == sorted(unused)
        states = [(await sessions.session(one)).state for one in (*unused, used, running.session_id)]
        assert states == [SessionState.COMPLETED] * 3 + [SessionState.ACTIVE] * 2
        hold.released.set()
        await events_of(running)


def ends_of(sessions: Sessions) -> SessionEnds:
    ends = sessions.service._ends
    assert isinstance(ends, SessionEnds)
    return ends


@pytest.mark.redis
async def test_the_end_of_a_session_closes_its_agents_on_every_instance_and_is_shown_there(
    tmp_path: Path, redis_url: str
) -> None:
    agents = {"echo": echoing_graph()}
    async with AsyncExitStack() as opened:
        here, there = [await connected(opened, tmp_path, agents, redis_url, name) for name in ("here", "there")]
        session_id = (await here.ask("hello"))[-1]["session_id"]
        await there.ask("again", session_id=session_id)
        assert len(here.factory._idle) == len(there.factory._idle) == 1
        with open_feed(there.relay, 0) as feed:
            feed.follow_session(await there.service.get(USER, session_id), None)
            await here.ask("quit", session_id=session_id)
            async with asyncio.timeout(10):
                async for event in feed:
                    if isinstance(event, SessionChanged) and event.session.state is SessionState.COMPLETED:
                        break
                while here.factory._idle or there.factory._idle:
                    await asyncio.sleep(0.01)
