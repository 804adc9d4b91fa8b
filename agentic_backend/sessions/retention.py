"""Retention: deletes what the settings no longer keep, a few rows at a time: its works are chores (see housekeeping).

It does no harm if two instances do it at the same time, or if the process dies: every step can be repeated.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from agentic_backend.config.retention import RetentionSettings
from agentic_backend.protocol.messages import SessionState
from agentic_backend.sessions.session_service import SessionService
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.tables import (
    ADMIN_READS,
    AUDITS,
    EXTRACTIONS,
    KPI_RECORDS,
    MODULE_ERRORS,
    PROMPTS,
    SESSIONS,
    TOOL_CALLS,
    USAGE,
    Table,
)

_KEPT: dict[Table[Any], Callable[[RetentionSettings], float | None]] = {
    AUDITS: lambda settings: settings.audit_days,
    PROMPTS: lambda settings: settings.audit_days,
    MODULE_ERRORS: lambda settings: settings.audit_days,
    ADMIN_READS: lambda settings: settings.audit_days,
    EXTRACTIONS: lambda settings: settings.extractions_days,
    TOOL_CALLS: lambda settings: settings.tool_calls_days,
    KPI_RECORDS: lambda settings: settings.kpi_days,
    USAGE: lambda settings: settings.usage_days,
}
Work = Callable[[int], Awaitable[int]]
"""Deletes at most that many rows; returns how many it has met."""


class Retention:
    def __init__(self, store: Store, sessions: SessionService, settings: RetentionSettings) -> None:
        self._store = store
        self._sessions = sessions
        self._settings = settings

    def works(self) -> dict[str, Work]:
        """What there is to do by these settings, by the name of the rows."""
        works: dict[str, Work] = {}
        if (days := self._settings.messages_days) is not None:
            works[SESSIONS.name] = partial(self._delete_sessions, timedelta(days=days))
        for table, days_of in _KEPT.items():
            if (days := days_of(self._settings)) is not None:
                works[table.name] = partial(self._delete_rows, table, timedelta(days=days))
        return works

    async def _delete_rows(self, table: Table[Any], kept: timedelta, limit: int) -> int:
        return await self._store.delete_old(table, self._store.now() - kept, limit)

    async def _delete_sessions(self, kept: timedelta, limit: int) -> int:
        before = self._store.now() - kept
        for state in SessionState:
            if old := await self._store.idle_sessions(state, before, limit):
                for session in old:
                    await self._delete_session(session, before)
                return len(old)
        return 0

    async def _delete_session(self, session: SessionRecord, before: datetime) -> None:
        # Nothing begins in a completed session. So late a completion leaves the time of the last message as it is.
        completed = await self._store.complete_session(session.id, session.updated_at)
        if completed is None or (completed.active_exchange_id is None and completed.updated_at < before):
            await self._sessions.remove(session.id)
