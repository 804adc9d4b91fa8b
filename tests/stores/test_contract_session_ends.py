"""What every store does for the ends of sessions, whichever database is beneath it."""

from datetime import timedelta

import pytest

from agentic_backend.protocol.messages import SessionState
from agentic_backend.stores.base import Completion, Store
from tests.stores.samples import EPOCH, a_session, an_end, answer, begin


async def test_an_unused_session_is_completed(store: Store) -> None:
    session = a_session(id="s", minute=1)
    await store.create_session(session)
    at, since = EPOCH + timedelta(minutes=9), EPOCH + timedelta(minutes=2)
    completed = await store.complete_session("s", at, since)
    assert completed is not None and completed.is_new
    assert (completed.session.state, completed.session.ended_at) == (SessionState.COMPLETED, at)
    # It keeps its place among its user's sessions.
    assert completed.session.updated_at == session.updated_at
    again = Completion(completed.session, is_new=False)
    assert await store.complete_session("s", at + timedelta(minutes=1), since) == again
    assert await store.complete_session("missing", at, since) is None


@pytest.mark.parametrize("minute", [2, 3])
async def test_a_session_that_was_used_since_stays(store: Store, minute: int) -> None:
    session = a_session(id="s", minute=minute)
    await store.create_session(session)
    since = EPOCH + timedelta(minutes=2)
    assert await store.complete_session("s", EPOCH + timedelta(minutes=9), since) == Completion(session, is_new=False)


async def test_a_session_in_which_something_runs_stays(store: Store) -> None:
    session = a_session(id="s")
    await store.create_session(session)
    await begin(store, session)
    running = await store.get_session("s")
    assert running is not None
    # Not used since: only what runs keeps it.
    at = running.updated_at + timedelta(days=9)
    kept = await store.complete_session("s", at, at)
    assert kept is not None and kept.session.state is SessionState.ACTIVE
    completed = await store.complete_session("s", at)
    assert completed is not None and completed.session.state is SessionState.COMPLETED


async def test_messages_of_the_user_are_counted_without_what_was_resumed(store: Store) -> None:
    session = a_session(id="s")
    await store.create_session(session)
    assert await store.count_asked("s", 10) == 0
    written = await begin(store, session)
    assert await store.count_asked("s", written.next_rank) == 1
    assert await store.count_asked("s", 0) == 0
    assert await store.count_asked("other", 10) == 0
    await store.append(written, [answer("yes")], an_end())
    again = await begin(store, session, resumes=written.exchange_id)
    assert await store.count_asked("s", again.next_rank) == 1
