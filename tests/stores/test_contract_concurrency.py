"""What every store does when many write at once, from one instance or from two."""

import asyncio
from itertools import cycle

from agentic_backend.errors import SessionBusy
from agentic_backend.stores.base import AlreadyAsked, Fence, FencedOut, Store, Written
from tests.stores.conftest import OpenStore
from tests.stores.samples import (
    a_session,
    an_end,
    an_exchange,
    answer,
    begin,
    begin_new,
    fence_after,
    new_id,
    question,
)


async def test_of_many_asks_in_a_session_one_begins(open_store: OpenStore) -> None:
    stores = [await open_store(), await open_store()]
    session = a_session()
    await stores[0].create_session(session)
    exchanges = [an_exchange(session) for _ in range(50)]
    outcomes = await asyncio.gather(
        *(
            store.begin_exchange(exchange, question())
            for store, exchange in zip(cycle(stores), exchanges, strict=False)
        ),
        return_exceptions=True,
    )
    winners = [exchange for exchange, outcome in zip(exchanges, outcomes, strict=True) if isinstance(outcome, Written)]
    assert len(winners) == 1
    assert sum(isinstance(outcome, SessionBusy) for outcome in outcomes) == 49
    stored = await stores[1].get_session(session.id)
    assert stored is not None and (stored.next_rank, stored.active_exchange_id) == (1, winners[0].id)
    assert [message.exchange_id for message in await stores[1].messages_after(session.id, -1, 100)] == [winners[0].id]
    begun = [exchange for exchange in exchanges if await stores[0].get_exchange(exchange.id) is not None]
    assert begun == winners


async def test_of_many_asks_that_open_a_session_of_one_id_one_begins(open_store: OpenStore) -> None:
    stores = [await open_store(), await open_store()]
    session = a_session()
    exchanges = [an_exchange(session) for _ in range(20)]
    outcomes = await asyncio.gather(
        *(
            store.begin_exchange(exchange, question(), session)
            for store, exchange in zip(cycle(stores), exchanges, strict=False)
        ),
        return_exceptions=True,
    )
    winners = [exchange for exchange, outcome in zip(exchanges, outcomes, strict=True) if isinstance(outcome, Written)]
    assert len(winners) == 1 and sum(isinstance(outcome, SessionBusy) for outcome in outcomes) == 19
    assert [message.exchange_id for message in await stores[1].messages_after(session.id, -1, 100)] == [winners[0].id]
    assert [one for one in exchanges if await stores[0].get_exchange(one.id) is not None] == winners


async def test_of_an_ask_sent_many_times_one_begins(open_store: OpenStore) -> None:
    """Each sending brings a session of its own, as the first ask of a chat does."""
    stores = [await open_store(), await open_store()]
    user, key = new_id(), new_id()
    sessions = [a_session(user) for _ in range(20)]
    outcomes = await asyncio.gather(
        *(
            store.begin_exchange(an_exchange(session, client_exchange_id=key), question(), session)
            for store, session in zip(cycle(stores), sessions, strict=False)
        ),
        return_exceptions=True,
    )
    begun = [outcome for outcome in outcomes if isinstance(outcome, Written)]
    repeated = [outcome for outcome in outcomes if isinstance(outcome, AlreadyAsked)]
    assert (len(begun), len(repeated)) == (1, 19)
    assert {outcome.exchange_id for outcome in repeated} == {begun[0].messages[0].exchange_id}
    born = [session.id for session in sessions if await stores[0].get_session(session.id) is not None]
    assert born == [begun[0].session.id]


async def test_of_writers_with_the_same_fence_one_writes(open_store: OpenStore) -> None:
    stores = [await open_store(), await open_store()]
    fence = await begin_new(stores[0])
    batches = [[answer(f"{number}"), answer(f"{number}")] for number in range(20)]
    outcomes = await asyncio.gather(
        *(store.append(fence, batch) for store, batch in zip(cycle(stores), batches, strict=False)),
        return_exceptions=True,
    )
    written = [outcome for outcome in outcomes if isinstance(outcome, Written)]
    assert len(written) == 1
    assert sum(isinstance(outcome, FencedOut) for outcome in outcomes) == 19
    assert await stores[1].messages_after(fence.session_id, 0, 100) == written[0].messages


async def test_an_exchange_ends_once_whoever_ends_it(open_store: OpenStore) -> None:
    """A stop, the graph's own end and a sweeper of dead owners may come at the same moment."""
    stores = [await open_store(), await open_store()]
    fence = await begin_new(stores[0])
    ends = [an_end(last_seq=number) for number in range(10)]
    outcomes = await asyncio.gather(
        *(store.append(fence, [answer()], end) for store, end in zip(cycle(stores), ends, strict=False)),
        return_exceptions=True,
    )
    winners = [end for end, outcome in zip(ends, outcomes, strict=True) if isinstance(outcome, Written)]
    record = await stores[0].get_exchange(fence.exchange_id)
    assert record is not None and [end.last_seq for end in winners] == [record.last_seq]
    assert len(await stores[0].exchange_messages(fence.exchange_id)) == 2


async def test_ranks_have_no_gap_in_sessions_that_run_side_by_side(open_store: OpenStore) -> None:
    stores = [await open_store(), await open_store()]

    async def converse(store: Store) -> str:
        session = a_session(new_id())
        await store.create_session(session)
        for size in (1, 2, 3):
            fence = await begin(store, session)
            for _ in range(2):
                fence = fence_after(await store.append(fence, [answer()] * size), fence.exchange_id)
            await store.append(fence, [answer()], an_end())
        return session.id

    ids = await asyncio.gather(*(converse(store) for store, _ in zip(cycle(stores), range(20), strict=False)))
    for session_id in ids:
        session = await stores[0].get_session(session_id)
        messages = await stores[0].messages_after(session_id, -1, 100)
        assert session is not None and session.next_rank == session.message_count == len(messages) == 18
        assert [message.rank for message in messages] == list(range(18))


async def test_readers_see_batches_whole(open_store: OpenStore) -> None:
    writer, reader = await open_store(), await open_store()
    fence = await begin_new(writer)
    finished = asyncio.Event()

    async def write(fence: Fence) -> None:
        for _ in range(40):
            fence = fence_after(await writer.append(fence, [answer()] * 5), fence.exchange_id)
        finished.set()

    async def read() -> set[int]:
        seen = set()
        while not finished.is_set():
            for store in (writer, reader):
                seen.add(len(await store.messages_after(fence.session_id, -1, 1000)))
        return seen

    _, seen = await asyncio.gather(write(fence), read())
    assert {count % 5 for count in seen} == {1}


async def test_what_is_written_is_read_by_everyone_at_once(open_store: OpenStore) -> None:
    writer, reader = await open_store(), await open_store()
    fence = await begin_new(writer)
    for _ in range(20):
        written = await writer.append(fence, [answer()])
        fence = fence_after(written, fence.exchange_id)
        for store in (writer, reader):
            assert await store.get_session(fence.session_id) == written.session
            assert (await store.exchange_messages(fence.exchange_id))[-1:] == written.messages
