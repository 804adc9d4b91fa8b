"""The REST calls of the session stream: thin adapters to SessionService, SessionOrchestrator and AdminReads."""

from collections.abc import AsyncIterator, Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from agentic_backend.auth.user import User
from agentic_backend.errors import SessionNotFound
from agentic_backend.protocol.parts import TextPart
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.stores.base import SessionQuery
from agentic_backend.stores.protocol.trail import AuditRecord
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import ASKING, OPENING, Operation, Streamed
from agentic_backend.transports.rest.rest_errors import json_array_response
from agentic_backend.transports.rest.rest_input import NoFields
from agentic_backend.transports.session_stream.errors import SessionStreamError
from agentic_backend.transports.session_stream.events import StreamEvent
from agentic_backend.transports.session_stream.models import (
    Cancelled,
    CompletedToolSession,
    CompletedToolSessions,
    ListToolSessions,
    OpenedToolSession,
    OpenToolSession,
    PageOfToolAudit,
    PageOfToolMessages,
    SendContent,
    Submitted,
    ToolSession,
    ToolSessionAudit,
    ToolSessionAuditRecord,
    ToolSessionMessage,
    ToolSessionMessages,
    ToolSessions,
)
from agentic_backend.transports.session_stream.renderer import SessionStreamRenderer
from agentic_backend.transports.sse import EventStream, ask_streamed

_PAGE = 200
_AUDIT = "audit_records"
_operation = partial(Operation, error_form=SessionStreamError)


class SessionStreamApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._sessions = services.sessions.service

    def operations(self) -> list[Operation]:
        path, found = "/sessions/{id}", (SessionNotFound,)
        messages = Streamed("application/json", ToolSessionMessages)
        events = Streamed("text/event-stream", StreamEvent)
        return [
            _operation("POST", "/sessions", self.open_tool_session, status=201, errors=OPENING),
            _operation("GET", "/sessions", self.list_tool_sessions),
            _operation("GET", path, self.get_tool_session, errors=found),
            _operation(
                "POST",
                f"{path}/messages",
                self.send_to_tool_session,
                answer=events,
                errors=ASKING,
                refused_as="ask",
            ),
            _operation("GET", f"{path}/messages", self.list_tool_messages, answer=messages, errors=found),
            _operation("POST", f"{path}/complete", self.complete_tool_session, errors=found),
            _operation("POST", "/submissions", self.submit_assignment),
            _operation("POST", f"{path}/cancel", self.cancel_tool_session, errors=found),
            _operation("GET", f"/admin{path}/audit", self.list_tool_audit, errors=found),
        ]

    async def open_tool_session(self, user: User, body: OpenToolSession) -> OpenedToolSession:
        """Open a session with a tool."""
        scope = {} if body.assignment_id is None else {"assignment": body.assignment_id}
        submission_id = body.submission_id
        opened = await self._sessions.open(user, body.tool_id, None, None, scope, submission_id=submission_id)
        return OpenedToolSession.of(opened)

    async def list_tool_sessions(self, user: User, query: ListToolSessions) -> ToolSessions:
        """The caller's sessions, the most recently used first: the first active one is to be continued."""
        page = await self._sessions.page(
            SessionQuery(
                user_id=user.id, agent_id=query.tool_id, state=query.state, limit=query.limit, cursor=query.cursor
            )
        )
        return ToolSessions(
            sessions=[ToolSession.of(session) for session in page.sessions], next_cursor=page.next_cursor
        )

    async def get_tool_session(self, user: User, id: str) -> ToolSession:
        """One session."""
        return ToolSession.of(await self._sessions.record(user, id))

    async def send_to_tool_session(self, request: Request, user: User, id: str, body: SendContent) -> EventStream:
        """Send a message; the answer is streamed. The same content sent twice is two messages."""
        turn, request_id = Turn(parts=[TextPart(text=body.content)], session_id=id), current_origin().request_id
        renderer, stops = SessionStreamRenderer(request_id), body.on_disconnect == "cancel"
        return await ask_streamed(self._door, request, user, turn, renderer, request_id, stops_with_client=stops)

    async def list_tool_messages(self, user: User, id: str, query: PageOfToolMessages) -> Response:
        """The messages of a session, by `seq`."""

        async def pages() -> AsyncIterator[Sequence[ToolSessionMessage]]:
            after, left = query.after_seq, query.limit
            while True:
                count = _PAGE if left is None else min(_PAGE, left)
                session, messages = await self._sessions.messages(user, id, after, count)
                yield [ToolSessionMessage.of(message) for message in messages]
                left = None if left is None else left - len(messages)
                if not messages or left == 0 or messages[-1].rank + 1 >= session.next_rank:
                    return
                after = messages[-1].rank

        return await json_array_response(pages(), name="messages")

    async def complete_tool_session(self, user: User, id: str, body: NoFields) -> CompletedToolSession:
        """Stop what runs in a session, and complete it: no more is asked in it. Answers when it has stopped."""
        return CompletedToolSession.of(await self._sessions.complete(user, id))

    async def submit_assignment(self, user: User, body: Submitted) -> CompletedToolSessions:
        """Complete the caller's active sessions of an assignment, which is submitted. What runs in them is stopped."""
        completed = await self._sessions.complete_submitted(user, body.assignment_id, body.submission_id)
        return CompletedToolSessions(sessions=[CompletedToolSession.of(session) for session in completed])

    async def cancel_tool_session(self, user: User, id: str, body: NoFields) -> Cancelled:
        """Stop what runs in a session, on whichever instance. Answers when it has stopped."""
        return Cancelled(cancelled=await self._sessions.cancel(user, id))

    async def list_tool_audit(self, id: str, query: PageOfToolAudit) -> ToolSessionAudit:
        """What modules have replaced or blocked in a session, the newest first. For admins."""
        audit = await self._door.sessions.admin_reads.audit(id, [_AUDIT], query.limit, query.cursor)
        records = [ToolSessionAuditRecord.of(each) for each in audit.records[_AUDIT] if isinstance(each, AuditRecord)]
        return ToolSessionAudit(audit_records=records, next_cursor=audit.next_cursors.get(_AUDIT))
