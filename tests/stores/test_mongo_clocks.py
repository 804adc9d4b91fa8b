"""Instances on one MongoDB whose machines' clocks are hours apart: their rows have one time, and they do no harm."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial

import pytest

from agentic_backend.errors import StoreUnavailable
from agentic_backend.protocol.messages import utc_now
from agentic_backend.stores.mongo import MongoStore
from tests.stores.conftest import OpenMongo
from tests.stores.faulty_database import make_faulty, once
from tests.stores.samples import a_session, an_end, an_exchange, answer, fence_after, question

HOUR = timedelta(hours=1)
SKEWS = (HOUR, -HOUR, timedelta(0))
TOLERATED_S = 30
WRITER_S = 0.5


@pytest.fixture
async def stores(mongodb_url: str) -> AsyncIterator[list[MongoStore]]:
    async with AsyncExitStack() as opened:
        stores = []
        for skew in SKEWS:
            store = await MongoStore.open(
                mongodb_url, timeout_s=10, wall=partial(lambda ahead: utc_now() + ahead, skew)
            )
            opened.push_async_callback(store.aclose)
            stores.append(store)
        yield stores


async def test_their_rows_have_one_time(stores: list[MongoStore]) -> None:
    for store, skew in zip(stores, SKEWS, strict=True):
        assert await store.compare_clocks() == pytest.approx(skew.total_seconds(), abs=TOLERATED_S)
        assert abs(store.now() - utc_now()) < timedelta(seconds=TOLERATED_S)
    session = a_session(created_at=stores[0].now(), updated_at=stores[0].now())
    for number, store in enumerate(stores):
        exchange = an_exchange(session, first_rank=2 * number, started_at=store.now())
        written = await store.begin_exchange(exchange, question(), None if number else session)
        written = await store.append(fence_after(written, exchange.id), [answer()], an_end())
        assert abs(written.session.updated_at - utc_now()) < timedelta(seconds=TOLERATED_S)


@pytest.mark.parametrize("ahead", SKEWS)
async def test_what_is_half_begun_is_its_writers_as_long_as_that_may_go_on(
    open_mongo: OpenMongo, ahead: timedelta
) -> None:
    """Whenever that began, by its own clock: what counts is how long the others have known of it."""
    store = await open_mongo()
    session = a_session()
    await store.create_session(session)
    exchange = an_exchange(session, started_at=utc_now() + ahead)
    real = make_faulty(store, once("sessions", "find_one_and_update", "refused"))
    with pytest.raises(StoreUnavailable):
        await store.begin_exchange(exchange, question())
    store.half_begun.writer_s = WRITER_S
    assert await store.running_exchanges() == []
    assert await real["exchanges"].count_documents({}) == 1
    await asyncio.sleep(WRITER_S)
    assert await store.running_exchanges() == []
    assert await real["exchanges"].count_documents({}) == 0
