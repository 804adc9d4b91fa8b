"""The feedback calls: what a user says of the answers that they got, and for admins what all users say."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentic_backend.auth.user import User
from agentic_backend.errors import ExchangeNotFound, SessionNotFound
from agentic_backend.policy.admin_reads import AdminReads
from agentic_backend.protocol.frames import Frame
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.protocol.views import FeedbackView, SessionFeedbackView
from agentic_backend.sessions.users.feedback import FeedbackService
from agentic_backend.stores.protocol.trail import FeedbackRecord
from agentic_backend.transports.rest.operation import PREFIX, Operation
from agentic_backend.transports.rest.query_string import Cursor, Name, PageSize, Query
from agentic_backend.transports.rest.rest_input import rank_of


class GiveFeedback(Frame):
    """What the user says of an answer."""

    rating: Literal["up", "down"]
    comment: Annotated[str, StringConstraints(strip_whitespace=True, max_length=4_000)] = Field(
        default="", repr=False, examples=["The second source is out of date."]
    )


class FeedbackOfUser(FeedbackView):
    """Feedback as admins see it."""

    user_id: str
    session_id: str
    """The session that has the answer's row."""
    agent_id: str
    """The agent that was asked."""


class FeedbackOfUsersView(Value):
    """A page of feedback, the last first. `next_cursor` is for the next page, and absent on the last one."""

    feedback: list[FeedbackOfUser]
    next_cursor: str | None = absent()


class FeedbackOfUsers(Query):
    """A filter of feedback, and a page of what it finds."""

    agent_id: Name | None = Field(None, description="Only on answers of this agent.")
    rating: Literal["up", "down"] | None = Field(None, description="Only with this rating.")
    user_id: Name | None = Field(None, description="Only by this user.")
    session_id: Name | None = Field(None, description="Only on answers of this session.")
    limit: Annotated[int, PageSize(200)] = 50
    cursor: Cursor | None = None


class FeedbackApi:
    def __init__(self, feedback: FeedbackService, reads: AdminReads) -> None:
        self._feedback = feedback
        self._reads = reads

    def operations(self) -> list[Operation]:
        session = f"{PREFIX}/sessions/{{id}}"
        path, found = f"{session}/messages/{{rank}}/feedback", (SessionNotFound,)
        return [
            Operation("PUT", path, self.give_feedback, errors=(*found, ExchangeNotFound)),
            Operation("DELETE", path, self.withdraw_feedback, errors=found),
            Operation("GET", f"{session}/feedback", self.list_feedback, errors=found),
            Operation("GET", f"{PREFIX}/admin/feedback", self.list_feedback_of_users),
        ]

    async def give_feedback(self, user: User, id: str, rank: str, body: GiveFeedback) -> FeedbackView:
        """Say what an answer was like; it replaces what was said of it before."""
        return _view(await self._feedback.give(user, id, rank_of(rank), body.rating, body.comment))

    async def withdraw_feedback(self, user: User, id: str, rank: str) -> None:
        """Take back what was said of an answer."""
        await self._feedback.withdraw(user, id, rank_of(rank))

    async def list_feedback(self, user: User, id: str) -> SessionFeedbackView:
        """What the caller has said of a session's answers, by rank: the 1,000 last changed ones."""
        return SessionFeedbackView(feedback=[_view(each) for each in await self._feedback.of_session(user, id)])

    async def list_feedback_of_users(self, query: FeedbackOfUsers) -> FeedbackOfUsersView:
        """What users say of answers, the last first."""
        where = query.model_dump(include={"agent_id", "rating", "user_id", "session_id"}, exclude_none=True)
        page = await self._reads.feedback(where, query.limit, query.cursor)
        shown = [
            FeedbackOfUser(
                **_view(each).model_dump(), user_id=each.user_id, session_id=each.session_id, agent_id=each.agent_id
            )
            for each in page.records
        ]
        return FeedbackOfUsersView(feedback=shown, next_cursor=page.next_cursor)


def _view(given: FeedbackRecord) -> FeedbackView:
    return FeedbackView(
        rank=given.rank, exchange_id=given.exchange_id, rating=given.rating, comment=given.comment, at=given.at
    )
