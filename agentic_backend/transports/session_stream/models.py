"""The bodies, query strings and answers of the session stream, beside its events and errors.

A tool is what the other doors call an agent, and the `seq` of a message is its rank.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from agentic_backend.protocol.frames import Id
from agentic_backend.protocol.messages import (
    Channel,
    ChatMessage,
    FinishReason,
    Role,
    Session,
    SessionState,
    Timestamp,
)
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart, absent, text_of
from agentic_backend.stores.protocol.trail import AuditRecord
from agentic_backend.stores.records import SessionRecord
from agentic_backend.transports.camel_case import CamelBody, CamelQuery, CamelValue
from agentic_backend.transports.rest.query_string import Cursor, Name, PageSize, WholeNumber
from agentic_backend.transports.session_stream.events import ToolCall, ToolResult


class OpenToolSession(CamelBody):
    """What a new session begins with. `submissionId` is kept with the session and shown with it."""

    tool_id: Id
    assignment_id: Id | None = None
    submission_id: Id | None = None


class SendContent(CamelBody):
    """A message. `onDisconnect`: whether the exchange stops when its stream ends before it, or goes on without it."""

    content: str = Field(min_length=1, repr=False)
    on_disconnect: Literal["cancel", "continue"] = "cancel"


class Submitted(CamelBody):
    """What was submitted; without a `submissionId`, all that belongs to the assignment."""

    assignment_id: Id
    submission_id: Id | None = None


class OpenedToolSession(CamelValue):
    """A new session with a tool."""

    id: str
    tool_id: str
    state: SessionState
    started_at: Timestamp
    assignment_id: str | None = absent()
    submission_id: str | None = absent()

    @classmethod
    def of(cls, session: SessionRecord) -> "OpenedToolSession":
        return cls(**_opened(session))


class ToolSession(OpenedToolSession):
    """A session with a tool. `messageCount` counts everything that it holds, calls of tools too."""

    ended_at: Timestamp | None = absent()
    message_count: int

    @classmethod
    def of(cls, session: SessionRecord) -> "ToolSession":
        return cls(**_opened(session), ended_at=session.ended_at, message_count=session.message_count)


def _opened(session: SessionRecord) -> dict[str, Any]:
    return {
        "id": session.id,
        "tool_id": session.agent_id,
        "state": session.state,
        "started_at": session.created_at,
        "assignment_id": session.scope.get("assignment"),
        "submission_id": session.submission_id,
    }


class ToolSessions(CamelValue):
    """A page of sessions, the most recently used first."""

    sessions: list[ToolSession]
    next_cursor: str | None = absent()


class CompletedToolSession(CamelValue):
    """A completed session."""

    id: str
    state: SessionState = Field(examples=["completed"])
    ended_at: Timestamp | None

    @classmethod
    def of(cls, session: SessionRecord | Session) -> "CompletedToolSession":
        return cls(id=session.id, state=session.state, ended_at=session.ended_at)


class CompletedToolSessions(CamelValue):
    """The sessions that a submission has completed."""

    sessions: list[CompletedToolSession]


class Cancelled(CamelValue):
    """Whether anything ran, or waited for a person."""

    cancelled: bool


class ToolSessionMessage(CamelValue):
    """A message, with its text as `content`. What was asked and answered has the channel `final`."""

    id: str
    role: Role
    content: str
    seq: int
    created_at: Timestamp
    channel: Channel
    exchange_id: str
    tool_calls: list[ToolCall] | None = absent()
    tool_result: ToolResult | None = absent()
    finish_reason: FinishReason | None = absent()

    @classmethod
    def of(cls, message: ChatMessage) -> "ToolSessionMessage":
        calls = [ToolCall.of(part) for part in message.parts if isinstance(part, ToolCallPart)]
        results = (ToolResult.of(part) for part in message.parts if isinstance(part, ToolResultPart))
        return cls(
            id=_message_id(message.session_id or "", message.rank),
            role=message.role,
            content=text_of(message.parts),
            seq=message.rank,
            created_at=message.timestamp,
            channel=message.channel,
            exchange_id=message.exchange_id,
            tool_calls=calls or None,
            tool_result=next(results, None),
            finish_reason=message.metadata.finish_reason,
        )


class ToolSessionMessages(CamelValue):
    """Messages of a session, by `seq`."""

    messages: list[ToolSessionMessage]


class ToolSessionAuditRecord(CamelValue):
    """A text that a module has replaced or blocked. `messageId` is what is stored instead.

    It is absent for the user's own message, which is the first one of its exchange.
    """

    id: str
    message_id: str | None = absent()
    exchange_id: str
    original_content: str
    redaction_module: str
    redaction_reason: str
    patterns_matched: list[str]
    action: Literal["modified", "blocked"]
    created_at: Timestamp

    @classmethod
    def of(cls, record: AuditRecord) -> "ToolSessionAuditRecord":
        return cls(
            id=record.id,
            message_id=None if record.rank is None else _message_id(record.session_id, record.rank),
            exchange_id=record.exchange_id,
            original_content=record.original,
            redaction_module=record.module,
            redaction_reason=record.reason,
            patterns_matched=record.patterns,
            action=record.action,
            created_at=record.at,
        )


class ToolSessionAudit(CamelValue):
    """What modules have replaced or blocked in a session, the newest first."""

    audit_records: list[ToolSessionAuditRecord]
    next_cursor: str | None = absent()


class ListToolSessions(CamelQuery):
    tool_id: Name | None = Field(None, description="Only sessions with this tool.")
    state: SessionState | None = Field(None, description="Only sessions in this state.")
    limit: Annotated[int, PageSize(200)] = 50
    cursor: Cursor | None = Field(None, description="The `nextCursor` of the page before.")


class PageOfToolMessages(CamelQuery):
    after_seq: Annotated[int, WholeNumber(-1, 2**53)] = Field(-1, description="Only messages with a higher `seq`.")
    limit: Annotated[int | None, WholeNumber(1, 2**53)] = Field(None, description="At most so many; else all.")


class PageOfToolAudit(CamelQuery):
    limit: Annotated[int, PageSize(200)] = 50
    cursor: Cursor | None = Field(None, description="The `nextCursor` of the page before.")


def _message_id(session_id: str, rank: int) -> str:
    return f"{session_id}:{rank}"
