"""The REST calls about sessions: thin adapters to SessionService and SessionOrchestrator; their branches, and what
changes in their list.
"""

from typing import Annotated

from pydantic import Field
from starlette.requests import Request

from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.auth.user import User
from agentic_backend.config.topics.chat_profiles import ChatProfiles
from agentic_backend.disclosure.redaction import redact
from agentic_backend.errors import LimitReached, SessionBusy, SessionNotFound
from agentic_backend.protocol.messages import ExchangeStatus, Session, SessionState
from agentic_backend.protocol.parts import TextPart
from agentic_backend.protocol.views import (
    AgentsView,
    AgentView,
    BranchesView,
    CancelledView,
    ChatProfileView,
    CompletedView,
    ListedSession,
    MessagesView,
    SessionsView,
)
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.sessions.branches import Branches
from agentic_backend.stores.base import SessionChange, SessionQuery
from agentic_backend.stores.records import SessionRecord
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import ATTACHING, OPENING, PREFIX, Operation
from agentic_backend.transports.rest.query_string import Cursor, Name, PageSize, Query, SearchText, WholeNumber
from agentic_backend.transports.rest.rest_input import ChangeSession, ForkSession, NoFields, OpenSession, SendMessage
from agentic_backend.transports.sse import EVENTS, ChatV2Renderer, EventStream, ask_streamed, list_stream


class BranchesApi:
    """The REST calls about branches: sessions that share the beginning of another one."""

    def __init__(self, branches: Branches) -> None:
        self._branches = branches

    def operations(self) -> list[Operation]:
        path, refused = f"{PREFIX}/sessions/{{id}}", (SessionNotFound, SessionBusy, LimitReached, *OPENING)
        return [
            Operation("POST", f"{path}/fork", self.fork_session, status=201, errors=refused),
            Operation("GET", f"{path}/branches", self.list_branches, errors=(SessionNotFound,)),
        ]

    async def fork_session(self, user: User, id: str, body: ForkSession) -> Session:
        """Open a branch, which begins with a session's messages below a rank and goes on on its own."""
        return (await self._branches.fork(user, id, body.rank)).shown()

    async def list_branches(self, user: User, id: str) -> BranchesView:
        """A session's family, the oldest first: the session, what it comes from, and what comes from these."""
        return BranchesView(branches=[one.shown() for one in await self._branches.family(user, id)])


class SessionListEventsApi:
    """The REST call that streams what changes in the list of the caller's sessions.

    Its path comes before that of one session, which it matches too.
    """

    def __init__(self, services: DoorServices) -> None:
        self._door = services

    def operations(self) -> list[Operation]:
        return [Operation("GET", f"{PREFIX}/sessions/events", self.follow_sessions, answer=EVENTS)]

    async def follow_sessions(self, user: User) -> EventStream:
        """Each change of a session of the caller's: `session`, `session_deleted`. Begins with `following_sessions`."""
        with self._door.connections.stream(user.id) as place:
            return list_stream(self._door, user, place)


class ListSessions(Query):
    """A filter of sessions, and a page of what it finds."""

    q: SearchText | None = Field(None, description="Only sessions whose title or messages have this text.")
    agent_id: Name | None = Field(None, description="Only sessions with this agent.")
    state: SessionState | None = Field(None, description="Only sessions in this state.")
    pinned: bool | None = Field(None, description="Only sessions that are pinned, or that are not.")
    archived: bool | None = Field(None, description="Only sessions that are archived, or that are not.")
    limit: Annotated[int, PageSize(200)] = 50
    cursor: Cursor | None = None


class PageOfMessages(Query):
    after_rank: Annotated[int, WholeNumber(-1, 2**53)] = Field(-1, description="Only messages with a higher rank.")
    limit: Annotated[int, PageSize(1_000)] = 200


class SessionsApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._sessions = services.sessions.service

    def operations(self) -> list[Operation]:
        path, found = f"{PREFIX}/sessions/{{id}}", (SessionNotFound,)
        return [
            Operation("GET", f"{PREFIX}/agents", self.list_agents),
            Operation("POST", f"{PREFIX}/sessions", self.open_session, status=201, errors=OPENING),
            Operation("GET", f"{PREFIX}/sessions", self.list_sessions),
            Operation("GET", path, self.get_session, errors=found),
            Operation("PATCH", path, self.change_session, errors=found),
            Operation("DELETE", path, self.delete_session, errors=found),
            Operation("DELETE", f"{path}/state", self.reset_state, errors=(*found, SessionBusy)),
            Operation("GET", f"{path}/messages", self.list_messages, errors=found),
            Operation("POST", f"{path}/messages", self.send_message, answer=EVENTS, errors=ATTACHING, refused_as="ask"),
            Operation("POST", f"{path}/complete", self.complete_session, errors=found),
            Operation("POST", f"{path}/cancel", self.cancel_session, errors=found),
        ]

    async def list_agents(self, user: User) -> AgentsView:
        """The agents that the caller may use, and the chat profiles that may be named."""
        agents = self._door.agents.served_for(user)
        default = self._door.agents.get(None, user) if agents else None
        shown = [_agent_view(agent, agent is default) for agent in agents]
        problems = [redact(problem, self._door.secrets) for problem in self._door.agents.reload_problems(user)]
        return AgentsView(
            agents=shown,
            chat_profiles=_profile_views(self._sessions.chat_profiles),
            reload_problems=problems or None,
        )

    async def open_session(self, user: User, body: OpenSession) -> Session:
        """Open a session."""
        opened = await self._sessions.open(user, body.agent_id, body.title, body.chat_profile, body.scope)
        return opened.shown()

    async def list_sessions(self, user: User, query: ListSessions) -> SessionsView:
        """The caller's sessions, the most recently used first."""
        page = await self._sessions.page(
            SessionQuery(
                user_id=user.id,
                agent_id=query.agent_id,
                state=query.state,
                pinned=query.pinned,
                archived=query.archived,
                text=query.q,
                limit=query.limit,
                cursor=query.cursor,
            )
        )
        statuses = await self._sessions.statuses(page.sessions)
        listed = [_listed(session, statuses.get(session.id)) for session in page.sessions]
        return SessionsView(sessions=listed, next_cursor=page.next_cursor)

    async def get_session(self, user: User, id: str) -> Session:
        """One session."""
        return await self._sessions.get(user, id)

    async def change_session(self, user: User, id: str, body: ChangeSession) -> Session:
        """Give a session another title, pin or archive it; its branches, and what it is a branch of, with it.

        An ask in an archived session takes it out of the archive.
        """
        change = SessionChange(title=body.title, pinned=body.pinned, archived=body.archived)
        return await self._sessions.change(user, id, change)

    async def delete_session(self, user: User, id: str) -> None:
        """Stop what runs in a session, and delete all of it."""
        await self._sessions.delete(user, id)

    async def reset_state(self, user: User, id: str) -> None:
        """Forget what the agents of a session know of it; its messages stay."""
        await self._sessions.reset_state(user, id)

    async def list_messages(self, user: User, id: str, query: PageOfMessages) -> MessagesView:
        """The messages of a session, by rank."""
        session, messages = await self._sessions.messages(user, id, query.after_rank, query.limit)
        return MessagesView(messages=messages, next_rank=session.next_rank)

    async def send_message(self, request: Request, user: User, id: str, body: SendMessage) -> EventStream:
        """Ask in a session. The exchange goes on if its stream is closed."""
        turn = Turn(
            parts=[TextPart(text=body.content)],
            session_id=id,
            client_exchange_id=body.client_exchange_id,
            chat_profile=body.chat_profile,
            attachments=body.attachments,
        )
        return await ask_streamed(self._door, request, user, turn, ChatV2Renderer(), current_origin().request_id)

    async def complete_session(self, user: User, id: str, body: NoFields) -> CompletedView:
        """Stop what runs in a session, and complete it: no more is asked in it.

        Answers when it has stopped, or after three seconds, where the server that runs it stands still.
        """
        session = await self._sessions.complete(user, id)
        return CompletedView(id=session.id, state=session.state, ended_at=session.ended_at)

    async def cancel_session(self, user: User, id: str, body: NoFields) -> CancelledView:
        """Stop what runs in a session. Answers when it has stopped."""
        return CancelledView(cancelled=await self._sessions.cancel(user, id))


def _listed(session: SessionRecord, status: ExchangeStatus | None) -> ListedSession:
    return ListedSession(**dict(session.shown()), status=status)


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
        icon=settings.icon,
        description=settings.description,
        tags=list(settings.tags),
        starters=list(settings.chat.starters),
        tools=agent.tool_names,
        default=is_default,
    )
