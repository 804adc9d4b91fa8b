"""Copies everything from one store to another, page by page, while no server uses either.

A second run copies what has changed since the first. A session is written after all its rows, so the next run repeats
one that was interrupted. A target that has only sessions of others is refused. A session that is newer in the target is
left alone and reported; an item that is newer there stays, and counts as copied.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.base import Checkpoint, KeptState
from agentic_backend.stores.records import AttachmentRecord, AttachmentState, ExchangeRecord, SessionRecord
from agentic_backend.stores.tables import (
    ATTACHMENTS,
    DELETIONS,
    EXCHANGES,
    FEEDBACK,
    PARTIAL_PIECES,
    RECORDS_TABLES,
    SESSION_APPLICATION_RECORDS,
    SESSIONS,
    SHARES,
    TABLES,
    Table,
    is_trail,
    session_tables,
)

R = TypeVar("R")
Place = str | int
"""A row's place in the pages: its value in the table's `order` column."""

SESSIONS_PER_PAGE, ROWS_PER_PAGE = 50, 200
_RARE = (ATTACHMENTS, PARTIAL_PIECES, *RECORDS_TABLES, DELETIONS)
"""Told of in reports only where there are some."""
_LOOSE: tuple[Table[Any], ...] = (SESSION_APPLICATION_RECORDS, FEEDBACK, SHARES)
"""The tables whose rows change while their session stays as it is."""


class Counts(Counter[str]):
    """Numbers of rows, by the name of their table."""

    def __str__(self) -> str:
        shown = [table for table in TABLES if self[table.name] or not (is_trail(table) or table in _RARE)]
        return ", ".join(f"{self[table.name]} {table.label}" for table in shown)


@dataclass(slots=True)
class Transferred:
    """The result of a transfer: rows `found` in the source, and rows `there` in the target, which should be equal.

    The sessions `left_alone`, by id, are not counted.
    """

    found: Counts = field(default_factory=Counts)
    there: Counts = field(default_factory=Counts)
    left_alone: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return self.found == self.there


class TargetOfOthers(Exception):
    """The target has sessions, and none of them is from the source."""


class Source(Protocol):
    async def get_session(self, session_id: str) -> SessionRecord | None: ...

    async def application_record_kinds(self) -> Mapping[str, int]: ...

    async def open_application_records(self) -> None: ...

    async def complete_rows(self, session_ids: Sequence[str]) -> None:
        """Complete what dead writers have begun in these sessions, so that all rows that are there count."""
        ...

    async def page(self, table: Table[R], after: Place | None, limit: int, session_id: str | None = None) -> list[R]:
        """At most `limit` rows behind `after` in the table's order, of all sessions or of this one."""
        ...

    async def session_states(self, session_id: str) -> list[KeptState]:
        """The session's states, by rank."""
        ...

    async def checkpoint(self, exchange_id: str) -> Checkpoint | None: ...

    def attachment_content(self, attachment_id: str) -> AsyncIterator[bytes]: ...

    async def count_rows(self, session_ids: Sequence[str]) -> Counts:
        """The numbers of these sessions and of their rows."""
        ...

    async def total(self) -> Counts:
        """The numbers of all rows."""
        ...


class Target(Protocol):
    async def open_application_records(self) -> None: ...

    async def begin_copies(self) -> None:
        """Take rows of sessions that are not there yet from now on."""
        ...

    async def get_session(self, session_id: str) -> SessionRecord | None: ...

    async def page(
        self, table: Table[R], after: Place | None, limit: int, session_id: str | None = None
    ) -> list[R]: ...

    async def clear_sessions(self, session_ids: Sequence[str]) -> None:
        """Delete these sessions and their rows."""
        ...

    async def copy(self, table: Table[R], records: Sequence[R]) -> None:
        """Insert the records; those that belong to no session replace rows with the same keys, unless these have been
        updated later.
        """
        ...

    async def copy_checkpoint(self, exchange_id: str, checkpoint: Checkpoint) -> None: ...

    async def get_attachments(self, ids: Sequence[str]) -> list[AttachmentRecord]: ...

    async def put_content(self, attachment_id: str, name: str, content: AsyncIterator[bytes]) -> None:
        """Store the content of an attachment, in place of what is there of it."""
        ...

    async def copy_session(self, session: SessionRecord, states: Sequence[KeptState]) -> None: ...

    async def count_rows(self, session_ids: Sequence[str]) -> Counts: ...

    async def count_among(self, table: Table[R], records: Sequence[R]) -> int:
        """The number of these records in the target; the table's key must be one column."""
        ...


async def transfer(source: Source, target: Target, report: Callable[[Counts, Counts], None]) -> Transferred:
    """Copy everything from `source`; call `report` now and then with the rows in the target and the total.

    Raises StoreUnavailable, and TargetOfOthers.
    """
    if await _is_of_others(source, target):
        raise TargetOfOthers
    await target.begin_copies()
    if await source.application_record_kinds():
        for store in (source, target):
            await store.open_application_records()
    total, done = await source.total(), Transferred()
    async for sessions in _pages(source, SESSIONS, SESSIONS_PER_PAGE):
        await source.complete_rows([session.id for session in sessions])
        there = {session.id: await target.get_session(session.id) for session in sessions}
        ahead = [session.id for session in sessions if _is_ahead(there[session.id], session)]
        await _copy_sessions(
            source,
            target,
            [
                each
                for each in sessions
                if each.id not in ahead and (there[each.id] != each or not await _has_the_same(source, target, each.id))
            ],
        )
        ids = [session.id for session in sessions if session.id not in ahead]
        done.found += await source.count_rows(ids)
        done.there += await target.count_rows(ids)
        done.left_alone += ahead
        report(done.there, total)
    for table in TABLES:
        if table is not SESSIONS and not table.of_session:
            async for records in _pages(source, table, ROWS_PER_PAGE):
                if table is ATTACHMENTS:
                    await _copy_contents(source, target, records)
                await target.copy(table, records)
                done.found[table.name] += len(records)
                done.there[table.name] += await target.count_among(table, records)
                report(done.there, total)
    return done


async def _is_of_others(source: Source, target: Target) -> bool:
    """Looks at some sessions of each: a target that an earlier run has begun has those of the source."""
    there = await target.page(SESSIONS, None, SESSIONS_PER_PAGE)
    for session in there:
        if await source.get_session(session.id) is not None:
            return False
    # Many may have begun in the target since.
    for session in await source.page(SESSIONS, None, SESSIONS_PER_PAGE) if there else []:
        if await target.get_session(session.id) is not None:
            return False
    return bool(there)


def _is_ahead(there: SessionRecord | None, session: SessionRecord) -> bool:
    """Whether the session in the target has gone on. A reset and a first name move neither rank nor time."""
    return there is not None and (
        there.next_rank > session.next_rank
        or there.updated_at > session.updated_at
        or _reset_at(there) > _reset_at(session)
        or (bool(session.unnamed) and there.unnamed is False)
    )


async def _has_the_same(source: Source, target: Target, session_id: str) -> bool:
    """Whether the rows of a session that change while it stays are the same in both."""
    for table in _LOOSE:
        place: Place | None = None
        while True:
            here = await source.page(table, place, ROWS_PER_PAGE, session_id)
            if here != await target.page(table, place, ROWS_PER_PAGE, session_id):
                return False
            if len(here) < ROWS_PER_PAGE:
                break
            place = getattr(here[-1], table.order)
    return True


def _reset_at(session: SessionRecord) -> int:
    return -1 if session.reset_rank is None else session.reset_rank


async def _copy_sessions(source: Source, target: Target, sessions: Sequence[SessionRecord]) -> None:
    await target.clear_sessions([session.id for session in sessions])
    for session in sessions:
        async for exchanges in _pages(source, EXCHANGES, ROWS_PER_PAGE, session.id):
            await target.copy(EXCHANGES, exchanges)
            for exchange_id in [exchange.id for exchange in exchanges if _may_go_on(exchange)]:
                if (checkpoint := await source.checkpoint(exchange_id)) is not None:
                    await target.copy_checkpoint(exchange_id, checkpoint)
        for table in session_tables():
            if table is not EXCHANGES:
                async for records in _pages(source, table, ROWS_PER_PAGE, session.id):
                    await target.copy(table, records)
        await target.copy_session(session, await source.session_states(session.id))


async def _copy_contents(source: Source, target: Target, attachments: Sequence[AttachmentRecord]) -> None:
    """Before their rows, so that what the target has as kept is there; contents never change."""
    there = {each.id for each in await target.get_attachments([each.id for each in attachments])}
    for each in attachments:
        if each.id not in there and each.state is AttachmentState.KEPT:
            await target.put_content(each.id, each.name, source.attachment_content(each.id))


def _may_go_on(exchange: ExchangeRecord) -> bool:
    return exchange.checkpoint is not None and (
        not exchange.status.ended or exchange.status is ExchangeStatus.INTERRUPTED
    )


async def _pages(source: Source, table: Table[R], limit: int, session_id: str | None = None) -> AsyncIterator[list[R]]:
    """All rows of the table, or those of one session, page by page."""
    place: Place | None = None
    while page := await source.page(table, place, limit, session_id):
        yield page
        place = getattr(page[-1], table.order)
