"""What is too large for a document of MongoDB's is left out, and the rest is stored."""

import pytest
from support.log_lines import warnings_of

from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.base import KeptState, SessionQuery
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.mongo.documents import LARGEST_STATE
from agentic_backend.stores.rows import PROOF_BYTES
from tests.stores.samples import a_session, an_end, answer, begin, stored

LARGE = b"secret" * (17_000_000 // 6)


@pytest.fixture(name="store")
def _store(target: MongoStore) -> MongoStore:
    return target


def tells_of_the_size(caplog: pytest.LogCaptureFixture, exchange_id: str) -> bool:
    [record] = warnings_of(caplog.records)
    told = vars(record)
    assert "secret" not in str(told)
    return (record.getMessage(), told["what"], told["exchange_id"], told["bytes"]) == (
        "state too large for MongoDB",
        "a session's state",
        exchange_id,
        len(LARGE),
    )


async def test_an_exchange_ends_without_a_state_that_is_too_large(
    store: MongoStore, caplog: pytest.LogCaptureFixture
) -> None:
    session = a_session()
    await store.create_session(session)
    await store.append(await begin(store, session), [answer()], an_end(session_state=b"before"))
    fence = await begin(store, session)
    await store.append(fence, [answer()], an_end(session_state=LARGE))
    assert (await stored(store, fence.exchange_id)).status is ExchangeStatus.OK
    assert await store.session_state(session.id) == b"before"
    assert tells_of_the_size(caplog, fence.exchange_id)
    largest = b"a" * LARGEST_STATE
    await store.append(await begin(store, session), [answer()], an_end(session_state=largest))
    assert await store.session_state(session.id) == largest


async def test_a_session_is_copied_without_a_state_that_is_too_large(
    store: MongoStore, caplog: pytest.LogCaptureFixture
) -> None:
    session = a_session(next_rank=4)
    await store.copy_session(session, [KeptState("first", 2, b"before"), KeptState("second", 4, LARGE)])
    assert await store.get_session(session.id) == session
    assert await store.session_state(session.id) == b"before"
    assert tells_of_the_size(caplog, "second")


async def test_a_proof_that_it_can_be_written_to_is_as_large_as_in_sqlite(store: MongoStore) -> None:
    await store.prove_write()
    [proof] = await store.driver.database["write_proofs"].find().to_list(None)
    assert len(proof["proof"]) == PROOF_BYTES


async def test_a_long_message_is_stored_and_found_by_its_beginning(store: MongoStore) -> None:
    session, text = a_session(), "Beginning " + "é" * 4_500_000 + " end"
    await store.create_session(session)
    fence = await begin(store, session)
    await store.append(fence, [answer(text)], an_end())
    assert (await store.exchange_messages(fence.exchange_id))[1].parts == answer(text).parts
    assert (await store.list_sessions(SessionQuery("ann", text="BEGINNING éé"))).sessions
    assert not (await store.list_sessions(SessionQuery("ann", text="é end"))).sessions
