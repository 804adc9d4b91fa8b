"""Copies everything from one store to another, page by page, while no server uses either.

Run again, it copies what has changed since. A session is written last of what belongs to it, so that one that was cut
short is copied again. One that has gone on in the target is left alone there, and told.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import ChatMessage, ExchangeStatus, Session
from agentic_backend.stores.base import Checkpoint
from agentic_backend.stores.records import ExchangeRecord, KpiRecord

T = TypeVar("T")
Place = TypeVar("Place", str, int)

_SESSIONS, _ROWS = 50, 200


@dataclass(slots=True)
class Counts:
    """How many there are of each kind."""

    sessions: int = 0
    exchanges: int = 0
    messages: int = 0
    kpi_records: int = 0

    def __str__(self) -> str:
        return (
            f"{self.sessions} sessions, {self.exchanges} exchanges, {self.messages} messages, "
            f"{self.kpi_records} KPI records"
        )

    def __iadd__(self, other: "Counts") -> "Counts":
        self.sessions += other.sessions
        self.exchanges += other.exchanges
        self.messages += other.messages
        self.kpi_records += other.kpi_records
        return self


@dataclass(slots=True)
class Transferred:
    """What has been transferred: as many of each as were `found` in the source should then be `there` in the target.

    Not counted are the sessions `left_alone`, by id.
    """

    found: Counts = field(default_factory=Counts)
    there: Counts = field(default_factory=Counts)
    left_alone: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return self.found == self.there


class Source(Protocol):
    """Its pages are at most `limit` long, and begin behind what the last one ended with."""

    async def sessions_by_id(self, after_id: str, limit: int) -> list[Session]: ...

    async def session_state(self, session_id: str) -> bytes | None: ...

    async def exchanges_by_rank(self, session_id: str, after_rank: int, limit: int) -> list[ExchangeRecord]: ...

    async def checkpoint(self, exchange_id: str) -> Checkpoint | None: ...

    async def partial(self, exchange_id: str) -> list[PartialText]: ...

    async def messages_after(self, session_id: str, after_rank: int, limit: int) -> list[ChatMessage]: ...

    async def kpi_records_by_exchange(self, after_id: str, limit: int) -> list[KpiRecord]: ...

    async def count_sessions(self, session_ids: Sequence[str]) -> Counts:
        """These sessions and what belongs to them; no KPI records."""
        ...

    async def total(self) -> Counts:
        """All that there is."""
        ...


class Target(Protocol):
    async def get_session(self, session_id: str) -> Session | None: ...

    async def clear_sessions(self, session_ids: Sequence[str]) -> None:
        """Remove these sessions and whatever bears their ids; no KPI records."""
        ...

    async def copy_exchanges(self, exchanges: Sequence[ExchangeRecord]) -> None: ...

    async def copy_checkpoint(self, exchange_id: str, checkpoint: Checkpoint) -> None: ...

    async def copy_messages(self, messages: Sequence[ChatMessage]) -> None: ...

    async def copy_session(self, session: Session, state: bytes | None) -> None: ...

    async def copy_kpi_records(self, records: Sequence[KpiRecord]) -> None: ...

    async def count_sessions(self, session_ids: Sequence[str]) -> Counts: ...

    async def count_kpi_records(self, exchange_ids: Sequence[str]) -> int:
        """How many of these there are."""
        ...


async def transfer(source: Source, target: Target, report: Callable[[Counts, Counts], None]) -> Transferred:
    """Copy all that `source` has; `report` is told now and then how much is there, and how much there is in all.

    Raises StoreUnavailable.
    """
    total, done = await source.total(), Transferred()
    async for sessions in _pages(_SESSIONS, source.sessions_by_id, "", lambda session: session.id):
        there = {session.id: await target.get_session(session.id) for session in sessions}
        ahead = [session.id for session in sessions if _is_ahead(there[session.id], session)]
        await _copy_sessions(
            source, target, [each for each in sessions if each.id not in ahead and there[each.id] != each]
        )
        ids = [session.id for session in sessions if session.id not in ahead]
        done.found += await source.count_sessions(ids)
        done.there += await target.count_sessions(ids)
        done.left_alone += ahead
        report(done.there, total)
    async for records in _pages(_ROWS, source.kpi_records_by_exchange, "", lambda record: record.exchange_id):
        await target.copy_kpi_records(records)
        done.found.kpi_records += len(records)
        done.there.kpi_records += await target.count_kpi_records([record.exchange_id for record in records])
        report(done.there, total)
    return done


def _is_ahead(there: Session | None, session: Session) -> bool:
    return there is not None and (there.next_rank > session.next_rank or there.updated_at > session.updated_at)


async def _copy_sessions(source: Source, target: Target, sessions: Sequence[Session]) -> None:
    await target.clear_sessions([session.id for session in sessions])
    for session in sessions:
        exchanges, messages = partial(source.exchanges_by_rank, session.id), partial(source.messages_after, session.id)
        async for some in _pages(_ROWS, exchanges, -1, lambda exchange: exchange.first_rank):
            await target.copy_exchanges([await _with_its_partial(source, exchange) for exchange in some])
            for exchange_id in [exchange.id for exchange in some if _may_go_on(exchange)]:
                if (checkpoint := await source.checkpoint(exchange_id)) is not None:
                    await target.copy_checkpoint(exchange_id, checkpoint)
        async for rows in _pages(_ROWS, messages, -1, lambda message: message.rank):
            await target.copy_messages(rows)
        await target.copy_session(session, await source.session_state(session.id))


async def _with_its_partial(source: Source, exchange: ExchangeRecord) -> ExchangeRecord:
    """In which block a message was being written is not copied, so only text that has no message yet is."""
    if not exchange.partial:
        return exchange
    return exchange.model_copy(update={"partial": await source.partial(exchange.id)})


def _may_go_on(exchange: ExchangeRecord) -> bool:
    return exchange.checkpoint is not None and (
        not exchange.status.ended or exchange.status is ExchangeStatus.INTERRUPTED
    )


async def _pages(
    limit: int, read: Callable[[Place, int], Awaitable[list[T]]], before: Place, place_of: Callable[[T], Place]
) -> AsyncIterator[list[T]]:
    """The pages that `read` gives, from behind `before` on; `place_of` tells where each ended."""
    place = before
    while page := await read(place, limit):
        yield page
        place = place_of(page[-1])
