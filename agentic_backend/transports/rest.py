"""The REST calls: thin adapters from requests to SessionService and SessionOrchestrator."""

import unicodedata
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.auth.user import User
from agentic_backend.config.chat_profiles import ChatProfiles
from agentic_backend.errors import BadFrame
from agentic_backend.protocol.frames import Frame
from agentic_backend.protocol.messages import (
    ChatMessage,
    Session,
    SessionState,
    Timestamp,
)
from agentic_backend.protocol.parts import TextPart, Value, absent
from agentic_backend.sessions.turn import Turn
from agentic_backend.stores.base import SessionQuery
from agentic_backend.transports.credentials import seconds_left, tokens_of
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest_calls import RestCalls
from agentic_backend.transports.rest_errors import json_response
from agentic_backend.transports.rest_input import (
    OpenSession,
    RenameSession,
    SendMessage,
    body_of,
    session_state,
    whole_number,
)
from agentic_backend.transports.sse import EventStream, exchange_events

PREFIX = "/agentic/v1"
_LONGEST_SEARCH = 200


class AgentView(Value):
    id: str
    name: str
    description: str
    tags: list[str]
    starters: list[str]
    tools: list[str]
    default: bool


class ChatProfileView(Value):
    """A chat profile that a client may name. An agent's sessions have the agent's own unless one is named."""

    name: str
    description: str
    default: bool


class AgentsView(Value):
    agents: list[AgentView]
    chat_profiles: list[ChatProfileView]


class SessionsView(Value):
    sessions: list[Session]
    next_cursor: str | None = absent()


class MessagesView(Value):
    messages: list[ChatMessage]
    next_rank: int


class CompletedView(Value):
    id: str
    state: SessionState
    ended_at: Timestamp | None


class CancelledView(Value):
    cancelled: bool


class RestApi:
    def __init__(self, calls: RestCalls, services: DoorServices) -> None:
        self._calls = calls
        self._door = services

    def routes(self) -> list[Route]:
        calls = [
            ("GET", "/agents", self._list_agents),
            ("POST", "/sessions", self._open),
            ("GET", "/sessions", self._list_sessions),
            ("GET", "/sessions/{id}", self._get),
            ("PATCH", "/sessions/{id}", self._rename),
            ("DELETE", "/sessions/{id}", self._delete),
            ("DELETE", "/sessions/{id}/state", self._reset_state),
            ("GET", "/sessions/{id}/messages", self._messages),
            ("POST", "/sessions/{id}/messages", self._send),
            ("POST", "/sessions/{id}/complete", self._complete),
            ("POST", "/sessions/{id}/cancel", self._cancel),
        ]
        return self._calls.routes(PREFIX, calls)

    async def _list_agents(self, request: Request, user: User) -> Response:
        agents = self._door.agents.served_for(user)
        default = self._door.agents.get(None, user) if agents else None
        shown = [_agent_view(agent, agent is default) for agent in agents]
        return json_response(AgentsView(agents=shown, chat_profiles=_profile_views(self._door.sessions.chat_profiles)))

    async def _open(self, request: Request, user: User) -> Response:
        body = await body_of(request, OpenSession, self._door.limits.frame_bytes)
        session = await self._door.sessions.open(user, body.agent_id, body.title, body.chat_profile, body.scope)
        return json_response(session, 201)

    async def _list_sessions(self, request: Request, user: User) -> Response:
        text = request.query_params.get("q")
        if text is not None and (len(text) > _LONGEST_SEARCH or any(map(_is_control, text))):
            raise BadFrame(f"q: expected at most {_LONGEST_SEARCH} characters, and no control characters")
        query = SessionQuery(
            user_id=user.id,
            agent_id=request.query_params.get("agent_id") or None,
            state=session_state(request),
            text=text or None,
            limit=whole_number(request, "limit", 50, at_least=1, at_most=200),
            cursor=request.query_params.get("cursor") or None,
        )
        page = await self._door.sessions.page(query)
        sessions = [session.shown() for session in page.sessions]
        return json_response(SessionsView(sessions=sessions, next_cursor=page.next_cursor))

    async def _get(self, request: Request, user: User) -> Response:
        return json_response(await self._door.sessions.get(user, request.path_params["id"]))

    async def _rename(self, request: Request, user: User) -> Response:
        body = await body_of(request, RenameSession, self._door.limits.frame_bytes)
        return json_response(await self._door.sessions.rename(user, request.path_params["id"], body.title))

    async def _delete(self, request: Request, user: User) -> Response:
        await self._door.sessions.delete(user, request.path_params["id"])
        return Response(status_code=204)

    async def _reset_state(self, request: Request, user: User) -> Response:
        await self._door.sessions.reset_state(user, request.path_params["id"])
        return Response(status_code=204)

    async def _messages(self, request: Request, user: User) -> Response:
        after_rank = whole_number(request, "after_rank", -1, at_least=-1, at_most=2**53)
        limit = whole_number(request, "limit", 200, at_least=1, at_most=1_000)
        session, messages = await self._door.sessions.messages(user, request.path_params["id"], after_rank, limit)
        return json_response(MessagesView(messages=messages, next_rank=session.next_rank))

    async def _send(self, request: Request, user: User) -> Response:
        with self._door.kpi.refusals("ask"):
            body = await body_of(request, SendMessage, self._door.limits.frame_bytes)
            parts = [TextPart(text=body.content)]
            session_id = request.path_params["id"]
            turn = Turn(
                parts=parts,
                session_id=session_id,
                client_exchange_id=body.client_exchange_id,
                chat_profile=body.chat_profile,
            )
            with self._door.connections.stream(user.id) as place:
                exchange = await self._door.orchestrator.ask(user, turn, tokens_of(request, user), uuid4().hex)
                events = exchange_events(self._door.relay, exchange, seconds_left(user))
                return EventStream(events, place.pop_all(), self._door.limits.send_timeout_s)

    async def _complete(self, request: Request, user: User) -> Response:
        await body_of(request, Frame, self._door.limits.frame_bytes)
        session = await self._door.sessions.complete(user, request.path_params["id"])
        return json_response(CompletedView(id=session.id, state=session.state, ended_at=session.ended_at))

    async def _cancel(self, request: Request, user: User) -> Response:
        await body_of(request, Frame, self._door.limits.frame_bytes)
        return json_response(CancelledView(cancelled=await self._door.sessions.cancel(user, request.path_params["id"])))


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs") and not character.isspace()


def _profile_views(known: ChatProfiles) -> list[ChatProfileView]:
    return [
        ChatProfileView(name=name, description=profile.description, default=name == known.default_name)
        for name, profile in sorted(known.profiles.items())
    ]


def _agent_view(agent: CatalogAgent, is_default: bool) -> AgentView:
    settings = agent.settings
    return AgentView(
        id=settings.id,
        name=settings.name,
        description=settings.description,
        tags=list(settings.tags),
        starters=list(settings.chat.starters),
        tools=agent.tool_names,
        default=is_default,
    )
