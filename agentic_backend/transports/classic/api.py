"""The REST calls of older clients: thin adapters, as in `rest`."""

from collections.abc import AsyncIterator, Sequence
from datetime import date
from typing import Annotated

from pydantic import AliasChoices, ConfigDict, Field
from starlette.responses import Response

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame, SessionNotFound
from agentic_backend.protocol.frames import Id
from agentic_backend.protocol.messages import ChatMessage, Session
from agentic_backend.stores.base import SessionQuery
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.deprecation import Deprecation
from agentic_backend.transports.rest.operation import OPENING, Operation, Streamed
from agentic_backend.transports.rest.query_string import Query, WholeNumber
from agentic_backend.transports.rest.rest_errors import json_array_response
from agentic_backend.transports.rest.rest_input import OpenSession

_PATH = "/agentic/v1/chatbot"
_PAGE = 200
_NO_LIMIT = 1_000_000_000


class OpenClassicSession(OpenSession):
    """What a new session begins with.

    Unlike any other body it may have keys that mean nothing here, such as `team_id`.
    """

    model_config = ConfigDict(extra="ignore")

    agent_id: Id | None = Field(default=None, validation_alias=AliasChoices("agent_id", "agent_name"))


class PageOfHistory(Query):
    """Without both, all messages. `offset` counts from the last message."""

    limit: Annotated[int | None, WholeNumber(1, _NO_LIMIT)] = Field(
        None, description="Only so many, the last ones; without it all."
    )
    offset: Annotated[int | None, WholeNumber(0, _NO_LIMIT)] = Field(
        None, description="Leaves out so many of the last messages; expected beside `limit`."
    )


def _for(use: str) -> Deprecation:
    return Deprecation(since=date(2026, 11, 23), use=use)


class ClassicApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._sessions = services.sessions.service

    def operations(self) -> list[Operation]:
        session, found = f"{_PATH}/session/{{id}}", (SessionNotFound,)
        sessions = Streamed("application/json", list[Session])
        messages = Streamed("application/json", list[ChatMessage])
        return [
            Operation(
                "POST",
                f"{_PATH}/session",
                self.open_classic_session,
                errors=OPENING,
                deprecated=_for("POST /agentic/v1/sessions"),
            ),
            Operation(
                "DELETE",
                session,
                self.delete_classic_session,
                errors=found,
                deprecated=_for("DELETE /agentic/v1/sessions/{id}"),
            ),
            Operation(
                "GET",
                f"{_PATH}/sessions",
                self.list_classic_sessions,
                answer=sessions,
                deprecated=_for("GET /agentic/v1/sessions"),
            ),
            Operation(
                "GET",
                f"{session}/history",
                self.list_classic_history,
                answer=messages,
                errors=found,
                deprecated=_for("GET /agentic/v1/sessions/{id}/messages"),
            ),
        ]

    async def open_classic_session(self, user: User, body: OpenClassicSession) -> Session:
        """Open a session, for older clients."""
        opened = await self._sessions.open(user, body.agent_id, body.title, body.chat_profile, body.scope)
        return opened.shown()

    async def delete_classic_session(self, user: User, id: str) -> None:
        """Delete a session, for older clients."""
        await self._sessions.delete(user, id)

    async def list_classic_sessions(self, user: User) -> Response:
        """All sessions of the caller, the most recently used first, for older clients."""

        async def pages() -> AsyncIterator[Sequence[Session]]:
            cursor: str | None = None
            while True:
                page = await self._sessions.page(SessionQuery(user_id=user.id, limit=_PAGE, cursor=cursor))
                yield [session.shown() for session in page.sessions]
                cursor = page.next_cursor
                if cursor is None:
                    return

        return await json_array_response(pages())

    async def list_classic_history(self, user: User, id: str, query: PageOfHistory) -> Response:
        """The messages of a session, by rank, for older clients: all, or the last `limit` before the last `offset`."""
        begin, end = 0, _NO_LIMIT
        if query.limit is not None:
            end = max(0, (await self._sessions.get(user, id)).next_rank - (query.offset or 0))
            begin = max(0, end - query.limit)
        elif query.offset is not None:
            raise BadFrame("offset: expected beside limit")

        async def pages() -> AsyncIterator[Sequence[ChatMessage]]:
            next_rank = begin
            while True:
                count = max(1, min(_PAGE, end - next_rank))
                session, messages = await self._sessions.messages(user, id, next_rank - 1, count)
                yield await self._as_named([message for message in messages if message.rank < end])
                next_rank = messages[-1].rank + 1 if messages else session.next_rank
                if next_rank >= min(session.next_rank, end):
                    return

        return await json_array_response(pages())

    async def _as_named(self, messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
        """The messages with the ids that their exchanges' clients gave them."""
        names = await self._sessions.client_exchange_ids({message.exchange_id for message in messages})
        return [
            message.model_copy(update={"exchange_id": names[message.exchange_id]})
            if message.exchange_id in names
            else message
            for message in messages
        ]
