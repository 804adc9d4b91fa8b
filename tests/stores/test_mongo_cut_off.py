"""A process that dies at any command of a turn on MongoDB: another instance makes a whole turn of it, or none."""

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import cast

import pytest
from support.further_cases import each_once

from agentic_backend.errors import StoreUnavailable
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.documents import Database
from agentic_backend.stores.mongo.sessions import settling
from agentic_backend.stores.mongo.sessions.sessions import collections_of_session
from agentic_backend.stores.mongo.sessions.settling import HalfBegun
from agentic_backend.stores.records import ExchangeRecord, SessionRecord
from tests.stores.conftest import OpenMongo
from tests.stores.faulty_database import Fault, FaultyDatabase
from tests.stores.samples import (
    a_kpi,
    a_session,
    an_end,
    an_exchange,
    answer,
    begin,
    fence_after,
    question,
    run_exchanges,
    texts,
)
from tests.stores.trail_samples import a_usage

# More than a turn has.
MANY = 30


def cut_at(number: int, beside: int) -> tuple[Fault, Callable[[], bool]]:
    """Of the commands that are sent, the one of this number is not carried out; nor are those after the next `beside`,
    which may have been sent at the same time. And whether it has come to that.
    """
    sent = 0

    def fault(_collection: str, _method: str) -> str:
        nonlocal sent
        sent += 1
        return "refused" if sent == number or sent > number + beside else "fine"

    return fault, lambda: sent >= number


def mortal(store: MongoStore, fault: Fault) -> MongoStore:
    """Another instance on the same connections, whose commands go as `fault` says."""
    driver = copy(store.driver)
    driver.database = cast(Database, FaultyDatabase(store.driver.database, fault))
    return MongoStore(driver, store.clock, HalfBegun(0), store.connect)


async def begun_session(store: MongoStore) -> SessionRecord:
    """A session with one exchange, which has left a state."""
    session = a_session()
    await store.create_session(session)
    fence = await begin(store, session)
    written = await store.append(fence, [answer()], an_end(session_state=b"before"))
    await store.finishing.all()
    return written.session


async def try_turn(store: MongoStore, exchange: ExchangeRecord, new_session: SessionRecord | None) -> list[str]:
    """What of a turn is reported as stored."""
    reported: list[str] = []
    with suppress(StoreUnavailable):
        written = await store.begin_exchange(exchange, question("Well?"), new_session)
        reported.append("Well?")
        end = an_end(kpi=a_kpi(exchange_id=exchange.id), session_state=b"after")
        usage = a_usage(session_id=exchange.session_id, exchange_id=exchange.id)
        await store.append(fence_after(written, exchange.id), [answer("So.")], end, trail=[usage], token="end")
        reported.append("So.")
    return reported


async def recover(store: MongoStore) -> None:
    """As an instance does that finds the owner dead."""
    for record in await store.running_exchanges():
        fence = await store.fence(record.session_id)
        assert fence is not None and fence.exchange_id == record.id
        await store.append(fence, [], an_end(ExchangeStatus.INTERRUPTED))
    await store.finishing.all()
    assert await store.running_exchanges() == []


async def check_outcome(store: MongoStore, exchange: ExchangeRecord, stored: list[str], before: bytes | None) -> None:
    """`stored` are the messages of the exchange; `before` is the session's state as it was before it."""
    assert stored in ([], ["Well?"], ["Well?", "So."])
    is_whole = len(stored) == 2
    record = await store.get_exchange(exchange.id)
    status = None if record is None else record.status
    assert status == {0: None, 1: ExchangeStatus.INTERRUPTED, 2: ExchangeStatus.OK}[len(stored)]
    assert (await store.kpi_record(exchange.id) is not None) == is_whole
    assert await store.session_state(exchange.session_id) == (b"after" if is_whole else before)
    if is_whole:
        assert await store.driver.database["usage"].find_one({"exchange_id": exchange.id}) is not None


async def check_goes_on(store: MongoStore, session_id: str, *, is_whole: bool) -> None:
    """The session goes on, and goes; what the dead process has left is not in the way."""
    database = store.driver.database
    if (session := await store.get_session(session_id)) is not None:
        await run_exchanges(store, session, 1)
        await store.finishing.all()
        if is_whole:
            assert await store.session_state(session_id, session.next_rank) == b"after"
    whole = await texts(store, session_id)
    questions = [text for text in whole if text.endswith("?")]
    for collection, there in (("messages", len(whole)), ("exchanges", len(questions))):
        assert await database[collection].count_documents({"session_id": session_id}) == there
    await store.delete_session(session_id)
    for collection in collections_of_session():
        assert await database[collection].count_documents({"session_id": session_id}) == 0


@pytest.mark.parametrize(("beside", "is_new"), each_once([0, 1, 2], [True, False]))
async def test_a_turn_that_is_cut_at_any_command_is_whole_or_none(
    open_mongo: OpenMongo, monkeypatch: pytest.MonkeyPatch, is_new: bool, beside: int
) -> None:
    monkeypatch.setattr(settling, "FORGET_EVERY", 1)
    store = await open_mongo()
    seen: set[tuple[str, ...]] = set()
    for number in range(1, MANY):
        session = a_session() if is_new else await begun_session(store)
        before = await texts(store, session.id)
        fault, was_cut = cut_at(number, beside)
        dying = mortal(store, fault)
        exchange = an_exchange(session, first_rank=session.next_rank, client_exchange_id=f"ask {number}")
        reported = await try_turn(dying, exchange, session if is_new else None)
        await dying.finishing.aclose()

        await recover(store)
        stored = (await texts(store, session.id))[len(before) :]
        assert stored[: len(reported)] == reported
        await check_outcome(store, exchange, stored, None if is_new else b"before")
        await check_goes_on(store, session.id, is_whole=len(stored) == 2)
        seen.add(tuple(stored))
        if not was_cut():
            assert reported == ["Well?", "So."]
            break
    else:
        raise AssertionError("a turn has fewer commands")
    assert seen == {(), ("Well?",), ("Well?", "So.")}
