"""The call that exports one session as a file."""

from typing import Literal

from pydantic import Field
from starlette.responses import Response, StreamingResponse

from agentic_backend.auth.user import User
from agentic_backend.errors import SessionNotFound
from agentic_backend.protocol.messages import ChatMessage, Session, Timestamp
from agentic_backend.protocol.parts import Value
from agentic_backend.sessions.reading.session_export import SessionExport
from agentic_backend.sessions.session_service import SessionService
from agentic_backend.transports.calls.sessions.session_exchanges_api import ExchangeSummary
from agentic_backend.transports.rest.content_disposition import disposition_of, file_name
from agentic_backend.transports.rest.operation import PREFIX, Operation, Streamed
from agentic_backend.transports.rest.query_string import Query


class ExportFormat(Query):
    format: Literal["md", "json"] = Field("md", description="Markdown for people, or JSON for machines.")


class ExportedSession(Value):
    """A session with all of its exchanges and messages, by rank."""

    version: int = Field(examples=[1])
    at: Timestamp
    """When it was exported (RFC 3339, UTC)."""
    session: Session
    exchanges: list[ExchangeSummary]
    messages: list[ChatMessage]


_FILE = Streamed("application/json", ExportedSession, or_text="text/markdown")


class SessionExportApi:
    def __init__(self, sessions: SessionService, export: SessionExport) -> None:
        self._sessions = sessions
        self._export = export

    def operations(self) -> list[Operation]:
        path = f"{PREFIX}/sessions/{{id}}/export"
        return [Operation("GET", path, self.export_session, answer=_FILE, errors=(SessionNotFound,))]

    async def export_session(self, user: User, id: str, query: ExportFormat) -> Response:
        """One session as a file, in Markdown or in JSON."""
        session = await self._sessions.record(user, id)
        if query.format == "md":
            pieces, media_type = self._export.markdown(session), "text/markdown; charset=utf-8"
        else:
            pieces, media_type = self._export.json(user, session, ExchangeSummary.of), "application/json"
        headers = {
            "cache-control": "no-store",
            "content-disposition": disposition_of(file_name(session.title, query.format)),
        }
        return StreamingResponse(pieces, headers=headers, media_type=media_type)
