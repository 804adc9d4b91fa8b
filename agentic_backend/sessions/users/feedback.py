"""FeedbackService: what users say of the answers that they got, one rating with a comment for each answer.

Feedback belongs to the session that has the answer's row. A branch shows the feedback on what it shares, and a change
there is seen in all sessions that share it.
"""

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame, ExchangeNotFound, NotFound
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.messages import Channel, Role
from agentic_backend.sessions.access import owned_session
from agentic_backend.stores.base import Store
from agentic_backend.stores.lineage import spans_of
from agentic_backend.stores.protocol.trail import FeedbackRecord, Rating, TrailQuery
from agentic_backend.stores.records import MessageRecord

_LISTED = 1_000


class FeedbackService:
    """Every method checks that the session is the user's, and raises SessionNotFound if it is not."""

    def __init__(self, store: Store, kpi: Kpi) -> None:
        self._store = store
        self._kpi = kpi

    async def give(self, user: User, session_id: str, rank: int, rating: Rating, comment: str) -> FeedbackRecord:
        """Say this of the answer at `rank`, instead of what was said before.

        Raises NotFound if there is no such message, and BadFrame if it is no answer.
        """
        message = await self._message(user, session_id, rank)
        if (message.role, message.channel) != (Role.ASSISTANT, Channel.FINAL):
            raise BadFrame("rank: only answers take feedback: messages of the assistant on the channel final")
        exchange = await self._store.get_exchange(message.exchange_id)
        if exchange is None:
            raise ExchangeNotFound
        given = FeedbackRecord(
            id=_id_of(message),
            at=self._store.now(),
            session_id=exchange.session_id,
            exchange_id=exchange.id,
            user_id=user.id,
            agent_id=exchange.agent_id,
            rank=rank,
            rating=rating,
            comment=comment,
        )
        await self._store.add_trail([given])
        self._kpi.sessions.rated(exchange.agent_id, rating)
        return given

    async def withdraw(self, user: User, session_id: str, rank: int) -> None:
        """Remove what was said of the message at `rank`, if anything was. Raises NotFound if there is no such one."""
        await self._store.remove_trail(FeedbackRecord, _id_of(await self._message(user, session_id, rank)))

    async def of_session(self, user: User, session_id: str) -> list[FeedbackRecord]:
        """What was said of the session's answers, by rank: the 1,000 last changed ones."""
        found: list[FeedbackRecord] = []
        for span in spans_of(await owned_session(self._store, user.id, session_id)):
            query = TrailQuery(FeedbackRecord, {"session_id": span.session_id}, limit=_LISTED)
            records = (await self._store.trail(query)).records
            found += [one for one in records if span.from_rank <= one.rank < span.below_rank]
        return sorted(found, key=lambda one: one.rank)[-_LISTED:]

    async def _message(self, user: User, session_id: str, rank: int) -> MessageRecord:
        await owned_session(self._store, user.id, session_id)
        found = await self._store.messages_after(session_id, rank - 1, 1)
        if not found or found[0].rank != rank:
            raise NotFound("There is no such message.")
        return found[0]


def _id_of(message: MessageRecord) -> str:
    return f"{message.session_id}.{message.rank}"
