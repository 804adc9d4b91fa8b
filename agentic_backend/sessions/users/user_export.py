"""UserExport: writes all of a user's data as lines of JSON, a page at a time.

Each line is a row with the name of its table; the first line says whose data these are, the last one how many rows came
before it, so that a reader sees whether anything is missing. What changes meanwhile may be in it as it was before.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pydantic_core import to_json

from agentic_backend.agents.state.readable_state import readable
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.application_records import SEARCHED
from agentic_backend.stores.records import ExchangeRecord, SessionRecord
from agentic_backend.stores.tables import (
    AUDITS,
    EXCHANGES,
    MESSAGES,
    PROMPTS,
    RECORDS_TABLES,
    SESSIONS,
    TABLES,
    Table,
    session_tables,
)

VERSION = 1
_ROWS, _BYTES = 20, 1024 * 1024
FOR_ADMINS = (AUDITS, PROMPTS)
"""The tables that only admins see: originals that modules have taken out, and the organisation's prompts."""
# What is made of a record for searches says nothing more of a person than the record.
_LEFT_OUT: dict[str, Any] = {table.name: {"row": {*SEARCHED}} for table in RECORDS_TABLES}


class UserExport:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def lines(self, user_id: str, *, for_admin: bool) -> AsyncIterator[bytes]:
        """The lines. Only `for_admin` they have what admins alone see: FOR_ADMINS, and the states of graphs, which may
        hold the same. Raises StoreUnavailable.
        """
        yield to_json({"version": VERSION, "user_id": user_id, "at": self._store.now()}) + b"\n"
        count = 0
        async for name, row in self._rows(user_id, for_admin):
            count += 1
            line = {"table": name, "row": row}
            yield to_json(line, exclude=_LEFT_OUT.get(name), inf_nan_mode="strings") + b"\n"
        yield to_json({"rows": count}) + b"\n"

    async def _rows(self, user_id: str, for_admin: bool) -> AsyncIterator[tuple[str, Any]]:
        tables = [table for table in TABLES if for_admin or table not in FOR_ADMINS]
        async for session in self._pages(SESSIONS, user_id=user_id):
            yield SESSIONS.name, session
            async for found in self._of_session(session, tables, for_admin):
                yield found
        for table in tables:
            if table.user is not None and table is not SESSIONS and not table.of_session:
                async for row in self._pages(table, user_id=user_id):
                    yield table.name, row

    async def _of_session(
        self, session: SessionRecord, tables: list[Table[Any]], for_admin: bool
    ) -> AsyncIterator[tuple[str, Any]]:
        async for message in self._messages(session):
            yield MESSAGES.name, message
        for table in session_tables():
            if table is MESSAGES or table not in tables:
                continue
            async for row in self._pages(table, session_id=session.id):
                yield table.name, row
                if table is EXCHANGES and for_admin and (kept := await self._checkpoint(row)) is not None:
                    yield "checkpoints", kept
        if for_admin:
            async for state in self._states(session.id):
                yield "session_states", state

    async def _pages(self, table: Table[Any], **whose: str) -> AsyncIterator[Any]:
        place: Any = None
        while page := await self._store.page(table, place, _ROWS, **whose):
            for row in page:
                yield row
            place = getattr(page[-1], table.order)

    async def _messages(self, session: SessionRecord) -> AsyncIterator[Any]:
        # Those that a branch shares are its ancestors', which are the user's too.
        rank = -1 if session.parent is None else session.parent.rank - 1
        while page := await self._store.messages_after(session.id, rank, _ROWS, _BYTES):
            for message in page:
                yield message
            rank = page[-1].rank

    async def _states(self, session_id: str) -> AsyncIterator[Any]:
        rank = -1
        while (found := await self._store.state_after(session_id, rank)) is not None:
            rank, packed = found
            yield {"session_id": session_id, "rank": rank, "state": await asyncio.to_thread(readable, packed)}

    async def _checkpoint(self, exchange: ExchangeRecord) -> Any:
        if exchange.checkpoint is None or (kept := await self._store.checkpoint(exchange.id)) is None:
            return None
        state = None if kept.state is None else await asyncio.to_thread(readable, kept.state)
        return {"exchange_id": exchange.id, "record": kept.record, "state": state}
