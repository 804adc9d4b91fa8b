"""The writer against a store that loses requests and answers, and another instance that ends the exchange meanwhile.

Every combination is tried: what becomes of each of the first writes, and when the exchange is closed by another.
However it goes, no draft is stored twice and none is missing, ranks have no gap, what is returned are the messages of
the drafts in order, and there is one end.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
from hostile.sizes import LONG
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.failing_store import FailingStore

from agentic_backend.errors import ApprovalNotFound, StoreUnavailable
from agentic_backend.exchange.instance import Instance
from agentic_backend.exchange.write.writer import StoreWriter
from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, utc_now
from agentic_backend.protocol.parts import TextPart, text_of
from agentic_backend.stores.base import FencedOut, Store
from agentic_backend.stores.mongo import MongoStore
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, MessageRecord, SessionRecord
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.streaming.transcode.drafts import CompleteDraft
from tests.stores.samples import a_decision, a_pause, an_end, answer, new_id, question

ME = Instance(lease_s=15)
NEVER = 99
FATES = ("answered", "request lost", "answer lost", "late")


class Unreliable(FailingStore):
    """Of each call of `operation` the next of `fates`; a late request is carried out after its failure was told."""

    def __init__(self, real: Store, operation: str, fates: Sequence[str]) -> None:
        super().__init__(real)
        self._operation = operation
        self._fates = list(fates)
        self.late: list[asyncio.Task[Any]] = []

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.real, name)
        if name != self._operation:
            return operation

        async def call(*args: Any, **kwargs: Any) -> Any:
            fate = self._fates.pop(0) if self._fates else "answered"
            if fate == "request lost":
                raise StoreUnavailable
            if fate == "late":
                self.late.append(asyncio.create_task(self._carry_out_late(operation, args, kwargs)))
                raise StoreUnavailable
            result = await operation(*args, **kwargs)
            if fate == "answer lost":
                raise StoreUnavailable
            return result

        return call

    async def _carry_out_late(self, operation: Any, args: Any, kwargs: Any) -> None:
        await asyncio.sleep(0)
        with contextlib.suppress(FencedOut, ApprovalNotFound):
            await operation(*args, **kwargs)


@pytest.fixture(params=["sqlite", *ON_MONGODB])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with AsyncExitStack() as opened:
        store: SqliteStore | MongoStore
        if request.param == "sqlite":
            store = await SqliteStore.open(tmp_path / "store.db", timeout_s=10)
        else:
            url = await opened.enter_async_context(fresh_database(server_url(request.param, request)))
            store = await MongoStore.open(url, timeout_s=10)
        opened.push_async_callback(store.aclose)
        yield store


def draft(text: str, block: int | None = None) -> CompleteDraft:
    parts = [TextPart(text=text)]
    return CompleteDraft(MessageDraft(role=Role.ASSISTANT, channel=Channel.OBSERVATION, parts=parts), block)


class Written:
    """An exchange that is written to through an unreliable store; `closed_before` is when another one ends it."""

    def __init__(self, store: Store, exchange: ExchangeRecord, session: SessionRecord, fates: Sequence[str]) -> None:
        self.store = store
        self.exchange = exchange
        self.unreliable = Unreliable(store, "append", fates)
        self.writer = StoreWriter(cast(Store, self.unreliable), session, exchange.id, ME)
        self.returned: list[MessageRecord] = []
        self.calls = 0
        self.closed: bool = False

    async def write_all(self, closed_before: int) -> str:
        """Two batches, which grow while the first is tried again, then the end; how it went."""
        waiting = [draft("one"), draft("two")]
        more = iter([[draft("three")], [draft("four"), draft("five")], []])
        end = None
        while True:
            if self.calls == closed_before:
                await self.close()
            self.calls += 1
            try:
                messages = await self.writer.write(waiting, end)
            except StoreUnavailable:
                waiting = [*waiting, *(next(more, []) if end is None else [])]
                continue
            except FencedOut:
                return "fenced out"
            self.returned += messages
            assert len(messages) == len(waiting)
            assert [text_of(one.parts) for one in messages] == [text_of(one.message.parts) for one in waiting]
            if end is not None:
                return "ended"
            waiting = [one for batch in more for one in batch]
            end = an_end()

    async def close(self) -> None:
        while not self.closed and (fence := await self.store.fence(self.exchange.session_id)) is not None:
            # A request that is late may come in between.
            with contextlib.suppress(FencedOut):
                await self.store.append(fence, [answer("closed")], an_end(ExchangeStatus.INTERRUPTED))
                self.closed = True

    async def check(self, went: str) -> None:
        await asyncio.gather(*self.unreliable.late)
        stored = await self.store.messages_after(self.exchange.session_id, -1, 100)
        session = await self.store.get_session(self.exchange.session_id)
        record = await self.store.get_exchange(self.exchange.id)
        assert session is not None and record is not None
        texts = [text_of(message.parts) for message in stored[1:]]
        assert [message.rank for message in stored] == list(range(session.next_rank))
        assert session.message_count == len(stored) and session.active_exchange_id is None
        assert (went == "ended") is not self.closed
        assert record.status == ("interrupted" if self.closed else "ok")
        own = ["one", "two", "three", "four", "five"]
        if self.closed:
            assert texts[-1] == "closed" and texts[:-1] == own[: len(texts) - 1]
            assert self.returned == stored[1 : len(self.returned) + 1]
        else:
            assert texts == own and self.returned == stored[1:]


async def begun(store: Store, fates: Sequence[str]) -> Written:
    session = SessionRecord(
        id=new_id(), user_id="ann", agent_id="a", title="t", created_at=utc_now(), updated_at=utc_now()
    )
    exchange = ExchangeRecord(
        id=new_id(),
        session_id=session.id,
        user_id="ann",
        agent_id="a",
        request_id="r",
        started_at=utc_now(),
        owner=ME.id,
    )
    written = await store.begin_exchange(exchange, question(), session)
    return Written(store, exchange, written.session, fates)


async def test_whatever_gets_lost_each_draft_is_stored_once_and_there_is_one_end(store: Store) -> None:
    tried = 0
    for fates, closed_before in combinations(store):
        written = await begun(store, fates)
        went = await written.write_all(closed_before)
        try:
            await written.check(went)
        except AssertionError as error:
            raise AssertionError(f"{fates}, closed before write {closed_before}: {went}") from error
        tried += 1
    print(f"{tried} combinations of lost requests, lost answers and an end by another: each draft once, one end each")


def combinations(store: Store) -> Iterator[tuple[Sequence[str], int]]:
    """What becomes of the first writes, and before which one the exchange is closed; fewer where each takes long."""
    if isinstance(store, SqliteStore):
        yield from product(product(FATES, repeat=4 if LONG else 3), (NEVER, 0, 1, 2, 3))
    elif LONG:
        yield from product(product(FATES, repeat=3), (NEVER, 1, 2))
    else:
        yield from product(product(FATES[1:], repeat=2), (NEVER, 1))


async def test_an_end_is_known_though_the_session_has_gone_on(store: Store) -> None:
    """Its answer is lost, and before it is repeated the next exchange begins, and writes."""
    written = await begun(store, ["answer lost"])
    end = an_end()
    with pytest.raises(StoreUnavailable):
        await written.writer.write([draft("one")], end)
    session = await store.get_session(written.exchange.session_id)
    assert session is not None and session.active_exchange_id is None
    following = replace(written.exchange, id=new_id())
    begun_next = await store.begin_exchange(following, question("next"))
    fence = await store.fence(session.id)
    assert fence is not None
    await store.append(fence, [answer("of the next")], token=new_id())
    [message] = await written.writer.write([draft("one")], end)
    assert (message.rank, text_of(message.parts)) == (1, "one")
    assert begun_next.messages[0].rank == 2
    texts = [text_of(row.parts) for row in await store.messages_after(session.id, 0, 10)]
    assert texts == ["one", "next", "of the next"]


async def test_a_write_without_its_own_token_is_nobody_elses(store: Store) -> None:
    written = await begun(store, [])
    fence = await store.fence(written.exchange.session_id)
    assert fence is not None
    await store.append(fence, [answer("one")], token="mine")
    assert [text_of(row.parts) for row in (await store.append(fence, [answer("one")], token="mine")).messages] == [
        "one"
    ]
    for token in (None, "another's"):
        with pytest.raises(FencedOut):
            await store.append(fence, [answer("one")], token=token)
    await store.delete_session(fence.session_id)
    with pytest.raises(FencedOut):
        await store.append(fence, [answer("one")], token="mine")


async def test_what_is_deleted_after_a_lost_answer_is_fenced_out(store: Store) -> None:
    written = await begun(store, ["answer lost"])
    with pytest.raises(StoreUnavailable):
        await written.writer.write([draft("one")])
    await store.delete_session(written.exchange.session_id)
    with pytest.raises(FencedOut):
        await written.writer.write([draft("one"), draft("two")])


@pytest.mark.parametrize("fate", FATES[1:])
async def test_a_pause_is_stored_once_and_known_as_our_own(store: Store, fate: str) -> None:
    written = await begun(store, [])
    unreliable = Unreliable(store, "set_waiting", [fate, fate])
    writer = StoreWriter(cast(Store, unreliable), await session_of(written), written.exchange.id, ME)
    pause = a_pause()
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await writer.set_waiting(pause)
    await writer.set_waiting(pause)
    await asyncio.gather(*unreliable.late)
    record = await store.get_exchange(written.exchange.id)
    assert record is not None and (record.status, record.pending) == ("awaiting_human", pause.pending)
    stranger = StoreWriter(store, await session_of(written), written.exchange.id, ME)
    with pytest.raises(FencedOut):
        await stranger.set_waiting(pause)


async def test_a_pause_that_somebody_has_decided_on_is_not_repeated(store: Store) -> None:
    written = await begun(store, [])
    unreliable = Unreliable(store, "set_waiting", ["answer lost"])
    writer = StoreWriter(cast(Store, unreliable), await session_of(written), written.exchange.id, ME)
    with pytest.raises(StoreUnavailable):
        await writer.set_waiting(a_pause())
    record = await store.get_exchange(written.exchange.id)
    assert record is not None
    await store.decide(record, [a_decision()], "two", "theirs")
    with pytest.raises(FencedOut):
        await writer.set_waiting(a_pause())
    record = await store.get_exchange(written.exchange.id)
    assert record is not None and (record.status, record.owner) == ("running", "two")


@pytest.mark.parametrize("fate", FATES[1:])
async def test_a_claim_and_a_decision_count_once_and_are_known_as_ones_own(store: Store, fate: str) -> None:
    written = await begun(store, [])
    writer = StoreWriter(store, await session_of(written), written.exchange.id, ME)
    await writer.set_waiting(a_pause())
    waiting = await store.get_exchange(written.exchange.id)
    assert waiting is not None
    unreliable = Unreliable(store, "decide", [fate, fate])
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await cast(Store, unreliable).decide(waiting, [a_decision()], "two", "token")
    await cast(Store, unreliable).decide(waiting, [a_decision()], "two", "token")
    await asyncio.gather(*unreliable.late)
    record, fence = await store.get_exchange(waiting.id), await store.fence(waiting.session_id)
    assert record is not None and fence is not None
    assert (record.owner, fence.owner, len(record.decisions)) == ("two", "two", 1)
    for token in (None, "another's"):
        with pytest.raises(ApprovalNotFound):
            await store.decide(waiting, [a_decision()], "two", token)


async def session_of(written: Written) -> SessionRecord:
    session = await written.store.get_session(written.exchange.session_id)
    assert session is not None
    return session


@pytest.mark.parametrize("same_beginning", [True, False])
async def test_text_is_partial_until_the_message_of_its_block_is_stored(store: Store, same_beginning: bool) -> None:
    """Whatever the texts say: one may begin like another."""
    written = await begun(store, [])
    texts = [
        PartialText(block=block, channel=Channel.FINAL, text="Let me see" if same_beginning else f"text {block}")
        for block in range(3)
    ]
    await store.keep_partials(ME.id, {written.exchange.id: texts})
    assert await store.partial(written.exchange.id) == texts
    await written.writer.write([draft("Let me see it all.", 1), draft("no block")])
    assert await store.partial(written.exchange.id) == [texts[0], texts[2]]
    await written.writer.write([draft("Let me see.", 0)], an_end())
    assert await store.partial(written.exchange.id) == []
    assert await store.partial(new_id()) == []
