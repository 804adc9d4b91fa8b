"""The calls of admins: sessions, audits, prompts and reads of all users. See AdminGate for who may call them."""

from typing import Annotated, Any, Literal

from pydantic import Field

from agentic_backend.errors import BadFrame, ExchangeNotFound, SessionNotFound
from agentic_backend.policy.admin_reads import AUDIT_KINDS, AdminReads
from agentic_backend.policy.hooks.supervised_module import ModuleHealth
from agentic_backend.protocol.messages import Session, SessionState
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.stores.base import SessionQuery
from agentic_backend.stores.protocol.trail import (
    AdminReadRecord,
    AuditRecord,
    ExtractionRecord,
    ModuleErrorRecord,
    PromptRecord,
    ToolCallRecord,
)
from agentic_backend.stores.records import SessionRecord
from agentic_backend.transports.rest.operation import PREFIX, Operation
from agentic_backend.transports.rest.query_string import Cursor, Name, PageSize, Query


class SessionOfUser(Session):
    """A session as admins see it."""

    scope: dict[str, str]

    @classmethod
    def of(cls, record: SessionRecord) -> "SessionOfUser":
        return cls(**record.shown().model_dump(), scope=record.scope)


class SessionsOfUsersView(Value):
    """A page of sessions. `next_cursor` is for the next page, and absent on the last one."""

    sessions: list[SessionOfUser]
    next_cursor: str | None = absent()


class AuditView(Value):
    """Each kind the newest first. `next_cursors` names the kinds that have more, each with its cursor."""

    session_id: str
    audit_records: list[AuditRecord] | None = absent()
    extractions: list[ExtractionRecord] | None = absent()
    tool_calls: list[ToolCallRecord] | None = absent()
    next_cursors: dict[Literal["audit_records", "extractions", "tool_calls"], str]


class PromptsView(Value):
    """The system prompts of an exchange's agents, each in sections with their sources."""

    exchange_id: str
    prompts: list[PromptRecord]


class ModulesView(Value):
    """How each module does on this instance since its start, and the last `errors` of modules on all of them."""

    modules: list[ModuleHealth]
    errors: list[ModuleErrorRecord]


class ReadsView(Value):
    """A page of reads. `next_cursor` is for the next page, and absent on the last one."""

    reads: list[AdminReadRecord]
    next_cursor: str | None = absent()


class SessionsOfUsers(Query):
    """A filter of sessions, and a page of what it finds."""

    user_id: Name | None = Field(None, description="Only sessions of this user.")
    agent_id: Name | None = Field(None, description="Only sessions with this agent.")
    state: SessionState | None = Field(None, description="Only sessions in this state.")
    limit: Annotated[int, PageSize(200)] = 50
    cursor: Cursor | None = None


class AuditPage(Query):
    kind: Literal["audit_records", "extractions", "tool_calls"] | None = Field(None, description="Only this kind.")
    limit: Annotated[int, PageSize(200)] = 50
    cursor: Cursor | None = Field(None, description="The cursor of `kind` in the page before.")


class LastErrors(Query):
    limit: Annotated[int, PageSize(200)] = 50


class PageOfReads(Query):
    user_id: Name | None = Field(None, description="Only reads by this admin.")
    subject: Name | None = Field(None, description="Only reads of this user's, session's or exchange's data.")
    limit: Annotated[int, PageSize(200)] = 50
    cursor: Cursor | None = None


class AdminApi:
    def __init__(self, reads: AdminReads) -> None:
        self._reads = reads

    def operations(self) -> list[Operation]:
        path = f"{PREFIX}/admin"
        return [
            Operation("GET", f"{path}/sessions", self.list_sessions_of_users),
            Operation("GET", f"{path}/sessions/{{id}}/audit", self.list_audit, errors=(SessionNotFound,)),
            Operation("GET", f"{path}/exchanges/{{id}}/prompt", self.get_prompts, errors=(ExchangeNotFound,)),
            Operation("GET", f"{path}/modules", self.list_modules),
            Operation("GET", f"{path}/reads", self.list_reads),
        ]

    async def list_sessions_of_users(self, query: SessionsOfUsers) -> SessionsOfUsersView:
        """The sessions of one user, or of all."""
        page = await self._reads.sessions(
            SessionQuery(
                user_id=query.user_id,
                agent_id=query.agent_id,
                state=query.state,
                limit=query.limit,
                cursor=query.cursor,
            )
        )
        sessions = [SessionOfUser.of(session) for session in page.sessions]
        return SessionsOfUsersView(sessions=sessions, next_cursor=page.next_cursor)

    async def list_audit(self, id: str, query: AuditPage) -> AuditView:
        """What modules have replaced or found in a session, and its calls of tools."""
        if query.cursor is not None and query.kind is None:
            raise BadFrame("cursor: expected a kind with it")
        kinds = [query.kind] if query.kind is not None else list(AUDIT_KINDS)
        audit = await self._reads.audit(id, kinds, query.limit, query.cursor)
        values: dict[str, Any] = {"session_id": id, "next_cursors": audit.next_cursors, **audit.records}
        # The records come from the store, so they need no validation.
        return AuditView.model_construct(**values)

    async def get_prompts(self, id: str) -> PromptsView:
        """The system prompts that the agents of an exchange were given."""
        return PromptsView(exchange_id=id, prompts=await self._reads.prompts(id))

    async def list_modules(self, query: LastErrors) -> ModulesView:
        """How each module does on this instance, and the last errors on all of them."""
        errors = await self._reads.module_errors(query.limit)
        return ModulesView(modules=list(self._reads.module_health()), errors=errors)

    async def list_reads(self, query: PageOfReads) -> ReadsView:
        """What admins have read of other users, the last read first."""
        page = await self._reads.reads(
            user_id=query.user_id, subject=query.subject, limit=query.limit, cursor=query.cursor
        )
        return ReadsView(reads=page.records, next_cursor=page.next_cursor)
