"""The Store on MongoDB: for data that outlives its machine.

Opened by the composition root, closed by `aclose`. Needs no transactions, so a single server will do, and FerretDB.
What is written together in SQLite's transactions is here decided by one document (see mongo_writes, mongo_batches and
mongo_claims). Every operation has one time for all its round trips.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, Self, TypeVar
from weakref import WeakValueDictionary

from agentic_backend.errors import StoreUnavailable
from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import ChatMessage, MessageDraft, Session, utc_now
from agentic_backend.stores import mongo_claims as claims
from agentic_backend.stores import mongo_copies as copies
from agentic_backend.stores import mongo_instances as instances
from agentic_backend.stores import mongo_queries as queries
from agentic_backend.stores import mongo_writes as writes
from agentic_backend.stores.base import (
    Checkpoint,
    ExchangeEnd,
    Fence,
    Observer,
    Pause,
    SessionPage,
    SessionQuery,
    Written,
    took_too_long,
)
from agentic_backend.stores.clock import Clock
from agentic_backend.stores.kpi_figures import KpiBucket, KpiQuery
from agentic_backend.stores.mongo_documents import Database, Document, make_indexes
from agentic_backend.stores.mongo_driver import DATABASE, Driver, MongoDriver, blocking_client
from agentic_backend.stores.mongo_half_begun import HalfBegun
from agentic_backend.stores.records import ExchangeRecord, HumanDecision, KpiRecord
from agentic_backend.stores.transfer import Counts

T = TypeVar("T")


class MongoStore:
    """Implements `Store`, and `Target` of a transfer; their docstrings hold for the methods here."""

    def __init__(self, driver: MongoDriver, clock: Clock, half_begun: HalfBegun, connect: instances.Connect) -> None:
        """`connect` makes the client of the heartbeat."""
        self._driver = driver
        self._clock = clock
        self._half_begun = half_begun
        self._connect = connect
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        driver: Driver = "pymongo",
        timeout_s: float,
        observe: Observer | None = None,
        wall: Callable[[], datetime] = utc_now,
        **options: Any,
    ) -> Self:
        """Open the database that `url` names, `agentic` where it names none, and make its indexes.

        Every operation has `timeout_s`; `options` go to the driver's client. `wall` is the machine's clock. Raises
        StoreUnavailable.
        """
        clock = Clock(wall)
        opened = await MongoDriver.open(url, driver=driver, timeout_s=timeout_s, observe=observe, **options)
        try:
            await opened.run("open", make_indexes)
            await opened.run("open", writes.finish_deletions)
            await opened.run("open", lambda _: opened.compare_clocks(clock))
        except BaseException:
            await opened.aclose()
            raise
        # A session is read before its exchange begins: two operations.
        return cls(opened, clock, HalfBegun(2 * timeout_s), partial(blocking_client, url))

    async def aclose(self) -> None:
        await self._driver.aclose()

    async def _change(self, operation: str, session_id: str, work: Callable[[Database], Awaitable[T]]) -> T:
        """Changes of one session go one at a time in this process.

        MongoDB doesn't need that. FerretDB 1.x reads a document and then writes it, so that two changes at once would
        lose one of them.
        """
        turn = self._turns.setdefault(session_id, asyncio.Lock())

        async def change(database: Database) -> T:
            async with turn:
                return await work(database)

        return await self._driver.run(operation, change)

    async def create_session(self, session: Session) -> None:
        await self._driver.run("create_session", lambda db: writes.create_session(db, session))

    async def get_session(self, session_id: str) -> Session | None:
        return await self._driver.run("get_session", lambda db: queries.get_session(db, session_id))

    async def list_sessions(self, query: SessionQuery) -> SessionPage:
        late = took_too_long if query.text else StoreUnavailable
        return await self._driver.run("list_sessions", lambda db: queries.list_sessions(db, query), late=late)

    async def rename_session(self, session_id: str, title: str, *, only_if: str | None = None) -> Session | None:
        return await self._change(
            "rename_session", session_id, lambda db: writes.rename_session(db, session_id, title, only_if)
        )

    async def complete_session(self, session_id: str, at: datetime) -> Session | None:
        return await self._change(
            "complete_session", session_id, lambda db: writes.complete_session(db, session_id, at)
        )

    async def delete_session(self, session_id: str) -> None:
        await self._change("delete_session", session_id, lambda db: writes.delete_session(db, session_id))

    async def session_state(self, session_id: str) -> bytes | None:
        return await self._driver.run("session_state", lambda db: queries.session_state(db, session_id))

    async def begin_exchange(
        self,
        exchange: ExchangeRecord,
        opening: MessageDraft,
        new_session: Session | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Written:
        return await self._change(
            "begin_exchange",
            exchange.session_id,
            lambda db: writes.begin_exchange(
                db, exchange, opening, new_session, checkpoint, self._half_begun, self.now()
            ),
        )

    async def append(
        self,
        fence: Fence,
        drafts: Sequence[MessageDraft],
        end: ExchangeEnd | None = None,
        checkpoint: Checkpoint | None = None,
        *,
        blocks: Sequence[int | None] = (),
        token: str | None = None,
    ) -> Written:
        return await self._change(
            "append",
            fence.session_id,
            lambda db: writes.append(db, fence, drafts, end, checkpoint, blocks, token, self.now()),
        )

    async def set_waiting(self, fence: Fence, pause: Pause, token: str | None = None) -> None:
        await self._change("set_waiting", fence.session_id, lambda db: claims.set_waiting(db, fence, pause, token))

    async def decide(
        self,
        waiting: ExchangeRecord,
        decisions: Sequence[HumanDecision],
        owner: str | None = None,
        token: str | None = None,
    ) -> None:
        await self._change("decide", waiting.session_id, lambda db: claims.decide(db, waiting, decisions, owner, token))

    @asynccontextmanager
    async def heartbeat(
        self, instance_id: str, every_s: float, *, loop_patience_s: float = instances.LOOP_PATIENCE_S
    ) -> AsyncIterator[None]:
        """`loop_patience_s` is how long the event loop may be blocked."""
        await self._driver.run("beat", lambda db: instances.beat(db, instance_id))
        async with instances.beating(self._connect, DATABASE, instance_id, every_s, loop_patience_s):
            yield

    async def beats(self) -> dict[str, int]:
        return await self._driver.run("beats", instances.beats)

    async def forget_instance(self, instance_id: str, last_beat: int) -> None:
        await self._driver.run("forget_instance", lambda db: instances.forget(db, instance_id, last_beat))

    def now(self) -> datetime:
        return self._clock.now()

    async def compare_clocks(self) -> float | None:
        return await self._driver.run("compare_clocks", lambda _: self._driver.compare_clocks(self._clock))

    async def keep_partials(self, owner: str, partials: Mapping[str, Sequence[PartialText]]) -> None:
        await self._driver.run("keep_partials", lambda db: claims.keep_partials(db, owner, partials))

    async def partial(self, exchange_id: str) -> list[PartialText]:
        return await self._driver.run("partial", lambda db: queries.partial(db, exchange_id))

    async def running_exchanges(
        self, *, not_of: Collection[str] = (), not_among: Collection[str] = (), limit: int = 1000
    ) -> list[ExchangeRecord]:
        return await self._settled(
            "running_exchanges", lambda db: queries.running_exchanges(db, not_of, not_among, limit)
        )

    async def running_among(self, owner: str, exchange_ids: Collection[str]) -> set[str]:
        return await self._driver.run("running_among", lambda db: queries.running_among(db, owner, exchange_ids))

    async def expired_exchanges(self, at: datetime, limit: int = 1000) -> list[ExchangeRecord]:
        return await self._settled("expired_exchanges", lambda db: queries.expired_exchanges(db, at, limit))

    async def _settled(
        self, operation: str, find: Callable[[Database], Awaitable[list[Document]]]
    ) -> list[ExchangeRecord]:
        async def settle(database: Database) -> list[ExchangeRecord]:
            return await writes.settled(database, await find(database), self._half_begun)

        return await self._driver.run(operation, settle)

    async def fence(self, session_id: str) -> Fence | None:
        return await self._driver.run("fence", lambda db: queries.fence(db, session_id))

    async def checkpoint(self, exchange_id: str) -> Checkpoint | None:
        return await self._driver.run("checkpoint", lambda db: queries.checkpoint(db, exchange_id))

    async def get_exchange(self, exchange_id: str) -> ExchangeRecord | None:
        return await self._driver.run("get_exchange", lambda db: queries.get_exchange(db, exchange_id))

    async def find_exchange(self, user_id: str, client_exchange_id: str) -> ExchangeRecord | None:
        return await self._driver.run(
            "find_exchange", lambda db: queries.find_exchange(db, user_id, client_exchange_id)
        )

    async def count_waiting(self, user_id: str) -> int:
        return await self._driver.run("count_waiting", lambda db: queries.count_waiting(db, user_id))

    async def count_empty_sessions(self, user_id: str) -> int:
        return await self._driver.run("count_empty_sessions", lambda db: queries.count_empty_sessions(db, user_id))

    async def exchange_messages(self, exchange_id: str, max_bytes: int | None = None) -> list[ChatMessage]:
        return await self._driver.run(
            "exchange_messages", lambda db: queries.exchange_messages(db, exchange_id, max_bytes)
        )

    async def messages_after(
        self, session_id: str, after_rank: int, limit: int, max_bytes: int | None = None
    ) -> list[ChatMessage]:
        return await self._driver.run(
            "messages_after", lambda db: queries.messages_after(db, session_id, after_rank, limit, max_bytes)
        )

    async def last_exchanges(self, session_id: str, count: int, max_bytes: int | None = None) -> list[ChatMessage]:
        return await self._driver.run(
            "last_exchanges", lambda db: queries.last_exchanges(db, session_id, count, max_bytes)
        )

    async def record_kpi(self, record: KpiRecord) -> None:
        await self._driver.run("record_kpi", lambda db: writes.record_kpi(db, record))

    async def kpi_figures(self, query: KpiQuery) -> list[KpiBucket]:
        return await self._driver.run("kpi_figures", lambda db: queries.kpi_figures(db, query), late=took_too_long)

    async def prove_write(self) -> None:
        await self._driver.run("prove_write", writes.prove_write)

    async def clear_sessions(self, session_ids: Sequence[str]) -> None:
        await self._driver.run("clear_sessions", lambda db: copies.clear_sessions(db, session_ids))

    async def copy_exchanges(self, exchanges: Sequence[ExchangeRecord]) -> None:
        await self._driver.run("copy_exchanges", lambda db: copies.copy_exchanges(db, exchanges))

    async def copy_checkpoint(self, exchange_id: str, checkpoint: Checkpoint) -> None:
        await self._driver.run("copy_checkpoint", lambda db: copies.copy_checkpoint(db, exchange_id, checkpoint))

    async def copy_messages(self, messages: Sequence[ChatMessage]) -> None:
        await self._driver.run("copy_messages", lambda db: copies.copy_messages(db, messages))

    async def copy_session(self, session: Session, state: bytes | None) -> None:
        await self._driver.run("copy_session", lambda db: copies.copy_session(db, session, state))

    async def copy_kpi_records(self, records: Sequence[KpiRecord]) -> None:
        await self._driver.run("copy_kpi_records", lambda db: copies.copy_kpi_records(db, records))

    async def count_sessions(self, session_ids: Sequence[str]) -> Counts:
        return await self._driver.run("count_sessions", lambda db: copies.count_sessions(db, session_ids))

    async def count_kpi_records(self, exchange_ids: Sequence[str]) -> int:
        return await self._driver.run("count_kpi_records", lambda db: copies.count_kpi_records(db, exchange_ids))
