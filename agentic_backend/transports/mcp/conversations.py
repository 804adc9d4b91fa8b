"""The conversations that a client may read as resources: its user's own ones, and those that others have shared."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from agentic_backend.auth.user import User
from agentic_backend.errors import AgenticError, BadFrame, NotFound
from agentic_backend.protocol.events import ErrorInfo
from agentic_backend.sessions.reading.markdown_transcript import MarkdownTranscript
from agentic_backend.stores.base import SessionQuery
from agentic_backend.stores.records import SessionRecord
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.mcp.messages import NO_SUCH_RESOURCE, REFUSED, Json, RpcError, RpcErrorData

_SESSIONS, _SHARES = "agentic://sessions/", "agentic://shares/"
_MARKDOWN = "text/markdown"
_PAGE = 50
_MOST_BYTES = 1024 * 1024
_LONGEST_URI = 512
_CUT = b"\n\n(The rest is left out: it is too long.)\n"

TEMPLATES: list[Json] = [
    {
        "uriTemplate": f"{_SESSIONS}{{id}}",
        "name": "session",
        "title": "A conversation of yours",
        "description": "What was said in one of your conversations on this server.",
        "mimeType": _MARKDOWN,
    },
    {
        "uriTemplate": f"{_SHARES}{{secret}}",
        "name": "share",
        "title": "A conversation that somebody has shared",
        "description": "What a link to a conversation shows; `secret` is its end, after `#share/`.",
        "mimeType": _MARKDOWN,
    },
]


class Conversations:
    def __init__(self, services: DoorServices) -> None:
        self._agents = services.agents
        self._sessions = services.sessions.service
        self._export = services.sessions.session_export
        self._sharing = services.sessions.sharing

    async def list(self, user: User, params: Json) -> Json:
        """The user's conversations, the last used first."""
        cursor = params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise BadFrame("params.cursor: expected a text")
        page = await self._sessions.page(SessionQuery(user_id=user.id, limit=_PAGE, cursor=cursor))
        listed: Json = {"resources": [self._listed(session) for session in page.sessions]}
        return listed if page.next_cursor is None else {**listed, "nextCursor": page.next_cursor}

    async def read(self, user: User, params: Json) -> Json:
        """A conversation in Markdown, its first MiB. Raises RpcError."""
        uri = params.get("uri")
        if not isinstance(uri, str) or len(uri) > _LONGEST_URI:
            raise BadFrame("params.uri: expected a text of at most 512 characters")
        try:
            text = await _bounded(self._pieces(user, uri))
        except AgenticError as error:
            info = RpcErrorData.of(ErrorInfo.of(error, current_origin().request_id))
            raise RpcError(NO_SUCH_RESOURCE if error.http_status == 404 else REFUSED, error.content, info) from None
        return {"contents": [{"uri": uri, "mimeType": _MARKDOWN, "text": text}]}

    async def _pieces(self, user: User, uri: str) -> AsyncGenerator[bytes, None]:
        if uri.startswith(_SESSIONS):
            async for piece in self._export.markdown(await self._sessions.record(user, uri.removeprefix(_SESSIONS))):
                yield piece
        elif uri.startswith(_SHARES):
            async for piece in self._shared(user, uri.removeprefix(_SHARES)):
                yield piece
        else:
            raise NotFound("There is no such resource.")

    async def _shared(self, user: User, secret: str) -> AsyncGenerator[bytes, None]:
        transcript, rank = MarkdownTranscript(self._agents.name_of), -1
        while True:
            page = await self._sharing.read(user, secret, rank, _PAGE)
            if rank < 0:
                yield transcript.heading(page.session, page.share.at).encode()
            yield transcript.messages(page.messages)
            if page.next_after_rank is None:
                return
            rank = page.next_after_rank

    def _listed(self, session: SessionRecord) -> Json:
        return {
            "uri": f"{_SESSIONS}{session.id}",
            "name": session.id,
            "title": session.title,
            "description": f"A conversation with {self._agents.name_of(session.agent_id)}.",
            "mimeType": _MARKDOWN,
        }


async def _bounded(pieces: AsyncGenerator[bytes, None]) -> str:
    text = bytearray()
    async with aclosing(pieces):
        async for piece in pieces:
            text += piece
            if len(text) > _MOST_BYTES:
                return (bytes(text[:_MOST_BYTES]) + _CUT).decode(errors="ignore")
    return text.decode()
