"""The REST calls that older clients know; thin adapters like those of today."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentic_backend.auth.user import User
from agentic_backend.protocol.messages import ChatMessage
from agentic_backend.sessions.session_desk import SessionDesk
from agentic_backend.settings import LimitsSettings
from agentic_backend.stores.base import SessionQuery
from agentic_backend.transports.rest_calls import RestCalls
from agentic_backend.transports.rest_errors import json_array_response, json_response
from agentic_backend.transports.rest_input import OpenSession, body_of

_PATH = "/agentic/v1/chatbot"
_PAGE = 200


class ClassicApi:
    def __init__(self, calls: RestCalls, desk: SessionDesk, limits: LimitsSettings) -> None:
        self._calls = calls
        self._desk = desk
        self._limits = limits

    def routes(self) -> list[Route]:
        calls = [
            ("POST", "/session", self._open),
            ("DELETE", "/session/{id}", self._delete),
            ("GET", "/sessions", self._list),
            ("GET", "/session/{id}/history", self._history),
        ]
        return self._calls.routes(_PATH, calls)

    async def _open(self, request: Request, user: User) -> Response:
        body = await body_of(request, OpenSession, self._limits.frame_bytes)
        return json_response(await self._desk.open(user, body.agent_id, body.title, body.chat_profile))

    async def _delete(self, request: Request, user: User) -> Response:
        await self._desk.delete(user, request.path_params["id"])
        return Response(status_code=204)

    async def _list(self, request: Request, user: User) -> Response:
        """All sessions of the caller, the last updated first."""
        page = await self._desk.page(SessionQuery(user_id=user.id, limit=_PAGE))
        sessions = page.sessions
        while page.next_cursor is not None:
            page = await self._desk.page(SessionQuery(user_id=user.id, limit=_PAGE, cursor=page.next_cursor))
            sessions += page.sessions
        return json_array_response(sessions)

    async def _history(self, request: Request, user: User) -> Response:
        """All messages of a session, by rank."""
        session_id = request.path_params["id"]
        messages: list[ChatMessage] = []
        while True:
            after_rank = messages[-1].rank if messages else -1
            _, page = await self._desk.messages(user, session_id, after_rank, _PAGE)
            messages += page
            if len(page) < _PAGE:
                return json_array_response(messages)
