"""AdminReads: what admins read of all users' data. Each read is recorded before anything is read.

It checks no role: the transport does (see `transports.admin_gate`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

from agentic_backend.errors import ExchangeNotFound, SessionNotFound
from agentic_backend.policy.hooks.supervised_module import ModuleHealth
from agentic_backend.stores.base import SessionPage, SessionQuery, Store
from agentic_backend.stores.protocol.trail import (
    AdminReadRecord,
    AuditRecord,
    ExtractionRecord,
    FeedbackRecord,
    ModuleErrorRecord,
    PromptRecord,
    ToolCallRecord,
    TrailPage,
    TrailQuery,
    TrailRecord,
)

R = TypeVar("R", bound=TrailRecord)

AUDIT_KINDS: dict[str, type[AuditRecord] | type[ExtractionRecord] | type[ToolCallRecord]] = {
    "audit_records": AuditRecord,
    "extractions": ExtractionRecord,
    "tool_calls": ToolCallRecord,
}
"""The kinds of records of a session's audit, by their names in the answer."""

_PROMPTS_AT_MOST = 100
_LONGEST_TEXT = 500


@dataclass(frozen=True, slots=True)
class SessionAudit:
    """Records of a session by the names of AUDIT_KINDS, the newest first, and the cursors of the kinds with more."""

    records: dict[str, Sequence[TrailRecord]]
    next_cursors: dict[str, str]


class AdminReads:
    def __init__(self, store: Store, module_health: Callable[[], Sequence[ModuleHealth]] = tuple) -> None:
        self._store = store
        self.module_health = module_health
        """How each module does on this instance."""

    async def note(self, admin_id: str, path: str, subject: str | None) -> None:
        """Record that the admin reads `path`. Raises StoreUnavailable: nothing may be read then."""
        request_id = uuid4().hex
        record = AdminReadRecord(
            id=request_id,
            at=self._store.now(),
            user_id=admin_id,
            request_id=request_id,
            path=path[:_LONGEST_TEXT],
            subject=subject and subject[:_LONGEST_TEXT],
        )
        await self._store.add_trail([record])

    async def reads(
        self, *, user_id: str | None, subject: str | None, limit: int, cursor: str | None
    ) -> TrailPage[AdminReadRecord]:
        """What admins have read, the newest first. Raises BadFrame if the cursor is invalid."""
        given = {"user_id": user_id, "subject": subject}
        where = {name: value for name, value in given.items() if value is not None}
        return await self._store.trail(TrailQuery(AdminReadRecord, where, limit=limit, cursor=cursor))

    async def sessions(self, query: SessionQuery) -> SessionPage:
        """Sessions of all users, or of the query's. Raises BadFrame if the cursor is invalid."""
        return await self._store.list_sessions(query)

    async def audit(self, session_id: str, kinds: Sequence[str], limit: int, cursor: str | None) -> SessionAudit:
        """At most `limit` records of each of `kinds`; `cursor` is for one kind. Raises SessionNotFound, BadFrame."""
        if await self._store.get_session(session_id) is None:
            raise SessionNotFound
        records: dict[str, Sequence[TrailRecord]] = {}
        cursors: dict[str, str] = {}
        for kind in kinds:
            query = TrailQuery(AUDIT_KINDS[kind], {"session_id": session_id}, limit=limit, cursor=cursor)
            page = await self._store.trail(query)
            records[kind] = page.records
            if page.next_cursor is not None:
                cursors[kind] = page.next_cursor
        return SessionAudit(records, cursors)

    async def feedback(self, where: Mapping[str, str], limit: int, cursor: str | None) -> TrailPage[FeedbackRecord]:
        """What users say of answers, where the fields have these values, the newest first. Raises BadFrame."""
        return await self._store.trail(TrailQuery(FeedbackRecord, where, limit=limit, cursor=cursor))

    async def prompts(self, exchange_id: str) -> list[PromptRecord]:
        """The system prompts of an exchange's agents, in the order of time. Raises ExchangeNotFound."""
        if await self._store.get_exchange(exchange_id) is None:
            raise ExchangeNotFound
        query = TrailQuery(PromptRecord, {"exchange_id": exchange_id}, limit=_PROMPTS_AT_MOST)
        return (await self._store.trail(query)).records[::-1]

    async def module_errors(self, limit: int) -> list[ModuleErrorRecord]:
        """The last failures of modules, the newest first."""
        return (await self._store.trail(TrailQuery(ModuleErrorRecord, limit=limit))).records
