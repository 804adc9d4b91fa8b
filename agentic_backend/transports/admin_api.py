"""The calls of admins: sessions, audits, prompts and reads of all users. See AdminGate for who may call them."""

from typing import Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame
from agentic_backend.policy.admin_reads import AUDIT_KINDS, AdminReads
from agentic_backend.policy.supervised_module import ModuleHealth
from agentic_backend.protocol.messages import Session
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.stores.base import SessionQuery
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.trail import (
    AdminReadRecord,
    AuditRecord,
    ExtractionRecord,
    ModuleErrorRecord,
    PromptRecord,
    ToolCallRecord,
)
from agentic_backend.transports.admin_gate import ADMIN_PREFIX
from agentic_backend.transports.rest_calls import RestCalls
from agentic_backend.transports.rest_errors import json_response
from agentic_backend.transports.rest_input import session_state, whole_number


class SessionOfUser(Session):
    """A session as admins see it."""

    scope: dict[str, str]

    @classmethod
    def of(cls, record: SessionRecord) -> "SessionOfUser":
        return cls(**record.shown().model_dump(), scope=record.scope)


class SessionsOfUsersView(Value):
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
    reads: list[AdminReadRecord]
    next_cursor: str | None = absent()


class AdminApi:
    def __init__(self, calls: RestCalls, reads: AdminReads) -> None:
        self._calls = calls
        self._reads = reads

    def routes(self) -> list[Route]:
        calls = [
            ("GET", "sessions", self._sessions),
            ("GET", "sessions/{id}/audit", self._audit),
            ("GET", "exchanges/{id}/prompt", self._prompt),
            ("GET", "modules", self._modules),
            ("GET", "reads", self._list_reads),
        ]
        return self._calls.routes(ADMIN_PREFIX, calls)

    async def _sessions(self, request: Request, user: User) -> Response:
        query = SessionQuery(
            user_id=_named(request, "user_id"),
            agent_id=_named(request, "agent_id"),
            state=session_state(request),
            limit=_limit(request),
            cursor=_named(request, "cursor"),
        )
        page = await self._reads.sessions(query)
        sessions = [SessionOfUser.of(session) for session in page.sessions]
        return json_response(SessionsOfUsersView(sessions=sessions, next_cursor=page.next_cursor))

    async def _audit(self, request: Request, user: User) -> Response:
        kind, cursor = _named(request, "kind"), _named(request, "cursor")
        if kind is not None and kind not in AUDIT_KINDS:
            raise BadFrame(f"kind: expected one of {', '.join(AUDIT_KINDS)}")
        if cursor is not None and kind is None:
            raise BadFrame("cursor: expected a kind with it")
        session_id, kinds = request.path_params["id"], [kind] if kind is not None else list(AUDIT_KINDS)
        audit = await self._reads.audit(session_id, kinds, _limit(request), cursor)
        values = {"session_id": session_id, "next_cursors": audit.next_cursors, **audit.records}
        # The records come from the store, so they need no validation.
        return json_response(AuditView.model_construct(**values))

    async def _prompt(self, request: Request, user: User) -> Response:
        exchange_id = request.path_params["id"]
        return json_response(PromptsView(exchange_id=exchange_id, prompts=await self._reads.prompts(exchange_id)))

    async def _modules(self, request: Request, user: User) -> Response:
        health, errors = self._reads.module_health(), await self._reads.module_errors(_limit(request))
        return json_response(ModulesView(modules=list(health), errors=errors))

    async def _list_reads(self, request: Request, user: User) -> Response:
        page = await self._reads.reads(
            user_id=_named(request, "user_id"),
            subject=_named(request, "subject"),
            limit=_limit(request),
            cursor=_named(request, "cursor"),
        )
        return json_response(ReadsView(reads=page.records, next_cursor=page.next_cursor))


def _named(request: Request, name: str) -> str | None:
    return request.query_params.get(name) or None


def _limit(request: Request) -> int:
    return whole_number(request, "limit", 50, at_least=1, at_most=200)
