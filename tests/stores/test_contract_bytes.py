"""Reads that are bounded by bytes, on each store: as much as fits, at least one message, and nothing is skipped."""

import pytest
from support.further_cases import each_once

from agentic_backend.stores.base import Fence, Store
from agentic_backend.stores.records import MessageRecord
from agentic_backend.stores.rows import message_bytes, row_bytes
from agentic_backend.stores.tables import MESSAGES
from tests.stores.samples import a_session, an_end, answer, begin, run_exchanges

LARGE = "größer " * 3_000


async def grow(store: Store, fence: Fence, count: int, text: str) -> Fence:
    """Add so many answers to the exchange, each in a write of its own."""
    for _ in range(count):
        written = await store.append(fence, [answer(text)])
        fence = Fence(fence.session_id, fence.exchange_id, written.session.next_rank)
    return fence


async def a_long_exchange(store: Store, count: int = 16) -> tuple[Fence, list[MessageRecord]]:
    session = a_session()
    await store.create_session(session)
    fence = await grow(store, await begin(store, session), count // 2, "small")
    fence = await grow(store, fence, count // 2, LARGE)
    return fence, await store.messages_after(session.id, -1, 1000)


async def test_the_size_of_a_message_is_that_of_its_row(store: Store) -> None:
    _, messages = await a_long_exchange(store, 2)
    assert [message_bytes(message) for message in messages] == [row_bytes(MESSAGES.row(m)) for m in messages]
    assert message_bytes(messages[-1]) > len(LARGE.encode())


@pytest.mark.parametrize(("limit", "max_bytes"), each_once([1000, 1, 7], [1, 5_000, 60_000, 100_000, 10_000_000]))
async def test_pages_of_so_many_bytes_have_every_message_once(store: Store, max_bytes: int, limit: int) -> None:
    fence, messages = await a_long_exchange(store)
    read: list[MessageRecord] = []
    while page := await store.messages_after(fence.session_id, len(read) - 1, limit, max_bytes):
        assert len(page) <= limit
        size = sum(map(message_bytes, page))
        assert size <= max_bytes or len(page) == 1
        following = messages[len(read) + len(page) :][:1]
        is_full = len(page) == limit or not following or size + message_bytes(following[0]) > max_bytes
        assert is_full, "it has all that fits"
        read += page
    assert read == messages


@pytest.mark.parametrize("max_bytes", [1, 60_000, 100_000, 10_000_000])
async def test_of_a_large_exchange_the_first_and_the_last_messages_are_read(store: Store, max_bytes: int) -> None:
    fence, messages = await a_long_exchange(store)
    first, *last = await store.exchange_messages(fence.exchange_id, max_bytes)
    assert first == messages[0]
    assert last and last == messages[-len(last) :]
    size = sum(map(message_bytes, last))
    assert size <= max_bytes or len(last) == 1
    before = messages[-len(last) - 1]
    assert before == first or size + message_bytes(before) > max_bytes


async def test_the_only_message_of_an_exchange_is_read_once(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    fence = await begin(store, session)
    assert len(await store.exchange_messages(fence.exchange_id, 1)) == 1
    assert await store.exchange_messages("none", 1) == []


async def test_of_the_last_exchanges_those_are_read_that_fit_as_a_whole(store: Store) -> None:
    session = a_session()
    await store.create_session(session)
    await run_exchanges(store, session, 3)
    large = await grow(store, await begin(store, session), 20, LARGE)
    await store.append(large, [answer()], an_end())
    after = await run_exchanges(store, session, 18)
    everything = await store.messages_after(session.id, -1, 1000)
    await begin(store, session)

    def of(*exchange_ids: str) -> list[MessageRecord]:
        return [message for message in everything if message.exchange_id in exchange_ids]

    size = sum(map(message_bytes, of(*after)))
    assert await store.last_exchanges(session.id, 100, 10_000_000) == everything
    assert await store.last_exchanges(session.id, 100, size) == of(*after)
    assert await store.last_exchanges(session.id, 100, size + 60_000) == of(*after), "not the end of the large one"
    assert await store.last_exchanges(session.id, 100, size - 1) == of(*after[1:])
    assert await store.last_exchanges(session.id, 2, size) == of(*after[-2:])
    assert await store.last_exchanges(session.id, 100, 1) == []
