"""The door: the calls by which runs are made and followed, and chat sessions read and deleted."""

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from agentic_backend.application import (
    AgentNotFound,
    AgentUnavailable,
    Blocked,
    BudgetExceeded,
    Call,
    Forbidden,
    LimitReached,
    ModelError,
    ModelQuota,
    ModelRefusedKey,
    ModelTimeout,
    NotFound,
    Overloaded,
    RateLimited,
    RecordConflict,
    Stored,
    User,
)
from agentic_backend.applications.retrieval.runs.profiles import DEFAULT, Profiles, RunSettings
from agentic_backend.applications.retrieval.runs.records import ChatTurn
from agentic_backend.applications.retrieval.runs.runs import Runs
from agentic_backend.applications.retrieval.runs.sessions import Sessions, StoredSession
from agentic_backend.applications.retrieval.runs.views import (
    ChatHistoryView,
    ChatProfiles,
    ChatProfileView,
    ChatSessions,
    ChatSessionView,
    ChatTurnView,
    DeletedChatSession,
    ListedChatSession,
    RunDetails,
    RunEvent,
    RunRequest,
    RunView,
    profile_view,
)

if TYPE_CHECKING:
    from agentic_backend.applications.retrieval.application import Retrieval

_QUIT = "quit"
_TIMEOUT_S = 300
"""Longer than a run may take."""
_ERRORS = (
    NotFound,
    AgentNotFound,
    AgentUnavailable,
    Forbidden,
    Blocked,
    RecordConflict,
    RateLimited,
    Overloaded,
    LimitReached,
    BudgetExceeded,
    ModelTimeout,
    ModelError,
    ModelQuota,
    ModelRefusedKey,
)


class RunsDoor:
    def __init__(self, application: "Retrieval", settings: RunSettings) -> None:
        self._profiles = Profiles(settings)
        self._sessions = Sessions(application, settings.max_session_age_s)
        self._runs = Runs(application, self._profiles, self._sessions)

    def calls(self) -> Sequence[Call]:
        session, profile = "/api/chat/session/{session}", "/api/chat/profiles/{profile}"
        return [
            Call("POST", "/api/run", self.run, errors=_ERRORS, timeout_s=_TIMEOUT_S, at_root=True),
            Call("GET", "/api/run/{run}", self.get_run, errors=[NotFound], at_root=True),
            Call(
                "GET", "/api/run/{run}/stream", self.follow_run, errors=[NotFound], timeout_s=_TIMEOUT_S, at_root=True
            ),
            Call("GET", "/api/chat/sessions", self.list_chat_sessions, at_root=True),
            Call("GET", session, self.get_chat_session, errors=[NotFound, RecordConflict], at_root=True),
            Call("DELETE", session, self.delete_chat_session, errors=[NotFound, RecordConflict], at_root=True),
            Call("GET", "/api/chat/profiles", self.list_chat_profiles, at_root=True),
            Call("GET", profile, self.get_chat_profile, errors=[NotFound], at_root=True),
        ]

    async def aclose(self) -> None:
        await self._runs.aclose()

    async def run(self, user: User, body: RunRequest) -> RunView:
        """Answer a question from the documents that the user may read, alone or as a turn of a chat session."""
        if body.mode == "chat" and body.query.casefold() == _QUIT:
            if body.session_id is not None:
                await self._delete(user, body.session_id)
            return RunView(status="terminated", session_id=body.session_id)
        return await self._runs.run(user, body)

    async def get_run(self, user: User, run: str) -> RunDetails:
        """A run, and what has happened in it so far."""
        return await self._runs.get(user, run)

    async def follow_run(self, user: User, run: str) -> AsyncIterator[RunEvent]:
        """What has happened in a run, and then what happens, until it ends."""
        async for event in self._runs.follow(user, run):
            yield event

    async def list_chat_sessions(self, user: User) -> ChatSessions:
        """The user's chat sessions, the last one used first."""
        sessions = [
            ListedChatSession(
                session_id=each.key,
                total_turns=each.value.total_turns,
                created_at=each.created_at,
                last_updated=each.updated_at,
            )
            for each in await self._sessions.all(user)
        ]
        return ChatSessions(sessions=sessions, total=len(sessions))

    async def get_chat_session(self, user: User, session: str) -> ChatSessionView:
        """A chat session with its history."""
        return _session_view(*await self._sessions.whole(user, session))

    async def delete_chat_session(self, user: User, session: str) -> DeletedChatSession:
        """Delete a chat session."""
        await self._delete(user, session)
        return DeletedChatSession(session_id=session)

    async def list_chat_profiles(self, user: User) -> ChatProfiles:
        """The chat profiles that there are."""
        views = [profile_view(name, profile) for name, profile in self._profiles.chats.items()]
        return ChatProfiles(profiles=views, default_profile=DEFAULT)

    async def get_chat_profile(self, user: User, profile: str) -> ChatProfileView:
        """One chat profile."""
        found = self._profiles.chats.get(profile)
        if found is None:
            raise NotFound(f"There is no chat profile '{profile}'.")
        return profile_view(profile, found)

    async def _delete(self, user: User, session_id: str) -> None:
        if not await self._sessions.remove(user, session_id):
            raise NotFound("There is no such chat session.")


def _session_view(session: StoredSession, turns: Sequence[Stored[ChatTurn]]) -> ChatSessionView:
    value = session.value
    return ChatSessionView(
        session_id=session.key,
        history=ChatHistoryView(
            turns=[
                ChatTurnView(
                    turn_number=each.value.turn_number,
                    query=each.value.query,
                    answer=each.value.answer,
                    run_id=each.value.run_id,
                    timestamp=each.created_at,
                    tokens=each.value.tokens,
                )
                for each in turns
            ],
            summary=value.summary,
            summary_covers_turns=list(value.summary_covers_turns),
            total_turns=value.total_turns,
        ),
        created_at=session.created_at,
        last_updated=session.updated_at,
        total_tokens=value.total_tokens,
        workflow_id=value.workflow_id,
        chat_profile_id=value.chat_profile_id,
    )
