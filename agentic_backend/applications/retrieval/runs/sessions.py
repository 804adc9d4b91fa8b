"""Sessions: the chat sessions of people, their turns, and what becomes of the older ones.

What a turn changes counts whole or not at all. Of two turns at once in one session the second to end is refused.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from agentic_backend.application import (
    AgenticError,
    BudgetExceeded,
    LimitReached,
    ModelError,
    NotFound,
    OwnRecords,
    RecordConflict,
    RecordWrite,
    Stored,
    User,
)
from agentic_backend.applications.retrieval.runs.history import (
    bounded_summary,
    older_turns,
    summarised_text,
    summary_prompt,
)
from agentic_backend.applications.retrieval.runs.profiles import ChatProfile
from agentic_backend.applications.retrieval.runs.records import (
    CHAT_TURNS,
    SESSIONS,
    ChatSession,
    ChatTurn,
)
from agentic_backend.applications.retrieval.runs.reviews import Reviews
from agentic_backend.applications.retrieval.runs.views import HistoryCompacted

if TYPE_CHECKING:
    from agentic_backend.applications.retrieval.application import Retrieval

log = logging.getLogger(__name__)

StoredSession = Stored[ChatSession]

_SUMMARY_S = 60.0
_TRIES = 5
_MADE_ROOM_FOR = 20
"""So many of the oldest records go where there are as many as there may be."""


class Sessions:
    def __init__(self, application: "Retrieval", max_age_s: float) -> None:
        self._application = application
        self._max_age = timedelta(seconds=max_age_s)

    async def get(self, user: User, session_id: str) -> StoredSession:
        """One of the user's that has not expired. Raises NotFound."""
        found = await self.find(user, session_id)
        if found is None or self.has_expired(found):
            raise NotFound("There is no such chat session.")
        return found

    async def whole(self, user: User, session_id: str) -> tuple[StoredSession, list[Stored[ChatTurn]]]:
        """One with its turns in full, as both were at one time. Raises as `get` does."""
        session = await self.get(user, session_id)
        for _ in range(_TRIES):
            turns = await self.turns(user, session)
            again = await self.get(user, session_id)
            if again.value == session.value:
                return session, turns
            session = again
        raise RecordConflict("The session is in use.")

    async def find(self, user: User, session_id: str) -> StoredSession | None:
        """One of the user's, even if it has expired."""
        return await self._of(user).get(session_id)

    def has_expired(self, session: StoredSession) -> bool:
        return datetime.now(UTC) - session.updated_at > self._max_age

    async def all(self, user: User) -> list[StoredSession]:
        """The user's that have not expired, the last one used first."""
        sessions = self._of(user).each("by_age", descending=True)
        return [each async for each in sessions if not self.has_expired(each)]

    async def add(self, user: User, workflow_id: str, chat_profile_id: str) -> StoredSession:
        """A new one; where the user has as many as they may have, the oldest go."""
        session = ChatSession(workflow_id=workflow_id, chat_profile_id=chat_profile_id, last_updated=datetime.now(UTC))
        for _ in range(_TRIES):
            try:
                return await self._of(user).add(session, uuid4().hex)
            except LimitReached:
                page = await self._of(user).find("by_age", limit=_MADE_ROOM_FOR)
                for each in page.records:
                    await self.remove(user, each.key)
        raise LimitReached("You have too many chat sessions.")

    async def remove(self, user: User, session_id: str) -> bool:
        """Remove one with its turns; whether it was there. Raises RecordConflict if turns are added all the time."""
        for _ in range(_TRIES):
            found = await self.find(user, session_id)
            if found is None:
                return False
            turns = self._application.records_of(CHAT_TURNS).of_user(user.id)
            gone = [turns.removing(each) for each in await self.turns(user, found)]
            try:
                # A turn that was added meanwhile has changed the session, so nothing of one is left behind.
                await self._application.write([self._of(user).removing(found), *gone])
            except RecordConflict:
                continue
            return True
        raise RecordConflict("The session is in use.")

    async def turns(self, user: User, session: StoredSession) -> list[Stored[ChatTurn]]:
        """Those that it has in full, the oldest first."""
        own = self._application.records_of(CHAT_TURNS).of_user(user.id)
        return list((await own.find("of", session.key, limit=200)).records)

    def adding(self, user: User, session: StoredSession, turn: ChatTurn, **values: object) -> Sequence[RecordWrite]:
        """The writes that add a turn to the session, which must be as it was read, and change these `values` of it."""
        value = session.value
        changed = value.model_copy(
            update={
                **values,
                "total_turns": turn.turn_number,
                "total_tokens": value.total_tokens + turn.tokens,
                "last_updated": datetime.now(UTC),
            }
        )
        turns = self._application.records_of(CHAT_TURNS).of_user(user.id)
        key = f"{session.key}.{turn.turn_number}"
        return [self._of(user).changing(session, changed), turns.adding(turn, key)]

    async def compact(
        self, user: User, session: StoredSession, profile: ChatProfile
    ) -> tuple[StoredSession, HistoryCompacted | None]:
        """Let older turns give way to a summary, if there are too many; to nothing, if no model can make one.

        Raises BudgetExceeded, and RecordConflict if the session is being changed.
        """
        stored = await self.turns(user, session)
        older = older_turns([each.value for each in stored], profile)
        if not older:
            return session, None
        value = session.value
        summary, covers, failed = value.summary, value.summary_covers_turns, None
        numbers = tuple(turn.turn_number for turn in older)
        try:
            summary = await self._summary(user, session, older, profile)
            covers = (*covers, *numbers)
        except BudgetExceeded:
            raise
        except (AgenticError, TimeoutError) as error:
            failed = error.code if isinstance(error, AgenticError) else "model_timeout"
            log.warning("chat history not summarised", extra={"code": failed})
        changed = value.model_copy(update={"summary": summary, "summary_covers_turns": covers})
        turns = self._application.records_of(CHAT_TURNS).of_user(user.id)
        gone = [turns.removing(each) for each in stored[: len(older)]]
        await self._application.write([self._of(user).changing(session, changed), *gone])
        compacted = await self.get(user, session.key)
        return compacted, HistoryCompacted(session_id=session.key, turns=numbers, failed=failed)

    async def _summary(
        self, user: User, session: StoredSession, older: Sequence[ChatTurn], profile: ChatProfile
    ) -> str:
        """Raises Blocked, and what the model raises."""
        reviews, value = Reviews(self._application, user, session.key), session.value
        text = summarised_text(value.summary, value.summary_covers_turns, older)
        async with asyncio.timeout(_SUMMARY_S):
            summary = await self._application.ask_model(
                summary_prompt(profile), text, user=user, model=profile.summarization_model
            )
        if not summary.strip():
            raise ModelError("The model has given no summary.")
        return bounded_summary((await reviews.answer(summary)).text, profile)

    def _of(self, user: User) -> OwnRecords[ChatSession]:
        return self._application.records_of(SESSIONS).of_user(user.id)
