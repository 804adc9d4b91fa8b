"""An ask in a session that was answered here begins without a read; what another instance has changed since counts."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.chat_client import check_exchange, final_text
from support.sessions import USER, Sessions, open_sessions

from agentic_backend.auth.user import User
from agentic_backend.errors import SessionBusy, SessionCompleted, SessionNotFound
from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, SessionState, TokenUsage
from agentic_backend.protocol.parts import TextPart
from agentic_backend.stores.base import ExchangeEnd, Fence, SessionChange, Store
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.records import ExchangeRecord, MessageDraft


def counting_graph() -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("answer", lambda state: {"messages": [AIMessage(f"{len(state['messages'])} messages")]})
    graph.add_edge(START, "answer")
    return graph.compile()


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sessions]:
    agents = {"counting": counting_graph()}
    if request.param == "sqlite":
        async with open_sessions(tmp_path, agents) as sessions:
            yield sessions
        return
    async with fresh_database(server_url(request.param, request)) as url:
        database = await MongoStore.open(url, timeout_s=20)
        async with open_sessions(tmp_path, agents, database=database) as sessions:
            yield sessions


@pytest.fixture
async def session_id(sessions: Sessions) -> str:
    """A session that was answered here last."""
    session_id: str = (await sessions.ask("first"))[0]["session_id"]
    await sessions.idle(session_id)
    return session_id


@pytest.fixture
def other(sessions: Sessions) -> Store:
    """What another instance does with the same data, and this one is told nothing of."""
    return sessions.store.real


def text(words: str, role: Role) -> MessageDraft:
    return MessageDraft(role=role, channel=Channel.FINAL, parts=[TextPart(text=words)])


async def begin_elsewhere(other: Store, session_id: str) -> Fence:
    session = await other.get_session(session_id)
    assert session is not None
    exchange = ExchangeRecord(
        id="elsewhere",
        session_id=session_id,
        user_id=USER.id,
        agent_id="counting",
        client_exchange_id=None,
        request_id="request",
        first_rank=session.next_rank,
        started_at=other.now(),
        owner="another instance",
    )
    written = await other.begin_exchange(exchange, text("meanwhile", Role.USER))
    return Fence(session_id, exchange.id, written.session.next_rank, "another instance")


async def test_a_known_session_is_not_read_again(sessions: Sessions, session_id: str) -> None:
    with sessions.store.away("get_session"):
        assert final_text(await sessions.ask("again", session_id=session_id)) == "3 messages"


async def test_what_was_completed_elsewhere_takes_no_ask(sessions: Sessions, session_id: str, other: Store) -> None:
    await other.complete_session(session_id, other.now())
    with pytest.raises(SessionCompleted):
        await sessions.begin("again", session_id=session_id)
    assert (await sessions.session(session_id)).message_count == 2


async def test_what_was_deleted_elsewhere_is_not_found(sessions: Sessions, session_id: str, other: Store) -> None:
    await other.delete_session(session_id)
    with pytest.raises(SessionNotFound):
        await sessions.begin("again", session_id=session_id)
    assert await other.get_session(session_id) is None
    assert await other.running_exchanges() == []


async def test_what_runs_elsewhere_is_busy(sessions: Sessions, session_id: str, other: Store) -> None:
    fence = await begin_elsewhere(other, session_id)
    with pytest.raises(SessionBusy):
        await sessions.begin("again", session_id=session_id)
    end = ExchangeEnd(ExchangeStatus.OK, TokenUsage(), last_seq=9)
    await other.append(fence, [text("done", Role.ASSISTANT)], end)


async def test_what_was_asked_elsewhere_is_remembered(sessions: Sessions, session_id: str, other: Store) -> None:
    fence = await begin_elsewhere(other, session_id)
    end = ExchangeEnd(ExchangeStatus.OK, TokenUsage(), last_seq=9)
    await other.append(fence, [text("done", Role.ASSISTANT)], end)
    events = await sessions.ask("again", session_id=session_id)
    check_exchange(events)
    assert final_text(events) == "5 messages"
    assert [one["rank"] for one in await sessions.stored(session_id)] == list(range(6))


async def test_what_was_archived_elsewhere_comes_back_and_is_told(
    sessions: Sessions, session_id: str, other: Store
) -> None:
    await other.change_session(session_id, SessionChange(archived=True))
    check_exchange(await sessions.ask("again", session_id=session_id))
    session = await sessions.idle(session_id)
    assert (session.archived, session.state, session.message_count) == (False, SessionState.ACTIVE, 4)


async def test_nobody_else_asks_in_it(sessions: Sessions, session_id: str) -> None:
    with pytest.raises(SessionNotFound):
        await sessions.begin("mine?", session_id=session_id, user=User(id="bob", name="Bob"))


async def test_its_title_stays(sessions: Sessions, session_id: str, other: Store) -> None:
    await other.change_session(session_id, SessionChange(title="Mine"))
    await sessions.ask("again", session_id=session_id)
    assert (await sessions.idle(session_id)).title == "Mine"
