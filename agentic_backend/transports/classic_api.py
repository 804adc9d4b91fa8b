"""The REST calls of older clients: thin adapters, as in `rest`."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic import model_validator
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame
from agentic_backend.protocol.messages import ChatMessage, Session
from agentic_backend.stores.base import SessionQuery
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest_calls import RestCalls
from agentic_backend.transports.rest_errors import json_array_response, json_response
from agentic_backend.transports.rest_input import OpenSession, body_of, whole_number

_PATH = "/agentic/v1/chatbot"
_PAGE = 200
_NO_LIMIT = 1_000_000_000


class _Opening(OpenSession):
    """Unlike any other body it may have keys that mean nothing here, such as `team_id`; `agent_name` is `agent_id`."""

    @model_validator(mode="before")
    @classmethod
    def _only_known_keys(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        known = {name: value for name, value in raw.items() if name in OpenSession.model_fields}
        return {"agent_id": raw.get("agent_name")} | known


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
        body = await body_of(request, _Opening, self._door.limits.frame_bytes)
        session = await self._door.sessions.open(user, body.agent_id, body.title, body.chat_profile, body.scope)
        return json_response(session)

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
        """The messages of a session, by rank: all, or the last `limit` ones before the last `offset` ones."""
        session_id = request.path_params["id"]
        begin, end = 0, _NO_LIMIT
        offset = whole_number(request, "offset", 0, at_least=0, at_most=_NO_LIMIT)
        if "limit" in request.query_params:
            limit = whole_number(request, "limit", 0, at_least=1, at_most=_NO_LIMIT)
            end = max(0, (await self._door.sessions.get(user, session_id)).next_rank - offset)
            begin = max(0, end - limit)
        elif "offset" in request.query_params:
            raise BadFrame("offset: expected beside limit")

        async def pages() -> AsyncIterator[Sequence[ChatMessage]]:
            next_rank = begin
            while True:
                count = max(1, min(_PAGE, end - next_rank))
                session, messages = await self._door.sessions.messages(user, session_id, next_rank - 1, count)
                yield await self._as_named([message for message in messages if message.rank < end])
                next_rank = messages[-1].rank + 1 if messages else session.next_rank
                if next_rank >= min(session.next_rank, end):
                    return

        return await json_array_response(pages())

    async def _as_named(self, messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
        """The messages with the ids that their exchanges' clients gave them."""
        names = await self._door.sessions.client_exchange_ids({message.exchange_id for message in messages})
        return [
            message.model_copy(update={"exchange_id": names[message.exchange_id]})
            if message.exchange_id in names
            else message
            for message in messages
        ]
