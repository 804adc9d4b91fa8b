"""A run is found by its name, however often it was resumed: on SQLite and on MongoDB."""

import pytest
from support.sessions import USER, Sessions

from agentic_backend.auth.user import User
from agentic_backend.errors import ExchangeNotFound
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.sessions.reading.runs import Runs
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import SessionRecord
from tests.stores.samples import a_session, an_end, begin

NAME = "my run"


@pytest.fixture
def store(sessions: Sessions) -> Store:
    return sessions.store.as_store


@pytest.fixture
async def session(store: Store) -> SessionRecord:
    session = a_session(USER.id)
    await store.create_session(session)
    return session


async def ended(
    store: Store, session: SessionRecord, status: ExchangeStatus, *, resumes: str | None = None, name: str | None = None
) -> str:
    """The id of an exchange with this end."""
    fence = await begin(store, session, resumes=resumes, client_exchange_id=name)
    await store.append(fence, [], an_end(status))
    return fence.exchange_id


async def newest(store: Store, run_id: str, user: User = USER) -> str:
    return (await Runs(store).newest(user, run_id)).id


async def test_a_run_is_found_by_the_clients_name_and_by_its_first_exchange(
    store: Store, session: SessionRecord
) -> None:
    only = await ended(store, session, ExchangeStatus.OK, name=NAME)
    assert await newest(store, NAME) == only == await newest(store, only)


async def test_only_an_own_exchanges_id_names_a_run_that_its_client_gave_no_name(
    store: Store, session: SessionRecord
) -> None:
    only = await ended(store, session, ExchangeStatus.OK, name=NAME)
    runs = Runs(store)
    assert await runs.is_exchange_id(USER, only)
    assert not await runs.is_exchange_id(USER, NAME)
    assert not await runs.is_exchange_id(User(id="bob", name="Bob"), only)


async def test_what_has_resumed_it_last_is_its_newest_exchange(store: Store, session: SessionRecord) -> None:
    await ended(store, session, ExchangeStatus.INTERRUPTED)
    first = await ended(store, session, ExchangeStatus.INTERRUPTED, name=NAME)
    second = await ended(store, session, ExchangeStatus.INTERRUPTED, resumes=first)
    third = (await begin(store, session, resumes=second)).exchange_id
    assert await newest(store, NAME) == third == await newest(store, first)


async def test_what_was_asked_after_it_is_another_run(store: Store, session: SessionRecord) -> None:
    first = await ended(store, session, ExchangeStatus.INTERRUPTED, name=NAME)
    other = await ended(store, session, ExchangeStatus.INTERRUPTED)
    await ended(store, session, ExchangeStatus.OK, resumes=other)
    assert await newest(store, NAME) == first


async def test_a_run_of_another_user_does_not_exist(store: Store, session: SessionRecord) -> None:
    only = await ended(store, session, ExchangeStatus.OK, name=NAME)
    for name in (NAME, only, "none"):
        with pytest.raises(ExchangeNotFound):
            await newest(store, name, User(id="bob", name="Bob"))
