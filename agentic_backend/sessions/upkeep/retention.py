"""Retention: deletes what the settings no longer keep, a few rows at a time, as chores (see housekeeping).

It does no harm if two instances do it at the same time, or if the process dies: every step can be repeated.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from agentic_backend.config.topics.sessions import RetentionSettings
from agentic_backend.errors import SessionNotFound
from agentic_backend.protocol.messages import SessionState
from agentic_backend.sessions.session_ends import EndReason, SessionEnds
from agentic_backend.sessions.session_service import SessionService
from agentic_backend.sessions.upkeep.housekeeping import Chore
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.tables import (
    ADMIN_READS,
    AUDITS,
    EXTRACTIONS,
    KPI_RECORDS,
    MODULE_ERRORS,
    PROMPTS,
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


class Retention:
    def __init__(
        self,
        store: Store,
        ends: SessionEnds,
        sessions: SessionService,
        settings: RetentionSettings,
        counted_since: Callable[[], datetime | None],
    ) -> None:
        """`counted_since` says from when on budgets count the usage (see Budgets), which is kept."""
        self._store = store
        self._ends = ends
        self._sessions = sessions
        self._settings = settings
        self._counted_since = counted_since

    def chores(self) -> list[Chore]:
        """What there is to do by these settings."""
        chores: list[Chore] = []
        if (days := self._settings.messages_days) is not None:
            chores.append(Chore("retention_sessions", partial(self._delete_sessions, timedelta(days=days))))
        for table, days_of in _KEPT.items():
            if (days := days_of(self._settings)) is not None:
                work = partial(self._delete_rows, table, timedelta(days=days))
                chores.append(Chore(f"retention_{table.name}", work))
        return chores

    async def _delete_rows(self, table: Table[Any], kept: timedelta, limit: int) -> int:
        before = self._store.now() - kept
        if table is USAGE and (since := self._counted_since()) is not None:
            before = min(before, since)
        return await self._store.delete_old(table, before, limit)

    async def _delete_sessions(self, kept: timedelta, limit: int) -> int:
        before = self._store.now() - kept
        old = await self._store.idle_families(before, limit)
        for root in old:
            await self._delete_family(root, before)
        return len(old)

    async def _delete_family(self, root: SessionRecord, before: datetime) -> None:
        """Delete a session and its branches, which live as long as the last updated one."""
        with suppress(SessionNotFound):
            for session in await self._store.family(root.id):
                # Nothing begins in a completed session; if one has gone on meanwhile, all stay.
                ended = await self._ends.end(session.id, EndReason.DELETED, None, idle_since=before)
                if ended.state is not SessionState.COMPLETED:
                    return
            await self._sessions.remove(root.user_id, root.id)
