"""The REST calls of older clients: thin adapters, as in `rest`."""

from collections.abc import AsyncIterator, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentic_backend.auth.user import User
from agentic_backend.protocol.messages import ChatMessage, Session
from agentic_backend.stores.base import SessionQuery
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest_calls import RestCalls
from agentic_backend.transports.rest_errors import json_array_response, json_response
from agentic_backend.transports.rest_input import OpenSession, body_of

_PATH = "/agentic/v1/chatbot"
_PAGE = 200


class ClassicApi:
    def __init__(self, calls: RestCalls, services: DoorServices) -> None:
        self._calls = calls
        self._door = services

    def routes(self) -> list[Route]:
        calls = [
            ("POST", "/session", self._open),
            ("DELETE", "/session/{id}", self._delete),
            ("GET", "/sessions", self._list),
            ("GET", "/session/{id}/history", self._history),
        ]
        return self._calls.routes(_PATH, calls)

    async def _open(self, request: Request, user: User) -> Response:
        body = await body_of(request, OpenSession, self._door.limits.frame_bytes)
        return json_response(await self._door.sessions.open(user, body.agent_id, body.title, body.chat_profile))

    async def _delete(self, request: Request, user: User) -> Response:
        await self._door.sessions.delete(user, request.path_params["id"])
        return Response(status_code=204)

    async def _list(self, request: Request, user: User) -> Response:
        """All sessions of the caller, most recently updated first."""

        async def pages() -> AsyncIterator[Sequence[Session]]:
            cursor: str | None = None
            while True:
                page = await self._door.sessions.page(SessionQuery(user_id=user.id, limit=_PAGE, cursor=cursor))
                yield [session.shown() for session in page.sessions]
                cursor = page.next_cursor
                if cursor is None:
                    return

        return await json_array_response(pages())

    async def _history(self, request: Request, user: User) -> Response:
        """All messages of a session, by rank."""
        session_id = request.path_params["id"]

        async def pages() -> AsyncIterator[Sequence[ChatMessage]]:
            next_rank = 0
            while True:
                session, messages = await self._door.sessions.messages(user, session_id, next_rank - 1, _PAGE)
                yield messages
                next_rank = messages[-1].rank + 1 if messages else session.next_rank
                if next_rank >= session.next_rank:
                    return

        return await json_array_response(pages())
