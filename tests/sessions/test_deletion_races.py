"""A session that is deleted while it is read is not found, on each store: nobody gets an answer without its rows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from services.mongodb import fresh_database
from support.recorded_agents import echoing_graph
from support.sessions import USER, Sessions, open_sessions

from agentic_backend.errors import ExchangeNotFound, SessionNotFound
from agentic_backend.stores.base import SessionChange
from agentic_backend.stores.mongo import MongoStore

Read = Callable[[Sessions, str, str], Awaitable[Any]]


@pytest.fixture
async def sessions(mongodb: str | None, tmp_path: Path) -> AsyncIterator[Sessions]:
    async with AsyncExitStack() as stack:
        database = None
        if mongodb is not None:
            database = await MongoStore.open(await stack.enter_async_context(fresh_database(mongodb)), timeout_s=20)
        agents = {"echo": echoing_graph()}
        yield await stack.enter_async_context(open_sessions(tmp_path, agents, database=database, keep_ended_bytes=0))


@pytest.mark.parametrize(
    ("operation", "read", "error"),
    [
        (
            "messages_after",
            lambda sessions, session, _: sessions.service.messages(USER, session, -1, 10),
            SessionNotFound,
        ),
        ("exchange_messages", lambda sessions, _, one: sessions.orchestrator.view(USER, one), ExchangeNotFound),
        (
            "change_session",
            lambda sessions, session, _: sessions.service.change(USER, session, SessionChange(title="x")),
            SessionNotFound,
        ),
        ("complete_session", lambda sessions, session, _: sessions.service.complete(USER, session), SessionNotFound),
    ],
)
async def test_what_is_deleted_meanwhile_is_not_found(
    sessions: Sessions, operation: str, read: Read, error: type[Exception]
) -> None:
    final = (await sessions.ask("hello"))[-1]
    await sessions.idle(final["session_id"])
    held = sessions.store.hold(operation)
    reading = asyncio.ensure_future(read(sessions, final["session_id"], final["exchange_id"]))
    await asyncio.sleep(0.05)
    await sessions.store.real.delete_session(final["session_id"])
    held.set()
    with pytest.raises(error):
        await reading
