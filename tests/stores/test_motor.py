"""Motor, whose calls differ from PyMongo's in a cursor and in what it does while the server is away."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from services.mongo_java import MongoJava
from services.mongodb import fresh_database
from support.tcp_line import TcpLine

from agentic_backend.stores.base import Store
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.driver import Driver
from agentic_backend.stores.protocol.usage_sums import UsageQuery
from tests.stores.samples import CONTENT, a_session, an_attachment, an_end, answer, begin, in_pieces
from tests.stores.test_mongo_driver import PATIENCE_S, check_away, check_back
from tests.stores.trail_samples import a_usage

MOTOR: Driver = "motor"
pytestmark = [pytest.mark.mongodb, pytest.mark.timeout(300)]


@pytest.fixture
async def store(line: TcpLine, mongo_java: MongoJava) -> AsyncIterator[MongoStore]:
    async with fresh_database(f"mongodb://127.0.0.1:{mongo_java.port}/") as url:
        behind = url.replace(str(mongo_java.port), str(line.port))
        async with aclosing(await MongoStore.open(behind, driver=MOTOR, timeout_s=PATIENCE_S)) as store:
            yield store


async def test_what_is_written_is_read(store: Store) -> None:
    """Rows by a cursor, sums by a pipeline, files in pieces."""
    session = a_session()
    await store.create_session(session)
    await store.append(await begin(store, session), [answer("one"), answer("two")], an_end())
    assert [message.rank for message in await store.messages_after(session.id, -1, 10)] == [0, 1, 2]

    await store.add_trail([a_usage(), a_usage(minute=1)])
    assert [one.calls for one in await store.usage_sums(UsageQuery("ann"))] == [2]

    attachment = an_attachment()
    await store.add_attachment(attachment, in_pieces(CONTENT), 10 * len(CONTENT))
    assert b"".join([piece async for piece in store.attachment_content(attachment.id)]) == CONTENT


async def test_an_outage_is_told_in_time_and_mended_by_itself(store: MongoStore, line: TcpLine) -> None:
    await check_back(store)
    await line.hold()
    await check_away(store)
    line.release()
    await check_back(store)
