"""The Store on SQLite: one file, for a server that runs as one instance.

Opened by the composition root, closed by `aclose`. One connection writes, each write one transaction; others read, so
that a read waits neither for a write nor for a list, and no list for a search or a report. A transaction makes a batch
whole or absent; a process that dies loses nothing that was reported as saved, a machine that loses its power perhaps
the last moments before.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext, suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from agentic_backend.errors import AgenticError, StoreUnavailable
from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import ChatMessage, MessageDraft, Session, utc_now
from agentic_backend.stores import sqlite_kpis
from agentic_backend.stores import sqlite_queries as queries
from agentic_backend.stores import sqlite_transactions as transactions
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
from agentic_backend.stores.kpi_figures import KpiBucket, KpiQuery
from agentic_backend.stores.migrations import migrate
from agentic_backend.stores.private_files import private_database
from agentic_backend.stores.records import ExchangeRecord, HumanDecision, KpiRecord
from agentic_backend.stores.sqlite_connection import SqliteConnection
from agentic_backend.stores.transfer import Counts


class SqliteStore:
    """Implements `Store`, and `Source` of a transfer; their docstrings hold for the methods here."""

    def __init__(
        self,
        closing: AsyncExitStack,
        wall: Callable[[], datetime],
        writer: SqliteConnection,
        reader: SqliteConnection,
        lister: SqliteConnection,
        searcher: SqliteConnection,
        reporter: SqliteConnection,
    ) -> None:
        """`reader` finds rows by key, `lister` pages by an index; `searcher` and `reporter` may read much.

        `closing` closes them.
        """
        self._writer = writer
        self._reader = reader
        self._lister = lister
        self._searcher = searcher
        self._reporter = reporter
        self._closing = closing
        self._wall = wall

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        timeout_s: float,
        observe: Observer | None = None,
        wall: Callable[[], datetime] = utc_now,
    ) -> Self:
        """Open the file at `path`, made where there is none, and bring its schema up to date.

        Every operation has `timeout_s`; rows get the time of `wall`. Raises StoreUnavailable, and SchemaTooNew where a
        newer server wrote the file.
        """
        # What is wrong with the place is told when it is opened.
        with suppress(OSError):
            await asyncio.to_thread(private_database, path)
        async with AsyncExitStack() as opened:

            async def connect(late: Callable[[], AgenticError] = StoreUnavailable) -> SqliteConnection:
                connection = await SqliteConnection.open(path, timeout_s=timeout_s, observe=observe, late=late)
                opened.push_async_callback(connection.aclose)
                return connection

            writer = await connect()
            await migrate(writer)
            readers = [await connect(), await connect(), await connect(took_too_long), await connect(took_too_long)]
            return cls(opened.pop_all(), wall, writer, *readers)

    async def aclose(self) -> None:
        await self._closing.aclose()

    async def create_session(self, session: Session) -> None:
        await self._writer.write("create_session", lambda db: transactions.create_session(db, session))

    async def get_session(self, session_id: str) -> Session | None:
        return await self._reader.read("get_session", lambda db: queries.get_session(db, session_id))

    async def list_sessions(self, query: SessionQuery) -> SessionPage:
        connection = self._searcher if query.text else self._lister
        return await connection.read("list_sessions", lambda db: queries.list_sessions(db, query))

    async def rename_session(self, session_id: str, title: str, *, only_if: str | None = None) -> Session | None:
        return await self._writer.write(
            "rename_session", lambda db: transactions.rename_session(db, session_id, title, only_if)
        )

    async def complete_session(self, session_id: str, at: datetime) -> Session | None:
        return await self._writer.write(
            "complete_session", lambda db: transactions.complete_session(db, session_id, at)
        )

    async def delete_session(self, session_id: str) -> None:
        await self._writer.write("delete_session", lambda db: transactions.delete_session(db, session_id))

    async def session_state(self, session_id: str) -> bytes | None:
        return await self._reader.read("session_state", lambda db: queries.session_state(db, session_id))

    async def begin_exchange(
        self,
        exchange: ExchangeRecord,
        opening: MessageDraft,
        new_session: Session | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Written:
        return await self._writer.write(
            "begin_exchange",
            lambda db: transactions.begin_exchange(db, exchange, opening, new_session, checkpoint, self.now()),
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
        return await self._writer.write(
            "append", lambda db: transactions.append(db, fence, drafts, end, checkpoint, blocks, token, self.now())
        )

    async def set_waiting(self, fence: Fence, pause: Pause, token: str | None = None) -> None:
        await self._writer.write("set_waiting", lambda db: transactions.set_waiting(db, fence, pause, token))

    async def decide(
        self,
        waiting: ExchangeRecord,
        decisions: Sequence[HumanDecision],
        owner: str | None = None,
        token: str | None = None,
    ) -> None:
        await self._writer.write("decide", lambda db: transactions.decide(db, waiting, decisions, owner, token))

    def heartbeat(self, instance_id: str, every_s: float) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def beats(self) -> dict[str, int]:
        return {}

    async def forget_instance(self, instance_id: str, last_beat: int) -> None:
        pass

    def now(self) -> datetime:
        return self._wall()

    async def compare_clocks(self) -> float | None:
        return None

    async def keep_partials(self, owner: str, partials: Mapping[str, Sequence[PartialText]]) -> None:
        await self._writer.write("keep_partials", lambda db: transactions.keep_partials(db, owner, partials))

    async def partial(self, exchange_id: str) -> list[PartialText]:
        return await self._reader.read("partial", lambda db: queries.partial(db, exchange_id))

    async def running_exchanges(
        self, *, not_of: Collection[str] = (), not_among: Collection[str] = (), limit: int = 1000
    ) -> list[ExchangeRecord]:
        return await self._reader.read(
            "running_exchanges", lambda db: queries.running_exchanges(db, not_of, not_among, limit)
        )

    async def running_among(self, owner: str, exchange_ids: Collection[str]) -> set[str]:
        return await self._reader.read("running_among", lambda db: queries.running_among(db, owner, exchange_ids))

    async def expired_exchanges(self, at: datetime, limit: int = 1000) -> list[ExchangeRecord]:
        return await self._reader.read("expired_exchanges", lambda db: queries.expired_exchanges(db, at, limit))

    async def fence(self, session_id: str) -> Fence | None:
        return await self._reader.read("fence", lambda db: queries.fence(db, session_id))

    async def checkpoint(self, exchange_id: str) -> Checkpoint | None:
        return await self._reader.read("checkpoint", lambda db: queries.checkpoint(db, exchange_id))

    async def get_exchange(self, exchange_id: str) -> ExchangeRecord | None:
        return await self._reader.read("get_exchange", lambda db: queries.get_exchange(db, exchange_id))

    async def find_exchange(self, user_id: str, client_exchange_id: str) -> ExchangeRecord | None:
        return await self._reader.read(
            "find_exchange", lambda db: queries.find_exchange(db, user_id, client_exchange_id)
        )

    async def count_waiting(self, user_id: str) -> int:
        return await self._reader.read("count_waiting", lambda db: queries.count_waiting(db, user_id))

    async def count_empty_sessions(self, user_id: str) -> int:
        return await self._reader.read("count_empty_sessions", lambda db: queries.count_empty_sessions(db, user_id))

    async def exchange_messages(self, exchange_id: str, max_bytes: int | None = None) -> list[ChatMessage]:
        return await self._reader.read(
            "exchange_messages", lambda db: queries.exchange_messages(db, exchange_id, max_bytes)
        )

    async def messages_after(
        self, session_id: str, after_rank: int, limit: int, max_bytes: int | None = None
    ) -> list[ChatMessage]:
        return await self._reader.read(
            "messages_after", lambda db: queries.messages_after(db, session_id, after_rank, limit, max_bytes)
        )

    async def last_exchanges(self, session_id: str, count: int, max_bytes: int | None = None) -> list[ChatMessage]:
        return await self._reader.read(
            "last_exchanges", lambda db: queries.last_exchanges(db, session_id, count, max_bytes)
        )

    async def record_kpi(self, record: KpiRecord) -> None:
        await self._writer.write("record_kpi", lambda db: transactions.record_kpi(db, record))

    async def kpi_figures(self, query: KpiQuery) -> list[KpiBucket]:
        return await self._reporter.read("kpi_figures", lambda db: sqlite_kpis.kpi_figures(db, query))

    async def prove_write(self) -> None:
        await self._writer.write("prove_write", transactions.prove_write)

    async def sessions_by_id(self, after_id: str, limit: int) -> list[Session]:
        return await self._lister.read("sessions_by_id", lambda db: queries.sessions_by_id(db, after_id, limit))

    async def exchanges_by_rank(self, session_id: str, after_rank: int, limit: int) -> list[ExchangeRecord]:
        return await self._lister.read(
            "exchanges_by_rank", lambda db: queries.exchanges_by_rank(db, session_id, after_rank, limit)
        )

    async def kpi_records_by_exchange(self, after_id: str, limit: int) -> list[KpiRecord]:
        return await self._lister.read(
            "kpi_records_by_exchange", lambda db: queries.kpi_records_by_exchange(db, after_id, limit)
        )

    async def count_sessions(self, session_ids: Sequence[str]) -> Counts:
        return await self._lister.read("count_sessions", lambda db: queries.count_sessions(db, session_ids))

    async def total(self) -> Counts:
        return await self._lister.read("total", queries.total)
